/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namer.h -- symbolizes addresses in a background thread.
 *
 * The first lookup in a large library takes a tenth of a second, and longer if the file is not in
 * the page cache: too long between two samples.
 *
 * Threads: one owner. The background thread opens the files itself and shares nothing else.
 */
#pragma once

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "native/unwind.h"

#define GSP_NATIVE_NO_TICKET UINT32_MAX

struct gsp_native_namer; /* opaque */

GSP_MUST_CHECK int gsp_native_namer_new(struct gsp_native_namer **out, struct gsp_err *err);
/* Does not wait for pending requests. NULL does nothing. */
void gsp_native_namer_free(struct gsp_native_namer *namer);

/* Requests the symbol of pc. The store of native must outlive the namer. Returns
 * GSP_NATIVE_NO_TICKET if memory runs out. */
uint32_t gsp_native_namer_request(struct gsp_native_namer *namer, struct gsp_native *native,
                                  uint64_t pc);
/* The symbol, valid until the namer is freed; NULL while the request is pending. */
const struct gsp_native_symbol *gsp_native_namer_get(const struct gsp_native_namer *namer,
                                                     uint32_t ticket);
/* Waits until the request is done. */
void gsp_native_namer_wait(struct gsp_native_namer *namer, uint32_t ticket);
