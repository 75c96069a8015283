/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h -- reads a ring that another process writes, or has written.
 *
 * Nothing in the file is believed: the header is copied and checked once, positions are
 * bounded by what was mapped, strings are copied.  A file that is cut while it is mapped
 * reads as zeros from there on (ring/guard.h) and is reported damaged.
 * A reader never writes and never makes a writer wait.
 *
 * Used by: store/, cli/, later the daemon and the Python package.
 * Threads: a view may be read by many threads at once; open and close belong to one.
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
    uint32_t life; /* 0: the first file of this table that the process made */
};

/* Opens <schema>.<table>.ring, or that of a later life, by its file name in the folder.
 * Fails with NOFILE, PERM (another user's), FORMAT (what is wrong, and where), VERSION, NOMEM. */
GSP_MUST_CHECK int gsp_ring_open(int folder_fd, const char *file_name, struct gsp_ring_view **out,
                                 struct gsp_err *err);
/* The one of a table that was made last. */
GSP_MUST_CHECK int gsp_ring_open_newest(int folder_fd, const char *schema, const char *table,
                                        struct gsp_ring_view **out, struct gsp_err *err);
void gsp_ring_view_close(struct gsp_ring_view *view); /* NULL does nothing */

const struct gsp_ring_info *gsp_ring_info(const struct gsp_ring_view *view); /* borrowed */

/* Rows [from, to) of one lane, by row number. */
struct gsp_ring_span {
    uint64_t from;
    uint64_t to;
    uint32_t lane;
};

/* How far the ring is now: a span for each lane that has rows, those that are surely whole.
 * *overwritten (may be NULL) gets the number of rows ever published that are not there any
 * more.  Lanes added since the view was opened are seen too.  Returns the number of spans, at
 * most cap; GSP_RING_LANES_MAX suffices. */
size_t gsp_ring_spans(struct gsp_ring_view *view, struct gsp_ring_span *spans, size_t cap,
                      uint64_t *overwritten);

/* Narrows a span to the rows whose ts_ns lies in [from_ns, to_ns], by binary search: rows of a
 * lane are in the order of their time (but for steps of the clock). */
void gsp_ring_span_times(const struct gsp_ring_view *view, struct gsp_ring_span *span,
                         int64_t from_ns, int64_t to_ns);

/* Copies n values of a column, from row number from on; n * width bytes.  What is copied is
 * only good for rows that gsp_ring_oldest(), asked afterwards, still has. */
void gsp_ring_copy(const struct gsp_ring_view *view, uint32_t lane, uint32_t column, uint64_t from,
                   size_t n, void *out);
/* Where the values of rows [from, from + *n) are in the map; *n is cut at the ring's end.
 * For scans that transform while they copy.  The same condition holds. */
const void *gsp_ring_values(const struct gsp_ring_view *view, uint32_t lane, uint32_t column,
                            uint64_t from, size_t *n);
/* The first row number of the lane whose values cannot have been overwritten by now. */
uint64_t gsp_ring_oldest(const struct gsp_ring_view *view, uint32_t lane);

/* A value of a TEXT column: appends its bytes to out.  False when it is NULL (*null) or has been
 * overwritten. */
bool gsp_ring_text(const struct gsp_ring_view *view, uint32_t lane, uint64_t ref,
                   struct gsp_buf *out, bool *null);

/* The dictionary as it is now, copied: ids 1 to count; 0 and holes are {NULL, 0}. */
struct gsp_ring_dict {
    struct gsp_sv *strings; /* strings[0] is id 0 */
    uint32_t count;         /* of strings[], id 0 included */
    char *bytes;
};
GSP_MUST_CHECK int gsp_ring_dict_read(const struct gsp_ring_view *view, struct gsp_ring_dict *out,
                                      struct gsp_err *err);
void gsp_ring_dict_free(struct gsp_ring_dict *dict);

struct gsp_ring_state {
    uint32_t status; /* GSP_RING_* */
    uint32_t lane_count;
    uint64_t rows;         /* published ever */
    uint64_t rows_lost;    /* for want of a lane */
    uint64_t rows_no_file; /* lost because the writer could not open its file for a lane */
    uint64_t strings_lost;
    int64_t newest_ns; /* ts_ns of the newest row; GSP_NULL_I64: none */
    bool damaged;      /* the file was cut under our hands */
};
void gsp_ring_state(struct gsp_ring_view *view, struct gsp_ring_state *out);
