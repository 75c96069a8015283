/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "ring/guard.h"

/* Names of devices and processes over the daemon's life. */
#define WORDS_MAX     65536U
#define ROW_BYTES_MAX 1024U

static uint32_t intern(struct gsp_collect_sink *sink, enum gsp_table_id table, struct gsp_sv text);
static void add_row(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row);

void gsp_daemon__rows_init(struct gsp_daemon_rows *out, struct gsp_collect_sink *frames,
                           int folder_fd, uint32_t row_capacity)
{
    memset(out, 0, sizeof(*out));
    out->sink = (struct gsp_collect_sink){intern, add_row};
    out->frames = frames;
    out->folder_fd = folder_fd;
    out->row_capacity = row_capacity;
}

void gsp_daemon__rows_free(struct gsp_daemon_rows *out)
{
    for (size_t i = 0; i < GSP_TABLE_COUNT; i++)
        gsp_ring_close(out->rings[i]);
    for (size_t i = 0; i < out->word_count; i++)
        free(out->words[i].text);
    free(out->words);
    gsp_hmap_free(&out->index);
    gsp_buf_free(&out->coming.bytes);
    gsp_buf_free(&out->newest.bytes);
    gsp_buf_free(&out->devices);
}

/* The ring of a table, created for its first row; NULL if that fails. */
static struct gsp_ring *ring_of(struct gsp_daemon_rows *out, enum gsp_table_id table)
{
    if (out->rings[table] || out->no_ring[table] || out->folder_fd < 0)
        return out->rings[table];
    struct gsp_err err = {0};
    const struct gsp_ring_spec spec = {.table = gsp_wire_table_at(table),
                                       .row_capacity = out->row_capacity,
                                       .lane_max = 4, /* one thread writes */
                                       .string_max = 4096,
                                       .string_bytes = 256U << 10,
                                       .text_bytes = 256U << 10,
                                       .rank = GSP_NULL_I64,
                                       .guard = &gsp_ring_guard};
    if (gsp_ring_create(out->folder_fd, &spec, &out->rings[table], &err) < 0) {
        out->no_ring[table] = true;
        gsp_lock_take(&out->lock);
        memcpy(out->ring_error, err.msg, sizeof(out->ring_error));
        gsp_lock_release(&out->lock);
    }
    return out->rings[table];
}

static bool reserve_word(struct gsp_daemon_rows *out)
{
    gsp_lock_take(&out->lock);
    const bool ok = out->word_count < WORDS_MAX &&
                    gsp_array_fit(&out->words, &out->word_cap, out->word_count + 1);
    gsp_lock_release(&out->lock);
    return ok;
}

static uint32_t intern(struct gsp_collect_sink *sink, enum gsp_table_id table, struct gsp_sv text)
{
    struct gsp_daemon_rows *out = (struct gsp_daemon_rows *)sink;
    /* 128 bits of hash identify the text. */
    const uint64_t a = gsp_hash_bytes(text.p, text.len, (uint64_t)table + 1);
    const uint64_t b = gsp_hash_bytes(text.p, text.len, ~(uint64_t)table);
    const uint32_t *found = gsp_hmap_get(&out->index, a, b);
    if (found)
        return *found;
    char *copy = reserve_word(out) ? gsp_sv_dup(text) : NULL;
    const uint32_t id = (uint32_t)out->word_count + 1;
    if (!copy || !gsp_hmap_put(&out->index, a, b, id)) {
        free(copy);
        out->words_lost++;
        return GSP_NULL_STR;
    }
    struct gsp_ring *ring = ring_of(out, table);
    const struct gsp_daemon_string word = {
        .text = copy,
        .len = (uint32_t)text.len,
        .ring_id = ring ? gsp_ring_intern(ring, text) : GSP_NULL_STR,
        .frame_id = out->frames ? out->frames->intern(out->frames, table, text) : GSP_NULL_STR,
    };
    gsp_lock_take(&out->lock);
    out->words[out->word_count++] = word;
    gsp_lock_release(&out->lock);
    return id;
}

static const struct gsp_daemon_string *word_of(const struct gsp_daemon_rows *out, uint32_t id)
{
    return id && id <= out->word_count ? &out->words[id - 1] : NULL;
}

/* Replaces our string ids by those of the ring or of the metric frames. */
static void translate(const struct gsp_daemon_rows *out, const struct gsp_table *table, char *row,
                      bool to_ring)
{
    for (uint32_t i = 0; i < table->column_count; i++) {
        if (table->columns[i].type != GSP_STR)
            continue;
        uint32_t id = 0;
        char *at = row + table->columns[i].row_offset;
        memcpy(&id, at, sizeof(id));
        const struct gsp_daemon_string *word = word_of(out, id);
        id = GSP_NULL_STR;
        if (word)
            id = to_ring ? word->ring_id : word->frame_id;
        memcpy(at, &id, sizeof(id));
    }
}

