/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorders of gsprof.profiler. A Recorder keeps series by name: times in milliseconds and
 * plain values, apart. A Timing is one measurement.
 *
 * CUDATimer derives from TimeRecorder and MetricsCollector from MetricRecorder, so that their hot
 * methods are direct calls into C. A Timing refers to its series and not to its recorder: storing
 * one as an attribute of the recorder makes no cycle.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/time.h"
#include "pyext/pyapi.h"
#include "pyext/series.h"

#define NS_PER_MS 1e6
/* Most measurements of one name that are started and not stopped. */
#define OPEN_MAX  10000

enum kind { TIMES, VALUES, KINDS };

#ifdef GSP_FREE_THREADED
typedef PyMutex series_lock;
#define LOCK(mutex)   PyMutex_Lock(mutex)
#define UNLOCK(mutex) PyMutex_Unlock(mutex)
#else
/* The GIL is enough. */
typedef char series_lock;
#define LOCK(mutex)   ((void)(mutex))
#define UNLOCK(mutex) ((void)(mutex))
#endif

struct timing;

struct named {
    PyObject_HEAD PyObject *name;
    PyObject *clock; /* of a GPU, or NULL */
    PyObject *timing_type;
    uint64_t owner; /* the recorder's number */
    struct gsp_metric_series series;
    struct timing **open; /* started, not stopped; oldest first */
    size_t open_count;
    size_t open_cap;
    uint32_t thread; /* that measured last; 0: none yet */
    bool several;    /* threads have measured */
    series_lock mutex;
};

/* The innermost open measurement of a thread: its recorder, and the time nested in it so far. */
struct within {
    uint64_t owner;
    double inner_ms;
};

struct timing {
    PyObject_HEAD struct named *named;
    PyObject *token; /* result of the clock's begin() */
    struct within outside;
    int64_t began_ns;
    double elapsed_ms; /* NaN: not known */
    uint32_t thread;
    uint32_t depth; /* number of nested entries */
};

struct recorder {
    PyObject_HEAD PyObject *series[KINDS]; /* dict: name to named */
    PyObject *named_type;
    PyObject *timing_type;
    PyObject *clock;
    uint64_t number;
    series_lock mutex;
};

static _Atomic uint64_t last_recorder;
static _Atomic uint32_t last_thread;
static __thread uint32_t this_thread;
static __thread struct within innermost;

static uint32_t thread_number(void)
{
    if (gsp_unlikely(this_thread == 0)) {
        /* Relaxed: the numbers only have to differ. */
        this_thread = atomic_fetch_add_explicit(&last_thread, 1, memory_order_relaxed) + 1;
    }
    return this_thread;
}

/* ------------------------------------------------------------------------------ the series */

static struct named *as_named(PyObject *object)
{
    return (struct named *)(void *)object;
}

static void named_free(PyObject *self)
{
    struct named *named = as_named(self);
    PyTypeObject *type = Py_TYPE(self);
    for (size_t i = 0; i < named->open_count; i++)
        Py_DECREF((PyObject *)named->open[i]);
    free(named->open);
    gsp_pyext__series_clear(&named->series);
    Py_XDECREF(named->name);
    Py_XDECREF(named->clock);
    Py_XDECREF(named->timing_type);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *refuse(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "only a recorder creates measurements");
    return NULL;
}

static PyType_Slot named_slots[] = {
    {Py_tp_new, GSP_PY_SLOT(refuse)},
    {Py_tp_dealloc, GSP_PY_SLOT(named_free)},
    {0, NULL},
};

static PyType_Spec named_spec = {
    .name = "gsprof._gsprof.Series",
    .basicsize = sizeof(struct named),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = named_slots,
};

/* ------------------------------------------------------------------------ one measurement */

static struct timing *as_timing(PyObject *object)
{
    return (struct timing *)(void *)object;
}

static PyObject *timing_new(struct named *named)
{
    struct timing *timing = PyObject_New(struct timing, (PyTypeObject *)(void *)named->timing_type);
    if (timing) {
        Py_INCREF((PyObject *)named);
        timing->named = named;
        timing->token = NULL;
        timing->elapsed_ms = (double)NAN;
        timing->depth = 0;
    }
    return (PyObject *)timing;
}

