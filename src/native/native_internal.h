/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_internal.h -- files, modules and the unwinder, as the files of this folder share them.
 *
 * A file is what its bytes say: table, symbols, lines, all in addresses of the file.  A module is
 * a file at a place in one process.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "native/cfi.h"
#include "native/prologue.h"
#include "native/unwind.h"

#define GSP_NATIVE_BUILD_ID_MAX 64U
#define GSP_NATIVE_LOADS_MAX    32U

struct gsp_native_symbols; /* symbols.c */
struct gsp_native_lines;   /* lines.c */
struct gsp_native_index;   /* eh_index.c */

/* A loaded segment. */
struct gsp_native_load {
    uint64_t vaddr;
    uint64_t offset;
    uint64_t file_len;
    bool exec;
};

struct gsp_native_file {
    /* What tells it from others; zero for images that were copied from memory. */
    uint64_t dev;
    uint64_t inode;
    uint64_t len;
    int64_t mtime_ns;

    char *path;           /* as the process that opened it sees it */
    pid_t pid;            /* through whose root debug files are looked for; 0: ours alone */
    int fd;               /* -1 when the bytes are in image */
    unsigned char *image; /* owned */
    void *elf;            /* Elf *; NULL when it is none */
    const struct gsp_cfi_arch *arch;
    size_t load_count;
    struct gsp_native_load loads[GSP_NATIVE_LOADS_MAX];
    size_t build_id_len;
    unsigned char build_id[GSP_NATIVE_BUILD_ID_MAX];

    bool index_tried;
    struct gsp_native_index *index; /* NULL: it has none that can be read */
    bool table_tried;
    struct gsp_cfi_table table;
    bool symbols_tried;
    struct gsp_native_symbols *symbols;
    bool lines_tried;
    struct gsp_native_lines *lines;
    bool debug_tried;
    int debug_fd;
    void *debug_elf; /* the separate debug file; NULL when there is none */
};

struct gsp_native_store {
    struct gsp_native_file **files;
    size_t count;
    size_t cap;
    struct gsp_hmap names; /* (text's hash, its length) -> index + 1 in texts */
    char **texts;
    size_t text_count;
    size_t text_cap;
};

struct gsp_native_module {
    char *path;
    uint64_t inode;
    uint64_t base; /* start of its first mapping */
    uint64_t end;  /* of its last executable mapping, ever */
    bool tried;
    struct gsp_native_file *file; /* of the store; NULL when it cannot be had */
    uint64_t bias;                /* what to add to an address of the file */
};

/* An executable mapping. */
struct gsp_native_text {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint32_t module; /* GSP_NATIVE_NO_MODULE: anonymous */
};

/* What was found out about an address. */
struct gsp_native_rule {
    uint64_t pc;
    uint32_t generation; /* of the maps; 0: empty */
    uint32_t module;
    gsp_cfi_rule rule;
    bool known;     /* in an executable mapping */
    bool has_start; /* the two below were looked for */
    uint64_t start; /* of its symbol, when it has no rule; 0 when unknown */
    struct gsp_prologue prologue;
};

struct gsp_native_site {
    uint64_t pc;
    uint32_t generation;
    bool is_return;  /* a call ends there */
    uint64_t target; /* of that call, when it is direct; 0 otherwise */
};

#define GSP_NATIVE_RULES 8192U
#define GSP_NATIVE_SITES 2048U

struct gsp_native {
    pid_t pid;
    struct gsp_mem *mem;
    struct gsp_native_store *store;
    bool owns_store;
    const struct gsp_maps *maps; /* as of the last refresh */
    struct gsp_maps *own_maps;
    uint32_t generation;
    bool is_stale;
    struct gsp_native_module *modules;
    size_t module_count;
    size_t module_cap;
    struct gsp_native_text *texts; /* ascending */
    size_t text_count;
    size_t text_cap;
    struct gsp_native_rule rules[GSP_NATIVE_RULES];
    struct gsp_native_site sites[GSP_NATIVE_SITES];
};

/* file.c */

/* The file of fd, which is taken over; NULL without memory. */
struct gsp_native_file *gsp_native__file_open(struct gsp_native_store *store, int fd,
                                              const char *path, pid_t pid);
