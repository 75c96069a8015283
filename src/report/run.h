/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h -- the parts of a report document that are read from tables.
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

/* Seconds since digest->start_ns. */
double gsp_digest__seconds(const struct gsp_digest *digest, int64_t ts_ns);

/* Name, host, command, start and end. Must be called first. */
GSP_MUST_CHECK int gsp_digest__about(struct gsp_digest *digest, struct gsp_store *store,
                                     struct gsp_err *err);
/* Steps must be filled before the charts, which include them. */
GSP_MUST_CHECK int gsp_digest__steps(struct gsp_digest *digest, struct gsp_store *store,
                                     struct gsp_err *err);
GSP_MUST_CHECK int gsp_digest__modules(struct gsp_digest *digest, struct gsp_store *store,
                                       bool values, struct gsp_err *err);
GSP_MUST_CHECK int gsp_digest__ranks(struct gsp_digest *digest, struct gsp_store *store,
                                     struct gsp_err *err);
GSP_MUST_CHECK int gsp_digest__spans(struct gsp_digest *digest, struct gsp_store *store,
                                     struct gsp_err *err);
GSP_MUST_CHECK int gsp_digest__charts(struct gsp_digest *digest, struct gsp_store *store,
                                      struct gsp_err *err);
/* Peak, growth and the sites of python.allocation. */
GSP_MUST_CHECK int gsp_digest__memory(struct gsp_digest *digest, struct gsp_store *store,
                                      struct gsp_err *err);
/* Threads that never ran Python. */
GSP_MUST_CHECK int gsp_digest__native_threads(struct gsp_digest *digest, struct gsp_store *store,
                                              struct gsp_err *err);
/* Losses by cause. */
GSP_MUST_CHECK int gsp_digest__table_losses(struct gsp_digest *digest, struct gsp_store *store,
                                            struct gsp_err *err);
/* End of the process, machine, GPUs, overhead of gsprof. */
GSP_MUST_CHECK int gsp_digest__table_facts(struct gsp_digest *digest, struct gsp_store *store,
                                           struct gsp_err *err);
