/* SPDX-License-Identifier: Apache-2.0 */
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include "native/native_internal.h"

#define SYMBOLS_MAX     (1U << 25)
/* .gnu_debugdata: of real files a few megabytes. */
#define UNPACKED_MAX    (256U << 20)
#define LZMA_MEMORY_MAX (256ULL << 20)
/* How far back a symbol is looked for that covers an address. */
#define LOOK_BACK       16U

struct symbol {
    uint64_t start;
    uint32_t size;
    uint32_t rank;    /* of those at one address the greatest is shown */
    const char *name; /* borrowed from the Elf */
};

struct gsp_native_symbols {
    struct symbol *items; /* ascending by start */
    size_t count;
    size_t cap;
    Elf *mini; /* unpacked from .gnu_debugdata */
    unsigned char *mini_bytes;
};

static uint32_t rank_of(const GElf_Sym *sym)
{
    uint32_t rank = sym->st_size ? 4 : 0;
    unsigned char bind = GELF_ST_BIND(sym->st_info);
    if (bind == STB_GLOBAL)
        return rank + 2;
    return rank + (bind == STB_WEAK ? 1 : 0);
}

static bool is_code(const GElf_Sym *sym, const char *name)
{
    unsigned char type = GELF_ST_TYPE(sym->st_info);
    if (sym->st_shndx == SHN_UNDEF || sym->st_value == 0 || !name || name[0] == '\0')
        return false;
    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    /* Labels of hand-written assembly have no type; "$x" and the like mark code and data. */
    return type == STT_NOTYPE && name[0] != '$' && name[0] != '.';
}

static bool push(struct gsp_native_symbols *symbols, struct symbol symbol)
{
    if (symbols->count == symbols->cap) {
        size_t cap = symbols->cap ? symbols->cap * 2 : 1024;
        struct symbol *items =
            cap > SYMBOLS_MAX ? NULL : realloc(symbols->items, cap * sizeof(*items));
        if (!items)
            return false;
        symbols->items = items;
        symbols->cap = cap;
    }
    symbols->items[symbols->count++] = symbol;
    return true;
}

/* Adds a table of a file; false if it has none of that type. */
static bool add_table(struct gsp_native_symbols *symbols, Elf *elf, unsigned type)
{
    bool found = false;
    for (Elf_Scn *scn = elf ? elf_nextscn(elf, NULL) : NULL; scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr sh;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != type || sh.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(scn, NULL);
        size_t count = data ? data->d_size / sh.sh_entsize : 0;
        for (size_t i = 0; i < count && i < INT_MAX; i++) {
            GElf_Sym sym;
            if (!gelf_getsym(data, (int)i, &sym))
                break;
            const char *name = elf_strptr(elf, sh.sh_link, sym.st_name);
            if (!is_code(&sym, name))
                continue;
            uint32_t size = sym.st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)sym.st_size;
            if (!push(symbols, (struct symbol){sym.st_value, size, rank_of(&sym), name}))
                return found;
            found = true;
        }
    }
    return found;
}

/* Unpacks into memory of the size that it turns out to need. */
static unsigned char *unpack(const unsigned char *packed, size_t len, size_t *out_len)
{
    for (size_t cap = len * 8 < 4096 ? 4096 : len * 8; cap <= UNPACKED_MAX; cap *= 2) {
        unsigned char *out = malloc(cap);
        if (!out)
            return NULL;
        uint64_t memory = LZMA_MEMORY_MAX;
        size_t in_at = 0;
        *out_len = 0;
        lzma_ret rc =
            lzma_stream_buffer_decode(&memory, 0, NULL, packed, &in_at, len, out, out_len, cap);
        if (rc == LZMA_OK)
            return out;
        free(out);
        if (rc != LZMA_BUF_ERROR)
            return NULL;
    }
    return NULL;
}

static void add_mini(struct gsp_native_symbols *symbols, Elf *elf)
{
    Elf_Scn *scn = gsp_native__section(elf, ".gnu_debugdata");
    Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
    if (!data || !data->d_buf || data->d_size > UNPACKED_MAX / 8)
        return;
    size_t len;
    symbols->mini_bytes = unpack(data->d_buf, data->d_size, &len);
    if (!symbols->mini_bytes)
        return;
    symbols->mini = elf_memory((char *)symbols->mini_bytes, len);
    add_table(symbols, symbols->mini, SHT_SYMTAB);
}

static int compare(const void *a, const void *b)
{
    const struct symbol *x = a;
    const struct symbol *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(y->name, x->name);
}

static struct gsp_native_symbols *load(struct gsp_native_file *file)
{
    if (file->symbols_tried)
        return file->symbols;
    file->symbols_tried = true;
    struct gsp_native_symbols *symbols = calloc(1, sizeof(*symbols));
    if (!symbols || !file->elf)
        return file->symbols = symbols;
    /* A full table has all that the smaller ones have. */
    if (!add_table(symbols, file->elf, SHT_SYMTAB) &&
        !add_table(symbols, gsp_native__file_debug(file), SHT_SYMTAB)) {
        add_mini(symbols, file->elf);
        add_table(symbols, file->elf, SHT_DYNSYM);
    }
    if (symbols->count > 1)
        qsort(symbols->items, symbols->count, sizeof(*symbols->items), compare);
    return file->symbols = symbols;
}

void gsp_native__symbols_free(struct gsp_native_symbols *symbols)
{
    if (!symbols)
        return;
    elf_end(symbols->mini);
    free(symbols->mini_bytes);
    free(symbols->items);
    free(symbols);
}

/* Is addr in symbol i?  One without a size reaches to the next address that has one. */
static bool covers(const struct gsp_native_symbols *symbols, size_t i, uint64_t addr)
{
    const struct symbol *symbol = &symbols->items[i];
    if (symbol->size)
        return addr - symbol->start < symbol->size;
    for (size_t k = i + 1; k < symbols->count; k++) {
        if (symbols->items[k].start > symbol->start)
            return addr < symbols->items[k].start;
    }
    return true;
}

bool gsp_native__symbol_find(struct gsp_native_file *file, uint64_t vaddr,
                             struct gsp_native_found *out)
{
    const struct gsp_native_symbols *symbols = load(file);
    if (!symbols)
        return false;
    size_t lo = 0;
    size_t hi = symbols->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (symbols->items[mid].start <= vaddr)
            lo = mid + 1;
        else
            hi = mid;
    }
    /* Labels within a function have no size: the function around them is what is wanted. */
    const struct symbol *best = NULL;
    for (size_t back = 0; back < LOOK_BACK && back < lo && !(best && best->size); back++) {
        const struct symbol *symbol = &symbols->items[lo - 1 - back];
        if (covers(symbols, lo - 1 - back, vaddr) && (!best || symbol->size))
            best = symbol;
    }
    if (best)
        *out = (struct gsp_native_found){best->name, best->start, best->size};
    return best != NULL;
}

void gsp_native__symbol_each(struct gsp_native_file *file,
                             bool (*fn)(void *user, const struct gsp_native_found *found),
                             void *user)
{
    const struct gsp_native_symbols *symbols = load(file);
    for (size_t i = 0; symbols && i < symbols->count; i++) {
        const struct symbol *symbol = &symbols->items[i];
        struct gsp_native_found found = {symbol->name, symbol->start, symbol->size};
        if (!fn(user, &found))
            return;
    }
}
