/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h -- the report as one HTML file that opens without a network.
 *
 * Reads:   a document of docs/formats/report.md.
 * Gives:   the page of web/, which the program carries, with the document in it.
 * Used by: whoever writes report.html.
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends the whole page to out.  The document must be JSON, which is not checked; whatever its
 * strings hold, they stay inside its element.  Fails with NOMEM. */
GSP_MUST_CHECK int gsp_page_write(struct gsp_sv document_json, struct gsp_buf *out,
                                  struct gsp_err *err);
