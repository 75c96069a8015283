/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi.h -- the rules of .eh_frame as a sorted table with eight bytes a row.
 *
 * Reads:   the bytes of a .eh_frame section, which may be anything.
 * Gives:   for an address of the file, how to find its caller's frame.
 * Used by: the unwinder of this folder; fuzzers.
 * Threads: a table never changes once made.
 *
 * What a row can say covers what compilers emit for x86-64 and aarch64: the frame address (CFA)
 * is the stack or the frame pointer plus a constant, or a word behind the frame pointer; the
 * saved frame pointer and return address lie at a constant distance below it.  Everything else
 * becomes "no rule".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* What differs between machines. */
struct gsp_cfi_arch {
    uint16_t machine; /* EM_* */
    uint8_t sp;       /* numbers of the registers in DWARF */
    uint8_t fp;
    uint8_t ra;
    bool ra_in_register; /* a call leaves the return address in a register, not on the stack */
};

/* The machine of an ELF file; NULL when it is not known here. */
const struct gsp_cfi_arch *gsp_native__arch(uint16_t machine);
/* That of this program. */
const struct gsp_cfi_arch *gsp_native__arch_own(void);
/* Does a call end just before the end of these bytes? */
bool gsp_native__after_call(const struct gsp_cfi_arch *arch, const unsigned char *bytes,
                            size_t len);

enum gsp_cfi_kind {
    GSP_CFI_NONE,     /* no rule */
    GSP_CFI_SP,       /* CFA = sp + offset */
    GSP_CFI_FP,       /* CFA = fp + offset */
    GSP_CFI_FP_DEREF, /* CFA = *(fp + offset): a frame whose stack was aligned anew */
    GSP_CFI_PLT,      /* CFA = sp + 8, or 16 from the offset-th byte of the 16-byte entry on */
    GSP_CFI_SIGNAL,   /* the kernel put the registers there */
    GSP_CFI_END,      /* the thread's first function */
};

#define GSP_CFI_WORD      8 /* offsets count words */
#define GSP_CFI_FP_SAME   0U
#define GSP_CFI_FP_AT_FP  1023U /* the saved frame pointer is where the frame pointer points */
#define GSP_CFI_RA_IN_LR  0U
#define GSP_CFI_RA_ABOVE  1U         /* in the word above the saved frame pointer */
#define GSP_CFI_RA_AT(k)  ((k) + 1U) /* k words below the CFA, 1 <= k <= 14 */
#define GSP_CFI_RA_AT_MAX 14U

/* A rule, packed: kind 3 bits, offset 15 (signed, words), fp 10 (0 same, k: k words below the
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
    uint32_t pc; /* minus the table's base: where the rule begins; it holds until the next row */
    gsp_cfi_rule rule;
};

struct gsp_cfi_table {
    uint64_t base; /* address of the file */
    size_t count;
    struct gsp_cfi_row *rows; /* owned; ascending */
};

/* A .eh_frame section and where it is loaded (an address of the file). */
struct gsp_cfi_input {
    const struct gsp_cfi_arch *arch;
    const unsigned char *bytes;
    size_t len;
    uint64_t addr;
};

/* Bad entries are skipped: their addresses have no rule.  *out is freed by
 * gsp_native__cfi_free().  Fails with NOMEM or LIMIT. */
GSP_MUST_CHECK int gsp_native__cfi_build(const struct gsp_cfi_input *in, struct gsp_cfi_table *out,
                                         struct gsp_err *err);
void gsp_native__cfi_free(struct gsp_cfi_table *table); /* leaves {0} */

/* The rule of an address of the file. */
gsp_cfi_rule gsp_native__cfi_find(const struct gsp_cfi_table *table, uint64_t addr);

/* The entries (functions and parts of functions) themselves. */
struct gsp_cfi_span {
    uint64_t start;
    uint64_t len;
};

/* The entry that holds addr; false if there is none.  Reads the section from its front. */
bool gsp_native__cfi_span(const struct gsp_cfi_input *in, uint64_t addr, struct gsp_cfi_span *out);
