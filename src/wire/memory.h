/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h -- what a process allocates, as counters by call site in shared memory.
 *
 * The file `memory` in the folder of the process's rings.  The agent in the process writes it and
 * nothing else; whoever looks from outside, also after the process was killed, takes copies and
 * makes differences and series of them.  Nothing in it grows with the number of allocations.
 *
 *   struct gsp_memory_head    one page
 *   strings                   struct gsp_memory_text one after the other, each at a multiple of 4
 *   struct gsp_memory_frame   frame_max of them; number 0 is not used
 *   struct gsp_memory_node    node_max: stacks as a tree; number 0 is not used
 *   struct gsp_memory_site    site_max: a stack and an allocator with its counters
 *
 * Strings, frames, nodes and sites are only ever added: first the thing, then the count that
 * covers it (release).  A reader loads site_count first, then node_count, frame_count and
 * strings_used (acquire, in this order), and copies: what a site refers to is then there.  A node's
 * parent has a smaller number than the node.  When the engine is started anew it makes a new file
 * under the same name.
 *
 * Counters change while they are read.  Read free_* of a site before its alloc_*: live bytes are
 * alloc_bytes - free_bytes, and never negative then.  The live bytes at the peak of a site:
 * peak_bytes if its peak_epoch is that of the head, else the live bytes as they are now.
 *
 * Sampled: bytes and counts are estimates without bias, the variance of the bytes is in *_var
 * (KiB^2), so the standard error of the live bytes is 1024 * sqrt(alloc_var - free_var).
 * Exact: they are what was asked for, to the byte, and the variances are 0.
 *
 * Used by: agent/ (writes), memlog/ and store/ (read).
 * Threads: members marked atomic are written while others read.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#define GSP_MEMORY_FILE       "memory"
#define GSP_MEMORY_MAGIC      "GSPMEM01"
#define GSP_MEMORY_VERSION    1U
#define GSP_MEMORY_BYTE_ORDER 0x01020304U
#define GSP_MEMORY_HEAD       4096U /* bytes in front of the strings */
#define GSP_MEMORY_DEPTH_MAX  256U  /* nodes of a stack, the thread and the cut included */
/* Sizes that a reader accepts at most: a file is far smaller. */
#define GSP_MEMORY_BYTES_MAX  (1U << 26)

enum gsp_memory_mode { GSP_MEMORY_OFF, GSP_MEMORY_SAMPLED, GSP_MEMORY_EXACT, GSP_MEMORY_MODES };

/* Who was asked for the memory; the outermost counts. */
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
    GSP_MEMORY_NATIVE,     /* a library that asked for the memory: name is its file's last part */
    GSP_MEMORY_THREAD,     /* root of a stack: line is the kernel's id of the thread, 0: of many */
    GSP_MEMORY_CUT,        /* frames were left out here: the stack was too deep */
    GSP_MEMORY_OWN,        /* a function of gsprof, which is in no stack */
};

enum gsp_memory_loss {
    GSP_MEMORY_LOST_STACK,  /* no room for another stack: counted without one */
    GSP_MEMORY_LOST_LIVE,   /* no room to follow the block: counted as allocated, never as freed */
    GSP_MEMORY_LOST_NESTED, /* asked for while the engine was at work in this thread (a signal) */
    GSP_MEMORY_LOST_TORN,   /* the interpreter's frames made no sense: counted without a stack */
    GSP_MEMORY_LOST_FREE, /* freed where no hook is: noticed when its address was given out again */
    GSP_MEMORY_CUT_STACKS, /* stacks that were too deep */
    GSP_MEMORY_LOSSES
};

/* state */
#define GSP_MEMORY_ON      1U /* being written */
#define GSP_MEMORY_ENDED   2U /* the engine was stopped in order: the counters stay as they are */
#define GSP_MEMORY_LEAVING 4U /* the interpreter ends, and frees what the program kept */

struct gsp_memory_text {
    uint32_t len;
    char text[]; /* len bytes, as the program has them; a reference is the offset in the area */
};

