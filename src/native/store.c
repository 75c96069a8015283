/* SPDX-License-Identifier: Apache-2.0 */
#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "native/native_internal.h"

/* Longer names are not demangled, because that can take long. */
#define MANGLED_MAX 4096U

int gsp_native_store_new(struct gsp_native_store **out, struct gsp_err *err)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return gsp_err_nomem(err);
    return GSP_OK;
}

void gsp_native_store_free(struct gsp_native_store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < store->count; i++)
        gsp_native__file_free(store->files[i]);
    for (size_t i = 0; i < store->text_count; i++)
        free(store->texts[i]);
    free(store->files);
    free(store->texts);
    gsp_hmap_free(&store->names);
    free(store);
}

static bool push_text(struct gsp_native_store *store, char *text)
{
    if (!gsp_array_fit(&store->texts, &store->text_cap, store->text_count + 1))
        return false;
    store->texts[store->text_count++] = text;
    return true;
}

/* Returns the text made from key, and makes it at the first call. */
static const char *intern_as(struct gsp_native_store *store, const char *key, uint64_t seed,
                             char *(*make)(const char *key))
{
    size_t len = strlen(key);
    uint64_t a = gsp_hash_bytes(key, len, seed);
    uint64_t b = gsp_hash_bytes(key, len, ~seed) ^ len;
    const uint32_t *known = gsp_hmap_get(&store->names, a, b);
    if (known)
        return store->texts[*known];
    char *text = make(key);
    if (!text || !push_text(store, text)) {
        free(text);
        return NULL;
    }
    /* If memory for the index runs out, the text is kept but made again next time. */
    gsp_ignore(!gsp_hmap_put(&store->names, a, b, (uint32_t)(store->text_count - 1)));
    return text;
}

static char *copy_text(const char *key)
{
    return strdup(key);
}

static char *demangle(const char *name)
{
    char *text = NULL;
    if (name[0] == '_' && strlen(name) <= MANGLED_MAX)
        text = cplus_demangle(name, DMGL_AUTO | DMGL_PARAMS | DMGL_ANSI);
    return text ? text : strdup(name);
}

const char *gsp_native__intern(struct gsp_native_store *store, const char *text)
{
    return intern_as(store, text, 1, copy_text);
}

const char *gsp_native__intern_name(struct gsp_native_store *store, const char *name)
{
    return intern_as(store, name, 2, demangle);
}