/* Of a copy of an image, which is taken over. */
struct gsp_native_file *gsp_native__file_of_image(struct gsp_native_store *store,
                                                  unsigned char *image, size_t len,
                                                  const char *path);
void gsp_native__file_free(struct gsp_native_file *file);
/* Bytes of the file by offset, and by address. */
bool gsp_native__file_read(const struct gsp_native_file *file, uint64_t offset, void *to,
                           size_t len);
bool gsp_native__file_text(const struct gsp_native_file *file, uint64_t vaddr, void *to,
                           size_t len);
/* .eh_frame; the caller frees *owned, also on failure (in->bytes is the same). */
bool gsp_native__file_eh_frame(const struct gsp_native_file *file, struct gsp_cfi_input *in,
                               unsigned char **owned);
/* Of the whole section, built at the first call. */
const struct gsp_cfi_table *gsp_native__file_table(struct gsp_native_file *file);
/* Where an executable mapping of that file offset at start puts its address 0. */
bool gsp_native__file_bias(const struct gsp_native_file *file, uint64_t offset, uint64_t start,
                           uint64_t *bias);
/* Elf * of the separate debug file; NULL when there is none. */
void *gsp_native__file_debug(struct gsp_native_file *file);
/* A section by name: its Elf_Scn *, NULL if there is none or it has no bytes. */
void *gsp_native__section(void *elf, const char *name);

/* eh_index.c: single entries, found by the linker's sorted table (.eh_frame_hdr), so that a library
 * of any size costs a few reads a function.  Files without one have a table of all entries. */

/* The rule of an address of the file. */
gsp_cfi_rule gsp_native__file_rule(struct gsp_native_file *file, uint64_t addr);
/* The entry that holds addr; false if there is none. */
bool gsp_native__file_span(struct gsp_native_file *file, uint64_t addr, struct gsp_cfi_span *out);
struct gsp_native_index *gsp_native__index_of(struct gsp_native_file *file);
/* The entry for addr and its CIE as a section of their own, until the next call.  The entry may end
 * before addr. */
bool gsp_native__index_section(struct gsp_native_file *file, uint64_t addr,
                               struct gsp_cfi_input *out);
void gsp_native__index_free(struct gsp_native_index *index); /* NULL does nothing */

/* store.c */

/* A text that lives as long as the store; NULL without memory. */
const char *gsp_native__intern(struct gsp_native_store *store, const char *text);
/* The same for a name as it is in a symbol table, demangled. */
const char *gsp_native__intern_name(struct gsp_native_store *store, const char *name);

/* symbols.c */

struct gsp_native_found {
    const char *name; /* as in the file; borrowed until the next call for this file */
    uint64_t start;   /* address of the file */
    uint64_t size;
};

bool gsp_native__symbol_find(struct gsp_native_file *file, uint64_t vaddr,
                             struct gsp_native_found *out);
/* Calls fn for every symbol of a function until it returns false. */
void gsp_native__symbol_each(struct gsp_native_file *file,
                             bool (*fn)(void *user, const struct gsp_native_found *found),
                             void *user);
void gsp_native__symbols_free(struct gsp_native_symbols *symbols);

/* symbolize.c */

/* Name, lines and inlined calls at an address of the file. */
void gsp_native__describe(struct gsp_native_store *store, struct gsp_native_file *file,
                          uint64_t vaddr, uint64_t bias, struct gsp_native_symbol *out);
/* Which file has pc, and where it lies; NULL when there is none, or it cannot be read.  *module,
 * which lives as long as the store, is set when there is one. */
struct gsp_native_file *gsp_native__place(struct gsp_native *native, uint64_t pc, uint64_t *bias,
                                          const char **module);

/* lines.c */

/* Fills file, line and inlined calls; does nothing without debug information. */
void gsp_native__lines_find(struct gsp_native_store *store, struct gsp_native_file *file,
                            uint64_t vaddr, struct gsp_native_symbol *out);
void gsp_native__lines_free(struct gsp_native_lines *lines);

/* modules.c */

const struct gsp_native_text *gsp_native__text_find(const struct gsp_native *native, uint64_t pc);
/* The file of a module, loaded at the first call; NULL when it cannot be had. */
struct gsp_native_file *gsp_native__module_file(struct gsp_native *native, uint32_t module);
