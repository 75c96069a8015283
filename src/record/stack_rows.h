/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_rows.h -- samples and their stacks as rows of two rings: python.stack_sample and
 * python.stack.
 *
 * The frames of a stack are in the ring once, and as long as a sample that is still in the other
 * ring refers to it: a row that is about to be overwritten is put again at the front when its
 * stack is in use.  So that this always ends, stacks that are used at one time share a budget of
 * rows; what goes beyond it is cut to its innermost frames.
 * A thread that does not run and stays where it is gets a row a second, which stands for the time
 * since the one before.
 *
 * Used by: follow.c.
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"

#define GSP_STACK_SAMPLES_DEFAULT 6000U
#define GSP_STACK_FRAMES_DEFAULT  131072U
/* Rows that every stack may have, whatever the others take. */
#define GSP_STACK_FRAMES_EACH     6U
#define GSP_STACK_CUT_NAME        "(more frames)"

struct gsp_stack_rows; /* opaque */

struct gsp_stack_rows_spec {
    int folder_fd; /* of the process's rings; not kept */
    int32_t pid;
    uint64_t start_time;
    int64_t rank;     /* GSP_NULL_I64 when unknown */
    uint32_t samples; /* rows of python.stack_sample; 0: the default */
    uint32_t frames;  /* rows of python.stack, at least 8 for each sample; 0: the default */
};

/* Makes both rings.  Fails with USAGE, EXISTS, NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_stack_rows_open(const struct gsp_stack_rows_spec *spec,
                                       struct gsp_stack_rows **out, struct gsp_err *err);
/* Writes what threads that do not run are still owed; the files stay. */
void gsp_stack_rows_close(struct gsp_stack_rows *rows); /* NULL does nothing */

/* The profile that samples are of from now on; NULL before it is freed. */
void gsp_stack_rows_set_profile(struct gsp_stack_rows *rows, const struct gsp_profile *profile);
/* Adds a sample, as of now.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_stack_rows_add(struct gsp_stack_rows *rows, const struct gsp_sample *sample,
                                      struct gsp_err *err);
