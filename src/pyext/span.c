/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span is an object whose __enter__ reads the clock and whose __exit__ writes a row.
 *
 * A context variable holds the innermost open span, so each thread and each task of an event loop
 * has its own. Spans may end in another order than they began (generators, tasks): the search for a
 * parent skips those that have ended.
 */
#include <stdlib.h>

#include "agent/agent.h"
#include "base/time.h"
#include "pyext/pyapi.h"

/* Maximum age of the clock difference, maximum time between its two readings, and most attempts. */
#define CLOCKS_NS      GSP_NS_PER_S
#define CLOCKS_NEAR_NS 1000
#define CLOCKS_TRIES   5

struct span {
    PyObject_HEAD PyObject *module;
    PyObject *name;
    PyObject *phase; /* NULL: none */
    struct gsp_buf attributes;
    struct span *parent;
    int64_t id;
    int64_t parent_id;
    int64_t began_ns;
    uint32_t generation; /* of the agent at the start: a child of fork writes no row for it */
    unsigned depth;      /* number of nested entries */
};

static _Atomic int64_t last_id;

static int64_t next_id(void)
{
    /* Relaxed: the ids only have to differ. */
    return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
}

static uint32_t generation_now(void)
{
    /* Relaxed: changes only by this thread's own fork, or concurrently, in no defined order. */
    return atomic_load_explicit(gsp_agent_generation(), memory_order_relaxed);
}

static bool spans_on(PyObject *module, struct gsp_pyext *state)
{
    if (!gsp_agent_is_on())
        return false;
    gsp_pyext__settings_refresh(module, state);
    return atomic_load_explicit(&state->spans_on, memory_order_relaxed);
}

static uint32_t intern(PyObject *text)
{
    PyObject *keep = NULL;
    const uint32_t id = gsp_agent_intern(GSP_TABLE_python_span, gsp_pyext__text(text, &keep));
    Py_XDECREF(keep);
    return id;
}

static uint32_t name_id(struct gsp_pyext *state, PyObject *text, uint32_t generation)
{
#ifdef GSP_FREE_THREADED
    (void)state;
    (void)generation;
    return intern(text);
#else
    struct gsp_pyext_name *slot = &state->names[((uintptr_t)text >> 4) % GSP_COUNT(state->names)];
    if (gsp_likely(slot->text == text && slot->generation == generation))
        return slot->id;
    const uint32_t id = intern(text);
    if (id != GSP_NULL_STR) {
        PyObject *old = slot->text;
        Py_INCREF(text);
        slot->text = text;
        slot->generation = generation;
        slot->id = id;
        Py_XDECREF(old);
    }
    return id;
#endif
}

/* Returns the span or its nearest ancestor that has not ended; borrowed. */
static struct span *first_open(struct span *span)
{
    while (span && span->depth == 0)
        span = span->parent;
    return span;
}

/* Returns a new reference to the innermost open span of this context; NULL: none. */
static struct span *innermost(struct gsp_pyext *state)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(state->current, NULL, &value) < 0) {
        PyErr_Clear();
        return NULL;
    }
    if (value && (PyObject *)Py_TYPE(value) != state->span_type) {
        Py_DECREF(value);
        return NULL;
    }
    struct span *span = first_open((struct span *)(void *)value);
    Py_XINCREF((PyObject *)span);
    Py_XDECREF(value);
    return span;
}

static void make_innermost(struct gsp_pyext *state, struct span *span)
{
    PyObject *value = span ? (PyObject *)span : Py_None;
    PyObject *token = PyContextVar_Set(state->current, value);
    if (!token)
        PyErr_Clear();
    Py_XDECREF(token);
}

/* Converts monotonic time to wall-clock time with a difference that is stored for a second and was
 * measured without an interruption. Reading both clocks for each span would not do: on a busy
 * machine the readings may be milliseconds apart, and a span could begin before its parent. */
