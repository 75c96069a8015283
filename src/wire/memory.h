/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h -- the allocation counters of a process by call site, in shared memory.
 *
 * They are the file `memory` in the ring directory of the process. Only the agent writes it.
 * Readers outside copy it, also after the process was killed, and derive differences and time
 * series. Its size does not depend on the number of allocations.
 *
 *   struct gsp_memory_head    one page
 *   strings                   struct gsp_wire_memory_text, each at a multiple of 4
 *   struct gsp_memory_frame   frame_max of them; number 0 is not used
 *   struct gsp_memory_node    node_max: stacks as a tree; number 0 is not used
 *   struct gsp_memory_site    site_max: a stack and an allocator with their counters
 *
 * Strings, frames, nodes and sites are only ever added: the agent writes the entry, then stores the
 * count that covers it (release). A reader loads site_count, node_count, frame_count and
 * strings_used (acquire, in this order), and then copies. Everything that a site refers to is then
 * complete. The parent of a node has a smaller number than the node. When the engine restarts, it
 * creates a new file with the same name.
 *
 * Counters change during a read. Read free_* of a site before its alloc_*, so that the live bytes,
 * alloc_bytes - free_bytes, are never negative. The live bytes of a site at the peak of the process
 * are peak_bytes if its peak_epoch equals that of the head, else its current live bytes.
 *
 * Sampled mode: bytes and counts are unbiased estimates. *_var is the variance of the bytes
 * (KiB^2), so the standard error of the live bytes is 1024 * sqrt(alloc_var - free_var). Exact
 * mode: bytes and counts are the requested ones, and the variances are 0.
 *
 * Threads: atomic members are written while others read.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define GSP_MEMORY_FILE       "memory"
#define GSP_MEMORY_MAGIC      "GSPMEM01"
#define GSP_MEMORY_VERSION    1U
#define GSP_MEMORY_BYTE_ORDER 0x01020304U
#define GSP_MEMORY_HEAD       4096U /* bytes before the strings */
#define GSP_MEMORY_DEPTH_MAX  256U  /* nodes of a stack, including the thread and the cut */
/* Largest file that a reader accepts. Real files are much smaller. */
#define GSP_MEMORY_BYTES_MAX  (1U << 26)

enum gsp_memory_mode { GSP_MEMORY_OFF, GSP_MEMORY_SAMPLED, GSP_MEMORY_EXACT, GSP_MEMORY_MODES };

/* The allocator that the program called. If one calls another, the outermost counts. */
enum gsp_memory_allocator {
    GSP_MEMORY_MALLOC,    /* malloc and its family, operator new */
    GSP_MEMORY_MMAP,      /* anonymous mappings */
    GSP_MEMORY_PY_RAW,    /* PyMem_RawMalloc */
    GSP_MEMORY_PY_MEM,    /* PyMem_Malloc */
    GSP_MEMORY_PY_OBJECT, /* PyObject_Malloc */
    GSP_MEMORY_ALLOCATORS
};

enum gsp_memory_kind {
    GSP_MEMORY_PYTHON = 1, /* a function: name, file, line */
    GSP_MEMORY_NATIVE,     /* the library that called the allocator: name is its base name */
    GSP_MEMORY_THREAD,     /* root of a stack: line is the kernel thread id, 0: several threads */
    GSP_MEMORY_CUT,        /* frames are omitted here, because the stack was too deep */
    GSP_MEMORY_OWN,        /* a function of gsprof, which does not appear in stacks */
};

enum gsp_memory_loss {
    GSP_MEMORY_LOST_STACK,  /* stack table full: counted without a stack */
    GSP_MEMORY_LOST_LIVE,   /* table of live blocks full: counted as allocated, never as freed */
    GSP_MEMORY_LOST_NESTED, /* requested while the engine ran in this thread (signal handler) */
    GSP_MEMORY_LOST_TORN,  /* the interpreter's frames were inconsistent: counted without a stack */
    GSP_MEMORY_LOST_FREE,  /* freed without a hook: detected when the address was allocated again */
    GSP_MEMORY_CUT_STACKS, /* stacks that were too deep */
    GSP_MEMORY_LOSSES
};

/* state */
#define GSP_MEMORY_ON      1U /* being written */
#define GSP_MEMORY_ENDED   2U /* the engine was stopped: the counters are final */
#define GSP_MEMORY_LEAVING 4U /* the interpreter is shutting down and frees its objects */

struct gsp_wire_memory_text {
    uint32_t len;
    char text[]; /* len bytes, not escaped; referred to by the offset in the strings area */
};

struct gsp_memory_frame {
    uint32_t name; /* offset in the strings; 0: none */
    uint32_t file; /* offset in the strings; 0: none */
    uint32_t line; /* 0: unknown */
    uint32_t kind; /* enum gsp_memory_kind */
    uint32_t first_line;
    uint32_t reserved;
};

