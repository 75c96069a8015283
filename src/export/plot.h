/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot.h -- draws a session: line charts over time, one panel per kind of metric, and a heat map
 * of GPUs (or cores) over time.
 *
 * Gives:   SVG, PNG, or a self-contained HTML page that shows the values under the pointer.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "frames/session_read.h"

enum gsp_export_plot_format { GSP_PLOT_SVG, GSP_PLOT_PNG, GSP_PLOT_HTML };

struct gsp_plot {
    const char *metrics; /* parts of metric names, separated by commas; NULL: the default panels */
    enum gsp_export_plot_format format;
};

/* Returns the format for a file's extension. Fails with USAGE. */
GSP_MUST_CHECK int gsp_export_plot_format(const char *path, enum gsp_export_plot_format *out,
                                          struct gsp_err *err);

/* Whether a metric's name contains one of the comma-separated words. True if words is NULL. */
bool gsp_export_plot_matches(const char *words, const char *metric);
/* Whether the picture needs a metric's bins: a callback for struct gsp_session_read_options, whose
 * ctx is a struct gsp_plot. */
bool gsp_export_plot_needs_metric(void *ctx, const char *metric);

/* Returns the unit implied by a metric's name: "%", "bytes", "W", ...; "" if unknown. */
const char *gsp_export_plot_unit(const char *metric);

/* Appends the picture to out. Fails with EMPTY (nothing to draw) or NOMEM. */
GSP_MUST_CHECK int gsp_export_plot_draw(const struct gsp_plot *plot,
                                        const struct gsp_session_data *data, struct gsp_buf *out,
                                        struct gsp_err *err);
