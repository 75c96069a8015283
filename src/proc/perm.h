/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perm.h -- what we may do to a process, as far as it can be told beforehand.
 *
 * Reads:   /proc/self, /proc/<pid>, /proc/sys/kernel and the marks that containers leave, below
 *          a root folder ("" for the real one, a fixture tree in tests).
 * Gives:   facts.  What to do about them is told by cli/hint.c.
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

/* A question that may have no answer: unknown is not no. */
enum gsp_answer { GSP_ANSWER_UNKNOWN, GSP_ANSWER_NO, GSP_ANSWER_YES };

#define GSP_PERM_NO_PARANOID INT32_MIN

struct gsp_perm {
    /* Of ourselves. */
    int64_t euid;      /* -1 when unknown */
    int yama_scope;    /* kernel.yama.ptrace_scope; -1 without Yama */
    int seccomp;       /* 0 off, 1 strict, 2 filter; -1 when unknown */
    int perf_paranoid; /* kernel.perf_event_paranoid; GSP_PERM_NO_PARANOID when unknown */
    uint64_t caps;     /* CapEff */
    bool sys_ptrace;   /* the capabilities that matter to us */
    bool sys_admin;
    bool perfmon;
    bool bpf;
    enum gsp_container container;
    enum gsp_answer in_user_ns; /* our user namespace is not the machine's */
    enum gsp_answer in_pid_ns;  /* nor our pid namespace */

    /* Of the target; zero when none was asked for. */
    pid_t pid;
    bool exists;
    int64_t target_uid;            /* real uid; -1 when unknown */
    enum gsp_answer same_pid_ns;   /* it counts processes as we do */
    enum gsp_answer is_dumpable;   /* guessed by who owns its files in /proc */
    enum gsp_answer is_descendant; /* of this process */
    pid_t tracer;                  /* who traces it; 0 when nobody */
    char state;                    /* as in /proc/<pid>/stat: 'R', 'Z', 0 when unknown */
};

/* Looks around.  pid 0: only at ourselves.  What cannot be read stays unknown, so this does
 * not fail; a target that does not exist has exists == false. */
void gsp_perm_look(const char *root, pid_t pid, struct gsp_perm *out);

const char *gsp_container_name(enum gsp_container container); /* "docker"; "none" */

/* May we read the memory of pid now?  Asks the kernel, touches nothing.
 * Fails with PERM, NOPROC or IO. */
GSP_MUST_CHECK int gsp_perm_try(pid_t pid, struct gsp_err *err);

/* Reads a word out of a child made for the purpose, the way the sampler does.
 * Fails with PERM (forbidden even on an own child: seccomp, Yama 3), NOTSUP or IO. */
GSP_MUST_CHECK int gsp_perm_selftest(struct gsp_err *err);
