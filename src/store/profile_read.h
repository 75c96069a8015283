/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_read.h -- rows as a profile: the way back from what profile_tables.h makes.
 *
 * Reads python.stack_sample, python.stack, gsprof.sampler and gsprof.loss of a store, whatever
 * feeds it: rings, segments, several processes at once.
 *
 * Used by: cli/ (the profile of a run).
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "store/run.h"
#include "store/store.h"

struct gsp_profile_from {
    int64_t start_ns; /* time 0 of the profile; 0: that of the first sample */
    int64_t end_ns;   /* 0: that of the last one */
    /* What is known of processes beside their rows. */
    const struct gsp_run_process *processes;
    size_t process_count;
    /* Gets each sample, in the order of time, when the profile has all its ids; NULL: it is added
     * to the profile. */
    int (*take)(void *user, const struct gsp_sample *sample, struct gsp_err *err);
    void *user;
};

/* Fills an empty profile from a store that is locked.  No rows give a profile without samples.
 * Fails as gsp_store_query() and gsp_profile_add() do. */
GSP_MUST_CHECK int gsp_store_read_profile(struct gsp_store *store,
                                          const struct gsp_profile_from *from,
                                          struct gsp_profile *profile, struct gsp_err *err);
