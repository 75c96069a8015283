/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_modules.h -- the libraries of this process: hooks in their tables of functions, and which of
 * them an address belongs to.
 *
 * A slot is changed only if it holds the very function that this library calls too, so a module
 * that was given another allocator on purpose keeps it, and one that is just being loaded is left
 * for the next look.  Nothing is remembered of slots: taking back is looking for our own hooks.
 *
 * Reads:   the modules' dynamic sections, as the linker laid them out in memory.
 * Used by: memory.c (put in, take back), mem_hook.c (modules that came later), mem_count.c (names).
 * Threads: one looks at a time; others go on without.
 * Signal-safe: no.
 * Allocates: never.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gsp_agent__hook {
    const char *name; /* of the function */
    uintptr_t hook;   /* what is called instead */
    bool is_mapping;  /* mmap and the like: not counted where an allocator asks for its own */
    uintptr_t real;   /* filled in: what this library calls by that name; 0: it does not */
};

/* Puts the hooks in, everywhere; python is an address within the interpreter, 0: none.  hooks
 * stay the caller's and must not change until gsp_agent__modules_unhook(). */
bool gsp_agent__modules_hook(struct gsp_agent__hook *hooks, size_t count, uintptr_t python);
void gsp_agent__modules_unhook(void);
/* Hooks modules that have come since.  Cheap when there are none: one call of the linker. */
void gsp_agent__modules_look(void);

/* Before fork: keeps other threads from looking.  False after a second. */
bool gsp_agent__modules_hold(void);
void gsp_agent__modules_release(void);
/* In a child after fork. */
void gsp_agent__modules_forget(void);
/* Whether this process was forked.  The parent may have forked while another of its threads held
 * the linker's lock, which nothing releases in the child.  So a child looks only after a dlopen()
 * of the program: that takes the same lock. */
bool gsp_agent__modules_are_childs(void);

/* The frame of the library that an address of code lies in, in the tables of this generation; 0
 * when not known.  The caller holds the engine's lock. */
uint32_t gsp_agent__module_frame(const void *code, uint32_t generation);
