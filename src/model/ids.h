/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ids.h -- stack ids, ranks and frame types, as stored tables name them.
 *
 * A stack id is a hash of the stack's frames: equal stacks have equal ids in all recordings.
 *
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* No id, no rank. Equals GSP_NULL_I64 of wire/table.h, the NULL of a stored row. */
#define GSP_ID_NONE INT64_MIN

/* Returns the type name of a frame kind in the tables: "Python", "Native", ... */
const char *gsp_model_frame_type_name(enum gsp_frame_kind kind);
/* Returns the kind with this type name; GSP_FRAME_NATIVE if the name is unknown. */
enum gsp_frame_kind gsp_model_frame_type_find(struct gsp_sv name);

/* Returns the id of a stack. caller_id is the id of its caller's stack; ignored for a root. */
int64_t gsp_model_stack_id(const struct gsp_profile *profile, uint32_t stack, int64_t caller_id);

/* Computes the ids of all stacks of a profile, indexed by the profile's stack number; [0] is
 * GSP_ID_NONE. The caller frees *out. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_model_stack_ids(const struct gsp_profile *profile, int64_t **out,
                                       struct gsp_err *err);

/* Returns the rank at the start of a process name ("rank 3: ..."), or GSP_ID_NONE. */
int64_t gsp_model_rank_of_name(struct gsp_sv process_name);
