/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "pyext/torch.h"

#define PPM           1000000
/* Outermost calls without a step of the optimizer after which it counts as unused. */
#define FORWARDS_MAX  64
/* First steps, whose durations are ignored: allocators and caches fill. */
#define WARM_UP_STEPS 3
/* Maximum age of the clock difference, which changes when a clock is set. */
#define CLOCKS_NS     GSP_NS_PER_S

struct gsp_torch gsp_pyext__torch = {.thin = 1, .filters = 1};

#define T gsp_pyext__torch

static double number_of(enum gsp_setting_id id, double min, double max)
{
    char text[GSP_CONTROL_VALUE];
    double value = min;
    return gsp_agent_setting(id, text) && gsp_parse_f64(text, min, max, &value, NULL) == 0 ? value
                                                                                           : min;
}

static bool is_set(enum gsp_setting_id id)
{
    char text[GSP_CONTROL_VALUE];
    return gsp_agent_setting(id, text) && strcmp(text, "on") == 0;
}

/* Parses "4:1"; any other value means none. */
static void read_shadow(void)
{
    char text[GSP_CONTROL_VALUE];
    T.shadow_n = 0;
    T.shadow_m = 0;
    if (!gsp_agent_setting(GSP_SET_torch_shadow, text))
        return;
    char *colon = strchr(text, ':');
    int64_t n = 0;
    int64_t m = 0;
    if (!colon)
        return;
    *colon = '\0';
    if (gsp_parse_i64(text, 1, PPM, &n, NULL) == 0 &&
        gsp_parse_i64(colon + 1, 1, PPM, &m, NULL) == 0) {
        T.shadow_n = n;
        T.shadow_m = m;
    }
}

/* Whether the step is traced: evenly spaced from step 0, by its number alone, so that all ranks
 * agree. */
static bool is_sampled(int64_t step)
{
    if (T.shadow_m > 0 && step % (T.shadow_n + T.shadow_m) >= T.shadow_n)
        return false;
    const int64_t before = (step * T.rate_ppm + PPM - 1) / PPM;
    const int64_t after = ((step + 1) * T.rate_ppm + PPM - 1) / PPM;
    return after != before && before % T.thin == 0;
}

/* An optimizer was created and has not made a step yet. */
static bool is_waiting(void)
{
    return T.border == GSP_STEPS_BY_OPTIMIZER && !T.leader;
}

/* Sets the mode of the calls in this step. */
static void decide(int64_t now_ns)
{
    uint32_t mode = 0;
    if (T.on) {
        mode =
            is_sampled(atomic_load_explicit(&T.step, memory_order_relaxed)) ? GSP_TORCH_TRACE : 0U;
        mode |= T.border == GSP_STEPS_BY_FORWARD || is_waiting() ? GSP_TORCH_WATCH : 0U;
    }
    if (now_ns - T.realtime_at_ns > CLOCKS_NS) {
        T.realtime_at_ns = gsp_now_ns();
        T.realtime_ns = gsp_realtime_ns() - T.realtime_at_ns;
    }
    atomic_store_explicit(&T.mode, mode, memory_order_relaxed);
}

static PyObject *text_of(enum gsp_setting_id id)
{
    char text[GSP_CONTROL_VALUE];
    const char *have = gsp_agent_setting(id, text) ? text : "";
    return PyUnicode_DecodeUTF8(have, (Py_ssize_t)strlen(have), "replace");
}

static PyObject *truth_of(bool value)
{
    return PyBool_FromLong(value);
}

/* Returns the arguments of on_settings; NULL with an exception. */
static PyObject *settings_for_python(void)
{
    return Py_BuildValue(
        "(NNNNNNd)", text_of(GSP_SET_torch_layers), text_of(GSP_SET_torch_modules),
        text_of(GSP_SET_torch_vars), truth_of(T.on), truth_of(is_set(GSP_SET_torch_sync)),
        truth_of(is_set(GSP_SET_collectives)), number_of(GSP_SET_torch_adaptive, 0, 100));
}

