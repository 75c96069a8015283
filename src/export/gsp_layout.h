/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gsp_layout.h -- the bytes of a .gsp file, for its writer and its reader.
 *
 * docs/formats/gsp.md tells the layout in words.  All fixed numbers are little-endian.
 *
 * Used by: gsp.c and gsp_read.c only.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define GSP_FILE_MAGIC_BYTES   8U
#define GSP_FILE_VERSION       1U
#define GSP_FILE_HEADER_BYTES  32U

#define GSP_BLOCK_HEADER_BYTES 16U
/* A block holds at most this much before compression: one longest string and a little more. */
#define GSP_BLOCK_RAW_MAX      ((1U << 24) + (1U << 16))

/* Broken by whoever takes the file for text. */
static const unsigned char gsp_file_magic[GSP_FILE_MAGIC_BYTES] = {0x89, 'G',  'S',  'P',
                                                                   '\r', '\n', 0x1a, '\n'};

enum gsp_block_type {
    GSP_BLOCK_META = 1,    /* (tag, value) pairs; later ones replace earlier ones */
    GSP_BLOCK_DEFS = 2,    /* strings, frames, stacks, processes, threads */
    GSP_BLOCK_SAMPLES = 3, /* columns of samples */
    GSP_BLOCK_TOTALS = 4,  /* sums, of a profile without samples */
    GSP_BLOCK_END = 5,     /* the number of samples of the file */
};
/* Types from here on may be skipped by a reader that does not know them. */
#define GSP_BLOCK_OPTIONAL 128U

enum gsp_block_codec {
    GSP_CODEC_RAW = 0,
    GSP_CODEC_ZSTD = 1,
};

enum gsp_meta_tag {
    GSP_META_START_NS = 1,
    GSP_META_DURATION_NS,
    GSP_META_PERIOD_NS,
    GSP_META_UNIT,
    GSP_META_TICKS,
    GSP_META_TORN,
    GSP_META_LATE,
    GSP_META_FAILED,
    GSP_META_GONE,
    GSP_META_SKIPPED,
    GSP_META_UNMERGED,
};

enum gsp_def_tag {
    GSP_DEF_STRING = 1,
    GSP_DEF_FRAME,
    GSP_DEF_STACK,
    GSP_DEF_PROCESS,
    GSP_DEF_THREAD,
    GSP_DEF_PROCESS_CHANGED,
    GSP_DEF_THREAD_CHANGED,
    GSP_DEF_PROCESS_NS, /* the pid of a process in its own namespace */
    GSP_DEF_COUNT,      /* not a tag */
};

/* The columns of a block of samples, in their order in the file. */
enum gsp_column {
    GSP_COLUMN_HEAD,
    GSP_COLUMN_THREAD,
    GSP_COLUMN_TIME,
    GSP_COLUMN_STACK,
    GSP_COLUMN_WEIGHT,
    GSP_COLUMN_COUNT,
};

/* The head byte of a sample. */
#define GSP_HEAD_FLAGS        0x03U /* GSP_SAMPLE_* */
#define GSP_HEAD_STACK        0x04U /* another stack than the thread's last: see the column */
#define GSP_HEAD_TIME_MASK    0x18U
#define GSP_HEAD_TIME_SAME    0x00U /* as the sample before */
#define GSP_HEAD_TIME_NEXT    0x08U /* the next tick, and a difference */
#define GSP_HEAD_TIME_NEAR    0x10U /* the sample before, and a difference */
#define GSP_HEAD_TIME_FAR     0x18U /* some number of ticks, and a difference */
#define GSP_HEAD_WEIGHT_MASK  0x60U
#define GSP_HEAD_WEIGHT_SAME  0x00U /* as the thread's last */
#define GSP_HEAD_WEIGHT_TIME  0x20U /* the time since the thread's last sample */
#define GSP_HEAD_WEIGHT_OTHER 0x40U /* a difference to the thread's last */
#define GSP_HEAD_THREAD       0x80U /* not the thread that followed last time */

/* What both sides remember of a thread to foretell its next sample. */
struct gsp_pace_thread {
    int64_t time; /* of its last sample */
    int64_t weight;
    uint32_t stack;
    uint32_t next; /* the thread whose sample followed this thread's last one */
};

/* The common memory of writer and reader.  Times are in units of the file's resolution. */
struct gsp_pace {
    struct gsp_pace_thread *threads;
    size_t thread_count;
    uint32_t last_thread;
    int64_t last_time;
    int64_t tick_time; /* of the sample that began the current tick */
    int64_t period;    /* 0 when unknown */
};

/* Makes the pace know threads below count.  False when there is no memory. */
bool gsp_export__pace_grow(struct gsp_pace *pace, size_t count);

/* The checksum of a block: of the header up to the checksum, and of the stored bytes. */
uint32_t gsp_export__block_crc(const unsigned char *header, struct gsp_sv stored);

static inline void gsp_store_u32(unsigned char *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static inline void gsp_store_u64(unsigned char *p, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static inline uint32_t gsp_load_u32(const unsigned char *p)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < 4; i++)
        v |= (uint32_t)p[i] << (8 * i);
    return v;
}

static inline uint64_t gsp_load_u64(const unsigned char *p)
{
    return gsp_load_u32(p) | (uint64_t)gsp_load_u32(p + 4) << 32;
}
