/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof.h -- names shared by the writer and the reader of pprof.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* File names of mappings, which give the kind of a frame. Python frames are in the mapping of the
 * program. */
#define GSP_PPROF_NATIVE    "[native]"
#define GSP_PPROF_BRIDGED   "[native, bridged]"
#define GSP_PPROF_KERNEL    "[kernel]"
#define GSP_PPROF_MARK      "[gsprof]"

/* Keys of the labels of a sample. */
#define GSP_PPROF_THREAD    "thread"
#define GSP_PPROF_THREAD_ID "thread_id"
#define GSP_PPROF_PID       "pid"

GSP_MUST_CHECK int gsp_export__pprof_read(struct gsp_sv bytes, struct gsp_profile *profile,
                                          struct gsp_err *err);