void gsp_pyext__torch_refresh(void)
{
    static atomic_flag refreshing = ATOMIC_FLAG_INIT;
    struct gsp_torch_thread *thread = gsp_pyext__torch_thread();
    if (thread->busy || atomic_flag_test_and_set(&refreshing))
        return;
    T.serial_word = gsp_agent_serial();
    const uint64_t serial = atomic_load_explicit(T.serial_word, memory_order_relaxed);
    if (!(serial & 1U)) {
        const uint32_t generation = atomic_load_explicit(T.generation_word, memory_order_relaxed);
        atomic_store_explicit(&T.serial, serial, memory_order_relaxed);
        atomic_store_explicit(&T.generation, generation, memory_order_relaxed);
        T.on = gsp_agent_is_on() && is_set(GSP_SET_torch);
        T.gradients = is_set(GSP_SET_torch_backward);
        T.marks = gsp_agent_is_on() && is_set(GSP_SET_spans);
        T.rate_ppm = (int64_t)(number_of(GSP_SET_torch_rate, 0, 1) * PPM + 0.5);
        read_shadow();
        /* The overhead depends on the settings. */
        T.first_step = atomic_load_explicit(&T.step, memory_order_relaxed);
        gsp_pyext__torch_cost_clear();
        if (T.on_settings) {
            PyObject *result = gsp_pyext__torch_call_python(T.on_settings, settings_for_python());
            if (!result) {
                /* Ctrl-C in our own code must not be lost. */
                PyErr_Clear();
                PyErr_SetInterrupt();
            }
            Py_XDECREF(result);
        }
        atomic_fetch_add_explicit(&T.filters, 1, memory_order_relaxed);
        decide(gsp_now_ns());
        gsp_agent_applied(serial);
    }
    atomic_flag_clear(&refreshing);
}

/* ------------------------------------------------------------------------------------- borders */

/* Returns the time that hooks took in the step that ends now; GSP_NULL_I64 if not known. */
static int64_t inside_ns(int64_t step, bool sampled)
{
    const int64_t hook_ns = atomic_load_explicit(&T.hook_ns, memory_order_relaxed);
    const int64_t spent_ns = atomic_exchange_explicit(&T.spent_ns, 0, memory_order_relaxed);
    /* Only the calls of the thread that ends the step. */
    const struct gsp_torch_thread *thread = gsp_pyext__torch_thread();
    const int64_t calls = thread->step == step ? thread->timed : 0;
    return hook_ns || !sampled ? hook_ns * calls * sampled + spent_ns : GSP_NULL_I64;
}

static void put_step(int64_t step, int64_t now_ns, bool sampled, int64_t batch, int64_t spent_ns)
{
    const bool known = T.step_began_ns != 0;
    const double seconds = (double)(now_ns - T.step_began_ns) / GSP_NS_PER_S;
    const struct gsp_row_python_torch_step row = {
        .ts_ns = now_ns + T.realtime_ns,
        .mono_ns = now_ns,
        .step = step,
        .duration = known ? seconds : gsp_null_f64(),
        .sampled = sampled,
        .samples_per_sec =
            known && batch > 0 && seconds > 0 ? (double)batch / seconds : gsp_null_f64(),
        .overhead_ns = spent_ns,
    };
    gsp_agent_put(GSP_TABLE_python_torch_step, &row);
}

/* Calls the package at the end of a step. Returns -1 with an exception for the program. */
static int call_package(int64_t step, bool sampled, double seconds)
{
    PyObject *callable = T.on_step ? T.on_step : sampled ? T.on_sampled : NULL;
    if (!callable)
        return 0;
    PyObject *result = gsp_pyext__torch_call_python(
        callable, Py_BuildValue("(LdO)", (long long)step, seconds, sampled ? Py_True : Py_False));
    Py_XDECREF(result);
    return result ? 0 : -1;
}

int gsp_pyext__torch_step_end(int64_t batch)
{
    if (gsp_unlikely(gsp_pyext__torch_stale()))
        gsp_pyext__torch_refresh();
    /* Steps that the program marks are recorded even if nothing is traced. */
    if (!T.on && !(T.marks && T.border == GSP_STEPS_BY_PROGRAM))
        return 0;
    const int64_t now_ns = gsp_now_ns();
    const int64_t step = atomic_load_explicit(&T.step, memory_order_relaxed);
    const bool sampled = T.on && is_sampled(step);
    const double seconds = T.step_began_ns ? (double)(now_ns - T.step_began_ns) / GSP_NS_PER_S : 0;
    int64_t spent_ns = inside_ns(step, sampled);
    bool fine = call_package(step, sampled, seconds) == 0;
    const int64_t called_ns = T.on_step || T.on_sampled ? gsp_now_ns() : now_ns;
    spent_ns += spent_ns == GSP_NULL_I64 ? 0 : called_ns - now_ns;
    put_step(step, now_ns, sampled, batch, spent_ns);
    if (T.on && T.step_began_ns && step >= T.first_step + WARM_UP_STEPS &&
        spent_ns != GSP_NULL_I64) {
        const double whole_s = (double)(called_ns - T.step_began_ns) / GSP_NS_PER_S;
        gsp_pyext__torch_cost_add_step(sampled, whole_s, spent_ns);
    }
    fine = fine && gsp_pyext__torch_cost_measure(now_ns) == 0;
    atomic_store_explicit(&T.step, step + 1, memory_order_relaxed);
    decide(now_ns);
    /* The time spent here belongs to no step. */
    T.step_began_ns = called_ns != now_ns || T.measured_ns == now_ns ? gsp_now_ns() : now_ns;
    gsp_pyext__torch_cost_begin_step();
    return fine ? 0 : -1;
}

