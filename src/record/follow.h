/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.h -- the flight recorder: looks at a process from outside until it ends, and writes what
 * it sees into the process's own rings.
 *
 * Gives:   python.stack_sample and python.stack as often as gsprof.sample_rate says; each second
 *          process.metrics and the tables of the machine; process.event, gsprof.loss,
 *          gsprof.sampler.  No other table: those are the agent's, and a ring has one writer.  What
 * was written is there however the process ends. Used by: cli/ (follow, run). Threads: one owner;
 * runs in the calling thread.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "record/exit_watch.h"
#include "ring/dir.h"
#include "wire/table.h"

struct gsp_follow_opts {
    pid_t pid;
    double period_s; /* between two looks at the stacks, 0 for none; negative: as the control page
                      * of the process says, also when that changes */
    double begin_s;  /* with a negative period_s: the one until a control page is there; 0: that
                      * of the setting */
    bool is_child;   /* our own child: it may not be a Python process yet */
    bool tree;       /* process.metrics of its children too, and of theirs */
    bool no_metrics; /* neither of processes nor of the machine */
    const struct gsp_ring_dir_limits *limits; /* of what ended processes keep; NULL: the usual */
    /* Called once when the process has its folder and rings; may be NULL. */
    void (*ready)(void *user);
    /* Called a few times a second; may be NULL. */
    void (*beat)(void *user);
    /* Sees each row of a collector before it is in its ring; may be NULL. */
    void (*row)(void *user, enum gsp_table_id table, const void *row);
    void *user;
    const volatile sig_atomic_t *stop; /* looked at a few times a second */
};

struct gsp_follow_result {
    bool has_ended;            /* the process; else *stop was set */
    struct gsp_ending ending;  /* when it has */
    uint64_t samples;          /* stacks seen */
    uint64_t ticks;            /* looks */
    int64_t cpu_ns;            /* that this cost */
    struct gsp_err stacks_err; /* why there were no stacks, last; code 0: there were */
    struct gsp_err room_err;   /* why rows had no place; code 0: all had one */
    bool no_room_for_stacks;
    bool no_room_for_metrics; /* or for some tables of them */
};

/* Follows until the process ends or *stop is set; result may be NULL.  That its stacks cannot be
 * read, or have no place, is no failure.  Fails with NOPROC, EXISTS (another one follows it
 * already), NOWRITE (no rings can be made), PERM, NOTSUP, NOMEM. */
GSP_MUST_CHECK int gsp_follow_run(const struct gsp_follow_opts *opts,
                                  struct gsp_follow_result *result, struct gsp_err *err);

/* Whether somebody follows the process whose rings are there. */
bool gsp_follow_is_on(const struct gsp_ring_dir *place);
