/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/time.h"
#include "pyext/torch.h"

/* Constants that the headers have since 3.12, 3.9 and 3.9; the bits are the same in 3.8. */
#define HAVE_VECTORCALL   (1UL << 11U)
#define METHOD_DESCRIPTOR (1UL << 17U)
#define OFFSET_BIT        ((size_t)1 << (8 * sizeof(size_t) - 1))

/* The cost of one call in this many is measured, for python.torch_step.overhead_ns. */
#define COST_PERIOD       16
/* A hook takes less than this: the thread was descheduled, or the module was new. */
#define COST_MAX_NS       40000
/* A longer time counts as at most this multiple of the mean. */
#define COST_TIMES_MAX    4

#define T                 gsp_pyext__torch

typedef PyObject *(*vectorcall_fn)(PyObject *, PyObject *const *, size_t, PyObject *);

/* Replaces a function of PyTorch. */
struct wrapper {
    PyObject_HEAD vectorcall_fn vectorcall;
    PyObject *original;
    PyObject *weak_references;
};

/* The arguments of one call of a module, in either calling convention. */
struct call {
    PyObject *module;
    PyObject *const *args; /* args[0] is the module; NULL: tuple and dict */
    size_t nargsf;
    PyObject *names;
    PyObject *tuple;
    PyObject *dict;
};

static PyObject *call_original(const struct call *call)
{
    return call->args ? T.vectorcall(T.original, call->args, call->nargsf, call->names)
                      : PyObject_Call(T.original, call->tuple, call->dict);
}

/* --------------------------------------------------------------------------------- known modules
 */

/* Lets the package name the module by its path in the model that is being called. */
static struct gsp_torch_module *name_new_module(const struct gsp_torch_thread *thread,
                                                PyObject *module)
{
    const int32_t up = thread->depth - 1;
    PyObject *parent = up >= 0 && up < GSP_TORCH_DEPTH ? thread->stack[up] : NULL;
    /* A module in the table is alive. */
    if (!parent || !gsp_pyext__torch_module_find(parent))
        parent = Py_None;
    PyObject *result =
        gsp_pyext__torch_call_python(T.name_module, Py_BuildValue("(OO)", module, parent));
    if (!result)
        return NULL;
    Py_DECREF(result);
    struct gsp_torch_module *known = gsp_pyext__torch_module_find(module);
    if (!known) {
        /* Our own error: do not try again at each call. */
        known = gsp_pyext__torch_module_put(module, gsp_sv_of("?"), gsp_sv_of(""), gsp_sv_of(""));
        PyErr_Clear();
    }
    return known;
}

/* Returns the entry of the module, with the current filters applied. Returns NULL if it has none;
 * an exception is then for the program. */
static struct gsp_torch_module *find_known(const struct gsp_torch_thread *thread, PyObject *module)
{
    struct gsp_torch_module *known = gsp_pyext__torch_module_find(module);
    const uint32_t filters = atomic_load_explicit(&T.filters, memory_order_relaxed);
    if (gsp_likely(known && known->filters == filters))
        return known;
    if (!known)
        known = T.name_module ? name_new_module(thread, module) : NULL;
    if (!known || known->filters == filters)
        return known;
    known->selected = true;
    if (T.is_selected) {
        PyObject *result =
            gsp_pyext__torch_call_python(T.is_selected, Py_BuildValue("(Os)", module, known->path));
        if (!result)
            return NULL;
        known->selected = result != Py_False;
        Py_DECREF(result);
    }
    known->filters = filters;
    return known;
}

/* --------------------------------------------------------------------------------- a traced call
 */

