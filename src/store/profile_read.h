/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_read.h -- reads a profile from the tables of a store; the reverse of profile_tables.h.
 *
 * Reads:   python.stack_sample, python.stack, process.metrics, gsprof.sampler, gsprof.loss; from
 *          rings or segments, of one or several processes.
 *
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

struct gsp_profile_source {
    int64_t start_ns; /* time 0 of the profile; 0: time of the first sample */
    int64_t end_ns;   /* 0: time of the last sample */
    /* Names and versions of processes, which the tables do not have. */
    const struct gsp_run_process *processes;
    size_t process_count;
    /* Called for each sample, ordered by time. The profile already has the sample's ids. NULL:
     * the sample is added to the profile. */
    int (*take)(void *user, const struct gsp_sample *sample, struct gsp_err *err);
    void *user;
};

/* Fills an empty profile from a locked store. Without rows the profile has no samples.
 * Fails like gsp_store_query() and gsp_model_profile_add(). */
GSP_MUST_CHECK int gsp_store__profile_read(struct gsp_store *store,
                                           const struct gsp_profile_source *from,
                                           struct gsp_profile *profile, struct gsp_err *err);
