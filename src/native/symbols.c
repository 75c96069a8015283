/* SPDX-License-Identifier: Apache-2.0 */
#include <gelf.h>
#include <libelf.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "native/native_internal.h"

#define SYMBOLS_MAX     (1U << 25)
/* Unpacked .gnu_debugdata; usual are a few megabytes. */
#define UNPACKED_MAX    (256U << 20)
#define LZMA_MEMORY_MAX (256ULL << 20)
/* How many symbols before an address are checked for one that covers it. */
#define LOOK_BACK       16U
#define TABLES_MAX      4U
#define NAME_BYTES_MAX  (16U << 10)
/* Symbols per read. */
#define CHUNK           1024U
/* Bits per pass of the radix sort of start addresses. */
#define RADIX_BITS      11U
#define RADIX           (1U << RADIX_BITS)
#define START_BITS      33U

struct symbol {
    uint64_t start;
    uint32_t size;
    uint32_t name; /* offset in the strings of its table */
    uint8_t table; /* index of that table */
    uint8_t rank;  /* of the symbols at one address, the highest is used */
    bool is_label; /* has no type: its name decides whether it is used */
};

/* The strings of a symbol table. Names are read on demand, because those of a C++ library are many
 * times larger than the rest of the table. */
struct strings {
    int fd;                     /* borrowed; -1: in memory */
    const unsigned char *bytes; /* borrowed */
    uint64_t offset;            /* in the file */
    uint64_t len;
};

struct gsp_native_symbols {
    struct symbol *items; /* ascending by start */
    size_t count;
    size_t cap;
    size_t table_count;
    struct strings tables[TABLES_MAX];
    Elf *mini; /* unpacked from .gnu_debugdata */
    unsigned char *mini_bytes;
    char name[NAME_BYTES_MAX]; /* the result of the last name_of() */
};

/* A file with symbols, on disk or in memory. */
struct source {
    Elf *elf;
    int fd;                     /* -1: in memory */
    const unsigned char *bytes; /* in that case */
    uint64_t len;
};

static uint8_t rank_of(const Elf64_Sym *sym)
{
    unsigned rank = sym->st_size ? 4 : 0;
    unsigned char bind = ELF64_ST_BIND(sym->st_info);
    if (bind == STB_GLOBAL)
        return (uint8_t)(rank + 2);
    return (uint8_t)(rank + (bind == STB_WEAK ? 1 : 0));
}

static bool read_at(const struct source *source, uint64_t offset, void *to, size_t len)
{
    if (source->fd < 0) {
        if (!source->bytes || offset > source->len || len > source->len - offset)
            return false;
        memcpy(to, source->bytes + offset, len);
        return true;
    }
    return pread(source->fd, to, len, (off_t)offset) == (ssize_t)len;
}

static bool push(struct gsp_native_symbols *symbols, struct symbol symbol)
{
    if (symbols->count == SYMBOLS_MAX ||
        !gsp_array_fit(&symbols->items, &symbols->cap, symbols->count + 1))
        return false;
    symbols->items[symbols->count++] = symbol;
    return true;
}

static bool add_symbol(struct gsp_native_symbols *symbols, const Elf64_Sym *sym)
{
    unsigned char type = ELF64_ST_TYPE(sym->st_info);
    bool is_code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    if (!is_code || sym->st_shndx == SHN_UNDEF || sym->st_value == 0 || sym->st_name == 0)
        return true;
    return push(symbols, (struct symbol){.start = sym->st_value,
                                         .size = sym->st_size > UINT32_MAX ? UINT32_MAX
                                                                           : (uint32_t)sym->st_size,
                                         .name = sym->st_name,
                                         .table = (uint8_t)symbols->table_count,
                                         .rank = rank_of(sym),
                                         .is_label = type == STT_NOTYPE});
}

