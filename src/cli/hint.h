/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hint.h -- what went wrong, why, and the command to type next.
 *
 * The only place that gives advice: an error code and a look around become one cause and at
 * most three commands, least invasive first.
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
    const char *command; /* the command being run: "record"; NULL before it is known */
    pid_t pid;           /* the target; 0 when there is none */
    const char *path;    /* the file that the error is about, or NULL */
    char *const *argv;   /* our own command line, to be typed again; NULL when unknown */
    const char *program; /* the program that was to be started, or NULL */
    bool blocking;       /* --blocking was asked for */
    bool is_core;        /* path is a core file, which stands for the target */
    /* Of a query: what it was asked of (NULL: it is none), the statement, and the place of the
     * error in it (from 1; 0: not known) with what may have been meant. */
    const char *endpoint;
    struct gsp_sv sql;
    uint32_t sql_line;
    uint32_t sql_column;
    const char *candidate;
    /* Of a question to a server: its address (NULL: it is none), its advice, the status of its
     * refusal (0: there was no answer), and whether it was shown a token. */
    const char *server;
    const char *server_hint;
    int server_status;
    bool has_token;
};

struct gsp_remedy {
    char line[240]; /* what to type */
    char note[60];  /* what it costs or does; may be "" */
};

struct gsp_hint {
    char what[400];
    char why[240]; /* "" when what says it all */
    struct gsp_remedy tries[GSP_HINT_TRIES_MAX];
    size_t try_count;
    const char *more;  /* "gsprof help permissions", or NULL */
    char excerpt[400]; /* lines that stand below what, or "" */
};

/* Never fails: with nothing to add, *out says what err says. */
void gsp_hint_make(const struct gsp_err *err, const struct gsp_hint_context *context,
                   struct gsp_hint *out);
void gsp_hint_add(struct gsp_hint *hint, const char *note, const char *fmt, ...) GSP_PRINTF(3, 4);
/* The hint for an error of serve: hint_serve.c. */
void gsp_hint__serve(const struct gsp_err *err, struct gsp_hint *out);
/* The hint for an error of a query: hint_query.c. */
void gsp_hint__query(const struct gsp_err *err, const struct gsp_hint_context *context,
                     struct gsp_hint *out);
/* The hint for an error of a server: hint_http.c. */
void gsp_hint__http(const struct gsp_err *err, const struct gsp_hint_context *context,
                    struct gsp_hint *out);
/* The hint for an error of inject, eject and eval that is none of rights: hint_inject.c. */
void gsp_hint__inject(const struct gsp_err *err, const struct gsp_hint_context *context,
                      struct gsp_hint *out);
/* Appends the hint in its form: "gsprof: what", then why, try, or, more. */
void gsp_hint_print(const struct gsp_hint *hint, const struct gsp_term *term, struct gsp_buf *out);

/* Tells the error on stderr and gives the exit status that belongs to it. */
int gsp_cli_fail(const struct gsp_parsed *parsed, const struct gsp_hint_context *context,
                 const struct gsp_err *err);

/* Prints a warning on stderr, unless --quiet is given. */
void gsp_cli_warn(const struct gsp_parsed *parsed, struct gsp_sv message);
