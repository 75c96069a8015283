/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backward pass of each module, measured by hooks on its input and output tensors: it begins
 * when the gradient of an output is known and ends when those of all inputs are.
 *
 * The output of one module is mostly the input of the next, so a tensor has one hook for all of
 * them. The hook is an object of a C type, stored directly in the dictionary that
 * Tensor.register_hook() uses: half of the cost of that function is the handle that it returns.
 */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "pyext/torch.h"

#define T         gsp_pyext__torch
/* Depth of nested containers that are searched for tensors. */
#define DEPTH_MAX 3
/* Most open passes. A program that never calls backward() (it uses torch.autograd.grad()) must not
 * fill the memory. */
#define OPEN_MAX  65536U
#ifdef GSP_FREE_THREADED
static PyMutex mutex;
#define LOCK()   PyMutex_Lock(&mutex)
#define UNLOCK() PyMutex_Unlock(&mutex)
#else
/* The GIL is enough. */
#define LOCK()   ((void)0)
#define UNLOCK() ((void)0)
#endif

/* The backward pass of one call of a module. */
struct pass {
    uint32_t refs;
    uint32_t inputs; /* whose gradients end it; 0: the next pass, or the end of the whole, does */
    uint32_t left;   /* inputs without a gradient so far */
    uint32_t stamp;  /* of the ids: in another generation of the agent they are invalid */
    uint32_t path_id;
    uint32_t class_id;
    uint32_t device_id;
    bool has_children;
    bool is_through; /* the module returned its input unchanged */
    bool is_open;
    int64_t began_ns;
    struct pass *older; /* in the list of open passes */
    struct pass *newer;
};

/* The role of a tensor's gradient in the pass of a module. */
struct mark {
    struct pass *pass;
    bool enters;
};

struct hook {
    PyObject_HEAD struct mark *marks;
    uint32_t count;
    uint32_t cap;
};

static struct {
    PyObject *tensor_type;
    PyObject *dict_type;   /* OrderedDict */
    PyObject *get_tracing; /* torch._C._get_tracing_state */
    PyObject *hook_type;
    PyObject *hooks_name;
    PyObject *function_name;
    PyObject *adopt_name;
    PyObject *register_name;
    PyObject *key;       /* a hook of no tensor: PyTorch 1.13 reads the mark from the key */
    struct pass *oldest; /* of the open passes */
    struct pass *newest;
    struct pass *last; /* of a module without inputs to wait for: ends when another begins */
    uint32_t open_count;
    bool is_official; /* this PyTorch needs Tensor.register_hook() */
} G;

/* ---------------------------------------------------------------------------------- passes */

static void release_pass(struct pass *pass)
{
    if (--pass->refs == 0)
        free(pass);
}

static void close_pass(struct pass *pass)
{
    *(pass->older ? &pass->older->newer : &G.oldest) = pass->newer;
    *(pass->newer ? &pass->newer->older : &G.newest) = pass->older;
    pass->is_open = false;
    G.open_count--;
    if (G.last == pass)
        G.last = NULL;
    release_pass(pass);
}

static void open_pass(struct pass *pass, int64_t now_ns)
{
    if (G.open_count == OPEN_MAX)
        close_pass(G.oldest);
    pass->refs++;
    pass->is_open = true;
    pass->began_ns = now_ns;
    pass->left = pass->inputs;
    pass->older = G.newest;
    pass->newer = NULL;
    *(G.newest ? &G.newest->newer : &G.oldest) = pass;
    G.newest = pass;
    G.open_count++;
    if (pass->inputs == 0 && !pass->has_children)
        G.last = pass;
}

