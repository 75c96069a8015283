/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_settings.h -- what config.toml and the environment say of rings, for commands that make or
 * list some.
 *
 * Threads: no state.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "cli/options.h"
#include "ring/dir.h"

/* What ended processes may keep.  An invalid value is reported, and the usual ones hold: no
 * program is to fail because of it. */
struct gsp_ring_dir_limits gsp_cli_ring_limits(const struct gsp_parsed *parsed);

/* Tells the program that is started next, by its environment, how many rows its rings have: rows,
 * or if that is 0 what the environment or else config.toml says. */
void gsp_cli_ring_hand_over(int64_t rows);

/* The rows of the rings of a process that the agent enters, by our environment or config.toml; 0 if
 * they say nothing, or the process's own environment does with a value that can be used. */
int64_t gsp_cli_ring_rows_for(pid_t pid);

/* Reports what cannot be used of config.toml and our environment. */
void gsp_cli_ring_check(const struct gsp_parsed *parsed);
/* Reports a value in the environment of a process that its agent cannot use and says nothing of:
 * used is the setting's value (ring.rows) that holds instead. */
void gsp_cli_ring_check_process(const struct gsp_parsed *parsed, pid_t pid, const char *used);
