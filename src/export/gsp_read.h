/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gsp_read.h -- the reader of .gsp files.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* Fills an empty profile. If the file ends early, returns all samples up to there and sets
 * meta.truncated. Fails with FORMAT (the message has the offset of the malformed block), LIMIT or
 * NOMEM. */
GSP_MUST_CHECK int gsp_export__gsp_read(struct gsp_sv bytes, struct gsp_profile *profile,
                                        struct gsp_err *err);
