/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h -- the stacks of all threads of a process, now or when its core file was written.
 *
 * Text is UTF-8 from the target: it can contain NULs and control characters.
 *
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
    struct gsp_sv value; /* the beginning of its repr() */
    bool is_arg;
};

struct gsp_dump_frame {
    struct gsp_sv name; /* qualified */
    struct gsp_sv file;
    uint32_t line;     /* 0 when unknown */
    int is_entry;      /* 1 if C code entered the interpreter with it, 0 if not, -1 unknown */
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
    bool on_cpu; /* running or runnable; false for a core, where it is unknown */
    bool has_gil;
    bool torn;            /* the stack kept changing; the frames are those of the last attempt */
    char state;           /* the kernel's: 'R', 'S', 'D', …; 0 unknown */
    uint32_t interpreter; /* 0 is the main one */
    const struct gsp_dump_frame *frames; /* innermost first */
    size_t frame_count;
};

/* An asyncio task or a greenlet: several of them share one thread. */
struct gsp_dump_task {
    bool is_greenlet;
    struct gsp_sv name;
    const char *state;       /* "waiting"; static */
    struct gsp_sv waits_for; /* a task's name or a future's type; empty: none, or unknown */
    bool waits_for_task;
    struct gsp_sv parent; /* of a greenlet: the one that continues when it ends; empty: none */
    uint64_t python_id;   /* of its thread; 0 unknown */
    const struct gsp_dump_frame *frames; /* innermost first; none for a running greenlet */
    size_t frame_count;
};

struct gsp_dump {
    bool is_core;
    int signal;             /* of a core: the signal that ended the process; 0 none, or unknown */
    pid_t signal_tid;       /* the thread that received it; 0 unknown */
    uint64_t missing_bytes; /* of a core: bytes of memory missing from a truncated file */
    pid_t pid;
    pid_t ppid;
    pid_t ns_pid; /* in its own pid namespace; 0: the same as ours, or unknown */
    const char *cmdline;
    const char *role; /* "rank 3: pt_data_worker: ", or "" */
    const char *name; /* the kernel's */
    const char *exe;
    char version[32];                      /* "3.11.7"; "" if no interpreter was read */
    const struct gsp_dump_thread *threads; /* main first, then by id */
    size_t thread_count;
    const struct gsp_dump_task *tasks;
    size_t task_count;
    bool is_cut;       /* the rest is left out: it needs more memory than a dump may use */
    bool lacks_locals; /* reading them took too long: some frames have none */
    bool lacks_tasks;  /* the same for tasks and greenlets: some are left out */
    /* Of a core with native frames: mapped files that are missing here or are a different build.
     * Their frames are shown as addresses. */
    const char *const *lacking;
    size_t lacking_count;
    /* Of a core: why it has only native frames although it may contain an interpreter; NULL if
     * nothing went wrong. */
    const char *python_problem;
};

struct gsp_dump_opts {
    bool locals;
    bool tasks;    /* also asyncio tasks and greenlets */
    bool blocking; /* stop the threads while they are read */
    bool native;   /* also native frames; each thread may stop for a moment. For a core, also the
                      threads without Python frames. */
    size_t value_bytes_max; /* of the value of one local variable; 0: 128 */
};

/* On success the caller frees *out. Fails with NOPROC, PERM, NOTPY, VERSION, STARTING, FORMAT,
 * NOMEM. */
GSP_MUST_CHECK int gsp_sample_dump_new(pid_t pid, const struct gsp_dump_opts *opts,
                                       struct gsp_dump **out, struct gsp_err *err);
/* The same for a core file. Also fails with NOFILE, IO and LIMIT. */
GSP_MUST_CHECK int gsp_sample_dump_new_core(const char *path, const struct gsp_dump_opts *opts,
                                            struct gsp_dump **out, struct gsp_err *err);
void gsp_sample_dump_free(struct gsp_dump *dump); /* NULL does nothing */
