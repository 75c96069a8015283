/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_internal.h -- what the files of the session reader share.
 *
 * Threads: one owner.
 */
#pragma once

#include "base/map.h"
#include "frames/session_read.h"

#define SESSION_GPUS_MAX 1024U

struct session_value {
    uint32_t series;
    double v;
};

/* A member of an object in an array, until the object's end says whose it is. */
struct session_member {
    size_t name_at; /* in member_names */
    size_t name_len;
    double v;
};

struct session_reader {
    struct gsp_scan scan;
    struct gsp_session_data *data;
    const struct gsp_session_want *want;
    struct gsp_hmap series; /* hashes of metric and device */
    size_t series_cap;
    struct gsp_buf values; /* struct session_value: the present frame's */
    struct gsp_buf members;
    struct gsp_buf member_names;
    struct gsp_buf metric; /* the present metric's name */
    struct gsp_buf device; /* the present device's */
    struct gsp_buf gpu_text;
    size_t gpu_at[SESSION_GPUS_MAX + 1]; /* of each GPU's id in gpu_text, and the end */
    size_t gpu_count;
    int64_t time_ns; /* of the present frame */
    bool has_time;
};

/* Reads one frame, whose { was the last token. */
GSP_MUST_CHECK int gsp_session__frame(struct session_reader *reader, struct gsp_err *err);
/* Reads the rows of "summary", whose [ was the last token. */
GSP_MUST_CHECK int gsp_session__rows(struct session_reader *reader, struct gsp_err *err);
/* Adds the values of the present frame to their series. */
GSP_MUST_CHECK int gsp_session__add(struct session_reader *reader, struct gsp_err *err);
/* The series of a metric and a device; UINT32_MAX when there are too many. */
GSP_MUST_CHECK int gsp_session__series(struct session_reader *reader, struct gsp_sv metric,
                                       struct gsp_sv device, uint32_t *out, struct gsp_err *err);
