/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope_read.h -- the reader of speedscope's own file format.
 *
 * Used by: speedscope.c, which has the format's row.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* Fills an empty profile: a thread per profile of the file, "sampled" or "evented".
 * Fails with FORMAT, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_export__read_speedscope(struct gsp_sv bytes, struct gsp_profile *profile,
                                               struct gsp_err *err);
