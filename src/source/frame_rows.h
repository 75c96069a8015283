/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames_rows.h -- the log of frames as the table session.frame, one row for each value.
 *
 * Reads:   the segments on disk, where they are; nothing is copied before a query wants it, so
 *          days of frames take no memory.
 * Used by: query_worker.c, in a process of its own beside the daemon that writes the log.
 * Threads: made by one; read by the engine's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "frames/frames.h"
#include "store/store.h"

/* A session's stretch of frames. */
struct gsp_frames_session {
    struct gsp_sv name;
    int64_t start_ns;
    uint64_t first;
    uint64_t last; /* UINT64_MAX: it goes on */
};

struct gsp_frames_log {
    const char *folder; /* the state folder of the daemon */
    const char *host;
    const struct gsp_frames_stretch *stretches; /* in order */
    size_t stretch_count;
    const struct gsp_frames_session *sessions; /* the newest first */
    size_t session_count;
};

/* Names of sessions that one frame shows. */
#define GSP_FRAMES_SESSIONS_SHOWN 32U

/* A segment that was removed meanwhile is left out.  Fails with NOMEM, LIMIT, IO, FORMAT. */
GSP_MUST_CHECK int gsp_frames_add_rows(const struct gsp_frames_log *log, struct gsp_store *store,
                                       struct gsp_err *err);