static int64_t realtime_at(int64_t now_ns)
{
    static _Atomic int64_t difference_ns;
    static _Atomic int64_t measured_ns;
    if (gsp_unlikely(now_ns - atomic_load_explicit(&measured_ns, memory_order_relaxed) >
                     CLOCKS_NS)) {
        int64_t best_ns = INT64_MAX;
        for (int i = 0; i < CLOCKS_TRIES && best_ns > CLOCKS_NEAR_NS; i++) {
            const int64_t before_ns = gsp_now_ns();
            const int64_t real_ns = gsp_realtime_ns();
            const int64_t took_ns = gsp_now_ns() - before_ns;
            if (took_ns < best_ns) {
                best_ns = took_ns;
                atomic_store_explicit(&difference_ns, real_ns - before_ns - took_ns / 2,
                                      memory_order_relaxed);
            }
        }
        atomic_store_explicit(&measured_ns, now_ns, memory_order_relaxed);
    }
    return now_ns + atomic_load_explicit(&difference_ns, memory_order_relaxed);
}

static void put_row(struct gsp_pyext *state, struct span *span, int64_t ended_ns)
{
    struct gsp_row_python_span row = {
        .ts_ns = realtime_at(ended_ns),
        .mono_ns = ended_ns,
        .span_id = span->id,
        .name = name_id(state, span->name, span->generation),
        .phase = span->phase ? name_id(state, span->phase, span->generation) : GSP_NULL_STR,
        .duration_ns = ended_ns - span->began_ns,
        .parent = span->parent_id,
        .thread_id = gsp_pyext__thread_id(),
    };
    row.start_ns = row.ts_ns - row.duration_ns;
    const size_t len = span->attributes.len;
    if (len > 0) {
        gsp_buf_putc(&span->attributes, '}');
        row.attributes = gsp_buf_sv(&span->attributes);
    }
    (void)gsp_agent_put(GSP_TABLE_python_span, &row);
    /* Reopens the object for the next entry of this span. */
    span->attributes.len = len;
}

/* ------------------------------------------------------------------------------ the object */

static PyObject *span_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct span *span = (struct span *)(void *)self;
    struct gsp_pyext *state = gsp_pyext__state(span->module);
    Py_INCREF(self);
    if (span->depth > 0) {
        span->depth++;
        return self;
    }
    if (!spans_on(span->module, state))
        return self;
    span->generation = generation_now();
    span->id = next_id();
    Py_CLEAR(span->parent);
    span->parent = innermost(state);
    span->parent_id = span->parent ? span->parent->id : GSP_NULL_I64;
    span->depth = 1;
    make_innermost(state, span);
    span->began_ns = gsp_now_ns();
    return self;
}

static void drop_parent(struct span *span)
{
#ifdef GSP_FREE_THREADED
    /* A thread that inherited the context may be searching for its parent. */
    (void)span;
#else
    Py_CLEAR(span->parent);
#endif
}

/* Adds the attribute `error` for an exception that leaves the span. */
static void add_error(struct span *span, PyObject *type)
{
    PyObject *name = PyObject_GetAttrString(type, "__name__");
    if (name) {
        gsp_pyext__json_member(&span->attributes, gsp_sv_of("error"), name);
        Py_DECREF(name);
    }
    PyErr_Clear();
}

/* Lets Python decide whether the end of this span captures a stack. */
static void call_on_span(PyObject *callable, struct span *span, int64_t took_ns,
                         PyObject *const *error)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyErr_Fetch(&type, &value, &trace);
    Py_INCREF(callable);
    PyObject *result =
        PyObject_CallFunction(callable, "OLOO", span->name, (long long)took_ns,
                              error ? error[1] : Py_None, error ? error[2] : Py_None);
    Py_XDECREF(result);
    Py_DECREF(callable);
    PyErr_Restore(type, value, trace);
}

