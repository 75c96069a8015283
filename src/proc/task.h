/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h -- what /proc says of processes and threads: who they are, what state they are in.
 *
 * Reads:   /proc/<pid>/{stat,cmdline,comm,environ,exe,status,task}.
 * Used by: sample/ and cli/.
 * Threads: no shared state; a struct gsp_taskfd belongs to its owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

struct gsp_procinfo {
    pid_t pid;
    pid_t ppid;
    pid_t ns_pid;         /* as the process itself sees it; 0 when unknown */
    uint64_t start_ticks; /* since boot; tells a reused pid from the old process */
    uint64_t stack_start; /* where its program's stack begins: another place after each exec; 0 when
                           * that may not be read */
    bool is_forked;       /* runs its parent's program: there was no exec since the fork */
    char state;           /* 'R', 'S', 'D', 'T', 't', 'Z', 'X' */
    char comm[64];
};

/* Fails with NOPROC, FORMAT or IO. */
GSP_MUST_CHECK int gsp_proc_info(pid_t pid, struct gsp_procinfo *out, struct gsp_err *err);

/* How long ago it began; 0 when that is not known. */
int64_t gsp_proc_age_ns(const struct gsp_procinfo *info);
/* False of a child that was forked a moment ago: it may be about to run another program. */
bool gsp_proc_has_settled(const struct gsp_procinfo *info);
/* After this time a forked child has settled. */
#define GSP_PROC_SETTLE_NS (100 * 1000000LL)

/* Appends the arguments joined by spaces (comm in brackets when there are none). */
void gsp_proc_cmdline(pid_t pid, struct gsp_buf *out);
/* Appends the value that a variable had when the process began its program; false when it was
 * not set, or may not be read. */
bool gsp_proc_env(pid_t pid, const char *name, struct gsp_buf *out);
/* The rank in the environment of a process (RANK); false if it has none. */
bool gsp_proc_rank(pid_t pid, int64_t *rank);
/* The process that a thread's or process's id belongs to, and the parent of that process; false
 * when there is none.  Cheaper than gsp_proc_info(). */
bool gsp_proc_parent(pid_t id, pid_t *group, pid_t *ppid);
/* Appends what /proc/<pid>/exe points to, without " (deleted)"; nothing when it cannot be
 * read. */
void gsp_proc_exe(pid_t pid, struct gsp_buf *out);

/* A kernel thread of a process. */
struct gsp_task {
    pid_t tid;
    pid_t ns_tid; /* as the process itself sees it */
};

/* The threads of a process, ascending; *out is the caller's to free().  NOPROC when gone. */
GSP_MUST_CHECK int gsp_proc_tasks(pid_t pid, struct gsp_task **out, size_t *count,
                                  struct gsp_err *err);

/* Calls fn for each child of pid (of any of its threads). */
void gsp_proc_children(pid_t pid, void (*fn)(void *user, pid_t child), void *user);

/* Kept descriptors of a thread's files in /proc: its state in one pread each.
 * Any may be -1 (closed, or the kernel has no such file). */
struct gsp_taskfd {
    int stat_fd;
    int sched_fd;
    int syscall_fd;
};

#define GSP_TASKFD_CLOSED ((struct gsp_taskfd){-1, -1, -1})

/* NOPROC when the thread is gone. */
GSP_MUST_CHECK int gsp_taskfd_open(struct gsp_taskfd *task, pid_t pid, pid_t tid);
void gsp_taskfd_close(struct gsp_taskfd *task);

enum gsp_activity {
    GSP_ACTIVITY_UNKNOWN, /* only the state tells */
    GSP_ACTIVITY_RUNNING, /* or runnable */
    GSP_ACTIVITY_WAITING, /* in a system call */
};

/* The cheapest of the three: half of what the state costs. */
enum gsp_activity gsp_taskfd_activity(const struct gsp_taskfd *task);
/* Where a thread that sleeps will go on: its stack pointer, and the instruction after the one that
 * entered the kernel.  False when it runs, or it cannot be told. */
bool gsp_taskfd_asleep_at(const struct gsp_taskfd *task, uint64_t *sp, uint64_t *pc);
/* Running or runnable? */
bool gsp_taskfd_is_running(const struct gsp_taskfd *task);
/* 'R', 'S', 'D', …; 0 when the thread is gone. */
char gsp_taskfd_state(const struct gsp_taskfd *task);
/* How many times the kernel has put the thread on a CPU: while it stays the same, a thread
 * that was asleep has not run.  0 when unknown. */
uint64_t gsp_taskfd_slices(const struct gsp_taskfd *task);

/* CPU time of a thread since it began; -1 when it is gone or the kernel does not count it. */
int64_t gsp_task_cpu_ns(pid_t pid, pid_t tid);
/* The kernel's name of a thread; nothing when it is gone. */
void gsp_task_comm(pid_t pid, pid_t tid, struct gsp_buf *out);
