/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of this process for Python: memory_now() and MemorySampler. */
#include <stdlib.h>

#include "base/time.h"
#include "pyext/memwatch.h"
#include "pyext/pyapi.h"

struct sampler {
    PyObject_HEAD struct gsp_memwatch *watch;
};

static struct gsp_memwatch *watch_of(PyObject *self)
{
    return ((struct sampler *)(void *)self)->watch;
}

/* -1 (not known) becomes None. */
static PyObject *tuple_of(const struct gsp_memwatch_sample *memory)
{
    const int64_t bytes[] = {memory->resident_bytes, memory->reserved_bytes, memory->device_bytes,
                             memory->nonfile_bytes};
    PyObject *tuple = PyTuple_New((Py_ssize_t)GSP_COUNT(bytes) + 1);
    PyObject *at = tuple ? PyLong_FromLongLong(memory->at_ns) : NULL;
    if (!at || PyTuple_SetItem(tuple, 0, at) != 0) {
        Py_XDECREF(tuple);
        return NULL;
    }
    for (size_t i = 0; i < GSP_COUNT(bytes); i++) {
        PyObject *number = Py_None;
        Py_INCREF(number);
        if (bytes[i] >= 0) {
            Py_DECREF(number);
            number = PyLong_FromLongLong(bytes[i]);
        }
        if (!number || PyTuple_SetItem(tuple, (Py_ssize_t)i + 1, number) != 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static PyObject *memory_now(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    struct gsp_memwatch_sample now;
    gsp_pyext__memory_sample(NULL, &now);
    return tuple_of(&now);
}

static PyObject *sampler_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    double interval_ms = 0;
    unsigned long long set_context = 0;
    unsigned long long get_info = 0;
    unsigned long long context = 0;
    if (!PyArg_ParseTuple(args, "d|KKK", &interval_ms, &set_context, &get_info, &context))
        return NULL;
    const struct gsp_memwatch_device device = {
        .set_context = (int (*)(void *))(uintptr_t)set_context,
        .get_info = (int (*)(size_t *, size_t *))(uintptr_t)get_info,
        .context = (void *)(uintptr_t)context,
    };
    const allocfunc alloc = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (!self)
        return NULL;
    struct gsp_memwatch *watch =
        gsp_pyext__memwatch_new((int64_t)(interval_ms * (double)GSP_NS_PER_MS), &device);
    ((struct sampler *)(void *)self)->watch = watch;
    if (!watch) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return self;
}

static void sampler_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct gsp_memwatch *watch = watch_of(self);
    PyThreadState *state = PyEval_SaveThread();
    gsp_pyext__memwatch_free(watch);
    PyEval_RestoreThread(state);
    const freefunc release = (freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *sampler_start(PyObject *self, PyObject *with_thread)
{
    const int wanted = PyObject_IsTrue(with_thread);
    if (wanted < 0)
        return NULL;
    struct gsp_memwatch *watch = watch_of(self);
    PyThreadState *state = PyEval_SaveThread();
    const bool ok = gsp_pyext__memwatch_start(watch, wanted != 0);
    PyEval_RestoreThread(state);
    return PyBool_FromLong(ok);
}

static PyObject *sampler_stop(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct gsp_memwatch *watch = watch_of(self);
    PyThreadState *state = PyEval_SaveThread();
    gsp_pyext__memwatch_stop(watch);
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

static PyObject *sampler_is_on(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(gsp_pyext__memwatch_is_on(watch_of(self)));
}

static PyObject *sampler_peak(PyObject *self, PyObject *unused)
{
    (void)unused;
    size_t count = 0;
    struct gsp_memwatch_sample peak;
    struct gsp_memwatch_sample *samples =
        gsp_pyext__memwatch_samples(watch_of(self), &count, &peak);
    if (!samples)
        return PyErr_NoMemory();
    free(samples);
    return tuple_of(&peak);
}

static PyObject *sampler_samples(PyObject *self, PyObject *unused)
{
    (void)unused;
    size_t count = 0;
    struct gsp_memwatch_sample peak;
    struct gsp_memwatch_sample *samples =
        gsp_pyext__memwatch_samples(watch_of(self), &count, &peak);
    if (!samples)
        return PyErr_NoMemory();
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *tuple = tuple_of(&samples[i]);
        if (!tuple || PyList_SetItem(list, (Py_ssize_t)i, tuple) != 0) {
            Py_DECREF(list);
            list = NULL;
        }
    }
    free(samples);
    return list;
}

static PyMethodDef sampler_methods[] = {
    {"start", sampler_start, METH_O,
     "start(with_thread) -> bool\n\nFalse: the thread cannot start."},
    {"stop", sampler_stop, METH_NOARGS, "stop()\n\nTakes the last sample."},
    {"is_on", sampler_is_on, METH_NOARGS, "is_on() -> bool"},
    {"peak", sampler_peak, METH_NOARGS, "peak() -> (0, resident, reserved, device, None)"},
    {"samples", sampler_samples, METH_NOARGS,
     "samples() -> [(ns, resident, reserved, device, nonfile), ...]\n\nBytes; None: not known."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sampler_slots[] = {
    {Py_tp_new, GSP_PY_SLOT(sampler_new)},
    {Py_tp_dealloc, GSP_PY_SLOT(sampler_free)},
    {Py_tp_methods, sampler_methods},
    {Py_tp_doc, (char[]){"MemorySampler(interval_ms[, set_context, get_info, context])\n\n"
                         "Samples memory in a thread that never needs the GIL."}},
    {0, NULL},
};

static PyType_Spec sampler_spec = {
    .name = "gsprof._gsprof.MemorySampler",
    .basicsize = sizeof(struct sampler),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = sampler_slots,
};

static PyMethodDef functions[] = {
    {"memory_now", memory_now, METH_NOARGS,
     "memory_now() -> (ns, resident, reserved, None, nonfile)"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__memory_add(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&sampler_spec);
    const int rc = type && PyModule_AddFunctions(module, functions) == 0
                       ? PyObject_SetAttrString(module, "MemorySampler", type)
                       : -1;
    Py_XDECREF(type);
    return rc;
}
