/* SPDX-License-Identifier: Apache-2.0 */
#include "store/copy_column.h"

#include <string.h>

/* The state of one call of gsp_store__copy_column(). */
struct job {
    const struct gsp_duckdb *duck;
    const struct gsp_store_table *view;
    const struct gsp_source *source;
    struct gsp_source_span rows;
    uint32_t column; /* of the source */
    duckdb_vector out;
    void *data;
    uint64_t *valid; /* NULL until a value is NULL */
    size_t count;
    bool has_null_id; /* copy_enum() wrote the value that stands for NULL */
};

static void set_null(struct job *job, size_t row)
{
    if (!job->valid) {
        job->duck->vector_ensure_validity_writable(job->out);
        job->valid = job->duck->vector_get_validity(job->out);
    }
    job->valid[row / 64] &= ~(UINT64_C(1) << (row % 64));
}

/* Clears the NULLs that an earlier use of the chunk left. */
static void set_all_valid(struct job *job)
{
    job->valid = job->duck->vector_get_validity(job->out);
    if (job->valid)
        memset(job->valid, 0xff, (job->count + 63) / 64 * sizeof(*job->valid));
}

static void fill_null(struct job *job)
{
    for (size_t i = 0; i < job->count; i++)
        set_null(job, i);
}

/* Returns the source's values from row `done` on, and their number in *n. Returns NULL if the lane
 * no longer exists: the caller of gsp_store__copy_column() then drops the rows. */
static const void *read_values(const struct job *job, size_t done, size_t *n)
{
    *n = job->count - done;
    const void *values = job->source->ops->values(job->source, job->rows.lane, job->column,
                                                  job->rows.from + done, n);
    return *n > 0 ? values : NULL;
}

/* Calls put() with all values of the column, in runs of n values that start at a row. */
static void put_runs(struct job *job,
                     void (*put)(struct job *job, size_t row, const void *values, size_t n))
{
    size_t n = 0;
    for (size_t done = 0; done < job->count; done += n) {
        const void *values = read_values(job, done, &n);
        if (!values) {
            fill_null(job);
            return;
        }
        put(job, done, values, n);
    }
}

static void copy_fixed(struct job *job, size_t width)
{
    size_t n = 0;
    for (size_t done = 0; done < job->count; done += n) {
        const void *values = read_values(job, done, &n);
        if (!values) {
            memset((char *)job->data + done * width, 0, (job->count - done) * width);
            return;
        }
        memcpy((char *)job->data + done * width, values, n * width);
    }
}

/* Copies 64-bit integers or floating-point numbers. A NULL has the given bits. */
static void copy_words(struct job *job, uint64_t null)
{
    copy_fixed(job, sizeof(uint64_t));
    const uint64_t *values = job->data;
    bool any = false;
    for (size_t i = 0; i < job->count; i++)
        any |= values[i] == null;
    for (size_t i = 0; any && i < job->count; i++)
        if (values[i] == null)
            set_null(job, i);
}

static void copy_bool(struct job *job)
{
    copy_fixed(job, sizeof(uint8_t));
    uint8_t *values = job->data;
    for (size_t i = 0; i < job->count; i++) {
        if (values[i] > 1) {
            values[i] = 0;
            set_null(job, i);
        }
    }
}

/* Returns the dictionary code of an id + 1, or 0 for NULL. Reads the id once: the target may change
 * it between the check and the use. */
static inline uint32_t code_of(const struct gsp_source *source, const volatile uint32_t *id)
{
    const uint32_t copy = *id;
    return copy < source->string_count ? source->codes[copy] : 0;
}

/* One function for each width of an ENUM. Writes all ones for NULL. */
#define COPY_IDS(bits)                                                                             \
    static void put_ids_##bits(struct job *job, size_t row, const void *values, size_t n)          \
    {                                                                                              \
        const uint32_t *ids = values;                                                              \
        uint##bits##_t *to = (uint##bits##_t *)job->data + row;                                    \
        bool any = false;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint32_t code = code_of(job->source, &ids[i]);                                   \
            any |= code == 0;                                                                      \
            to[i] = (uint##bits##_t)(code - 1);                                                    \
        }                                                                                          \
        job->has_null_id |= any;                                                                   \
    }
COPY_IDS(8)
COPY_IDS(16)

