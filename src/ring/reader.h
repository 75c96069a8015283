/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h -- reads a ring that another process writes or has written.
 *
 * The reader does not trust the file: it copies and validates the head once, limits positions to
 * the mapping, and copies strings. If the file is truncated while it is mapped, the missing part
 * reads as zeros (ring/guard.h), and the ring is reported as damaged. On a file system in memory, a
 * file with holes where a writer reserves bytes is not read: that would fill the holes.
 * A reader never writes and never makes a writer wait.
 *
 * Threads: any number may read a view; one thread opens and closes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "wire/ring.h"

struct gsp_ring_view; /* opaque */

struct gsp_ring_info {
    char schema[GSP_NAME_MAX];
    char table[GSP_NAME_MAX];
    char host[GSP_NAME_MAX];
    enum gsp_scope scope;
    uint32_t column_count;
    struct gsp_ring_column columns[GSP_COLUMNS_MAX]; /* checked */
    uint32_t row_capacity;
    int32_t pid;
    uint64_t start_time;
    int64_t rank;
    int64_t created_ns;
    uint64_t file_bytes;
    uint32_t life; /* 0: the first file of this table that the process created */
};

/* Opens a ring by its file name in the ring directory (gsp_ring_file_name()).
 * Fails with NOFILE, PERM (it belongs to another user), FORMAT (also if it has several hard links,
 * or holes), VERSION or NOMEM. */
GSP_MUST_CHECK int gsp_ring_open(int folder_fd, const char *file_name, struct gsp_ring_view **out,
                                 struct gsp_err *err);
/* Opens the ring of a table that was created last. */
GSP_MUST_CHECK int gsp_ring_open_newest(int folder_fd, const char *schema, const char *table,
                                        struct gsp_ring_view **out, struct gsp_err *err);
void gsp_ring_view_close(struct gsp_ring_view *view); /* NULL does nothing */

const struct gsp_ring_info *gsp_ring_info(const struct gsp_ring_view *view); /* borrowed */

/* Rows [from, to) of one lane, by row number. */
struct gsp_ring_range {
    uint64_t from;
    uint64_t to;
    uint32_t lane;
};

/* Returns the rows that are readable now: one span for each lane that has rows. Includes lanes that
 * were added since the view was opened. *overwritten (may be NULL) is the number of published rows
 * that no longer exist. Returns the number of spans, at most cap; GSP_RING_LANES_MAX suffices. */
size_t gsp_ring_ranges(struct gsp_ring_view *view, struct gsp_ring_range *spans, size_t cap,
                       uint64_t *overwritten);

/* Narrows a span to the rows with ts_ns in [from_ns, to_ns], by binary search. The rows of a lane
 * are in the order of time, unless the clock was set. */
void gsp_ring_range_narrow(const struct gsp_ring_view *view, struct gsp_ring_range *span,
                           int64_t from_ns, int64_t to_ns);

/* Copies n values of a column, starting at row number `from`: n * width bytes. A copied value is
 * valid only if its row number is at least that which gsp_ring_oldest_row() returns afterwards. */
void gsp_ring_copy(const struct gsp_ring_view *view, uint32_t lane, uint32_t column, uint64_t from,
                   size_t n, void *out);
/* Returns the values of rows [from, from + *n) in the mapping, for scans that convert while they
 * copy. Reduces *n at the end of the ring. The same condition applies. */
const void *gsp_ring_values(const struct gsp_ring_view *view, uint32_t lane, uint32_t column,
                            uint64_t from, size_t *n);
/* Returns the first row number of the lane whose values have not been overwritten. */
uint64_t gsp_ring_oldest_row(const struct gsp_ring_view *view, uint32_t lane);

/* Appends a value of a TEXT column to out. Returns false if it is NULL (*null) or has been
 * overwritten. */
bool gsp_ring_text_read(const struct gsp_ring_view *view, uint32_t lane, uint64_t ref,
                        struct gsp_buf *out, bool *null);

/* A copy of the dictionary. Id 0 and unused ids are {NULL, 0}. */
struct gsp_ring_dict {
    struct gsp_sv *strings; /* by id */
    uint32_t count;         /* of strings[], including id 0 */
    char *bytes;
    uint64_t byte_count;
};
GSP_MUST_CHECK int gsp_ring_dict_read(const struct gsp_ring_view *view, struct gsp_ring_dict *out,
                                      struct gsp_err *err);
/* Fails with LIMIT if the copy needs more bytes, at string_bytes for each string and its own. */
GSP_MUST_CHECK int gsp_ring_dict_read_within(const struct gsp_ring_view *view, uint64_t bytes_max,
                                             uint64_t string_bytes, struct gsp_ring_dict *out,
                                             struct gsp_err *err);
void gsp_ring_dict_free(struct gsp_ring_dict *dict);
/* Copies one string, cut to cap - 1 bytes, and terminates it. Returns its length; 0 if it is empty,
 * NULL or unknown. */
size_t gsp_ring_string_read(const struct gsp_ring_view *view, uint32_t id, char *out, size_t cap);

struct gsp_ring_state {
    uint32_t status; /* GSP_RING_* */
    uint32_t lane_count;
    uint64_t rows;         /* published so far */
    uint64_t rows_lost;    /* no space for a lane */
    uint64_t rows_no_file; /* lost because the writer could not open its file for a lane */
    uint64_t strings_lost;
    int64_t newest_ns; /* ts_ns of the newest row; GSP_NULL_I64: none */
    bool damaged;      /* the file was truncated while it was mapped */
};
void gsp_ring_state(struct gsp_ring_view *view, struct gsp_ring_state *out);