static void end_pass(struct pass *pass, int64_t now_ns)
{
    struct gsp_torch_thread *thread = gsp_pyext__torch_thread();
    const int64_t seq = gsp_pyext__torch_next_seq(thread);
    struct gsp_row_python_torch_trace row;
    gsp_pyext__torch_row_init(&row, thread, now_ns);
    row.seq = seq;
    row.stage = gsp_pyext__torch_stage_id(GSP_STAGE_BACKWARD);
    row.module = pass->path_id;
    row.class = pass->class_id;
    row.device = pass->device_id;
    row.duration = (double)(now_ns - pass->began_ns) / GSP_NS_PER_S;
    if (pass->stamp == thread->stamp)
        gsp_agent_put_torch(&row);
    close_pass(pass);
}

void gsp_pyext__torch_gradients_end(int64_t began_ns, int64_t now_ns)
{
    LOCK();
    while (G.newest && G.newest->began_ns >= began_ns)
        end_pass(G.newest, now_ns);
    UNLOCK();
}

/* ----------------------------------------------------------------------------------- hooks */

static struct hook *as_hook(PyObject *object)
{
    return (struct hook *)(void *)object;
}

/* Called when a gradient is known. */
static PyObject *hook_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    const struct hook *hook = as_hook(self);
    const int64_t now_ns = gsp_now_ns();
    LOCK();
    if (G.last)
        end_pass(G.last, now_ns);
    for (uint32_t i = 0; i < hook->count; i++) {
        struct pass *pass = hook->marks[i].pass;
        if (!hook->marks[i].enters && pass->is_open && pass->left > 0 && --pass->left == 0)
            end_pass(pass, now_ns);
    }
    for (uint32_t i = 0; i < hook->count; i++) {
        struct pass *pass = hook->marks[i].pass;
        if (!hook->marks[i].enters || pass->is_open)
            continue;
        open_pass(pass, now_ns);
        if (pass->is_through)
            end_pass(pass, now_ns);
    }
    UNLOCK();
    const struct gsp_torch_thread *border =
        atomic_load_explicit(&T.border_thread, memory_order_relaxed);
    if (border && border != gsp_pyext__torch_thread())
        atomic_store_explicit(&T.elsewhere, true, memory_order_relaxed);
    /* The cost of PyTorch's own work around a hook (the GIL, an object for the gradient) cannot be
     * measured here. It is estimated by the cost of installing one, which is too little; comparing
     * steps with and without hooks corrects it (see torch_cost.c). */
    gsp_pyext__torch_cost_add_ns(atomic_load_explicit(&T.hook_ns, memory_order_relaxed));
    Py_RETURN_NONE;
}

