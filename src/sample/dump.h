/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h -- the stacks of all threads of a process, now or when its core file was written.
 *
 * Text is UTF-8 as the target has it: it can hold NULs and control characters.
 *
 * Used by: cli/ (dump).
 * Threads: one owner; a dump never changes once made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_dump_local {
    struct gsp_sv name;
    struct gsp_sv value; /* as repr() would begin it */
    bool is_arg;
};

struct gsp_dump_frame {
    struct gsp_sv name; /* qualified */
    struct gsp_sv file;
    uint32_t line;     /* 0 when unknown */
    int is_entry;      /* C code entered the interpreter with it: 1, 0; -1 unknown */
    bool in_generator; /* or coroutine; false when unknown */
    bool is_native;
    bool bridged; /* native, without unwind rules: its caller was found by searching */
    const struct gsp_dump_local *locals;
    size_t local_count;
};

struct gsp_dump_thread {
    uint64_t os_id;     /* kernel thread id, 0 when unknown */
    uint64_t python_id; /* threading.get_ident() */
    struct gsp_sv name; /* empty when unknown */
    bool is_main;
    bool on_cpu; /* running or runnable; of a core: false, it is not known */
    bool has_gil;
    bool torn;            /* the stack kept changing; what is shown is the last try */
    char state;           /* the kernel's: 'R', 'S', 'D', …; 0 unknown */
    uint32_t interpreter; /* 0 is the main one */
    const struct gsp_dump_frame *frames; /* innermost first */
    size_t frame_count;
};

/* What runs in turns on a thread: a task of asyncio, or a greenlet. */
struct gsp_dump_task {
    bool is_greenlet;
    struct gsp_sv name;
    const char *state;       /* "waiting"; static */
    struct gsp_sv waits_for; /* a task's name, or a future's type; empty: nothing, or unknown */
    bool waits_for_task;
    struct gsp_sv parent; /* of a greenlet: the one that goes on when it ends; empty: none */
    uint64_t python_id;   /* of its thread; 0 unknown */
    const struct gsp_dump_frame *frames; /* innermost first; none of a greenlet that runs */
    size_t frame_count;
};

struct gsp_dump {
    bool is_core;
    int signal;             /* of a core: what ended the process; 0 none, or unknown */
    pid_t signal_tid;       /* the thread that it hit; 0 unknown */
    uint64_t missing_bytes; /* of a core: memory that was cut off it */
    pid_t pid;
    pid_t ppid;
    pid_t ns_pid; /* in its own pid namespace; 0: that is ours, or unknown */
    const char *cmdline;
    const char *role; /* "rank 3: pt_data_worker: ", or "" */
    const char *name; /* the kernel's */
    const char *exe;
    char version[32];                      /* "3.11.7"; "" when no interpreter was read */
    const struct gsp_dump_thread *threads; /* main first, then by id */
    size_t thread_count;
    const struct gsp_dump_task *tasks;
    size_t task_count;
    /* Of a core with native frames: mapped files that are not here or are another build, whose
     * frames are addresses. */
    const char *const *lacking;
    size_t lacking_count;
    /* Of a core: why only native frames are there, though it may have had an interpreter; NULL
     * when nothing went wrong. */
    const char *python_problem;
};

struct gsp_dump_opts {
    bool locals;
    bool tasks;             /* tasks of asyncio and greenlets too, if there are any */
    bool blocking;          /* stop the threads while they are read */
    bool native;            /* native frames too; each thread stops for a moment.  Of a core also
                             * the threads that have no Python frames. */
    size_t value_bytes_max; /* of one local's value; 0 for 128 */
};

/* On success *out is the caller's.  Fails with NOPROC, PERM, NOTPY, VERSION, STARTING, FORMAT,
 * NOMEM. */
GSP_MUST_CHECK int gsp_dump_take(pid_t pid, const struct gsp_dump_opts *opts, struct gsp_dump **out,
                                 struct gsp_err *err);
/* The same of a core file.  Fails with NOFILE, IO and LIMIT too. */
GSP_MUST_CHECK int gsp_dump_take_core(const char *path, const struct gsp_dump_opts *opts,
                                      struct gsp_dump **out, struct gsp_err *err);
void gsp_dump_free(struct gsp_dump *dump); /* NULL does nothing */

/* The pids of the tree below pid, itself first, each once; *out is the caller's to free(). */
GSP_MUST_CHECK int gsp_tree_pids(pid_t pid, pid_t **out, size_t *count, struct gsp_err *err);
