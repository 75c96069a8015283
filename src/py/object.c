/* SPDX-License-Identifier: Apache-2.0 */
#include "py/object.h"

#include <string.h>

#include "py/object_internal.h"

#define STR_LENGTH_MAX     (1U << 30U)
#define STR_HEAD_MAX       192U
#define TYPE_NAME_MAX      128U
#define DICT_ENTRIES_MAX   (1U << 20U)
#define DICT_CHUNK         64U
#define PAGE_BYTES         4096U
#define THREAD_NAME_BYTES  256U
#define REPLACEMENT        0xfffdU

/* Py_TPFLAGS_* */
#define TYPE_INLINE_VALUES (1ULL << 2U)
#define TYPE_MANAGED_DICT  (1ULL << 4U)

/* dk_kind */
#define KEYS_GENERAL       0U
#define KEYS_UNICODE       1U
#define KEYS_SPLIT         2U

/* ---- Text ---- */

struct str_head {
    uint64_t length; /* characters */
    unsigned kind;   /* bytes per character */
    gsp_raddr data;
};

static size_t utf8_put(uint32_t c, char *out)
{
    if (c >= 0x110000U || (c >= 0xd800U && c < 0xe000U))
        c = REPLACEMENT;
    if (c < 0x80U) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800U) {
        out[0] = (char)(0xc0U | (c >> 6U));
        out[1] = (char)(0x80U | (c & 0x3fU));
        return 2;
    }
    if (c < 0x10000U) {
        out[0] = (char)(0xe0U | (c >> 12U));
        out[1] = (char)(0x80U | ((c >> 6U) & 0x3fU));
        out[2] = (char)(0x80U | (c & 0x3fU));
        return 3;
    }
    out[0] = (char)(0xf0U | (c >> 18U));
    out[1] = (char)(0x80U | ((c >> 12U) & 0x3fU));
    out[2] = (char)(0x80U | ((c >> 6U) & 0x3fU));
    out[3] = (char)(0x80U | (c & 0x3fU));
    return 4;
}

/* head: the first bytes of the object, at least unicode_ascii_size. */
static int parse_head(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr addr,
                      const unsigned char *head, struct str_head *out)
{
    uint32_t state = 0;
    /* The layout may come from the target, so check it. */
    if (layout->unicode_length + sizeof(out->length) > layout->unicode_ascii_size ||
        layout->unicode_state + sizeof(state) > layout->unicode_ascii_size)
        return GSP_E_FORMAT;
    memcpy(&out->length, head + layout->unicode_length, sizeof(out->length));
    memcpy(&state, head + layout->unicode_state, sizeof(state));
    out->kind = (state >> layout->unicode_kind_bit) & 7U;
    bool ascii = ((state >> layout->unicode_ascii_bit) & 1U) != 0;
    bool compact = ((state >> layout->unicode_compact_bit) & 1U) != 0;
    bool kind_ok = out->kind == 1 || (!ascii && (out->kind == 2 || out->kind == 4));
    if (!kind_ok || out->length > STR_LENGTH_MAX)
        return GSP_E_FORMAT;
    if (compact) {
        out->data = addr + (ascii ? layout->unicode_ascii_size : layout->unicode_compact_size);
        return 0;
    }
    return gsp_proc_mem_read_u64(mem, addr + layout->unicode_compact_size, &out->data);
}

static int put_text(const unsigned char *data, size_t count, unsigned kind, size_t max_bytes,
                    struct gsp_buf *out)
{
    size_t room = max_bytes;
    for (size_t i = 0; i < count; i++) {
        uint32_t c = data[i];
        char utf8[4];
        if (kind == 2) {
            uint16_t c2 = 0;
            memcpy(&c2, data + 2 * i, sizeof(c2));
            c = c2;
        } else if (kind == 4) {
            memcpy(&c, data + 4 * i, sizeof(c));
        }
        size_t n = utf8_put(c, utf8);
        if (n > room)
            break;
        gsp_buf_put(out, utf8, n);
        room -= n;
    }
    return out->failed ? GSP_E_NOMEM : 0;
}

