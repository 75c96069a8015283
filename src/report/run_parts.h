/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_parts.h -- the parts of a report document that are read from tables.
 *
 * Each function fills its own members. All fail as queries do, and with NOMEM.
 *
 * Threads: as document.h.
 */
#pragma once

#include "base/attr.h"
#include "report/document_internal.h"
#include "store/query_each.h"
#include "store/store.h"

/* Seconds since report->start_ns. */
double gsp_report__seconds_at(const struct gsp_report *report, int64_t ts_ns);

/* Name, host, command, start and end. Must be called first. */
GSP_MUST_CHECK int gsp_report__origin_fill(struct gsp_report *report, struct gsp_store *store,
                                           struct gsp_err *err);
/* Steps must be filled before the charts, which include them. */
GSP_MUST_CHECK int gsp_report__steps_fill(struct gsp_report *report, struct gsp_store *store,
                                          struct gsp_err *err);
GSP_MUST_CHECK int gsp_report__modules_fill(struct gsp_report *report, struct gsp_store *store,
                                            bool values, struct gsp_err *err);
GSP_MUST_CHECK int gsp_report__ranks_fill(struct gsp_report *report, struct gsp_store *store,
                                          struct gsp_err *err);
GSP_MUST_CHECK int gsp_report__spans_fill(struct gsp_report *report, struct gsp_store *store,
                                          struct gsp_err *err);
GSP_MUST_CHECK int gsp_report__charts_fill(struct gsp_report *report, struct gsp_store *store,
                                           struct gsp_err *err);
/* Peak, growth and the sites of python.allocation. */
GSP_MUST_CHECK int gsp_report__memory_fill(struct gsp_report *report, struct gsp_store *store,
                                           struct gsp_err *err);
/* Threads that never ran Python. */
GSP_MUST_CHECK int gsp_report__native_threads_fill(struct gsp_report *report,
                                                   struct gsp_store *store, struct gsp_err *err);
/* Losses by cause. */
GSP_MUST_CHECK int gsp_report__losses_fill(struct gsp_report *report, struct gsp_store *store,
                                           struct gsp_err *err);
/* End of the process, machine, GPUs, overhead of gsprof. */
GSP_MUST_CHECK int gsp_report__facts_fill(struct gsp_report *report, struct gsp_store *store,
                                          struct gsp_err *err);
