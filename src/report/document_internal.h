/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest_internal.h -- what the files of digest/ share: growing a digest, and its parts.
 *
 * A failed allocation is remembered in digest->no_memory, and checked once at the end.
 * Threads: as digest.h.
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

/* A copy of the text that lives as long as the digest; "" when there is no memory. */
struct gsp_sv gsp_digest__keep(struct gsp_digest *digest, struct gsp_sv text);
/* The same of a buffer, which is cleared. */
struct gsp_sv gsp_digest__keep_buf(struct gsp_digest *digest, struct gsp_buf *text);
struct gsp_sv gsp_digest__printf(struct gsp_digest *digest, const char *fmt, ...) GSP_PRINTF(2, 3);

/* Room for one more element behind count: the array, perhaps elsewhere.  NULL when there is no
 * memory; the old array is as it was then.  The array must have grown by this function alone. */
void *gsp_digest__more(struct gsp_digest *digest, void *array, size_t count, size_t size);

/* Adds a row.  Texts are not copied.  A loss of 0 is none. */
void gsp_digest__fact(struct gsp_digest *digest, struct gsp_sv name, struct gsp_sv value);
void gsp_digest__loss(struct gsp_digest *digest, struct gsp_sv what, struct gsp_sv why,
                      uint64_t count);

/* Adds a card with two texts, which are cleared. */
void gsp_digest__card(struct gsp_digest *digest, struct gsp_digest_card card, struct gsp_buf *value,
                      struct gsp_buf *detail);
/* Adds a line to the verdict and clears the text; does nothing if it is empty or the verdict is
 * full. */
void gsp_digest__verdict_line(struct gsp_digest *digest, struct gsp_buf *text);

/* The same of a cause as gsprof.loss has it ("late", of "sampler"): told in words. */
void gsp_digest__lost(struct gsp_digest *digest, struct gsp_sv source, struct gsp_sv cause,
                      uint64_t count);

/* Appends all losses in a line, by kind and cause; nothing if there are none. */
void gsp_digest__losses_text(const struct gsp_digest *digest, struct gsp_buf *out);

/* A chart, with no line yet; NULL when there is no memory.  Borrowed until the next one. */
struct gsp_digest_chart *gsp_digest__chart(struct gsp_digest *digest, struct gsp_sv id);
/* Title, unit and help of a chart whose id every report has. */
void gsp_digest__chart_about(struct gsp_digest_chart *chart);
/* A line of it; NULL when there is no memory.  Borrowed until the next one. */
struct gsp_digest_series *gsp_digest__series(struct gsp_digest *digest,
                                             struct gsp_digest_chart *chart, struct gsp_sv name);
/* Computes the statistics of the last chart, and removes lines without a value, and the chart if it
 * has no line left. */
void gsp_digest__chart_finish(struct gsp_digest *digest, struct gsp_digest_chart *chart);
/* Adds a point; values that are no numbers become NaN. */
void gsp_digest__point(struct gsp_digest *digest, struct gsp_digest_series *series, double t,
                       double v);
/* Statistics of the points. */
void gsp_digest__series_stats(struct gsp_digest_series *series);
void gsp_digest__series_free(struct gsp_digest_series *series); /* its points */

/* The parts: each fills its own members. */
/* Stacks, threads and functions of digest->profile; times are moved to start_ns. */
GSP_MUST_CHECK int gsp_digest__stacks(struct gsp_digest *digest, const struct gsp_digest_opts *opts,
                                      struct gsp_err *err);
/* Peak and growth of the resident memory, from the chart "rss". */
GSP_MUST_CHECK int gsp_digest__rss(struct gsp_digest *digest, struct gsp_err *err);
/* Adds the next frame of a site's stack, from the outermost on. Copies the texts. Leaves out frames
 * of gsprof, and merges those of an import into one. Returns false if out of memory. */
GSP_MUST_CHECK bool gsp_digest__site_frame(struct gsp_digest *digest, struct gsp_digest_site *site,
                                           struct gsp_digest_frame frame);
/* A session's file.  Fails with FORMAT when it is none. */
GSP_MUST_CHECK int gsp_digest__session(struct gsp_digest *digest, const char *path,
                                       struct gsp_err *err);
