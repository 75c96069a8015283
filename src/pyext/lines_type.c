/* SPDX-License-Identifier: Apache-2.0 */
/* Receives lines from a trace function or from sys.monitoring. Python decides once for each code
 * object whether it is measured. */
#include <dlfcn.h>

#include "pyext/lines.h"
#include "pyext/pyapi.h"

typedef int (*trace_function)(PyObject *self, PyObject *frame, int what, PyObject *arg);

/* Exported by every interpreter since 3.8 or 3.9, but not in the limited API. */
static struct {
    void (*set_trace)(trace_function function, PyObject *self);
    int (*line_of)(PyObject *frame);
    PyObject *(*code_of)(PyObject *frame); /* NULL: 3.8 */
} api;

/* Python: returns (first line, number of lines) of a code object; 0 lines: not measured. */
static PyObject *on_code;
/* sys.monitoring.DISABLE: a callback returns it to disable its event at that location. */
static PyObject *disable;

/* Values of PyTrace_CALL etc., the same in all versions. */
enum what {
    WHAT_CALL = 0,
    WHAT_LINE = 2,
    WHAT_RETURN = 3,
};

static void find_api(void)
{
    *(void **)&api.set_trace = dlsym(RTLD_DEFAULT, "PyEval_SetTrace");
    *(void **)&api.line_of = dlsym(RTLD_DEFAULT, "PyFrame_GetLineNumber");
    *(void **)&api.code_of = dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
}

/* Adds a new code object. */
static struct gsp_pyext_code_lines *add_code(PyObject *code)
{
    int first = 0;
    Py_ssize_t count = 0;
    PyObject *result =
        on_code ? PyObject_CallFunctionObjArgs(on_code, code, NULL) : PyErr_NoMemory();
    if (!result || !PyArg_ParseTuple(result, "in", &first, &count)) {
        PyErr_Clear();
        count = 0;
    }
    Py_XDECREF(result);
    /* on_code() runs code too, which may have added it meanwhile. */
    struct gsp_pyext_code_lines *lines = gsp_pyext__lines_find(code);
    if (!lines) {
        Py_INCREF(code);
        lines = gsp_pyext__lines_add(code, first, count > 0 ? (size_t)count : 0);
        if (!lines)
            Py_DECREF(code);
    }
    return lines;
}

/* Returns NULL if the code is not measured. */
static struct gsp_pyext_code_lines *selected(PyObject *code)
{
    struct gsp_pyext_code_lines *lines = gsp_pyext__lines_find(code);
    if (!lines)
        lines = add_code(code);
    return lines && lines->count > 0 ? lines : NULL;
}

/* ------------------------------------------------------------------ a trace function */

static struct gsp_pyext_code_lines *selected_of(PyObject *frame)
{
    PyObject *code = api.code_of ? api.code_of(frame) : PyObject_GetAttrString(frame, "f_code");
    if (!code) {
        PyErr_Clear();
        return NULL;
    }
    struct gsp_pyext_code_lines *lines = selected(code);
    Py_DECREF(code);
    return lines;
}

static int trace(PyObject *self, PyObject *frame, int what, PyObject *arg)
{
    (void)self;
    (void)arg;
    if (what == WHAT_LINE) {
        const int line = api.line_of(frame);
        if (gsp_unlikely(!gsp_pyext__lines_line(frame, line))) {
            struct gsp_pyext_code_lines *lines = selected_of(frame);
            if (lines)
                gsp_pyext__lines_enter(frame, lines, line);
        }
    } else if (what == WHAT_CALL) {
        struct gsp_pyext_code_lines *lines = selected_of(frame);
        if (lines)
            gsp_pyext__lines_call(frame, lines);
    } else if (what == WHAT_RETURN) {
        gsp_pyext__lines_return(frame);
    }
    if (gsp_unlikely(!gsp_pyext__lines_is_on()))
        api.set_trace(NULL, NULL);
    return 0;
}

/* For threading.settrace(): called first in a new thread. */
static PyObject *lines_thread(PyObject *module, PyObject *args)
{
    (void)module;
    (void)args;
    if (gsp_pyext__lines_is_on())
        api.set_trace(trace, NULL);
    Py_RETURN_NONE;
}

static PyObject *lines_start(PyObject *module, PyObject *traced)
{
    (void)module;
    const int by_trace = PyObject_IsTrue(traced);
    if (by_trace < 0)
        return NULL;
    find_api();
    if (by_trace && (!api.set_trace || !api.line_of))
        Py_RETURN_FALSE;
    gsp_pyext__lines_start();
    if (by_trace)
        api.set_trace(trace, NULL);
    Py_RETURN_TRUE;
}

