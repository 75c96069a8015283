/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h -- counts what the process allocates, by call site, into the file of wire/memory.h.
 *
 * Sampled: a byte in so many is looked at, at random; the fast path is a subtraction and a jump to
 * the allocator.  Exact: every allocation and free, with its Python stack.  Hooks are in the
 * modules' tables of functions (GOT) and in Python's allocators; whoever was to be called is
 * called. The allocator's answer, NULL and errno included, is handed on unchanged.
 *
 * Used by: pyext/ (start, stop, what Python knows of itself), tests.
 * Threads: all allocate at once; start, stop and child by one at a time, others get BUSY.
 *          After fork the child counts in memory of its own, from 0, until
 *          gsp_agent_memory_child() gives it a file.
 * Signal-safe: what a handler allocates is handed on; inside the engine it is only counted as lost.
 * Allocates: at most 32 MB by mmap(), apart from the moment in which the table of blocks grows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "wire/memory.h"

/* An allocator as PyMem_GetAllocator() gives it. */
struct gsp_agent_allocator {
    void *ctx;
    void *(*malloc)(void *ctx, size_t bytes);
    void *(*calloc)(void *ctx, size_t count, size_t each);
    void *(*realloc)(void *ctx, void *block, size_t bytes);
    void (*free)(void *ctx, void *block);
};

enum gsp_agent_frames {
    GSP_AGENT_FRAMES_OBJECTS,
    GSP_AGENT_FRAMES_CFRAME,
    GSP_AGENT_FRAMES_CURRENT
};

#define GSP_AGENT_NO_OFFSET UINT16_MAX

/* Where the interpreter of this process keeps what a walk of its frames reads: pyext/ has it from
 * py/layout.h.  Offsets in bytes, GSP_AGENT_NO_OFFSET where a version has none. */
struct gsp_agent_offsets {
    enum gsp_agent_frames frames;
    uint32_t minor;
    uint16_t tstate_top;   /* frame, cframe or current_frame, by `frames` */
    uint16_t cframe_frame; /* current_frame in a cframe */
    uint16_t frame_back;   /* previous */
    uint16_t frame_code;
    uint16_t frame_instr; /* f_lasti of frame objects */
    uint16_t frame_owner;
    uint16_t frame_tlbc;
    uint16_t object_type;
    uint16_t code_name; /* qualified, where there is such a name */
    uint16_t code_file;
    uint16_t code_table;
    uint16_t code_first_line;
    uint16_t code_start; /* of the instructions; none for frame objects */
    uint16_t code_tlbc;
    uint16_t text_length;
    uint16_t text_state;
    uint16_t text_kind_bit;
    uint16_t text_compact_bit;
    uint16_t text_ascii_bit;
    uint16_t text_ascii_size;
    uint16_t text_compact_size;
    uint16_t bytes_size;
    uint16_t bytes_data;
};

/* What Python gives. */
struct gsp_agent_python {
    void (*get_allocator)(int domain, struct gsp_agent_allocator *out);
    void (*set_allocator)(int domain, struct gsp_agent_allocator *allocator);
    void *(*this_thread)(void); /* PyGILState_GetThisThreadState */
    void *(*attached)(void);    /* PyThreadState_GetUnchecked (3.13+), or NULL */
    int (*is_finalizing)(void); /* Py_IsFinalizing, by its name in this version */
    int (*line_of)(const uint8_t *table, size_t len, uint32_t first_line, uint32_t at_bytes);
    const void *code_type;
    const char *own_folder; /* with its slash: functions of files below it are in no stack; NULL:
                               none; lent for ever */
    struct gsp_agent_offsets at;
};

struct gsp_agent_memory_opts {
    enum gsp_memory_mode mode; /* SAMPLED or EXACT */
    uint64_t interval_bytes;   /* of sampled mode */
    uint64_t notice_bytes;     /* an allocation of so many is told, as rows of
                                  python.backtrace; 0: none */
    void (*tick)(void);        /* called every tick_ns or later, from an allocation that the
                                  main thread makes while it runs Python; must not wait; may be
                                  NULL */
    int64_t tick_ns;
    const struct gsp_agent_python *python; /* copied; NULL: native allocations alone */
};

enum gsp_agent_memory_rc {
    GSP_AGENT_MEMORY_OK = 0,
    GSP_AGENT_MEMORY_BUSY,     /* on already, or being started */
    GSP_AGENT_MEMORY_NO_PLACE, /* the agent is not on, or there is no room for the file */
    GSP_AGENT_MEMORY_NO_ROOM,  /* no memory for the tables */
};

/* Begins anew: counters are 0, the file is a new one. */
GSP_AGENT_API enum gsp_agent_memory_rc
gsp_agent_memory_start(const struct gsp_agent_memory_opts *opts);
/* Hooks are taken back, counters stay as they are.  Idempotent.  A hook that another library has
 * wrapped stays, and only hands on. */
GSP_AGENT_API void gsp_agent_memory_stop(void);
GSP_AGENT_API enum gsp_memory_mode gsp_agent_memory_mode(void);
/* The interpreter is about to be finalized.  After this returns, no hook reads or calls it; what is
 * allocated later is counted without Python frames.  Waits for a walk that another thread makes. */
GSP_AGENT_API void gsp_agent_memory_python_ends(void);
/* In a child after fork: a file for what is counted there.  False when there is none. */
GSP_AGENT_API bool gsp_agent_memory_child(void);
/* The counters of this process, NULL before the first start; lent, at one address for ever. */
GSP_AGENT_API const struct gsp_memory_head *gsp_agent_memory_view(void);
/* What the GPU's caching allocator says. */
GSP_AGENT_API void gsp_agent_memory_device(uint64_t allocated_bytes, uint64_t reserved_bytes,
                                           uint64_t peak_bytes);
/* Whether this thread is to be left uncounted from now on: the package's own work. */
GSP_AGENT_API void gsp_agent_memory_pause(bool pause);

/* One allocation, or with bytes below 0 one free. */
struct gsp_agent_memory_event {
    int64_t at_ns;
    int64_t bytes;
    uintptr_t address;
};

/* From now on allocations of at least so many bytes are kept one by one, with their frees, in exact
 * mode; SIZE_MAX: none any more.  The number of events so far, for the next. */
GSP_AGENT_API uint64_t gsp_agent_memory_events(size_t from_bytes);
/* Copies events from number *at on and moves it; it jumps over those that newer ones have replaced.
 * How many; 0: that was all. */
GSP_AGENT_API size_t gsp_agent_memory_events_read(uint64_t *at, struct gsp_agent_memory_event *out,
                                                  size_t room);
