/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maps.h -- the memory map of one process (/proc/<pid>/maps).
 *
 * Reads:   /proc/<pid>/maps, or any text of that form (tests, core files).
 * Gives:   an array of mappings sorted by address.
 * Threads: a struct gsp_maps is immutable; any thread may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct gsp_maps; /* opaque */

struct gsp_map {
    uint64_t start;  /* first byte */
    uint64_t end;    /* one past the last byte */
    uint64_t offset; /* in the file, bytes */
    uint64_t inode;  /* 0 if anonymous */
    bool readable;
    bool writable;
    bool exec;
    bool deleted;     /* the file has been unlinked */
    const char *path; /* borrowed from the gsp_maps; "" if anonymous; without " (deleted)" */
};

/* Reads the map of a live process. On success the caller owns *out and frees it with
 * gsp_proc_maps_free(). On failure *out is NULL. Fails with PERM, NOPROC, FORMAT, LIMIT, NOMEM or
 * IO. */
GSP_MUST_CHECK int gsp_proc_maps_read(pid_t pid, struct gsp_maps **out, struct gsp_err *err);
/* Parses text of that form. */
GSP_MUST_CHECK int gsp_proc__maps_parse(struct gsp_sv text, struct gsp_maps **out,
                                        struct gsp_err *err);

void gsp_proc_maps_free(struct gsp_maps *maps); /* NULL does nothing */

size_t gsp_proc_maps_count(const struct gsp_maps *maps);

/* The i-th mapping, or the mapping that contains addr; NULL if none exists. Borrowed until
 * gsp_proc_maps_free(). */
const struct gsp_map *gsp_proc_maps_at(const struct gsp_maps *maps, size_t i);
const struct gsp_map *gsp_proc_maps_find(const struct gsp_maps *maps, uint64_t addr);
