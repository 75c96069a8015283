/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <string.h>

#include "native/cfi.h"

/* Register numbers: System V ABI for x86-64, figure 3.36; DWARF for the Arm 64-bit
 * Architecture, table 4.1. */
static const struct gsp_cfi_arch ARCHS[] = {
    {.machine = EM_X86_64, .sp = 7, .fp = 6, .ra = 16, .ra_in_register = false},
    {.machine = EM_AARCH64, .sp = 31, .fp = 29, .ra = 30, .ra_in_register = true},
};

const struct gsp_cfi_arch *gsp_native__arch(uint16_t machine)
{
    for (size_t i = 0; i < GSP_COUNT(ARCHS); i++) {
        if (ARCHS[i].machine == machine)
            return &ARCHS[i];
    }
    return NULL;
}

const struct gsp_cfi_arch *gsp_native__arch_own(void)
{
#if defined(__aarch64__)
    return &ARCHS[1];
#else
    return &ARCHS[0];
#endif
}

/* FF /2 with the operand's bytes: the length that its ModRM byte (and SIB) asks for must be what
 * lies there. */
static bool is_indirect_call(const unsigned char *at, size_t len)
{
    if (at[0] != 0xff || (at[1] >> 3 & 7) != 2)
        return false;
    unsigned mod = at[1] >> 6;
    unsigned rm = at[1] & 7;
    size_t want = 2;
    if (mod != 3 && rm == 4)
        want++;
    if (mod == 1)
        want += 1;
    else if (mod == 2 || (mod == 0 && rm == 5) ||
             (mod == 0 && rm == 4 && len > 2 && (at[2] & 7) == 5))
        want += 4;
    return want == len;
}

static bool after_call_x86_64(const unsigned char *bytes, size_t len)
{
    if (len >= 5 && bytes[len - 5] == 0xe8)
        return true;
    for (size_t n = 2; n <= 7 && n <= len; n++) {
        if (is_indirect_call(bytes + len - n, n))
            return true;
    }
    return false;
}

static bool after_call_aarch64(const unsigned char *bytes, size_t len)
{
    if (len < 4)
        return false;
    uint32_t insn;
    memcpy(&insn, bytes + len - 4, sizeof(insn));
    if ((insn & 0xfc000000U) == 0x94000000U) /* bl */
        return true;
    /* blr, and its forms that authenticate the pointer */
    return (insn & 0xfffffc1fU) == 0xd63f0000U || (insn & 0xfefff800U) == 0xd63f0800U;
}

bool gsp_native__after_call(const struct gsp_cfi_arch *arch, const unsigned char *bytes, size_t len)
{
    return arch->machine == EM_AARCH64 ? after_call_aarch64(bytes, len)
                                       : after_call_x86_64(bytes, len);
}

/* The length of one instruction of a prologue and what it takes of the stack; 0: another one. */
static size_t prologue_insn(const unsigned char *code, size_t len, uint64_t *taken)
{
    *taken = 0;
    if (len >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0) /* endbr64 */
        return 4;
    if ((code[0] & 0xf8U) == 0x50) { /* push */
        *taken = 8;
        return 1;
    }
    if (len >= 2 && code[0] == 0x41 && (code[1] & 0xf8U) == 0x50) {
        *taken = 8;
        return 2;
    }
    if (len >= 4 && memcmp(code, "\x48\x83\xec", 3) == 0) { /* sub, one byte */
        *taken = code[3] < 0x80 ? code[3] : 0;
        return 4;
    }
    if (len >= 7 && memcmp(code, "\x48\x81\xec", 3) == 0) { /* sub, four bytes */
        uint32_t bytes;
        memcpy(&bytes, code + 3, sizeof(bytes));
        *taken = bytes < (1U << 24) ? bytes : 0;
        return 7;
    }
    /* mov between registers, unless it is the stack pointer that is written */
    if (len >= 3 && (code[0] & 0xf8U) == 0x48 && code[1] == 0x89 && code[2] >= 0xc0)
        return (code[2] & 7) == 4 && !(code[0] & 1) ? 0 : 3;
    return 0;
}

uint64_t gsp_native__prologue(const struct gsp_cfi_arch *arch, const unsigned char *code,
                              size_t code_len)
{
    uint64_t sum = 0;
    size_t at = 0;
    while (arch->machine == EM_X86_64 && at < code_len) {
        uint64_t taken;
        size_t len = prologue_insn(code + at, code_len - at, &taken);
        if (len == 0)
            break;
        at += len;
        sum += taken;
    }
    return sum;
}
