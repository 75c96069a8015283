/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h -- a live view without a terminal: plain text, and JSON for programs.
 *
 * Threads: no state.
 */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "tui/lines.h"

/* The header, the column titles and at most limit rows (0: all) in width columns. */
GSP_MUST_CHECK int gsp_tui_top_text(const struct gsp_top *top, const struct gsp_top_query *query,
                                    const struct gsp_top_facts *facts, unsigned width, size_t limit,
                                    struct gsp_buf *out);
/* One object on one line. Keys contain the unit; unknown values are null. Both functions fail
 * with NOMEM. */
GSP_MUST_CHECK int gsp_tui_top_json(const struct gsp_top *top, const struct gsp_top_query *query,
                                    const struct gsp_top_facts *facts, size_t limit,
                                    struct gsp_buf *out);
