/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "native/native_internal.h"
#include "proc/image.h"

/* Functions larger than this are not searched for jumps to split-off parts. */
#define HOT_BYTES_MAX (64U << 10)

/* The module that contains, or contained, pc. */
static uint32_t module_of(const struct gsp_native *native, uint64_t pc)
{
    const struct gsp_native_text *text = gsp_native__text_find(native, pc);
    if (text)
        return text->module;
    /* Unloaded in the meantime: the last module at this address is the most likely. */
    for (size_t i = native->module_count; i-- > 0;)
        if (pc >= native->modules[i].base && pc < native->modules[i].end)
            return (uint32_t)i;
    return GSP_NATIVE_NO_MODULE;
}

void gsp_native__describe(struct gsp_native_store *store, struct gsp_native_file *file,
                          uint64_t vaddr, uint64_t bias, struct gsp_native_symbol *out)
{
    struct gsp_native_found found;
    if (gsp_native__symbol_find(file, vaddr, &found)) {
        out->name = gsp_native__intern_name(store, found.name);
        out->start = found.start + bias;
        out->size = found.size;
    }
    gsp_native__lines_find(store, file, vaddr, out);
}

struct gsp_native_file *gsp_native__locate(struct gsp_native *native, uint64_t pc, uint64_t *bias,
                                           const char **module)
{
    uint32_t number = module_of(native, pc);
    *bias = 0;
    if (number == GSP_NATIVE_NO_MODULE)
        return NULL;
    const char *path = gsp_native__intern(native->store, native->modules[number].path);
    *module = path ? path : "";
    struct gsp_native_file *file = gsp_native__module_file(native, number);
    *bias = native->modules[number].bias;
    return file;
}

const char *gsp_native_path_of(struct gsp_native *native, uint64_t pc)
{
    uint64_t bias;
    const char *path = "";
    gsp_native__locate(native, pc, &bias, &path);
    return path;
}

bool gsp_native_symbol(struct gsp_native *native, uint64_t pc, struct gsp_native_symbol *out)
{
    uint64_t bias;
    memset(out, 0, sizeof(*out));
    out->module = "";
    struct gsp_native_file *file = gsp_native__locate(native, pc, &bias, &out->module);
    if (file)
        gsp_native__describe(native->store, file, pc - bias, bias, out);
    return file != NULL || out->module[0] != '\0';
}

struct search {
    const char *symbol;
    size_t len;
    uint64_t bias;
    struct gsp_native_ranges *out;
};

static void add_range(struct gsp_native_ranges *out, uint64_t start, uint64_t len)
{
    for (size_t i = 0; i < out->count; i++)
        if (out->items[i].start == start)
            return;
    if (out->count < GSP_NATIVE_RANGES_MAX && len > 0)
        out->items[out->count++] = (struct gsp_native_range){start, start + len};
}

/* The function itself, "name.cold", "name.part.0", "name.constprop.0.cold"… */
static bool add_named(void *user, const struct gsp_native_found *found)
{
    struct search *search = user;
    if (strncmp(found->name, search->symbol, search->len) == 0 &&
        (found->name[search->len] == '\0' || found->name[search->len] == '.'))
        add_range(search->out, found->start + search->bias, found->size);
    return true;
}

/* Decodes a jmp or jcc with a 32-bit distance at bytes[at]. */
static bool jump_target(const unsigned char *bytes, size_t len, size_t at, uint64_t *distance)
{
    size_t op;
    if (bytes[at] == 0xe9)
        op = 1;
    else if (bytes[at] == 0x0f && at + 1 < len && (bytes[at + 1] & 0xf0U) == 0x80)
        op = 2;
    else
        return false;
    if (len - at < op + 4)
        return false;
    int32_t delta;
    memcpy(&delta, bytes + at + op, sizeof(delta));
    *distance = at + op + 4 + (uint64_t)(int64_t)delta;
    return true;
}

static bool same_cfa(gsp_cfi_rule a, gsp_cfi_rule b)
{
    return gsp_cfi_kind_of(a) == gsp_cfi_kind_of(b) && gsp_cfi_kind_of(a) != GSP_CFI_NONE &&
           gsp_cfi_offset_of(a) == gsp_cfi_offset_of(b);
}

/* Adds split-off parts without a symbol: an entry of .eh_frame that does not start with a new
 * frame, is the target of a jump of the function, and has the same frame as the function there. */
static void add_jumped(struct gsp_native_file *file, struct gsp_native_range hot, uint64_t bias,
                       struct gsp_native_ranges *out)
{
    size_t len = (size_t)(hot.end - hot.start);
    if (!file->arch || file->arch->machine != EM_X86_64 || len > HOT_BYTES_MAX)
        return;
    unsigned char *code = malloc(len);
    if (code && gsp_native__file_text(file, hot.start, code, len)) {
        const gsp_cfi_rule fresh = gsp_cfi_pack(GSP_CFI_SP, 1, GSP_CFI_FP_SAME, GSP_CFI_RA_AT(1U));
        struct gsp_cfi_span last = {0};
        for (size_t at = 0; at < len; at++) {
            uint64_t to;
            if (!jump_target(code, len, at, &to))
                continue;
            to += hot.start;
            if ((to >= hot.start && to < hot.end) || to - last.start < last.len ||
                !same_cfa(gsp_native__file_rule(file, to),
                          gsp_native__file_rule(file, hot.start + at)) ||
                !gsp_native__file_span(file, to, &last) ||
                gsp_native__file_rule(file, last.start) == fresh)
                continue;
            add_range(out, last.start + bias, last.len);
        }
    }
    free(code);
}

/* Returns whether the module exports the symbol. A few reads of the target's memory; its symbol
 * table would be megabytes. */
static bool exports(const struct gsp_native *native, uint32_t number, const char *symbol)
{
    const struct gsp_map *map = gsp_proc_maps_find(native->maps, native->modules[number].base);
    struct gsp_image *image;
    if (!map || gsp_proc_image_open(native->pid, native->mem, map, &image, NULL) != GSP_OK)
        return false;
    bool found = gsp_proc_image_dynsym(image, symbol) != 0;
    gsp_proc_image_close(image);
    return found;
}

static void add_of_module(struct gsp_native *native, uint32_t number, const char *symbol,
                          struct gsp_native_ranges *out)
{
    struct gsp_native_file *file = gsp_native__module_file(native, number);
    if (!file)
        return;
    uint64_t bias = native->modules[number].bias;
    struct search search = {symbol, strlen(symbol), bias, out};
    gsp_native__symbol_each(file, add_named, &search);
    if (out->count != 1)
        return;
    struct gsp_native_range hot = {out->items[0].start - bias, out->items[0].end - bias};
    add_jumped(file, hot, bias, out);
}

bool gsp_native_range(struct gsp_native *native, const char *symbol, struct gsp_native_ranges *out)
{
    *out = (struct gsp_native_ranges){0};
    for (int all = 0; all < 2 && out->count == 0; all++) {
        for (size_t i = 0; i < native->text_count && out->count == 0; i++) {
            uint32_t number = native->texts[i].module;
            if (number == GSP_NATIVE_NO_MODULE || (i > 0 && native->texts[i - 1].module == number))
                continue;
            if (all || exports(native, number, symbol))
                add_of_module(native, number, symbol, out);
        }
    }
    return out->count > 0;
}
