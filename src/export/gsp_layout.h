/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gsp_layout.h -- the layout of a .gsp file, for its writer and its reader.
 *
 * docs/formats/gsp.md describes the layout. All numbers of fixed size are little-endian.
 *
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
/* Largest block before compression: one string of maximal length and a little more. */
#define GSP_BLOCK_RAW_MAX      ((1U << 24) + (1U << 16))

/* A transfer in text mode corrupts these bytes, so that it is detected. */
static const unsigned char gsp_file_magic[GSP_FILE_MAGIC_BYTES] = {0x89, 'G',  'S',  'P',
                                                                   '\r', '\n', 0x1a, '\n'};

enum gsp_block_type {
    GSP_BLOCK_META = 1,    /* (tag, value) pairs; later ones replace earlier ones */
    GSP_BLOCK_DEFS = 2,    /* strings, frames, stacks, processes, threads */
    GSP_BLOCK_SAMPLES = 3, /* columns of samples */
    GSP_BLOCK_TOTALS = 4,  /* totals, of a profile without samples */
    GSP_BLOCK_END = 5,     /* the number of samples in the file */
};
/* A reader skips unknown types from here on. It rejects unknown types below. */
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
    GSP_DEF_PROCESS_NS, /* the pid of a process in its own PID namespace */
    GSP_DEF_COUNT,      /* not a tag */
};

/* The columns of a block of samples, in file order. */
enum gsp_block_column {
    GSP_COLUMN_HEAD,
    GSP_COLUMN_THREAD,
    GSP_COLUMN_TIME,
    GSP_COLUMN_STACK,
    GSP_COLUMN_WEIGHT,
    GSP_COLUMN_COUNT,
};

/* The head byte of a sample. */
#define GSP_HEAD_FLAGS        0x03U /* GSP_SAMPLE_* */
#define GSP_HEAD_STACK        0x04U /* not the thread's last stack: see the stack column */
#define GSP_HEAD_TIME_MASK    0x18U
#define GSP_HEAD_TIME_SAME    0x00U /* that of the previous sample */
#define GSP_HEAD_TIME_NEXT    0x08U /* the next tick plus a difference */
#define GSP_HEAD_TIME_NEAR    0x10U /* the previous sample's plus a difference */
#define GSP_HEAD_TIME_FAR     0x18U /* a number of ticks plus a difference */
#define GSP_HEAD_WEIGHT_MASK  0x60U
#define GSP_HEAD_WEIGHT_SAME  0x00U /* the thread's last weight */
#define GSP_HEAD_WEIGHT_TIME  0x20U /* the time since the thread's last sample */
#define GSP_HEAD_WEIGHT_OTHER 0x40U /* the thread's last weight plus a difference */
#define GSP_HEAD_THREAD       0x80U /* not the thread that followed last time */

/* State of a thread, kept by writer and reader to predict the thread's next sample. */
struct gsp_pace_thread {
    int64_t time; /* of its last sample */
    int64_t weight;
    uint32_t stack;
    uint32_t next; /* the thread whose sample followed this thread's last one */
};

/* State of the prediction, the same in writer and reader. Times are in units of the file's
 * resolution. */
struct gsp_pace {
    struct gsp_pace_thread *threads;
    size_t thread_count;
    uint32_t last_thread;
    int64_t last_time;
    int64_t tick_time; /* of the first sample of the current tick */
    int64_t period;    /* 0: unknown */
};

/* Adds state for all threads below count. Returns false if memory runs out. */
bool gsp_export__pace_grow(struct gsp_pace *pace, size_t count);

/* Returns the checksum over a block's header (up to its checksum field) and its stored bytes. */
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
