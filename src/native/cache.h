/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h -- unwind tables on disk, by the build-id of the file that they are for.
 *
 * Reads, writes: ${XDG_CACHE_HOME:-~/.cache}/gsprof/unwind/<build-id>.
 * Used by: file.c for tables that took long to build.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/str.h"
#include "native/cfi.h"

/* What a table belongs to. */
struct gsp_native_cache_key {
    const unsigned char *build_id;
    size_t build_id_len; /* 8 to 64 */
    uint64_t eh_len;     /* of the .eh_frame it was built from */
    uint16_t machine;
};

/* The content of a cache file; every byte is checked before it is believed. */
GSP_MUST_CHECK bool gsp_native__cache_parse(struct gsp_sv bytes,
                                            const struct gsp_native_cache_key *key,
                                            struct gsp_cfi_table *out);
void gsp_native__cache_format(const struct gsp_cfi_table *table,
                              const struct gsp_native_cache_key *key, struct gsp_buf *out);

/* False when there is none that may be trusted. */
GSP_MUST_CHECK bool gsp_native__cache_load(const struct gsp_native_cache_key *key,
                                           struct gsp_cfi_table *out);
/* Failing changes nothing but the time that the next start takes. */
void gsp_native__cache_save(const struct gsp_native_cache_key *key,
                            const struct gsp_cfi_table *table);
