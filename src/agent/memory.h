/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h -- counts the allocations of the process by call site, in the file of wire/memory.h.
 *
 * Sampled mode samples allocated bytes at random; its fast path is a subtraction and a jump to the
 * allocator. Exact mode counts every allocation and free, with its Python stack. The hooks are in
 * the GOTs of the modules and in Python's allocators. They always call the original function and
 * return its result unchanged, including NULL and errno.
 *
 * Threads: any thread may allocate; one at a time starts, stops or calls gsp_agent_memory_child(),
 *          others get BUSY. After fork, the child counts from 0 in private memory, until
 *          gsp_agent_memory_child() creates a file.
 * Signal-safe: allocations of a handler succeed; inside the engine they are counted as lost.
 * Allocates: at most 32 MB with mmap(), except while the table of blocks grows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "wire/memory.h"

/* An allocator, as in PyMem_GetAllocator(). */
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

/* The offsets, in bytes, in the interpreter's structs that a walk of frames reads. pyext/ gets them
 * from py/layout.h. GSP_AGENT_NO_OFFSET: this version does not have the member. */
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
    uint16_t code_name; /* qualified name, if the version has one */
    uint16_t code_file;
    uint16_t code_table;
    uint16_t code_first_line;
    uint16_t code_start; /* of the bytecode; none for frame objects */
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

/* Functions and data of the interpreter. */
struct gsp_agent_python {
    void (*get_allocator)(int domain, struct gsp_agent_allocator *out);
    void (*set_allocator)(int domain, struct gsp_agent_allocator *allocator);
    void *(*this_thread)(void); /* PyGILState_GetThisThreadState */
    void *(*attached)(void);    /* PyThreadState_GetUnchecked (3.13+), or NULL */
    int (*is_finalizing)(void); /* Py_IsFinalizing, by its name in this version */
    int (*line_of)(const uint8_t *table, size_t len, uint32_t first_line, uint32_t at_bytes);
    const void *code_type;
    const char *own_folder; /* with a trailing slash: stacks omit functions of files below it; NULL:
                               none; must stay valid forever */
    struct gsp_agent_offsets at;
};

struct gsp_agent_memory_opts {
    enum gsp_memory_mode mode; /* SAMPLED or EXACT */
    uint64_t interval_bytes;   /* of sampled mode */
    uint64_t notice_bytes;     /* write the stack of larger allocations to python.backtrace;
                                  0: off */
    void (*tick)(void);        /* called every tick_ns or later, in an allocation of the main
                                  thread while it runs Python; must not wait; may be NULL */
    int64_t tick_ns;
    const struct gsp_agent_python *python; /* copied; NULL: only native allocations */
};

enum gsp_agent_memory_rc {
    GSP_AGENT_MEMORY_OK = 0,
    GSP_AGENT_MEMORY_BUSY,      /* already on, or being started */
    GSP_AGENT_MEMORY_NO_SPACE,  /* the agent is not on, or no space is left for the file */
    GSP_AGENT_MEMORY_NO_MEMORY, /* out of memory */
};

/* Starts with a new file and counters of 0. */
GSP_AGENT_API enum gsp_agent_memory_rc
gsp_agent_memory_start(const struct gsp_agent_memory_opts *opts);
/* Removes the hooks; the counters stay. Idempotent. A hook that another library has wrapped stays
 * and only calls the original function. */
GSP_AGENT_API void gsp_agent_memory_stop(void);
GSP_AGENT_API enum gsp_memory_mode gsp_agent_memory_mode(void);
/* Call when the interpreter is about to be finalized. After this returns, no hook reads or calls
 * it; later allocations are counted without Python frames. Waits for a walk in another thread. */
GSP_AGENT_API void gsp_agent_memory_python_ends(void);
/* In a child after fork: creates a file for its counters. Returns false if that fails. */
GSP_AGENT_API bool gsp_agent_memory_child(void);
/* Returns the counters of this process, NULL before the first start. Borrowed; the address never
 * changes. */
GSP_AGENT_API const struct gsp_memory_head *gsp_agent_memory_view(void);
/* Stores the values of the GPU's caching allocator. */
GSP_AGENT_API void gsp_agent_memory_device(uint64_t allocated_bytes, uint64_t reserved_bytes,
                                           uint64_t peak_bytes);
/* Stops or resumes counting in this thread, for allocations of gsprof itself. */
GSP_AGENT_API void gsp_agent_memory_pause(bool pause);

/* One allocation or, if bytes is negative, one free. */
struct gsp_agent_memory_event {
    int64_t at_ns;
    int64_t bytes;
    uintptr_t address;
};

/* Starts to record individual allocations of at least this size and their frees, in exact mode;
 * SIZE_MAX stops it. Returns the number of events so far, as the start for the next function. */
GSP_AGENT_API uint64_t gsp_agent_memory_events(size_t from_bytes);
/* Copies events from number *at on and advances *at. Skips events that newer ones have overwritten.
 * Returns the number of copied events; 0 at the end. */
GSP_AGENT_API size_t gsp_agent_memory_events_read(uint64_t *at, struct gsp_agent_memory_event *out,
                                                  size_t room);