/* Passes the row to the package, which writes it when the GPU has finished the work. */
static int put_by_gpu(PyObject *token, struct gsp_torch_module *known,
                      struct gsp_row_python_torch_trace *row)
{
    gsp_pyext__torch_row_set_module(known, row);
    PyObject *result = gsp_pyext__torch_call_python(
        T.gpu, Py_BuildValue("(Oy#)", token, (const char *)row, (Py_ssize_t)sizeof(*row)));
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Passes the arguments of the call without the module itself; keyword arguments come last. */
static int hook_gradients(const struct call *call, struct gsp_torch_module *known, PyObject *output)
{
    if (call->args) {
        const size_t count = call->nargsf & ~OFFSET_BIT;
        const size_t more = call->names ? (size_t)PyTuple_Size(call->names) : 0;
        return gsp_pyext__torch_gradients_begin(known, call->args + 1, count - 1 + more, output);
    }
    PyObject *inputs[] = {call->tuple, call->dict};
    return gsp_pyext__torch_gradients_begin(known, inputs, call->dict ? 2 : 1, output);
}

/* Writes the row after the module has returned or raised. Returns -1 with an exception for the
 * program. */
static int finish(const struct call *call, struct gsp_torch_module *known, PyObject *output,
                  struct gsp_row_python_torch_trace *row, PyObject *token)
{
    row->stage = gsp_pyext__torch_stage_id(GSP_STAGE_FORWARD);
    int rc = 0;
    if (token) {
        rc = put_by_gpu(token, known, row);
    } else {
        gsp_pyext__torch_row_set_module(known, row);
        gsp_agent_put_torch(row);
    }
    if (rc == 0 && T.gradients && output)
        rc = hook_gradients(call, known, output);
    return rc;
}

/* Updates the cost of a call, a moving mean of those measured. A step gets longer by about twice
 * the time between the clock readings: add the call of the wrapper, the clocks themselves, and
 * caches. */
static void add_cost(int64_t between_ns)
{
    const int64_t own_ns = 2 * between_ns;
    const int64_t mean_ns = atomic_load_explicit(&T.hook_ns, memory_order_relaxed);
    if (own_ns >= COST_MAX_NS)
        return;
    /* The first calls touch new pages and cold code. They must not dominate: after 16 steps it is
     * decided whether all steps are traced. */
    const int64_t most_ns = COST_TIMES_MAX * mean_ns;
    const int64_t seen_ns = mean_ns && own_ns > most_ns ? most_ns : own_ns;
    const int64_t part = seen_ns < mean_ns / 2 ? 2 : 8;
    const int64_t next_ns = mean_ns ? mean_ns + (seen_ns - mean_ns) / part : own_ns;
    atomic_store_explicit(&T.hook_ns, next_ns, memory_order_relaxed);
}

static PyObject *call_traced(const struct call *call, struct gsp_torch_thread *thread,
                             struct gsp_torch_module *known, int64_t entered_ns)
{
    PyObject *token = NULL;
    if (gsp_unlikely(T.gpu != NULL)) {
        token = gsp_pyext__torch_call_python(T.gpu, PyTuple_New(0));
        if (!token)
            return NULL;
    }
    const int64_t seq = gsp_pyext__torch_next_seq(thread);
    const int64_t step = thread->step;
    thread->timed++;
    const int64_t began_ns = gsp_now_ns();
    PyObject *output = call_original(call);
    const int64_t ended_ns = gsp_now_ns();

    struct gsp_row_python_torch_trace row;
    gsp_pyext__torch_row_init(&row, thread, ended_ns);
    row.step = step;
    row.seq = seq;
    row.duration = (double)(ended_ns - began_ns) / GSP_NS_PER_S;
    const int rc = finish(call, known, output, &row, token);
    Py_XDECREF(token);
    if (entered_ns)
        add_cost(began_ns - entered_ns + gsp_now_ns() - ended_ns);
    if (gsp_unlikely(rc != 0))
        Py_CLEAR(output);
    return output;
}

/* An exception leaves a module: lets the package capture its stack. */
static GSP_COLD void report_error(void)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace && !gsp_pyext__torch_thread()->busy) {
        PyObject *result =
            gsp_pyext__torch_call_python(T.on_error, Py_BuildValue("(OO)", value, trace));
        Py_XDECREF(result);
    }
    /* The program's own exception takes precedence. */
    PyErr_Restore(type, value, trace);
}

static PyObject *call_watched(const struct call *call)
{
    struct gsp_torch_thread *thread = gsp_pyext__torch_thread();
    if (thread->busy)
        return call_original(call);
    const int64_t entered_ns = thread->calls++ % COST_PERIOD == 0 ? gsp_now_ns() : 0;
    const int32_t depth = thread->depth;
    struct gsp_torch_module *known = find_known(thread, call->module);
    if (gsp_unlikely(!known))
        return PyErr_Occurred() ? NULL : call_original(call);
    if (depth == 0 && known->is_root && gsp_pyext__torch_before_outermost(known) != 0)
        return NULL;
    if (depth < GSP_TORCH_DEPTH)
        thread->stack[depth] = call->module;
    thread->depth = depth + 1;
    const uint32_t mode = atomic_load_explicit(&T.mode, memory_order_relaxed);
    PyObject *output = (mode & GSP_TORCH_TRACE) && known->selected
                           ? call_traced(call, thread, known, entered_ns)
                           : call_original(call);
    /* Restored, not decremented: corrects what a coroutine or a signal handler left. */
    thread->depth = depth;
    return output;
}

