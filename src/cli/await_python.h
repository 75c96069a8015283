/* SPDX-License-Identifier: Apache-2.0 */
/*
 * await_python.h -- a process that was started a moment ago may become Python yet: a launcher
 * (pyenv's shim, env, a shell script) ends in exec.
 *
 * Used by: commands that are given a PID.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "cli/options.h"

/* What is known of a process in which no interpreter was found. */
struct gsp_await_facts {
    struct gsp_sv program; /* the name of its executable */
    bool is_starting;      /* there is one, but it has not begun */
    int64_t age_ns;
    int64_t looked_ns;     /* since the first look */
    int64_t since_exec_ns; /* it became another program meanwhile; INT64_MAX: it did not */
};

/* Whether it is worth looking again. */
bool gsp_await_is_worth(const struct gsp_await_facts *facts);

/* Returns when the process has an interpreter, or is not worth waiting for; the caller finds out
 * which.  with_tree: one that has children need not be Python itself.  A signal ends the program as
 * always. */
void gsp_await_python(pid_t pid, bool with_tree, const struct gsp_parsed *parsed);