static int timing_begin(struct timing *timing)
{
    struct named *named = timing->named;
    timing->thread = thread_number();
    if (gsp_unlikely(named->clock != NULL)) {
        PyObject *token = PyObject_CallMethod(named->clock, "begin", NULL);
        if (!token)
            return -1;
        PyObject *old = timing->token;
        timing->token = token;
        Py_XDECREF(old);
    }
    timing->outside = innermost;
    innermost = (struct within){.owner = named->owner};
    timing->depth = 1;
    timing->began_ns = gsp_now_ns();
    return 0;
}

static void add_time(struct named *named, const struct timing *timing, double ms, double inner_ms)
{
    LOCK(&named->mutex);
    const int64_t end_ns = timing->began_ns + (int64_t)(ms * NS_PER_MS);
    gsp_pyext__series_add(&named->series, ms, timing->began_ns, end_ns);
    named->series.self_sum += inner_ms < ms ? ms - inner_ms : 0;
    if (timing->outside.owner != named->owner)
        named->series.outer_sum += ms;
    named->several |= named->thread != 0 && named->thread != timing->thread;
    named->thread = timing->thread;
    UNLOCK(&named->mutex);
}

/* Reads the GPU's time; NaN if it is not known yet. Returns -1 with an exception. */
static int read_clock(struct timing *timing, double *ms)
{
    struct named *named = timing->named;
    PyObject *result = PyObject_CallMethod(named->clock, "end", "OOL", named->name, timing->token,
                                           (long long)timing->began_ns);
    Py_CLEAR(timing->token);
    if (!result)
        return -1;
    *ms = result == Py_None ? (double)NAN : PyFloat_AsDouble(result);
    Py_DECREF(result);
    return PyErr_Occurred() ? -1 : 0;
}

static int timing_end(struct timing *timing)
{
    const int64_t end_ns = gsp_now_ns();
    struct named *named = timing->named;
    const struct within inside = innermost;
    timing->depth = 0;
    innermost = timing->outside;
    double ms = (double)(end_ns - timing->began_ns) / NS_PER_MS;
    const double inner_ms = inside.owner == named->owner ? inside.inner_ms : 0;
    if (innermost.owner == named->owner)
        innermost.inner_ms += ms;
    if (gsp_unlikely(named->clock != NULL) && read_clock(timing, &ms) != 0)
        return -1;
    timing->elapsed_ms = ms;
    if (!isnan(ms))
        add_time(named, timing, ms, inner_ms);
    return 0;
}

static PyObject *timing_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct timing *timing = as_timing(self);
    if (timing->depth > 0)
        timing->depth++;
    else if (timing_begin(timing) != 0)
        return NULL;
    Py_INCREF(self);
    return self;
}

static PyObject *timing_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)args;
    (void)count;
    struct timing *timing = as_timing(self);
    if (timing->depth > 1)
        timing->depth--;
    else if (timing->depth == 1 && timing_end(timing) != 0)
        return NULL;
    Py_RETURN_FALSE;
}

static PyObject *timing_again(PyObject *self, PyObject *unused)
{
    (void)unused;
    return timing_new(as_timing(self)->named);
}

static PyObject *timing_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *function = NULL;
    if ((kwargs && PyDict_Size(kwargs) > 0) || !PyArg_ParseTuple(args, "O", &function)) {
        PyErr_SetString(PyExc_TypeError, "a measurement decorates one function");
        return NULL;
    }
    PyObject *spans = PyImport_ImportModule("gsprof._spans");
    PyObject *result = spans ? PyObject_CallMethod(spans, "wrap", "OO", self, function) : NULL;
    Py_XDECREF(spans);
    return result;
}

static PyObject *timing_name(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *name = as_timing(self)->named->name;
    Py_INCREF(name);
    return name;
}

static PyObject *timing_elapsed(PyObject *self, void *unused)
{
    (void)unused;
    const double ms = as_timing(self)->elapsed_ms;
    if (isnan(ms))
        Py_RETURN_NONE;
    return PyFloat_FromDouble(ms);
}