struct gsp_memory_node {
    uint32_t parent; /* 0: outermost */
    uint32_t frame;
};

struct gsp_memory_site {
    uint32_t node; /* innermost frame; 0: unknown stack */
    uint32_t allocator;
    int64_t first_ns; /* CLOCK_MONOTONIC of its first allocation */
    _Atomic uint64_t alloc_bytes;
    _Atomic uint64_t alloc_count;
    _Atomic uint64_t free_bytes;
    _Atomic uint64_t free_count;
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t peak_count;
    _Atomic uint64_t peak_epoch;
    _Atomic uint64_t alloc_var; /* KiB^2 */
    _Atomic uint64_t free_var;
    _Atomic uint64_t samples; /* sampled allocations */
};

/* All sites of one allocator. */
struct gsp_memory_total {
    _Atomic uint64_t alloc_bytes;
    _Atomic uint64_t alloc_count;
    _Atomic uint64_t free_bytes;
    _Atomic uint64_t free_count;
};

struct gsp_memory_head {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint32_t mode; /* enum gsp_memory_mode */
    int32_t pid;
    uint64_t start_time;     /* of the process, clock ticks since boot */
    uint64_t interval_bytes; /* mean interval between samples; 0: exact */
    int64_t began_ns;        /* CLOCK_MONOTONIC */
    int64_t began_real_ns;   /* CLOCK_REALTIME */
    uint64_t file_bytes;
    uint64_t strings_off;
    uint64_t strings_bytes; /* capacity */
    uint64_t frames_off;
    uint64_t nodes_off;
    uint64_t sites_off;
    uint32_t frame_max;
    uint32_t node_max;
    uint32_t site_max;
    _Atomic uint32_t state; /* GSP_MEMORY_ON, _ENDED, _LEAVING */
    /* Present counts, including the unused number 0. */
    _Atomic uint32_t strings_used; /* bytes */
    _Atomic uint32_t frame_count;
    _Atomic uint32_t node_count;
    _Atomic uint32_t site_count; /* number 0 is a site */
    _Atomic uint64_t live_bytes; /* of all sites */
    _Atomic uint64_t peak_bytes; /* maximum of live_bytes */
    _Atomic uint64_t peak_epoch; /* grows when a new peak is reached */
    _Atomic int64_t peak_ns;     /* CLOCK_MONOTONIC of the peak, to a millisecond; 0: none yet */
    _Atomic int64_t last_ns;     /* time of the newest count, to a millisecond */
    struct gsp_memory_total total[GSP_MEMORY_ALLOCATORS];
    _Atomic uint64_t lost[GSP_MEMORY_LOSSES]; /* number of losses: enum gsp_memory_loss */
    /* The GPU's caching allocator, as PyTorch reports it. device_ns 0: never reported. */
    _Atomic int64_t device_ns;
    _Atomic uint64_t device_allocated_bytes;
    _Atomic uint64_t device_reserved_bytes;
    _Atomic uint64_t device_peak_bytes;
};

_Static_assert(sizeof(struct gsp_memory_frame) == 24, "the file's layout");
_Static_assert(sizeof(struct gsp_memory_node) == 8, "the file's layout");
_Static_assert(sizeof(struct gsp_memory_site) == 96, "the file's layout");
_Static_assert(sizeof(struct gsp_memory_head) <= GSP_MEMORY_HEAD, "the file's layout");

/* The capacity of a new file. */
struct gsp_memory_capacity {
    uint32_t strings_bytes;
    uint32_t frames;
    uint32_t nodes;
    uint32_t sites;
};

/* Returns the size of a file with this capacity. */
size_t gsp_wire_memory_bytes(const struct gsp_memory_capacity *room);
/* Fills the head of a new, zeroed file: an empty string, frame and node, and no site. */
void gsp_wire_memory_init(struct gsp_memory_head *head, const struct gsp_memory_capacity *room);

/* Whether the copied head is valid: its areas are in order, do not overlap and lie within `bytes`,
 * and its counts lie within their areas. Readers call it before they use any part of a file.
 * Frames, nodes, sites and strings are checked individually. */
bool gsp_wire_memory_head_is_valid(const struct gsp_memory_head *head, size_t bytes);
/* Returns the string at an offset in the area `strings`, of which `used` bytes are valid. Returns
 * "" for offset 0 and for a string outside the area. */
struct gsp_sv gsp_wire_memory_text(const char *strings, size_t used, uint32_t at);
/* "malloc", "mmap", "pyraw", "pymem", "pyobject": the allocator column of python.allocation. "?" if
 * the number is invalid. */
const char *gsp_wire_memory_allocator_name(uint32_t allocator);
/* "stack", "live", ...; "?" if the number is invalid. */
const char *gsp_wire_memory_loss_name(uint32_t loss);
/* "off", "sampled", "exact"; "?" if the number is invalid. */
const char *gsp_wire_memory_mode_name(uint32_t mode);