int gsp_py__str_read(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr addr,
                     size_t max_bytes, struct gsp_buf *out)
{
    unsigned char head[STR_HEAD_MAX];
    size_t head_len = sizeof(head);
    if (layout->unicode_ascii_size > sizeof(head))
        return GSP_E_FORMAT;
    /* The first read contains most strings completely. At the end of a mapping, read less. */
    int rc = gsp_proc_mem_read(mem, addr, head, head_len);
    if (rc == GSP_E_FAULT) {
        head_len = layout->unicode_ascii_size;
        rc = gsp_proc_mem_read(mem, addr, head, head_len);
    }
    if (rc != 0)
        return rc;
    struct str_head str = {0};
    rc = parse_head(mem, layout, addr, head, &str);
    if (rc != 0)
        return rc;
    size_t count = str.length < max_bytes ? (size_t)str.length : max_bytes;
    size_t bytes = count * str.kind;
    if (str.data >= addr && str.data - addr <= head_len && bytes <= head_len - (str.data - addr))
        return put_text(head + (str.data - addr), count, str.kind, max_bytes, out);
    gsp_auto_buf data = {0};
    char *room = gsp_buf_reserve(&data, bytes);
    if (!room)
        return GSP_E_NOMEM;
    rc = gsp_proc_mem_read(mem, str.data, room, bytes);
    return rc != 0 ? rc : put_text((unsigned char *)room, count, str.kind, max_bytes, out);
}

/* Compares the str object at addr with an ASCII text. */
static int str_is(const struct gsp_py__view *v, gsp_raddr addr, const char *text, bool *out)
{
    gsp_auto_buf buf = {0};
    size_t len = strlen(text);
    *out = false;
    int rc = gsp_py__str_read(v->mem, v->layout, addr, len + 1, &buf);
    if (rc == GSP_E_FAULT || rc == GSP_E_FORMAT)
        return 0; /* not a str */
    *out = rc == 0 && buf.len == len && (len == 0 || memcmp(buf.p, text, len) == 0);
    return rc;
}

/* Reads up to cap bytes of a C string, one page at a time: the page after its end may be unmapped.
 */
static int cstr_read(struct gsp_mem *mem, gsp_raddr addr, char *out, size_t cap)
{
    size_t len = 0;
    while (len + 1 < cap) {
        gsp_raddr at = addr + len;
        size_t n = PAGE_BYTES - (size_t)(at % PAGE_BYTES);
        if (n > cap - 1 - len)
            n = cap - 1 - len;
        int rc = gsp_proc_mem_read(mem, at, out + len, n);
        if (rc != 0)
            return rc;
        if (memchr(out + len, 0, n))
            return 0;
        len += n;
    }
    out[len] = 0;
    return 0;
}

int gsp_py__type_name(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr type,
                      struct gsp_buf *out)
{
    char name[TYPE_NAME_MAX];
    uint64_t addr = 0;
    int rc = gsp_proc_mem_read_u64(mem, type + layout->type_name, &addr);
    if (rc == 0)
        rc = cstr_read(mem, addr, name, sizeof(name));
    if (rc != 0)
        return rc;
    if (name[0] == 0)
        return GSP_E_FORMAT;
    gsp_buf_term(out, gsp_sv_of(name));
    return out->failed ? GSP_E_NOMEM : 0;
}

/* ---- Dicts ---- */

/* The keys of a dict and the address of their values. */
struct keys {
    gsp_raddr entries;
    uint64_t count;
    size_t entry_bytes;
    size_t key_at;    /* in an entry */
    gsp_raddr values; /* 0: in the entries, after the key */
};

static uint64_t index_bytes_old(uint64_t size)
{
    uint64_t width = size <= 0xffU ? 1 : size <= 0xffffU ? 2 : size <= 0xffffffffU ? 4 : 8;
    return size * width;
}

/* Up to 3.10: dk_size is the number of index slots and determines their width. */
static int keys_read_old(const struct gsp_py__view *v, const unsigned char *head, gsp_raddr addr,
                         struct keys *out)
{
    uint64_t size = 0;
    memcpy(&size, head + v->layout->dictkeys_log2_size, sizeof(size));
    if (size > 4ULL * DICT_ENTRIES_MAX || (size & (size - 1)) != 0)
        return GSP_E_FORMAT;
    out->entries = addr + v->layout->dictkeys_indices + index_bytes_old(size);
    out->entry_bytes = 24;
    out->key_at = 8;
    return 0;
}

