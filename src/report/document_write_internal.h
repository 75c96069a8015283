/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document_write_internal.h -- the writers of report documents, one file per format.
 *
 * All append to out and set out->failed if memory runs out.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "report/document_write.h"

void gsp_report__write_json(const struct gsp_report *report, struct gsp_buf *out);
/* Fails with EMPTY or NOMEM. */
GSP_MUST_CHECK int gsp_report__write_csv(const struct gsp_report *report,
                                         const struct gsp_report_write_opts *opts,
                                         struct gsp_buf *out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_report__write_markdown(const struct gsp_report *report,
                                              const struct gsp_report_write_opts *opts,
                                              struct gsp_buf *out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_report__write_text(const struct gsp_report *report,
                                          const struct gsp_report_write_opts *opts,
                                          struct gsp_buf *out, struct gsp_err *err);