static void timing_free(PyObject *self)
{
    struct timing *timing = as_timing(self);
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(timing->token);
    Py_DECREF((PyObject *)timing->named);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyMethodDef timing_methods[] = {
    {"__enter__", timing_enter, METH_NOARGS, NULL},
    {"__exit__", GSP_PY_METHOD(timing_exit), METH_FASTCALL, NULL},
    {"again", timing_again, METH_NOARGS,
     "again() -> Timing\n\nReturns a new one of the same name."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef timing_fields[] = {
    {"name", timing_name, NULL, NULL, NULL},
    {"elapsed", timing_elapsed, NULL, "Milliseconds; None if not known yet.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot timing_slots[] = {
    {Py_tp_new, GSP_PY_SLOT(refuse)},
    {Py_tp_dealloc, GSP_PY_SLOT(timing_free)},
    {Py_tp_methods, timing_methods},
    {Py_tp_getset, timing_fields},
    {Py_tp_call, GSP_PY_SLOT(timing_call)},
    {Py_tp_doc, (char[]){"One measurement: a context manager and a decorator."}},
    {0, NULL},
};

static PyType_Spec timing_spec = {
    .name = "gsprof._gsprof.Timing",
    .basicsize = sizeof(struct timing),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = timing_slots,
};

/* ---------------------------------------------------------------------------- the recorder */

static struct recorder *as_recorder(PyObject *object)
{
    return (struct recorder *)(void *)object;
}

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args; /* for __init__ of derived classes */
    (void)kwargs;
    const allocfunc alloc = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *self = alloc(type, 0);
    if (!self)
        return NULL;
    struct recorder *recorder = as_recorder(self);
    recorder->series[TIMES] = PyDict_New();
    recorder->series[VALUES] = PyDict_New();
    recorder->named_type = PyObject_GetAttrString((PyObject *)type, "_series_type");
    recorder->timing_type = PyObject_GetAttrString((PyObject *)type, "_timing_type");
    recorder->number = atomic_fetch_add_explicit(&last_recorder, 1, memory_order_relaxed) + 1;
    if (!recorder->series[TIMES] || !recorder->series[VALUES] || !recorder->named_type ||
        !recorder->timing_type) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}

/* Releases a dictionary of series, and the open measurements: they form cycles with their series.
 */
static void drop_series(PyObject *series)
{
    PyObject *all = series ? PyDict_Values(series) : NULL;
    for (Py_ssize_t i = 0; all && i < PyList_Size(all); i++) {
        struct named *named = as_named(PyList_GetItem(all, i));
        while (named->open_count > 0)
            Py_DECREF((PyObject *)named->open[--named->open_count]);
    }
    Py_XDECREF(all);
    Py_XDECREF(series);
}

static void recorder_free(PyObject *self)
{
    struct recorder *recorder = as_recorder(self);
    PyTypeObject *type = Py_TYPE(self);
    drop_series(recorder->series[TIMES]);
    drop_series(recorder->series[VALUES]);
    Py_XDECREF(recorder->named_type);
    Py_XDECREF(recorder->timing_type);
    Py_XDECREF(recorder->clock);
    const freefunc release = (freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF((PyObject *)type);
}

/* Creates a series and adds it to the dictionary. */
static PyObject *make_named(struct recorder *recorder, PyObject *series, PyObject *name)
{
    struct named *named = PyObject_New(struct named, (PyTypeObject *)(void *)recorder->named_type);
    if (!named)
        return NULL;
    memset((char *)named + offsetof(struct named, name), 0,
           sizeof(*named) - offsetof(struct named, name));
    named->name = name;
    named->clock = recorder->clock;
    named->timing_type = recorder->timing_type;
    named->owner = recorder->number;
    Py_INCREF(name);
    Py_XINCREF(named->clock);
    Py_INCREF(named->timing_type);
    if (PyDict_SetItem(series, name, (PyObject *)named) != 0) {
        Py_DECREF((PyObject *)named);
        return NULL;
    }
    return (PyObject *)named;
}

/* Returns a new reference to the series of that name; with `make`, creates it if needed. Returns
 * NULL with an exception, or without one if the series does not exist. */
static struct named *find(struct recorder *recorder, enum kind kind, PyObject *name, bool make)
{
    if (gsp_unlikely(!PyUnicode_Check(name))) {
        PyErr_SetString(PyExc_TypeError, "the name must be a str");
        return NULL;
    }
    LOCK(&recorder->mutex);
    PyObject *found = PyDict_GetItemWithError(recorder->series[kind], name);
    Py_XINCREF(found);
    if (gsp_unlikely(!found) && make && !PyErr_Occurred())
        found = make_named(recorder, recorder->series[kind], name);
    UNLOCK(&recorder->mutex);
    return as_named(found);
}

static PyObject *measure(PyObject *self, PyObject *name)
{
    struct named *named = find(as_recorder(self), TIMES, name, true);
    if (!named)
        return NULL;
    PyObject *timing = timing_new(named);
    Py_DECREF((PyObject *)named);
    return timing;
}

static PyObject *record(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "record() takes 2 arguments (name, value), not %zd", count);
        return NULL;
    }
    const double value = PyFloat_AsDouble(args[1]);
    if (value == -1.0 && PyErr_Occurred())
        return NULL;
    struct named *named = find(as_recorder(self), VALUES, args[0], true);
    if (!named)
        return NULL;
    const int64_t now_ns = gsp_now_ns();
    LOCK(&named->mutex);
    gsp_pyext__series_add(&named->series, value, now_ns, now_ns);
    UNLOCK(&named->mutex);
    Py_DECREF((PyObject *)named);
    Py_RETURN_NONE;
}

/* Steals the reference to the timing on success. */
static int push(struct named *named, struct timing *timing)
{
    if (!gsp_array_fit(&named->open, &named->open_cap, named->open_count + 1))
        return -1;
    named->open[named->open_count++] = timing;
    return 0;
}

static PyObject *start(PyObject *self, PyObject *name)
{
    struct named *named = find(as_recorder(self), TIMES, name, true);
    PyObject *timing = named ? timing_new(named) : NULL;
    if (!timing) {
        Py_XDECREF((PyObject *)named);
        return NULL;
    }
    int rc = -1;
    if (named->open_count >= OPEN_MAX) {
        PyErr_Format(PyExc_ValueError, "%R was started %d times and never stopped", name, OPEN_MAX);
    } else if (timing_begin(as_timing(timing)) == 0) {
        LOCK(&named->mutex);
        rc = push(named, as_timing(timing));
        UNLOCK(&named->mutex);
        if (rc != 0)
            PyErr_NoMemory();
    }
    if (rc == 0) {
        Py_DECREF((PyObject *)named);
        Py_RETURN_NONE;
    }
    Py_DECREF(timing);
    Py_DECREF((PyObject *)named);
    return NULL;
}

/* Removes and returns the latest measurement that this thread started; NULL: none. */
static struct timing *pop(struct named *named)
{
    const uint32_t thread = thread_number();
    struct timing *found = NULL;
    LOCK(&named->mutex);
    size_t i = named->open_count;
    while (i > 0 && named->open[i - 1]->thread != thread)
        i--;
    if (i > 0) {
        found = named->open[i - 1];
        memmove(named->open + i - 1, named->open + i,
                (named->open_count - i) * sizeof(struct timing *));
        named->open_count--;
    }
    UNLOCK(&named->mutex);
    return found;
}

static PyObject *stop(PyObject *self, PyObject *name)
{
    struct named *named = find(as_recorder(self), TIMES, name, false);
    if (!named && PyErr_Occurred())
        return NULL;
    struct timing *timing = named ? pop(named) : NULL;
    if (!timing) {
        PyErr_Format(PyExc_ValueError, "stop(%R) without start(%R) in this thread", name, name);
        Py_XDECREF((PyObject *)named);
        return NULL;
    }
    const int rc = timing_end(timing);
    PyObject *result = rc == 0 ? timing_elapsed((PyObject *)timing, NULL) : NULL;
    Py_DECREF((PyObject *)timing);
    Py_DECREF((PyObject *)named);
    return result;
}

static PyObject *add(PyObject *self, PyObject *args)
{
    PyObject *name = NULL;
    double ms = 0;
    long long began_ns = 0;
    if (!PyArg_ParseTuple(args, "UdL", &name, &ms, &began_ns))
        return NULL;
    struct named *named = find(as_recorder(self), TIMES, name, true);
    if (!named)
        return NULL;
    add_time(named, &(struct timing){.began_ns = began_ns, .thread = thread_number()}, ms, 0);
    Py_DECREF((PyObject *)named);
    Py_RETURN_NONE;
}

/* -------------------------------------------------------------------------------- reading */

static int parse(PyObject *args, struct recorder *recorder, struct named **out)
{
    int kind = 0;
    PyObject *name = NULL;
    if (!PyArg_ParseTuple(args, "iU", &kind, &name))
        return -1;
    if (kind < 0 || kind >= KINDS) {
        PyErr_SetString(PyExc_ValueError, "unknown kind");
        return -1;
    }
    *out = find(recorder, (enum kind)kind, name, false);
    if (!*out && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, name);
    return *out ? 0 : -1;
}

static PyObject *names(PyObject *self, PyObject *number)
{
    const long kind = PyLong_AsLong(number);
    if (kind < 0 || kind >= KINDS) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "unknown kind");
        return NULL;
    }
    return PyDict_Keys(as_recorder(self)->series[kind]);
}

