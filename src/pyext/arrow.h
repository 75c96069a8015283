/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrow.h -- a table in memory, exported through the C stream interface of Apache Arrow.
 *
 * The table is copied once and then shared. Consumers may keep it longer than the interpreter
 * lives, so it refers to no Python objects.
 *
 * Threads: a table does not change once exported; each consumer has a reference.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

#define GSP_ARROW_BUFFERS 3

/* Layouts and member names of the interface. */
struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

struct gsp_arrow_column {
    int64_t length;
    int64_t null_count;
    int64_t buffer_count;
    void *buffers[GSP_ARROW_BUFFERS]; /* NULL: none */
};

struct gsp_arrow_field {
    char *name;
    char *format;
    char *metadata; /* encoded as the interface requires; NULL: none */
    bool has_dictionary;
    struct gsp_arrow_column dictionary;
};

struct gsp_arrow_table {
    _Atomic size_t refs;
    size_t field_count;
    size_t batch_count;
    struct gsp_arrow_field *fields;
    int64_t *lengths;                 /* of batches */
    struct gsp_arrow_column *columns; /* of batches, field_count each */
};

/* Drops a reference; the last one frees the table. Accepts NULL and partly built tables. */
void gsp_pyext__arrow_unref(struct gsp_arrow_table *table);

/* Returns a stream of the table's batches, which takes over the caller's reference. Returns NULL if
 * out of memory; the reference is then still the caller's. Freed by gsp_pyext__arrow_stream_free().
 */
struct ArrowArrayStream *gsp_pyext__arrow_stream_new(struct gsp_arrow_table *table);
void gsp_pyext__arrow_stream_free(struct ArrowArrayStream *stream);
