/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot.h -- a session as a picture: line charts over real time, one panel a kind of metric, and
 * a map of GPUs (or cores) over time.
 *
 * Gives:   SVG, PNG, or an HTML page that needs nothing else and shows values under the pointer.
 * Used by: cli/cmd_stat.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "frames/session_read.h"

enum gsp_plot_format { GSP_PLOT_SVG, GSP_PLOT_PNG, GSP_PLOT_HTML };

struct gsp_plot {
    const char *metrics; /* words joined by commas; NULL: what most people look for */
    enum gsp_plot_format format;
};

/* The format that a file's extension names.  Fails with USAGE. */
GSP_MUST_CHECK int gsp_plot_format(const char *path, enum gsp_plot_format *out,
                                   struct gsp_err *err);

/* Whether a metric's name has one of the words in it; words NULL: yes. */
bool gsp_plot_matches(const char *words, const char *metric);
/* For struct gsp_session_want: the bins that the picture needs; ctx is a struct gsp_plot. */
bool gsp_plot_wants(void *ctx, const char *metric);

/* The unit that a metric's name tells: "%", "bytes", "W", ...; "" when it tells none. */
const char *gsp_plot_unit(const char *metric);

/* Appends the picture.  Fails with EMPTY (nothing to draw), NOMEM. */
GSP_MUST_CHECK int gsp_plot_draw(const struct gsp_plot *plot, const struct gsp_session_data *data,
                                 struct gsp_buf *out, struct gsp_err *err);
