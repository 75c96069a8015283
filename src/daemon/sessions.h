/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions.h -- named intervals over the metric frames.
 *
 * A session has a name, a first and a last frame, and labels. Each change is a line in the journal,
 * which is on disk before the change is acknowledged. After a kill, the next daemon reads the
 * journal and continues. Stopping a session writes <name>.json with metadata, frames and
 * statistics. The frame log keeps the frames until that file is safe on disk.
 *
 * Threads: any, concurrently. One lock protects the table; files are written without it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "frames/log.h"

struct gsp_sessions; /* opaque */

struct gsp_sessions_options {
    const char *state_folder;
    const char *output_folder;
    const char *host;
    int64_t keep_ns;      /* how long finished sessions stay listed; 0: 7 days */
    uint32_t keep_max;    /* how many of them; 0: 1,000 */
    uint64_t share_bytes; /* of the files of all anonymous sessions; 0: 256 MB */
};

/* Reads the journal. Fails with IO, NOWRITE, FORMAT (a journal of another version). */
GSP_MUST_CHECK int gsp_daemon__sessions_open(const struct gsp_sessions_options *options,
                                             struct gsp_frame_log *frames,
                                             struct gsp_sessions **out, struct gsp_err *err);
void gsp_daemon__sessions_close(struct gsp_sessions *sessions); /* NULL does nothing */

struct gsp_session_start {
    const char *name;     /* NULL: profiling_<time> */
    struct gsp_sv labels; /* a JSON object, or empty */
    const int32_t *pids;  /* processes to watch during the session */
    size_t pid_count;
    double stack_rate_hz; /* 0: GSP_STACK_RATE_HZ */
    bool stacks;          /* record the stacks of pids */
    bool stack_native;
    bool force;     /* replace the file of a finished session */
    bool anonymous; /* the client has shown nothing: the limits below apply */
};
#define GSP_SESSION_LABELS_MAX     (16U << 10) /* bytes */
#define GSP_SESSION_PIDS_MAX       1024U
#define GSP_SESSIONS_ACTIVE_MAX    1024U
#define GSP_STACK_RATE_HZ          100.0
/* Anonymous sessions that may be active at a time. */
#define GSP_SESSIONS_ANONYMOUS_MAX 64U

struct gsp_session {
    char name[256];
    char file[300]; /* in the output folder */
    bool active;
    bool stacks;
    bool failed;      /* the file could not be written yet; see error */
    bool anonymous;   /* a client without trust has started it */
    int64_t start_ns; /* CLOCK_REALTIME */
    int64_t end_ns;   /* 0 while active */
    uint64_t first_frame;
    uint64_t last_frame; /* 0 while active */
    uint64_t frame_count;
    uint32_t stack_files;
    uint32_t stack_gaps;  /* in the stack files, because no daemon ran */
    int64_t period_ns;    /* of the frames, now or at the end of the session; 0: not known */
    uint64_t id;          /* unique */
    struct gsp_sv labels; /* borrowed; only of gsp_daemon__sessions_list() and _first() */
    char error[240];      /* of the file or of a stack recording */
};

/* Checks a session name: 1 to 200 bytes of UTF-8 without '/' and control characters, and no '.' at
 * the start. */
GSP_MUST_CHECK int gsp_daemon__session_name_check(struct gsp_sv name, struct gsp_err *err);

/* Fails with USAGE (the name, the labels), LIMIT, EXISTS (a session of that name is active),
 * NOWRITE (the journal; also ENOSPC
 * for an anonymous session, if these have reached their share of the disk). The name of a finished
 * session can be used again; the file then gets a suffix (_2, _3, ...) unless force is set. */
GSP_MUST_CHECK int gsp_daemon__sessions_start(struct gsp_sessions *sessions,
                                              const struct gsp_session_start *start,
                                              struct gsp_session *out, struct gsp_err *err);