static inline PyObject *enter(const struct call *call)
{
    if (gsp_unlikely(gsp_pyext__torch_stale()))
        gsp_pyext__torch_refresh();
    PyObject *output = gsp_likely(atomic_load_explicit(&T.mode, memory_order_relaxed) == 0)
                           ? call_original(call)
                           : call_watched(call);
    if (gsp_unlikely(!output && T.on_error))
        report_error();
    return output;
}

static PyObject *call_vector(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    (void)self;
    const struct call call = {
        .module = (nargsf & ~OFFSET_BIT) ? args[0] : NULL,
        .args = args,
        .nargsf = nargsf,
        .names = names,
    };
    return gsp_likely(call.module != NULL) ? enter(&call) : call_original(&call);
}

static PyObject *original_of(PyObject *self)
{
    return ((struct wrapper *)(void *)self)->original;
}

static PyObject *call_tuple(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (original_of(self) != T.original)
        return PyObject_Call(original_of(self), args, kwargs);
    const struct call call = {
        .module = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL,
        .tuple = args,
        .dict = kwargs,
    };
    return gsp_likely(call.module != NULL) ? enter(&call) : call_original(&call);
}

/* torch.autograd.backward: the whole pass is one row. */
static PyObject *call_backward(PyObject *self, PyObject *const *args, size_t nargsf,
                               PyObject *names)
{
    const uint32_t mode = atomic_load_explicit(&T.mode, memory_order_relaxed);
    const int64_t began_ns = (mode & GSP_TORCH_TRACE) ? gsp_now_ns() : 0;
    PyObject *result = T.vectorcall(original_of(self), args, nargsf, names);
    if (began_ns)
        gsp_pyext__torch_put_backward(began_ns);
    return result;
}

/* ------------------------------------------------------------------------------ the wrapper type
 */

static PyObject *method_type; /* types.MethodType */

/* Like a function: on an object it is a bound method. */
static PyObject *bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    if (!object || object == Py_None) {
        Py_INCREF(self);
        return self;
    }
    return PyObject_CallFunctionObjArgs(method_type, self, object, NULL);
}

/* All other attributes are the original's: name, signature, documentation, and class, so that
 * `inspect` and isinstance() treat the wrapper as the original function. */
static PyObject *get_attribute(PyObject *self, PyObject *name)
{
    if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) {
        Py_INCREF(original_of(self));
        return original_of(self);
    }
    static const char *const own[] = {"__reduce_ex__", "__get__", "__call__", "__eq__", "__ne__"};
    for (size_t i = 0; i < GSP_COUNT(own); i++)
        if (PyUnicode_CompareWithASCIIString(name, own[i]) == 0)
            return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(original_of(self), name);
}

static int set_attribute(PyObject *self, PyObject *name, PyObject *value)
{
    return PyObject_SetAttr(original_of(self), name, value);
}

static PyObject *represent(PyObject *self)
{
    return PyObject_Repr(original_of(self));
}

/* Equal to whatever the original is equal to: it may have other names (Module._call_impl). */
static PyObject *compare(PyObject *self, PyObject *other, int how)
{
    PyObject *them = Py_TYPE(other) == Py_TYPE(self) ? original_of(other) : other;
    return PyObject_RichCompare(original_of(self), them, how);
}

static Py_hash_t hash(PyObject *self)
{
    return PyObject_Hash(original_of(self));
}

/* Like functions, a copy is the object itself, and pickle stores the name. */
static PyObject *copy(PyObject *self, PyObject *args)
{
    (void)args;
    Py_INCREF(self);
    return self;
}

static PyObject *reduce(PyObject *self, PyObject *protocol)
{
    (void)protocol;
    const bool is_backward = ((struct wrapper *)(void *)self)->vectorcall == call_backward;
    return PyUnicode_FromString(is_backward ? "backward" : "Module.__call__");
}

