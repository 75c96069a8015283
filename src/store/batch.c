/* SPDX-License-Identifier: Apache-2.0 */
#include "store/batch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "store/batch_internal.h"

#define BLOCK_BYTES 65536U
#define ROWS_MAX    UINT32_MAX

/* Bytes of strings and texts. Blocks never move, so pointers into them stay valid. */
struct block {
    struct block *next;
    size_t used;
    size_t cap;
    char bytes[];
};

struct gsp_batch {
    const struct gsp_table *table;
    char *host;
    int64_t pid;
    int64_t rank;
    char **columns; /* one array for each column */
    size_t row_count;
    size_t row_cap;
    struct block *blocks;
    struct gsp_sv *strings; /* [0] is NULL */
    uint32_t string_count;
    size_t string_cap;
    struct gsp_hmap ids; /* (hash of the bytes, probe number) -> id */
    bool failed;         /* memory ran out for a string or text */
};

static size_t width_of(enum gsp_type type)
{
    return type == GSP_TEXT ? sizeof(struct gsp_sv) : gsp_wire_type_width(type);
}

static const char *copy_bytes(struct gsp_batch *batch, struct gsp_sv text)
{
    struct block *block = batch->blocks;
    if (!block || block->cap - block->used < text.len) {
        const size_t cap = text.len > BLOCK_BYTES ? text.len : BLOCK_BYTES;
        block = text.len > SIZE_MAX / 2 ? NULL : malloc(sizeof(*block) + cap);
        if (!block)
            return NULL;
        *block = (struct block){batch->blocks, 0, cap};
        batch->blocks = block;
    }
    char *at = block->bytes + block->used;
    if (text.len > 0)
        memcpy(at, text.p, text.len);
    block->used += text.len;
    return at;
}

static bool grow_strings(struct gsp_batch *batch)
{
    return batch->string_count < UINT32_MAX &&
           gsp_array_fit(&batch->strings, &batch->string_cap, (size_t)batch->string_count + 1);
}

static bool grow_rows(struct gsp_batch *batch)
{
    if (batch->row_count < batch->row_cap)
        return true;
    const size_t cap = batch->row_cap ? batch->row_cap * 2 : 256;
    for (uint32_t c = 0; c < batch->table->column_count; c++) {
        char *values = realloc(batch->columns[c], cap * width_of(batch->table->columns[c].type));
        if (!values)
            return false; /* columns that did grow stay valid */
        batch->columns[c] = values;
    }
    batch->row_cap = cap;
    return true;
}

int gsp_store_batch_new(const struct gsp_table *table, const char *host, int64_t pid, int64_t rank,
                        struct gsp_batch **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_batch *batch = calloc(1, sizeof(*batch));
    if (!batch)
        return gsp_err_nomem(err);
    batch->table = table;
    batch->pid = pid;
    batch->rank = rank;
    batch->host = host ? strdup(host) : NULL;
    batch->columns = calloc(table->column_count, sizeof(*batch->columns));
    if ((host && !batch->host) || !batch->columns || !grow_strings(batch)) {
        gsp_store_batch_free(batch);
        return gsp_err_nomem(err);
    }
    batch->strings[0] = (struct gsp_sv){NULL, 0};
    batch->string_count = 1;
    *out = batch;
    return GSP_OK;
}

void gsp_store_batch_free(struct gsp_batch *batch)
{
    if (!batch)
        return;
    for (uint32_t c = 0; batch->columns && c < batch->table->column_count; c++)
        free(batch->columns[c]);
    free(batch->columns);
    while (batch->blocks) {
        struct block *next = batch->blocks->next;
        free(batch->blocks);
        batch->blocks = next;
    }
    gsp_hmap_free(&batch->ids);
    free(batch->strings);
    free(batch->host);
    free(batch);
}

uint32_t gsp_store_batch_intern(struct gsp_batch *batch, struct gsp_sv text)
{
    const uint64_t hash = gsp_hash_bytes(text.p, text.len, 0);
    /* Strings with equal hashes have consecutive probe numbers. */
    uint64_t nth = 0;
    for (const uint32_t *id; (id = gsp_hmap_get(&batch->ids, hash, nth)); nth++)
        if (gsp_sv_eq(batch->strings[*id], text))
            return *id;
    const uint32_t id = batch->string_count;
    const char *bytes = grow_strings(batch) ? copy_bytes(batch, text) : NULL;
    if (!bytes || !gsp_hmap_put(&batch->ids, hash, nth, id)) {
        batch->failed = true;
        return GSP_NULL_STR;
    }
    batch->strings[id] = (struct gsp_sv){bytes, text.len};
    batch->string_count++;
    return id;
}

int gsp_store_batch_append(struct gsp_batch *batch, const void *row, struct gsp_err *err)
{
    if (batch->row_count >= ROWS_MAX) {
        return gsp_err_set(err, GSP_E_LIMIT, 0, "too many rows of %s.%s", batch->table->schema,
                           batch->table->name);
    }
    if (batch->failed || !grow_rows(batch))
        return gsp_err_nomem(err);
    for (uint32_t c = 0; c < batch->table->column_count; c++) {
        const struct gsp_column *column = &batch->table->columns[c];
        const size_t width = width_of(column->type);
        char *to = batch->columns[c] + batch->row_count * width;
        memcpy(to, (const char *)row + column->row_offset, width);
        if (column->type != GSP_TEXT)
            continue;
        struct gsp_sv text = {NULL, 0};
        memcpy(&text, to, sizeof(text));
        if (text.p) {
            text.p = copy_bytes(batch, text);
            if (!text.p)
                return gsp_err_nomem(err);
        }
        memcpy(to, &text, sizeof(text));
    }
    batch->row_count++;
    return GSP_OK;
}

const struct gsp_table *gsp_store_batch_table(const struct gsp_batch *batch)
{
    return batch->table;
}

size_t gsp_store__batch_rows(const struct gsp_batch *batch)
{
    return batch->row_count;
}

const void *gsp_store__batch_column(const struct gsp_batch *batch, uint32_t column)
{
    return column < batch->table->column_count ? batch->columns[column] : NULL;
}

const struct gsp_sv *gsp_store__batch_strings(const struct gsp_batch *batch, uint32_t *count)
{
    *count = batch->string_count;
    return batch->strings;
}

struct gsp_batch_about gsp_store__batch_about(const struct gsp_batch *batch)
{
    return (struct gsp_batch_about){batch->host, batch->pid, batch->rank};
}
