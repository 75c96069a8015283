/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyapi.h -- the door to Python.h, and what the files of this folder share.
 *
 * One file _gsprof.abi3.so serves CPython 3.8 and later, so only the limited API of 3.8 is used,
 * and functions that every version since exports though the limited API of 3.8 leaves them out.
 * The build for a free-threaded interpreter, which has no limited API, is a file of its own.
 *
 * Used by: every file of pyext/.
 * Threads: functions want an attached thread state (the GIL, where there is one).
 *
 * A part of the extension is a .c file with gsp_pyext__<part>_add(module), called by module.c.
 */
#pragma once

#ifndef GSP_FREE_THREADED
#define Py_LIMITED_API 0x03080000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* Functions that get their arguments as an array: so called since 3.7, in the limited API since
 * 3.10. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

#ifdef Py_LIMITED_API
/* Exported since 3.3 and 3.7.1; in the limited API since 3.10, and not at all. */
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *len);
PyAPI_FUNC(PyObject *) PyContextVar_New(const char *name, PyObject *fallback);
PyAPI_FUNC(int) PyContextVar_Get(PyObject *var, PyObject *fallback, PyObject **value);
PyAPI_FUNC(PyObject *) PyContextVar_Set(PyObject *var, PyObject *value);
#endif

/* Casts between the shapes of functions that method tables and slots ask for. */
#define GSP_PY_METHOD(function) ((PyCFunction)(void (*)(void))(function))
#define GSP_PY_SLOT(function)   (__extension__(void *)(function))

/* What each interpreter has of its own: a module's state. */
struct gsp_pyext {
    PyObject *span_type;
    PyObject *current;   /* context variable: the innermost open span */
    PyObject *wrap;      /* Python: makes a span's decorated function */
    PyObject *on_span;   /* Python: called at the end of spans, or NULL */
    PyObject *on_change; /* Python: called when a setting has changed, or NULL */
    PyObject *on_slow_gc;
    _Atomic uint64_t serial; /* of the settings that were taken up */
    int64_t gc_began_ns;
    int64_t gc_limit_ns; /* 0: no stack of a collection is asked for */
    _Atomic bool spans_on;
    bool watches_forks; /* after_fork() is registered */
    struct gsp_pyext_name {
        PyObject *text;
        uint32_t generation;
        uint32_t id;
    } names[256]; /* ids of span names, by the address of their text */
};

struct gsp_pyext *gsp_pyext__state(PyObject *module); /* never NULL */

int gsp_pyext__arrow_add(PyObject *module);
int gsp_pyext__blas_add(PyObject *module);
int gsp_pyext__compare_add(PyObject *module);
int gsp_pyext__forks_add(PyObject *module);
int gsp_pyext__lines_part_add(PyObject *module);
int gsp_pyext__mem_engine_add(PyObject *module);
int gsp_pyext__memory_add(PyObject *module);
int gsp_pyext__rows_add(PyObject *module);
int gsp_pyext__sampler_add(PyObject *module);
int gsp_pyext__settings_add(PyObject *module);
int gsp_pyext__span_add(PyObject *module);
int gsp_pyext__timer_add(PyObject *module);
int gsp_pyext__torch_add(PyObject *module);
int gsp_pyext__user_table_add(PyObject *module);

/* The bytes of a str, lone surrogates replaced.  *keep is a new reference to what holds them, or
 * NULL when text itself does.  Never fails: what cannot be had is "". */
struct gsp_sv gsp_pyext__text(PyObject *text, PyObject **keep);
/* Appends a member to a JSON object that is open: "" or "{..." in the buffer.  What is no number,
 * text or list of them is written as its str(), cut; errors are swallowed. */
void gsp_pyext__json_member(struct gsp_buf *out, struct gsp_sv name, PyObject *value);

/* The 11 of Python 3.11. */
uint32_t gsp_pyext__minor(void);
/* Whether the caller is in the main interpreter of the process. */
bool gsp_pyext__is_main(void);
/* The kernel's id of this thread; right after fork too. */
int64_t gsp_pyext__thread_id(void);
/* Calls gsprof._memory._tick() if that is due: one relaxed load if not. */
void gsp_pyext__memory_tick(void);
/* Takes up the settings if they have changed: one relaxed load if not. */
void gsp_pyext__refresh(PyObject *module, struct gsp_pyext *state);
