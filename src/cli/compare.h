/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compare.h -- two recordings compared, for the commands that do it.
 *
 * Used by: cmd_compare.c, cmd_report.c.
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
    const char *format; /* by name; NULL: by the extension of output, else text */
    const char *output; /* NULL or "-": stdout */
    const char *const *rules;
    size_t rule_count;
    size_t limit;   /* rows of tables; 0: the usual */
    int64_t warmup; /* negative: found out */
    enum gsp_compare_per per;
    bool any_change; /* rules fail also by what may be chance */
    bool force;
};

/* Names of the formats. */
const char *gsp_cli_compare_format(size_t i);

/* Compares, writes, and tells on stderr what has to be told.  Gives the exit status: 1 when a rule
 * failed. */
int gsp_cli_compare(const struct gsp_parsed *parsed, const struct gsp_cli_comparing *how);
