/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_settings.h -- `gsprof config PID`: the settings of the agent in a process.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "cli/options.h"
#include "wire/control.h"

/* "on/off", "number", "text" */
const char *gsp_cli__setting_type_name(enum gsp_setting_type type);
/* Shows or changes settings; args are the arguments after the pid, NULL-terminated. Prints its
 * errors; returns 0 or an exit status. */
int gsp_cli__process_settings_run(const struct gsp_parsed *parsed, const char *pid,
                                  char *const *args, bool json);