static struct gsp_row_gpu_device *device_of(const struct gsp_daemon_rows *out, int64_t gpu)
    GSP_REQUIRES(&out->lock)
{
    struct gsp_row_gpu_device *rows = (void *)out->devices.p;
    for (size_t i = 0; i < out->devices.len / sizeof(*rows); i++)
        if (rows[i].gpu == gpu)
            return &rows[i];
    return NULL;
}

static void keep_device(struct gsp_daemon_rows *out, const struct gsp_row_gpu_device *row)
{
    gsp_lock_take(&out->lock);
    struct gsp_row_gpu_device *old = device_of(out, row->gpu);
    if (old)
        *old = *row;
    else
        gsp_buf_put(&out->devices, row, sizeof(*row));
    gsp_lock_release(&out->lock);
}

static void add_row(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row)
{
    struct gsp_daemon_rows *out = (struct gsp_daemon_rows *)sink;
    const struct gsp_table *about = gsp_wire_table_at(table);
    _Alignas(16) char copy[ROW_BYTES_MAX];
    if (!about || about->row_bytes > sizeof(copy))
        return;
    const uint64_t number = table;
    gsp_buf_put(&out->coming.bytes, &number, sizeof(number));
    gsp_buf_put(&out->coming.bytes, row, about->row_bytes);
    if (out->frames) {
        memcpy(copy, row, about->row_bytes);
        translate(out, about, copy, false);
        out->frames->row(out->frames, table, copy);
    }
    gsp_daemon__rows_add_to_ring(out, table, row);
    if (table == GSP_TABLE_gpu_device)
        keep_device(out, row);
}

void gsp_daemon__rows_add_to_ring(struct gsp_daemon_rows *out, enum gsp_table_id table,
                                  const void *row)
{
    const struct gsp_table *about = gsp_wire_table_at(table);
    struct gsp_ring *ring = ring_of(out, table);
    _Alignas(16) char copy[ROW_BYTES_MAX];
    if (!ring || about->row_bytes > sizeof(copy))
        return;
    memcpy(copy, row, about->row_bytes);
    translate(out, about, copy, true);
    if (!gsp_ring_append(ring, copy))
        out->rows_lost++;
}

void gsp_daemon__rows_begin(struct gsp_daemon_rows *out, const struct gsp_collect_tick *tick)
{
    gsp_buf_clear(&out->coming.bytes);
    out->coming.bytes.failed = false;
    out->coming.tick = *tick;
    out->coming.serial++;
}

void gsp_daemon__rows_end(struct gsp_daemon_rows *out)
{
    gsp_lock_take(&out->lock);
    const struct gsp_daemon_row_set old = out->newest;
    out->newest = out->coming;
    out->coming = (struct gsp_daemon_row_set){.bytes = old.bytes, .serial = out->newest.serial};
    gsp_lock_release(&out->lock);
}

void gsp_daemon__rows_lock(struct gsp_daemon_rows *out)
{
    gsp_lock_take(&out->lock);
}

void gsp_daemon__rows_unlock(struct gsp_daemon_rows *out)
{
    gsp_lock_release(&out->lock);
}

const void *gsp_daemon__rows_next(const struct gsp_daemon_rows *out, size_t *at,
                                  enum gsp_table_id *table)
{
    uint64_t number = 0;
    if (*at + sizeof(number) > out->newest.bytes.len)
        return NULL;
    memcpy(&number, out->newest.bytes.p + *at, sizeof(number));
    const struct gsp_table *about = gsp_wire_table_at((size_t)number);
    const char *row = out->newest.bytes.p + *at + sizeof(number);
    if (!about || *at + sizeof(number) + about->row_bytes > out->newest.bytes.len)
        return NULL;
    *at += sizeof(number) + about->row_bytes;
    *table = (enum gsp_table_id)number;
    return row;
}

const struct gsp_row_gpu_device *gsp_daemon__rows_gpu_device(const struct gsp_daemon_rows *out,
                                                             int64_t gpu)
{
    return device_of(out, gpu);
}

struct gsp_sv gsp_daemon__rows_text(const struct gsp_daemon_rows *out, uint32_t id)
{
    const struct gsp_daemon_string *word = word_of(out, id);
    return word ? (struct gsp_sv){word->text, word->len} : (struct gsp_sv){NULL, 0};
}