static int keys_read_new(const struct gsp_py__view *v, const unsigned char *head, gsp_raddr addr,
                         struct keys *out)
{
    unsigned log2_bytes = head[v->layout->dictkeys_log2_index];
    unsigned kind = head[v->layout->dictkeys_kind];
    if (log2_bytes > 32 || kind > KEYS_SPLIT)
        return GSP_E_FORMAT;
    out->entries = addr + v->layout->dictkeys_indices + (1ULL << log2_bytes);
    out->entry_bytes = kind == KEYS_GENERAL ? 24 : 16;
    out->key_at = kind == KEYS_GENERAL ? 8 : 0;
    return 0;
}

static int keys_read(const struct gsp_py__view *v, gsp_raddr addr, gsp_raddr values,
                     struct keys *out)
{
    unsigned char head[64];
    *out = (struct keys){.values = values};
    if (v->layout->dictkeys_indices > sizeof(head))
        return GSP_E_FORMAT;
    int rc = gsp_proc_mem_read(v->mem, addr, head, v->layout->dictkeys_indices);
    if (rc != 0)
        return rc;
    memcpy(&out->count, head + v->layout->dictkeys_nentries, sizeof(out->count));
    if (out->count > DICT_ENTRIES_MAX)
        return GSP_E_FORMAT;
    return v->layout->dictkeys_kind == GSP_NO_OFFSET ? keys_read_old(v, head, addr, out)
                                                     : keys_read_new(v, head, addr, out);
}

static int keys_each(const struct gsp_py__view *v, const struct keys *keys, gsp_py_item_fn *fn,
                     void *arg)
{
    unsigned char entries[DICT_CHUNK * 24] = {0};
    uint64_t values[DICT_CHUNK] = {0};
    for (uint64_t done = 0; done < keys->count;) {
        size_t n = keys->count - done < DICT_CHUNK ? (size_t)(keys->count - done) : DICT_CHUNK;
        struct gsp_mem_span spans[2] = {
            {keys->entries + done * keys->entry_bytes, n * keys->entry_bytes, entries},
            {keys->values + done * sizeof(uint64_t), n * sizeof(uint64_t), values},
        };
        int rc = gsp_proc_mem_gather(v->mem, spans, keys->values ? 2 : 1, NULL);
        if (rc != 0)
            return rc;
        for (size_t i = 0; i < n; i++) {
            uint64_t pair[2] = {0, 0};
            memcpy(pair, entries + i * keys->entry_bytes + keys->key_at, sizeof(pair));
            gsp_raddr value = keys->values ? values[i] : pair[1];
            if (pair[0] != 0 && value != 0 && !fn(arg, pair[0], value))
                return 0;
        }
        done += n;
    }
    return 0;
}

int gsp_py__dict_each(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr dict,
                      gsp_py_item_fn *fn, void *arg)
{
    const struct gsp_py__view view = {mem, layout};
    uint64_t keys_addr = 0;
    uint64_t values = 0;
    struct gsp_mem_span spans[2] = {
        {dict + layout->dict_keys, sizeof(keys_addr), &keys_addr},
        {dict + layout->dict_values, sizeof(values), &values},
    };
    struct keys keys = {0};
    int rc = gsp_proc_mem_gather(mem, spans, 2, NULL);
    if (rc == 0)
        rc = keys_read(&view, keys_addr, values ? values + layout->dictvalues_values : 0, &keys);
    return rc != 0 ? rc : keys_each(&view, &keys, fn, arg);
}

/* ---- Attributes ---- */

int gsp_py__type_read(const struct gsp_py__view *v, gsp_raddr object, struct gsp_py__type *out)
{
    const struct gsp_py_layout *l = v->layout;
    *out = (struct gsp_py__type){0};
    int rc = gsp_proc_mem_read_u64(v->mem, object + l->object_type, &out->addr);
    if (rc != 0)
        return rc;
    struct gsp_mem_span spans[] = {
        {out->addr + l->type_basicsize, sizeof(out->basicsize), &out->basicsize},
        {out->addr + l->type_itemsize, sizeof(out->itemsize), &out->itemsize},
        {out->addr + l->type_flags, sizeof(out->flags), &out->flags},
        {out->addr + l->type_dictoffset, sizeof(out->dictoffset), &out->dictoffset},
        {out->addr + l->type_base, sizeof(out->base), &out->base},
    };
    rc = gsp_proc_mem_gather(v->mem, spans, GSP_COUNT(spans), NULL);
    if (rc == 0 && (out->basicsize < l->object_size || out->basicsize > (1 << 20)))
        rc = GSP_E_FORMAT;
    return rc;
}

