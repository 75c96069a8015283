/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_tables.h -- converts a profile to rows: python.stack_sample, python.stack, gsprof.loss.
 *
 * Each sample becomes a row. A profile with totals only gives one row for each thread and stack,
 * with the start time of the profile. Stack ids are those of model/ids.h.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "store/batch.h"
#include "store/store.h"

/* Appends the frames of the used stacks to a batch of python.stack. ids (gsp_model_stack_ids())
 * and used are indexed by stack number. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_store_stack_rows_add(const struct gsp_profile *profile, const int64_t *ids,
                                            const unsigned char *used, struct gsp_batch *batch,
                                            struct gsp_err *err);

/* Receives the rows. take() owns the batch, also if it fails. */
struct gsp_batch_sink {
    int (*take)(void *ctx, struct gsp_batch *batch, struct gsp_err *err);
    void *ctx;
    size_t rows_max; /* in one batch of samples; 0: no limit */
};

/* Makes the rows and passes them to the sink, one table after another. host may be NULL. */
GSP_MUST_CHECK int gsp_store__profile_write(const struct gsp_profile *profile, const char *host,
                                            const struct gsp_batch_sink *sink, struct gsp_err *err);

/* Copies the profile's rows into the store: the caller may free the profile afterwards. */
GSP_MUST_CHECK int gsp_store_add_profile(struct gsp_store *store, const struct gsp_profile *profile,
                                         struct gsp_err *err);