static PyMethodDef methods[] = {
    {"__copy__", copy, METH_NOARGS, NULL},
    {"__deepcopy__", copy, METH_O, NULL},
    {"__reduce_ex__", reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* PyMemberDef, which 3.12 moved to another header. */
static const struct {
    const char *name;
    int type;
    Py_ssize_t offset;
    int flags;
    const char *doc;
} members[] = {
    {"__vectorcalloffset__", 19 /* Py_ssize_t */, offsetof(struct wrapper, vectorcall),
     1 /* read-only */, NULL},
    {"__weaklistoffset__", 19, offsetof(struct wrapper, weak_references), 1, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_call, GSP_PY_SLOT(call_tuple)},
    {Py_tp_descr_get, GSP_PY_SLOT(bind)},
    {Py_tp_getattro, GSP_PY_SLOT(get_attribute)},
    {Py_tp_setattro, GSP_PY_SLOT(set_attribute)},
    {Py_tp_repr, GSP_PY_SLOT(represent)},
    {Py_tp_richcompare, GSP_PY_SLOT(compare)},
    {Py_tp_hash, GSP_PY_SLOT(hash)},
    {Py_tp_methods, GSP_PY_SLOT((uintptr_t)methods)},
    {Py_tp_members, GSP_PY_SLOT((uintptr_t)members)},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "_gsprof.ModuleCall",
    .basicsize = sizeof(struct wrapper),
    .flags = Py_TPFLAGS_DEFAULT | METHOD_DESCRIPTOR,
    .slots = slots,
};

/* Returns the function that calls the original without a tuple; NULL if not available. */
static vectorcall_fn find_vectorcall(void)
{
    const PyObject *version = PySys_GetObject("hexversion");
    const long hex = version ? PyLong_AsLong((PyObject *)(uintptr_t)version) : 0;
    if (hex < 0x03090000)
        return NULL; /* heap types support vectorcall since 3.9 */
    /* The first exists since 3.11, the second until 3.12 and for functions only. */
    void *found = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");
    if (!found && PyObject_HasAttrString(T.original, "__code__"))
        found = dlsym(RTLD_DEFAULT, "_PyFunction_Vectorcall");
    vectorcall_fn function = NULL;
    memcpy(&function, &found, sizeof(function));
    return function;
}

/* Returns the type of wrappers; NULL with an exception. */
static PyTypeObject *wrapper_type(void)
{
    static PyObject *type;
    if (type)
        return (PyTypeObject *)type;
    T.vectorcall = find_vectorcall();
    spec.flags |= T.vectorcall ? HAVE_VECTORCALL : 0;
    if (!T.vectorcall)
        slots[GSP_COUNT(slots) - 2] = (PyType_Slot){0, NULL}; /* 3.8 does not support the members */
    PyObject *types = PyImport_ImportModule("types");
    method_type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    Py_XDECREF(types);
    type = method_type ? PyType_FromSpec(&spec) : NULL;
    return (PyTypeObject *)type;
}

static struct wrapper *make_wrapper(PyObject *original, vectorcall_fn vectorcall)
{
    PyTypeObject *type = wrapper_type();
    struct wrapper *wrapper = type ? PyObject_New(struct wrapper, type) : NULL;
    if (wrapper) {
        wrapper->vectorcall = vectorcall;
        Py_INCREF(original);
        wrapper->original = original;
        wrapper->weak_references = NULL;
    }
    return wrapper;
}

/* ---------------------------------------------------------------------------------- for Python */

static PyObject *install(PyObject *self, PyObject *original)
{
    static struct wrapper *wrapper;
    (void)self;
    if (T.original && T.original != original && !PyObject_HasAttrString(original, "__code__")) {
        PyErr_SetString(PyExc_TypeError, "not a function");
        return NULL;
    }
    if (T.original != original) {
        /* The previous one may be running: never freed. */
        Py_INCREF(original);
        T.original = original;
        T.serial_word = gsp_agent_serial();
        T.generation_word = gsp_agent_generation();
        /* An odd value forces a refresh: serials are even. */
        atomic_store_explicit(&T.serial, 1, memory_order_relaxed);
    }
    if (!wrapper) {
        wrapper = make_wrapper(original, call_vector);
    } else if (wrapper->original != original) {
        Py_INCREF(original);
        wrapper->original = original;
    }
    Py_XINCREF(wrapper);
    return (PyObject *)wrapper;
}

/* torch_backward(original) -> callable or None */
static PyObject *wrap_backward(PyObject *self, PyObject *original)
{
    (void)self;
    PyTypeObject *type = wrapper_type();
    if (type && !T.vectorcall)
        Py_RETURN_NONE;
    return (PyObject *)make_wrapper(original, call_backward);
}

/* torch_callback(name, callable or None) */
static PyObject *set_callback(PyObject *self, PyObject *args)
{
    (void)self;
    static const struct {
        const char *name;
        PyObject **at;
    } callbacks[] = {
        {"name_module", &T.name_module},
        {"is_selected", &T.is_selected},
        {"gpu", &T.gpu},
        {"on_settings", &T.on_settings},
        {"on_step", &T.on_step},
        {"on_sampled", &T.on_sampled},
        {"on_measure", &T.on_measure},
        {"on_error", &T.on_error},
    };
    const char *name = NULL;
    PyObject *callable = NULL;
    if (!PyArg_ParseTuple(args, "sO:torch_callback", &name, &callable))
        return NULL;
    for (size_t i = 0; i < GSP_COUNT(callbacks); i++) {
        if (strcmp(callbacks[i].name, name) == 0) {
            /* The old one may be in use by another thread: never freed, there are few. */
            Py_INCREF(callable);
            *callbacks[i].at = callable == Py_None ? NULL : callable;
            Py_RETURN_NONE;
        }
    }
    PyErr_Format(PyExc_ValueError, "unknown callback %s", name);
    return NULL;
}

/* torch_name(module, path, class, device, is_root, has_children[, model]) */
static PyObject *set_name(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *module = NULL;
    PyObject *words[4] = {NULL, NULL, NULL, NULL};
    int is_root = 0;
    int has_children = 0;
    if (!PyArg_ParseTuple(args, "OUUUpp|U:torch_name", &module, &words[0], &words[1], &words[2],
                          &is_root, &has_children, &words[3]))
        return NULL;
    PyObject *keep[4] = {NULL, NULL, NULL, NULL};
    struct gsp_sv texts[4] = {{0}};
    for (size_t i = 0; i < GSP_COUNT(texts) && words[i]; i++)
        texts[i] = gsp_pyext__text(words[i], &keep[i]);
    struct gsp_torch_module *known =
        gsp_pyext__torch_module_put(module, texts[0], texts[1], texts[2]);
    if (known && texts[3].len > 0 && !known->model)
        known->model = gsp_sv_dup(texts[3]);
    for (size_t i = 0; i < GSP_COUNT(keep); i++)
        Py_XDECREF(keep[i]);
    if (!known)
        return NULL;
    known->is_root = known->is_root || is_root;
    known->has_children = has_children;
    Py_RETURN_NONE;
}

/* torch_path(module) -> str or None */
static PyObject *path_of(PyObject *self, PyObject *module)
{
    (void)self;
    const struct gsp_torch_module *known = gsp_pyext__torch_module_find(module);
    if (!known)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(known->path, (Py_ssize_t)strlen(known->path), "replace");
}

static PyObject *refresh(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (T.original && gsp_pyext__torch_stale())
        gsp_pyext__torch_refresh();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"torch_install", install, METH_O,
     "torch_install(original) -> callable\n\nReturns the wrapper of Module.__call__."},
    {"torch_backward", wrap_backward, METH_O,
     "torch_backward(original) -> callable or None\n\nReturns the wrapper of "
     "torch.autograd.backward; None if it has to be Python."},
    {"torch_callback", set_callback, METH_VARARGS, "torch_callback(name, callable or None)"},
    {"torch_name", set_name, METH_VARARGS,
     "torch_name(module, path, class, device, is_root, has_children[, model])"},
    {"torch_path", path_of, METH_O, "torch_path(module) -> str or None"},
    {"torch_refresh", refresh, METH_NOARGS, "torch_refresh()\n\nApplies changed settings."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__torch_add(PyObject *module)
{
    if (PyModule_AddFunctions(module, functions) != 0)
        return -1;
    int rc = gsp_pyext__torch_step_add(module);
    rc = rc == 0 ? gsp_pyext__torch_grad_add(module) : rc;
    return rc == 0 ? gsp_pyext__torch_rows_add(module) : rc;
}