static PyObject *stats(PyObject *self, PyObject *args)
{
    struct named *named = NULL;
    if (parse(args, as_recorder(self), &named) != 0)
        return NULL;
    LOCK(&named->mutex);
    struct gsp_metric_series series = named->series;
    const size_t open_count = named->open_count;
    const uint32_t thread = named->thread;
    const bool several = named->several;
    UNLOCK(&named->mutex);
    Py_DECREF((PyObject *)named);
    const double mean = series.count > 0 ? series.sum / (double)series.count : 0;
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:L,s:L,s:n,s:I,s:O}", "count",
        (unsigned long long)series.count, "nonfinite", (unsigned long long)series.nonfinite, "lost",
        (unsigned long long)series.lost, "sum", series.sum, "mean", mean, "std",
        gsp_pyext__series_std(&series), "min", series.min, "max", series.max, "last", series.last,
        "self", series.self_sum, "outer", series.outer_sum, "first_ns", (long long)series.first_ns,
        "last_ns", (long long)series.last_ns, "open", (Py_ssize_t)open_count, "thread",
        (unsigned int)thread, "several", several ? Py_True : Py_False);
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = ((const struct gsp_metric_value *)a)->at_ns;
    const int64_t y = ((const struct gsp_metric_value *)b)->at_ns;
    return (x > y) - (x < y);
}

