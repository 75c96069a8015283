/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linker.h -- finds the functions of a process that load a library, and the code that ends a signal
 * handler.
 *
 * Reads:   the memory map of the target and the symbols in its memory.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/maps.h"
#include "proc/mem.h"

/* Code of the target to which a call returns. */
struct gsp_inject__landing {
    gsp_raddr sigreturn; /* makes the system call rt_sigreturn; signal handlers return to it */
    gsp_raddr store;     /* x86-64: stores rax at the address in rbx; 0 if there is no such code */
    unsigned pops;       /* words that the code at store pops before it returns */
};

struct gsp_inject__linker {
    gsp_raddr open;     /* dlopen() or the internal function of the C library */
    gsp_raddr error;    /* dlerror(); 0 if it does not exist */
    gsp_raddr errno_at; /* __errno_location(); 0 if it does not exist */
    gsp_raddr raw_call; /* syscall(); 0 if it does not exist */
    gsp_raddr state;    /* _r_debug.r_state; 0 if not found */
    struct gsp_inject__landing landing;
    int open_flags;
    gsp_raddr loaded; /* the requested function, if its library is loaded already; otherwise 0 */
};

/* The function to find: the library by its file name, and the symbol. */
struct gsp_inject__query {
    const char *library;
    const char *symbol;
};

/* Fails with NOTSUP (a static program, or another C library), NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_inject__linker_find(pid_t pid, struct gsp_mem *mem,
                                           const struct gsp_maps *maps,
                                           const struct gsp_inject__query *query,
                                           struct gsp_inject__linker *out, struct gsp_err *err);
/* The address of the function if its library is loaded; otherwise 0. */
gsp_raddr gsp_inject__linker_find_loaded(pid_t pid, struct gsp_mem *mem,
                                         const struct gsp_maps *maps,
                                         const struct gsp_inject__query *query);
/* Returns whether no library is being loaded or unloaded. */
bool gsp_inject__linker_is_idle(const struct gsp_inject__linker *linker, struct gsp_mem *mem);

/* The kind of a mapped file, by its name. */
enum gsp_inject__file {
    GSP_LINKER_OTHER,
    GSP_LINKER_LIBC,
    GSP_LINKER_LIBDL,
    GSP_LINKER_LD,
    GSP_LINKER_MUSL,
};
enum gsp_inject__file gsp_inject__linker_file_of(const char *path);
