/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h -- identity and state of processes and threads, from /proc.
 *
 * Reads:   /proc/<pid>/{stat,cmdline,comm,environ,exe,status,task}.
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
    pid_t ns_pid;         /* in the pid namespace of the process; 0 if unknown */
    uint64_t start_ticks; /* since boot; distinguishes the processes that use the same pid */
    uint64_t stack_start; /* start of the main stack, which changes with each exec; 0 if not
                           * readable */
    bool is_forked;       /* no exec since the fork: runs its parent's program */
    char state;           /* 'R', 'S', 'D', 'T', 't', 'Z', 'X' */
    char comm[64];
};

/* Fails with NOPROC, FORMAT or IO. */
GSP_MUST_CHECK int gsp_proc_info(pid_t pid, struct gsp_procinfo *out, struct gsp_err *err);

/* Time since the process started; 0 if unknown. */
int64_t gsp_proc_age_ns(const struct gsp_procinfo *info);
/* Returns false for a child that was forked recently: it may be about to call exec. */
bool gsp_proc_has_settled(const struct gsp_procinfo *info);
/* A forked child that has not called exec by this age counts as settled. */
#define GSP_PROC_SETTLE_NS (100 * 1000000LL)

/* Appends the arguments joined by spaces; "[comm]" if there are none. */
void gsp_proc_cmdline(pid_t pid, struct gsp_buf *out);
/* Appends the value that an environment variable had at exec. Returns false if it was not set or is
 * not readable. */
bool gsp_proc_env(pid_t pid, const char *name, struct gsp_buf *out);
/* The rank in the environment of a process (RANK); false if it has none. */
bool gsp_proc_rank(pid_t pid, int64_t *rank);
/* Finds the process that a process or thread id belongs to, and the parent of that process. Returns
 * false if the id does not exist. Cheaper than gsp_proc_info(). */
bool gsp_proc_parent(pid_t id, pid_t *group, pid_t *ppid);
/* Appends the target of the link /proc/<pid>/exe, without " (deleted)"; nothing if it is not
 * readable. */
void gsp_proc_exe(pid_t pid, struct gsp_buf *out);

/* A thread of a process. */
struct gsp_task {
    pid_t tid;
    pid_t ns_tid; /* in the pid namespace of the process */
};

/* Lists the threads of a process in ascending order. The caller frees *out with free(). Fails with
 * NOPROC or NOMEM. */
GSP_MUST_CHECK int gsp_proc_tasks(pid_t pid, struct gsp_task **out, size_t *count,
                                  struct gsp_err *err);

/* Calls fn for each child of pid (of any of its threads). */
void gsp_proc_children(pid_t pid, void (*fn)(void *user, pid_t child), void *user);

/* Open descriptors of a thread's files in /proc, so that each query is one pread. Any may be -1
 * (closed, or the kernel does not have the file). */
struct gsp_taskfd {
    int stat_fd;
    int sched_fd;
    int syscall_fd;
};

#define GSP_TASKFD_CLOSED ((struct gsp_taskfd){-1, -1, -1})

/* Fails with NOPROC if the thread has ended. */
GSP_MUST_CHECK int gsp_proc_taskfd_open(struct gsp_taskfd *task, pid_t pid, pid_t tid);
void gsp_proc_taskfd_close(struct gsp_taskfd *task);

enum gsp_activity {
    GSP_ACTIVITY_UNKNOWN, /* read the state instead */
    GSP_ACTIVITY_RUNNING, /* or runnable */
    GSP_ACTIVITY_WAITING, /* in a system call */
};

/* The cheapest of these queries: half the cost of gsp_proc_taskfd_state(). */
enum gsp_activity gsp_proc_taskfd_activity(const struct gsp_taskfd *task);
/* Reads the user-space stack pointer of a sleeping thread, and the address of the instruction after
 * the one that entered the kernel. Returns false if the thread runs or they are not available. */
bool gsp_proc_taskfd_sleep_position(const struct gsp_taskfd *task, uint64_t *sp, uint64_t *pc);
/* Returns whether the thread is running or runnable. */
bool gsp_proc_taskfd_is_running(const struct gsp_taskfd *task);
/* 'R', 'S', 'D', …; 0 if the thread has ended. */
char gsp_proc_taskfd_state(const struct gsp_taskfd *task);
/* How often the kernel has put the thread on a CPU. While it stays the same, a thread that was
 * sleeping has not run. 0 if unknown. */
uint64_t gsp_proc_taskfd_slices(const struct gsp_taskfd *task);

/* CPU time of a thread since it started; -1 if it has ended or the kernel does not count it. */
int64_t gsp_proc_task_cpu_ns(pid_t pid, pid_t tid);
/* Appends the kernel's name of a thread; nothing if it has ended. */
void gsp_proc_task_comm(pid_t pid, pid_t tid, struct gsp_buf *out);
