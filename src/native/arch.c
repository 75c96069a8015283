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
    for (size_t i = 0; i < GSP_COUNT(ARCHS); i++)
        if (ARCHS[i].machine == machine)
            return &ARCHS[i];
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

/* FF /2 with operand bytes: the length encoded in its ModRM and SIB bytes must be `len`. */
static bool is_indirect_call(const unsigned char *at, size_t len)
{
    if (at[0] != 0xff || (at[1] >> 3 & 7) != 2)
        return false;
    unsigned mod = at[1] >> 6;
    unsigned rm = at[1] & 7;
    size_t encoded = 2;
    if (mod != 3 && rm == 4)
        encoded++;
    if (mod == 1)
        encoded += 1;
    else if (mod == 2 || (mod == 0 && rm == 5) ||
             (mod == 0 && rm == 4 && len > 2 && (at[2] & 7) == 5))
        encoded += 4;
    return encoded == len;
}

static bool after_call_x86_64(const unsigned char *bytes, size_t len)
{
    if (len >= 5 && bytes[len - 5] == 0xe8)
        return true;
    for (size_t n = 2; n <= 7 && n <= len; n++)
        if (is_indirect_call(bytes + len - n, n))
            return true;
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
    /* blr, and its variants with pointer authentication */
    return (insn & 0xfffffc1fU) == 0xd63f0000U || (insn & 0xfefff800U) == 0xd63f0800U;
}

bool gsp_native__after_call(const struct gsp_cfi_arch *arch, const unsigned char *bytes, size_t len)
{
    return arch->machine == EM_AARCH64 ? after_call_aarch64(bytes, len)
                                       : after_call_x86_64(bytes, len);
}
