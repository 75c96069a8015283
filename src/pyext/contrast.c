/* SPDX-License-Identifier: Apache-2.0 */
/* Two lists of numbers compared, and growth over time, for Python. */
#include "stats/contrast.h"

#include <stdlib.h>

#include "pyext/pyapi.h"
#include "stats/growth.h"

/* Values beyond so many on a side are taken in blocks: the mean says no less, in less time. */
#define BLOCKS_MAX 1000

/* The numbers of a list, or NULL with an exception. */
static double *numbers_of(PyObject *list, size_t *count)
{
    const Py_ssize_t len = PyList_Size(list);
    if (len < 0) {
        return NULL;
    }
    double *numbers = malloc(((size_t)len + 1) * sizeof(*numbers));
    if (!numbers) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < len; i++) {
        numbers[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
    }
    if (PyErr_Occurred()) {
        free(numbers);
        return NULL;
    }
    *count = (size_t)len;
    return numbers;
}

static PyObject *contrast(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *lists[2] = {NULL, NULL};
    Py_ssize_t rounds = 0;
    double confidence = 0;
    if (!PyArg_ParseTuple(args, "OOnd", &lists[0], &lists[1], &rounds, &confidence)) {
        return NULL;
    }
    size_t counts[2] = {0, 0};
    double *first = numbers_of(lists[0], &counts[0]);
    double *second = first ? numbers_of(lists[1], &counts[1]) : NULL;
    PyObject *result = NULL;
    if (second && (counts[0] < 2 || counts[1] < 2 || rounds < 1)) {
        PyErr_SetString(PyExc_ValueError, "two values on either side are the least");
    } else if (second) {
        struct gsp_contrast out = {0};
        const double *const values[2] = {first, second};
        const struct gsp_contrast_opts opts = {.rounds = (size_t)rounds,
                                               .blocks_max = BLOCKS_MAX,
                                               .confidence = confidence,
                                               .ordered = true};
        PyThreadState *state = PyEval_SaveThread();
        const bool ok = gsp_stats_contrast(values, counts, &opts, &out);
        PyEval_RestoreThread(state);
        PyObject *exact = out.is_exact ? Py_True : Py_False;
        result = ok ? Py_BuildValue("(dddO)", out.low, out.high, out.p, exact) : PyErr_NoMemory();
    }
    free(first);
    free(second);
    return result;
}

static PyObject *growth(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *times = NULL;
    PyObject *values = NULL;
    size_t count = 0;
    size_t value_count = 0;
    if (!PyArg_ParseTuple(args, "OO", &times, &values)) {
        return NULL;
    }
    double *t = numbers_of(times, &count);
    double *v = t ? numbers_of(values, &value_count) : NULL;
    PyObject *result = NULL;
    if (v && count != value_count) {
        PyErr_SetString(PyExc_ValueError, "every value has its time");
    } else if (v) {
        const struct gsp_growth found = gsp_stats_growth(t, v, count);
        PyObject *grows = found.is_growing ? Py_True : Py_False;
        result = found.is_known ? Py_BuildValue("(Odd)", grows, found.slope, found.p)
                                : Py_BuildValue("");
    }
    free(t);
    free(v);
    return result;
}

static PyMethodDef functions[] = {
    {"contrast", contrast, METH_VARARGS,
     "contrast(a, b, rounds, confidence) -> (low, high, p, exact)\n\nThe difference of two means."},
    {"growth", growth, METH_VARARGS,
     "growth(seconds, bytes) -> (is_growing, slope, p) or None\n\nWhether memory grows for good; None "
     "when there is too little to see."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__contrast_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