/* All ones is never a member of an ENUM: one with that many members has the next width. */
static void null_ids(struct job *job)
{
    uint8_t *narrow = job->data;
    uint16_t *wide = job->data;
    for (size_t i = 0; i < job->count; i++) {
        if (job->view->string_width == 1 && narrow[i] == UINT8_MAX) {
            narrow[i] = 0;
            set_null(job, i);
        } else if (job->view->string_width == 2 && wide[i] == UINT16_MAX) {
            wide[i] = 0;
            set_null(job, i);
        }
    }
}

static void copy_enum(struct job *job)
{
    put_runs(job, job->view->string_width == 1 ? put_ids_8 : put_ids_16);
    if (job->has_null_id)
        null_ids(job);
}

static void put_text(struct job *job, size_t row, struct gsp_sv text)
{
    job->duck->vector_assign_string_element_len(job->out, row, text.p ? text.p : "", text.len);
}

static void put_strings(struct job *job, size_t row, const void *values, size_t n)
{
    const uint32_t *ids = values;
    for (size_t i = 0; i < n; i++) {
        const uint32_t code = code_of(job->source, &ids[i]);
        if (code == 0)
            set_null(job, row + i);
        else
            put_text(job, row + i, job->view->strings[code - 1]);
    }
}

/* The source is const for a scan, except for its counters. */
static void count_lost_text(const struct gsp_source *source)
{
    struct gsp_source *counted = (struct gsp_source *)(uintptr_t)source;
    atomic_fetch_add_explicit(&counted->texts_lost, 1, memory_order_relaxed);
}

static void put_texts(struct job *job, size_t row, const void *values, size_t n)
{
    const size_t width = job->source->ops->text_width;
    gsp_auto_buf bytes = {0};
    gsp_auto_buf room = {0};
    for (size_t i = 0; i < n; i++) {
        bool gone = false;
        gsp_buf_clear(&bytes);
        const bool found = job->source->ops->text(job->source, job->rows.lane,
                                                  (const char *)values + i * width, &bytes, &gone);
        struct gsp_sv text = gsp_buf_sv(&bytes);
        if (found && !bytes.failed && gsp_store__utf8_repair(&text, &room)) {
            put_text(job, row + i, text);
            continue;
        }
        set_null(job, row + i);
        if (gone)
            count_lost_text(job->source);
    }
}

static void fill_i64(struct job *job, int64_t value)
{
    int64_t *to = job->data;
    for (size_t i = 0; i < job->count; i++) {
        to[i] = value;
        if (value == GSP_NULL_I64)
            set_null(job, i);
    }
}

static void fill_host(struct job *job)
{
    const uint32_t code = job->source->host_code;
    if (code == 0) {
        fill_null(job);
        return;
    }
    for (size_t i = 0; i < job->count; i++)
        if (job->view->string_width == 1)
            ((uint8_t *)job->data)[i] = (uint8_t)(code - 1);
        else if (job->view->string_width == 2)
            ((uint16_t *)job->data)[i] = (uint16_t)(code - 1);
        else
            put_text(job, i, job->view->strings[code - 1]);
}

static void fill_constant(struct job *job, enum gsp_constant_column constant)
{
    switch (constant) {
    case GSP_CONST_HOST:
        fill_host(job);
        break;
    case GSP_CONST_PID:
        fill_i64(job, job->source->pid);
        break;
    case GSP_CONST_RANK:
        fill_i64(job, job->source->rank);
        break;
    case GSP_CONST_NONE:
        fill_null(job);
        break;
    }
}

void gsp_store__copy_column(const struct gsp_duckdb *duck, const struct gsp_store_table *view,
                            const struct gsp_source *source, const struct gsp_column_copy *copy,
                            duckdb_vector out)
{
    const struct gsp_store_column *column = &view->columns[copy->column];
    const int32_t own = source->column_of[copy->column];
    struct job job = {.duck = duck,
                      .view = view,
                      .source = source,
                      .rows = copy->rows,
                      .column = own < 0 ? 0 : (uint32_t)own,
                      .out = out,
                      .data = duck->vector_get_data(out),
                      .count = copy->rows.to - copy->rows.from};
    set_all_valid(&job);
    if (own < 0) {
        fill_constant(&job, column->constant);
        return;
    }
    switch (column->type) {
    case GSP_I64:
        copy_words(&job, (uint64_t)GSP_NULL_I64);
        break;
    case GSP_F64:
        copy_words(&job, GSP_NULL_F64_BITS);
        break;
    case GSP_BOOL:
        copy_bool(&job);
        break;
    case GSP_STR:
        view->string_width ? copy_enum(&job) : put_runs(&job, put_strings);
        break;
    case GSP_TEXT:
        put_runs(&job, put_texts);
        break;
    }
}
