/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_python.h -- runs a Python script in a target and returns its result.
 *
 * The script (target_script.py with a request) and its answer are files in the ring directory of
 * the target. From Python 3.14 on, the interpreter is asked to run the script (PEP 768). If it does
 * not, and for older versions, the agent is loaded and runs the script in a temporary thread.
 *
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

struct gsp_python_call {
    pid_t pid;
    const char *what; /* "inject", "eject" or "eval" */
    const char *code; /* for eval; else "" */
    const struct gsp_control_change *settings;
    size_t setting_count;
    int64_t limit_ns;
    bool force;       /* gsp_inject_request.force */
    bool no_follower; /* for inject: do not request a follower */
    /* For inject: called if the target has the agent and needs a follower; may be NULL. */
    void (*follow)(pid_t pid);
};

struct gsp_python_call_result {
    struct gsp_buf answer;
    struct gsp_sv printed; /* these three point into answer */
    struct gsp_sv value;
    struct gsp_sv trace;
    bool raised;        /* the script ended with an exception */
    bool by_itself;     /* the interpreter ran the script: no thread was stopped */
    bool was_loaded;    /* the agent was already loaded */
    int64_t stopped_ns; /* how long a thread of the target was stopped */
    int64_t total_ns;
};

/* Fails like gsp_inject__call(); with NOTPY, VERSION, STARTING; with NOWRITE (no ring directory);
 * and with TIMEOUT if the script did not start or end within the limit. Free the result with
 * gsp_inject_python_call_result_free(). */
GSP_MUST_CHECK int gsp_inject_run_python(const struct gsp_python_call *call,
                                         struct gsp_python_call_result *out, struct gsp_err *err);
void gsp_inject_python_call_result_free(struct gsp_python_call_result *result);

/* Parses out->answer, which the target wrote: "ok 12 0 0\n" and three texts. Fails with FORMAT;
 * with TORN if the target runs another script. */
GSP_MUST_CHECK int gsp_inject__answer_parse(struct gsp_python_call_result *out,
                                            struct gsp_err *err);
/* Parses what the agent wrote. Fails with NOTSUP if it could not run the script. */
GSP_MUST_CHECK int gsp_inject__outcome_parse(struct gsp_sv text, struct gsp_err *err);

/* Sets XDG_RUNTIME_DIR of this process to that of the target, which creates its rings there. */
void gsp_inject_use_runtime_dir_of(pid_t pid);
/* Whether a process has the agent with its Python part; *version (32 bytes) is the agent's. */
bool gsp_inject_is_injected(pid_t pid, char *version);

/* Finds a process by pid, or the only Python process with text in its command line. Fails with
 * NOPROC; with USAGE if several match: list then has one per line. */
GSP_MUST_CHECK int gsp_inject_find_process(const char *text, pid_t *out, struct gsp_buf *list,
                                           struct gsp_err *err);

/* Calls gsp_py_locate() for a process. */
GSP_MUST_CHECK int gsp_inject_locate_python(pid_t pid, struct gsp_py_runtime *runtime,
                                            struct gsp_err *err);

/* The files of one call. The folder belongs to the target's user, who may replace every name in it:
 * gsprof uses names relative to its descriptor, and the paths only for the target. */
struct gsp_inject__script_files {
    int fd;      /* of the folder; -1: none */
    uid_t owner; /* of the target */
    char folder[PATH_MAX - 64];
    char script[PATH_MAX];
    char claim[PATH_MAX];   /* a folder: only the thread that creates it runs the script */
    char answer[PATH_MAX];  /* written by the script */
    char outcome[PATH_MAX]; /* written by the agent: why it could not run the script */
};
/* Appends the request for target_script.py, as a Python dictionary. */
void gsp_inject__request_put(const struct gsp_python_call *call,
                             const struct gsp_inject__script_files *files, const char *package,
                             const struct gsp_py_runtime *runtime, struct gsp_buf *out);
