/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta.h -- meta.json of a ring directory: describes the process that writes the rings.
 *
 * Reads:   a flat JSON object of strings, numbers, true, false and null. Ignores unknown keys.
 * Threads: no state.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "ring/dir.h"
#include "wire/table.h"

struct gsp_ring__meta {
    uint64_t start_time; /* clock ticks since boot */
    uint64_t pid_ns;     /* inode of the pid namespace; 0: unknown */
    int64_t created_ns;  /* CLOCK_REALTIME */
    int64_t rank;        /* GSP_NULL_I64: unknown */
    int32_t pid;
    uint32_t owner; /* user who runs the process; UINT32_MAX: unknown */
    char host[GSP_NAME_MAX];
    char version[GSP_NAME_MAX];
    char cmdline[GSP_CMDLINE_MAX]; /* truncated */
    char note[GSP_RING_DIR_NOTE];  /* why the directory is not in the first root; "" if it is */
};

void gsp_ring__meta_write(const struct gsp_ring__meta *meta, struct gsp_buf *out);
/* Fails with FORMAT. */
GSP_MUST_CHECK int gsp_ring__meta_parse(struct gsp_sv text, struct gsp_ring__meta *out,
                                        struct gsp_err *err);
