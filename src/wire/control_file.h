/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_file.h -- reads and changes the control page of another process.
 *
 * Threads: no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "wire/control.h"

/* Copies the page in the ring directory of a process, consistently. The copy is a page whose texts
 * are terminated; do not trust the rest.
 * Fails with NOFILE (no agent was ever loaded), PERM, FORMAT, TORN (a writer died or is stopped) or
 * IO. */
GSP_MUST_CHECK int gsp_wire_control_read(int folder_fd, struct gsp_control *out,
                                         struct gsp_err *err);

struct gsp_control_change {
    enum gsp_setting_id id;
    char value[GSP_CONTROL_VALUE]; /* from gsp_wire_setting_row_check() */
};

/* Sets values under the lock of the page. The agent has applied them when `applied` is at least
 * *serial. Fails like gsp_wire_control_read(), with VERSION if the agent has other settings, and
 * with TIMEOUT if another writer holds the lock. */
GSP_MUST_CHECK int gsp_wire_control_write(int folder_fd, const struct gsp_control_change *changes,
                                          size_t count, uint64_t *serial, struct gsp_err *err);
