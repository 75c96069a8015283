/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hints.h -- the advice in the daemon's answers: member "hint" of an error.
 *
 * This is the only place in the daemon that gives advice, as cli/hint*.c is for the commands. Error
 * messages only state facts.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "daemon/sessions.h"

enum gsp_daemon_hint {
    GSP_HINT_ALLOW_CONTROL,
    GSP_HINT_BODY,
    GSP_HINT_FILE_RETRY,
    GSP_HINT_FLAMEGRAPH,
    GSP_HINT_NEW_NAME,
    GSP_HINT_PATHS,
    GSP_HINT_PID,
    GSP_HINT_QUERY_BODY,
    GSP_HINT_QUERY_LIMITS,
    GSP_HINT_RECORDINGS,
    GSP_HINT_RETRY,
    GSP_HINT_SESSION_NAME,
    GSP_HINT_SESSIONS,
    GSP_HINT_SETTING_VALUE,
    GSP_HINT_SHARE,
    GSP_HINT_STACK_FILES,
    GSP_HINT_STOP_FIRST,
    GSP_HINT_TARGET_PATH,
    GSP_HINT_TOKEN,
    GSP_HINT_TRUST,
    GSP_HINT_LOGIN,
    GSP_HINT_TOKEN_MODE,
    GSP_HINT_COUNT
};

/* A constant text. */
const char *gsp_daemon__hint(enum gsp_daemon_hint hint);
/* The text for an error code (GSP_E_*) if nothing more specific is known, or NULL. */
const char *gsp_daemon__hint_for_error(int code);
/* The text for a refusal by the HTTP server itself ("TOKEN", "HOST", ...), or NULL. */
const char *gsp_daemon__hint_for_refusal(const char *code);

/* Hints with details, appended to out. */
/* The names of the active sessions, which come first in all. */
void gsp_daemon__hint_active(const struct gsp_session *all, size_t count, struct gsp_buf *out);
/* Some of the sessions were stopped, the files of the others could not be written. */
void gsp_daemon__hint_partly_stopped(size_t stopped, struct gsp_buf *out);
/* A setting that does not exist. */
void gsp_daemon__hint_unknown_setting(struct gsp_sv name, struct gsp_buf *out);
/* A setting that cannot change while the daemon runs. */
void gsp_daemon__hint_fixed_setting(size_t setting, struct gsp_buf *out);
/* The position of an error in a statement (line 0: not known) and a similar name ({0}: none). */
void gsp_daemon__hint_query(double line, double column, struct gsp_sv candidate,
                            struct gsp_buf *out);
