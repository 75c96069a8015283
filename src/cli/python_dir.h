/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_dir.h -- where the Python package is that belongs to this program.
 *
 * The folder holds gsprof/ (the package, with libgsprof_agent.so in it) and start/ (what
 * `gsprof run` puts in front of PYTHONPATH).  $GSPROF_PYTHON_DIR, else relative to the program: as
 * it is installed, as it is built.
 *
 * Used by: cmd_run.c, and whoever injects the agent.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

#define GSP_PYTHON_DIR_MAX 4096U

/* Fails with NOFILE: the message says where it was looked for. */
GSP_MUST_CHECK int gsp_python_dir(char out[GSP_PYTHON_DIR_MAX], struct gsp_err *err);
