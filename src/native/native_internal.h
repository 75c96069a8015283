/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native_internal.h -- files, modules and the unwinder, shared by the files of this folder.
 *
 * A file has tables, symbols and lines, all in addresses of the file. A module is a file mapped
 * into one process.
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
    /* Identity; zero for images copied from memory. */
    uint64_t dev;
    uint64_t inode;
    uint64_t len;
    int64_t mtime_ns;

    char *path;           /* in the namespace of the target */
    pid_t pid;            /* also search for debug files below the root of this process; 0: none */
    int fd;               /* -1: the bytes are in `image` */
    unsigned char *image; /* owned */
    void *elf;            /* Elf *; NULL if it is not an ELF file */
    const struct gsp_cfi_arch *arch;
    size_t load_count;
    struct gsp_native_load loads[GSP_NATIVE_LOADS_MAX];
    size_t build_id_len;
    unsigned char build_id[GSP_NATIVE_BUILD_ID_MAX];

    bool index_tried;
    struct gsp_native_index *index; /* NULL: not available */
    bool table_tried;
    struct gsp_cfi_table table;
    bool symbols_tried;
    struct gsp_native_symbols *symbols;
    bool lines_tried;
    struct gsp_native_lines *lines;
    bool debug_tried;
    int debug_fd;
    void *debug_elf; /* of the separate debug file; NULL if none exists */
};

struct gsp_native_store {
    struct gsp_native_file **files;
    size_t count;
    size_t cap;
    struct gsp_hmap names; /* two hashes of a text → index in texts */
    char **texts;
    size_t text_count;
    size_t text_cap;
};

struct gsp_native_module {
    char *path;
    uint64_t inode;
    uint64_t base; /* start of its first mapping */
    uint64_t end;  /* highest end of its executable mappings so far */
    bool tried;
    struct gsp_native_file *file; /* owned by the store; NULL if not available */
    uint64_t bias;                /* target address minus file address */
};

/* An executable mapping. */
struct gsp_native_text {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint32_t module; /* GSP_NATIVE_NO_MODULE: anonymous */
};

/* Cache entry: how to unwind from an address. */
struct gsp_native_rule {
    uint64_t pc;
    uint32_t generation; /* of the maps; 0: empty */
    uint32_t module;
    gsp_cfi_rule rule;
    bool known;     /* in an executable mapping */
    bool has_start; /* start and prologue have been looked up */
    uint64_t start; /* of its symbol, if it has no rule; 0 if unknown */
    struct gsp_prologue prologue;
};

/* Cache entry: whether an address is a return address. */
struct gsp_native_site {
    uint64_t pc;
    uint32_t generation;
    bool is_return;  /* a call instruction ends at pc */
    uint64_t target; /* of that call, if it is direct; else 0 */
};

#define GSP_NATIVE_RULES 8192U
#define GSP_NATIVE_SITES 2048U

struct gsp_native {
    pid_t pid;
    struct gsp_mem *mem;
    struct gsp_native_store *store;
    bool owns_store;
    const struct gsp_maps *maps; /* of the last refresh */
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

/* Opens the file of fd and takes ownership of fd. Returns NULL if memory runs out. */
struct gsp_native_file *gsp_native__file_open(struct gsp_native_store *store, int fd,
                                              const char *path, pid_t pid);
/* Opens a copy of an image and takes ownership of it. */
struct gsp_native_file *gsp_native__file_of_image(struct gsp_native_store *store,
                                                  unsigned char *image, size_t len,
                                                  const char *path);
void gsp_native__file_free(struct gsp_native_file *file);
/* Reads bytes of the file by offset, and by address. */
bool gsp_native__file_read(const struct gsp_native_file *file, uint64_t offset, void *to,
                           size_t len);
bool gsp_native__file_text(const struct gsp_native_file *file, uint64_t vaddr, void *to,
                           size_t len);
/* Reads .eh_frame. The caller frees *owned (the same as in->bytes), also on failure. */
bool gsp_native__file_eh_frame(const struct gsp_native_file *file, struct gsp_cfi_input *in,
                               unsigned char **owned);
/* The table of the whole section, built at the first call. */
const struct gsp_cfi_table *gsp_native__file_table(struct gsp_native_file *file);
/* Computes the bias of an executable mapping at `start` with this file offset. */
bool gsp_native__file_bias(const struct gsp_native_file *file, uint64_t offset, uint64_t start,
                           uint64_t *bias);
/* Elf * of the separate debug file; NULL if none exists. */
void *gsp_native__file_debug(struct gsp_native_file *file);
/* The Elf_Scn * of a section; NULL if it does not exist or has no bytes. */
void *gsp_native__section(void *elf, const char *name);

/* eh_index.c: finds single entries with the linker's sorted table (.eh_frame_hdr), so that a
 * library of any size costs a few reads per function. For files without it, a table of all entries
 * is built. */

/* The rule of an address of the file. */
gsp_cfi_rule gsp_native__file_rule(struct gsp_native_file *file, uint64_t addr);
/* Finds the entry that contains addr. */
bool gsp_native__file_span(struct gsp_native_file *file, uint64_t addr, struct gsp_cfi_span *out);
struct gsp_native_index *gsp_native__index_of(struct gsp_native_file *file);
/* Builds a section of the entry for addr and its CIE, valid until the next call. The entry may end
 * before addr. */
bool gsp_native__index_section(struct gsp_native_file *file, uint64_t addr,
                               struct gsp_cfi_input *out);
void gsp_native__index_free(struct gsp_native_index *index); /* NULL does nothing */

/* store.c */

/* Copies a text; valid as long as the store. Returns NULL if memory runs out. */
const char *gsp_native__intern(struct gsp_native_store *store, const char *text);
/* The same for a name of a symbol table, which is demangled. */
const char *gsp_native__intern_name(struct gsp_native_store *store, const char *name);

/* symbols.c */

struct gsp_native_found {
    const char *name; /* not demangled; borrowed until the next call for this file */
    uint64_t start;   /* address of the file */
    uint64_t size;
};

bool gsp_native__symbol_find(struct gsp_native_file *file, uint64_t vaddr,
                             struct gsp_native_found *out);
/* Calls fn for every function symbol until it returns false. */
void gsp_native__symbol_each(struct gsp_native_file *file,
                             bool (*fn)(void *user, const struct gsp_native_found *found),
                             void *user);
void gsp_native__symbols_free(struct gsp_native_symbols *symbols);

/* symbolize.c */

/* Finds name, lines and inlined calls at an address of the file. */
void gsp_native__describe(struct gsp_native_store *store, struct gsp_native_file *file,
                          uint64_t vaddr, uint64_t bias, struct gsp_native_symbol *out);
/* Finds the file that contains pc, and its bias. Returns NULL if there is no readable file. Sets
 * *module, valid as long as the store, if a module contains pc. */
struct gsp_native_file *gsp_native__locate(struct gsp_native *native, uint64_t pc, uint64_t *bias,
                                           const char **module);

/* lines.c */

/* Fills in file, line and inlined calls; does nothing without debug information. */
void gsp_native__lines_find(struct gsp_native_store *store, struct gsp_native_file *file,
                            uint64_t vaddr, struct gsp_native_symbol *out);
void gsp_native__lines_free(struct gsp_native_lines *lines);

/* modules.c */

const struct gsp_native_text *gsp_native__text_find(const struct gsp_native *native, uint64_t pc);
/* The file of a module, loaded at the first call; NULL if not available. */
struct gsp_native_file *gsp_native__module_file(struct gsp_native *native, uint32_t module);
