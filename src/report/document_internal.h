/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document_internal.h -- functions that build a report document.
 *
 * They record a failed allocation in digest->no_memory, which is checked once at the end.
 *
 * Threads: as document.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "report/document.h"

/* An empty document. path may be NULL; its last part is the name. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_digest__new(enum gsp_digest_kind kind, const char *path,
                                   struct gsp_digest **out, struct gsp_err *err);
/* Adds the facts command, machine and start, and the extent of the profile. */
void gsp_digest__origin_facts(struct gsp_digest *digest);
/* "train.py" of "python3 -u train.py --epochs 3", also of "rank 0: ..."; borrowed. */
struct gsp_sv gsp_digest__program(struct gsp_sv command);

/* Returns a copy that lives as long as the document; "" if out of memory. */
struct gsp_sv gsp_digest__keep(struct gsp_digest *digest, struct gsp_sv text);
/* Copies a buffer and clears it. */
struct gsp_sv gsp_digest__keep_buf(struct gsp_digest *digest, struct gsp_buf *text);
struct gsp_sv gsp_digest__printf(struct gsp_digest *digest, const char *fmt, ...) GSP_PRINTF(2, 3);

/* Makes room for one more element after `count` and returns the array, which may have moved.
 * Returns NULL if out of memory; the old array is then unchanged. Only this function may grow the
 * array. */
void *gsp_digest__more(struct gsp_digest *digest, void *array, size_t count, size_t size);

/* Both add a row; the texts are not copied. A loss with count 0 is ignored. */
void gsp_digest__fact(struct gsp_digest *digest, struct gsp_sv name, struct gsp_sv value);
void gsp_digest__loss(struct gsp_digest *digest, struct gsp_sv what, struct gsp_sv why,
                      uint64_t count);

/* Adds a card with two texts, which are cleared. */
void gsp_digest__card(struct gsp_digest *digest, struct gsp_digest_card card, struct gsp_buf *value,
                      struct gsp_buf *detail);
/* Adds a line to the verdict and clears the text; does nothing if it is empty or the verdict is
 * full. */
void gsp_digest__verdict_line(struct gsp_digest *digest, struct gsp_buf *text);

/* Adds a loss given by source and cause as in gsprof.loss ("sampler", "late"), in words. */
void gsp_digest__lost(struct gsp_digest *digest, struct gsp_sv source, struct gsp_sv cause,
                      uint64_t count);

/* Appends all losses in a line, by kind and cause; nothing if there are none. */
void gsp_digest__losses_text(const struct gsp_digest *digest, struct gsp_buf *out);

/* Adds a chart without series. Returns NULL if out of memory. Borrowed until the next call. */
struct gsp_digest_chart *gsp_digest__chart(struct gsp_digest *digest, struct gsp_sv id);
/* Sets title, unit and help of a chart with a well-known id. */
void gsp_digest__chart_about(struct gsp_digest_chart *chart);
/* Adds a series to a chart. Returns NULL if out of memory. Borrowed until the next call. */
struct gsp_digest_series *gsp_digest__series(struct gsp_digest *digest,
                                             struct gsp_digest_chart *chart, struct gsp_sv name);
/* Computes the statistics of the last chart, and removes lines without a value, and the chart if it
 * has no line left. */
void gsp_digest__chart_finish(struct gsp_digest *digest, struct gsp_digest_chart *chart);
/* Adds a point; infinite values become NaN. */
void gsp_digest__point(struct gsp_digest *digest, struct gsp_digest_series *series, double t,
                       double v);
/* Computes series->stats from the points. */
void gsp_digest__series_stats(struct gsp_digest_series *series);
void gsp_digest__series_free(struct gsp_digest_series *series); /* frees the points */

/* Parts of the document. */
/* Fills digest->stacks from digest->profile; times are relative to start_ns. */
GSP_MUST_CHECK int gsp_digest__stacks(struct gsp_digest *digest, const struct gsp_digest_opts *opts,
                                      struct gsp_err *err);
/* Peak and growth of the resident memory, from the chart "rss". */
GSP_MUST_CHECK int gsp_digest__rss(struct gsp_digest *digest, struct gsp_err *err);
/* Adds the next frame of a site's stack, from the outermost on. Copies the texts. Leaves out frames
 * of gsprof, and merges those of an import into one. Returns false if out of memory. */
GSP_MUST_CHECK bool gsp_digest__site_frame(struct gsp_digest *digest, struct gsp_digest_site *site,
                                           struct gsp_digest_frame frame);
/* Reads a session file. Fails with FORMAT if it is malformed. */
GSP_MUST_CHECK int gsp_digest__session(struct gsp_digest *digest, const char *path,
                                       struct gsp_err *err);
