/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof.h -- what the writer and the reader of pprof share.
 *
 * Used by: export/pprof.c, export/pprof_read.c.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"

/* The kind of a frame is told by its mapping's file name; Python's own has the program's. */
#define GSP_PPROF_NATIVE    "[native]"
#define GSP_PPROF_BRIDGED   "[native, bridged]"
#define GSP_PPROF_KERNEL    "[kernel]"
#define GSP_PPROF_MARK      "[gsprof]"

/* Keys of the labels of a sample. */
#define GSP_PPROF_THREAD    "thread"
#define GSP_PPROF_THREAD_ID "thread_id"
#define GSP_PPROF_PID       "pid"

GSP_MUST_CHECK int gsp_pprof__read(struct gsp_sv bytes, struct gsp_profile *profile,
                                   struct gsp_err *err);
