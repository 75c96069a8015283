/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_status.h -- the status line of `gsprof run`, below the program's output.
 *
 * The last line of the terminal is excluded from scrolling, so that the program's output does not
 * mix with it. Nothing is drawn if the output is not a terminal, if the program uses the terminal
 * in raw mode, or if the run is in the background.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "record/ring_drain.h"
#include "wire/table.h"

#define GSP_RUN_STATUS_READINGS 8U

struct gsp_run_status {
    int fd; /* of the terminal; -1: draw nothing */
    bool is_shown;
    unsigned rows;
    unsigned columns;
    int64_t begin_ns; /* CLOCK_MONOTONIC */
    int64_t next_ns;
    /* Totals over the processes at the newest tick of the collectors. */
    int64_t tick_ns;
    double cpu_percent;
    double rss_bytes;
    double gpu_percent; /* sum over the devices */
    unsigned processes;
    unsigned gpus;
    /* Readings of the rings, for the rate of steps; the newest at (reading_count - 1) % size. */
    struct gsp_ring_drain_counts readings[GSP_RUN_STATUS_READINGS];
    uint64_t reading_count;
};

/* fd need not be a terminal. */
void gsp_cli__run_status_init(struct gsp_run_status *status, int fd, bool quiet);
/* Adds a row of a collector; ignores tables other than process.metrics and gpu.metrics. */
void gsp_cli__run_status_row(struct gsp_run_status *status, enum gsp_table_id table,
                             const void *row);
/* Updates the line at most twice a second; rings may be NULL. */
void gsp_cli__run_status_update(struct gsp_run_status *status, struct gsp_ring_drain *rings);
/* Removes the line and restores the terminal; may be called again. */
void gsp_cli__run_status_hide(struct gsp_run_status *status);

/* Appends the text of the line. */
void gsp_cli__run_status_text(const struct gsp_run_status *status, int64_t now_ns,
                              struct gsp_buf *out);
/* Adds a reading of the rings, unless it is the same as the newest. */
void gsp_cli__run_status_add_reading(struct gsp_run_status *status,
                                     const struct gsp_ring_drain_counts *seen);
