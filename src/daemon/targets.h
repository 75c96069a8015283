/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h -- processes that the daemon watches on request, and stack recordings.
 *
 * A recording is a thread that writes a .gsp file to the output folder. The file can be read while
 * it is written, and after the daemon was killed.
 *
 * Threads: any, concurrently.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "daemon/sessions_stacks.h"

#define GSP_TARGETS_MAX    1024U
#define GSP_RECORDINGS_MAX 64U

struct gsp_targets; /* opaque */

/* Recordings that belong to a session are noted in sessions, which must outlive targets. */
GSP_MUST_CHECK int gsp_daemon__targets_open(const char *output_dir, struct gsp_sessions *sessions,
                                            struct gsp_targets **out, struct gsp_err *err);
/* Ends the recordings. No new one starts afterwards. */
void gsp_daemon__targets_stop(struct gsp_targets *targets);  /* NULL does nothing */
void gsp_daemon__targets_close(struct gsp_targets *targets); /* NULL does nothing */

/* Returns whether the process exists, whichever user owns it. */
bool gsp_daemon__process_exists(int32_t pid);
/* Fails with NOPROC, LIMIT. */
GSP_MUST_CHECK int gsp_daemon__targets_attach(struct gsp_targets *targets, int32_t pid,
                                              struct gsp_err *err);
/* Fails with NOPROC if it is not attached. */
GSP_MUST_CHECK int gsp_daemon__targets_detach(struct gsp_targets *targets, int32_t pid,
                                              struct gsp_err *err);
/* Adds the attached processes to an array of pids, and makes it sorted and unique. */
GSP_MUST_CHECK int gsp_daemon__targets_add_pids(struct gsp_targets *targets, int32_t **pids,
                                                size_t *count);

struct gsp_recording_request {
    int32_t pid;
    double rate_hz;
    int64_t duration_ns; /* 0: until the session or the process ends */
    const char *session; /* "": none */
    const char *stem;    /* the file is <stem>.gsp */
    bool native;
    bool subprocesses;
};

/* Starts a recording and returns the name of its file. Fails with NOPROC, PERM, NOTPY, VERSION
 * (the target), LIMIT, NOWRITE. */
GSP_MUST_CHECK int gsp_daemon__targets_record(struct gsp_targets *targets,
                                              const struct gsp_recording_request *order,
                                              char file[300], struct gsp_err *err);
/* Continues what the previous daemon was recording for sessions, because the client that started
 * them was allowed to. If that is not possible, the session reports the error. */
void gsp_daemon__targets_resume(struct gsp_targets *targets);
/* Tells the recordings of a session to stop, and does not wait for them. */
void gsp_daemon__targets_stop_session(struct gsp_targets *targets, const char *session);
/* Ends the recordings of a session and waits until their files are complete. */
void gsp_daemon__targets_end_session(struct gsp_targets *targets, const char *session);
/* Call this about once a second: removes attached processes that have ended, and joins threads.
 * Returns true if it removed a process. */
bool gsp_daemon__targets_maintain(struct gsp_targets *targets);

/* "targets": [...], "recordings": [...], as members of an open object. */
void gsp_daemon__targets_json(struct gsp_targets *targets, struct gsp_json *json);
/* Gets the file of the newest recording of pid, or of any process if pid is 0. Returns false if
 * none exists. */
bool gsp_daemon__targets_file(struct gsp_targets *targets, int32_t pid, char file[300]);