/* Stops a session and writes its file. Fails with NOFILE (no active session of that name), NOWRITE
 * (the file could not be written; gsp_daemon__sessions_maintain() tries again). */
GSP_MUST_CHECK int gsp_daemon__sessions_stop(struct gsp_sessions *sessions, const char *name,
                                             struct gsp_session *out, struct gsp_err *err);
/* Called after all sessions have ended and before a file is written. */
struct gsp_sessions_ended {
    void (*call)(void *ctx, const struct gsp_session *all, size_t count);
    void *ctx;
};
/* Stops all active sessions at the same frame and writes their files. ended may be NULL. *out has
 * the stopped sessions as in gsp_daemon__sessions_list(); the caller frees it, also after a
 * failure. Fails as gsp_daemon__sessions_stop() does, with the first failure. */
GSP_MUST_CHECK int gsp_daemon__sessions_stop_all(struct gsp_sessions *sessions,
                                                 const struct gsp_sessions_ended *ended,
                                                 struct gsp_session **out, size_t *count,
                                                 struct gsp_err *err);
/* Stops all active anonymous sessions if these have reached their share of the disk: the files of
 * the finished ones, and what the files of the active ones would have now. */
void gsp_daemon__sessions_enforce_share(struct gsp_sessions *sessions);
/* The first frame of the active session of that name, or of the newest one (NULL). Returns 0 if no
 * such session is active. */
uint64_t gsp_daemon__sessions_first_frame(struct gsp_sessions *sessions, const char *name);
/* Deletes the newest session of that name, and its file if it has one.
 * If its file is being written, waits up to two seconds.
 * Fails with NOFILE, EXISTS (its file is still being written), NOWRITE. */
GSP_MUST_CHECK int gsp_daemon__sessions_delete(struct gsp_sessions *sessions, const char *name,
                                               struct gsp_err *err);

/* Copies all sessions: active ones first, then newest first. The caller frees *out. */
GSP_MUST_CHECK int gsp_daemon__sessions_list(struct gsp_sessions *sessions,
                                             struct gsp_session **out, size_t *count,
                                             struct gsp_err *err);
struct gsp_sessions_counts {
    size_t total;
    size_t active;
    size_t failed;
};
/* Copies the first max sessions of that list, or of the failed ones, and counts all. Cheaper than
 * gsp_daemon__sessions_list() if there are many sessions. Returns how many are in out. Their labels
 * point into labels, which must be empty; NULL: no labels. */
size_t gsp_daemon__sessions_first(struct gsp_sessions *sessions, bool failed,
                                  struct gsp_session *out, size_t max,
                                  struct gsp_sessions_counts *counts, struct gsp_buf *labels);
/* The newest session of that name; fails with NOFILE. */
GSP_MUST_CHECK int gsp_daemon__sessions_find(struct gsp_sessions *sessions, const char *name,
                                             struct gsp_session *out, struct gsp_err *err);
/* Appends the labels of the session with that id; nothing if it has none or was deleted. */
void gsp_daemon__sessions_labels(struct gsp_sessions *sessions, uint64_t id, struct gsp_buf *out);
size_t gsp_daemon__sessions_active_count(struct gsp_sessions *sessions);
/* A counter that grows whenever a session starts, ends or is deleted. */
uint64_t gsp_daemon__sessions_changes(struct gsp_sessions *sessions);
/* The processes to watch for active sessions, unique. The caller frees *out. */
GSP_MUST_CHECK int gsp_daemon__sessions_pids(struct gsp_sessions *sessions, int32_t **out,
                                             size_t *count, struct gsp_err *err);
/* Call this about once a second with CLOCK_REALTIME: writes failed files again, syncs written files
 * and the frame log, removes old finished sessions, and lets the frame log remove frames. May take
 * as long as writing a file. */
void gsp_daemon__sessions_maintain(struct gsp_sessions *sessions, int64_t now_ns);
