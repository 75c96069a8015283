/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_read_internal.h -- state shared by the source files of the session reader.
 *
 * Threads: one owner.
 */
#pragma once

#include "base/map.h"
#include "frames/session_format.h"
#include "frames/session_read.h"

#define SESSION_GPUS_MAX 1024U

struct session_value {
    uint32_t series;
    double v;
};

/* A member of an object in an array. Its device is known only at the end of the object. */
struct session_member {
    size_t name_at; /* in member_names */
    size_t name_len;
    double v;
};

struct session_reader {
    struct gsp_json_scan scan;
    struct gsp_session_data *data;
    const struct gsp_session_read_options *options;
    struct gsp_hmap series; /* hashes of metric and device -> index of the series */
    size_t series_cap;
    size_t row_cap;
    struct gsp_buf values; /* struct session_value, of the current metric frame */
    struct gsp_buf members;
    struct gsp_buf member_names;
    struct gsp_buf metric; /* name of the current metric */
    struct gsp_buf device; /* name of the current device */
    struct gsp_buf gpu_text;
    size_t gpu_at[SESSION_GPUS_MAX + 1]; /* offset of each GPU's id in gpu_text, and the end */
    size_t gpu_count;
    int64_t time_ns; /* of the current metric frame */
    bool has_time;
};

/* Reads one metric frame. The last token was its {. */
GSP_MUST_CHECK int gsp_frames__session_frame(struct session_reader *reader, struct gsp_err *err);
/* Adds the values of the current metric frame to their series. */
GSP_MUST_CHECK int gsp_frames__session_add(struct session_reader *reader, struct gsp_err *err);
/* Finds or adds the series of a metric and a device. *out is UINT32_MAX if the limit on the number
 * of series is reached. */
GSP_MUST_CHECK int gsp_frames__session_series(struct session_reader *reader, struct gsp_sv metric,
                                              struct gsp_sv device, uint32_t *out,
                                              struct gsp_err *err);
