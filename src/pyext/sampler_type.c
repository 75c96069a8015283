/* SPDX-License-Identifier: Apache-2.0 */
/* The Python type Sampler: samples of this process and its machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "pyext/pyapi.h"
#include "pyext/sampler.h"

struct object {
    PyObject_HEAD struct gsp_sampler *sampler;
};

static struct gsp_sampler *sampler_of(PyObject *self)
{
    return ((struct object *)(void *)self)->sampler;
}

static PyObject *object_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    double interval_s = 0;
    double first_s = 0;
    double tdp_watts = 0;
    int gpu = 0;
    int reset_peak = 1;
    if (!PyArg_ParseTuple(args, "ddpd|p:Sampler", &interval_s, &first_s, &gpu, &tdp_watts,
                          &reset_peak))
        return NULL;
    const struct gsp_sampler_opts opts = {
        .interval_ns = (int64_t)(interval_s * (double)GSP_NS_PER_S),
        .first_ns = (int64_t)(first_s * (double)GSP_NS_PER_S),
        .cpu_tdp_watts = tdp_watts,
        .gpu = gpu != 0,
        .reset_peak = reset_peak != 0,
    };
    const allocfunc alloc = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (!self)
        return NULL;
    /* Loading the drivers' libraries may take long. */
    PyThreadState *state = PyEval_SaveThread();
    struct gsp_sampler *sampler = gsp_pyext__sampler_new(&opts);
    PyEval_RestoreThread(state);
    ((struct object *)(void *)self)->sampler = sampler;
    if (!sampler) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return self;
}

static void object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct gsp_sampler *sampler = sampler_of(self);
    PyThreadState *state = PyEval_SaveThread();
    gsp_pyext__sampler_free(sampler);
    PyEval_RestoreThread(state);
    const freefunc release = (freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

/* Returns the begin as bytes, which Python passes back. */
static PyObject *object_begin(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct gsp_sampler_window_begin begin;
    struct gsp_sampler *sampler = sampler_of(self);
    PyThreadState *state = PyEval_SaveThread();
    gsp_pyext__sampler_begin(sampler, &begin);
    PyEval_RestoreThread(state);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)&begin, sizeof(begin));
    if (!bytes)
        gsp_pyext__sampler_end(sampler);
    return bytes;
}

static bool begin_of(PyObject *bytes, struct gsp_sampler_window_begin *begin)
{
    char *at = NULL;
    Py_ssize_t len = 0;
    if (PyBytes_AsStringAndSize(bytes, &at, &len) != 0)
        return false;
    if (len != (Py_ssize_t)sizeof(*begin)) {
        PyErr_SetString(PyExc_ValueError, "not a result of Sampler.begin()");
        return false;
    }
    memcpy(begin, at, sizeof(*begin));
    return true;
}

/* Steals the value: a new reference, or NULL. */
static void set(PyObject *dict, const char *name, PyObject *value)
{
    if (!value || PyDict_SetItemString(dict, name, value) != 0)
        PyErr_Clear();
    Py_XDECREF(value);
}

static void set_number(PyObject *dict, const char *name, double value)
{
    if (!isnan(value))
        set(dict, name, PyFloat_FromDouble(value));
}

static void set_bytes(PyObject *dict, const char *name, int64_t bytes)
{
    if (bytes >= 0)
        set(dict, name, PyLong_FromLongLong(bytes));
}

