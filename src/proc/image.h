/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h -- an ELF file mapped into a target: the addresses of its symbols.
 *
 * Reads:   the dynamic symbols from the target's memory, which also works for deleted, replaced
 *          and unreachable files; the file's .symtab and section table through libelf if the
 *          dynamic symbols are not enough.
 * Gives:   addresses in the target.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/maps.h"
#include "proc/mem.h"

struct gsp_image; /* opaque */

/* map is the mapping of the file's first page (offset 0). map and mem are borrowed until
 * gsp_proc_image_close(). pid 0: no live process, files are opened by their path.
 * Fails with FORMAT (not an ELF image of this machine), FAULT, NOPROC, PERM or NOMEM. */
GSP_MUST_CHECK int gsp_proc_image_open(pid_t pid, struct gsp_mem *mem, const struct gsp_map *map,
                                       struct gsp_image **out, struct gsp_err *err);
void gsp_proc_image_close(struct gsp_image *image); /* NULL does nothing */

/* Returns the address in the target of an exported symbol, or 0. Costs a few reads of memory. */
gsp_raddr gsp_proc_image_dynsym(struct gsp_image *image, const char *name);

/* The same from the file's full symbol table; also 0 if the file is not available. */
gsp_raddr gsp_proc_image_filesym(struct gsp_image *image, const char *name);

struct gsp_range {
    gsp_raddr addr;
    uint64_t len;
};

/* Finds a section of the file by name, for example ".PyRuntime". */
bool gsp_proc_image_section(struct gsp_image *image, const char *name, struct gsp_range *out);

/* The i-th loaded segment (writable ones hold data and bss). Returns false past the last. */
bool gsp_proc_image_segment(struct gsp_image *image, size_t i, struct gsp_range *out,
                            bool *writable);
