/* SPDX-License-Identifier: Apache-2.0 */
#include "native/prologue.h"

#include <elf.h>
#include <string.h>

#define BYTES_MAX (1LL << 24)

/* The parts of an instruction that determine its length and its effect on the stack pointer. */
struct insn {
    size_t len;
    unsigned map; /* 0: one byte, 1: 0f, 2: 0f38, 3: 0f3a */
    unsigned op;
    unsigned rex;
    bool is_vector; /* VEX or EVEX */
    bool is_short;  /* immediates have two bytes */
    bool has_modrm;
    unsigned mod;
    unsigned reg; /* including the REX bit */
    unsigned rm;
    int32_t value; /* the immediate if there is one, else the displacement */
    bool has_sib;
    unsigned char sib;
};

struct reader {
    const unsigned char *p;
    size_t len;
    size_t at;
};

static bool next(struct reader *in, unsigned *out)
{
    if (in->at >= in->len)
        return false;
    *out = in->p[in->at++];
    return true;
}

static bool get_value(struct reader *in, size_t n, int32_t *out)
{
    if (in->len - in->at < n)
        return false;
    int32_t wide;
    int16_t half;
    if (n == 1) {
        *out = in->p[in->at] - (in->p[in->at] & 0x80 ? 0x100 : 0);
    } else if (n == 2) {
        memcpy(&half, in->p + in->at, sizeof(half));
        *out = half;
    } else if (n >= 4) {
        memcpy(&wide, in->p + in->at, sizeof(wide));
        *out = wide;
    }
    in->at += n;
    return true;
}

static bool one_byte_has_modrm(unsigned op)
{
    if (op < 0x40)
        return (op & 7) < 4;
    return op == 0x63 || op == 0x69 || op == 0x6b || (op >= 0x80 && op <= 0x8f) || op == 0xc0 ||
           op == 0xc1 || op == 0xc6 || op == 0xc7 || (op >= 0xd0 && op <= 0xd3) ||
           (op >= 0xd8 && op <= 0xdf) || op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff;
}

static bool two_byte_has_modrm(unsigned op)
{
    return !((op >= 0x05 && op <= 0x0b) || (op >= 0x30 && op <= 0x37) || op == 0x77 ||
             (op >= 0xa0 && op <= 0xa2) || (op >= 0xa8 && op <= 0xaa) ||
             (op >= 0xc8 && op <= 0xcf));
}

static size_t one_byte_immediate(const struct insn *insn)
{
    unsigned op = insn->op;
    size_t wide = insn->is_short ? 2 : 4;
    if (op < 0x40)
        return (op & 7) == 4 ? 1 : (op & 7) == 5 ? wide : 0;
    if (op == 0x68 || op == 0x69 || op == 0x81 || op == 0xa9 || op == 0xc7)
        return wide;
    if (op == 0x6a || op == 0x6b || op == 0x80 || op == 0x83 || op == 0xa8 || op == 0xc0 ||
        op == 0xc1 || op == 0xc6 || (op >= 0xb0 && op <= 0xb7))
        return 1;
    if (op >= 0xb8 && op <= 0xbf)
        return insn->rex & 8 ? 8 : wide;
    if (op >= 0xa0 && op <= 0xa3)
        return 8;
    if ((op == 0xf6 || op == 0xf7) && (insn->reg & 7) < 2)
        return op == 0xf6 ? 1 : wide;
    return 0;
}

static size_t immediate(const struct insn *insn)
{
    unsigned op = insn->op;
    if (insn->map == 0)
        return one_byte_immediate(insn);
    if (insn->map == 3)
        return 1;
    if (insn->map == 2)
        return 0;
    return (op >= 0x70 && op <= 0x73) || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 ||
                   op == 0xc4 || op == 0xc5 || op == 0xc6
               ? 1
               : 0;
}

/* Reads the rest of a VEX (c4, c5) or EVEX (62) prefix and the opcode. */
static bool read_vector_opcode(struct reader *in, unsigned first, struct insn *insn)
{
    unsigned second;
    if (!next(in, &second))
        return false;
    insn->is_vector = true;
    insn->map = 1;
    if (first == 0xc4) {
        insn->map = second & 0x1fU;
        in->at += 1;
    } else if (first == 0x62) {
        insn->map = second & 7U;
        in->at += 2;
    }
    return next(in, &insn->op) && insn->map >= 1 && insn->map <= 3;
}

/* Reads an optional REX prefix and the opcode. 0f, 0f 38 and 0f 3a select other maps. */
static bool read_plain_opcode(struct reader *in, unsigned byte, struct insn *insn)
{
    if ((byte & 0xf0U) == 0x40) {
        insn->rex = byte;
        if (!next(in, &byte))
            return false;
    }
    insn->op = byte;
    if (byte != 0x0f)
        return true;
    insn->map = 1;
    if (!next(in, &insn->op))
        return false;
    if (insn->op != 0x38 && insn->op != 0x3a)
        return true;
    insn->map = insn->op == 0x38 ? 2 : 3;
    return next(in, &insn->op);
}

/* Reads the prefixes and the opcode. */
static bool read_opcode(struct reader *in, struct insn *insn)
{
    unsigned byte;
    do {
        if (!next(in, &byte))
            return false;
        insn->is_short = insn->is_short || byte == 0x66;
    } while (byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x3e);
    if (byte == 0xc5 || byte == 0xc4 || byte == 0x62)
        return read_vector_opcode(in, byte, insn);
    return read_plain_opcode(in, byte, insn);
}

