/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib.h -- shared libraries that are loaded when they are first needed.
 *
 * The libraries for HTTP bring twenty others with them; no command that asks nobody and serves
 * nobody waits for those.
 * Used by: http/curl_lib.c, http/mhd_lib.c.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A function of a library, and where its pointer goes in the table of all. */
struct gsp_lib_function {
    const char *name;
    size_t offset;
};

/* Opens the first of the libraries (names, NULL past the last) that is there and fills the table
 * of count functions.  It is never closed.  False: why says what is missing. */
bool gsp_http__load(const char *const *names, const struct gsp_lib_function *functions,
                    size_t count, void *table, char why[160]);
