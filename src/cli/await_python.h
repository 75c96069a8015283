/* SPDX-License-Identifier: Apache-2.0 */
/*
 * await_python.h -- waits for a process that is about to become Python: a launcher (pyenv's shim,
 * env, a shell script) ends with exec.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "cli/options.h"

/* Facts about a process without a running interpreter. */
struct gsp_launcher_facts {
    struct gsp_sv program; /* the name of its executable */
    bool is_starting;      /* an interpreter is loaded but not initialized */
    int64_t age_ns;
    int64_t waited_ns;     /* how long gsprof has been waiting */
    int64_t since_exec_ns; /* since it executed another program; INT64_MAX: it did not */
};

/* Whether the process may still become Python. */
bool gsp_cli__may_become_python(const struct gsp_launcher_facts *facts);

/* Waits until the process has an interpreter or is unlikely to get one; the caller finds out which.
 * with_tree: return as soon as the process has children. Signals keep their effect. */
void gsp_cli__await_python(pid_t pid, bool with_tree, const struct gsp_parsed *parsed);
