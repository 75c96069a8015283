/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gsp_read.h -- the reader of .gsp files.
 *
 * Used by: gsp.c, which has the format's row.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* Fills an empty profile.  A file that ends early gives what it has, and meta.truncated.
 * Fails with FORMAT and the offset of the bad block, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_export__read_gsp(struct gsp_sv bytes, struct gsp_profile *profile,
                                        struct gsp_err *err);
