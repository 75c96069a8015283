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

/* Sets the environment so that the interpreters of a program that is started next have the package:
 * its sitecustomize is found before their own, which it then calls.  This process is the one that
 * looks at them from outside.  What the user has set of GSPROF stays.
 * *out is the package's folder.  Fails like gsp_python_dir(), and with NOMEM. */
GSP_MUST_CHECK int gsp_python_hand_over(char out[GSP_PYTHON_DIR_MAX], struct gsp_err *err);
