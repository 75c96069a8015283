/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric_frames.h -- the frame log as the table session.frame, one row per value.
 *
 * Maps the segments of the log and copies values only when a query reads them, so that days of
 * metric frames take no memory. Runs in the query worker, beside the daemon that writes the log.
 *
 * Threads: gsp_source_metric_frames_add() from one thread; the engine's threads read.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "frames/log.h"
#include "store/store.h"

/* The metric frames of a session. */
struct gsp_source_frame_session {
    struct gsp_sv name;
    int64_t start_ns;
    uint64_t first; /* frame id */
    uint64_t last;  /* UINT64_MAX: the session is running */
};

struct gsp_source_frame_log {
    const char *folder; /* the state folder of the daemon */
    const char *host;
    const struct gsp_frame_log_range *stretches; /* in order */
    size_t stretch_count;
    const struct gsp_source_frame_session *sessions; /* newest first */
    size_t session_count;
};

/* Maximum number of session names per metric frame. */
#define GSP_SOURCE_SESSION_NAMES_MAX 32U

/* Adds the table to a store. Leaves out segments that were removed in the meantime.
 * Fails with NOMEM, LIMIT, IO, FORMAT. */
GSP_MUST_CHECK int gsp_source_metric_frames_add(const struct gsp_source_frame_log *log,
                                                struct gsp_store *store, struct gsp_err *err);
