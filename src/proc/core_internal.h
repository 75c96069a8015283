/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_internal.h -- shared by the files of the core reader.
 *
 * Threads: one owner.
 */
#pragma once

#include <elf.h>

#include "base/map.h"
#include "proc/core.h"

#define GSP_CORE_NO_MODULE UINT32_MAX

/* A PT_LOAD of the core: mem_len bytes at addr. The kernel dumped the first meant_len bytes; the
 * file contains file_len of them, fewer than meant_len if it is truncated. The rest of the segment
 * is in the mapped file. */
struct gsp_core__load {
    uint64_t addr;
    uint64_t mem_len;
    uint64_t meant_len;
    uint64_t file_len;
    uint64_t offset;
    uint32_t flags; /* PF_* */
};

/* A range of memory; part of a mapped file if module is set. */
struct gsp_core__area {
    uint64_t start;
    uint64_t end;
    uint64_t offset; /* in the module's file */
    uint32_t module; /* index, or GSP_CORE_NO_MODULE */
    uint32_t flags;  /* PF_* */
};

enum gsp_core__trust {
    GSP_CORE_UNCHECKED,
    GSP_CORE_SAME,   /* the mapped file, as far as build-ids show */
    GSP_CORE_ABSENT, /* missing, or another build */
};

/* A mapped file. */
struct gsp_core__module {
    const char *path; /* in the notes */
    uint64_t head;    /* address of the mapping with offset 0; 0 if none exists */
    uint64_t inode;
    enum gsp_core__trust trust;
};

struct gsp_core__thread {
    const unsigned char *regs;
    size_t regs_len;
};

/* The bytes of a PT_NOTE. Registers and paths point into them. */
struct gsp_core__notes {
    struct gsp_core__notes *next;
    unsigned char bytes[];
};

struct gsp_core {
    int fd;                     /* of the core file; -1: the core is in `bytes` */
    const unsigned char *bytes; /* borrowed */
    uint64_t len;               /* of the file; shrinks if the file is truncated */
    struct gsp_core__notes *notes;
    uint64_t notes_len;
    struct gsp_proc_core_info info;
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
    uint64_t phdr_addr; /* AT_PHDR, an address in the executable; 0 if unknown */
    uint64_t vdso_addr; /* AT_SYSINFO_EHDR; 0 if unknown */
    int open_fd;        /* of open_module, or -1 */
    uint32_t open_module;
    const char *lacks;
};

/* Reads the core file at an offset. Returns false if the file does not have these bytes. */
bool gsp_proc__core_read(struct gsp_core *core, uint64_t off, void *to, size_t len);
/* Reads at most len bytes of memory at addr from the core file itself. Returns the number read. */
size_t gsp_proc__core_read_mem(struct gsp_core *core, uint64_t addr, void *to, size_t len);
/* Counts the bytes that the loads list and the file does not contain. */
void gsp_proc__core_count_missing(struct gsp_core *core);
/* The load or mapped file at addr; borrowed, NULL if none exists. */
const struct gsp_core__load *gsp_proc__core_load_at(const struct gsp_core *core, uint64_t addr);
const struct gsp_core__area *gsp_proc__core_file_at(const struct gsp_core *core, uint64_t addr);
/* Parses the notes at p, which must stay valid until the core is closed. Fails with FORMAT, LIMIT,
 * NOMEM. */
int gsp_proc__core_parse_notes(struct gsp_core *core, const unsigned char *p, size_t len,
                               struct gsp_err *err);
/* Sorts areas and drops those that overlap an earlier one. Returns the new count. */
size_t gsp_proc__core_sort_areas(struct gsp_core__area *areas, size_t count);
/* Returns whether the module's file still exists and is the same build. Checked once per module. */
bool gsp_proc__core_module_is_same(struct gsp_core *core, struct gsp_core__module *module);
/* Reads len bytes at offset off of a module's file. Returns false if it does not have them. */
bool gsp_proc__core_module_read(struct gsp_core *core, uint32_t module, uint64_t off, void *to,
                                size_t len);