/* Unknown values are omitted. */
static PyObject *dict_of(const struct gsp_sampler_window *window)
{
    PyObject *dict = PyDict_New();
    if (!dict)
        return NULL;
    const double s = (double)GSP_NS_PER_S;
    set_number(dict, "wall_s", (double)(window->ended_ns - window->began_ns) / s);
    set_number(dict, "user_s", (double)window->user_ns / s);
    set_number(dict, "system_s", (double)window->system_ns / s);
    set_bytes(dict, "first_bytes", window->first_bytes);
    set_bytes(dict, "last_bytes", window->last_bytes);
    set_bytes(dict, "peak_bytes", window->peak_bytes);
    set_bytes(dict, "gpu_peak_bytes", window->gpu_peak_bytes);
    set_number(dict, "gpu_util_pct", window->gpu_util_pct);
    set_number(dict, "cpu_pct", window->cpu_pct);
    set_number(dict, "memory_pct", window->memory_pct);
    set_number(dict, "disk_pct", window->disk_pct);
    set_number(dict, "network_bytes", window->network_bytes);
    set_number(dict, "joules", window->joules);
    set_number(dict, "cores", window->cores);
    set(dict, "energy_counters", PyBool_FromLong((window->energy & GSP_SAMPLER_COUNTERS) != 0));
    set(dict, "energy_estimate", PyBool_FromLong((window->energy & GSP_SAMPLER_ESTIMATE) != 0));
    return dict;
}

static PyObject *object_so_far(PyObject *self, PyObject *bytes)
{
    struct gsp_sampler_window_begin begin;
    if (!begin_of(bytes, &begin))
        return NULL;
    struct gsp_sampler_window window;
    struct gsp_sampler *sampler = sampler_of(self);
    PyThreadState *state = PyEval_SaveThread();
    gsp_pyext__sampler_so_far(sampler, &begin, &window);
    PyEval_RestoreThread(state);
    return dict_of(&window);
}

static PyObject *object_end(PyObject *self, PyObject *bytes)
{
    PyObject *dict = object_so_far(self, bytes);
    gsp_pyext__sampler_end(sampler_of(self));
    return dict;
}

/* Returns seconds since the begin and anonymous bytes, for an open block. */
static PyObject *object_memory(PyObject *self, PyObject *bytes)
{
    struct gsp_sampler_window_begin begin;
    if (!begin_of(bytes, &begin))
        return NULL;
    size_t count = 0;
    struct gsp_sampler_memory_point *points =
        gsp_pyext__sampler_memory(sampler_of(self), begin.at_ns, INT64_MAX, &count);
    if (!points)
        return PyErr_NoMemory();
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *pair =
            Py_BuildValue("(dL)", (double)(points[i].at_ns - begin.at_ns) / (double)GSP_NS_PER_S,
                          (long long)points[i].anonymous_bytes);
        if (!pair || PyList_SetItem(list, (Py_ssize_t)i, pair) != 0) {
            Py_DECREF(list);
            list = NULL;
        }
    }
    free(points);
    return list;
}

static PyObject *object_gpu_share(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct gsp_sampler *sampler = sampler_of(self);
    PyThreadState *state = PyEval_SaveThread();
    const double share = gsp_pyext__sampler_gpu_share(sampler);
    PyEval_RestoreThread(state);
    if (isnan(share))
        Py_RETURN_NONE;
    return PyFloat_FromDouble(share);
}

static PyMethodDef methods[] = {
    {"begin", object_begin, METH_NOARGS, "begin() -> bytes\n\nBegins a block."},
    {"so_far", object_so_far, METH_O, "so_far(begin) -> dict\n\nReturns the measurements so far."},
    {"end", object_end, METH_O, "end(begin) -> dict\n\nEnds the block; returns its measurements."},
    {"memory", object_memory, METH_O,
     "memory(begin) -> list\n\nSeconds since the begin and anonymous bytes; before end()."},
    {"gpu_share", object_gpu_share, METH_NOARGS,
     "gpu_share() -> float or None\n\nUsed share of the fullest GPU's memory, 0 to 1."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot type_slots[] = {
    {Py_tp_new, GSP_PY_SLOT(object_new)},
    {Py_tp_dealloc, GSP_PY_SLOT(object_free)},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec type_spec = {
    .name = "gsprof._gsprof.Sampler",
    .basicsize = sizeof(struct object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = type_slots,
};

int gsp_pyext__sampler_add(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&type_spec);
    if (!type || PyModule_AddObject(module, "Sampler", type) != 0) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}
