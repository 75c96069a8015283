/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h -- the Python stack of one thread, read while the thread runs.
 *
 * Nothing holds the target still, so a copy of its frames can mix two moments.  Two things keep
 * such torn stacks out.
 *
 * Each copy is checked by itself.  A frame that bytecode called lies where its caller's frame ends
 * (3.11 and later), and the caller has begun and has saved its stack pointer; before 3.11 caller
 * and callee both execute.  A copy that breaks a rule is read again.
 *
 * Each call edge (location in the caller, code of the callee) is proven before a stack with it is
 * believed (prove.c):
 *   - by the caller's bytecode, if it is specialised for the function that was called;
 *   - or by two copies, one right after the other, that show the same call, with the function in
 * the caller's value stack;
 *   - or by a look: one system call reads both frames three times, in an uneven order, and finds
 * the same each time;
 *   - or, for calls of functions that are too short for a look, by several sights at intervals, if
 * they are a fair share of the callee's sights.  A direct call also needs the function in the
 * caller's value stack, and a place for which the bytecode does not name another one;
 *   - an outermost frame by being there in eight reads running.
 * Proven edges are remembered, those of copies and looks after three times, so in the steady state
 * a stack costs one read and a lookup per frame.  A stack with an unproven edge is read again, some
 * tens of times at most, and given up as torn after that.
 *
 * Which frame is on top is not taken from the thread's pointer alone (it is read at another
 * moment than the frames) but from the frames' own marks of who is executing.  Frames are copied
 * from the outermost on, so one that executes was on top when it was copied.
 *
 * Used by: py/target.c.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/map.h"
#include "proc/snap.h"
#include "py/codes.h"

#define GSP_PY_DEPTH_MAX 4096U

struct gsp_py_frame {
    gsp_raddr addr;
    gsp_raddr caller;   /* the frame below; shims between them are passed over */
    gsp_raddr func;     /* 3.11+: the function object */
    uint64_t instr;     /* as gsp_py_codes_loc() takes it */
    gsp_raddr sp;       /* 3.11+: where the value stack ended when it called; 0 unknown */
    uint32_t code;      /* index */
    uint32_t loc;       /* index */
    uint32_t known;     /* where the walker remembers this frame */
    bool direct;        /* called by its caller's bytecode, without C between */
    bool on_data_stack; /* 3.11+: in the thread's own stack of frames */
    bool in_generator;  /* 3.11+: lives in a generator, which clears its caller when it yields */
    bool is_entry;      /* 3.11+: C code began an eval loop with it */
    bool unstarted;     /* 3.11+: has executed nothing yet */
};

/* What was found for a frame when it last stood where it stands: saves the lookups for the
 * frames that do not move. */
struct gsp_py_known {
    gsp_raddr frame;
    gsp_raddr code_addr;
    uint64_t instr;
    uint32_t tlbc_index;
    uint32_t code;
    uint32_t loc;
    uint32_t caller_loc; /* from which its being called is proven; GSP_PY_NO_LOC none */
};

#define GSP_PY_KNOWN_MAX 1024U /* a power of two */

struct gsp_py_chain {
    size_t depth;
    bool cut; /* deeper than GSP_PY_DEPTH_MAX: the outermost frames are missing */
    struct gsp_py_frame frames[GSP_PY_DEPTH_MAX]; /* innermost first */
    uint32_t codes[GSP_PY_DEPTH_MAX];             /* of the frames: for the check of codes */
};

/* The outermost frame, as the last reads showed it. */
struct gsp_py_seen {
    gsp_raddr frame;
    uint32_t code;
    unsigned reads; /* running */
    unsigned last_try;
};

struct gsp_py_walker {
    struct gsp_mem *mem;              /* borrowed */
    const struct gsp_py_runtime *run; /* borrowed */
    struct gsp_py_codes codes;
    struct gsp_hmap edges;  /* (location of the caller, code of the callee) proven */
    struct gsp_hmap sights; /* the same unproven: how often, and in which walk last */
    struct gsp_hmap shown;  /* the same: how many looks have shown it */
    gsp_raddr top_at;       /* the thread's pointer to its innermost frame */
    struct gsp_py_chain chain;
    struct gsp_py_known known[GSP_PY_KNOWN_MAX];
    struct gsp_py_seen root;
    unsigned last_try;
    bool fits;  /* the layout's frames can be read */
    bool still; /* the target is stopped: one read is the truth */
    uint64_t retries;
};

void gsp_py_walker_init(struct gsp_py_walker *walker, struct gsp_mem *mem,
                        const struct gsp_py_runtime *run);
void gsp_py_walker_free(struct gsp_py_walker *walker);

/* Between two looks: forgets what is mostly dead; true if it did (see gsp_py_codes_tidy). */
bool gsp_py_walker_tidy(struct gsp_py_walker *walker);

/* Walks the stack of the thread with this tstate into walker->chain.  snap is the thread's
 * snapshot, refreshed by the caller for the first try.
 * 0; TORN if it kept changing; FORMAT or FAULT if it made no sense each time; NOPROC, PERM,
 * NOMEM. */
GSP_MUST_CHECK int gsp_py_walk(struct gsp_py_walker *walker, struct gsp_snap *snap,
                               gsp_raddr tstate, int64_t now_ns);
