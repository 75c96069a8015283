/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prologue.h -- decodes how much stack a function without unwind rules has used.
 *
 * Reads:   x86-64 instructions from the start of a function to the first jump; no other machines.
 * Gives:   the location of the return address.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "native/cfi.h"

/* Register numbers in instructions. */
#define GSP_PROLOGUE_SP 4U
#define GSP_PROLOGUE_FP 5U

struct gsp_prologue {
    bool is_known;
    uint8_t base;   /* a register */
    uint64_t bytes; /* from the address in that register to the return address */
};

/* Decodes the first code_len bytes of the function. */
struct gsp_prologue gsp_native__prologue_decode(const struct gsp_cfi_arch *arch,
                                                const unsigned char *code, size_t code_len);