/* Adds the symbols of the section with this header. */
static void add_section(struct gsp_native_symbols *symbols, const struct source *source,
                        const GElf_Shdr *sh)
{
    GElf_Shdr strings;
    Elf_Scn *scn = elf_getscn(source->elf, sh->sh_link);
    if (!scn || !gelf_getshdr(scn, &strings) || strings.sh_type != SHT_STRTAB ||
        ((sh->sh_flags | strings.sh_flags) & SHF_COMPRESSED) ||
        symbols->table_count == TABLES_MAX ||
        (source->fd < 0 &&
         (strings.sh_offset > source->len || strings.sh_size > source->len - strings.sh_offset)))
        return;
    Elf64_Sym chunk[CHUNK];
    uint64_t count = sh->sh_size / sizeof(*chunk);
    for (uint64_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? (size_t)(count - at) : CHUNK;
        if (!read_at(source, sh->sh_offset + at * sizeof(*chunk), chunk, n * sizeof(*chunk)))
            break;
        for (size_t i = 0; i < n; i++)
            if (!add_symbol(symbols, &chunk[i]))
                return;
    }
    symbols->tables[symbols->table_count++] = (struct strings){.fd = source->fd,
                                                               .bytes = source->bytes,
                                                               .offset = strings.sh_offset,
                                                               .len = strings.sh_size};
}

/* Adds the symbol tables of a type. Returns false if they contain no symbols. */
static bool add_tables(struct gsp_native_symbols *symbols, const struct source *source,
                       unsigned type)
{
    size_t before = symbols->count;
    Elf_Scn *scn = source->elf ? elf_nextscn(source->elf, NULL) : NULL;
    for (; scn; scn = elf_nextscn(source->elf, scn)) {
        GElf_Shdr sh;
        if (gelf_getshdr(scn, &sh) && sh.sh_type == type && sh.sh_entsize == sizeof(Elf64_Sym))
            add_section(symbols, source, &sh);
    }
    return symbols->count > before;
}

/* The name of a symbol, valid until the next call; NULL if it has none. */
static const char *name_of(struct gsp_native_symbols *symbols, const struct symbol *symbol)
{
    const struct strings *strings = &symbols->tables[symbol->table];
    if (symbol->name >= strings->len)
        return NULL;
    uint64_t len = strings->len - symbol->name;
    if (len > sizeof(symbols->name))
        len = sizeof(symbols->name);
    uint64_t offset = strings->offset + symbol->name;
    size_t got = 0;
    /* Most names are short. */
    for (size_t limit = 256; got < len; limit *= 2) {
        size_t n = limit < len ? limit - got : (size_t)len - got;
        if (strings->fd < 0)
            memcpy(symbols->name + got, strings->bytes + offset + got, n);
        else if (pread(strings->fd, symbols->name + got, n, (off_t)(offset + got)) != (ssize_t)n)
            return NULL;
        got += n;
        if (memchr(symbols->name + got - n, 0, n))
            return symbols->name[0] ? symbols->name : NULL;
    }
    return NULL;
}

/* Unpacks into a buffer, and retries with a larger one if it is too small. */
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
    add_tables(symbols, &(struct source){symbols->mini, -1, symbols->mini_bytes, len}, SHT_SYMTAB);
}

/* Sorts by start; stable. */
static bool sort(struct gsp_native_symbols *symbols)
{
    struct symbol *from = symbols->items;
    struct symbol *to = malloc(symbols->count * sizeof(*to));
    uint64_t base = UINT64_MAX;
    if (!to)
        return false;
    for (size_t i = 0; i < symbols->count; i++)
        base = from[i].start < base ? from[i].start : base;
    /* Higher bits are ignored: no library is that large, so such symbols are malformed. */
    for (unsigned shift = 0; shift < START_BITS; shift += RADIX_BITS) {
        size_t at[RADIX + 1] = {0};
        for (size_t i = 0; i < symbols->count; i++)
            at[((from[i].start - base) >> shift & (RADIX - 1)) + 1]++;
        for (size_t i = 1; i <= RADIX; i++)
            at[i] += at[i - 1];
        for (size_t i = 0; i < symbols->count; i++)
            to[at[(from[i].start - base) >> shift & (RADIX - 1)]++] = from[i];
        struct symbol *swap = from;
        from = to;
        to = swap;
    }
    symbols->items = from;
    free(to);
    return true;
}

