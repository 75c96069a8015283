/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>

#include "base/time.h"
#include "pyext/torch.h"

#define TABLE          GSP_TABLE_python_torch_trace
/* CO_OPTIMIZED and CO_NEWLOCALS of code objects. */
#define FUNCTION_FLAGS 3

struct gsp_torch_thread *gsp_pyext__torch_thread(void)
{
    static _Thread_local struct gsp_torch_thread thread;
    return &thread;
}

static uint32_t stamp_now(void)
{
    return atomic_load_explicit(gsp_pyext__torch.generation_word, memory_order_relaxed) + 1;
}

static uint32_t id_of(const char *text)
{
    return text[0] ? gsp_agent_intern(TABLE, gsp_sv_of(text)) : GSP_NULL_STR;
}

uint32_t gsp_pyext__torch_stage_id(enum gsp_torch_stage stage)
{
    static const char *const names[GSP_STAGES] = {"forward", "backward", "step"};
    static _Atomic uint64_t known[GSP_STAGES]; /* stamp << 32 | id */
    const uint32_t stamp = stamp_now();
    const uint64_t have = atomic_load_explicit(&known[stage], memory_order_relaxed);
    if (gsp_likely(have >> 32U == stamp))
        return (uint32_t)have;
    const uint32_t id = id_of(names[stage]);
    atomic_store_explicit(&known[stage], (uint64_t)stamp << 32U | id, memory_order_relaxed);
    return id;
}

void gsp_pyext__torch_row_init(struct gsp_row_python_torch_trace *row,
                               struct gsp_torch_thread *thread, int64_t now_ns)
{
    const uint32_t stamp = stamp_now();
    if (gsp_unlikely(thread->stamp != stamp)) {
        thread->stamp = stamp;
        thread->thread_id = gsp_pyext__thread_id();
    }
    const double none = gsp_null_f64();
    /* Not by an initializer, for which compilers clear the whole struct first. */
    row->ts_ns = now_ns + gsp_pyext__torch.realtime_ns;
    row->mono_ns = now_ns;
    row->step = thread->step;
    row->seq = 0;
    row->module = GSP_NULL_STR;
    row->stage = GSP_NULL_STR;
    row->allocated = none;
    row->max_allocated = none;
    row->cached = none;
    row->duration = none;
    row->thread_id = thread->thread_id;
    row->device = GSP_NULL_STR;
    row->class = GSP_NULL_STR;
    row->flops = none;
}

void gsp_pyext__torch_row_set_module(struct gsp_torch_module *module,
                                     struct gsp_row_python_torch_trace *row)
{
    const uint32_t stamp = stamp_now();
    if (gsp_unlikely(module->stamp != stamp)) {
        module->path_id = id_of(module->path);
        module->class_id = id_of(module->class_name);
        module->device_id = id_of(module->device);
        module->stamp = stamp;
    }
    row->module = module->path_id;
    row->class = module->class_id;
    row->device = module->device_id;
}

PyObject *gsp_pyext__torch_call_python(PyObject *callable, PyObject *args)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    struct gsp_torch_thread *thread = gsp_pyext__torch_thread();
    const bool was_busy = thread->busy;
    thread->busy = true;
    PyObject *result = args ? PyObject_CallObject(callable, args) : NULL;
    thread->busy = was_busy;
    Py_XDECREF(args);
    const bool for_program =
        !result && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception);
    if (for_program && !type)
        return NULL;
    if (!result) {
        PyErr_Clear();
        Py_INCREF(Py_None);
        result = Py_None;
    }
    PyErr_Restore(type, value, trace);
    return result;
}

static PyObject *now(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLongLong(gsp_now_ns());
}

void gsp_pyext__torch_put_stage(enum gsp_torch_stage stage, const char *module,
                                const char *class_name, int64_t began_ns, int64_t ended_ns)
{
    struct gsp_torch_thread *thread = gsp_pyext__torch_thread();
    const int64_t seq = gsp_pyext__torch_next_seq(thread);
    struct gsp_row_python_torch_trace row;
    gsp_pyext__torch_row_init(&row, thread, ended_ns);
    row.seq = seq;
    row.stage = gsp_pyext__torch_stage_id(stage);
    row.module = id_of(module);
    row.class = id_of(class_name);
    row.duration = (double)(ended_ns - began_ns) / GSP_NS_PER_S;
    gsp_agent_put_torch(&row);
}

