/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_file.h -- the control page of another process: read as a copy, changed under its lock.
 *
 * Used by: cli/ and whoever looks at a target from outside.
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "wire/control.h"

/* Copies the page in the folder of a process's rings; no writer was at it.  Nothing in it is to be
 * believed but that it is a page, and that its texts end.
 * Fails with NOFILE (no agent was ever there), PERM, FORMAT, TORN (a writer died, or is stopped),
 * IO. */
GSP_MUST_CHECK int gsp_control_read(int folder_fd, struct gsp_control *out, struct gsp_err *err);

struct gsp_control_change {
    enum gsp_setting_id id;
    char value[GSP_CONTROL_VALUE]; /* as gsp_setting_row_check() gives it */
};

/* Sets values; *serial is the page's afterwards: the agent has taken them up when `applied` is at
 * least that.  Fails like gsp_control_read(), with VERSION when the page is of an agent that has
 * other settings, and with TIMEOUT when another writer keeps the lock. */
GSP_MUST_CHECK int gsp_control_write(int folder_fd, const struct gsp_control_change *changes,
                                     size_t count, uint64_t *serial, struct gsp_err *err);
