/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intern.h -- turns the locations of a target's stack into a stack of the profile.
 *
 * The part that the new stack shares with the last stack of the thread, counted from the root, is
 * not looked up again.
 *
 * Threads: one owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "py/target.h"

/* The last stack of one thread, root first. */
struct gsp_stack_path {
    uint32_t *locs;
    uint32_t *stacks; /* the profile's id of the stack that ends here */
    size_t count;
    size_t cap;
    uint64_t epoch; /* the target's epoch for which locs are valid */
};

void gsp_sample__stack_path_free(struct gsp_stack_path *path);

/* The profile's frame of a location. The location's tag caches it. A recording keeps 64 MB of names
 * and a million frames; others become the frame "(more functions)". */
GSP_MUST_CHECK int gsp_sample__frame_intern(struct gsp_py_codes *codes, uint32_t loc,
                                            struct gsp_profile *profile, uint32_t *out,
                                            struct gsp_err *err);

/* Adds a frame to a stack. Fails with LIMIT if the recording has four million stacks and this one
 * is new. *stack is then unchanged: the sample belongs to the caller. */
GSP_MUST_CHECK int gsp_sample__stack_push(struct gsp_profile *profile, uint32_t *stack,
                                          uint32_t frame, struct gsp_err *err);

/* The profile's id of the thread's current stack; GSP_NONE if the stack is empty. */
GSP_MUST_CHECK int gsp_sample__stack_intern(struct gsp_stack_path *path,
                                            struct gsp_py_target *target,
                                            const struct gsp_py_thread *thread,
                                            struct gsp_profile *profile, uint32_t *out,
                                            struct gsp_err *err);
