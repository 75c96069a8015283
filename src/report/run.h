/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h -- the parts of a digest that tables have: each fills its own members.
 *
 * All fail with what the store fails with, and with NOMEM.
 * Used by: open.c alone.
 * Threads: as digest.h.
 */
#pragma once

#include "base/attr.h"
#include "report/document_internal.h"
#include "store/query_each.h"
#include "store/store.h"

/* A moment as seconds since the digest's begin. */
double gsp_digest__seconds(const struct gsp_digest *digest, int64_t ts_ns);

/* Name, host, command, begin and end; first of all. */
GSP_MUST_CHECK int gsp_digest__about(struct gsp_digest *digest, struct gsp_store *store,
                                     struct gsp_err *err);
/* Steps before charts: one of those is theirs. */
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
/* Peak and trend of the "rss" chart. */
GSP_MUST_CHECK int gsp_digest__rss(struct gsp_digest *digest, struct gsp_err *err);
/* The same, and the sites of python.allocation. */
GSP_MUST_CHECK int gsp_digest__memory(struct gsp_digest *digest, struct gsp_store *store,
                                      struct gsp_err *err);
/* Threads that never ran Python. */
GSP_MUST_CHECK int gsp_digest__native_threads(struct gsp_digest *digest, struct gsp_store *store,
                                              struct gsp_err *err);
/* What is missing, and why. */
GSP_MUST_CHECK int gsp_digest__table_losses(struct gsp_digest *digest, struct gsp_store *store,
                                            struct gsp_err *err);
/* How it ended, the machine, its GPUs, what gsprof cost. */
GSP_MUST_CHECK int gsp_digest__table_facts(struct gsp_digest *digest, struct gsp_store *store,
                                           struct gsp_err *err);
