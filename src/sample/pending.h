/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.h -- samples whose native frames have no names yet.
 *
 * Another thread finds the names (native/namer.h). A sample waits here until all of its names are
 * known, and later samples wait behind it, so that samples stay in time order.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "native/namer.h"

/* A frame of a stack: a frame id of the profile, or the ticket of a native frame. */
struct gsp_pending_frame {
    uint32_t id;
    bool is_ticket;
    bool bridged;
};

struct gsp_pending; /* opaque */

/* Receives a sample with its stack. */
typedef int (*gsp_pending_fn)(void *user, struct gsp_sample *sample, bool in_gc,
                              struct gsp_err *err);

/* profile is borrowed; gsp_sample__pending_flush() calls fn. */
GSP_MUST_CHECK int gsp_sample__pending_new(struct gsp_profile *profile, gsp_pending_fn fn,
                                           void *user, struct gsp_pending **out,
                                           struct gsp_err *err);
/* Call it before the stores of its native frames are freed. NULL does nothing. */
void gsp_sample__pending_free(struct gsp_pending *later);

/* Requests the name of an address. Returns its ticket, or GSP_NATIVE_NO_TICKET if memory runs out.
 */
uint32_t gsp_sample__pending_request(struct gsp_pending *later, struct gsp_native *native,
                                     uint64_t pc);

/* Adds a sample. frames are innermost first; NULL if sample->stack is already set. */
GSP_MUST_CHECK int gsp_sample__pending_add(struct gsp_pending *later,
                                           const struct gsp_sample *sample, bool in_gc,
                                           const struct gsp_pending_frame *frames, size_t count,
                                           struct gsp_err *err);
/* Passes on the samples whose names are known; with wait, waits for all names and passes on all.
 * Fails with the error of fn, and with NOMEM. */
GSP_MUST_CHECK int gsp_sample__pending_flush(struct gsp_pending *later, bool wait,
                                             struct gsp_err *err);