static PyObject *samples(PyObject *self, PyObject *args)
{
    struct named *named = NULL;
    if (parse(args, as_recorder(self), &named) != 0)
        return NULL;
    LOCK(&named->mutex);
    const size_t count = named->series.kept_count;
    struct gsp_metric_value *copy = malloc((count + 1) * sizeof(*copy));
    if (copy && count > 0)
        memcpy(copy, named->series.kept, count * sizeof(*copy));
    UNLOCK(&named->mutex);
    Py_DECREF((PyObject *)named);
    if (!copy)
        return PyErr_NoMemory();
    /* Nested times are added when they end, and a random choice of values is unordered. */
    qsort(copy, count, sizeof(*copy), by_time);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *pair = Py_BuildValue("Ld", (long long)copy[i].at_ns, copy[i].value);
        if (!pair || PyList_SetItem(list, (Py_ssize_t)i, pair) != 0) {
            Py_DECREF(list);
            list = NULL;
        }
    }
    free(copy);
    return list;
}

/* Replaces the dictionaries; measurements in progress end in the old ones. */
static PyObject *clear(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct recorder *recorder = as_recorder(self);
    for (int kind = 0; kind < KINDS; kind++) {
        PyObject *fresh = PyDict_New();
        if (!fresh)
            return NULL;
        LOCK(&recorder->mutex);
        PyObject *old = recorder->series[kind];
        recorder->series[kind] = fresh;
        UNLOCK(&recorder->mutex);
        drop_series(old);
    }
    Py_RETURN_NONE;
}

