/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_settings.h -- the ring settings of config.toml and the environment, for commands that create
 * or list rings.
 *
 * Threads: no state.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "cli/options.h"
#include "ring/dir.h"

/* The limits on rings of exited processes. Reports an invalid value and uses the defaults then. */
struct gsp_ring_dir_limits gsp_cli__ring_limits(const struct gsp_parsed *parsed);

/* Sets the ring size in the environment of programs started later: rows, or if 0 the value of the
 * environment or config.toml. */
void gsp_cli__ring_rows_export(int64_t rows);

/* The ring size to set in a process before injection, from gsprof's environment or config.toml.
 * Returns 0 if they set none, or if the process's own environment has a valid value. */
int64_t gsp_cli__ring_rows_for(pid_t pid);

/* Reports invalid settings in config.toml and gsprof's environment. */
void gsp_cli__ring_check(const struct gsp_parsed *parsed);
/* Reports an invalid ring size in the environment of a process, which its agent ignores. used is
 * the value of ring.rows in effect. */
void gsp_cli__ring_check_process(const struct gsp_parsed *parsed, pid_t pid, const char *used);
