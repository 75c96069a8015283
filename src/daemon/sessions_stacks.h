/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions_stacks.h -- the stack recordings of sessions.
 *
 * A recording is one file, of one process, written during one run of the daemon. Its start and its
 * end are lines in the journal. A new daemon therefore knows what its predecessor was recording and
 * continues in a new file. The session reports the time between the two files as a gap.
 *
 * Threads: any, concurrently.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "daemon/sessions.h"

/* Identifies a recording of a session. */
struct gsp_stacks_id {
    uint64_t session_id; /* 0: of no session */
    size_t part;
};

struct gsp_stacks_begin {
    const char *session;
    const char *file; /* in the output folder; "": none */
    int32_t pid;
    bool kept; /* lasts until the session ends */
};

/* Notes in the journal, and syncs it, that a recording of an active session starts.
 * Fails with NOFILE (no such active session), NOWRITE (the journal), NOMEM. */
GSP_MUST_CHECK int gsp_daemon__sessions_stacks_begin(struct gsp_sessions *sessions,
                                                     const struct gsp_stacks_begin *begin,
                                                     struct gsp_stacks_id *ticket,
                                                     struct gsp_err *err);

/* How a recording ended. */
enum gsp_stacks_how {
    GSP_STACKS_RUN = 'r',     /* it has not ended */
    GSP_STACKS_ENDED = 'e',   /* the session or the process ended, or an error occurred */
    GSP_STACKS_STOPPED = 'd', /* the daemon stopped */
    GSP_STACKS_CUT = 'k',     /* the daemon was killed */
};
struct gsp_stacks_end {
    enum gsp_stacks_how how;
    int64_t end_ns;    /* CLOCK_REALTIME */
    int64_t samples;   /* GSP_NULL_I64: not known */
    const char *error; /* "": none */
};
void gsp_daemon__sessions_stacks_end(struct gsp_sessions *sessions,
                                     const struct gsp_stacks_id *ticket,
                                     const struct gsp_stacks_end *end);

/* A recording that a new daemon has to continue. */
struct gsp_stacks_unfinished {
    char session[256];
    char stem[320]; /* of the file name */
    int32_t pid;
    uint64_t process_start; /* clock ticks since boot; 0: not known */
    double rate_hz;
    bool native;
};
/* The stem of the file for a process of a session: <file>, or <file>.<pid> if the session has
 * several processes. */
void gsp_daemon__stacks_stem(const char *session_file, size_t pid_count, int32_t pid,
                             char out[320]);
/* Call this before any recording starts: ends the recordings of a killed daemon, and returns those
 * that have to continue. The caller frees *out. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_daemon__sessions_stacks_unfinished(struct gsp_sessions *sessions,
                                                          struct gsp_stacks_unfinished **out,
                                                          size_t *count, struct gsp_err *err);

/* [{"pid", "file", ...}]: the recordings of the newest session of that name. */
void gsp_daemon__sessions_stacks_json(struct gsp_sessions *sessions, const char *name,
                                      struct gsp_json *json);
/* Finds the file of a recording: the number-th, from 1, or the newest (0); of pid or of any process
 * (0). Returns false if none exists. */
bool gsp_daemon__sessions_stacks_file(struct gsp_sessions *sessions, const char *name, int32_t pid,
                                      size_t number, char file[300]);
