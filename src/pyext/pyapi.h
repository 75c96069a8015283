/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyapi.h -- includes Python.h, and declares what the files of this folder share.
 *
 * One file, _gsprof.abi3.so, serves CPython 3.8 and later. So it uses only the limited API of 3.8,
 * and functions that all versions since export though that API lacks them. Free-threaded
 * interpreters have no limited API; for them a second file is built.
 *
 * Threads: callers have an attached thread state (the GIL, where there is one).
 *
 * Each part of the extension is a .c file with gsp_pyext__<part>_add(module), called by module.c.
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

/* Exists since 3.7; in the limited API since 3.10. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

#ifdef Py_LIMITED_API
/* The first is exported since 3.3 and in the limited API since 3.10; the others are exported since
 * 3.7.1 and not in it. */
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *len);
PyAPI_FUNC(PyObject *) PyContextVar_New(const char *name, PyObject *fallback);
PyAPI_FUNC(int) PyContextVar_Get(PyObject *var, PyObject *fallback, PyObject **value);
PyAPI_FUNC(PyObject *) PyContextVar_Set(PyObject *var, PyObject *value);
#endif

/* Casts to the function types of method tables and slots. */
#define GSP_PY_METHOD(function) ((PyCFunction)(void (*)(void))(function))
#define GSP_PY_SLOT(function)   (__extension__(void *)(function))

/* State of the module, one per interpreter. */
struct gsp_pyext {
    PyObject *span_type;
    PyObject *current;   /* context variable: the innermost open span */
    PyObject *wrap;      /* Python: decorates a function with a span */
    PyObject *on_span;   /* Python: called at the end of spans, or NULL */
    PyObject *on_change; /* Python: called when settings have changed, or NULL */
    PyObject *on_slow_gc;
    _Atomic uint64_t serial; /* of the settings applied last */
    int64_t gc_began_ns;
    int64_t gc_limit_ns; /* collections longer than this capture a stack; 0: none */
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
int gsp_pyext__lines_type_add(PyObject *module);
int gsp_pyext__mem_engine_add(PyObject *module);
int gsp_pyext__memory_add(PyObject *module);
int gsp_pyext__rows_add(PyObject *module);
int gsp_pyext__sampler_add(PyObject *module);
int gsp_pyext__settings_add(PyObject *module);
int gsp_pyext__span_add(PyObject *module);
int gsp_pyext__timer_add(PyObject *module);
int gsp_pyext__torch_add(PyObject *module);
int gsp_pyext__user_table_add(PyObject *module);

/* Returns the bytes of a str, lone surrogates replaced. *keep is a new reference to the object that
 * holds them, or NULL if text itself does. Never fails: returns "" instead. */
struct gsp_sv gsp_pyext__text(PyObject *text, PyObject **keep);
/* Appends a member to an open JSON object: the buffer has "" or "{...". Values other than numbers,
 * texts, lists and dictionaries are written as their str(), truncated; errors are swallowed. */
void gsp_pyext__json_member(struct gsp_buf *out, struct gsp_sv name, PyObject *value);

/* Returns the minor version: 11 for Python 3.11. */
uint32_t gsp_pyext__python_minor(void);
/* Whether the caller is in the main interpreter of the process. */
bool gsp_pyext__is_main(void);
/* Returns the kernel's id of this thread; also correct in a child of fork. */
int64_t gsp_pyext__thread_id(void);
/* Calls gsprof._memory._tick() if it is due; else one relaxed load. */
void gsp_pyext__memory_tick(void);
/* Applies the settings if they have changed; else one relaxed load. */
void gsp_pyext__settings_refresh(PyObject *module, struct gsp_pyext *state);
