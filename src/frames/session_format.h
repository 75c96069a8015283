/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_format.h -- the format of a session file, <session>.json: names, texts and limits that
 * the writer (session_write.h) and the reader (session_read.h) share.
 *
 * docs/formats/session.md describes the format.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define GSP_SESSION_FORMAT        1 /* member "format" of the metadata */

/* The parts of a file, in this order. */
#define GSP_SESSION_METADATA      "metadata"
#define GSP_SESSION_FRAMES        "frames"
#define GSP_SESSION_BY_DEVICE     "summary_by_device"
#define GSP_SESSION_BY_CLIENT     "summary_by_client"
#define GSP_SESSION_SUMMARY       "summary"
#define GSP_SESSION_LOSSES        "losses"
#define GSP_SESSION_GAPS          "gaps"

/* The statistics in a row of the summary. Members of struct gsp_metric_stats and of
 * struct gsp_session_row have the same names. */
#define GSP_SESSION_STATISTICS(X) X(mean) X(std) X(min) X(max) X(p50) X(p95) X(p99)

/* Times are in the format of gsp_fmt_iso_time(): "2026-01-31T12:34:56.789+01:00". The reader also
 * accepts times without a fraction or a zone. Returns false if the text is not a time; otherwise
 * sets CLOCK_REALTIME nanoseconds and the offset of the zone. */
bool gsp_frames__session_time_parse(struct gsp_sv text, int64_t *out_ns, int32_t *zone_s,
                                    bool *has_zone);

/* Whether the text can be the labels of a session: one JSON object with at most 32 levels. */
bool gsp_frames_session_labels_are_valid(struct gsp_sv text);
