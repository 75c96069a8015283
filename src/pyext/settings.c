/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "agent/agent.h"
#include "base/time.h"
#include "pyext/pyapi.h"

static double number_of(enum gsp_setting_id id)
{
    char text[GSP_CONTROL_VALUE];
    return gsp_agent_setting(id, text) ? PyOS_string_to_double(text, NULL, NULL) : 0;
}

static bool is_set(enum gsp_setting_id id)
{
    char text[GSP_CONTROL_VALUE];
    return gsp_agent_setting(id, text) && strcmp(text, "on") == 0;
}

/* Calls a callback; its exceptions are dropped, and a pending exception is preserved. */
static void call_quietly(PyObject *callable)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *result = PyObject_CallObject(callable, NULL);
    Py_XDECREF(result);
    PyErr_Restore(type, value, trace);
}

void gsp_pyext__settings_refresh(PyObject *module, struct gsp_pyext *state)
{
    (void)module;
    /* Relaxed: a change may be seen later, and no other data depend on it. */
    const uint64_t serial = atomic_load_explicit(gsp_agent_serial(), memory_order_relaxed);
    if (gsp_likely(serial == atomic_load_explicit(&state->serial, memory_order_relaxed)) ||
        (serial & 1U))
        return;
    atomic_store_explicit(&state->serial, serial, memory_order_relaxed);
    atomic_store_explicit(&state->spans_on, is_set(GSP_SET_spans), memory_order_relaxed);
    const double gc_ms = number_of(GSP_SET_stack_gc);
    state->gc_limit_ns = gc_ms > 0 && gc_ms < 1e9 ? (int64_t)(gc_ms * GSP_NS_PER_MS) : 0;
    if (state->on_change) {
        PyObject *callable = state->on_change;
        Py_INCREF(callable);
        call_quietly(callable);
        Py_DECREF(callable);
    }
    gsp_agent_applied(serial);
}

/* Returns the id of the setting; -1 with KeyError. */
static int find(PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text)
        return -1;
    const int id = gsp_wire_setting_row_find(gsp_sv_of(text));
    if (id < 0)
        PyErr_SetObject(PyExc_KeyError, name);
    return id;
}

static PyObject *get(PyObject *module, PyObject *name)
{
    (void)module;
    const int id = find(name);
    if (id < 0)
        return NULL;
    char text[GSP_CONTROL_VALUE];
    if (!gsp_agent_setting((enum gsp_setting_id)id, text))
        return PyUnicode_FromString(gsp_wire_setting_row((size_t)id)->fallback);
    return PyUnicode_FromString(text);
}

/* Parses (name, value) to the id and the value's canonical text; returns -1 with an exception. */
static int parse_pair(PyObject *args, char canonical[GSP_CONTROL_VALUE])
{
    PyObject *name = NULL;
    const char *value = NULL;
    if (!PyArg_ParseTuple(args, "Us", &name, &value))
        return -1;
    const int id = find(name);
    struct gsp_err err = {0};
    if (id >= 0 && gsp_wire_setting_row_check((size_t)id, gsp_sv_of(value), canonical, &err) != 0) {
        PyErr_SetString(PyExc_ValueError, err.msg);
        return -1;
    }
    return id;
}

static PyObject *check(PyObject *module, PyObject *args)
{
    (void)module;
    char canonical[GSP_CONTROL_VALUE];
    return parse_pair(args, canonical) < 0 ? NULL : PyUnicode_FromString(canonical);
}

static PyObject *set(PyObject *module, PyObject *args)
{
    char canonical[GSP_CONTROL_VALUE];
    const int id = parse_pair(args, canonical);
    if (id < 0)
        return NULL;
    const bool done = gsp_agent_set((enum gsp_setting_id)id, canonical);
    gsp_pyext__settings_refresh(module, gsp_pyext__state(module));
    return PyBool_FromLong(done);
}

static PyObject *describe(const struct gsp_wire_setting_row *row)
{
    static const char *const types[] = {
        [GSP_SETTING_BOOL] = "bool", [GSP_SETTING_NUMBER] = "number", [GSP_SETTING_TEXT] = "text"};
    return Py_BuildValue("ssss", row->name, types[row->type], row->fallback, row->doc);
}