static void hook_free(PyObject *self)
{
    struct hook *hook = as_hook(self);
    PyTypeObject *type = Py_TYPE(self);
    LOCK();
    for (uint32_t i = 0; i < hook->count; i++)
        release_pass(hook->marks[i].pass);
    UNLOCK();
    free(hook->marks);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* PyTorch warns when it saves a tensor with hooks that lack this mark. */
static PyObject *hook_mark(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    Py_RETURN_TRUE;
}

static PyGetSetDef hook_fields[] = {
    {"__torch_unserializable__", hook_mark, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot hook_slots[] = {
    {Py_tp_call, GSP_PY_SLOT(hook_call)},
    {Py_tp_dealloc, GSP_PY_SLOT(hook_free)},
    {Py_tp_getset, hook_fields},
    {0, NULL},
};

static PyType_Spec hook_spec = {
    .name = "_gsprof.GradientHook",
    .basicsize = sizeof(struct hook),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = hook_slots,
};

static PyObject *hook_new(void)
{
    struct hook *hook = PyObject_New(struct hook, (PyTypeObject *)(void *)G.hook_type);
    if (hook) {
        hook->marks = NULL;
        hook->count = 0;
        hook->cap = 0;
    }
    return (PyObject *)hook;
}

/* Returns false if the tensor already has a role in this pass, or if out of memory. */
static bool hook_add(struct hook *hook, struct pass *pass, bool enters)
{
    for (uint32_t i = 0; i < hook->count; i++) {
        if (hook->marks[i].pass == pass) {
            /* A module that changes a tensor in place gives it a new gradient and new hooks. */
            pass->is_through |= !enters && hook->marks[i].enters && i > 0;
            return false;
        }
    }
    if (hook->count == hook->cap) {
        const uint32_t cap = hook->cap ? hook->cap * 2 : 2;
        struct mark *grown = realloc(hook->marks, cap * sizeof(*grown));
        if (!grown)
            return false;
        hook->marks = grown;
        hook->cap = cap;
    }
    LOCK();
    pass->refs++;
    UNLOCK();
    hook->marks[hook->count++] = (struct mark){pass, enters};
    return true;
}

/* --------------------------------------------------------------------------------- tensors */

/* Creates the dictionary of the tensor's hooks; returns a new reference, or NULL with an
 * exception. */
static PyObject *make_hooks(PyObject *tensor, PyObject *function)
{
    PyObject *hooks = PyObject_CallObject(G.dict_type, NULL);
    if (!hooks || PyObject_SetAttr(tensor, G.hooks_name, hooks) != 0) {
        Py_XDECREF(hooks);
        return NULL;
    }
    PyObject *done = PyObject_CallMethodObjArgs(function, G.adopt_name, tensor, NULL);
    if (!done) {
        Py_DECREF(hooks);
        return NULL;
    }
    Py_DECREF(done);
    return hooks;
}

/* Installs a hook on a tensor that has none; returns a new reference, or NULL with an exception. */
static PyObject *put_hook(PyObject *tensor, PyObject *function, PyObject *hooks)
{
    PyObject *hook = hook_new();
    int rc = -1;
    if (hook && (G.is_official || Py_TYPE(tensor) != (PyTypeObject *)G.tensor_type)) {
        PyObject *handle = PyObject_CallMethodObjArgs(tensor, G.register_name, hook, NULL);
        rc = handle ? 0 : -1;
        Py_XDECREF(handle);
    } else if (hook) {
        PyObject *target = hooks == Py_None ? make_hooks(tensor, function) : hooks;
        if (target)
            rc = PyObject_SetItem(target, G.key, hook);
        else
            G.is_official = true;
        if (target != hooks)
            Py_XDECREF(target);
    }
    if (rc != 0)
        Py_CLEAR(hook);
    return hook;
}

/* Returns our hook of the tensor, borrowed; NULL if it has none. */
static PyObject *find_hook(PyObject *hooks)
{
    if (hooks == Py_None || !PyDict_Check(hooks))
        return NULL;
    PyObject *found = PyDict_GetItemWithError(hooks, G.key);
    return found && (PyObject *)Py_TYPE(found) == G.hook_type ? found : NULL;
}

/* Adds the tensor to the pass; returns whether it was added. */
static bool mark_tensor(PyObject *tensor, struct pass *pass, bool enters)
{
    PyObject *hooks = PyObject_GetAttr(tensor, G.hooks_name);
    if (!hooks)
        return false;
    PyObject *hook = find_hook(hooks);
    Py_XINCREF(hook);
    if (!hook) {
        PyObject *function = PyObject_GetAttr(tensor, G.function_name);
        if (function && function != Py_None)
            hook = put_hook(tensor, function, hooks);
        Py_XDECREF(function);
    }
    const bool added = hook && hook_add(as_hook(hook), pass, enters);
    Py_XDECREF(hook);
    Py_DECREF(hooks);
    return added;
}

/* Adds all tensors within a value to the pass; returns their number. */
static uint32_t mark_all(PyObject *value, struct pass *pass, bool enters, int depth)
{
    if (PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)G.tensor_type))
        return mark_tensor(value, pass, enters) ? 1 : 0;
    uint32_t count = 0;
    if (depth == DEPTH_MAX)
        return 0;
    if (PyTuple_Check(value)) {
        for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++)
            count += mark_all(PyTuple_GetItem(value, i), pass, enters, depth + 1);
    } else if (PyList_Check(value)) {
        for (Py_ssize_t i = 0; i < PyList_Size(value); i++) {
            PyObject *item = PyList_GetItem(value, i);
            Py_XINCREF(item);
            count += item ? mark_all(item, pass, enters, depth + 1) : 0;
            Py_XDECREF(item);
        }
    } else if (PyDict_Check(value)) {
        PyObject *items = PyDict_Values(value);
        count = items ? mark_all(items, pass, enters, depth) : 0;
        Py_XDECREF(items);
    }
    return count;
}

