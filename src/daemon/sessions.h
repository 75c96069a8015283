/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions.h -- named intervals of the stream of frames.
 *
 * A session is a name, a first and a last frame, labels.  Each change is a line in the journal,
 * on disk before it is acknowledged; a daemon that was killed reads the journal and goes on.
 * Stopping writes <name>.json: metadata, the frames, statistics.  What the file is made of is
 * kept until the file is safe on disk.
 *
 * Used by: daemon/ routes.
 * Threads: all, at once (one lock; files are written outside it).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "frames/frames.h"

struct gsp_sessions; /* opaque */

struct gsp_sessions_options {
    const char *state_folder;
    const char *output_folder;
    const char *host;
    int64_t keep_ns;   /* finished sessions are listed so long; 0: 7 days */
    uint32_t keep_max; /* and so many; 0: 1,000 */
};

/* Reads the journal.  Fails with IO, NOWRITE, FORMAT (a journal of another version). */
GSP_MUST_CHECK int gsp_sessions_open(const struct gsp_sessions_options *options,
                                     struct gsp_frames *frames, struct gsp_sessions **out,
                                     struct gsp_err *err);
void gsp_sessions_close(struct gsp_sessions *sessions); /* NULL does nothing */

struct gsp_session_start {
    const char *name;     /* NULL: profiling_<time> */
    struct gsp_sv labels; /* a JSON object, or empty */
    const int32_t *pids;  /* watched for the session */
    size_t pid_count;
    double stack_rate_hz; /* 0: GSP_STACK_RATE_HZ */
    bool stacks;          /* keep stack samples of pids */
    bool stack_native;
    bool force; /* a finished session's file is replaced */
};
#define GSP_SESSION_LABELS_MAX (64U << 10) /* bytes */
#define GSP_SESSION_PIDS_MAX   1024U
#define GSP_STACK_RATE_HZ      100.0

struct gsp_session {
    char name[256];
    char file[300]; /* name of the output file in the output folder */
    bool active;
    bool stacks;
    bool failed;      /* the file could not be written (yet): told in error */
    int64_t start_ns; /* CLOCK_REALTIME */
    int64_t end_ns;   /* 0 while active */
    uint64_t first_frame;
    uint64_t last_frame; /* 0 while active */
    uint64_t frame_count;
    uint32_t stack_files;
    uint32_t stack_gaps;  /* in them: while no daemon ran */
    int64_t period_ns;    /* between two frames, now or at its end; 0: not known */
    uint64_t id;          /* no other session has it */
    struct gsp_sv labels; /* of gsp_sessions_list() and _first(): borrowed; else empty */
    char error[240];      /* also when stacks could not be had */
};

/* Whether a name can be a session's: not empty, at most 200 bytes of UTF-8, no '/', no control
 * character, not beginning with '.'.  The message says what is wrong with it. */
GSP_MUST_CHECK int gsp_session_name_check(struct gsp_sv name, struct gsp_err *err);

/* Fails with USAGE (the name, the labels), LIMIT, EXISTS (a session of that name is active),
 * NOWRITE (the journal).  The name of a finished session can be used again: the file gets a suffix
 * (_2, _3, ...) unless force. */
GSP_MUST_CHECK int gsp_sessions_start(struct gsp_sessions *sessions,
                                      const struct gsp_session_start *start,
                                      struct gsp_session *out, struct gsp_err *err);
/* Stops one and writes its file.  Fails with NOFILE (no active session of that name), NOWRITE
 * (the file: the session stays in the log as failed, and is tried again). */
GSP_MUST_CHECK int gsp_sessions_stop(struct gsp_sessions *sessions, const char *name,
                                     struct gsp_session *out, struct gsp_err *err);
/* Stops all active ones, which end at the same moment with the same frame, and writes their files.
 * When all have their end, and before a file is written, ended hears of them (may be NULL).
 * Those that were stopped are in *out, as in gsp_sessions_list(); the caller frees it, also when
 * one of them could not be: fails as gsp_sessions_stop() does, with the first failure. */
struct gsp_sessions_ended {
    void (*tell)(void *ctx, const struct gsp_session *all, size_t count);
    void *ctx;
};
GSP_MUST_CHECK int gsp_sessions_stop_all(struct gsp_sessions *sessions,
                                         const struct gsp_sessions_ended *ended,
                                         struct gsp_session **out, size_t *count,
                                         struct gsp_err *err);
/* The first frame of the active session of that name, or with NULL of the one that began last; 0:
 * none is active. */
uint64_t gsp_sessions_first_frame(struct gsp_sessions *sessions, const char *name);
/* Forgets the newest session of that name: an active one without a file, a finished one with its
 * file.  Fails with NOFILE, EXISTS (its file is being written), NOWRITE. */
GSP_MUST_CHECK int gsp_sessions_delete(struct gsp_sessions *sessions, const char *name,
                                       struct gsp_err *err);

/* A copy of all, active ones first, then the newest; the caller frees *out. */
GSP_MUST_CHECK int gsp_sessions_list(struct gsp_sessions *sessions, struct gsp_session **out,
                                     size_t *count, struct gsp_err *err);
struct gsp_sessions_counts {
    size_t total;
    size_t active;
    size_t failed;
};
/* The first max of that list, or of the failed ones alone, and how many there are: what is asked
 * for often must not cost more with every session.  Worth how many are in out; their labels lie in
 * labels (may be NULL: none), which must be empty. */
size_t gsp_sessions_first(struct gsp_sessions *sessions, bool failed, struct gsp_session *out,
                          size_t max, struct gsp_sessions_counts *counts, struct gsp_buf *labels);
/* The newest session of that name; fails with NOFILE. */
GSP_MUST_CHECK int gsp_sessions_find(struct gsp_sessions *sessions, const char *name,
                                     struct gsp_session *out, struct gsp_err *err);
/* The labels of the session with that id, appended; nothing when it has none or is gone. */
void gsp_sessions_labels(struct gsp_sessions *sessions, uint64_t id, struct gsp_buf *out);
size_t gsp_sessions_active_count(struct gsp_sessions *sessions);
/* Grows whenever a session comes, goes, begins or ends. */
uint64_t gsp_sessions_changes(struct gsp_sessions *sessions);
/* The processes that active sessions want watched, each once; the caller frees *out. */
GSP_MUST_CHECK int gsp_sessions_pids(struct gsp_sessions *sessions, int32_t **out, size_t *count,
                                     struct gsp_err *err);
/* About once a second (CLOCK_REALTIME): retries failed files, makes written ones and the frames
 * safe from a power cut, forgets old finished sessions, moves the log's limit.  Can take as long
 * as writing a file does: not for the thread that collects. */
void gsp_sessions_tend(struct gsp_sessions *sessions, int64_t now_ns);