static PyObject *settings(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    const struct gsp_wire_setting_row *row = NULL;
    bool ok = list != NULL;
    for (size_t i = 0; ok && (row = gsp_wire_setting_row(i)); i++) {
        PyObject *one = describe(row);
        ok = one && PyList_Append(list, one) == 0;
        Py_XDECREF(one);
    }
    if (ok)
        return list;
    Py_XDECREF(list);
    return NULL;
}

static PyObject *serial(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(
        atomic_load_explicit(gsp_agent_serial(), memory_order_relaxed));
}

static PyObject *refresh(PyObject *module, PyObject *unused)
{
    (void)unused;
    gsp_pyext__settings_refresh(module, gsp_pyext__state(module));
    Py_RETURN_NONE;
}

static void replace(PyObject **slot, PyObject *callable)
{
    PyObject *old = *slot;
    Py_XINCREF(callable);
    *slot = callable;
#ifdef GSP_FREE_THREADED
    /* Another thread may be about to call it: never freed, there are few. */
    (void)old;
#else
    Py_XDECREF(old);
#endif
}

/* Sets a callback: on_change(), on_span(...), on_slow_gc(ns), wrap(...). */
static PyObject *set_callback(PyObject *module, PyObject *args)
{
    const char *name = NULL;
    PyObject *callable = NULL;
    if (!PyArg_ParseTuple(args, "sO:set_callback", &name, &callable))
        return NULL;
    struct gsp_pyext *state = gsp_pyext__state(module);
    const struct {
        const char *name;
        PyObject **slot;
    } callbacks[] = {
        {"change", &state->on_change},
        {"span", &state->on_span},
        {"slow_gc", &state->on_slow_gc},
        {"wrap", &state->wrap},
    };
    for (size_t i = 0; i < GSP_COUNT(callbacks); i++) {
        if (strcmp(name, callbacks[i].name) == 0) {
            replace(callbacks[i].slot, callable == Py_None ? NULL : callable);
            Py_RETURN_NONE;
        }
    }
    PyErr_SetString(PyExc_KeyError, name);
    return NULL;
}

/* For gc.callbacks. Also applies changed settings: nearly every program collects garbage from time
 * to time. */
static PyObject *gc_callback(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct gsp_pyext *state = gsp_pyext__state(module);
    gsp_pyext__settings_refresh(module, state);
    gsp_pyext__memory_tick();
    if (state->gc_limit_ns == 0 || count < 1) {
        state->gc_began_ns = 0;
        Py_RETURN_NONE;
    }
    PyObject *keep = NULL;
    const struct gsp_sv phase = gsp_pyext__text(args[0], &keep);
    if (gsp_sv_starts(phase, "start")) {
        state->gc_began_ns = gsp_now_ns();
    } else if (state->gc_began_ns) {
        const int64_t took_ns = gsp_now_ns() - state->gc_began_ns;
        state->gc_began_ns = 0;
        if (took_ns >= state->gc_limit_ns && state->on_slow_gc) {
            PyObject *result = PyObject_CallFunction(state->on_slow_gc, "L", (long long)took_ns);
            if (!result)
                PyErr_Clear();
            Py_XDECREF(result);
        }
    }
    Py_XDECREF(keep);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"get", get, METH_O, "get(name) -> str\n\nReturns the value of a setting."},
    {"check", check, METH_VARARGS,
     "check(name, value) -> str\n\nReturns the canonical value; raises KeyError, ValueError."},
    {"set", set, METH_VARARGS,
     "set(name, value) -> bool\n\nFalse: the control page does not exist."},
    {"settings", settings, METH_NOARGS, "settings() -> [(name, type, default, description)]"},
    {"serial", serial, METH_NOARGS, "serial() -> int\n\nChanges with every change of a setting."},
    {"refresh", refresh, METH_NOARGS, "refresh()\n\nApplies changed settings."},
    {"set_callback", set_callback, METH_VARARGS, "set_callback(name, callable)"},
    {"gc_callback", GSP_PY_METHOD(gc_callback), METH_FASTCALL, "gc_callback(phase, info)"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__settings_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
