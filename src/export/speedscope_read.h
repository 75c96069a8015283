/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope_read.h -- the reader of speedscope's own file format.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* Fills an empty profile. Each "sampled" or "evented" profile of the file becomes a thread.
 * Fails with FORMAT, LIMIT or NOMEM. */
GSP_MUST_CHECK int gsp_export__speedscope_read(struct gsp_sv bytes, struct gsp_profile *profile,
                                               struct gsp_err *err);