static PyObject *lines_stop(PyObject *module, PyObject *traced)
{
    (void)module;
    const int by_trace = PyObject_IsTrue(traced);
    if (by_trace < 0)
        return NULL;
    if (by_trace)
        api.set_trace(NULL, NULL);
    gsp_pyext__lines_stop();
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ sys.monitoring */

static PyObject *return_disable(void)
{
    PyObject *answer = disable ? disable : Py_None;
    Py_INCREF(answer);
    return answer;
}

static PyObject *lines_line(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    const long line = count == 2 ? PyLong_AsLong(args[1]) : -1;
    if (gsp_unlikely(line < 0)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    if (gsp_unlikely(!gsp_pyext__lines_line(args[0], (int)line))) {
        struct gsp_pyext_code_lines *lines = selected(args[0]);
        if (!lines)
            return return_disable();
        gsp_pyext__lines_enter(args[0], lines, (int)line);
    }
    Py_RETURN_NONE;
}

static PyObject *lines_call(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    struct gsp_pyext_code_lines *lines = count > 0 ? selected(args[0]) : NULL;
    if (!lines)
        return return_disable();
    gsp_pyext__lines_call(args[0], lines);
    Py_RETURN_NONE;
}

/* Called for returns and yields. */
static PyObject *lines_return(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count == 0 || !selected(args[0]))
        return return_disable();
    gsp_pyext__lines_return(args[0]);
    Py_RETURN_NONE;
}

/* Called when an exception enters or leaves a frame; these events cannot be disabled. */
static PyObject *lines_throw(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    struct gsp_pyext_code_lines *lines = count > 0 ? selected(args[0]) : NULL;
    if (lines)
        gsp_pyext__lines_call(args[0], lines);
    Py_RETURN_NONE;
}

static PyObject *lines_unwind(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count > 0 && selected(args[0]))
        gsp_pyext__lines_return(args[0]);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ results */

static PyObject *hits_of(const struct gsp_pyext_code_lines *lines)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < lines->count; i++) {
        if (lines->at[i].hits == 0)
            continue;
        PyObject *row =
            Py_BuildValue("(nKL)", (Py_ssize_t)lines->first + (Py_ssize_t)i,
                          (unsigned long long)lines->at[i].hits, (long long)lines->at[i].ns);
        const bool ok = row && PyList_Append(list, row) == 0;
        Py_XDECREF(row);
        if (!ok) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static bool put_code(void *user, const struct gsp_pyext_code_lines *lines)
{
    PyObject **out = user;
    if (lines->count == 0)
        return true;
    PyObject *hits = hits_of(lines);
    PyObject *pair = hits ? PyTuple_Pack(2, (PyObject *)lines->code, hits) : NULL;
    Py_XDECREF(hits);
    if (!pair || PyList_Append(*out, pair) != 0)
        Py_CLEAR(*out);
    Py_XDECREF(pair);
    return *out != NULL;
}

static PyObject *lines_counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    if (list)
        gsp_pyext__lines_each(put_code, &list);
    return list;
}

static PyObject *lines_setup(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function = NULL;
    PyObject *answer = NULL;
    if (!PyArg_ParseTuple(args, "OO:lines_setup", &function, &answer))
        return NULL;
    Py_INCREF(function);
    Py_XDECREF(on_code);
    on_code = function;
    Py_INCREF(answer);
    Py_XDECREF(disable);
    disable = answer;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"lines_setup", lines_setup, METH_VARARGS,
     "lines_setup(on_code, disable)\n\non_code(code) -> (first line, lines); 0 lines: not "
     "measured."},
    {"lines_start", lines_start, METH_O,
     "lines_start(traced) -> bool\n\nStarts counting; traced: with a trace function."},
    {"lines_stop", lines_stop, METH_O, "lines_stop(traced)"},
    {"lines_thread", lines_thread, METH_VARARGS, "lines_thread(...)\n\nFor threading.settrace()."},
    {"lines_line", GSP_PY_METHOD(lines_line), METH_FASTCALL, "lines_line(code, line)"},
    {"lines_call", GSP_PY_METHOD(lines_call), METH_FASTCALL, "lines_call(code, ...)"},
    {"lines_return", GSP_PY_METHOD(lines_return), METH_FASTCALL, "lines_return(code, ...)"},
    {"lines_throw", GSP_PY_METHOD(lines_throw), METH_FASTCALL, "lines_throw(code, ...)"},
    {"lines_unwind", GSP_PY_METHOD(lines_unwind), METH_FASTCALL, "lines_unwind(code, ...)"},
    {"lines_counts", lines_counts, METH_NOARGS,
     "lines_counts() -> [(code, [(line, hits, ns), ...]), ...]"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__lines_type_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
