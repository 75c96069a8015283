/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h -- the format of a .gspm file, for its writer and its reader.
 *
 * docs/formats/mem.md describes it. Fixed-size numbers are little-endian.
 *
 * Threads: no state.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"

#define GSP_MEMLOG_VERSION      1U
#define GSP_MEMLOG_HEADER_BYTES 16U
#define GSP_MEMLOG_BLOCK_BYTES  16U /* header of a block */
#define GSP_MEMLOG_BLOCK_MAX    (1U << 27)

/* A program that treats the file as text damages these bytes. */
static const unsigned char gsp_memlog__magic[8] = {0x89, 'G', 'S', 'P', 'M', '\r', '\n', 0x1a};

enum gsp_memlog_tag {
    GSP_MEMLOG_META = 1,
    GSP_MEMLOG_STRING,
    GSP_MEMLOG_FRAME,
    GSP_MEMLOG_STACK,
    GSP_MEMLOG_PROCESS,
    GSP_MEMLOG_THREAD,
    GSP_MEMLOG_SITE,
    GSP_MEMLOG_TICK,
    GSP_MEMLOG_GONE,    /* a process has ended */
    GSP_MEMLOG_END,     /* the recorder ended the recording */
    GSP_MEMLOG_HUGE,    /* the system's setting for huge pages */
    GSP_MEMLOG_LEAVING, /* the interpreter of a process is shutting down, from the next tick on */
    GSP_MEMLOG_TAGS,
};

/* The counts of a site that have changed. */
#define GSP_MEMLOG_HAS_ALLOC 1U
#define GSP_MEMLOG_HAS_FREE  2U
#define GSP_MEMLOG_HAS_PEAK  4U
#define GSP_MEMLOG_HAS_VAR   8U
#define GSP_MEMLOG_HAS_ALL   15U

static inline uint64_t gsp_memlog__checksum(struct gsp_sv records, uint32_t number)
{
    return gsp_hash_bytes(records.p, records.len, number);
}

static inline void gsp_memlog__put_number(unsigned char *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static inline uint64_t gsp_memlog__get_number(const unsigned char *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}
