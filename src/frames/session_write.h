/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_write.h -- writes a session file: metadata, metric frames, statistics, losses.
 *
 * Memory does not grow with the number of frames. The file has a temporary name until it is
 * complete. session_format.h has the format.
 *
 * Threads: any; it reads the frame log.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "frames/log.h"

struct gsp_session_file_spec {
    const char *name;
    const char *host;
    struct gsp_sv labels; /* a JSON object, or empty */
    const int32_t *pids;
    size_t pid_count;
    struct gsp_sv stacks; /* a JSON array of stack files, or empty */
    uint32_t stack_gaps;
    int64_t stack_gap_ns;
    int64_t start_ns; /* CLOCK_REALTIME */
    int64_t end_ns;
    uint64_t first_frame;
    uint64_t last_frame; /* less than first_frame: no frames */
};

/* Whether a regular file, not a link, says that it is the file of a session of that name. Reads
 * only its start. */
bool gsp_frames_session_is(const char *path, const char *name);
bool gsp_frames_session_fd_is(int fd, const char *name);

/* Fails with EXISTS (unless replace), NOWRITE, IO, NOMEM. The file is complete afterwards, but not
 * yet synced to disk. *frames_written is the number of its frames. */
GSP_MUST_CHECK int gsp_frames_session_write(const struct gsp_session_file_spec *session,
                                            struct gsp_frame_log *frames, const char *path,
                                            bool replace, uint64_t *frames_written,
                                            struct gsp_err *err);
