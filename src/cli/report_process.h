/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_process.h -- what a process does, or did before it ended, from its rings.
 *
 * Used by: cmd_report.c.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "cli/options.h"
#include "report/document.h"

/* Whether a word means a process and no file. */
bool gsp_report_is_process(const char *word);

/* Writes the report to stdout; tells its errors.  Worth 0 or an exit status. */
int gsp_report_process(const struct gsp_parsed *parsed, const char *word, bool json);
/* The same as a digest, which the caller frees; NULL when the status is not 0. */
int gsp_report_process_digest(const struct gsp_parsed *parsed, const char *word,
                              struct gsp_digest **out);
