/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visit.h -- has a Python process run a few lines for us and tell what came of it.
 *
 * The lines (visit.py) and their answer are files in the folder of the process's rings.  From 3.14
 * on the interpreter is asked to run them by itself; where it does not, and before, the agent's
 * library is loaded and runs them in a thread that ends.
 *
 * Used by: inject, eject, eval.
 * Threads: one owner.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "py/locate.h"
#include "wire/control_file.h"

struct gsp_visit {
    pid_t pid;
    const char *what; /* inject, eject, eval */
    const char *code; /* of eval; else "" */
    const struct gsp_control_change *settings;
    size_t setting_count;
    int64_t limit_ns;
    bool force;         /* gsp_inject_request.force */
    bool is_unfollowed; /* inject: the caller does not need its stacks */
    /* inject: called when the process has the agent and no follower; NULL: do nothing. */
    void (*follow)(pid_t pid);
};

struct gsp_visit_result {
    struct gsp_buf answer;
    struct gsp_sv printed; /* these lie in answer */
    struct gsp_sv value;
    struct gsp_sv trace;
    bool raised;        /* the lines ended with an exception */
    bool by_itself;     /* no thread was stopped */
    bool was_loaded;    /* the agent's library was there already */
    int64_t stopped_ns; /* how long a thread did not do its own work */
    int64_t total_ns;
};

/* Fails like gsp_inject__call(), with NOTPY, VERSION and STARTING, with NOWRITE (no folder), and
 * with TIMEOUT when the lines were not run, or did not end, within the limit. */
GSP_MUST_CHECK int gsp_visit(const struct gsp_visit *visit, struct gsp_visit_result *out,
                             struct gsp_err *err);
void gsp_visit_result_free(struct gsp_visit_result *result);

/* From here on rings are looked for where the process itself makes them: its XDG_RUNTIME_DIR. */
void gsp_visit_look_there(pid_t pid);
/* Whether an agent is in the process, with its Python half; *version (32 bytes) is its own. */
bool gsp_visit_is_there(pid_t pid, char *version);

/* The process that a word means: a pid, or the only Python process whose command line has the word
 * in it.  Fails with NOPROC, or USAGE when there are several: then list has one a line. */
GSP_MUST_CHECK int gsp_visit_find(const char *word, pid_t *out, struct gsp_buf *list,
                                  struct gsp_err *err);

/* gsp_py_locate() of a process that is not looked into otherwise. */
GSP_MUST_CHECK int gsp_visit__locate(pid_t pid, struct gsp_py_runtime *runtime,
                                     struct gsp_err *err);

/* The files of one visit. */
struct gsp_visit__files {
    char folder[PATH_MAX - 64];
    char script[PATH_MAX];
    char claim[PATH_MAX];   /* a folder: whoever makes it runs the lines */
    char answer[PATH_MAX];  /* of the lines themselves */
    char outcome[PATH_MAX]; /* by the agent: why they could not be run */
};
/* What visit.py is told, as a Python dictionary. */
void gsp_visit__put_request(const struct gsp_visit *visit, const struct gsp_visit__files *files,
                            const char *package, const struct gsp_py_runtime *runtime,
                            struct gsp_buf *out);
