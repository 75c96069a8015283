/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind.h -- native stacks of a process, from registers and a copy of its stack.
 *
 * Reads:   the files that the process has mapped (their .eh_frame, symbols and debug
 *          information), and its memory for images that have no file.  While a stack is
 *          unwound nothing is read from the target but what was copied before.
 * Gives:   frames, and what is known of an address: function, file, line, inlined calls.
 * Used by: sample/ for mixed stacks.
 * Threads: one owner; a store and all that was opened in it belong to the same thread.
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
    /* rbx r12 r13 r14 r15, or 0 when they were not copied: some assembly keeps its old stack
     * pointer there. */
    uint64_t kept[5];
};

/* A moment of a thread. */
struct gsp_native_copy {
    struct gsp_regs regs;
    const void *stack; /* borrowed for the call: what lies from regs.sp upwards */
    size_t stack_len;  /* bytes */
};

struct gsp_native_frame {
    uint64_t pc;     /* for callers: the return address - 1, so that it lies in the call */
    uint64_t sp;     /* its stack begins there; that of its caller where it ends */
    uint32_t module; /* GSP_NATIVE_NO_MODULE: in no file */
    bool bridged;    /* found by searching the stack, not by the rules of its callee */
};

enum gsp_native_end {
    GSP_NATIVE_REACHED_ENTRY, /* the first function of the thread: the stack is whole */
    GSP_NATIVE_NO_RULE,       /* nobody knows how to go on from the last frame */
    GSP_NATIVE_OUT_OF_STACK,  /* the copy is too short */
    GSP_NATIVE_LOOP,          /* the stack does not grow: it is damaged */
    GSP_NATIVE_LIMIT,         /* no room for more frames */
};

/* Tables and symbols are expensive: processes that share files should share a store.
 * It must outlive what was opened in it. */
GSP_MUST_CHECK int gsp_native_store_new(struct gsp_native_store **out, struct gsp_err *err);
void gsp_native_store_free(struct gsp_native_store *store); /* NULL does nothing */

/* mem is borrowed until gsp_native_close().  Fails with PERM, NOPROC, FORMAT, LIMIT, NOMEM or
 * IO. */
GSP_MUST_CHECK int gsp_native_open(pid_t pid, struct gsp_mem *mem, struct gsp_native **out,
                                   struct gsp_err *err);
/* The same with files from a store, which is borrowed. */
GSP_MUST_CHECK int gsp_native_open_in(struct gsp_native_store *store, pid_t pid,
                                      struct gsp_mem *mem, struct gsp_native **out,
                                      struct gsp_err *err);
/* The same for a process that is no more (a core file): maps says what was where, and files are
 * looked for under their names.  maps is borrowed until gsp_native_close(). */
GSP_MUST_CHECK int gsp_native_open_maps(struct gsp_native_store *store, const struct gsp_maps *maps,
                                        struct gsp_mem *mem, struct gsp_native **out,
                                        struct gsp_err *err);
void gsp_native_close(struct gsp_native *native); /* NULL does nothing */

/* Reads the maps anew; the numbers of modules stay.  Fails as gsp_native_open() does. */
GSP_MUST_CHECK int gsp_native_refresh(struct gsp_native *native, struct gsp_err *err);
/* True when an unwind since the last refresh met an address that the maps did not have. */
bool gsp_native_is_stale(const struct gsp_native *native);

/* Unwinds a copy: frames[0] is the innermost.  Returns the number of frames; *end says why there
 * are no more. */
size_t gsp_native_unwind(struct gsp_native *native, const struct gsp_native_copy *copy,
                         struct gsp_native_frame *frames, size_t cap, enum gsp_native_end *end);

const char *gsp_native_end_name(enum gsp_native_end end); /* "entry", "no_rule", … */

/* Opens the files of all modules, and reads what every unwind needs of them: what would be done
 * when an address of them is first met. */
void gsp_native_prepare(struct gsp_native *native);

/* The path of the file that has pc, as long as the store lives; "" when there is none. */
const char *gsp_native_path_of(struct gsp_native *native, uint64_t pc);
/* The path of a module; "" when there is none.  Borrowed until gsp_native_close(). */
const char *gsp_native_module_path(const struct gsp_native *native, uint32_t module);

/* A call that the compiler has put in place of the call. */
struct gsp_native_inline {
    const char *name; /* never NULL */
    const char *file; /* NULL when unknown */
    unsigned line;    /* where it was at that moment; 0 when unknown */
};

/* What is known of an address.  All strings are borrowed until the store is freed
 * (gsp_native_close() for gsp_native_open()). */
struct gsp_native_symbol {
    const char *name;   /* of the function that is really there, demangled; NULL when unknown */
    const char *module; /* its path; "" when the address is in no file */
    const char *file;   /* NULL when unknown */
    unsigned line;      /* in that function, so that of the outermost inlined call; 0 unknown */
    uint64_t start;     /* of the symbol, an address of the target; 0 when unknown */
    uint64_t size;      /* 0 when unknown */
    size_t inlined_count;
    struct gsp_native_inline inlined[GSP_NATIVE_INLINED_MAX]; /* innermost first */
};

/* True when anything is known of pc (also if only its module is). */
bool gsp_native_symbol(struct gsp_native *native, uint64_t pc, struct gsp_native_symbol *out);

struct gsp_native_range {
    uint64_t start; /* address in the target */
    uint64_t end;   /* one past the last byte */
};

struct gsp_native_ranges {
    size_t count;
    struct gsp_native_range items[GSP_NATIVE_RANGES_MAX];
};

/* Where a function lies (its symbol's name as in the file), with the parts that the compiler has
 * put elsewhere (.cold, .part): by their symbols, or, when those are stripped, by the jumps that
 * lead there.  False when no module has it. */
bool gsp_native_range(struct gsp_native *native, const char *symbol, struct gsp_native_ranges *out);
