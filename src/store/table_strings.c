/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/catalog.h"

#define HOST UINT32_MAX /* instead of an id: the source's host name */

struct entry {
    struct gsp_sv text;
    size_t source;
    uint32_t id;
    bool owned; /* text.p must be freed */
};

struct entries {
    struct entry *at;
    size_t count;
};

static int compare(const void *a, const void *b)
{
    const struct gsp_sv x = ((const struct entry *)a)->text;
    const struct gsp_sv y = ((const struct entry *)b)->text;
    const size_t len = x.len < y.len ? x.len : y.len;
    const int order = len > 0 ? memcmp(x.p, y.p, len) : 0;
    if (order != 0)
        return order;
    return (x.len > y.len) - (x.len < y.len);
}

/* Whether the text is UTF-8 without a NUL. */
static bool is_clean(struct gsp_sv text)
{
    size_t i = 0;
    while (i < text.len) {
        const unsigned char c = (unsigned char)text.p[i];
        if (c != 0 && c < 0x80) {
            i++;
            continue;
        }
        const size_t n = c ? gsp_utf8_len((struct gsp_sv){text.p + i, text.len - i}) : 0;
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

bool gsp_store__utf8_repair(struct gsp_sv *text, struct gsp_buf *room)
{
    if (is_clean(*text))
        return true;
    gsp_buf_clear(room);
    for (size_t i = 0; i < text->len;) {
        const size_t n = text->p[i] ? gsp_utf8_len((struct gsp_sv){text->p + i, text->len - i}) : 0;
        if (n > 0)
            gsp_buf_put(room, text->p + i, n);
        else
            gsp_buf_puts(room, "\xef\xbf\xbd"); /* U+FFFD */
        i += n > 0 ? n : 1;
    }
    *text = gsp_buf_sv(room);
    return !room->failed;
}

static bool add_entry(struct entries *entries, struct gsp_sv text, size_t source, uint32_t id)
{
    struct entry *entry = &entries->at[entries->count];
    *entry = (struct entry){text, source, id, false};
    if (!is_clean(text)) {
        gsp_auto_buf room = {0};
        char *copy =
            gsp_store__utf8_repair(&entry->text, &room) ? malloc(entry->text.len + 1) : NULL;
        if (!copy)
            return false;
        memcpy(copy, entry->text.p, entry->text.len);
        entry->text.p = copy;
        entry->owned = true;
    }
    entries->count++;
    return true;
}

static bool collect(const struct gsp_store_table *view, struct entries *entries)
{
    size_t max = view->source_count;
    for (size_t i = 0; i < view->source_count; i++)
        max += view->sources[i]->string_count;
    entries->at = calloc(max + 1, sizeof(*entries->at));
    if (!entries->at)
        return false;
    for (size_t i = 0; i < view->source_count; i++) {
        const struct gsp_source *source = view->sources[i];
        if (source->host && !add_entry(entries, gsp_sv_of(source->host), i, HOST))
            return false;
        for (uint32_t id = 0; id < source->string_count; id++)
            if (source->strings[id].p && !add_entry(entries, source->strings[id], i, id))
                return false;
    }
    qsort(entries->at, entries->count, sizeof(*entries->at), compare);
    return true;
}

static void free_entries(struct entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        if (entries->at[i].owned)
            free((void *)(uintptr_t)entries->at[i].text.p);
    free(entries->at);
}

/* The sorted strings without duplicates. */
struct merged {
    struct gsp_sv *strings;
    char *bytes;
    uint32_t count;
    size_t byte_count;
};

/* Also sets the code of every id of every source. */
static bool merge(const struct gsp_store_table *view, const struct entries *entries,
                  struct merged *out)
{
    size_t bytes = 1;
    for (size_t i = 0; i < entries->count; i++)
        bytes += entries->at[i].text.len + 1;
    out->strings = calloc(entries->count + 1, sizeof(*out->strings));
    out->bytes = malloc(bytes);
    if (!out->strings || !out->bytes)
        return false;
    for (size_t i = 0; i < entries->count; i++) {
        const struct entry *entry = &entries->at[i];
        if (i == 0 || compare(entry, entry - 1) != 0) {
            char *to = out->bytes + out->byte_count;
            memcpy(to, entry->text.p, entry->text.len);
            to[entry->text.len] = '\0';
            out->strings[out->count++] = (struct gsp_sv){to, entry->text.len};
            out->byte_count += entry->text.len + 1;
        }
        struct gsp_source *source = view->sources[entry->source];
        if (entry->id == HOST)
            source->host_code = out->count;
        else
            source->codes[entry->id] = out->count;
    }
    return true;
}

static bool reset_codes(const struct gsp_store_table *view)
{
    for (size_t i = 0; i < view->source_count; i++) {
        struct gsp_source *source = view->sources[i];
        free(source->codes);
        source->host_code = 0;
        source->codes = calloc((size_t)source->string_count + 1, sizeof(*source->codes));
        if (!source->codes)
            return false;
    }
    return true;
}

static uint32_t width_of(duckdb_type type)
{
    if (type == DUCKDB_TYPE_UTINYINT)
        return 1;
    return type == DUCKDB_TYPE_USMALLINT ? 2 : 4;
}

/* Creates the ENUM type. A live table has none: the types of a query are fixed before it runs,
 * and a live table gets its strings while the query runs. */
static bool make_type(const struct gsp_duckdb *duck, struct gsp_store_table *view)
{
    if (view->string_type)
        duck->destroy_logical_type(&view->string_type);
    view->string_type = NULL;
    view->string_width = 0;
    if (view->fill || view->string_count == 0 || view->string_count > GSP_ENUM_STRINGS_MAX)
        return true;
    const char **names = calloc(view->string_count, sizeof(*names));
    if (!names)
        return false;
    for (uint32_t i = 0; i < view->string_count; i++)
        names[i] = view->strings[i].p;
    view->string_type = duck->create_enum_type(names, view->string_count);
    free(names);
    if (!view->string_type)
        return false;
    view->string_width = width_of(duck->enum_internal_type(view->string_type));
    return true;
}

static bool same_strings(const struct gsp_store_table *view, const struct merged *merged)
{
    if (view->string_count != merged->count || view->string_byte_count != merged->byte_count)
        return false;
    return merged->count == 0 || memcmp(view->string_bytes, merged->bytes, merged->byte_count) == 0;
}

static bool adopt(const struct gsp_duckdb *duck, struct gsp_store_table *view,
                  struct merged *merged)
{
    /* Every string ends with a NUL, so equal bytes mean equal strings. */
    if (same_strings(view, merged))
        return true;
    free(view->strings);
    free(view->string_bytes);
    view->strings = merged->strings;
    view->string_bytes = merged->bytes;
    view->string_count = merged->count;
    view->string_byte_count = merged->byte_count;
    *merged = (struct merged){0};
    view->stale = view->stale || !view->fill;
    return make_type(duck, view);
}

int gsp_store__table_merge_strings(const struct gsp_duckdb *duck, struct gsp_store_table *view,
                                   struct gsp_err *err)
{
    struct entries entries = {0};
    struct merged merged = {0};
    const bool ok = reset_codes(view) && collect(view, &entries) &&
                    merge(view, &entries, &merged) && adopt(duck, view, &merged);
    free_entries(&entries);
    free(merged.strings);
    free(merged.bytes);
    return ok ? GSP_OK : gsp_err_nomem(err);
}
