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

#include <stdbool.h>
#include <stddef.h>

/* Runs script; what became of it, one line: "ok" or "error <what>". */
void gsp_agent__python_run(const char *script, char *said, size_t cap);
