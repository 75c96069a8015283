/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h -- the report of a live or exited process, from its tables.
 *
 * Contains how the process ended, its last step, slow modules, last spans, memory, CPU, overhead,
 * losses and the last stack of each thread.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "report/rows_table.h"
#include "store/store.h"

struct gsp_report_process_facts {
    pid_t pid;
    bool is_live;
    bool has_rings;
    int64_t last_write_ns; /* CLOCK_REALTIME of the newest row; 0 without rings */
    const char *command;   /* "" if unknown */
};

/* Both read a locked store that has the tables of the process; a live process without rings has
 * python.backtrace only. They fail with what a query fails with, and with NOMEM. After a failure
 * out has an incomplete report. */
GSP_MUST_CHECK int gsp_report_process_text(struct gsp_store *store,
                                           const struct gsp_report_process_facts *process,
                                           const struct gsp_rows_table_opts *style,
                                           struct gsp_out *out, struct gsp_err *err);
/* One object; each section is an array of rows. */
GSP_MUST_CHECK int gsp_report_process_json(struct gsp_store *store,
                                           const struct gsp_report_process_facts *process,
                                           struct gsp_buf *out, struct gsp_err *err);
