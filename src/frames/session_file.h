/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_file.h -- <session>.json: metadata, frames, statistics, losses.
 *
 * Written in one go with flat memory, to a temporary name that is renamed when it is whole.
 * docs/formats/session.md describes it.
 * Used by: daemon/sessions.
 * Threads: any; it reads the log of frames.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "frames/frames.h"

struct gsp_session_file {
    const char *name;
    const char *host;
    struct gsp_sv labels; /* a JSON object, or empty */
    const int32_t *pids;
    size_t pid_count;
    struct gsp_sv stacks; /* a JSON array: files of stacks; or empty */
    uint32_t stack_gaps;
    int64_t stack_gap_ns;
    int64_t start_ns; /* CLOCK_REALTIME */
    int64_t end_ns;
    uint64_t first_frame;
    uint64_t last_frame; /* smaller than first_frame: no frame */
};

/* Fails with EXISTS (unless replace), NOWRITE, IO, NOMEM.  The file has its name afterwards, but is
 * not yet safe from a power cut.  *frames_written: how many frames are in it. */
GSP_MUST_CHECK int gsp_session_file_write(const struct gsp_session_file *session,
                                          struct gsp_frames *frames, const char *path, bool replace,
                                          uint64_t *frames_written, struct gsp_err *err);

/* Local time with milliseconds and zone: 2026-01-31T12:34:56.789+01:00.  Returns out. */
char *gsp_session_time(int64_t ns, char *out, size_t cap);

/* Whether the text is one JSON object, of at most 32 levels. */
bool gsp_session_labels_ok(struct gsp_sv text);
