/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h -- an ELF file as it lies in a target's memory: where its symbols are.
 *
 * Reads:   the dynamic symbols from the target's own memory, which works for deleted,
 *          replaced and unreachable files alike; the file's .symtab and section table
 *          through libelf when the memory does not have the answer.
 * Gives:   addresses in the target.
 * Used by: py/ to find _PyRuntime.
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

/* map is the mapping of the file's first page (offset 0); it, maps and mem are borrowed until
 * gsp_image_close().  pid 0: no live process, files are opened by their own names.
 * Fails with FORMAT (not an ELF image of this machine), FAULT, NOPROC,
 * PERM or NOMEM. */
GSP_MUST_CHECK int gsp_image_open(pid_t pid, struct gsp_mem *mem, const struct gsp_map *map,
                                  struct gsp_image **out, struct gsp_err *err);
void gsp_image_close(struct gsp_image *image); /* NULL does nothing */

/* Address in the target of an exported symbol, 0 if there is none.  A few reads of memory. */
gsp_raddr gsp_image_dynsym(struct gsp_image *image, const char *name);

/* The same from the file's full symbol table; 0 if there is none or the file cannot be had. */
gsp_raddr gsp_image_filesym(struct gsp_image *image, const char *name);

struct gsp_range {
    gsp_raddr addr;
    uint64_t len;
};

/* A section of the file by name, e.g. ".PyRuntime"; false if there is none. */
bool gsp_image_section(struct gsp_image *image, const char *name, struct gsp_range *out);

/* The i-th loaded segment (writable ones hold data and bss); false past the last. */
bool gsp_image_segment(struct gsp_image *image, size_t i, struct gsp_range *out, bool *writable);
