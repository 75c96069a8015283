/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.h -- the flight recorder: samples a process from outside until it exits, and writes rows
 * to the rings of that process.
 *
 * Gives:   python.stack_sample and python.stack at the rate of gsprof.sample_rate; process.metrics
 *          and the tables of the host every second; process.event, gsprof.loss, gsprof.sampler. The
 *          agent writes all other tables: a ring has one writer. The rows stay readable however the
 *          process ends.
 * Threads: one owner; runs in the calling thread.
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
    double period_s; /* sampling period; 0: no stacks; negative: as set in the control page of the
                      * process, also when that changes */
    double begin_s;  /* with a negative period_s: the period until a control page exists; 0: the
                      * default of the setting */
    bool is_child;   /* our own child: it may not be a Python process yet */
    bool tree;       /* process.metrics also of all descendants */
    bool no_metrics; /* no metrics of processes and of the host */
    const struct gsp_ring_dir_limits
        *limits; /* for rings of exited processes; NULL: the defaults */
    /* Called once when the ring directory and the rings exist; may be NULL. */
    void (*ready)(void *user);
    /* Called a few times per second; may be NULL. */
    void (*poll)(void *user);
    /* Called for each row of a collector before it is written to its ring; may be NULL. */
    void (*row)(void *user, enum gsp_table_id table, const void *row);
    void *user;
    const volatile sig_atomic_t *stop; /* checked a few times per second */
};

struct gsp_follow_result {
    bool has_ended;              /* the process exited; else *stop was set */
    struct gsp_exit_info ending; /* valid if has_ended */
    uint64_t samples;            /* stacks captured */
    uint64_t ticks;              /* sampling passes */
    int64_t cpu_ns;              /* CPU time of the follower */
    struct gsp_err stacks_err;   /* last reason for missing stacks; code 0: none are missing */
    struct gsp_err space_err;    /* why rings could not be created; code 0: all could */
    bool no_space_for_stacks;
    bool no_space_for_metrics; /* or for some of their tables */
};

/* Follows until the process exits or *stop is set; result may be NULL. Does not fail if stacks
 * cannot be read or have no ring. Fails with NOPROC, EXISTS (the process already has a follower),
 * NOWRITE (no ring can be created), PERM, NOTSUP, NOMEM. */
GSP_MUST_CHECK int gsp_record_follow_run(const struct gsp_follow_opts *opts,
                                         struct gsp_follow_result *result, struct gsp_err *err);

/* Whether the process of a ring directory has a follower. */
bool gsp_record__is_followed(const struct gsp_ring_dir *dir);
