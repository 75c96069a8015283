/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "native/cfi_internal.h"

/* DWARF pointer encodings (LSB core specification, 10.5.1). */
#define PE_ULEB     0x01U
#define PE_U2       0x02U
#define PE_U4       0x03U
#define PE_U8       0x04U
#define PE_SLEB     0x09U
#define PE_S2       0x0aU
#define PE_S4       0x0bU
#define PE_S8       0x0cU
#define PE_PCREL    0x10U
#define PE_OMIT     0xffU

/* The program of a CIE usually has about ten bytes. It runs once per FDE. */
#define PROGRAM_MAX 256U

bool gsp_native__sleb(struct gsp_cursor *cur, int64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; cur->p < cur->end && shift < 64; shift += 7) {
        unsigned char byte = *cur->p++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if ((byte & 0x40) && shift + 7 < 64)
            v |= UINT64_MAX << (shift + 7);
        *out = (int64_t)v;
        return true;
    }
    return false;
}

bool gsp_native__fixed(struct gsp_cursor *cur, size_t len, uint64_t *out)
{
    if ((size_t)(cur->end - cur->p) < len)
        return false;
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++)
        v |= (uint64_t)cur->p[i] << (8 * i);
    cur->p += len;
    *out = v;
    return true;
}

static bool sign_extended(struct gsp_cursor *cur, size_t len, uint64_t *out)
{
    uint64_t v;
    if (!gsp_native__fixed(cur, len, &v))
        return false;
    uint64_t sign = 1ULL << (8 * len - 1);
    *out = (v ^ sign) - sign;
    return true;
}

static bool read_format(struct gsp_cursor *cur, unsigned format, uint64_t *out)
{
    switch (format) {
    case PE_ULEB:
        return gsp_cursor_varint(cur, out);
    case PE_SLEB: {
        int64_t v;
        if (!gsp_native__sleb(cur, &v))
            return false;
        *out = (uint64_t)v;
        return true;
    }
    case PE_U2:
        return gsp_native__fixed(cur, 2, out);
    case PE_S2:
        return sign_extended(cur, 2, out);
    case PE_U4:
        return gsp_native__fixed(cur, 4, out);
    case PE_S4:
        return sign_extended(cur, 4, out);
    case 0:
    case PE_U8:
    case PE_S8:
        return gsp_native__fixed(cur, 8, out);
    default:
        return false;
    }
}

bool gsp_native__pointer(const struct gsp_cfi_input *in, struct gsp_cursor *cur, uint8_t encoding,
                         uint64_t *out)
{
    uint64_t here = in->addr + (uint64_t)(cur->p - in->bytes);
    uint64_t v;
    if (encoding == PE_OMIT || !read_format(cur, encoding & 0x0fU, &v))
        return false;
    if ((encoding & 0x70U) == PE_PCREL)
        v += here;
    *out = v;
    return (encoding & 0x70U) == 0 || (encoding & 0x70U) == PE_PCREL;
}

/* Reads the data that the augmentation string "zPLR…" describes. Returns false if it is unknown. */
static bool read_augmentation(const char *text, struct gsp_cursor *cur, struct gsp_cfi_cie *cie)
{
    if (text[0] == '\0')
        return true;
    uint64_t len;
    if (text[0] != 'z' || !gsp_cursor_varint(cur, &len) || len > (uint64_t)(cur->end - cur->p))
        return false;
    cie->has_augmentation = true;
    struct gsp_cursor data = {cur->p, cur->p + len};
    cur->p += len;
    for (const char *c = text + 1; *c; c++) {
        uint64_t v;
        if (*c == 'S') {
            cie->is_signal = true;
        } else if (*c == 'R' || *c == 'L') {
            if (!gsp_native__fixed(&data, 1, &v))
                return false;
            if (*c == 'R')
                cie->encoding = (uint8_t)v;
        } else if (*c == 'P') {
            uint64_t encoding;
            if (!gsp_native__fixed(&data, 1, &encoding) ||
                !read_format(&data, (unsigned)encoding & 0x0fU, &v))
                return false;
        } else if (*c != 'B' && *c != 'G') {
            return false;
        }
    }
    return true;
}

