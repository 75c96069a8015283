/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h -- a core file: the memory, threads and mapped files of a process that has ended.
 *
 * Reads:   the ELF core, one page at a time on demand. Pages that the core omits are read from the
 *          mapped files, if these still exist and have the build-id found in the core.
 * Gives:   a struct gsp_mem, a memory map, the threads and the identity of the process.
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

struct gsp_proc_core_info {
    pid_t pid;
    pid_t ppid;
    int signal;          /* that ended the process; 0: none (a snapshot) or unknown */
    const char *name;    /* the kernel's name of the process; "" if unknown */
    const char *cmdline; /* its first 80 bytes; "" if unknown */
    const char *exe;     /* path of the executable; "" if unknown */
    /* Bytes of memory that the headers list and the file does not contain. Grows if the file is
     * truncated while it is read. */
    uint64_t missing_bytes;
    bool has_files;   /* the core lists the mapped files (NT_FILE) */
    bool is_filtered; /* the core omits the process's private memory (coredump_filter) */
};

/* On success the caller owns *out. Fails with NOFILE, PERM, IO, NOMEM; FORMAT if the file is not a
 * core file, or its headers or notes are truncated or malformed; NOTSUP if it is from another kind
 * of machine; LIMIT. */
GSP_MUST_CHECK int gsp_proc_core_open(const char *path, struct gsp_core **out, struct gsp_err *err);
/* Parses a core in memory. The bytes are borrowed until gsp_proc_core_close(). */
GSP_MUST_CHECK int gsp_proc__core_parse(const void *bytes, size_t len, struct gsp_core **out,
                                        struct gsp_err *err);
void gsp_proc_core_close(struct gsp_core *core); /* NULL does nothing */

/* The results of these functions are borrowed until gsp_proc_core_close(). */
const struct gsp_proc_core_info *gsp_proc_core_info(const struct gsp_core *core);
const struct gsp_maps *gsp_proc_core_maps(const struct gsp_core *core);
/* The thread that received the signal, then the others in file order. */
const struct gsp_task *gsp_proc_core_threads(const struct gsp_core *core, size_t *count);
/* The registers of the i-th thread, an elf_gregset_t of its machine; NULL past the last. */
const void *gsp_proc__core_regs(const struct gsp_core *core, size_t i, size_t *len);

/* The registers that unwinding needs. */
struct gsp_core_unwind {
    uint64_t pc;
    uint64_t sp;
    uint64_t fp;
    uint64_t lr;      /* aarch64: x30; else 0 */
    uint64_t kept[5]; /* x86-64: rbx r12 r13 r14 r15; else 0 */
};

/* Returns false past the last thread, or if the core has fewer registers than its machine. */
bool gsp_proc_core_unwind_regs(const struct gsp_core *core, size_t i, struct gsp_core_unwind *out);

/* Opens the memory of the process. The core must outlive it. */
GSP_MUST_CHECK int gsp_proc_core_mem(struct gsp_core *core, struct gsp_mem **out,
                                     struct gsp_err *err);

/* Path of a mapped file whose pages were needed, but which does not exist any more or is another
 * build; NULL if there was none. */
const char *gsp_proc_core_missing_file(const struct gsp_core *core);
/* Path of the file mapped at addr, if it does not exist any more or is another build; else NULL. */
const char *gsp_proc_core_missing_file_at(struct gsp_core *core, uint64_t addr);
