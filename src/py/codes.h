/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes.h -- the code objects of a target, read once, and where in them a frame stands.
 *
 * A location is (code object, instruction): it has a line.  Both are kept by index; indices
 * are good until gsp_py_codes_reset().
 * An address can be reused by another code object.  So what identifies a code object (its
 * names, lines, sizes) is read again and compared: at each of the first sights, then at
 * intervals that grow with its age, many in one system call.
 *
 * Used by: py/walk.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "proc/mem.h"
#include "py/locate.h"

/* No location: the code object could not be read. */
#define GSP_PY_NO_LOC UINT32_MAX

/* What tells two code objects at one address apart. */
struct gsp_py_code_mark {
    gsp_raddr type;
    gsp_raddr name; /* co_name, whose hash is always known: it is interned */
    gsp_raddr qualname;
    gsp_raddr file;
    gsp_raddr table;
    uint64_t name_hash;
    uint32_t first_line;
    uint32_t stack_words;
};

struct gsp_py_code {
    gsp_raddr addr;
    int64_t due_ns;        /* when the mark is to be checked next */
    uint64_t sights;       /* for the user: reads of stacks in which it was */
    bool is_live;          /* false: another code object is at addr now */
    gsp_raddr instr_start; /* 3.11+: first instruction in the target */
    uint32_t instr_bytes;
    uint32_t first_line;
    uint32_t locals_count; /* 3.11+: words of localsplus before the value stack */
    uint32_t stack_words;  /* size of the value stack */
    char *name;            /* owned; qualified where the version has it */
    char *file;            /* owned */
    size_t name_len;
    size_t file_len;
    uint8_t *table; /* owned; line table */
    size_t table_len;
    struct gsp_py_code_mark mark;
    int64_t seen_ns; /* first sight */
    uint32_t checks;
};

struct gsp_py_loc {
    uint32_t code; /* index */
    uint32_t line; /* 0 when unknown */
    uint32_t tag;  /* for the user; 0 at first */
    /* 3.11+: the instruction returns or yields.  A frame puts its value stack away there as it does
     * to call, but what lies above it then has ended. */
    bool is_leaving;
    bool is_many;    /* for prove.c: it has several callees */
    uint32_t callee; /* index of the code of one; GSP_PY_NO_LOC none yet */
};

struct gsp_py_codes {
    struct gsp_mem *mem;              /* borrowed */
    const struct gsp_py_runtime *run; /* borrowed */
    struct gsp_py_code *codes;
    size_t code_count;
    size_t code_cap;
    size_t dead_count;
    struct gsp_py_loc *locs;
    size_t loc_count;
    size_t loc_cap;
    struct gsp_hmap by_addr; /* address → code index */
    struct gsp_hmap by_loc;  /* (code index, instruction) → location */
    gsp_raddr init_cleanup;  /* 3.13+: the interpreter's code below an __init__; 0 not seen yet */
    uint64_t resets;
};

void gsp_py_codes_init(struct gsp_py_codes *codes, struct gsp_mem *mem,
                       const struct gsp_py_runtime *run);
void gsp_py_codes_free(struct gsp_py_codes *codes);

/* Forgets everything when much of it is dead; true if it did (all indices are void then). */
bool gsp_py_codes_tidy(struct gsp_py_codes *codes);

/* The code object at addr, read if it is new.  FORMAT if it is not one, FAULT, NOPROC, PERM,
 * NOMEM, LIMIT; TORN for the code below an __init__, which codes->init_cleanup names from then on:
 * its frames are to be passed over. */
GSP_MUST_CHECK int gsp_py_codes_get(struct gsp_py_codes *codes, gsp_raddr addr, int64_t now_ns,
                                    uint32_t *out);

/* The location of a frame in a known code object.
 * instr: the instruction pointer (3.11+) or f_lasti (before).
 * tlbc_index: the thread's bytecode copy (free-threaded 3.14+), else 0.
 * TORN if the instruction is not of this code object. */
GSP_MUST_CHECK int gsp_py_codes_loc(struct gsp_py_codes *codes, uint32_t code, uint64_t instr,
                                    uint32_t tlbc_index, uint32_t *out);

/* Checks those of the given code objects (indices) that are due.  True if all still are what
 * they were; those that are not have become dead, and their addresses are free for new ones. */
bool gsp_py_codes_check(struct gsp_py_codes *codes, const uint32_t *indices, size_t count,
                        int64_t now_ns);

const struct gsp_py_code *gsp_py_codes_at(const struct gsp_py_codes *codes, uint32_t i);
struct gsp_py_loc *gsp_py_codes_loc_at(struct gsp_py_codes *codes, uint32_t loc);