/* Whether torch.jit.trace() runs: a hook would become part of the trace. */
static bool is_tracing(void)
{
    PyObject *state = PyObject_CallObject(G.get_tracing, NULL);
    const bool is = state != Py_None;
    Py_XDECREF(state);
    return is;
}

static struct pass *pass_new(struct gsp_torch_module *known)
{
    struct pass *pass = calloc(1, sizeof(*pass));
    if (pass) {
        struct gsp_row_python_torch_trace row;
        gsp_pyext__torch_row_set_module(known, &row);
        *pass = (struct pass){
            .refs = 1,
            .stamp = known->stamp,
            .path_id = row.module,
            .class_id = row.class,
            .device_id = row.device,
            .has_children = known->has_children,
        };
    }
    return pass;
}

int gsp_pyext__torch_gradients_begin(struct gsp_torch_module *known, PyObject *const *inputs,
                                     size_t count, PyObject *output)
{
    /* The row of the whole pass has the model's name: a second one would repeat it. */
    if (!G.tensor_type || (known->is_root && strcmp(known->path, T.root_path) == 0) ||
        is_tracing()) {
        PyErr_Clear();
        return 0;
    }
    struct pass *pass = pass_new(known);
    if (!pass)
        return 0;
    if (mark_all(output, pass, true, 0) > 0)
        for (size_t i = 0; i < count; i++)
            pass->inputs += mark_all(inputs[i], pass, false, 0);
    LOCK();
    release_pass(pass);
    UNLOCK();
    /* Errors are our own, except those for the program. */
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return PyErr_Occurred() ? -1 : 0;
}

/* ------------------------------------------------------------------------------ for Python */

static bool make_names(void)
{
    static const struct {
        PyObject **at;
        const char *text;
    } names[] = {
        {&G.hooks_name, "_backward_hooks"},
        {&G.function_name, "grad_fn"},
        {&G.adopt_name, "_register_hook_dict"},
        {&G.register_name, "register_hook"},
    };
    for (size_t i = 0; i < GSP_COUNT(names); i++) {
        if (!*names[i].at)
            *names[i].at = PyUnicode_InternFromString(names[i].text);
        if (!*names[i].at)
            return false;
    }
    if (!G.hook_type) {
        G.hook_type = PyType_FromSpec(&hook_spec);
        G.key = G.hook_type ? hook_new() : NULL;
    }
    return G.key != NULL;
}

/* torch_gradients(Tensor, OrderedDict, get_tracing_state): always called with the same objects. */
static PyObject *set_types(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *tensor = NULL;
    PyObject *dict = NULL;
    PyObject *tracing = NULL;
    if (!PyArg_ParseTuple(args, "OOO:torch_gradients", &tensor, &dict, &tracing) || !make_names())
        return NULL;
    if (!PyType_Check(tensor)) {
        PyErr_SetString(PyExc_TypeError, "not a type");
        return NULL;
    }
    Py_INCREF(dict);
    G.dict_type = dict;
    Py_INCREF(tracing);
    G.get_tracing = tracing;
    Py_INCREF(tensor);
    G.tensor_type = tensor;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"torch_gradients", set_types, METH_VARARGS,
     "torch_gradients(Tensor, OrderedDict, get_tracing_state)"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__torch_grad_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
