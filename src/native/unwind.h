/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind.h -- unwinds native stacks of a process from registers and a copy of the stack.
 *
 * Reads:   the files that the process has mapped (.eh_frame, symbols and debug information), and
 *          its memory for images without a file. Unwinding itself uses only the copy of the stack.
 * Gives:   frames; for an address: function, file, line, inlined calls.
 * Threads: one owner; a store and everything opened in it belong to the same thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/maps.h"
#include "proc/mem.h"

struct gsp_native;       /* the unwinder of one process: its modules */
struct gsp_native_store; /* tables and symbols of files, shared by many processes */

#define GSP_NATIVE_NO_MODULE   UINT32_MAX
#define GSP_NATIVE_INLINED_MAX 16U
#define GSP_NATIVE_RANGES_MAX  16U

struct gsp_regs {
    uint64_t pc; /* rip | pc */
    uint64_t sp; /* rsp | sp */
    uint64_t fp; /* rbp | x29 */
    uint64_t lr; /* aarch64: x30; else 0 */
    /* Callee-saved: rbx r12 r13 r14 r15, or 0 if they were not copied. Some assembly code saves its
     * stack pointer in one of them. */
    uint64_t kept[5];
};

/* The registers and stack of a thread at one time. */
struct gsp_native_copy {
    struct gsp_regs regs;
    const void *stack; /* from regs.sp upwards; borrowed for the call */
    size_t stack_len;  /* bytes */
};

struct gsp_native_frame {
    uint64_t pc;     /* for callers: the return address - 1, which is inside the call */
    uint64_t sp;     /* start of its stack */
    uint32_t module; /* GSP_NATIVE_NO_MODULE: in no file */
    bool bridged;    /* found by a search of the stack, not by the rules of its callee */
};

enum gsp_native_end {
    GSP_NATIVE_REACHED_ENTRY, /* the first function of the thread: the stack is complete */
    GSP_NATIVE_NO_RULE,       /* no rule for the last frame */
    GSP_NATIVE_OUT_OF_STACK,  /* the copy is too short */
    GSP_NATIVE_LOOP,          /* a frame does not use stack: the stack is corrupt */
    GSP_NATIVE_LIMIT,         /* the array of frames is full */
};

/* Tables and symbols are expensive, so processes that share files should share a store. The store
 * must outlive everything opened in it. */
GSP_MUST_CHECK int gsp_native_store_new(struct gsp_native_store **out, struct gsp_err *err);
void gsp_native_store_free(struct gsp_native_store *store); /* NULL does nothing */

/* mem is borrowed until gsp_native_close(). Fails with PERM, NOPROC, FORMAT, LIMIT, NOMEM or
 * IO. */
GSP_MUST_CHECK int gsp_native_open(pid_t pid, struct gsp_mem *mem, struct gsp_native **out,
                                   struct gsp_err *err);
/* The same with files from a store, which is borrowed. */
GSP_MUST_CHECK int gsp_native_open_in(struct gsp_native_store *store, pid_t pid,
                                      struct gsp_mem *mem, struct gsp_native **out,
                                      struct gsp_err *err);
/* The same for a process that has ended (a core file): uses this memory map, and opens files by
 * their paths. maps is borrowed until gsp_native_close(). */
GSP_MUST_CHECK int gsp_native_open_maps(struct gsp_native_store *store, const struct gsp_maps *maps,
                                        struct gsp_mem *mem, struct gsp_native **out,
                                        struct gsp_err *err);
void gsp_native_close(struct gsp_native *native); /* NULL does nothing */

/* Reads the memory map again. Module numbers do not change. Fails as gsp_native_open() does. */
GSP_MUST_CHECK int gsp_native_refresh(struct gsp_native *native, struct gsp_err *err);
/* Returns whether an unwind since the last refresh found an address outside the memory map. */
bool gsp_native_is_stale(const struct gsp_native *native);

/* Unwinds a copy; frames[0] is the innermost frame. Returns the number of frames; *end is the
 * reason why there are no more. */
size_t gsp_native_unwind(struct gsp_native *native, const struct gsp_native_copy *copy,
                         struct gsp_native_frame *frames, size_t cap, enum gsp_native_end *end);

/* Opens the files of all modules and reads their unwind indexes, which would otherwise happen when
 * an unwind first reaches them. */
void gsp_native_prepare(struct gsp_native *native);

/* The path of the file that contains pc, valid as long as the store; "" if none. */
const char *gsp_native_path_of(struct gsp_native *native, uint64_t pc);
/* The path of a module; "" if it does not exist. Borrowed until gsp_native_close(). */
const char *gsp_native_module_path(const struct gsp_native *native, uint32_t module);

/* An inlined call. */
struct gsp_native_inline {
    const char *name; /* never NULL */
    const char *file; /* NULL if unknown */
    unsigned line;    /* current line in the inlined function; 0 if unknown */
};

/* An address, symbolized. All strings are borrowed until the store is freed (gsp_native_close() for
 * gsp_native_open()). */
struct gsp_native_symbol {
    const char *name;   /* of the function that was not inlined, demangled; NULL if unknown */
    const char *module; /* path; "" if the address is in no file */
    const char *file;   /* NULL if unknown */
    unsigned line;      /* in that function: of the outermost inlined call; 0 if unknown */
    uint64_t start;     /* of the symbol, an address of the target; 0 if unknown */
    uint64_t size;      /* 0 if unknown */
    size_t inlined_count;
    struct gsp_native_inline inlined[GSP_NATIVE_INLINED_MAX]; /* innermost first */
};

/* Returns whether anything is known about pc, at least its module. */
bool gsp_native_symbol(struct gsp_native *native, uint64_t pc, struct gsp_native_symbol *out);

struct gsp_native_range {
    uint64_t start; /* address in the target */
    uint64_t end;   /* one past the last byte */
};

struct gsp_native_ranges {
    size_t count;
    struct gsp_native_range items[GSP_NATIVE_RANGES_MAX];
};

/* Finds the code of a function, given the mangled name of its symbol. Includes the parts that the
 * compiler split off (.cold, .part): by their symbols, or, if those are stripped, by the jumps that
 * lead to them. Returns false if no module has it. */
bool gsp_native_range(struct gsp_native *native, const char *symbol, struct gsp_native_ranges *out);
