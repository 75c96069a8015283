/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of two lists of numbers, and the test for memory growth, for Python. */
#include "stats/compare.h"

#include <stdlib.h>

#include "pyext/pyapi.h"
#include "stats/growth.h"

/* Longer lists are divided into this many blocks: the means are as good, and faster to compute. */
#define BLOCKS_MAX 1000

/* Returns the numbers of a list, to be freed by the caller; NULL with an exception. */
static double *numbers_of(PyObject *list, size_t *count)
{
    const Py_ssize_t len = PyList_Size(list);
    if (len < 0)
        return NULL;
    double *numbers = malloc(((size_t)len + 1) * sizeof(*numbers));
    if (!numbers) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < len; i++)
        numbers[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
    if (PyErr_Occurred()) {
        free(numbers);
        return NULL;
    }
    *count = (size_t)len;
    return numbers;
}

static PyObject *compare(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *lists[2] = {NULL, NULL};
    Py_ssize_t rounds = 0;
    double confidence = 0;
    if (!PyArg_ParseTuple(args, "OOnd", &lists[0], &lists[1], &rounds, &confidence))
        return NULL;
    size_t counts[2] = {0, 0};
    double *first = numbers_of(lists[0], &counts[0]);
    double *second = first ? numbers_of(lists[1], &counts[1]) : NULL;
    PyObject *result = NULL;
    if (second && (counts[0] < 2 || counts[1] < 2 || rounds < 1)) {
        PyErr_SetString(PyExc_ValueError, "each list needs at least two values");
    } else if (second) {
        struct gsp_stats_comparison out = {0};
        const double *const values[2] = {first, second};
        const struct gsp_stats_comparison_opts opts = {.rounds = (size_t)rounds,
                                                       .blocks_max = BLOCKS_MAX,
                                                       .confidence = confidence,
                                                       .ordered = true};
        PyThreadState *state = PyEval_SaveThread();
        const bool ok = gsp_stats_compare(values, counts, &opts, &out);
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
    if (!PyArg_ParseTuple(args, "OO", &times, &values))
        return NULL;
    double *t = numbers_of(times, &count);
    double *v = t ? numbers_of(values, &value_count) : NULL;
    PyObject *result = NULL;
    if (v && count != value_count) {
        PyErr_SetString(PyExc_ValueError, "the lists differ in length");
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
    {"compare", compare, METH_VARARGS,
     "compare(a, b, rounds, confidence) -> (low, high, p, exact)\n\nThe difference of two means."},
    {"growth", growth, METH_VARARGS,
     "growth(seconds, bytes) -> (is_growing, slope, p) or None\n\nWhether memory keeps growing; None "
     "if there are too few values."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__compare_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
