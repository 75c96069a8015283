/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perm.h -- what gsprof is permitted to do to a process, as far as /proc shows it.
 *
 * Reads:   /proc/self, /proc/<pid>, /proc/sys/kernel and marker files of containers, below a root
 *          folder ("" for the real one, a fixture tree in tests).
 * Gives:   facts. cli/hint.c turns them into advice.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

enum gsp_container {
    GSP_CONTAINER_NONE,
    GSP_CONTAINER_DOCKER,
    GSP_CONTAINER_PODMAN,
    GSP_CONTAINER_KUBERNETES,
    GSP_CONTAINER_LXC,
    GSP_CONTAINER_OTHER,
};

/* A condition that may be unknown. */
enum gsp_answer { GSP_ANSWER_UNKNOWN, GSP_ANSWER_NO, GSP_ANSWER_YES };

#define GSP_PERM_NO_PARANOID INT32_MIN

struct gsp_perm {
    /* This process. */
    int64_t euid;      /* -1 if unknown */
    int yama_scope;    /* kernel.yama.ptrace_scope; -1 without Yama */
    int seccomp;       /* 0 off, 1 strict, 2 filter; -1 if unknown */
    int perf_paranoid; /* kernel.perf_event_paranoid; GSP_PERM_NO_PARANOID if unknown */
    uint64_t caps;     /* CapEff */
    bool sys_ptrace;   /* the capabilities that gsprof uses */
    bool sys_admin;
    bool perfmon;
    bool bpf;
    enum gsp_container container;
    enum gsp_answer in_user_ns; /* the user namespace is not the initial one */
    enum gsp_answer in_pid_ns;  /* the pid namespace is not the initial one */

    /* The target; zero if none was given. */
    pid_t pid;
    bool exists;
    int64_t target_uid;            /* real uid; -1 if unknown */
    enum gsp_answer same_pid_ns;   /* the target is in the same pid namespace */
    enum gsp_answer is_dumpable;   /* inferred from the owner of its files in /proc */
    enum gsp_answer is_descendant; /* of this process */
    pid_t tracer;                  /* pid of its tracer; 0 if it is not traced */
    char state;                    /* as in /proc/<pid>/stat: 'R', 'Z'; 0 if unknown */
};

/* Reads the facts. pid 0: about this process only. Never fails: what cannot be read stays unknown,
 * and a target that does not exist has exists == false. */
void gsp_proc_perm_read(const char *root, pid_t pid, struct gsp_perm *out);

const char *gsp_proc_container_name(enum gsp_container container); /* "docker"; "none" */

/* Checks with the kernel whether this process may read the memory of pid. Reads none of it. Fails
 * with PERM, NOPROC or IO. */
GSP_MUST_CHECK int gsp_proc_perm_check(pid_t pid, struct gsp_err *err);

/* Forks a child and reads a word of its memory, the way the sampler does. Fails with PERM
 * (forbidden even for a child: seccomp, Yama 3), NOTSUP or IO. */
GSP_MUST_CHECK int gsp_proc_perm_selftest(struct gsp_err *err);
