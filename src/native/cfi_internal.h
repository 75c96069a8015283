/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi_internal.h -- the entries of .eh_frame; cfi_entry.c reads them for cfi.c.
 *
 * Threads: no state.
 */
#pragma once

#include "base/buf.h"
#include "native/cfi.h"

/* Common information entry, shared by many FDEs. */
struct gsp_cfi_cie {
    size_t at; /* offset in the section */
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra;
    uint8_t encoding; /* of the addresses in its FDEs */
    bool has_augmentation;
    bool is_signal;
    struct gsp_cursor program;
};

/* Frame description entry: a function or a part of one. */
struct gsp_cfi_fde {
    size_t at;
    size_t cie_at;
    uint64_t start; /* address of the file */
    uint64_t len;
    struct gsp_cursor program;
};

/* A position in the section and the last CIE. */
struct gsp_cfi_walk {
    const struct gsp_cfi_input *in;
    size_t at;
    bool has_cie;
    struct gsp_cfi_cie cie;
};

bool gsp_native__sleb(struct gsp_cursor *cur, int64_t *out);
bool gsp_native__fixed(struct gsp_cursor *cur, size_t len, uint64_t *out);
/* Reads an address in a DW_EH_PE_* encoding. Returns false for encodings that are not supported. */
bool gsp_native__pointer(const struct gsp_cfi_input *in, struct gsp_cursor *cur, uint8_t encoding,
                         uint64_t *out);

/* Reads the next FDE and skips malformed ones. Returns false at the end. */
bool gsp_native__fde_next(struct gsp_cfi_walk *walk, struct gsp_cfi_fde *out);
/* Reads the FDE at an offset, and its CIE into walk->cie. */
bool gsp_native__fde_at(struct gsp_cfi_walk *walk, size_t at, struct gsp_cfi_fde *out);