/* Returns how likely a module called from outside is the model, and not a loss. */
static int weight_of(const struct gsp_torch_module *module)
{
    return module->has_children ? 2 : module->device[0] ? 1 : 0;
}

/* Sets the model that names the next backward pass. Mostly it is that of the previous step:
 * comparing costs a tenth of formatting. */
static void set_root(const struct gsp_torch_module *module)
{
    const char *path = module->model ? module->model : module->path;
    const char *class_name = module->model ? module->model : module->class_name;
    const int weight = weight_of(module);
    const int64_t step = atomic_load_explicit(&T.step, memory_order_relaxed);
    if ((weight < T.root_weight && T.root_step == step) ||
        (strcmp(T.root_path, path) == 0 && strcmp(T.root_class, class_name) == 0)) {
        T.root_step = weight < T.root_weight ? T.root_step : step;
        return;
    }
    T.root_step = step;
    T.root_weight = weight;
    (void)snprintf(T.root_path, sizeof(T.root_path), "%s", path);
    (void)snprintf(T.root_class, sizeof(T.root_class), "%s", class_name);
}

void gsp_pyext__torch_put_backward(int64_t began_ns)
{
    const int64_t ended_ns = gsp_now_ns();
    gsp_pyext__torch_gradients_end(began_ns, ended_ns);
    /* A program may have called no module since tracing began. */
    const char *path = T.root_path[0] ? T.root_path : "autograd";
    gsp_pyext__torch_put_stage(GSP_STAGE_BACKWARD, path, T.root_class, began_ns, ended_ns);
}

int gsp_pyext__torch_before_outermost(struct gsp_torch_module *module)
{
    const int64_t step = atomic_load_explicit(&T.step, memory_order_relaxed);
    int rc = 0;
    if (module->last_step == step) {
        T.forwards += is_waiting();
        if (T.forwards > FORWARDS_MAX)
            T.border = GSP_STEPS_BY_FORWARD;
        rc = T.border == GSP_STEPS_BY_FORWARD ? gsp_pyext__torch_step_end(0) : 0;
    }
    if (!T.step_began_ns)
        T.step_began_ns = gsp_now_ns();
    module->last_step = atomic_load_explicit(&T.step, memory_order_relaxed);
    set_root(module);
    return rc;
}

/* torch_optimizer(): an optimizer was created, so its steps delimit steps. */
static PyObject *optimizer_made(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (T.border == GSP_STEPS_BY_FORWARD && T.forwards == 0) {
        T.border = GSP_STEPS_BY_OPTIMIZER;
        decide(gsp_now_ns());
    }
    Py_RETURN_NONE;
}

static _Thread_local int64_t optimizer_began_ns;

/* torch_step_pre(optimizer, args, kwargs): a hook of PyTorch. */
static PyObject *step_pre(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    (void)args;
    (void)count;
    optimizer_began_ns = T.on ? gsp_now_ns() : 0;
    Py_RETURN_NONE;
}

/* With several optimizers, a step ends with the first one that was used. */
static bool is_leader(PyObject *optimizer)
{
    /* Borrowed, only compared. */
    const PyObject *leader = T.leader ? PyWeakref_GetObject(T.leader) : Py_None;
    if (leader != Py_None)
        return leader == optimizer;
    PyObject *old = T.leader;
    T.leader = PyWeakref_NewRef(optimizer, NULL);
    Py_XDECREF(old);
    PyErr_Clear();
    return true;
}

