/* SPDX-License-Identifier: Apache-2.0 */
#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "native/native_internal.h"

/* Names longer than this are kept as they are: demangling can take long. */
#define MANGLED_MAX 4096U

int gsp_native_store_new(struct gsp_native_store **out, struct gsp_err *err)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
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
    if (store->text_count == store->text_cap) {
        size_t cap = store->text_cap ? store->text_cap * 2 : 256;
        char **texts = realloc(store->texts, cap * sizeof(*texts));
        if (!texts)
            return false;
        store->texts = texts;
        store->text_cap = cap;
    }
    store->texts[store->text_count++] = text;
    return true;
}

/* key is what it is found by again, kept what is kept. */
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
    /* Without memory for the index the text is kept all the same, and made twice. */
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
