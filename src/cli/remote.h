/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h -- a command's connection to a daemon. Prints answers and errors.
 *
 * Requests, tables and parsing are in client/. A function here that returns "an exit status" has
 * printed its error; the status is 0 for success.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/common.h"
#include "cli/options.h"
#include "cli/rows_out.h"
#include "http/body.h"
#include "model/rows.h"
#include "store/store.h"

struct gsp_remote_opts {
    const char *token;
    const char *token_file;
};

/* Rows for the option table of a command whose struct has a member `remote`. */
#define GSP_OPT_TOKEN(type)                                                                        \
    {                                                                                              \
        .name = "token", .kind = GSP_OPT_TEXT, .offset = offsetof(type, remote.token),             \
        .arg = "TOKEN",                                                                            \
        .help = "Access token. Other users can see it in the process list; prefer --token-file, "  \
                "GSPROF_TOKEN or, for this machine, $XDG_CONFIG_HOME/gsprof/token."                \
    }
#define GSP_OPT_TOKEN_FILE(type)                                                                   \
    {                                                                                              \
        .name = "token-file", .kind = GSP_OPT_FILE, .offset = offsetof(type, remote.token_file),   \
        .arg = "FILE", .help = "Read the token from a file.", .advanced = true                     \
    }

struct gsp_remote {
    const struct gsp_parsed *parsed; /* borrowed */
    struct gsp_buf endpoint;         /* NUL-terminated, like token and answer */
    struct gsp_buf own_socket; /* "unix:PATH" of this user's daemon at the endpoint; empty: none */
    struct gsp_buf token;
    struct gsp_buf answer;               /* body of the last answer */
    int64_t timeout_ns;                  /* of a request; 0: the default of http/client.h */
    const volatile sig_atomic_t *cancel; /* see http/client.h */
};

/* Whether a text is the address of a server (host:port, http://..., unix:...) and not the name of
 * an existing file. */
bool gsp_cli__remote_is_address(const char *text);

/* Finds the address for a text (NULL: this machine) and its token; sends nothing. Returns an exit
 * status. Close it in any case. */
int gsp_cli__remote_open(struct gsp_remote *remote, const struct gsp_parsed *parsed,
                         const char *text, const struct gsp_remote_opts *opts);
void gsp_cli__remote_close(struct gsp_remote *remote); /* {0} does nothing */

/* Sends a request and stores the answer in remote->answer. Returns an exit status. */
int gsp_cli__remote_request(struct gsp_remote *remote, const char *method, const char *path,
                            struct gsp_sv body);
/* The same for an answer that is a JSON object. The caller frees *out with gsp_http_body_free(). */
int gsp_cli__remote_request_object(struct gsp_remote *remote, const char *method, const char *path,
                                   struct gsp_sv body, struct gsp_body **out);

/* Prints an error about the server. Returns an exit status. */
int gsp_cli__remote_fail(const struct gsp_remote *remote, const struct gsp_err *err);

/* Writes the last answer to stdout. Returns an exit status. */
int gsp_cli__remote_put_json(const struct gsp_remote *remote);

/* Print the tables of client/tables.h. They return what those functions return. */
GSP_MUST_CHECK int gsp_cli__remote_show_members(const struct gsp_remote *remote,
                                                const struct gsp_body *body,
                                                const char *const *skip, const char *prefix,
                                                struct gsp_err *err);
GSP_MUST_CHECK int gsp_cli__remote_show_settings(const struct gsp_remote *remote,
                                                 const struct gsp_body *body, const char *name,
                                                 const char *prefix, struct gsp_err *err);
GSP_MUST_CHECK int gsp_cli__remote_show_sessions(const struct gsp_remote *remote,
                                                 const struct gsp_body *body, const char *name,
                                                 struct gsp_err *err);

/* Opens a server for several statements: checks that it answers and accepts the token. Returns an
 * exit status. Close it in any case. */
int gsp_cli__remote_query_open(struct gsp_remote *remote, const struct gsp_parsed *parsed,
                               const char *text, const struct gsp_remote_opts *opts,
                               int64_t timeout_ns);
/* Runs a statement and writes its rows. Returns an exit status. */
int gsp_cli__query_remote_statement(struct gsp_remote *remote, struct gsp_sv sql,
                                    const struct gsp_params *params,
                                    const struct gsp_rows_dest *dest);
/* Runs a statement and returns its rows; the caller frees them with gsp_rows_free(). Prints
 * nothing: fails as gsp_client_request() and gsp_client_rows_from_json() do. */
GSP_MUST_CHECK int gsp_cli__remote_query_rows(struct gsp_remote *remote, struct gsp_sv sql,
                                              struct gsp_rows **out, struct gsp_err *err);

struct gsp_remote_query {
    const struct gsp_parsed *parsed; /* its first argument is the server */
    struct gsp_remote_opts remote;
    struct gsp_rows_dest dest;
    struct gsp_sv sql;
    struct gsp_params params;
    int64_t timeout_ns;
};
/* Opens the server, runs one statement and closes it. Returns an exit status. */
int gsp_cli__remote_query_run(const struct gsp_remote_query *query);
