/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_input.h -- what the daemon passes to a query worker: its sessions, the location of its
 * frame log, and the parameters of the statement, as a JSON object in an unnamed file.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "daemon/sessions.h"
#include "frames/log.h"
#include "http/body.h"
#include "store/store.h"

struct gsp_query_input {
    const char *host;
    const char *state_dir;
    const struct gsp_session *sessions; /* of gsp_daemon__sessions_list() */
    size_t session_count;
    const struct gsp_frame_log_range *stretches;
    size_t stretch_count;
    struct gsp_sv params; /* JSON; empty: none */
};

void gsp_daemon__query_input_write(const struct gsp_query_input *facts, struct gsp_buf *out);

/* Reads the optional member "params" of a body. The caller frees *out; texts are borrowed from the
 * body. Fails with USAGE, NOMEM. */
GSP_MUST_CHECK int gsp_daemon__query_params_read(const struct gsp_body *body,
                                                 struct gsp_param **out, size_t *count,
                                                 struct gsp_err *err);

/* Adds the tables session.list and session.frame to the store. If the frame log cannot be read, a
 * query of session.frame fails with *trouble, which must live as long as the store. */
GSP_MUST_CHECK int gsp_daemon__query_input_add(const struct gsp_body *facts,
                                               struct gsp_store *store, struct gsp_err *trouble,
                                               struct gsp_err *err);
