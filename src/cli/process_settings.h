/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_target.h -- `gsprof config PID`: the settings of the agent in a process.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "cli/options.h"

/* Shows or changes settings; words are those after the pid, NULL at the end.  Tells its errors:
 * worth 0 or an exit status. */
int gsp_config_target(const struct gsp_parsed *parsed, const char *pid, char *const *words,
                      bool json);