static PyObject *set_clock(PyObject *self, PyObject *clock)
{
    struct recorder *recorder = as_recorder(self);
    PyObject *old = recorder->clock;
    recorder->clock = clock == Py_None ? NULL : clock;
    Py_XINCREF(recorder->clock);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyMethodDef recorder_methods[] = {
    {"start", start, METH_O, "start(name)\n\nBegins a measurement of that name."},
    {"stop", stop, METH_O,
     "stop(name) -> float\n\nEnds the latest measurement of that name in this thread; "
     "milliseconds."},
    {"_add", add, METH_VARARGS, "_add(name, ms, began_ns)\n\nAdds a time measured elsewhere."},
    {"_names", names, METH_O, "_names(kind) -> list\n\nAll names, in the order of first use."},
    {"_stats", stats, METH_VARARGS, "_stats(kind, name) -> dict"},
    {"_samples", samples, METH_VARARGS, "_samples(kind, name) -> list\n\n(ns, value), by time."},
    {"_clear", clear, METH_NOARGS, "_clear()\n\nDiscards all series."},
    {"_set_clock", set_clock, METH_O, "_set_clock(clock)\n\nSets the clock of new series."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot recorder_slots[] = {
    {Py_tp_new, GSP_PY_SLOT(recorder_new)},
    {Py_tp_dealloc, GSP_PY_SLOT(recorder_free)},
    {Py_tp_methods, recorder_methods},
    {Py_tp_doc, (char[]){"Series of times and values by name."}},
    {0, NULL},
};

static PyType_Spec recorder_spec = {
    .name = "gsprof._gsprof.Recorder",
    .basicsize = sizeof(struct recorder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = recorder_slots,
};

static PyMethodDef time_recorder_methods[] = {
    {"measure", measure, METH_O,
     "measure(name) -> Timing\n\nA context manager and decorator that measures a time."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot time_recorder_slots[] = {
    {Py_tp_methods, time_recorder_methods},
    {Py_tp_doc, (char[]){"Base class of CUDATimer."}},
    {0, NULL},
};

static PyType_Spec time_recorder_spec = {
    .name = "gsprof._gsprof.TimeRecorder",
    .basicsize = sizeof(struct recorder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = time_recorder_slots,
};

static PyMethodDef metric_recorder_methods[] = {
    {"record", GSP_PY_METHOD(record), METH_FASTCALL, "record(name, value)\n\nAdds a value."},
    {"measure_time", measure, METH_O,
     "measure_time(name) -> Timing\n\nA context manager and decorator that measures a time."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot metric_recorder_slots[] = {
    {Py_tp_methods, metric_recorder_methods},
    {Py_tp_doc, (char[]){"Base class of MetricsCollector."}},
    {0, NULL},
};

static PyType_Spec metric_recorder_spec = {
    .name = "gsprof._gsprof.MetricRecorder",
    .basicsize = sizeof(struct recorder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = metric_recorder_slots,
};

static int add_derived(PyObject *module, const char *name, PyType_Spec *spec, PyObject *base)
{
    PyObject *bases = PyTuple_Pack(1, base);
    PyObject *type = bases ? PyType_FromSpecWithBases(spec, bases) : NULL;
    const int rc = type ? PyObject_SetAttrString(module, name, type) : -1;
    Py_XDECREF(type);
    Py_XDECREF(bases);
    return rc;
}

int gsp_pyext__timer_add(PyObject *module)
{
    PyObject *recorder = PyType_FromSpec(&recorder_spec);
    PyObject *timing = PyType_FromSpec(&timing_spec);
    PyObject *series = PyType_FromSpec(&named_spec);
    int rc = -1;
    if (recorder && timing && series &&
        PyObject_SetAttrString(recorder, "_series_type", series) == 0 &&
        PyObject_SetAttrString(recorder, "_timing_type", timing) == 0 &&
        PyObject_SetAttrString(module, "Timing", timing) == 0 &&
        PyObject_SetAttrString(module, "Recorder", recorder) == 0 &&
        add_derived(module, "TimeRecorder", &time_recorder_spec, recorder) == 0)
        rc = add_derived(module, "MetricRecorder", &metric_recorder_spec, recorder);
    Py_XDECREF(recorder);
    Py_XDECREF(timing);
    Py_XDECREF(series);
    return rc;
}
