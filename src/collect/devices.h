/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h -- counters of devices by name, as they were at the tick before.
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

void gsp_collect__devices_free(struct gsp_devices *devices);
void gsp_collect__devices_begin(struct gsp_devices *devices);
/* The device of that name; *is_new when it was not there in the round before.  NULL when there
 * are too many, or no memory.  Borrowed until the next call. */
struct gsp_device *gsp_collect__devices_get(struct gsp_devices *devices, struct gsp_sv name,
                                            bool *is_new);
/* Forgets those that were not seen since begin. */
void gsp_collect__devices_end(struct gsp_devices *devices);
