/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locate.h -- finds the interpreter in a process: which version, where its runtime is.
 *
 * Reads:   the memory map; symbols from the target's own memory, else from its files.
 * Gives:   the address of _PyRuntime and a validated layout.
 * Used by: py/target.c, cli/ (doctor).
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
    gsp_raddr image;         /* first byte of the ELF image that has it */
    gsp_raddr code_type;     /* PyCode_Type; 0 when it could not be found */
    gsp_raddr asyncio_debug; /* 3.14+: what asyncio tells of itself; 0 when it is not loaded */
    struct gsp_py_layout layout;
    char version[32]; /* "3.11.7" */
};

/* Where an interpreter is looked for; all borrowed for the call. */
struct gsp_py_place {
    pid_t pid; /* 0: no live process */
    struct gsp_mem *mem;
    const struct gsp_maps *maps;
    const char *exe; /* path of the executable, NULL when unknown */
};

/* Fails with NOTPY, VERSION (the message names the one found), STARTING (found, but not
 * initialised yet), FORMAT (its memory makes no sense), NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_locate(pid_t pid, struct gsp_mem *mem, struct gsp_py_runtime *out,
                                 struct gsp_err *err);
/* The same for a process that was forked from one whose runtime is known: it is where it was
 * there, unless the process has become another program since (NOTPY: search it). */
GSP_MUST_CHECK int gsp_py_locate_forked(struct gsp_mem *mem, struct gsp_mem *parent_mem,
                                        const struct gsp_py_runtime *parent,
                                        struct gsp_py_runtime *out, struct gsp_err *err);
/* The same where the map is known already: a core file. */
GSP_MUST_CHECK int gsp_py_locate_in(const struct gsp_py_place *place, struct gsp_py_runtime *out,
                                    struct gsp_err *err);