static struct gsp_native_symbols *load(struct gsp_native_file *file)
{
    if (file->symbols_tried)
        return file->symbols;
    file->symbols_tried = true;
    struct gsp_native_symbols *symbols = calloc(1, sizeof(*symbols));
    if (!symbols || !file->elf)
        return file->symbols = symbols;
    struct source own = {file->elf, file->fd, file->image, file->len};
    /* A full table contains everything that the smaller ones contain. */
    if (!add_tables(symbols, &own, SHT_SYMTAB)) {
        struct source debug = {.elf = gsp_native__file_debug(file), .fd = file->debug_fd};
        if (!debug.elf || !add_tables(symbols, &debug, SHT_SYMTAB)) {
            add_mini(symbols, file->elf);
            add_tables(symbols, &own, SHT_DYNSYM);
        }
    }
    if (symbols->count > 1 && !sort(symbols))
        symbols->count = 0;
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

/* Returns whether symbol i contains addr. A symbol without a size extends to the start of the next
 * one. */
static bool covers(const struct gsp_native_symbols *symbols, size_t i, uint64_t addr)
{
    const struct symbol *symbol = &symbols->items[i];
    if (symbol->size)
        return addr - symbol->start < symbol->size;
    for (size_t k = i + 1; k < symbols->count; k++)
        if (symbols->items[k].start > symbol->start)
            return addr < symbols->items[k].start;
    return true;
}

/* Labels of hand-written assembly have no type. Names such as "$x" mark code and data. */
static bool is_named(struct gsp_native_symbols *symbols, const struct symbol *symbol)
{
    const char *name = name_of(symbols, symbol);
    return name && !(symbol->is_label && (name[0] == '$' || name[0] == '.'));
}

/* Compares two symbols that contain an address: a function is better than a label inside it; of
 * symbols with the same start, the highest rank is best, then the first name. */
static bool is_better(struct gsp_native_symbols *symbols, const struct symbol *symbol,
                      const struct symbol *best)
{
    if (!best || symbol->start != best->start)
        return !best || (symbol->size && !best->size);
    if (symbol->rank != best->rank)
        return symbol->rank > best->rank;
    char *name = strdup(symbols->name); /* of symbol: is_named() has just read it */
    const char *other = name_of(symbols, best);
    bool is_first = name && other && strcmp(name, other) < 0;
    free(name);
    return is_first;
}

bool gsp_native__symbol_find(struct gsp_native_file *file, uint64_t vaddr,
                             struct gsp_native_found *out)
{
    struct gsp_native_symbols *symbols = load(file);
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
    const struct symbol *best = NULL;
    for (size_t back = 0; back < LOOK_BACK && back < lo; back++) {
        const struct symbol *symbol = &symbols->items[lo - 1 - back];
        if (best && best->size && symbol->start != best->start)
            break;
        if (covers(symbols, lo - 1 - back, vaddr) && is_named(symbols, symbol) &&
            is_better(symbols, symbol, best))
            best = symbol;
    }
    const char *name = best ? name_of(symbols, best) : NULL;
    if (name)
        *out = (struct gsp_native_found){name, best->start, best->size};
    return name != NULL;
}

void gsp_native__symbol_each(struct gsp_native_file *file,
                             bool (*fn)(void *user, const struct gsp_native_found *found),
                             void *user)
{
    struct gsp_native_symbols *symbols = load(file);
    for (size_t i = 0; symbols && i < symbols->count; i++) {
        const struct symbol *symbol = &symbols->items[i];
        if (!is_named(symbols, symbol))
            continue;
        struct gsp_native_found found = {symbols->name, symbol->start, symbol->size};
        if (!fn(user, &found))
            return;
    }
}