/* Finds the inline values of an instance, or its dict; the other one is 0. */
static int find_managed(const struct gsp_py__view *v, gsp_raddr object,
                        const struct gsp_py__type *type, gsp_raddr *values, gsp_raddr *dict)
{
    const struct gsp_py_layout *l = v->layout;
    uint8_t valid = 0;
    int rc = gsp_proc_mem_read_u64(v->mem, object - l->managed_dict, dict);
    if (rc == 0 && l->managed_values != GSP_NO_OFFSET)
        rc = gsp_proc_mem_read_u64(v->mem, object - l->managed_values, values);
    if (rc != 0)
        return rc;
    if ((*dict & 1U) != 0) { /* 3.12 */
        *values = *dict + 1;
        *dict = 0;
    }
    if (*dict == 0 && l->dictvalues_valid != GSP_NO_OFFSET &&
        (type->flags & TYPE_INLINE_VALUES) != 0) {
        gsp_raddr inlined = object + (uint64_t)type->basicsize;
        rc = gsp_proc_mem_read(v->mem, inlined + l->dictvalues_valid, &valid, sizeof(valid));
        *values = valid ? inlined : 0;
    }
    return rc;
}

/* A negative tp_dictoffset counts from the end of a variable-sized object. */
static int dict_slot(const struct gsp_py__view *v, gsp_raddr object,
                     const struct gsp_py__type *type, gsp_raddr *out)
{
    int64_t at = type->dictoffset;
    if (at < 0) {
        uint64_t size = 0;
        int rc = gsp_proc_mem_read_u64(v->mem, object + v->layout->var_ob_size, &size);
        if (rc != 0)
            return rc;
        int64_t items = (int64_t)size < 0 ? (int64_t)(0 - size) : (int64_t)size;
        if (items < 0 || items > (1 << 30) || type->itemsize < 0 || type->itemsize > (1 << 20))
            return GSP_E_FORMAT;
        at += (type->basicsize + items * type->itemsize + 7) / 8 * 8;
    }
    *out = object + (uint64_t)at;
    return 0;
}

int gsp_py__attr_each(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr object,
                      gsp_py_item_fn *fn, void *arg)
{
    const struct gsp_py__view view = {mem, layout};
    struct gsp_py__type type;
    gsp_raddr values = 0;
    gsp_raddr dict = 0;
    int rc = gsp_py__type_read(&view, object, &type);
    if (rc != 0)
        return rc;
    if (layout->managed_dict != GSP_NO_OFFSET && (type.flags & TYPE_MANAGED_DICT) != 0) {
        rc = find_managed(&view, object, &type, &values, &dict);
    } else if (type.dictoffset != 0) {
        gsp_raddr slot = 0;
        rc = dict_slot(&view, object, &type, &slot);
        rc = rc != 0 ? rc : gsp_proc_mem_read_u64(mem, slot, &dict);
    }
    if (rc != 0 || (values == 0 && dict == 0))
        return rc;
    if (values == 0)
        return gsp_py__dict_each(mem, layout, dict, fn, arg);
    uint64_t keys_addr = 0;
    struct keys keys = {0};
    rc = gsp_proc_mem_read_u64(mem, type.addr + layout->type_cached_keys, &keys_addr);
    rc = rc != 0 ? rc : keys_read(&view, keys_addr, values + layout->dictvalues_values, &keys);
    return rc != 0 ? rc : keys_each(&view, &keys, fn, arg);
}

struct lookup {
    const struct gsp_py__view *view;
    const char *key;
    gsp_raddr value;
    int rc;
};

static bool find_item(void *arg, gsp_raddr key, gsp_raddr value)
{
    struct lookup *lookup = arg;
    bool same = false;
    lookup->rc = str_is(lookup->view, key, lookup->key, &same);
    if (same)
        lookup->value = value;
    return lookup->rc == 0 && !same;
}

