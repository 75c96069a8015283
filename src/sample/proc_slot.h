/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_slot.h -- one process of a recording: from the first attempt to attach until its exit.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "proc/stop.h"
#include "py/target.h"
#include "sample/intern.h"
#include "sample/mixed.h"

enum gsp_proc_slot_state {
    GSP_PROC_SLOT_TRYING, /* not a Python process yet; tried again at next_try_ns */
    GSP_PROC_SLOT_PYTHON, /* being sampled */
    GSP_PROC_SLOT_NATIVE, /* being sampled by native frames: it has no interpreter */
    GSP_PROC_SLOT_ENDED,
};

/* Data of a thread beyond that in py/. Its index is the tag of the thread minus 1. */
struct gsp_proc_slot_thread {
    uint32_t index; /* in the profile */
    struct gsp_stack_path path;
    uint32_t stack;  /* the last one */
    int64_t owed_ns; /* weight of ticks at which it waited for a CPU, for the next stack */
    bool named;      /* Python has given a name; until then the kernel's name is used */
    unsigned name_tries;
    unsigned selected_name_tries; /* name_tries + 1 when is_selected was set; 0: not set */
    bool is_selected;             /* by its name */
};

struct gsp_proc_slot {
    pid_t pid;
    pid_t ppid;
    pid_t ns_pid; /* in its own pid namespace; 0: the same or unknown */
    int pidfd;    /* -1: not supported by the kernel */
    uint64_t start_ticks;
    uint64_t stack_start; /* of the attached program; changes with exec */
    enum gsp_proc_slot_state state;
    bool is_root;
    bool is_forked;      /* at the last check it had not called exec since the fork */
    bool is_from_python; /* its parent was Python */
    bool was_python;
    bool was_sampled;
    int64_t other_since_ns; /* since when attempts have found something other than Python; 0: none
                               has */
    int64_t other_seen_ns;  /* the last of these attempts */
    unsigned tries;
    unsigned bad_passes;  /* consecutive passes without a valid stack */
    int64_t bad_since_ns; /* the first of these passes */
    int64_t next_try_ns;
    struct gsp_err last_err; /* of the last attempt to attach */
    struct gsp_py_target *target;
    struct gsp_stop *stop;
    struct gsp_mixed *mixed; /* NULL: Python frames only */
    bool mixed_failed;
    struct gsp_mem *native_mem; /* only GSP_PROC_SLOT_NATIVE */
    /* All threads of the process, if native frames are recorded. Without a thread state: tid and
     * scheduling state only. */
    struct gsp_py_thread **native_threads;
    size_t native_count;
    int64_t native_listed_ns;
    uint32_t process; /* in the profile; GSP_NO_INDEX before the first sample */
    bool is_back;     /* attached a second time: its threads are already in the profile */
    unsigned title_tries;
    struct gsp_proc_slot_thread *threads;
    size_t thread_count;
    size_t thread_cap;
};

/* Fails with NOPROC if no such process exists, NOMEM. */
GSP_MUST_CHECK int gsp_sample__proc_slot_new(pid_t pid, bool is_root, struct gsp_proc_slot **out,
                                             struct gsp_err *err);
void gsp_sample__proc_slot_free(struct gsp_proc_slot *slot); /* NULL does nothing */

/* Tries to attach. Returns 0 or the error, which last_err keeps. Each failure delays the next
 * attempt longer. parent: the target of the parent process, which saves a search; may be NULL. */
GSP_MUST_CHECK int gsp_sample__proc_slot_attach(struct gsp_proc_slot *slot,
                                                struct gsp_py_target *parent, int64_t now_ns);
/* Returns whether the process is Python: gsprof attached to it, or it is a fork of a Python
 * process that ended before gsprof could attach. */
bool gsp_sample__proc_slot_is_python(const struct gsp_proc_slot *slot);
/* Returns whether the process was not Python for long enough to be sure: an interpreter that
 * starts, or a child about to call exec, looks like that for a moment. */
bool gsp_sample__proc_slot_is_other(const struct gsp_proc_slot *slot);
/* Returns whether the process is Python or has an interpreter that is still starting. */
bool gsp_sample__proc_slot_is_early(const struct gsp_proc_slot *slot);
/* Closes the target, to attach again: after exec, or when its memory makes no sense any more. */
void gsp_sample__proc_slot_detach(struct gsp_proc_slot *slot, int64_t now_ns);
/* Returns whether the same process is still alive. */
bool gsp_sample__proc_slot_is_alive(const struct gsp_proc_slot *slot);

/* Returns the data of a thread. Adds process and thread to the profile on the first call.
 * Returns NULL if memory runs out (see err). */
struct gsp_proc_slot_thread *gsp_sample__proc_slot_get_thread(struct gsp_proc_slot *slot,
                                                              struct gsp_py_thread *thread,
                                                              struct gsp_profile *profile,
                                                              struct gsp_err *err);

/* Reads the names of threads that have none yet from the target; calls changed for each thread
 * that got one. */
void gsp_sample__proc_slot_name_threads(struct gsp_proc_slot *slot, struct gsp_profile *profile,
                                        void (*changed)(void *user, uint32_t thread), void *user);

/* Updates the name and command line of a process after exec or a title change; calls changed if
 * they differ. */
void gsp_sample__proc_slot_name_process(struct gsp_proc_slot *slot, struct gsp_profile *profile,
                                        void (*changed)(void *user, uint32_t process), void *user);
