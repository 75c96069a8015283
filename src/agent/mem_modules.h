/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_modules.h -- the modules (libraries) of this process: installs hooks in their GOTs, and finds
 * the module of an address.
 *
 * A slot is changed only if it holds the same function that this library calls. So a module that
 * deliberately uses another allocator keeps it, and one that is being loaded is left for the next
 * scan. Changed slots are not remembered: removal searches for the hooks.
 *
 * Reads:   the modules' dynamic sections in memory.
 * Threads: one scans at a time; others skip the scan.
 * Signal-safe: no.
 * Allocates: never.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gsp_agent__hook {
    const char *name; /* of the function */
    uintptr_t hook;   /* the replacement */
    bool is_mapping;  /* mmap and similar: not hooked in modules of allocators */
    uintptr_t real;   /* filled in: the function that this library calls by that name; 0: none */
};

/* Installs the hooks in all modules. python is an address in the interpreter; 0: none. The hooks
 * belong to the caller and must not change until gsp_agent__modules_unhook(). */
bool gsp_agent__modules_hook(struct gsp_agent__hook *hooks, size_t count, uintptr_t python);
void gsp_agent__modules_unhook(void);
/* Hooks modules that were loaded since. If there are none, it costs one dl_iterate_phdr(). */
void gsp_agent__modules_scan(void);

/* Call before fork: keeps other threads from scanning. Returns false after a second. */
bool gsp_agent__modules_hold(void);
void gsp_agent__modules_release(void);
/* Call in a child after fork. */
void gsp_agent__modules_reset(void);
/* Whether this process was forked. If another thread of the parent held the linker's lock during
 * the fork, nothing releases it in the child. So a child scans only after a dlopen() of the
 * program, which takes the same lock. */
bool gsp_agent__modules_is_forked(void);

/* Returns the frame, in the tables of this generation, of the library that contains the code
 * address; 0 if it is unknown. The caller holds the engine's lock. */
uint32_t gsp_agent__module_frame(const void *code, uint32_t generation);
