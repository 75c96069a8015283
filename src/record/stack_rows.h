/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_rows.h -- writes samples and their stacks to two rings: python.stack_sample and
 * python.stack.
 *
 * The frames of a stack are in the ring once, for as long as a sample in the other ring refers to
 * them: a row that is about to be overwritten is written again if its stack is in use. All stacks
 * in use share a budget of rows, so that this ends; a stack that exceeds it is cut to its innermost
 * frames. An idle thread whose stack does not change gets one row per second, whose weight is the
 * time since the previous one.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"

#define GSP_STACK_ROWS_SAMPLES_DEFAULT 6000U
#define GSP_STACK_ROWS_FRAMES_DEFAULT  131072U
/* Rows that are reserved for each stack. */
#define GSP_STACK_ROWS_FRAMES_EACH     6U
#define GSP_STACK_ROWS_CUT_NAME        "(more frames)"

struct gsp_stack_rows; /* opaque */

struct gsp_stack_rows_spec {
    int folder_fd; /* of the ring directory; not kept */
    int32_t pid;
    uint64_t start_time;
    int64_t rank;     /* GSP_NULL_I64: unknown */
    uint32_t samples; /* rows of python.stack_sample; 0: the default */
    uint32_t frames;  /* rows of python.stack, at least 8 for each sample; 0: the default */
};

/* Creates both rings. Fails with USAGE, EXISTS, NOWRITE, NOMEM. */
GSP_MUST_CHECK int gsp_record__stack_rows_open(const struct gsp_stack_rows_spec *spec,
                                               struct gsp_stack_rows **out, struct gsp_err *err);
/* Writes the pending rows of idle threads; the files stay. */
void gsp_record__stack_rows_close(struct gsp_stack_rows *rows); /* NULL does nothing */

/* Sets the profile of the following samples; NULL before it is freed. */
void gsp_record__stack_rows_set_profile(struct gsp_stack_rows *rows,
                                        const struct gsp_profile *profile);
/* Adds a sample with the current time. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_record__stack_rows_add(struct gsp_stack_rows *rows,
                                              const struct gsp_sample *sample, struct gsp_err *err);
