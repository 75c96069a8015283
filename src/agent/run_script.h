/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_script.h -- runs a Python file in the interpreter of the process. Finds the exported
 * functions of the interpreter by name, because this library does not link Python.
 *
 * Threads: one that may wait for the GIL.
 * Signal-safe: no.
 * Allocates: in the interpreter.
 */
#pragma once

#include "base/buf.h"

#define GSP_AGENT__OUTCOME_CAP 512

/* The outcome of a script. */
struct gsp_agent__script_outcome {
    char line[GSP_AGENT__OUTCOME_CAP]; /* "ok" or "error <reason>" */
    struct gsp_buf file;               /* path of a file to write, from ANSWER; or empty */
    struct gsp_buf text;               /* its content */
};

void gsp_agent__python_run(const char *path, struct gsp_agent__script_outcome *out);
