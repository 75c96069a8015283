/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h -- the table of functions of one module of this process: which slots the linker bound, to
 * what names, and how one is changed while others call through it.
 *
 * Reads:   the module's dynamic section, as the linker laid it out in memory.
 * Used by: agent/ (allocators), pyext/ (BLAS).
 * Threads: no state; of the writers of one slot the last wins.
 * Signal-safe: yes.
 * Allocates: never.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Relocations that leave the address of a function in a slot: of a call, of a pointer that only
 * the linker writes, and of one among the module's data. */
#if defined(__x86_64__)
#define GSP_SLOT_CALL    R_X86_64_JUMP_SLOT
#define GSP_SLOT_POINTER R_X86_64_GLOB_DAT
#define GSP_SLOT_WORD    R_X86_64_64
#else
#define GSP_SLOT_CALL    R_AARCH64_JUMP_SLOT
#define GSP_SLOT_POINTER R_AARCH64_GLOB_DAT
#define GSP_SLOT_WORD    R_AARCH64_ABS64
#endif

struct gsp_slots {
    uintptr_t base;
    uintptr_t start; /* of the module's memory */
    uintptr_t end;
    uintptr_t relro_start; /* what is read-only since it was loaded */
    uintptr_t relro_end;
    const ElfW(Rela) * tables[2]; /* of calls, of data; NULL: none */
    size_t counts[2];
    const ElfW(Sym) * symbols;
    const char *strings;
};

/* False: it has no names. */
bool gsp_slots_read(const struct dl_phdr_info *info, struct gsp_slots *out);

/* The name of the function that a slot is for; the relocation must have a symbol. */
const char *gsp_slots_name(const struct gsp_slots *slots, const ElfW(Rela) * rela);

static inline bool gsp_slots_hold(const struct gsp_slots *slots, uintptr_t address)
{
    return address >= slots->start && address < slots->end;
}

/* One word, aligned: who calls through it meets the old or the new.  Read-only pages are written
 * through mem_fd (/proc/self/mem; -1: by making them writable for a moment), so that nobody finds
 * them writable, or read-only too soon. */
bool gsp_slots_write(const struct gsp_slots *slots, uintptr_t slot, uintptr_t value, int mem_fd);
