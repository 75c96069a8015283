/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h -- reads the Python stack of one thread while the thread runs.
 *
 * The target is not stopped, so a copy of its frames can be torn: a mix of two points in time. Two
 * kinds of checks reject torn stacks.
 *
 * Each copy must be consistent. A frame that bytecode called begins where its caller's frame ends
 * (3.11 and later), and the caller has started and has saved its stack pointer; before 3.11 caller
 * and callee both execute. A copy that violates a rule is read again.
 *
 * Each call edge (location in the caller, code of the callee) must be verified once before a stack
 * that contains it is accepted (gsp_py__edges_verify()). It is verified by one of:
 *   - the caller's bytecode, if it is specialized for the called function;
 *   - two consecutive copies that show the same call, with the function in the caller's value
 *     stack;
 *   - a probe: one system call reads both frames three times, in an irregular order, and all reads
 *     agree;
 *   - for functions too short for a probe: several sightings at intervals, if they are a
 *     sufficient share of the callee's sightings. For a direct call the function must also be in
 *     the caller's value stack, and the bytecode must not name another callee at this location;
 *   - for an outermost frame: eight consecutive reads that show it.
 * Verified edges are remembered (those of copies and probes after three confirmations), so in the
 * steady state a stack costs one read and one lookup per frame. A stack with an unverified edge is
 * read again, a few tens of times at most, and then reported as torn.
 *
 * The innermost frame is not determined by the thread's pointer alone, which is read at another
 * time than the frames, but also by the frames' own execution state. Frames are copied starting
 * with the outermost, so a frame that executes was the innermost one when it was copied.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/map.h"
#include "proc/snap.h"
#include "py/codes.h"

#define GSP_PY_DEPTH_MAX 4096U

struct gsp_py_frame {
    gsp_raddr addr;
    gsp_raddr caller;   /* the frame below; may be a shim */
    gsp_raddr func;     /* 3.11+: the function object */
    uint64_t instr;     /* for gsp_py__codes_loc() */
    gsp_raddr sp;       /* 3.11+: end of the value stack at the call; 0 if unknown */
    uint32_t code;      /* index */
    uint32_t loc;       /* index */
    uint32_t known;     /* index of its entry in the walker's cache */
    bool direct;        /* called by its caller's bytecode, without C code in between */
    bool on_data_stack; /* 3.11+: in the thread's own stack of frames */
    bool in_generator;  /* 3.11+: part of a generator, which clears its caller when it yields */
    bool is_entry;      /* 3.11+: C code started an eval loop with it */
    bool unstarted;     /* 3.11+: has executed no instruction yet */
};

/* A cache entry: the code and location of a frame at its current instruction. Saves the lookups
 * for frames that do not move. */
struct gsp_py_frame_cache {
    gsp_raddr frame;
    gsp_raddr code_addr;
    uint64_t instr;
    uint32_t tlbc_index;
    uint32_t code;
    uint32_t loc;
    uint32_t caller_loc; /* caller's location of a verified edge; GSP_PY_NO_LOC: none */
};

#define GSP_PY_KNOWN_MAX 1024U /* a power of two */

struct gsp_py_chain {
    size_t depth;
    bool cut; /* deeper than GSP_PY_DEPTH_MAX: the outermost frames are missing */
    struct gsp_py_frame frames[GSP_PY_DEPTH_MAX]; /* innermost first */
    uint32_t codes[GSP_PY_DEPTH_MAX];             /* of the frames, for gsp_py__codes_check() */
};

/* The outermost frame in the last reads. */
struct gsp_py_root_reads {
    gsp_raddr frame;
    uint32_t code;
    unsigned reads; /* consecutive */
    unsigned last_try;
};

struct gsp_py_walker {
    struct gsp_mem *mem;              /* borrowed */
    const struct gsp_py_runtime *run; /* borrowed */
    struct gsp_py_codes codes;
    struct gsp_hmap edges;     /* verified (location of the caller, code of the callee) */
    struct gsp_hmap sightings; /* unverified edge → number of sightings and time of the last */
    struct gsp_hmap confirmed; /* unverified edge → number of copies and probes that showed it */
    gsp_raddr top_at;          /* address of the thread's pointer to its innermost frame */
    struct gsp_py_chain chain;
    struct gsp_py_frame_cache known[GSP_PY_KNOWN_MAX];
    struct gsp_py_root_reads root;
    unsigned last_try;
    bool is_supported; /* frames of this layout can be read */
    bool stopped;      /* the target is stopped, so one read is consistent */
    uint64_t retries;
};

void gsp_py__walker_init(struct gsp_py_walker *walker, struct gsp_mem *mem,
                         const struct gsp_py_runtime *run);
void gsp_py__walker_free(struct gsp_py_walker *walker);

/* Clears the caches if many of their entries are dead. Returns true if it did (see
 * gsp_py__codes_tidy()). Call it only between sampling passes. */
bool gsp_py__walker_tidy(struct gsp_py_walker *walker);

/* Reads the stack of the thread with this tstate into walker->chain. snap is the thread's snapshot,
 * refreshed by the caller for the first try. Fails with TORN if the stack kept changing; FORMAT or
 * FAULT if it was malformed each time; NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py__walk(struct gsp_py_walker *walker, struct gsp_snap *snap,
                                gsp_raddr tstate, int64_t now_ns);
