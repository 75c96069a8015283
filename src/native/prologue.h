/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prologue.h -- what a function without unwind rules has done to its stack, read from its code.
 *
 * Reads:   instructions of x86-64 from the beginning of a function to the first jump; of other
 *          machines nothing.
 * Gives:   where the return address is.
 * Used by: unwind.c, for hand-written assembly.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "native/cfi.h"

/* Registers by their number in instructions. */
#define GSP_PROLOGUE_SP 4U
#define GSP_PROLOGUE_FP 5U

struct gsp_prologue {
    bool is_known;
    uint8_t base;   /* the register that the distance is from */
    uint64_t bytes; /* from there to the return address */
};

/* After the first code_len bytes of the function. */
struct gsp_prologue gsp_native__prologue(const struct gsp_cfi_arch *arch, const unsigned char *code,
                                         size_t code_len);
