/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h -- a core file: the memory, threads and mapped files of a process that is no more.
 *
 * Reads:   the ELF core, page by page as it is asked for; what it left out from the files that
 *          were mapped there, if they are still here and have the build-id that the core shows.
 * Gives:   a struct gsp_mem, a memory map, the threads and who the process was.
 * Used by: sample/ to dump a core.
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
#include "proc/task.h"

struct gsp_core; /* opaque */

struct gsp_core_info {
    pid_t pid;
    pid_t ppid;
    int signal;          /* that ended it; 0 when none did (a snapshot) or unknown */
    const char *name;    /* the kernel's name of the process; "" when unknown */
    const char *cmdline; /* its first 80 bytes or so; "" when unknown */
    const char *exe;     /* path of the executable; "" when unknown */
    /* Bytes of memory that the headers promise and the file does not have; more when it is cut
     * while it is read. */
    uint64_t missing_bytes;
    bool has_files;   /* it tells which files were mapped (NT_FILE) */
    bool is_filtered; /* the process's own memory was left out of it (coredump_filter) */
};

/* On success *out is the caller's.  Fails with NOFILE, PERM, IO, NOMEM; FORMAT when the file is
 * no core, cut in its headers or notes, or these make no sense; NOTSUP when it is of another
 * machine; LIMIT. */
GSP_MUST_CHECK int gsp_core_open(const char *path, struct gsp_core **out, struct gsp_err *err);
/* The same of bytes, which are borrowed until gsp_core_close(). */
GSP_MUST_CHECK int gsp_core_parse(const void *bytes, size_t len, struct gsp_core **out,
                                  struct gsp_err *err);
void gsp_core_close(struct gsp_core *core); /* NULL does nothing */

/* All of these are borrowed until gsp_core_close(). */
const struct gsp_core_info *gsp_core_info(const struct gsp_core *core);
const struct gsp_maps *gsp_core_maps(const struct gsp_core *core);
/* The thread that was hit first, then the others in the order of the file. */
const struct gsp_task *gsp_core_threads(const struct gsp_core *core, size_t *count);
/* The registers of the i-th thread, as its machine's elf_gregset_t; NULL past the last. */
const void *gsp_core_regs(const struct gsp_core *core, size_t i, size_t *len);

/* What of a thread's registers unwinding needs. */
struct gsp_core_unwind {
    uint64_t pc;
    uint64_t sp;
    uint64_t fp;
    uint64_t lr;      /* aarch64: x30; else 0 */
    uint64_t kept[5]; /* x86-64: rbx r12 r13 r14 r15; else 0 */
};

/* False past the last thread, or when the core has fewer registers than its machine. */
bool gsp_core_unwind_regs(const struct gsp_core *core, size_t i, struct gsp_core_unwind *out);

/* The memory as it was; the core has to outlast it. */
GSP_MUST_CHECK int gsp_core_mem(struct gsp_core *core, struct gsp_mem **out, struct gsp_err *err);

/* A mapped file whose pages were asked for in vain, because it is not here any more or is
 * another build; NULL if there was none. */
const char *gsp_core_lacks(const struct gsp_core *core);
/* The same for the file that was mapped at addr. */
const char *gsp_core_file_lacks(struct gsp_core *core, uint64_t addr);
