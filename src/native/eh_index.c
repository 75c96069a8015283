/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "native/native_internal.h"

/* Encodings that linkers use: four bytes each, relative to the address of the header. */
#define TABLE_ENCODING  0x3bU
#define FRAME_ENCODING  0x1bU
#define COUNT_ENCODING  0x03U
#define HEAD_BYTES      12U
#define ENTRIES_MAX     (1U << 24)
/* Maximum size of an entry and of its CIE. Those of compilers have a few tens of bytes. */
#define ENTRY_BYTES_MAX (32U << 10)
#define CIE_BYTES_MAX   1024U
#define GUESS_BYTES     512U

struct pair {
    int32_t start; /* of the function, minus the address of the table */
    int32_t entry; /* of its entry in .eh_frame, the same */
};

struct gsp_native_index {
    uint64_t addr; /* of .eh_frame_hdr */
    size_t count;
    struct pair *pairs; /* ascending by start */
    /* The CIE that was read last. A file has few. */
    uint64_t cie_addr;
    size_t cie_len; /* 0: none */
    unsigned char cie[CIE_BYTES_MAX];
    /* A section that consists of a CIE and an entry. */
    unsigned char bytes[CIE_BYTES_MAX + ENTRY_BYTES_MAX];
};

static bool find_header(const struct gsp_native_file *file, uint64_t *addr)
{
    size_t count;
    if (!file->elf || !file->arch || elf_getphdrnum(file->elf, &count) != 0 || count > INT_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr ph;
        if (gelf_getphdr(file->elf, (int)i, &ph) && ph.p_type == PT_GNU_EH_FRAME) {
            *addr = ph.p_vaddr;
            return true;
        }
    }
    return false;
}

static struct gsp_native_index *load(const struct gsp_native_file *file)
{
    uint64_t addr;
    unsigned char head[HEAD_BYTES];
    uint32_t count;
    if (!find_header(file, &addr) || !gsp_native__file_text(file, addr, head, sizeof(head)) ||
        head[0] != 1 || head[1] != FRAME_ENCODING || head[2] != COUNT_ENCODING ||
        head[3] != TABLE_ENCODING)
        return NULL;
    memcpy(&count, head + 8, sizeof(count));
    if (count == 0 || count > ENTRIES_MAX)
        return NULL;
    struct gsp_native_index *index = calloc(1, sizeof(*index));
    struct pair *pairs = malloc(count * sizeof(*pairs));
    bool good = index && pairs &&
                gsp_native__file_text(file, addr + HEAD_BYTES, pairs, count * sizeof(*pairs));
    for (size_t i = 1; good && i < count; i++)
        good = pairs[i].start >= pairs[i - 1].start;
    if (!good) {
        free(pairs);
        free(index);
        return NULL;
    }
    index->addr = addr;
    index->count = count;
    index->pairs = pairs;
    return index;
}

struct gsp_native_index *gsp_native__index_of(struct gsp_native_file *file)
{
    if (!file->index_tried) {
        file->index_tried = true;
        file->index = load(file);
    }
    return file->index;
}

void gsp_native__index_free(struct gsp_native_index *index)
{
    if (!index)
        return;
    free(index->pairs);
    free(index);
}

/* Reads the entry or CIE at an address. Returns its size with the length field, or 0. */
static size_t read_entry(const struct gsp_native_file *file, uint64_t addr, unsigned char *to,
                         size_t cap)
{
    uint32_t len;
    size_t got = GUESS_BYTES;
    /* Near the end of the segment, read less. */
    while (got > sizeof(len) && !gsp_native__file_text(file, addr, to, got))
        got /= 2;
    if (got <= sizeof(len))
        return 0;
    memcpy(&len, to, sizeof(len));
    size_t size = sizeof(len) + (size_t)len;
    if (len < 8 || size > cap)
        return 0;
    return size <= got || gsp_native__file_text(file, addr, to, size) ? size : 0;
}

static bool load_cie(const struct gsp_native_file *file, struct gsp_native_index *index,
                     uint64_t addr)
{
    if (index->cie_len == 0 || index->cie_addr != addr) {
        index->cie_addr = addr;
        index->cie_len = read_entry(file, addr, index->cie, sizeof(index->cie));
    }
    return index->cie_len > 0;
}

/* The last entry that begins at or before addr. */
static const struct pair *find_pair(const struct gsp_native_index *index, uint64_t addr)
{
    int64_t offset = (int64_t)(addr - index->addr);
    size_t lo = 0;
    size_t hi = index->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (index->pairs[mid].start <= offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? &index->pairs[lo - 1] : NULL;
}

bool gsp_native__index_section(struct gsp_native_file *file, uint64_t addr,
                               struct gsp_cfi_input *out)
{
    struct gsp_native_index *index = gsp_native__index_of(file);
    const struct pair *pair = index ? find_pair(index, addr) : NULL;
    if (!pair)
        return false;
    uint64_t entry = index->addr + (uint64_t)(int64_t)pair->entry;
    unsigned char *fde = index->bytes + CIE_BYTES_MAX;
    size_t len = read_entry(file, entry, fde, ENTRY_BYTES_MAX);
    uint32_t back;
    if (len == 0)
        return false;
    memcpy(&back, fde + 4, sizeof(back));
    if (back == 0 || !load_cie(file, index, entry + 4 - back))
        return false;
    /* Put the CIE directly before the entry and adjust the offset between them. */
    back = (uint32_t)index->cie_len + 4;
    memcpy(fde + 4, &back, sizeof(back));
    unsigned char *bytes = fde - index->cie_len;
    memcpy(bytes, index->cie, index->cie_len);
    *out = (struct gsp_cfi_input){file->arch, bytes, index->cie_len + len, entry - index->cie_len};
    return true;
}

gsp_cfi_rule gsp_native__file_rule(struct gsp_native_file *file, uint64_t addr)
{
    gsp_cfi_rule rule = gsp_cfi_pack(GSP_CFI_NONE, 0, 0, 0);
    struct gsp_cfi_input in;
    struct gsp_cfi_table table;
    if (!gsp_native__index_of(file))
        return gsp_native__cfi_find(gsp_native__file_table(file), addr);
    if (!gsp_native__index_section(file, addr, &in) ||
        gsp_native__cfi_build(&in, &table, NULL) != GSP_OK)
        return rule;
    rule = gsp_native__cfi_find(&table, addr);
    gsp_native__cfi_free(&table);
    return rule;
}

bool gsp_native__file_span(struct gsp_native_file *file, uint64_t addr, struct gsp_cfi_span *out)
{
    struct gsp_cfi_input in;
    if (gsp_native__index_of(file))
        return gsp_native__index_section(file, addr, &in) && gsp_native__cfi_span(&in, addr, out);
    unsigned char *bytes;
    bool found =
        gsp_native__file_eh_frame(file, &in, &bytes) && gsp_native__cfi_span(&in, addr, out);
    free(bytes);
    return found;
}
