/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_tables.h -- a profile as rows: python.stack_sample, python.stack, gsprof.loss.
 *
 * Samples become one row each; a profile that knows only sums gives one row for each thread and
 * stack, at the time the profile begins.
 * A stack's id is a hash of what its frames say, so equal stacks have equal ids in whatever
 * recording they were seen.
 *
 * Used by: cli/ (query on files of profiles), store/run.c.
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

/* What the tables call a kind of frame: "Python", "Native", ... */
const char *gsp_frame_type_name(enum gsp_frame_kind kind);
/* The kind that has this name; one that is not known is native. */
enum gsp_frame_kind gsp_frame_type_find(struct gsp_sv name);

/* The id of one stack, from that of its caller's stack (whatever it is for a root's). */
int64_t gsp_profile_stack_id(const struct gsp_profile *profile, uint32_t stack, int64_t caller_id);

/* The ids of all stacks of a profile, by the profile's own; [0] is GSP_NULL_I64.  The caller
 * frees *out.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_profile_stack_ids(const struct gsp_profile *profile, int64_t **out,
                                         struct gsp_err *err);

/* Appends the frames of the stacks that are used (by the profile's ids) to a batch of python.stack;
 * ids are those of gsp_profile_stack_ids().  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_profile_stack_rows(const struct gsp_profile *profile, const int64_t *ids,
                                          const unsigned char *used, struct gsp_batch *batch,
                                          struct gsp_err *err);

/* The rank that a process's name begins with ("rank 3: ..."); GSP_NULL_I64 without one. */
int64_t gsp_profile_rank(struct gsp_sv process_name);

/* Where the rows go: take owns the batch from then on, also when it fails. */
struct gsp_batch_sink {
    int (*take)(void *ctx, struct gsp_batch *batch, struct gsp_err *err);
    void *ctx;
    size_t rows_max; /* rows of one batch of samples; 0: all in one */
};

/* Makes the rows and hands them on, a table after the other.  host may be NULL: not known. */
GSP_MUST_CHECK int gsp_profile_tables(const struct gsp_profile *profile, const char *host,
                                      const struct gsp_batch_sink *sink, struct gsp_err *err);

/* The profile is not needed afterwards. */
GSP_MUST_CHECK int gsp_store_add_profile(struct gsp_store *store, const struct gsp_profile *profile,
                                         struct gsp_err *err);