static PyObject *span_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct span *span = (struct span *)(void *)self;
    if (span->depth == 0 || --span->depth > 0)
        Py_RETURN_FALSE;
    const int64_t ended_ns = gsp_now_ns();
    struct gsp_pyext *state = gsp_pyext__state(span->module);
    PyObject *current = NULL;
    if (PyContextVar_Get(state->current, NULL, &current) == 0 && current == self) {
        make_innermost(state, first_open(span->parent));
        drop_parent(span);
    }
    PyErr_Clear();
    Py_XDECREF(current);
    /* If recording has stopped meanwhile, the agent rejects the row. */
    if (span->generation == generation_now()) {
        PyObject *const *error = count == 3 && args[0] != Py_None ? args : NULL;
        if (error)
            add_error(span, error[0]);
        put_row(state, span, ended_ns);
        if (state->on_span)
            call_on_span(state->on_span, span, ended_ns - span->began_ns, error);
    }
    Py_RETURN_FALSE;
}

static PyObject *span_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct span *span = (struct span *)(void *)self;
    struct gsp_pyext *state = gsp_pyext__state(span->module);
    PyObject *function = NULL;
    if ((kwargs && PyDict_Size(kwargs) > 0) || !PyArg_ParseTuple(args, "O", &function)) {
        PyErr_SetString(PyExc_TypeError, "a span decorates one function");
        return NULL;
    }
    if (!state->wrap) {
        Py_INCREF(function);
        return function;
    }
    return PyObject_CallFunctionObjArgs(state->wrap, self, function, NULL);
}

static struct span *span_make(PyObject *module, PyObject *name, PyObject *phase)
{
    const struct gsp_pyext *state = gsp_pyext__state(module);
    struct span *span = PyObject_New(struct span, (PyTypeObject *)(void *)state->span_type);
    if (!span)
        return NULL;
    memset((char *)span + offsetof(struct span, module), 0,
           sizeof(*span) - offsetof(struct span, module));
    span->module = module;
    span->name = name;
    span->phase = phase;
    Py_INCREF(module);
    Py_INCREF(name);
    Py_XINCREF(phase);
    return span;
}

static PyObject *span_again(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct span *span = (struct span *)(void *)self;
    struct span *copy = span_make(span->module, span->name, span->phase);
    if (copy && span->attributes.len > 0)
        gsp_buf_putsv(&copy->attributes, gsp_buf_sv(&span->attributes));
    return (PyObject *)copy;
}

static PyObject *span_set(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct span *span = (struct span *)(void *)self;
    if (!PyArg_ParseTuple(args, ""))
        return NULL;
    Py_ssize_t at = 0;
    PyObject *key = NULL;
    PyObject *value = NULL;
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        PyObject *keep = NULL;
        gsp_pyext__json_member(&span->attributes, gsp_pyext__text(key, &keep), value);
        Py_XDECREF(keep);
    }
    Py_RETURN_NONE;
}

static PyObject *span_name(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *name = ((struct span *)(void *)self)->name;
    Py_INCREF(name);
    return name;
}

static PyObject *span_id(PyObject *self, void *unused)
{
    (void)unused;
    const int64_t id = ((struct span *)(void *)self)->id;
    if (id == 0)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(id);
}

