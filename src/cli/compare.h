/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.h -- compares two recordings, for the commands compare and report.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "compare/compare.h"

struct gsp_cli_comparing {
    const char *path[2];
    const char *format; /* a name; NULL: from the extension of output, else text */
    const char *output; /* NULL or "-": stdout */
    const char *const *rules;
    size_t rule_count;
    size_t limit;   /* rows of tables; 0: the default */
    int64_t warmup; /* negative: detected */
    enum gsp_compare_per per;
    bool any_change; /* rules also match insignificant differences */
    bool force;
};

/* The i-th name of a format, NULL past the last. */
const char *gsp_cli_compare_format(size_t i);

/* Compares, writes the result, and prints warnings on stderr. Returns the exit status: 1 if a rule
 * matched. */
int gsp_cli_compare(const struct gsp_parsed *parsed, const struct gsp_cli_comparing *how);
