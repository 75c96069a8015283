/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/agent.h"
#include "pyext/pyapi.h"

struct gsp_pyext *gsp_pyext__state(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *start(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong((long)gsp_agent_start());
}

static PyObject *stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    /* May wait for threads that are writing a row; they never need the GIL. */
    gsp_agent_stop();
    Py_RETURN_NONE;
}

static PyObject *is_on(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(gsp_agent_is_on());
}

/* The limited API has these since 3.9; in 3.8 the first one has another name. */
bool gsp_pyext__is_main(void)
{
    void *(*current)(void) = NULL;
    void *(*main_one)(void) = NULL;
    *(void **)&current = dlsym(RTLD_DEFAULT, "PyInterpreterState_Get");
    if (!current)
        *(void **)&current = dlsym(RTLD_DEFAULT, "_PyInterpreterState_Get");
    *(void **)&main_one = dlsym(RTLD_DEFAULT, "PyInterpreterState_Main");
    return !current || !main_one || current() == main_one();
}

static PyObject *is_main(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(gsp_pyext__is_main());
}

static PyObject *rank(PyObject *module, PyObject *number)
{
    (void)module;
    const long long value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred())
        return NULL;
    gsp_agent_set_rank(value);
    Py_RETURN_NONE;
}

static PyObject *mark(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned int set = 0;
    unsigned int clear = 0;
    if (!PyArg_ParseTuple(args, "II:mark", &set, &clear))
        return NULL;
    gsp_agent_mark(set, clear);
    Py_RETURN_NONE;
}

static PyObject *allow_tracing(PyObject *module, PyObject *number)
{
    (void)module;
    const long pid = PyLong_AsLong(number);
    if (pid == -1 && PyErr_Occurred())
        return NULL;
    /* Fails without the Yama module, where no permission is needed. */
    return PyBool_FromLong(prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0) == 0);
}

/* Layout of a traceback before 3.11; not in the limited API. */
struct traceback {
    PyObject_HEAD PyObject *next;
    PyObject *frame;
    int lasti;
    int lineno;
};

static bool is_old_traceback(PyObject *object)
{
    const PyObject *version = PySys_GetObject("hexversion");
    const long hex = version ? PyLong_AsLong((PyObject *)(uintptr_t)version) : 0;
    PyObject *size = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__basicsize__");
    const bool fits = size && PyLong_AsLong(size) == (long)sizeof(struct traceback);
    Py_XDECREF(size);
    PyErr_Clear();
    return fits && hex >= 0x03080000 && hex < 0x030b0000;
}

/* Overwrites a traceback's first entry with its second. Before 3.11 a bare `raise` continues with
 * the caught traceback, even if __traceback__ was set since, so the entry itself has to change. */
static PyObject *drop_entry(PyObject *module, PyObject *object)
{
    (void)module;
    struct traceback *first = (struct traceback *)(void *)object;
    if (!is_old_traceback(object) || !first->next)
        Py_RETURN_FALSE;
    PyObject *next = first->next;
    PyObject *frame = first->frame;
    const struct traceback *second = (struct traceback *)(void *)next;
    first->next = second->next;
    first->frame = second->frame;
    first->lasti = second->lasti;
    first->lineno = second->lineno;
    Py_XINCREF(first->next);
    Py_INCREF(first->frame);
    Py_DECREF(frame);
    Py_DECREF(next);
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"start", start, METH_NOARGS,
     "start() -> int\n\nCreates the ring directory and the control page; 0: ok."},
    {"stop", stop, METH_NOARGS, "stop()\n\nStops recording."},
    {"is_on", is_on, METH_NOARGS, "is_on() -> bool"},
    {"is_main", is_main, METH_NOARGS,
     "is_main() -> bool\n\nWhether the caller is in the main interpreter of the process."},
    {"rank", rank, METH_O, "rank(n)\n\nSets the rank of this process for later rows."},
    {"mark", mark, METH_VARARGS, "mark(set, clear)\n\nChanges bits of the control page's state."},
    {"allow_tracing", allow_tracing, METH_O,
     "allow_tracing(pid) -> bool\n\nLets that process (-1: any of this user) trace this one."},
    {"drop_entry", drop_entry, METH_O,
     "drop_entry(traceback) -> bool\n\nRemoves the first entry in place; only before 3.11."},
    {NULL, NULL, 0, NULL},
};

static int add_parts(PyObject *module)
{
    memset(gsp_pyext__state(module), 0, sizeof(struct gsp_pyext));
    if (PyModule_AddFunctions(module, functions) != 0 ||
        PyModule_AddStringConstant(module, "version", gsp_agent_version()) != 0 ||
        PyModule_AddIntConstant(module, "LOADED", GSP_CONTROL_LOADED) != 0 ||
        PyModule_AddIntConstant(module, "PYTHON", GSP_CONTROL_PYTHON) != 0 ||
        PyModule_AddIntConstant(module, "TORCH", GSP_CONTROL_TORCH) != 0)
        return -1;
    static int (*const parts[])(PyObject *) = {
        gsp_pyext__arrow_add,    gsp_pyext__blas_add,       gsp_pyext__compare_add,
        gsp_pyext__forks_add,    gsp_pyext__lines_type_add, gsp_pyext__mem_engine_add,
        gsp_pyext__memory_add,   gsp_pyext__rows_add,       gsp_pyext__sampler_add,
        gsp_pyext__settings_add, gsp_pyext__span_add,       gsp_pyext__timer_add,
        gsp_pyext__torch_add,    gsp_pyext__user_table_add,
    };
    for (size_t i = 0; i < GSP_COUNT(parts); i++)
        if (parts[i](module) != 0)
            return -1;
    return 0;
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    const struct gsp_pyext *state = PyModule_GetState(module);
    if (state) {
        Py_VISIT(state->span_type);
        Py_VISIT(state->current);
        Py_VISIT(state->wrap);
        Py_VISIT(state->on_span);
        Py_VISIT(state->on_change);
        Py_VISIT(state->on_slow_gc);
    }
    return 0;
}

static int clear_state(PyObject *module)
{
    struct gsp_pyext *state = PyModule_GetState(module);
    if (!state)
        return 0;
    Py_CLEAR(state->span_type);
    Py_CLEAR(state->current);
    Py_CLEAR(state->wrap);
    Py_CLEAR(state->on_span);
    Py_CLEAR(state->on_change);
    Py_CLEAR(state->on_slow_gc);
    for (size_t i = 0; i < GSP_COUNT(state->names); i++)
        Py_CLEAR(state->names[i].text);
    return 0;
}

static void free_state(void *module)
{
    (void)clear_state(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, GSP_PY_SLOT(add_parts)},
#ifdef GSP_FREE_THREADED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    /* No Py_mod_multiple_interpreters: 3.8 rejects a module with it. Without it, interpreters with
     * their own GIL (3.12 and later) reject the module. */
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_gsprof",
    .m_doc = "The Python half of the agent: settings, rows and spans.",
    .m_size = sizeof(struct gsp_pyext),
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit__gsprof(void);

PyMODINIT_FUNC PyInit__gsprof(void)
{
    return PyModuleDef_Init(&definition);
}
