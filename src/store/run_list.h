/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_list.h -- finds runs in the parent folder of a run.
 *
 * Threads: no state.
 */
#pragma once

#include "store/run.h"

/* Writes the path of the newest complete run with this command line in the same parent folder; ""
 * if there is none. */
void gsp_store_run_find_previous(const char *path, const char *command, char out[GSP_RUN_PATH_MAX]);