static bool read_modrm(struct reader *in, struct insn *insn)
{
    unsigned byte;
    if (!next(in, &byte))
        return false;
    insn->has_modrm = true;
    insn->mod = byte >> 6;
    insn->reg = (byte >> 3 & 7) | (insn->rex & 4 ? 8 : 0);
    insn->rm = (byte & 7) | (insn->rex & 1 ? 8 : 0);
    if (insn->mod == 3)
        return true;
    size_t displacement = insn->mod == 1 ? 1 : insn->mod == 2 ? 4 : 0;
    if ((byte & 7) == 4) {
        unsigned sib;
        if (!next(in, &sib))
            return false;
        insn->has_sib = true;
        insn->sib = (unsigned char)sib;
        if (insn->mod == 0 && (sib & 7) == 5)
            displacement = 4;
    } else if (insn->mod == 0 && (byte & 7) == 5) {
        displacement = 4;
    }
    return get_value(in, displacement, &insn->value);
}

static bool decode(const unsigned char *code, size_t len, struct insn *insn)
{
    struct reader in = {code, len, 0};
    *insn = (struct insn){0};
    if (!read_opcode(&in, insn))
        return false;
    bool has_modrm = insn->map == 0   ? one_byte_has_modrm(insn->op)
                     : insn->map == 1 ? two_byte_has_modrm(insn->op)
                                      : true;
    if (has_modrm && !read_modrm(&in, insn))
        return false;
    if (!get_value(&in, immediate(insn), &insn->value))
        return false;
    insn->len = in.at;
    return true;
}

/* Returns whether the instruction transfers control or changes the stack in an unsupported way. */
static bool ends_prologue(const struct insn *insn)
{
    unsigned op = insn->op;
    if (insn->is_vector || insn->map > 1)
        return false;
    if (insn->map == 1)
        return (op & 0xf0U) == 0x80 || op == 0x05 || op == 0x0b;
    return (op & 0xf0U) == 0x70 || (op >= 0xe0 && op <= 0xeb) || op == 0xc2 || op == 0xc3 ||
           (op >= 0xc8 && op <= 0xcf) || (op == 0xff && (insn->reg & 7) >= 2) || op == 0x9c ||
           op == 0x9d || op == 0x68 || op == 0x6a || op == 0x8f;
}

/* The effect of an instruction on the stack pointer. */
struct effect {
    int64_t grown; /* bytes of stack that it allocates; negative: frees */
    bool aligns;
    bool loses; /* the stack pointer gets an unknown value */
    bool saves; /* it is copied to a register */
    uint8_t to;
};

static bool writes_sp(const struct insn *insn)
{
    return insn->has_modrm && insn->mod == 3 && insn->rm == GSP_PROLOGUE_SP;
}

/* add, and, sub with an immediate. */
static void arithmetic(const struct insn *insn, struct effect *out)
{
    switch (insn->reg & 7) {
    case 0:
        out->grown = -(int64_t)insn->value;
        break;
    case 4:
        out->aligns = true;
        break;
    case 5:
        out->grown = insn->value;
        break;
    case 7: /* cmp */
        break;
    default:
        out->loses = true;
        break;
    }
}

static struct effect effect_of(const struct insn *insn)
{
    struct effect out = {0};
    unsigned op = insn->op;
    if (insn->is_vector || insn->map != 0)
        return out;
    if (op >= 0x50 && op <= 0x57) {
        out.grown = 8;
    } else if (op >= 0x58 && op <= 0x5f) {
        out.grown = -8;
        out.loses = op == 0x5c && !(insn->rex & 1);
    } else if ((op == 0x81 || op == 0x83) && writes_sp(insn)) {
        arithmetic(insn, &out);
    } else if (op == 0x89 && insn->mod == 3 && insn->reg == GSP_PROLOGUE_SP) {
        out.saves = true;
        out.to = (uint8_t)insn->rm;
    } else if (op == 0x8b && writes_sp(insn)) {
        out.saves = true;
        out.to = (uint8_t)insn->reg;
    } else if (op == 0x8d && insn->reg == GSP_PROLOGUE_SP) {
        /* lea n(%rsp), %rsp */
        out.loses = !insn->has_sib || insn->sib != 0x24 || insn->mod == 0 || (insn->rex & 1);
        out.grown = -(int64_t)insn->value;
    } else if ((op == 0x8b && insn->reg == GSP_PROLOGUE_SP) ||
               ((op & 0xc7U) == 0x01 && op < 0x40 && writes_sp(insn) && op != 0x39) ||
               (op == 0x89 && writes_sp(insn)) || (op == 0xc7 && writes_sp(insn))) {
        out.loses = true;
    }
    return out;
}

/* rbx, rbp, r12 to r15. */
static bool is_callee_saved(uint8_t reg)
{
    return reg == 3 || reg == 5 || (reg >= 12 && reg <= 15);
}

struct gsp_prologue gsp_native__prologue_decode(const struct gsp_cfi_arch *arch,
                                                const unsigned char *code, size_t code_len)
{
    int64_t used = 0;
    struct gsp_prologue saved = {0};
    bool is_aligned = false;
    size_t at = 0;
    while (arch->machine == EM_X86_64 && at < code_len) {
        struct insn insn;
        if (!decode(code + at, code_len - at, &insn) || ends_prologue(&insn))
            break;
        struct effect effect = effect_of(&insn);
        if (effect.saves && is_callee_saved(effect.to) && !is_aligned)
            saved = (struct gsp_prologue){true, effect.to, (uint64_t)used};
        used += effect.grown;
        is_aligned = is_aligned || effect.aligns;
        if (effect.loses || used < 0 || used > BYTES_MAX)
            return (struct gsp_prologue){0};
        at += insn.len;
    }
    if (is_aligned)
        return saved;
    return (struct gsp_prologue){arch->machine == EM_X86_64, GSP_PROLOGUE_SP, (uint64_t)used};
}