struct gsp_memory_frame {
    uint32_t name; /* offset in the strings; 0: none */
    uint32_t file; /* offset in the strings; 0: none */
    uint32_t line; /* 0: not known */
    uint32_t kind; /* enum gsp_memory_kind */
    uint32_t first_line;
    uint32_t reserved;
};

struct gsp_memory_node {
    uint32_t parent; /* 0: outermost */
    uint32_t frame;
};

struct gsp_memory_site {
    uint32_t node; /* innermost frame; 0: stack not known */
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
    _Atomic uint64_t samples; /* allocations that were looked at */
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
    uint64_t interval_bytes; /* mean distance of two samples; 0: exact */
    int64_t began_ns;        /* CLOCK_MONOTONIC */
    int64_t began_real_ns;   /* CLOCK_REALTIME */
    uint64_t file_bytes;
    uint64_t strings_off;
    uint64_t strings_bytes; /* room */
    uint64_t frames_off;
    uint64_t nodes_off;
    uint64_t sites_off;
    uint32_t frame_max;
    uint32_t node_max;
    uint32_t site_max;
    _Atomic uint32_t state; /* GSP_MEMORY_ON, _ENDED, _LEAVING */
    /* How much is there, the unused numbers 0 counted. */
    _Atomic uint32_t strings_used; /* bytes */
    _Atomic uint32_t frame_count;
    _Atomic uint32_t node_count;
    _Atomic uint32_t site_count; /* number 0 is a site */
    _Atomic uint64_t live_bytes; /* of all sites */
    _Atomic uint64_t peak_bytes; /* the most that live_bytes was */
    _Atomic uint64_t peak_epoch; /* grows when a new peak is reached */
    _Atomic int64_t peak_ns;     /* CLOCK_MONOTONIC of the peak, to a millisecond; 0: none yet */
    _Atomic int64_t last_ns;     /* of the newest count, as roughly */
    struct gsp_memory_total total[GSP_MEMORY_ALLOCATORS];
    _Atomic uint64_t lost[GSP_MEMORY_LOSSES]; /* enum gsp_memory_loss: how often */
    /* Of the GPU's caching allocator, as PyTorch tells it; device_ns 0: never told. */
    _Atomic int64_t device_ns;
    _Atomic uint64_t device_allocated_bytes;
    _Atomic uint64_t device_reserved_bytes;
    _Atomic uint64_t device_peak_bytes;
};

_Static_assert(sizeof(struct gsp_memory_frame) == 24, "the file's layout");
_Static_assert(sizeof(struct gsp_memory_node) == 8, "the file's layout");
_Static_assert(sizeof(struct gsp_memory_site) == 96, "the file's layout");
_Static_assert(sizeof(struct gsp_memory_head) <= GSP_MEMORY_HEAD, "the file's layout");

/* How many of what a new file has room for. */
struct gsp_memory_room {
    uint32_t strings_bytes;
    uint32_t frames;
    uint32_t nodes;
    uint32_t sites;
};

/* The bytes of a file with this room. */
size_t gsp_memory_bytes(const struct gsp_memory_room *room);
/* Fills the head of a new file, of zeros: an empty string, frame and node, no site. */
void gsp_memory_init(struct gsp_memory_head *head, const struct gsp_memory_room *room);

/* Whether a copy of a file's first bytes is a head whose areas lie within `bytes`, one behind the
 * other, and whose counts lie within their areas.  For readers: nothing in a file is believed
 * before.  Frames, nodes, sites and strings are checked one by one with the functions below. */
bool gsp_memory_head_ok(const struct gsp_memory_head *head, size_t bytes);
/* The string at an offset of the area that begins at `strings`, of which `used` bytes are there;
 * "" for 0 and for what does not lie within. */
struct gsp_sv gsp_memory_text(const char *strings, size_t used, uint32_t at);
/* "malloc", "mmap", "pyraw", "pymem", "pyobject": the allocator column of python.allocation; "?"
 * for another number. */
const char *gsp_memory_allocator_name(uint32_t allocator);
/* What the loss is called: "stack", "live", ...; "?" for another number. */
const char *gsp_memory_loss_name(uint32_t loss);
/* "off", "sampled", "exact"; "?" for another number. */
const char *gsp_memory_mode_name(uint32_t mode);
