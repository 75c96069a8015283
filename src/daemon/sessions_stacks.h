/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions_stacks.h -- the files of stacks that belong to sessions, and what became of them.
 *
 * A file is the recording of one process by one run of the daemon.  Its beginning and its end are
 * lines in the journal, so a daemon that starts knows what the one before was recording: it goes
 * on in a file of its own, and the time between is a gap that the session tells.
 *
 * Used by: daemon/ targets and routes.
 * Threads: all, at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "daemon/sessions.h"

/* Which file of which session. */
struct gsp_stacks_ticket {
    uint64_t session_id; /* 0: of none */
    size_t part;
};

struct gsp_stacks_begin {
    const char *session;
    const char *file; /* in the output folder; "": there is none */
    int32_t pid;
    bool kept; /* until the session ends, not for a time of its own */
};

/* Notes that a file of an active session is begun; safe from a power cut afterwards.
 * Fails with NOFILE (no such active session), NOWRITE (the journal), NOMEM. */
GSP_MUST_CHECK int gsp_sessions_stacks_begin(struct gsp_sessions *sessions,
                                             const struct gsp_stacks_begin *begin,
                                             struct gsp_stacks_ticket *ticket, struct gsp_err *err);

/* How a recording came to its end. */
enum gsp_stacks_how {
    GSP_STACKS_RUN = 'r',     /* it has not */
    GSP_STACKS_ENDED = 'e',   /* with the session, the process, or by an error */
    GSP_STACKS_STOPPED = 'd', /* with the daemon, in order */
    GSP_STACKS_CUT = 'k',     /* with the daemon, which was killed */
};
struct gsp_stacks_end {
    enum gsp_stacks_how how;
    int64_t end_ns;    /* CLOCK_REALTIME */
    int64_t samples;   /* GSP_NULL_I64: not known */
    const char *error; /* "": none */
};
void gsp_sessions_stacks_end(struct gsp_sessions *sessions, const struct gsp_stacks_ticket *ticket,
                             const struct gsp_stacks_end *end);

/* What a daemon that starts has to go on with. */
struct gsp_stacks_wanted {
    char session[256];
    char stem[320]; /* of the file's name */
    int32_t pid;
    uint64_t process_start; /* clock ticks since boot; 0: not known */
    double rate_hz;
    bool native;
};
/* The stem of the file for a process of a session: <file>, or <file>.<pid> when it has several. */
void gsp_stacks_stem(const char *session_file, size_t pid_count, int32_t pid, char out[320]);
/* Before anything is recorded: ends the files of a daemon that was killed, and says which
 * recordings are to go on.  The caller frees *out.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_sessions_stacks_wanted(struct gsp_sessions *sessions,
                                              struct gsp_stacks_wanted **out, size_t *count,
                                              struct gsp_err *err);

/* [{"pid", "file", ...}]: the files of the newest session of that name. */
void gsp_sessions_stacks_json(struct gsp_sessions *sessions, const char *name,
                              struct gsp_json *json);
/* The name of a session's file of stacks: the number-th, from 1 on, or the newest (0); of pid or
 * of any process (0).  False when there is none. */
bool gsp_sessions_stacks_file(struct gsp_sessions *sessions, const char *name, int32_t pid,
                              size_t number, char file[300]);
