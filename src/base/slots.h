/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h -- the relocation slots (GOT entries) of one module of this process: their names, and
 * how to change one while other threads call through it.
 *
 * Reads:   the module's dynamic section in memory.
 * Threads: no state. If several threads write one slot, the last write wins.
 * Signal-safe: yes.
 * Allocates: never.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Relocation types that store the address of a function in a slot: for calls, for pointers in the
 * GOT, and for pointers in the module's data. */
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
    uintptr_t relro_start; /* range that is read-only after relocation */
    uintptr_t relro_end;
    const ElfW(Rela) * tables[2]; /* for calls and for data; may be NULL */
    size_t counts[2];
    const ElfW(Sym) * symbols;
    const char *strings;
};

/* Returns false if the module has no symbol names. */
bool gsp_slots_read(const struct dl_phdr_info *info, struct gsp_slots *out);

/* Returns the name of the function that a slot refers to. The relocation must have a symbol. */
const char *gsp_slots_name(const struct gsp_slots *slots, const ElfW(Rela) * rela);

static inline bool gsp_slots_hold(const struct gsp_slots *slots, uintptr_t address)
{
    return address >= slots->start && address < slots->end;
}

/* Writes one aligned word: concurrent callers see the old or the new function. Writes read-only
 * pages through mem_fd (/proc/self/mem), which leaves their protection unchanged for other threads.
 * If mem_fd is -1, makes the pages writable for a moment. Returns false on failure. */
bool gsp_slots_write(const struct gsp_slots *slots, uintptr_t slot, uintptr_t value, int mem_fd);
