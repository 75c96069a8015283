/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_process.h -- the report of a process, running or exited, from its rings.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "cli/options.h"
#include "report/document.h"

/* Whether the word is a pid and not the name of a file. */
bool gsp_report_is_process(const char *word);

/* Writes the report to stdout and errors to stderr. Returns 0 or an exit status. */
int gsp_report_process(const struct gsp_parsed *parsed, const char *word, bool json);
/* Makes a report document, which the caller frees; NULL if the returned status is not 0. */
int gsp_report_process_digest(const struct gsp_parsed *parsed, const char *word,
                              struct gsp_digest **out);
