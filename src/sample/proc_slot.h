/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_slot.h -- one process of a recording: from the first try to attach to its end.
 *
 * Used by: sample/record.c alone.
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

enum gsp_slot_state {
    GSP_SLOT_TRYING, /* not a Python process yet; asked again at next_try_ns */
    GSP_SLOT_PYTHON, /* being sampled */
    GSP_SLOT_NATIVE, /* being sampled by its native frames: it has no interpreter */
    GSP_SLOT_ENDED,
};

/* What is kept of a thread beside what py/ keeps: found by the thread's tag - 1. */
struct gsp_slot_thread {
    uint32_t index; /* in the profile */
    struct gsp_path path;
    uint32_t stack;  /* last one */
    int64_t owed_ns; /* of ticks at which it waited for a CPU: no stack says where */
    bool named;      /* by Python; before that the kernel's name stands */
    unsigned name_tries;
    unsigned judged_name_tries; /* name_tries + 1 when chosen was decided; 0: not yet */
    bool chosen;                /* by its name */
};

struct gsp_slot {
    pid_t pid;
    pid_t ppid;
    pid_t ns_pid; /* as it sees itself; 0 when that is the same or unknown */
    int pidfd;    /* -1: the kernel has none */
    uint64_t start_ticks;
    uint64_t stack_start; /* of the program that was attached to; tells exec */
    enum gsp_slot_state state;
    bool is_root;
    bool is_forked;      /* at the last look there was no exec since the fork */
    bool is_from_python; /* the process that made it was Python */
    bool was_python;
    bool was_sampled;
    int64_t other_since_ns; /* tries found something else than Python from then on; 0: none did */
    int64_t other_seen_ns;  /* and the last of them */
    unsigned tries;
    unsigned bad_looks;   /* running, without one good stack */
    int64_t bad_since_ns; /* the first of them */
    int64_t next_try_ns;
    struct gsp_err last_err; /* of the last try to attach */
    struct gsp_py_target *target;
    struct gsp_stop *stop;
    struct gsp_mixed *mixed; /* NULL: Python frames only */
    bool mixed_failed;
    struct gsp_mem *native_mem; /* of a GSP_SLOT_NATIVE */
    /* All of the process, with native frames; without a thread state: tid and states only. */
    struct gsp_py_thread **native_threads;
    size_t native_count;
    int64_t native_listed_ns;
    uint32_t process; /* in the profile; GSP_NO_INDEX before the first sample */
    bool is_back;     /* attached to for the second time: its threads are in the profile */
    unsigned title_tries;
    struct gsp_slot_thread *threads;
    size_t thread_count;
    size_t thread_cap;
};

/* NOPROC if there is no such process. */
GSP_MUST_CHECK int gsp_slot_new(pid_t pid, bool is_root, struct gsp_slot **out,
                                struct gsp_err *err);
void gsp_slot_free(struct gsp_slot *slot); /* NULL does nothing */

/* Tries to attach; 0, or why not (kept in last_err).  The next try is put off longer each
 * time.  parent: the target of the process that made this one, which saves a search; NULL. */
GSP_MUST_CHECK int gsp_slot_attach(struct gsp_slot *slot, struct gsp_py_target *parent,
                                   int64_t now_ns);
/* Whether it is Python: by a look inside, or as a fork of a Python process that has ended before
 * there could be one. */
bool gsp_slot_is_python(const struct gsp_slot *slot);
/* Whether it was seen to live as something else for long enough to say so: an interpreter that
 * starts, or a child on its way to exec, looks like that for a moment. */
bool gsp_slot_is_other(const struct gsp_slot *slot);
/* Whether it is Python, as far as could be seen: also one whose interpreter has only begun. */
bool gsp_slot_is_early(const struct gsp_slot *slot);
/* Lets go of the target, to be tried again: after exec, or when it makes no sense any more. */
void gsp_slot_detach(struct gsp_slot *slot, int64_t now_ns);
/* Is it still the same living process? */
bool gsp_slot_is_alive(const struct gsp_slot *slot);

/* The slot's note of a thread; adds process and thread to the profile at first sight.
 * NULL when there is no memory (err tells). */
struct gsp_slot_thread *gsp_slot_thread_of(struct gsp_slot *slot, struct gsp_py_thread *thread,
                                           struct gsp_profile *profile, struct gsp_err *err);

/* Asks the target for the names of threads that have none yet; changed is called for each
 * that got one. */
void gsp_slot_name_threads(struct gsp_slot *slot, struct gsp_profile *profile,
                           void (*changed)(void *user, uint32_t thread), void *user);

/* Takes over the command line of a program that another one has become by exec; changed is called
 * if it is another. */
void gsp_slot_name_process(struct gsp_slot *slot, struct gsp_profile *profile,
                           void (*changed)(void *user, uint32_t process), void *user);
