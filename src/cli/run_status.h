/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_status.h -- the line that tells how a run goes on, below what the program writes.
 *
 * The last line of the terminal is taken out of what scrolls, so nothing of the program's output
 * is mixed with it.  Nothing is drawn when it is no terminal, when the program has taken it over
 * (raw mode), or when the run is in the background.
 *
 * Used by: cmd_run.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "record/ring_drain.h"
#include "wire/table.h"

#define GSP_RUN_STATUS_LOOKS 8U

struct gsp_run_status {
    int fd; /* of the terminal; -1: nothing is ever drawn */
    bool is_shown;
    unsigned rows;
    unsigned columns;
    int64_t begin_ns; /* CLOCK_MONOTONIC */
    int64_t next_ns;
    /* Sums over the processes of the newest tick of the collectors; its time. */
    int64_t tick_ns;
    double cpu_percent;
    double rss_bytes;
    double gpu_percent; /* over the devices */
    unsigned processes;
    unsigned gpus;
    /* Looks at the rings, for the rate of steps; the newest at (look_count - 1) % LOOKS. */
    struct gsp_rec_rings_seen looks[GSP_RUN_STATUS_LOOKS];
    uint64_t look_count;
};

/* fd is a terminal or not; quiet: draw nothing. */
void gsp_run_status_init(struct gsp_run_status *status, int fd, bool quiet);
/* A row that a collector has made; others than process.metrics and gpu.metrics tell nothing. */
void gsp_run_status_row(struct gsp_run_status *status, enum gsp_table_id table, const void *row);
/* Draws when it is time to; rings may be NULL. */
void gsp_run_status_beat(struct gsp_run_status *status, struct gsp_rec_rings *rings);
/* The terminal is as it was; safe to call again. */
void gsp_run_status_hide(struct gsp_run_status *status);

/* The line itself, for a terminal of so many columns. */
void gsp_run_status_text(const struct gsp_run_status *status, int64_t now_ns, struct gsp_buf *out);
/* A look at the rings; one that has been taken already is left out. */
void gsp_run_status_look(struct gsp_run_status *status, const struct gsp_rec_rings_seen *seen);
