/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python.h -- runs a Python file under the interpreter that the process has, by the functions that
 * it exports, found by name: this library is linked to no Python.
 *
 * Used by: enter.c.
 * Threads: one that may wait for the interpreter's lock.
 * Signal-safe: no.
 * Allocates: what the interpreter does.
 */
#pragma once

#include "base/buf.h"

#define GSP_AGENT__SAID_CAP 512

/* What became of a script. */
struct gsp_agent__said {
    char line[GSP_AGENT__SAID_CAP]; /* "ok" or "error <what>" */
    struct gsp_buf file;            /* what it wants to have written, and where: ANSWER; or empty */
    struct gsp_buf text;
};

/* Runs the file of that path. */
void gsp_agent__python_run(const char *path, struct gsp_agent__said *out);
