/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h -- the report as one HTML file that opens without a network.
 *
 * Reads:   a document of docs/formats/report.md.
 * Gives:   the page of web/, which is compiled into gsprof, with the document embedded.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends the page to out. The document must be JSON; this is not checked. No string in it can
 * end its HTML element. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_export_page_write(struct gsp_sv document_json, struct gsp_buf *out,
                                         struct gsp_err *err);
