/* SPDX-License-Identifier: Apache-2.0 */
/*
 * later.h -- samples whose native frames have no names yet.
 *
 * Names are found by another thread (native/namer.h).  A sample waits here until all of its own are
 * known, and those behind it wait too, so that samples stay in the order of time.
 *
 * Used by: sample/record.c; sample/mixed.c asks for names.
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

/* A frame of a stack: of the profile, or a ticket for one that is native. */
struct gsp_later_frame {
    uint32_t id;
    bool is_ticket;
    bool bridged;
};

struct gsp_later; /* opaque */

/* Hands out a sample, with its stack. */
typedef int (*gsp_later_fn)(void *user, struct gsp_sample *sample, bool in_gc, struct gsp_err *err);

/* profile is borrowed; fn is called from gsp_later_flush(). */
GSP_MUST_CHECK int gsp_later_new(struct gsp_profile *profile, gsp_later_fn fn, void *user,
                                 struct gsp_later **out, struct gsp_err *err);
/* Before the stores that it was asked about.  NULL does nothing. */
void gsp_later_free(struct gsp_later *later);

/* A ticket for an address; NO_TICKET without memory. */
uint32_t gsp_later_ask(struct gsp_later *later, struct gsp_native *native, uint64_t pc);

/* Adds a sample.  frames: innermost first; NULL when sample->stack is its stack. */
GSP_MUST_CHECK int gsp_later_add(struct gsp_later *later, const struct gsp_sample *sample,
                                 bool in_gc, const struct gsp_later_frame *frames, size_t count,
                                 struct gsp_err *err);
/* Hands out what can be handed out; with wait all there is.  Fails as fn does, and with NOMEM. */
GSP_MUST_CHECK int gsp_later_flush(struct gsp_later *later, bool wait, struct gsp_err *err);
