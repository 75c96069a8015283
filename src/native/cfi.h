/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi.h -- the rules of .eh_frame as a sorted table of eight bytes per row.
 *
 * Reads:   the untrusted bytes of a .eh_frame section.
 * Gives:   for an address of the file, how to find its caller's frame.
 * Threads: a table is immutable.
 *
 * A row can express the rules that compilers emit for x86-64 and aarch64: the frame address (CFA)
 * is the stack or frame pointer plus a constant, or a word at a constant offset from the frame
 * pointer; the saved frame pointer and return address are at a constant distance below it.
 * Everything else becomes "no rule".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* Properties of a machine. */
struct gsp_cfi_arch {
    uint16_t machine; /* EM_* */
    uint8_t sp;       /* DWARF register numbers */
    uint8_t fp;
    uint8_t ra;
    bool ra_in_register; /* a call stores the return address in a register, not on the stack */
};

/* The machine of an ELF file; NULL if it is not supported. */
const struct gsp_cfi_arch *gsp_native__arch(uint16_t machine);
/* The machine of this program. */
const struct gsp_cfi_arch *gsp_native__arch_own(void);
/* Returns whether the last instruction of these bytes is a call. */
bool gsp_native__after_call(const struct gsp_cfi_arch *arch, const unsigned char *bytes,
                            size_t len);

enum gsp_cfi_kind {
    GSP_CFI_NONE,     /* no rule */
    GSP_CFI_SP,       /* CFA = sp + offset */
    GSP_CFI_FP,       /* CFA = fp + offset */
    GSP_CFI_FP_DEREF, /* CFA = *(fp + offset): a function that realigned its stack */
    GSP_CFI_PLT,      /* CFA = sp + 8, or sp + 16 from byte `offset` of the 16-byte entry on */
    GSP_CFI_SIGNAL,   /* a signal frame, in which the kernel saved the registers */
    GSP_CFI_END,      /* the thread's first function */
};

#define GSP_CFI_WORD      8 /* offsets are in words */
#define GSP_CFI_FP_SAME   0U
#define GSP_CFI_FP_AT_FP  1023U /* the frame pointer points to the saved frame pointer */
#define GSP_CFI_RA_IN_LR  0U
#define GSP_CFI_RA_ABOVE  1U         /* in the word above the saved frame pointer */
#define GSP_CFI_RA_AT(k)  ((k) + 1U) /* k words below the CFA, 1 <= k <= 14 */
#define GSP_CFI_RA_AT_MAX 14U

/* A packed rule: kind 3 bits, offset 15 (signed, words), fp 10 (0: unchanged, k: k words below the
 * CFA), ra 4. */
typedef uint32_t gsp_cfi_rule;

static inline enum gsp_cfi_kind gsp_cfi_kind_of(gsp_cfi_rule rule)
{
    return (enum gsp_cfi_kind)(rule & 7U);
}

static inline int64_t gsp_cfi_offset_of(gsp_cfi_rule rule)
{
    return (int64_t)(((rule >> 3 & 0x7fffU) ^ 0x4000U)) - 0x4000;
}

static inline uint32_t gsp_cfi_fp_of(gsp_cfi_rule rule)
{
    return rule >> 18 & 0x3ffU;
}

static inline uint32_t gsp_cfi_ra_of(gsp_cfi_rule rule)
{
    return rule >> 28;
}

static inline gsp_cfi_rule gsp_cfi_pack(enum gsp_cfi_kind kind, int64_t offset, uint32_t fp,
                                        uint32_t ra)
{
    return (uint32_t)kind | ((uint32_t)offset & 0x7fffU) << 3 | fp << 18 | ra << 28;
}

struct gsp_cfi_row {
    uint32_t pc; /* minus the table's base; the rule is valid from here to the next row */
    gsp_cfi_rule rule;
};

struct gsp_cfi_table {
    uint64_t base; /* address of the file */
    size_t count;
    struct gsp_cfi_row *rows; /* owned; ascending */
};

/* A .eh_frame section and its address in the file. */
struct gsp_cfi_input {
    const struct gsp_cfi_arch *arch;
    const unsigned char *bytes;
    size_t len;
    uint64_t addr;
};

/* Builds the table of a section. Skips malformed entries: their addresses have no rule. The caller
 * frees *out with gsp_native__cfi_free(). Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_native__cfi_build(const struct gsp_cfi_input *in, struct gsp_cfi_table *out,
                                         struct gsp_err *err);
void gsp_native__cfi_free(struct gsp_cfi_table *table); /* leaves {0} */

/* The rule of an address of the file. */
gsp_cfi_rule gsp_native__cfi_find(const struct gsp_cfi_table *table, uint64_t addr);

/* An entry: a function or a part of one. */
struct gsp_cfi_span {
    uint64_t start;
    uint64_t len;
};

/* Finds the entry that contains addr with a linear search of the section. */
bool gsp_native__cfi_span(const struct gsp_cfi_input *in, uint64_t addr, struct gsp_cfi_span *out);