static void span_free(PyObject *self)
{
    struct span *span = (struct span *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    gsp_buf_free(&span->attributes);
    Py_XDECREF((PyObject *)span->parent);
    Py_XDECREF(span->phase);
    Py_XDECREF(span->name);
    Py_XDECREF(span->module);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* A span without a name could not be entered. */
static PyObject *span_refuse(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "use gsprof.span() to create a span");
    return NULL;
}

static PyMethodDef span_methods[] = {
    {"__enter__", span_enter, METH_NOARGS, NULL},
    {"__exit__", GSP_PY_METHOD(span_exit), METH_FASTCALL, NULL},
    {"again", span_again, METH_NOARGS, "again() -> span\n\nReturns a new one of the same name."},
    {"set", GSP_PY_METHOD(span_set), METH_VARARGS | METH_KEYWORDS,
     "set(**attributes)\n\nAdds attributes while the span is open."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef span_fields[] = {
    {"name", span_name, NULL, NULL, NULL},
    {"span_id", span_id, NULL, "The id of its row; None before it begins.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot span_slots[] = {
    {Py_tp_new, GSP_PY_SLOT(span_refuse)},
    {Py_tp_dealloc, GSP_PY_SLOT(span_free)},
    {Py_tp_methods, span_methods},
    {Py_tp_getset, span_fields},
    {Py_tp_call, GSP_PY_SLOT(span_call)},
    {Py_tp_doc, (char[]){"A named interval: a context manager and a decorator."}},
    {0, NULL},
};

static PyType_Spec span_spec = {
    .name = "gsprof.Span",
    .basicsize = sizeof(struct span),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = span_slots,
};

/* --------------------------------------------------------------------------- the functions */

/* Creates a span from the arguments of span(name, phase=None, **attributes). */
static struct span *span_from(PyObject *module, PyObject *const *args, Py_ssize_t count,
                              PyObject *names)
{
    if (count < 1 || count > 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError,
                        "a span needs a name: span(name, phase=None, **attributes)");
        return NULL;
    }
    PyObject *phase = count == 2 && PyUnicode_Check(args[1]) ? args[1] : NULL;
    struct span *span = span_make(module, args[0], phase);
    const Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; span && i < named; i++) {
        PyObject *keep = NULL;
        PyObject *value = args[count + i];
        const struct gsp_sv name = gsp_pyext__text(PyTuple_GetItem(names, i), &keep);
        if (gsp_sv_eq(name, gsp_sv_of("phase"))) {
            if (!span->phase && PyUnicode_Check(value)) {
                Py_INCREF(value);
                span->phase = value;
            }
        } else {
            gsp_pyext__json_member(&span->attributes, name, value);
        }
        Py_XDECREF(keep);
    }
    return span;
}

static PyObject *span(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    const struct gsp_pyext *state = gsp_pyext__state(module);
    if (count == 1 && !PyUnicode_Check(args[0]) && state->wrap) {
        /* @span without a name. */
        return PyObject_CallFunctionObjArgs(state->wrap, Py_None, args[0], NULL);
    }
    return (PyObject *)span_from(module, args, count, names);
}

static PyObject *event(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct gsp_pyext *state = gsp_pyext__state(module);
    struct span *span = span_from(module, args, count, names);
    if (!span)
        return NULL;
    if (spans_on(module, state)) {
        struct span *outer = innermost(state);
        span->generation = generation_now();
        span->id = next_id();
        span->parent_id = outer ? outer->id : GSP_NULL_I64;
        span->began_ns = gsp_now_ns();
        put_row(state, span, span->began_ns);
        Py_XDECREF((PyObject *)outer);
    }
    Py_DECREF((PyObject *)span);
    Py_RETURN_NONE;
}

static PyObject *current(PyObject *module, PyObject *unused)
{
    (void)unused;
    struct span *span = innermost(gsp_pyext__state(module));
    if (!span)
        Py_RETURN_NONE;
    return (PyObject *)span;
}

static PyMethodDef functions[] = {
    {"span", GSP_PY_METHOD(span), METH_FASTCALL | METH_KEYWORDS,
     "span(name, phase=None, **attributes)\n\nA named interval: with span(\"load\"): ..., or a "
     "decorator for functions, coroutines and generators."},
    {"event", GSP_PY_METHOD(event), METH_FASTCALL | METH_KEYWORDS,
     "event(name, phase=None, **attributes)\n\nA named point in time."},
    {"current_span", current, METH_NOARGS, "current_span() -> span or None"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__span_add(PyObject *module)
{
    struct gsp_pyext *state = gsp_pyext__state(module);
    state->span_type = PyType_FromSpec(&span_spec);
    state->current = PyContextVar_New("gsprof_span", NULL);
    if (!state->span_type || !state->current || PyModule_AddFunctions(module, functions) != 0)
        return -1;
    Py_INCREF(state->span_type);
    if (PyModule_AddObject(module, "Span", state->span_type) != 0) {
        Py_DECREF(state->span_type);
        return -1;
    }
    return 0;
}