int gsp_py__dict_find(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr dict,
                      const char *key, gsp_raddr *out)
{
    const struct gsp_py__view view = {mem, layout};
    struct lookup lookup = {&view, key, 0, 0};
    int rc = gsp_py__dict_each(mem, layout, dict, find_item, &lookup);
    *out = lookup.value;
    return rc != 0 ? rc : lookup.rc;
}

int gsp_py__attr_find(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr object,
                      const char *name, gsp_raddr *out)
{
    const struct gsp_py__view view = {mem, layout};
    struct lookup lookup = {&view, name, 0, 0};
    int rc = gsp_py__attr_each(mem, layout, object, find_item, &lookup);
    *out = lookup.value;
    return rc != 0 ? rc : lookup.rc;
}

/* ---- Ints and threads ---- */

int gsp_py__long_head(const struct gsp_py__view *v, gsp_raddr addr, struct gsp_py__long *out)
{
    uint64_t tag = 0;
    int rc = gsp_proc_mem_read_u64(v->mem, addr + v->layout->long_tag, &tag);
    if (rc != 0)
        return rc;
    if (GSP_PY_MINOR(v->layout->version) >= 12) {
        out->negative = (tag & 3U) == 2;
        out->digit_count = (tag & 3U) == 1 ? 0 : tag >> 3U;
    } else {
        out->negative = (int64_t)tag < 0;
        out->digit_count = out->negative ? 0 - tag : tag;
    }
    return out->digit_count > (1U << 28U) ? GSP_E_FORMAT : 0;
}

int gsp_py__uint_read(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr addr,
                      uint64_t *out)
{
    const struct gsp_py__view view = {mem, layout};
    struct gsp_py__long head = {0};
    uint32_t digits[3] = {0};
    int rc = gsp_py__long_head(&view, addr, &head);
    if (rc != 0)
        return rc;
    if (head.negative || head.digit_count > GSP_COUNT(digits))
        return GSP_E_FORMAT;
    if (head.digit_count > 0) {
        rc = gsp_proc_mem_read(mem, addr + layout->long_digits, digits,
                               (size_t)head.digit_count * sizeof(digits[0]));
    }
    if (rc != 0)
        return rc;
    if (digits[2] > 15U)
        return GSP_E_FORMAT; /* more than 64 bits */
    *out = digits[0] | ((uint64_t)digits[1] << 30U) | ((uint64_t)digits[2] << 60U);
    return 0;
}

struct naming {
    const struct gsp_py__view *view;
    gsp_py_thread_name_fn *fn;
    void *arg;
    int rc;
};

/* One item of threading._active: ident to Thread. */
static bool name_thread(void *arg, gsp_raddr key, gsp_raddr value)
{
    struct naming *naming = arg;
    const struct gsp_py__view *v = naming->view;
    gsp_auto_buf name = {0};
    uint64_t ident = 0;
    gsp_raddr text = 0;
    int rc = gsp_py__uint_read(v->mem, v->layout, key, &ident);
    rc = rc != 0 ? rc : gsp_py__attr_find(v->mem, v->layout, value, "_name", &text);
    if (rc == 0 && text != 0)
        rc = gsp_py__str_read(v->mem, v->layout, text, THREAD_NAME_BYTES, &name);
    if (rc == 0 && name.len > 0)
        naming->fn(naming->arg, ident, gsp_buf_sv(&name));
    /* A thread that is starting or ending does not hide the others. */
    naming->rc = rc == GSP_E_FAULT || rc == GSP_E_FORMAT ? 0 : rc;
    return naming->rc == 0;
}

int gsp_py_thread_names(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr interp,
                        gsp_py_thread_name_fn *fn, void *arg)
{
    const struct gsp_py__view view = {mem, layout};
    struct naming naming = {&view, fn, arg, 0};
    uint64_t modules = 0;
    gsp_raddr module = 0;
    gsp_raddr active = 0;
    int rc = gsp_proc_mem_read_u64(mem, interp + layout->interp_modules, &modules);
    if (rc != 0 || modules == 0)
        return rc;
    rc = gsp_py__dict_find(mem, layout, modules, "threading", &module);
    if (rc != 0 || module == 0)
        return rc;
    rc = gsp_py__attr_find(mem, layout, module, "_active", &active);
    if (rc != 0 || active == 0)
        return rc;
    rc = gsp_py__dict_each(mem, layout, active, name_thread, &naming);
    return rc != 0 ? rc : naming.rc;
}
