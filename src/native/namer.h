/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namer.h -- names of addresses, found by a thread of its own.
 *
 * Symbols and source lines of a large library take a tenth of a second when they are asked for the
 * first time, and more when the file is not in memory: too long between two ticks.
 *
 * Used by: sample/ while it records.
 * Threads: one owner; it has one thread, which opens the files once more and shares nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "native/unwind.h"

#define GSP_NO_TICKET UINT32_MAX

struct gsp_namer; /* opaque */

GSP_MUST_CHECK int gsp_namer_new(struct gsp_namer **out, struct gsp_err *err);
/* Does not wait for names that have not been found.  NULL does nothing. */
void gsp_namer_free(struct gsp_namer *namer);

/* Asks for what is known of pc.  The store of native must outlive the namer.  NO_TICKET without
 * memory. */
uint32_t gsp_namer_ask(struct gsp_namer *namer, struct gsp_native *native, uint64_t pc);
/* What was found, until the namer is freed; NULL: nothing yet. */
const struct gsp_native_symbol *gsp_namer_get(const struct gsp_namer *namer, uint32_t ticket);
/* Waits until there is an answer. */
void gsp_namer_wait(struct gsp_namer *namer, uint32_t ticket);