/* torch_stage_row(stage, module, class, began_ns, ended_ns) */
static PyObject *stage_row(PyObject *self, PyObject *args)
{
    (void)self;
    int stage = 0;
    const char *module = NULL;
    const char *class_name = NULL;
    long long began_ns = 0;
    long long ended_ns = 0;
    if (!PyArg_ParseTuple(args, "issLL:torch_stage_row", &stage, &module, &class_name, &began_ns,
                          &ended_ns))
        return NULL;
    if (stage >= 0 && stage < GSP_STAGES) {
        gsp_pyext__torch_put_stage((enum gsp_torch_stage)stage, module, class_name, began_ns,
                                   ended_ns);
    }
    Py_RETURN_NONE;
}

/* torch_gpu_row(row, duration or None, allocated, max_allocated, cached): writes the row that was
 * passed to gpu(), now that its duration is known or given up. */
static PyObject *gpu_row(PyObject *self, PyObject *args)
{
    (void)self;
    const char *bytes = NULL;
    Py_ssize_t len = 0;
    struct gsp_row_python_torch_trace row;
    PyObject *duration = NULL;
    double memory[3] = {0, 0, 0};
    if (!PyArg_ParseTuple(args, "y#Oddd:torch_gpu_row", &bytes, &len, &duration, &memory[0],
                          &memory[1], &memory[2]))
        return NULL;
    if ((size_t)len != sizeof(row)) {
        PyErr_SetString(PyExc_ValueError, "not a row");
        return NULL;
    }
    memcpy(&row, bytes, sizeof(row));
    row.duration = duration == Py_None ? gsp_null_f64() : PyFloat_AsDouble(duration);
    if (PyErr_Occurred())
        return NULL;
    row.allocated = memory[0];
    row.max_allocated = memory[1];
    row.cached = memory[2];
    return PyBool_FromLong(gsp_agent_put_torch(&row));
}

/* Clears the dictionary of a function's locals if only we hold it: it would keep the current values
 * alive as long as the function runs. */
static void clear_locals(PyObject *frame, PyObject *locals)
{
    PyObject *code = PyObject_GetAttrString(frame, "f_code");
    PyObject *flags = code ? PyObject_GetAttrString(code, "co_flags") : NULL;
    const long known = flags ? PyLong_AsLong(flags) : 0;
    if (known > 0 && (known & FUNCTION_FLAGS) == FUNCTION_FLAGS && PyDict_CheckExact(locals) &&
        Py_REFCNT(locals) == 2)
        PyDict_Clear(locals);
    Py_XDECREF(flags);
    Py_XDECREF(code);
    PyErr_Clear();
}

/* torch_local(frame, name): returns a local variable. Uses PyFrame_GetVar() if it exists:
 * until 3.12, f_locals creates a dictionary of all variables that lives as long as the frame. */
static PyObject *local(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *frame = NULL;
    PyObject *name = NULL;
    if (!PyArg_ParseTuple(args, "OU:torch_local", &frame, &name))
        return NULL;
    static PyObject *(*get_var)(PyObject *, PyObject *);
    if (!get_var) {
        void *found = dlsym(RTLD_DEFAULT, "PyFrame_GetVar");
        memcpy(&get_var, &found, sizeof(get_var));
    }
    PyObject *value = get_var ? get_var(frame, name) : NULL;
    if (value)
        return value;
    /* Not a local of a function: the frame of a module has only a dictionary. */
    PyErr_Clear();
    PyObject *locals = PyObject_GetAttrString(frame, "f_locals");
    value = locals ? PyObject_GetItem(locals, name) : NULL;
    if (value && !get_var)
        clear_locals(frame, locals);
    Py_XDECREF(locals);
    return value;
}

static PyMethodDef functions[] = {
    {"torch_now", now, METH_NOARGS, "torch_now() -> int\n\nReturns the clock of the rows, in ns."},
    {"torch_stage_row", stage_row, METH_VARARGS,
     "torch_stage_row(stage, module, class, began_ns, ended_ns)"},
    {"torch_gpu_row", gpu_row, METH_VARARGS, "torch_gpu_row(row, duration, *memory) -> bool"},
    {"torch_local", local, METH_VARARGS, "torch_local(frame, name)"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__torch_rows_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
