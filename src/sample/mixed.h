/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed.h -- native and Python frames of a thread as one stack.
 *
 * The registers of the thread, the top of its stack and its Python frames are copied
 * (sample/capture.h), and the copy is unwound. Each native frame of the interpreter's eval loop
 * stands for the Python frames that this loop runs. Frames of the interpreter itself are shown
 * where they are innermost (a builtin at work) and left out between Python frames.
 *
 * Threads: one owner; all calls from one thread (ptrace is per thread).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "native/unwind.h"
#include "sample/capture.h"
#include "sample/pending.h"

struct gsp_mixed_frame {
    bool is_python;
    bool bridged;    /* native, without unwind rules: its caller was found by searching the stack */
    uint32_t python; /* index into the thread's locs */
    uint64_t pc;     /* native */
};

/* The last captured stack, innermost first. Borrowed until the next one. */
struct gsp_mixed_stack {
    const struct gsp_mixed_frame *frames;
    size_t count;
    bool unmerged; /* eval loops and Python frames did not match: both are shown unmerged */
    bool whole;    /* the native stack reached the thread's entry point */
    bool bridged;  /* some of its frames are bridged */
    enum gsp_capture_method way;
    int64_t stopped_ns; /* upper bound; 0 if the thread was not stopped */
};

struct gsp_mixed; /* opaque */

/* The native side of one process. mem and store (tables and symbols, shared by processes) are
 * borrowed until gsp_sample__mixed_close(). Fails with PERM, NOPROC, FORMAT, NOMEM, IO. */
GSP_MUST_CHECK int gsp_sample__mixed_open(pid_t pid, struct gsp_mem *mem,
                                          struct gsp_native_store *store, struct gsp_mixed **out,
                                          struct gsp_err *err);
/* The same for a process that has ended: maps, also borrowed, is its memory map, and stacks come
 * from gsp_sample__mixed_unwind_copy() only. */
GSP_MUST_CHECK int gsp_sample__mixed_open_maps(const struct gsp_maps *maps, struct gsp_mem *mem,
                                               struct gsp_native_store *store,
                                               struct gsp_mixed **out, struct gsp_err *err);
void gsp_sample__mixed_close(struct gsp_mixed *mixed); /* NULL does nothing */
/* Which capture methods may be tried (default: all). */
void gsp_sample__mixed_set_policy(struct gsp_mixed *mixed, enum gsp_capture_policy choice);

/* Captures the stack of one thread. Afterwards the thread's locs belong to this moment. Fails
 * with TIMEOUT while the thread waits for a CPU, TORN if its Python frames changed each time,
 * PERM, NOPROC, and with the errors of a walk if the Python frames are invalid. */
GSP_MUST_CHECK int gsp_sample__mixed_capture(struct gsp_mixed *mixed,
                                             const struct gsp_capture_thread *subject,
                                             struct gsp_mixed_stack *out, struct gsp_err *err);

/* Does the work that would delay the first stacks. */
void gsp_sample__mixed_prepare(struct gsp_mixed *mixed);

/* Call it at every tick. Releases a thread that could not be released at once. */
void gsp_sample__mixed_sweep(struct gsp_mixed *mixed);

/* Unwinds registers and a stack that were copied elsewhere from a thread that does not run.
 * Fails with the errors of a walk. */
GSP_MUST_CHECK int gsp_sample__mixed_unwind_copy(struct gsp_mixed *mixed,
                                                 const struct gsp_capture_thread *subject,
                                                 const struct gsp_native_copy *copy,
                                                 struct gsp_mixed_stack *out, struct gsp_err *err);

/* Looks up the symbol of a native address. */
bool gsp_sample__mixed_symbol(struct gsp_mixed *mixed, uint64_t pc, struct gsp_native_symbol *out);

/* The destination of a stack. */
struct gsp_mixed_sink {
    struct gsp_profile *profile;
    struct gsp_pending *later;
    const struct gsp_sample *sample; /* without its stack */
    bool in_gc;
};

/* Adds a sample with a stack of gsp_sample__mixed_capture(). */
GSP_MUST_CHECK int gsp_sample__mixed_add_sample(struct gsp_mixed *mixed,
                                                const struct gsp_capture_thread *subject,
                                                const struct gsp_mixed_stack *stack,
                                                struct gsp_mixed_sink *sink, struct gsp_err *err);
