/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_internal.h -- what core.c and core_file.c share.
 *
 * Threads: one owner.
 */
#pragma once

#include <elf.h>

#include "base/buf.h"
#include "base/map.h"
#include "proc/core.h"

#define GSP_CORE_NO_MODULE UINT32_MAX

/* A PT_LOAD of the core: mem_len bytes at addr.  The first meant_len were written, of which the
 * file has file_len, less if it is cut; the rest is as in the mapped file. */
struct gsp_core__load {
    uint64_t addr;
    uint64_t mem_len;
    uint64_t meant_len;
    uint64_t file_len;
    uint64_t offset;
    uint32_t flags; /* PF_* */
};

/* A range of memory; of a mapped file if module is one. */
struct gsp_core__area {
    uint64_t start;
    uint64_t end;
    uint64_t offset; /* in the module's file */
    uint32_t module; /* index, or GSP_CORE_NO_MODULE */
    uint32_t flags;  /* PF_* */
};

enum gsp_core__trust {
    GSP_CORE_UNCHECKED,
    GSP_CORE_SAME,   /* the file that was mapped, as far as can be told */
    GSP_CORE_ABSENT, /* not here, or another build */
};

/* A mapped file. */
struct gsp_core__module {
    const char *path; /* in the notes */
    uint64_t head;    /* address of the mapping with offset 0; 0 when there is none */
    uint64_t inode;
    enum gsp_core__trust trust;
};

struct gsp_core__thread {
    const unsigned char *regs;
    size_t regs_len;
};

struct gsp_core {
    const unsigned char *bytes;
    size_t len;
    void *mapping; /* bytes, when they are ours to unmap */
    struct gsp_core_info info;
    char name[17];
    char cmdline[81];
    struct gsp_maps *maps;
    struct gsp_core__load *loads; /* sorted by address */
    size_t load_count;
    struct gsp_core__area *files; /* of NT_FILE, sorted by address */
    size_t file_count;
    struct gsp_core__module *modules;
    size_t module_count;
    struct gsp_hmap by_path; /* hash and length of the path → module */
    struct gsp_task *tasks;
    struct gsp_core__thread *threads;
    size_t thread_count;
    size_t thread_cap;
    uint64_t phdr_addr; /* AT_PHDR: in the executable; 0 unknown */
    int open_fd;        /* of open_module, or -1 */
    uint32_t open_module;
    const char *lacks;
};

/* How many bytes at addr the core itself has, at *out. */
uint64_t gsp_core__bytes_at(const struct gsp_core *core, uint64_t addr, const unsigned char **out);
/* Is the module's file here, and the one that was mapped?  Looked up once. */
bool gsp_core__module_here(struct gsp_core *core, struct gsp_core__module *module);
/* Reads len bytes at offset off of a module's file; false if it does not have them. */
bool gsp_core__module_read(struct gsp_core *core, uint32_t module, uint64_t off, void *to,
                           size_t len);
