/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h -- sources that read a /proc file with one line of counters per device: the shared
 * code, and the counters of the previous tick.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/parse.h"
#include "collect/source.h"

#define GSP_DEVICE_NAME_MAX 64U

struct gsp_device {
    char name[GSP_DEVICE_NAME_MAX];
    uint64_t last[GSP_DEVICE_COUNTERS];
    uint64_t round; /* the last round in which it was listed */
    bool has_last;
    bool is_used; /* the source adds rows for it */
};

/* {0} is empty. */
struct gsp_devices {
    struct gsp_device *at;
    size_t count;
    size_t cap;
    size_t next; /* where the next search starts: lists keep their order */
    uint64_t round;
};

/* A source. */
struct gsp_device_file {
    const struct gsp_device_kind *kind;
    struct gsp_collect_env env;
    int fd;
    struct gsp_buf text;
    int64_t last_mono_ns;
    struct gsp_devices devices;
    struct gsp_collect_trouble trouble;
};

/* What differs between the sources. */
struct gsp_device_kind {
    const char *name; /* of the file, below proc_root */
    bool (*parse)(struct gsp_text_scan line, struct gsp_device_line *out);
    /* A device that was never used gets no row. */
    bool (*is_unused)(const struct gsp_device_line *line);
    /* Called once per device; NULL: all devices get rows. */
    bool (*is_relevant)(const struct gsp_device_file *file, const char *name);
    /* seconds since the previous tick; 0 if the device is new. */
    void (*put)(struct gsp_device_file *file, const struct gsp_collect_tick *tick,
                const struct gsp_device_line *line, const struct gsp_device *device, double seconds,
                struct gsp_collect_sink *sink);
};

/* For struct gsp_collector_type. The collector is a struct gsp_device_file. */
GSP_MUST_CHECK int gsp_collect__devices_open(const struct gsp_device_kind *kind,
                                             const struct gsp_collect_env *env, void **out,
                                             struct gsp_err *err);
void gsp_collect__devices_close(void *collector);
void gsp_collect__devices_read(void *collector, const struct gsp_collect_tick *tick,
                               struct gsp_collect_sink *sink);
