/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_facts.h -- what the daemon tells a query worker: its sessions, where its frames are, the
 * parameters of the statement.  A JSON object in a file that only the two have.
 *
 * Used by: routes_control.c (writes), query_worker.c (reads).
 * Threads: no state.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "daemon/sessions.h"
#include "frames/frames.h"
#include "http/body.h"
#include "store/store.h"

struct gsp_query_facts {
    const char *host;
    const char *state_dir;
    const struct gsp_session *sessions; /* as gsp_sessions_list() gives them */
    size_t session_count;
    const struct gsp_frames_stretch *stretches;
    size_t stretch_count;
    struct gsp_sv params; /* JSON; empty: none */
};

void gsp_query_facts_put(const struct gsp_query_facts *facts, struct gsp_buf *out);

/* The member "params" of a body as values; none when it is not there.  The caller frees *out;
 * texts are borrowed from the body.  Fails with USAGE (what is wrong with which), NOMEM. */
GSP_MUST_CHECK int gsp_query_params(const struct gsp_body *body, struct gsp_param **out,
                                    size_t *count, struct gsp_err *err);

/* Gives the store session.list and session.frame, of facts that were read.  A log of frames that
 * cannot be read is told to whoever asks for session.frame: *trouble lives as long as the store. */
GSP_MUST_CHECK int gsp_query_facts_add(const struct gsp_body *facts, struct gsp_store *store,
                                       struct gsp_err *trouble, struct gsp_err *err);
