/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_list.h -- runs that lie beside each other in one folder.
 *
 * Used by: cli/cmd_run.c.
 * Threads: no state.
 */
#pragma once

#include "store/run.h"

/* The newest complete run beside this one (in the same parent folder) that has the same command
 * line; "" when there is none. */
void gsp_run_find_former(const char *path, const char *command, char out[GSP_RUN_PATH_MAX]);
