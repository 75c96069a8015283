/* SPDX-License-Identifier: Apache-2.0 */
#include "store/copy.h"

#include <string.h>

#include "base/attr.h"

/* One column on its way: what every step needs. */
struct job {
    const struct gsp_duck *duck;
    const struct gsp_view *view;
    const struct gsp_source *source;
    struct gsp_source_span rows;
    uint32_t column; /* of the source */
    duckdb_vector out;
    void *data;
    uint64_t *valid; /* NULL until a value is NULL */
    size_t count;
};

static void set_null(struct job *job, size_t row)
{
    if (!job->valid) {
        job->duck->vector_ensure_validity_writable(job->out);
        job->valid = job->duck->vector_get_validity(job->out);
    }
    job->valid[row / 64] &= ~(UINT64_C(1) << (row % 64));
}

/* A chunk that is filled a second time has the NULLs of the first. */
static void set_all_valid(struct job *job)
{
    job->valid = job->duck->vector_get_validity(job->out);
    if (job->valid) {
        memset(job->valid, 0xff, (job->count + 63) / 64 * sizeof(*job->valid));
    }
}

static void fill_null(struct job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        set_null(job, i);
    }
}

static void copy_fixed(struct job *job, size_t width)
{
    size_t done = 0;
    while (done < job->count) {
        size_t n = job->count - done;
        const void *from = job->source->ops->values(job->source, job->rows.lane, job->column,
                                                    job->rows.from + done, &n);
        if (!from || n == 0) { /* the lane is gone: its rows will be dropped */
            memset((char *)job->data + done * width, 0, (job->count - done) * width);
            return;
        }
        memcpy((char *)job->data + done * width, from, n * width);
        done += n;
    }
}

/* Eight bytes each: integers and numbers, whose NULLs are known by their bits. */
static void copy_words(struct job *job, uint64_t null)
{
    copy_fixed(job, sizeof(uint64_t));
    const uint64_t *values = job->data;
    bool any = false;
    for (size_t i = 0; i < job->count; i++) {
        any |= values[i] == null;
    }
    for (size_t i = 0; any && i < job->count; i++) {
        if (values[i] == null) {
            set_null(job, i);
        }
    }
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

/* An id as a place in the dictionary + 1.  Read once: another process may change it between
 * the check and the use. */
static inline uint32_t place_of(const struct gsp_source *source, const volatile uint32_t *id)
{
    const uint32_t copy = *id;
    return copy < source->string_count ? source->places[copy] : 0;
}

/* One function for each width of an ENUM; worth whether there was a NULL (its value is all
 * ones then). */
#define COPY_IDS(bits)                                                                             \
    static bool copy_ids_##bits(const struct gsp_source *source, const uint32_t *from,             \
                                uint##bits##_t *to, size_t n)                                      \
    {                                                                                              \
        bool any = false;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint32_t place = place_of(source, &from[i]);                                     \
            any |= place == 0;                                                                     \
            to[i] = (uint##bits##_t)(place - 1);                                                   \
        }                                                                                          \
        return any;                                                                                \
    }
COPY_IDS(8)
COPY_IDS(16)

/* An ENUM has at most as many members as make all ones of its width no member. */
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
    bool any = false;
    for (size_t done = 0; done < job->count;) {
        size_t n = job->count - done;
        const uint32_t *from = job->source->ops->values(job->source, job->rows.lane, job->column,
                                                        job->rows.from + done, &n);
        if (!from || n == 0) {
            fill_null(job);
            return;
        }
        if (job->view->string_width == 1) {
            any |= copy_ids_8(job->source, from, (uint8_t *)job->data + done, n);
        } else {
            any |= copy_ids_16(job->source, from, (uint16_t *)job->data + done, n);
        }
        done += n;
    }
    if (any) {
        null_ids(job);
    }
}

static void put_text(struct job *job, size_t row, struct gsp_sv text)
{
    job->duck->vector_assign_string_element_len(job->out, row, text.p ? text.p : "", text.len);
}

static void copy_strings(struct job *job)
{
    for (size_t done = 0; done < job->count;) {
        size_t n = job->count - done;
        const uint32_t *from = job->source->ops->values(job->source, job->rows.lane, job->column,
                                                        job->rows.from + done, &n);
        if (!from || n == 0) {
            fill_null(job);
            return;
        }
        for (size_t i = 0; i < n; i++) {
            const uint32_t place = place_of(job->source, &from[i]);
            if (place == 0) {
                set_null(job, done + i);
            } else {
                put_text(job, done + i, job->view->strings[place - 1]);
            }
        }
        done += n;
    }
}

/* A counter is all that a scan changes of a source. */
static void count_lost_text(const struct gsp_source *source)
{
    struct gsp_source *counted = (struct gsp_source *)(uintptr_t)source;
    atomic_fetch_add_explicit(&counted->texts_lost, 1, memory_order_relaxed);
}

static void copy_text(struct job *job)
{
    const size_t width = job->source->ops->text_width;
    gsp_auto_buf bytes = {0};
    gsp_auto_buf room = {0};
    for (size_t done = 0; done < job->count;) {
        size_t n = job->count - done;
        const char *from = job->source->ops->values(job->source, job->rows.lane, job->column,
                                                    job->rows.from + done, &n);
        if (!from || n == 0) {
            fill_null(job);
            return;
        }
        for (size_t i = 0; i < n; i++) {
            bool gone = false;
            gsp_buf_clear(&bytes);
            const bool there = job->source->ops->text(job->source, job->rows.lane, from + i * width,
                                                      &bytes, &gone);
            struct gsp_sv text = gsp_buf_sv(&bytes);
            if (there && !bytes.failed && gsp_store__utf8(&text, &room)) {
                put_text(job, done + i, text);
                continue;
            }
            set_null(job, done + i);
            if (gone) {
                count_lost_text(job->source);
            }
        }
        done += n;
    }
}

static void fill_i64(struct job *job, int64_t value)
{
    int64_t *to = job->data;
    for (size_t i = 0; i < job->count; i++) {
        to[i] = value;
        if (value == GSP_NULL_I64) {
            set_null(job, i);
        }
    }
}

static void fill_host(struct job *job)
{
    const uint32_t place = job->source->host_place;
    if (place == 0) {
        fill_null(job);
        return;
    }
    for (size_t i = 0; i < job->count; i++) {
        if (job->view->string_width == 1) {
            ((uint8_t *)job->data)[i] = (uint8_t)(place - 1);
        } else if (job->view->string_width == 2) {
            ((uint16_t *)job->data)[i] = (uint16_t)(place - 1);
        } else {
            put_text(job, i, job->view->strings[place - 1]);
        }
    }
}

static void fill_constant(struct job *job, enum gsp_constant constant)
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

void gsp_store__copy_column(const struct gsp_duck *duck, const struct gsp_view *view,
                            const struct gsp_source *source, const struct gsp_copy *copy,
                            duckdb_vector out)
{
    const struct gsp_view_column *column = &view->columns[copy->column];
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
        view->string_width ? copy_enum(&job) : copy_strings(&job);
        break;
    case GSP_TEXT:
        copy_text(&job);
        break;
    }
}
