/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h -- processes that the daemon watches because someone asked for them, and recordings
 * of stacks, each a thread that writes a .gsp file to the output folder.
 *
 * A .gsp file can be read while it is written, and after the daemon was killed.
 * Used by: daemon/ routes.
 * Threads: all, at once.
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

/* Recordings that belong to a session are noted there; sessions outlive targets. */
GSP_MUST_CHECK int gsp_targets_open(const char *output_dir, struct gsp_sessions *sessions,
                                    struct gsp_targets **out, struct gsp_err *err);
/* Ends the recordings; nothing new is begun. */
void gsp_targets_stop(struct gsp_targets *targets);  /* NULL does nothing */
void gsp_targets_close(struct gsp_targets *targets); /* NULL does nothing */

/* Whether there is such a process, of whomever. */
bool gsp_targets_runs(int32_t pid);
/* Fails with NOPROC, LIMIT. */
GSP_MUST_CHECK int gsp_targets_attach(struct gsp_targets *targets, int32_t pid,
                                      struct gsp_err *err);
/* Fails with NOPROC: it was not attached. */
GSP_MUST_CHECK int gsp_targets_detach(struct gsp_targets *targets, int32_t pid,
                                      struct gsp_err *err);
/* Adds the attached processes to an array of pids, each once, sorted. */
GSP_MUST_CHECK int gsp_targets_add_pids(struct gsp_targets *targets, int32_t **pids, size_t *count);

struct gsp_recording_order {
    int32_t pid;
    double rate_hz;
    int64_t duration_ns; /* 0: until its session or its process ends */
    const char *session; /* "" or the session that it belongs to */
    const char *stem;    /* of the file's name: <stem>.gsp */
    bool native;
    bool subprocesses;
};

/* Begins to record; file is the name that the file got.  Fails with NOPROC, PERM, NOTPY, VERSION
 * (the target), LIMIT, NOWRITE. */
GSP_MUST_CHECK int gsp_targets_record(struct gsp_targets *targets,
                                      const struct gsp_recording_order *order, char file[300],
                                      struct gsp_err *err);
/* Goes on with what the daemon before was recording for sessions; what cannot go on is told by the
 * session. */
void gsp_targets_resume(struct gsp_targets *targets, bool allow_control);
/* Ends the recordings of a session, as soon as each of them can; for the rest see below. */
void gsp_targets_stop_session(struct gsp_targets *targets, const char *session);
/* Ends the recordings of a session and waits until their files are whole. */
void gsp_targets_end_session(struct gsp_targets *targets, const char *session);
/* Now and then: forgets attached processes that have ended, and threads.  True when a process was
 * forgotten. */
bool gsp_targets_tend(struct gsp_targets *targets);

/* "targets": [...], "recordings": [...], as members of an open object. */
void gsp_targets_json(struct gsp_targets *targets, struct gsp_json *json);
/* The newest file of stacks, of pid or of any (0); false when there is none. */
bool gsp_targets_file(struct gsp_targets *targets, int32_t pid, char file[300]);
