/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h -- one daemon that a command talks to: address, token, questions; errors are told here.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/common.h"
#include "cli/options.h"
#include "http/body.h"

struct gsp_remote_opts {
    const char *token;
    const char *token_file;
};

/* Rows for the option table of a command whose struct has a member `remote`. */
#define GSP_OPT_TOKEN(type)                                                                        \
    {                                                                                              \
        .name = "token", .kind = GSP_OPT_TEXT, .offset = offsetof(type, remote.token),             \
        .arg = "TOKEN",                                                                            \
        .help = "What the server wants to be shown; others can see it in the list of processes. "  \
                "Without it: --token-file, GSPROF_TOKEN, and for this machine "                    \
                "$XDG_CONFIG_HOME/gsprof/token."                                                   \
    }
#define GSP_OPT_TOKEN_FILE(type)                                                                   \
    {                                                                                              \
        .name = "token-file", .kind = GSP_OPT_FILE, .offset = offsetof(type, remote.token_file),   \
        .arg = "FILE", .help = "Read the token from a file.", .advanced = true                     \
    }

struct gsp_remote {
    const struct gsp_parsed *parsed; /* borrowed */
    struct gsp_buf endpoint;         /* NUL-terminated, as all three */
    struct gsp_buf token;
    struct gsp_buf answer;               /* the body of the last answer */
    int64_t timeout_ns;                  /* of a question; 0: the default */
    const volatile sig_atomic_t *cancel; /* as http/client.h has it */
};

/* Finds the address that word means (NULL: this machine) and the token for it.  Tells its errors:
 * worth 0 or an exit status.  Close it in any case. */
int gsp_remote_open(struct gsp_remote *remote, const struct gsp_parsed *parsed, const char *word,
                    const struct gsp_remote_opts *opts);
void gsp_remote_close(struct gsp_remote *remote); /* {0} does nothing */

/* Asks, and keeps the answer in remote->answer; tells its errors. */
int gsp_remote_ask(struct gsp_remote *remote, const char *method, const char *path,
                   struct gsp_sv body);
/* The same, and tells nothing: fails as gsp_client_ask() does. */
GSP_MUST_CHECK int gsp_remote_try(struct gsp_remote *remote, const char *method, const char *path,
                                  struct gsp_sv body, struct gsp_err *err);
/* The same as the first, for an answer that is a JSON object: *out is the caller's, to be freed
 * with gsp_http_body_free(). */
int gsp_remote_ask_object(struct gsp_remote *remote, const char *method, const char *path,
                          struct gsp_sv body, struct gsp_body **out);

/* Tells an error that has to do with the server. */
int gsp_remote_fail(const struct gsp_remote *remote, const struct gsp_err *err);

/* The answer to stdout as it came, for programs. */
int gsp_remote_put_json(const struct gsp_remote *remote);

/* Members of an answer as a table of names and values: objects inside it with dots between the
 * names, null left out; "sources" with what is wrong with each.  skip (may be NULL) are the names
 * of members to leave out, NULL at the end; prefix (may be NULL) is how the wanted names begin. */
GSP_MUST_CHECK int gsp_remote_show_members(const struct gsp_remote *remote,
                                           const struct gsp_body *body, const char *const *skip,
                                           const char *prefix, struct gsp_err *err);
/* The array `name` of settings as a table; prefix as above.  1: there is one, 0: there is none. */
GSP_MUST_CHECK int gsp_remote_show_settings(const struct gsp_remote *remote,
                                            const struct gsp_body *body, const char *name,
                                            const char *prefix, struct gsp_err *err);
/* The array `name` of sessions as a table; nothing when there is none.  1: there were some. */
GSP_MUST_CHECK int gsp_remote_show_sessions(const struct gsp_remote *remote,
                                            const struct gsp_body *body, const char *name,
                                            struct gsp_err *err);
