/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locate.h -- finds the interpreter in a process: its version and the address of its runtime.
 *
 * Reads:   the memory map; symbols from the target's memory, else from its files.
 * Gives:   the address of _PyRuntime and a validated layout.
 * Threads: no state.
 */
#pragma once

#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "proc/maps.h"
#include "proc/mem.h"
#include "py/layout.h"

struct gsp_py_runtime {
    gsp_raddr addr;          /* _PyRuntime */
    gsp_raddr image;         /* first byte of the ELF image that contains it */
    gsp_raddr code_type;     /* PyCode_Type; 0 if not found */
    gsp_raddr asyncio_debug; /* 3.14+: asyncio's debug section; 0 if it is not loaded */
    struct gsp_py_layout layout;
    char version[32]; /* "3.11.7" */
};

/* The process to search; all members are borrowed for the call. */
struct gsp_py_locate_input {
    pid_t pid; /* 0: no live process */
    struct gsp_mem *mem;
    const struct gsp_maps *maps;
    const char *exe; /* path of the executable; NULL if unknown */
};

/* Fails with NOTPY, VERSION (the message has the version), STARTING (not initialized yet), FORMAT
 * (the runtime is malformed), NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_locate(pid_t pid, struct gsp_mem *mem, struct gsp_py_runtime *out,
                                 struct gsp_err *err);
/* The same for a child of a process whose runtime is known: after a fork without exec the address
 * is the same. Fails with NOTPY if the child runs another program: the caller has to search it. */
GSP_MUST_CHECK int gsp_py__locate_forked(struct gsp_mem *mem, struct gsp_mem *parent_mem,
                                         const struct gsp_py_runtime *parent,
                                         struct gsp_py_runtime *out, struct gsp_err *err);
/* The same if the memory map is already known, as for a core file. */
GSP_MUST_CHECK int gsp_py__locate_in(const struct gsp_py_locate_input *input,
                                     struct gsp_py_runtime *out, struct gsp_err *err);
