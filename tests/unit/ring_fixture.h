/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_fixture.h -- a folder for rings, and rows of python.torch_trace. Every value of a row is
 * computed from the writer and the row number, so that a torn row is detected.
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/map.h"
#include "ring/append.h"
#include "ring/copy.h"
#include "ring/reader.h"
#include "ring/writer.h"
#include "tap.h"

#define RING_FILE "python.torch_trace.ring"

static char ring_folder_path[64];

/* Creates a folder in memory if possible. */
static inline int ring_folder(void)
{
    snprintf(ring_folder_path, sizeof(ring_folder_path), "%s/gsprof-test-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    tap_require(mkdtemp(ring_folder_path) != NULL);
    int fd = open(ring_folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_require(fd >= 0);
    return fd;
}

static inline void ring_folder_remove(int fd)
{
    DIR *dir = fdopendir(fd);
    tap_require(dir != NULL);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2)
            unlinkat(fd, e->d_name, 0);
    closedir(dir);
    tap_check(rmdir(ring_folder_path) == 0);
}

static inline struct gsp_ring *ring_make(int folder, uint32_t capacity)
{
    struct gsp_err err = {0};
    struct gsp_ring *ring = NULL;
    struct gsp_ring_spec spec = {.table = gsp_wire_table_at(GSP_TABLE_python_torch_trace),
                                 .row_capacity = capacity,
                                 .rank = 3,
                                 .host = "here"};
    if (gsp_ring_create(folder, &spec, &ring, &err) != 0)
        printf("# %s\n", err.msg);
    tap_require(ring != NULL);
    return ring;
}

static inline struct gsp_ring_view *ring_view(int folder, const char *name)
{
    struct gsp_err err = {0};
    struct gsp_ring_view *view = NULL;
    if (gsp_ring_open(folder, name, &view, &err) != 0)
        printf("# %s\n", err.msg);
    tap_require(view != NULL);
    return view;
}

static inline uint64_t ring_word(uint64_t writer, uint64_t n, unsigned column)
{
    return gsp_mix64((writer << 48) ^ (n << 6) ^ column);
}

static inline double ring_double(uint64_t word)
{
    return (double)(int64_t)(word >> 12);
}

static inline struct gsp_row_python_torch_trace ring_row(uint64_t writer, uint64_t n)
{
    return (struct gsp_row_python_torch_trace){
        .ts_ns = (int64_t)n,
        .mono_ns = (int64_t)writer,
        .step = (int64_t)ring_word(writer, n, 2),
        .seq = (int64_t)ring_word(writer, n, 3),
        .module = (uint32_t)ring_word(writer, n, 4),
        .stage = (uint32_t)ring_word(writer, n, 5),
        .allocated = ring_double(ring_word(writer, n, 6)),
        .max_allocated = ring_double(ring_word(writer, n, 7)),
        .cached = ring_double(ring_word(writer, n, 8)),
        .duration = ring_double(ring_word(writer, n, 9)),
        .thread_id = (int64_t)ring_word(writer, n, 10),
        .device = (uint32_t)ring_word(writer, n, 11),
        .class = (uint32_t)ring_word(writer, n, 12),
        .flops = ring_double(ring_word(writer, n, 13)),
    };
}

#define RING_CHUNK 256

/* Counts of the rows that a reader saw. */
struct ring_seen {
    uint64_t good;
    uint64_t torn;    /* values of different rows */
    uint64_t gone;    /* overwritten during the copy, and detected as such */
    uint64_t highest; /* largest row number of a lane, plus one */
};

/* Compares a column of a chunk with the values expected for writers[] and numbers[]. */
static inline void ring_check_column(unsigned column, const uint64_t *words, size_t n,
                                     const int64_t *numbers, const int64_t *writers, bool *bad)
{
    const struct gsp_table *table = gsp_wire_table_at(GSP_TABLE_python_torch_trace);
    for (size_t i = 0; i < n; i++) {
        const uint64_t expected = ring_word((uint64_t)writers[i], (uint64_t)numbers[i], column);
        double f64;
        uint32_t id;
        memcpy(&f64, (const char *)words + i * 8, sizeof(f64));
        memcpy(&id, (const char *)words + i * 4, sizeof(id));
        switch (table->columns[column].type) {
        case GSP_I64:
            bad[i] = bad[i] || words[i] != expected;
            break;
        case GSP_F64:
            bad[i] = bad[i] || f64 != ring_double(expected);
            break;
        case GSP_STR:
            bad[i] = bad[i] || id != (uint32_t)expected;
            break;
        case GSP_BOOL:
        case GSP_TEXT:
            break;
        }
    }
}

/* Reads rows [from, from + n) of a lane and checks those that were not overwritten. */
static inline void ring_check_chunk(const struct gsp_ring_view *view, uint32_t lane, uint64_t from,
                                    size_t n, struct ring_seen *seen)
{
    static _Thread_local uint64_t words[16][RING_CHUNK];
    int64_t numbers[RING_CHUNK];
    int64_t writers[RING_CHUNK];
    bool bad[RING_CHUNK] = {false};
    const uint32_t columns = gsp_ring_info(view)->column_count;
    for (uint32_t column = 0; column < columns; column++)
        gsp_ring_copy(view, lane, column, from, n, words[column]);
    const uint64_t oldest = gsp_ring_oldest_row(view, lane);
    memcpy(numbers, words[0], n * 8);
    memcpy(writers, words[1], n * 8);
    for (unsigned column = 2; column < columns; column++)
        ring_check_column(column, words[column], n, numbers, writers, bad);
    for (size_t i = 0; i < n; i++)
        if (from + i < oldest)
            seen->gone++;
        else if (bad[i])
            seen->torn++;
        else
            seen->good++;
}

static inline void ring_check(struct gsp_ring_view *view, struct ring_seen *seen)
{
    static struct gsp_ring_range spans[GSP_RING_LANES_MAX];
    const size_t count = gsp_ring_ranges(view, spans, GSP_RING_LANES_MAX, NULL);
    for (size_t i = 0; i < count; i++) {
        for (uint64_t row = spans[i].from; row < spans[i].to; row += RING_CHUNK) {
            const uint64_t left = spans[i].to - row;
            ring_check_chunk(view, spans[i].lane, row, left < RING_CHUNK ? left : RING_CHUNK, seen);
        }
        if (spans[i].to > seen->highest)
            seen->highest = spans[i].to;
    }
}