/* Finds the body of an entry and reads its id. Returns false at the end of the section. */
static bool open_entry(const struct gsp_cfi_input *in, size_t at, struct gsp_cursor *body,
                       uint64_t *id)
{
    if (at >= in->len)
        return false;
    struct gsp_cursor cur = {in->bytes + at, in->bytes + in->len};
    uint64_t len;
    if (!gsp_native__fixed(&cur, 4, &len))
        return false;
    if (len == 0xffffffffU && !gsp_native__fixed(&cur, 8, &len))
        return false;
    if (len < 4 || len > (uint64_t)(cur.end - cur.p))
        return false;
    cur.end = cur.p + len;
    *body = cur;
    return gsp_native__fixed(body, 4, id);
}

static bool read_cie(const struct gsp_cfi_input *in, size_t at, struct gsp_cfi_cie *cie)
{
    struct gsp_cursor cur;
    uint64_t v;
    *cie = (struct gsp_cfi_cie){.at = at};
    if (!open_entry(in, at, &cur, &v) || v != 0 || !gsp_native__fixed(&cur, 1, &v))
        return false;
    uint64_t version = v;
    const unsigned char *nul = memchr(cur.p, 0, (size_t)(cur.end - cur.p));
    if ((version != 1 && version != 3 && version != 4) || !nul)
        return false;
    const char *text = (const char *)cur.p;
    cur.p = nul + 1;
    if (version == 4 && !gsp_native__fixed(&cur, 2, &v))
        return false;
    if (!gsp_cursor_varint(&cur, &cie->code_align) || !gsp_native__sleb(&cur, &cie->data_align))
        return false;
    if (version == 1 ? !gsp_native__fixed(&cur, 1, &cie->ra) : !gsp_cursor_varint(&cur, &cie->ra))
        return false;
    if (!read_augmentation(text, &cur, cie))
        return false;
    cie->program = cur;
    return (size_t)(cur.end - cur.p) <= PROGRAM_MAX && cie->code_align <= 16 &&
           cie->data_align >= -64 && cie->data_align <= 64;
}

static bool load_cie(struct gsp_cfi_walk *walk, size_t at)
{
    if (walk->has_cie && walk->cie.at == at)
        return true;
    walk->has_cie = read_cie(walk->in, at, &walk->cie);
    return walk->has_cie;
}

bool gsp_native__fde_at(struct gsp_cfi_walk *walk, size_t at, struct gsp_cfi_fde *out)
{
    const struct gsp_cfi_input *in = walk->in;
    struct gsp_cursor cur;
    uint64_t back;
    if (!open_entry(in, at, &cur, &back) || back == 0)
        return false;
    uint64_t field = (uint64_t)(cur.p - in->bytes) - 4;
    if (back > field || !load_cie(walk, (size_t)(field - back)))
        return false;
    out->at = at;
    out->cie_at = walk->cie.at;
    if (!gsp_native__pointer(in, &cur, walk->cie.encoding, &out->start) ||
        !read_format(&cur, walk->cie.encoding & 0x0fU, &out->len))
        return false;
    if (walk->cie.has_augmentation) {
        uint64_t skip;
        if (!gsp_cursor_varint(&cur, &skip) || skip > (uint64_t)(cur.end - cur.p))
            return false;
        cur.p += skip;
    }
    out->program = cur;
    return out->len > 0 && out->start + out->len > out->start;
}

bool gsp_native__fde_next(struct gsp_cfi_walk *walk, struct gsp_cfi_fde *out)
{
    for (;;) {
        size_t at = walk->at;
        struct gsp_cursor body;
        uint64_t id;
        if (!open_entry(walk->in, at, &body, &id))
            return false;
        walk->at = (size_t)(body.end - walk->in->bytes);
        if (id != 0 && gsp_native__fde_at(walk, at, out))
            return true;
    }
}
