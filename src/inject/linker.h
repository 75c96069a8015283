/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linker.h -- where a process has the functions that load a library.
 *
 * Reads:   the target's memory map and the symbols in its memory.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/maps.h"
#include "proc/mem.h"

struct gsp_inject__linker {
    gsp_raddr open;     /* dlopen() or what the C library itself uses */
    gsp_raddr find;     /* dlsym() */
    gsp_raddr error;    /* dlerror(); 0 when there is none */
    gsp_raddr raw_call; /* syscall(); 0 when there is none */
    gsp_raddr state;    /* _r_debug.r_state; 0 when it cannot be found */
    int open_flags;
    gsp_raddr loaded; /* the wanted function, if its library is there already; else 0 */
};

/* What is to be looked for: a library by the name of its file, and a function in it. */
struct gsp_inject__want {
    const char *library;
    const char *symbol;
};

/* Fails with NOTSUP (no dlopen: a static program, another C library), NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_inject__linker_find(pid_t pid, struct gsp_mem *mem,
                                           const struct gsp_maps *maps,
                                           const struct gsp_inject__want *want,
                                           struct gsp_inject__linker *out, struct gsp_err *err);
/* Whether nobody is adding or removing libraries at this moment. */
bool gsp_inject__linker_is_calm(const struct gsp_inject__linker *linker, struct gsp_mem *mem);

/* What kind of file a mapping is of, by its name. */
enum gsp_inject__file {
    GSP_LINKER_OTHER,
    GSP_LINKER_LIBC,
    GSP_LINKER_LIBDL,
    GSP_LINKER_LD,
    GSP_LINKER_MUSL,
};
enum gsp_inject__file gsp_inject__linker_file_of(const char *path);