/* Returns the class's name at its first use; NULL if it has none. */
static const char *class_of(PyObject *optimizer)
{
    static PyObject *last; /* never freed: its address must not be reused */
    static const char *last_name;
    PyObject *type = (PyObject *)Py_TYPE(optimizer);
    if (gsp_likely(type == last))
        return last_name;
    PyObject *name = PyObject_GetAttrString(type, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    PyErr_Clear();
    if (text) {
        /* Never freed, like its name: there are few such classes. */
        Py_INCREF(type);
        last = type;
        last_name = text;
    } else {
        Py_XDECREF(name);
    }
    return text;
}

static void put_optimizer_row(PyObject *optimizer)
{
    const char *name = class_of(optimizer);
    if (name)
        gsp_pyext__torch_put_stage(GSP_STAGE_STEP, name, name, optimizer_began_ns, gsp_now_ns());
}

/* torch_step_post(optimizer, args, kwargs): a hook of PyTorch. */
static PyObject *step_post(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    const uint32_t mode = atomic_load_explicit(&T.mode, memory_order_relaxed);
    /* A step() that calls that of its base class counts once. */
    if (count < 1 || !optimizer_began_ns || gsp_pyext__torch_thread()->busy)
        Py_RETURN_NONE;
    if (mode & GSP_TORCH_TRACE)
        put_optimizer_row(args[0]);
    optimizer_began_ns = 0;
    if (T.border != GSP_STEPS_BY_PROGRAM && is_leader(args[0])) {
        T.border = GSP_STEPS_BY_OPTIMIZER;
        if (gsp_pyext__torch_step_end(0) != 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* torch_step_mark(number, batch): the program ends a step. number -1: the next one; batch 0: not
 * known. */
static PyObject *step_mark(PyObject *self, PyObject *args)
{
    (void)self;
    long long number = 0;
    long long batch = 0;
    if (!PyArg_ParseTuple(args, "LL:torch_step_mark", &number, &batch))
        return NULL;
    T.border = GSP_STEPS_BY_PROGRAM;
    if (number >= 0)
        atomic_store_explicit(&T.step, number, memory_order_relaxed);
    if (gsp_pyext__torch_step_end(batch) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* torch_backward_begin() -> int: the time, or 0 if this step is not traced. */
static PyObject *backward_begin(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    const uint32_t mode = atomic_load_explicit(&T.mode, memory_order_relaxed);
    return PyLong_FromLongLong((mode & GSP_TORCH_TRACE) ? gsp_now_ns() : 0);
}

static PyObject *backward_end(PyObject *self, PyObject *began)
{
    (void)self;
    const long long began_ns = PyLong_AsLongLong(began);
    if (began_ns == -1 && PyErr_Occurred())
        return NULL;
    gsp_pyext__torch_put_backward(began_ns);
    Py_RETURN_NONE;
}

static PyObject *step_now(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLongLong(atomic_load_explicit(&T.step, memory_order_relaxed));
}

/* torch_state() -> dict: for tests and /status. */
static PyObject *state(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue(
        "{s:L,s:i,s:I,s:n,s:L}", "step",
        (long long)atomic_load_explicit(&T.step, memory_order_relaxed), "border", (int)T.border,
        "mode", (unsigned int)atomic_load_explicit(&T.mode, memory_order_relaxed), "modules",
        (Py_ssize_t)gsp_pyext__torch_module_count(), "thin", (long long)T.thin);
}

static PyMethodDef functions[] = {
    {"torch_optimizer", optimizer_made, METH_NOARGS,
     "torch_optimizer()\n\nAn optimizer was created."},
    {"torch_step_pre", GSP_PY_METHOD(step_pre), METH_FASTCALL,
     "torch_step_pre(optimizer, args, kwargs)"},
    {"torch_step_post", GSP_PY_METHOD(step_post), METH_FASTCALL,
     "torch_step_post(optimizer, args, kwargs)"},
    {"torch_step_mark", step_mark, METH_VARARGS,
     "torch_step_mark(number, batch)\n\nThe program ends a step."},
    {"torch_backward_begin", backward_begin, METH_NOARGS,
     "torch_backward_begin() -> int\n\nThe time, or 0 if this step is not traced."},
    {"torch_backward_end", backward_end, METH_O, "torch_backward_end(began)"},
    {"torch_step_now", step_now, METH_NOARGS, "torch_step_now() -> int"},
    {"torch_state", state, METH_NOARGS, "torch_state() -> dict"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__torch_step_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
