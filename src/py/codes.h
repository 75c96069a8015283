/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codes.h -- a cache of the code objects of a target and of locations in them.
 *
 * A location is a code object and an instruction; it has a line. Both are referred to by index.
 * Indices are valid until gsp_py__codes_tidy() returns true.
 *
 * An address can be reused by another code object. The members that identify a code object (names,
 * lines, sizes) are therefore read again and compared: at each of the first sightings, then at
 * intervals that grow with its age, many in one system call.
 *
 * The target decides what the cache holds, so its size is limited: code objects with their texts
 * and line tables take 64 MB at most, and a million locations.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/map.h"
#include "proc/mem.h"
#include "py/locate.h"

/* No location: the code object could not be read. */
#define GSP_PY_NO_LOC UINT32_MAX

/* The members that distinguish two code objects at the same address. */
struct gsp_py_code_mark {
    gsp_raddr type;
    gsp_raddr name; /* co_name; it is interned, so its hash is always set */
    gsp_raddr qualname;
    gsp_raddr file;
    gsp_raddr table;
    uint64_t name_hash;
    uint32_t first_line;
    uint32_t stack_words;
};

struct gsp_py_code {
    gsp_raddr addr;
    int64_t due_ns;        /* time of the next check of the mark */
    uint64_t sightings;    /* for gsp_py__edges_verify(): reads of stacks that contained it */
    bool is_live;          /* false: another code object is at addr now */
    gsp_raddr instr_start; /* 3.11+: first instruction in the target */
    uint32_t instr_bytes;
    uint32_t first_line;
    uint32_t locals_count; /* 3.11+: words of localsplus before the value stack */
    uint32_t stack_words;  /* size of the value stack */
    char *name;            /* owned; the qualified name if the version has one */
    char *file;            /* owned */
    size_t name_len;
    size_t file_len;
    uint8_t *table; /* owned; line table; NULL: too large to be kept */
    size_t table_len;
    struct gsp_py_code_mark mark;
    int64_t seen_ns; /* first sighting */
    uint32_t checks;
};

struct gsp_py_loc {
    uint32_t code; /* index */
    uint32_t line; /* 0 if unknown */
    uint32_t tag;  /* for the caller; initially 0 */
    /* 3.11+: the instruction returns or yields. The frame saves its stack pointer there as for a
     * call, but the frame above it has ended. */
    bool is_leaving;
    bool is_many;    /* for gsp_py__edges_verify(): has several callees */
    uint32_t callee; /* index of the code of one callee; GSP_PY_NO_LOC: none yet */
};

/* A copy of a large line table. */
struct gsp_py_table {
    gsp_raddr addr; /* 0: none */
    size_t len;
    uint8_t *bytes; /* owned */
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
    gsp_raddr init_cleanup;  /* 3.13+: the interpreter's code below an __init__; 0: not seen yet */
    size_t bytes;            /* of the code objects, their texts and tables */
    struct gsp_py_table large; /* the one read last in this pass */
    uint32_t large_bytes;      /* of large tables decoded in this pass */
    uint64_t resets;
};

void gsp_py__codes_init(struct gsp_py_codes *codes, struct gsp_mem *mem,
                        const struct gsp_py_runtime *run);
void gsp_py__codes_free(struct gsp_py_codes *codes);

/* Ends a pass. Clears the cache if many of its entries are dead or it is nearly full. Returns true
 * if it did: all indices are invalid then. */
bool gsp_py__codes_tidy(struct gsp_py_codes *codes);

/* Finds the code object at addr, and reads it if it is new. Fails with FORMAT if it is not a code
 * object, FAULT, NOPROC, PERM, NOMEM, LIMIT; with TORN for the code below an __init__, whose
 * address is in codes->init_cleanup from then on: callers skip its frames. */
GSP_MUST_CHECK int gsp_py_codes_get(struct gsp_py_codes *codes, gsp_raddr addr, int64_t now_ns,
                                    uint32_t *out);

/* Finds the location of a frame in a code object.
 * instr: the instruction pointer (3.11+) or f_lasti (before).
 * tlbc_index: the thread's copy of the bytecode (free-threaded 3.14+), else 0.
 * Fails with TORN if the instruction is not in this code object. */
GSP_MUST_CHECK int gsp_py__codes_loc(struct gsp_py_codes *codes, uint32_t code, uint64_t instr,
                                     uint32_t tlbc_index, uint32_t *out);

/* Checks those of the given code objects (indices) that are due. Returns true if all are unchanged.
 * The others become dead, and their addresses can be read as new code objects. */
bool gsp_py__codes_check(struct gsp_py_codes *codes, const uint32_t *indices, size_t count,
                         int64_t now_ns);

const struct gsp_py_code *gsp_py_codes_at(const struct gsp_py_codes *codes, uint32_t i);
struct gsp_py_loc *gsp_py_codes_loc_at(struct gsp_py_codes *codes, uint32_t loc);
