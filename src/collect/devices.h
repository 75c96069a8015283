/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h -- sources that are a file of /proc with a line of counters for each device: what they
 * share, and the counters as they were at the tick before.
 *
 * Used by: disk.c, network.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "collect/parse.h"
#include "collect/source.h"

#define GSP_DEVICE_NAME_MAX 64U

struct gsp_device {
    char name[GSP_DEVICE_NAME_MAX];
    uint64_t last[GSP_DEVICE_COUNTERS];
    uint64_t round; /* the last one it was seen in */
    bool has_last;
    bool wanted; /* the source's: whether it gives rows */
};

/* {0} is empty. */
struct gsp_devices {
    struct gsp_device *at;
    size_t count;
    size_t cap;
    size_t next; /* where the next one is looked for first: lists keep their order */
    uint64_t round;
};

/* One such source; a struct gsp_collector begins with it. */
struct gsp_device_file {
    const struct gsp_device_kind *kind;
    struct gsp_collect_env env;
    const char *name; /* of the file, below proc_root */
    int fd;
    struct gsp_buf text;
    int64_t last_mono_ns;
    struct gsp_devices devices;
    struct gsp_trouble trouble;
};

/* What tells one source from another. */
struct gsp_device_kind {
    bool (*parse)(struct gsp_scan line, struct gsp_device_line *out);
    /* A device that was never used is not worth a row. */
    bool (*is_unused)(const struct gsp_device_line *line);
    /* Asked once for each device; NULL: all are. */
    bool (*is_wanted)(const struct gsp_device_file *file, const char *name);
    /* seconds since the tick before; 0 when the device was not there then. */
    void (*put)(struct gsp_device_file *file, const struct gsp_tick *tick,
                const struct gsp_device_line *line, const struct gsp_device *device, double seconds,
                struct gsp_sink *sink);
};

/* Fails with NOTSUP when the file cannot be read. */
GSP_MUST_CHECK int gsp_collect__devices_open(struct gsp_device_file *file,
                                             const struct gsp_device_kind *kind, const char *name,
                                             const struct gsp_collect_env *env,
                                             struct gsp_err *err);
void gsp_collect__devices_close(struct gsp_device_file *file);
void gsp_collect__devices_read(struct gsp_device_file *file, const struct gsp_tick *tick,
                               struct gsp_sink *sink);
