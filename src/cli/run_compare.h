/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_compare.h -- compares recordings, for `gsprof compare` and `gsprof report`.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "compare/compare.h"

struct gsp_cli_compare_opts {
    const char *path[2];
    const char *format; /* format name; NULL: from the extension of output, else text */
    const char *output; /* NULL or "-": stdout */
    const char *const *rules;
    size_t rule_count;
    size_t limit;   /* rows of tables; 0: default */
    int64_t warmup; /* negative: detect */
    enum gsp_compare_per per;
    bool any_change; /* rules also fail on differences that are not significant */
    bool force;
};

/* The i-th format name; NULL past the last. */
const char *gsp_cli__compare_format(size_t i);

/* Compares and writes the result; prints errors and a summary to stderr. Returns the exit status: 1
 * if a rule failed. */
int gsp_cli__compare(const struct gsp_parsed *parsed, const struct gsp_cli_compare_opts *how);
