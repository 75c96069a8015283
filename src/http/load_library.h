/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_library.h -- loads shared libraries on first use.
 *
 * The HTTP libraries have twenty dependencies, and commands without HTTP should not load them.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A function of a library, and the offset of its pointer in the table. */
struct gsp_library_function {
    const char *name;
    size_t offset;
};

/* Opens the first library of names (a NULL-terminated list) that is installed and fills the table
 * of count functions. Never closes it. On failure returns false and writes the reason to why. */
bool gsp_http__library_load(const char *const *names, const struct gsp_library_function *functions,
                            size_t count, void *table, char why[160]);
