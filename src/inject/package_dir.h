/* SPDX-License-Identifier: Apache-2.0 */
/*
 * package_dir.h -- finds the Python package that belongs to this program.
 *
 * The folder has gsprof/ (the package, with libgsprof_agent.so) and start/ (which `gsprof run` puts
 * first in PYTHONPATH). It is $GSPROF_PYTHON_DIR, else a path relative to the program: the
 * installed one, or that of a build folder.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#define GSP_PACKAGE_DIR_MAX 4096U

/* Fails with NOFILE; the message names the path that was tried. */
GSP_MUST_CHECK int gsp_inject__package_dir_find(char out[GSP_PACKAGE_DIR_MAX], struct gsp_err *err);

/* Sets the environment so that the Python interpreters of a program started next load the package:
 * its sitecustomize comes before theirs, which it calls. Names this process as the follower.
 * Does not change GSPROF if the user has set it. *out is the folder of the package.
 * Fails like gsp_inject__package_dir_find(), and with NOMEM. */
GSP_MUST_CHECK int gsp_inject_package_set_env(char out[GSP_PACKAGE_DIR_MAX], struct gsp_err *err);
