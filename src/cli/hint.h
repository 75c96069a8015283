/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hint.h -- turns an error into a message with its cause and commands to try.
 *
 * Advice is given only here: from an error code and the state of the system, a hint has one cause
 * and at most three commands, least invasive first.
 *
 * Reads:   the facts of proc/perm.h, below a root folder that tests replace.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/options.h"
#include "cli/term.h"

#define GSP_HINT_TRIES_MAX 3U

struct gsp_hint_context {
    const char *root;    /* "" or a fixture tree */
    const char *command; /* the gsprof command that failed: "record"; NULL if unknown */
    pid_t pid;           /* the target, or 0 */
    const char *path;    /* the file that the error is about, or NULL */
    char *const *argv;   /* the command line of gsprof; NULL if unknown */
    const char *program; /* the program to be started, or NULL */
    bool blocking;       /* --blocking was given */
    bool is_core;        /* path is a core file that is read instead of a process */
    /* Of a query. */
    const char *endpoint; /* NULL if the error is not of a query */
    struct gsp_sv sql;
    uint32_t sql_line; /* of the error, from 1; 0 if unknown */
    uint32_t sql_column;
    const char *candidate; /* the name the user may have meant, or NULL */
    /* Of a request to a server. */
    const char *server;      /* its address; NULL if the error is not of a request */
    const char *server_code; /* the error code in its response: "CONTROL"; or NULL */
    const char *server_hint; /* the advice in its response, or NULL */
    int server_status;       /* the HTTP status of its response; 0 if it did not respond */
    bool has_token;          /* the request carried a token */
};

struct gsp_hint_try {
    char line[240]; /* the command */
    char note[60];  /* what it does or costs; may be "" */
};

struct gsp_hint {
    char what[400];
    char why[240]; /* "" if `what` is enough */
    struct gsp_hint_try tries[GSP_HINT_TRIES_MAX];
    size_t try_count;
    const char *more;  /* "gsprof help permissions", or NULL */
    char excerpt[400]; /* lines printed below `what`, or "" */
};

/* Never fails: without advice, *out has the message of err. */
void gsp_cli__hint_make(const struct gsp_err *err, const struct gsp_hint_context *context,
                        struct gsp_hint *out);
void gsp_cli__hint_add(struct gsp_hint *hint, const char *note, const char *fmt, ...)
    GSP_PRINTF(3, 4);
/* Hints for errors of serve: hint_serve.c. */
void gsp_cli__hint_serve(const struct gsp_err *err, struct gsp_hint *out);
/* Hints for errors of queries: hint_query.c. */
void gsp_cli__hint_query(const struct gsp_err *err, const struct gsp_hint_context *context,
                         struct gsp_hint *out);
/* Hints for failed requests to a server: hint_http.c. */
void gsp_cli__hint_http(const struct gsp_err *err, const struct gsp_hint_context *context,
                        struct gsp_hint *out);
/* Hints for errors of inject, eject and eval other than missing permissions: hint_inject.c. */
void gsp_cli__hint_inject(const struct gsp_err *err, const struct gsp_hint_context *context,
                          struct gsp_hint *out);
/* Appends the hint: "gsprof: what", then lines for why, try, or, more. */
void gsp_cli__hint_print(const struct gsp_hint *hint, const struct gsp_term *term,
                         struct gsp_buf *out);

/* Prints the error with its hint on stderr and returns the exit status. */
int gsp_cli__fail(const struct gsp_parsed *parsed, const struct gsp_hint_context *context,
                  const struct gsp_err *err);

/* Prints a warning on stderr, unless --quiet is given. */
void gsp_cli__warn(const struct gsp_parsed *parsed, struct gsp_sv message);
