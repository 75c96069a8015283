/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.h -- tracing of PyTorch: declarations shared by torch_*.c.
 *
 * torch_call.c has the wrapper of Module.__call__, torch_modules.c the table of modules,
 * torch_grad.c the backward pass of modules, torch_step.c steps and settings, torch_cost.c the
 * overhead, torch_rows.c rows. This code never imports PyTorch: the package (gsprof/torch) passes
 * in what it needs. PyTorch runs in one interpreter of a process, so the state is per process.
 *
 * Threads: callers have an attached thread state.
 */
#pragma once

#include <stdatomic.h>

#include "agent/agent.h"
#include "base/attr.h"
#include "pyext/pyapi.h"

/* Depth of nested module calls that are stored, to name new modules. */
#define GSP_TORCH_DEPTH 64

/* A module, from its first call until it is freed. */
struct gsp_torch_module {
    uint32_t stamp; /* of the ids: generation + 1 */
    uint32_t path_id;
    uint32_t class_id;
    uint32_t device_id;
    uint32_t filters; /* version of the filters that `selected` is for; never 0 */
    bool selected;    /* the filters select it */
    bool is_root;     /* called from outside any module */
    bool has_children;
    int64_t last_step; /* roots: the step of its last call */
    char *path;
    char *class_name;
    char *model;     /* roots: model that the backward pass is named after; NULL: path */
    char device[16]; /* "": not known */
    PyObject *weak;
};

enum gsp_torch_step_source { GSP_STEPS_BY_FORWARD, GSP_STEPS_BY_OPTIMIZER, GSP_STEPS_BY_PROGRAM };

#define GSP_TORCH_TRACE  1U /* rows of modules are written in this step */
#define GSP_TORCH_WATCH  2U /* outermost calls are watched: they may begin a step */

/* Most recent traced steps whose time in hooks is evaluated. */
#define GSP_TORCH_WINDOW 64
/* Most recent comparisons of a traced step with those after it. */
#define GSP_TORCH_PAIRS  512

struct gsp_torch_window {
    double s[GSP_TORCH_WINDOW];       /* durations of steps */
    double spent_s[GSP_TORCH_WINDOW]; /* time in hooks, plus the work at the step's end */
    uint32_t count;
};

struct gsp_torch_pairs {
    double ratio[GSP_TORCH_PAIRS];
    uint32_t count;
    uint32_t due;    /* count at which they are evaluated ahead of time */
    double traced_s; /* the last traced step; 0: not known, or already compared */
    double next_s;   /* the step after it; 0: not ended */
};

struct gsp_torch {
    /* Read by each call. */
    _Atomic uint32_t mode; /* GSP_TORCH_*; 0: nothing to do */
    _Atomic uint32_t filters;
    _Atomic uint64_t serial;     /* of the settings applied last */
    _Atomic uint32_t generation; /* of the agent at that time */
    _Atomic int64_t step;
    const _Atomic uint64_t *serial_word;
    const _Atomic uint32_t *generation_word;
    PyObject *original; /* Module.__call__ of PyTorch */
    PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
    PyObject *name_module; /* Python: names a module and those below it */
    PyObject *is_selected; /* Python: the filters */
    PyObject *gpu;         /* Python, or NULL: events and memory of a GPU */
    PyObject *on_error;    /* Python, or NULL: captures the stack of an exception */
    bool gradients;        /* the backward pass of each module has rows */
    /* Settings and steps. */
    PyObject *on_settings;
    PyObject *on_step;    /* Python, or NULL: called at the end of each step */
    PyObject *on_sampled; /* Python, or NULL: called at the end of each traced step */
    PyObject *on_measure; /* Python, or NULL: called from time to time with the windows */
    bool on;
    bool marks; /* record steps that the program marks */
    int64_t rate_ppm;
    int64_t thin;     /* one in this many sampled steps is traced; set by the overhead */
    int64_t shadow_n; /* this many steps with hooks, then shadow_m without; 0: off */
    int64_t shadow_m;
    enum gsp_torch_step_source border;
    int64_t forwards;      /* outermost calls since an optimizer was created that made no step */
    PyObject *leader;      /* weak reference to the optimizer whose step() is the border */
    int64_t step_began_ns; /* 0: not known */
    int64_t first_step;    /* with these settings */
    int64_t measured_ns;
    int64_t realtime_ns;      /* CLOCK_REALTIME - CLOCK_MONOTONIC */
    int64_t realtime_at_ns;   /* when that was measured */
    _Atomic int64_t hook_ns;  /* cost of one call's hook; 0: not known yet */
    _Atomic int64_t spent_ns; /* our time in this step, without the hooks of calls */
    char root_path[128];      /* of the model called last; "": none */
    char root_class[128];
    int root_weight;   /* how likely it is the model */
    int64_t root_step; /* step of that call */
    struct gsp_torch_window traced;
    struct gsp_torch_pairs pairs;
    int64_t cpu_began_ns; /* CPU time of the thread that ends steps, at the start; 0: not known */
    _Atomic(const struct gsp_torch_thread *) border_thread;
    _Atomic bool elsewhere; /* another thread runs hooks, so CPU time does not cover them */
    bool by_clock;          /* pairs are of wall time */
};

extern struct gsp_torch gsp_pyext__torch;

/* State of a thread. */
struct gsp_torch_thread {
    uint32_t stamp; /* of thread_id, as of a module: it changes with fork */
    int32_t depth;  /* of nested module calls */
    uint32_t calls;
    bool busy; /* runs our own Python code, which is not traced */
    int64_t thread_id;
    int64_t step;
    int64_t seq;                      /* rows so far within the step */
    int64_t timed;                    /* calls of modules among them */
    PyObject *stack[GSP_TORCH_DEPTH]; /* modules, borrowed: compared, never dereferenced */
};

struct gsp_torch_thread *gsp_pyext__torch_thread(void);

/* Returns the sequence number, within its step, of a call that begins now; sets thread->step. */
static inline int64_t gsp_pyext__torch_next_seq(struct gsp_torch_thread *thread)
{
    const int64_t step = atomic_load_explicit(&gsp_pyext__torch.step, memory_order_relaxed);
    if (thread->step != step) {
        thread->step = step;
        thread->seq = 0;
        thread->timed = 0;
    }
    return thread->seq++;
}

/* Finds a known module by its address. A weak reference removes it before the address can be
 * reused. */
struct gsp_torch_module *gsp_pyext__torch_module_find(const PyObject *module);
/* Adds or replaces a module. Returns NULL with an exception. */
struct gsp_torch_module *gsp_pyext__torch_module_put(PyObject *module, struct gsp_sv path,
                                                     struct gsp_sv class_name,
                                                     struct gsp_sv device);
size_t gsp_pyext__torch_module_count(void);

/* Whether the settings or the agent's generation have changed: two loads. */
static inline bool gsp_pyext__torch_stale(void)
{
    /* Relaxed: a change may be seen later, and no other data depend on it. */
    return atomic_load_explicit(gsp_pyext__torch.serial_word, memory_order_relaxed) !=
               atomic_load_explicit(&gsp_pyext__torch.serial, memory_order_relaxed) ||
           atomic_load_explicit(gsp_pyext__torch.generation_word, memory_order_relaxed) !=
               atomic_load_explicit(&gsp_pyext__torch.generation, memory_order_relaxed);
}

GSP_COLD void gsp_pyext__torch_refresh(void);

/* Ends a step and begins the next. batch: samples in it, 0 if not known. Returns -1 with an
 * exception for the program (see gsp_pyext__torch_call_python()). */
int gsp_pyext__torch_step_end(int64_t batch);
/* Called before an outermost module runs. Begins a step if nothing else delimits steps. */
int gsp_pyext__torch_before_outermost(struct gsp_torch_module *module);

/* Adds time that we spent in this step, without the hooks of calls. */
static inline void gsp_pyext__torch_cost_add_ns(int64_t ns)
{
    atomic_fetch_add_explicit(&gsp_pyext__torch.spent_ns, ns, memory_order_relaxed);
}
/* Adds a step that has ended; spent_ns is our time in it or at its end. */
void gsp_pyext__torch_cost_add_step(bool sampled, double seconds, int64_t spent_ns);
/* Starts measuring the CPU time of the next step. */
void gsp_pyext__torch_cost_begin_step(void);
/* Discards all measurements of the overhead. */
void gsp_pyext__torch_cost_clear(void);
/* Lets the package evaluate the overhead if it is due. Returns -1 with an exception for the
 * program. */
int gsp_pyext__torch_cost_measure(int64_t now_ns);

/* Called when a module has returned: prepares a row of its backward pass. Returns -1 with an
 * exception for the program. */
int gsp_pyext__torch_gradients_begin(struct gsp_torch_module *known, PyObject *const *inputs,
                                     size_t count, PyObject *output);
/* Ends the open passes of modules in a whole backward pass that began at began_ns. */
void gsp_pyext__torch_gradients_end(int64_t began_ns, int64_t now_ns);
/* Writes the row of a whole backward pass, which ends now. */
void gsp_pyext__torch_put_backward(int64_t began_ns);

/* Sets the columns that identify the module. */
void gsp_pyext__torch_row_set_module(struct gsp_torch_module *module,
                                     struct gsp_row_python_torch_trace *row);
/* Sets the times, the thread and its step, seq to 0, and all other columns to NULL. */
void gsp_pyext__torch_row_init(struct gsp_row_python_torch_trace *row,
                               struct gsp_torch_thread *thread, int64_t now_ns);
enum gsp_torch_stage { GSP_STAGE_FORWARD, GSP_STAGE_BACKWARD, GSP_STAGE_STEP, GSP_STAGES };
/* Returns the id of "forward", "backward" or "step". */
uint32_t gsp_pyext__torch_stage_id(enum gsp_torch_stage stage);
/* Writes a row of a whole backward pass, or of an optimizer's step. */
void gsp_pyext__torch_put_stage(enum gsp_torch_stage stage, const char *module,
                                const char *class_name, int64_t began_ns, int64_t ended_ns);

/* Calls our own Python code. Swallows its exceptions and returns Py_None then, except those for the
 * program (KeyboardInterrupt, SystemExit): returns NULL with the exception. A pending exception is
 * preserved. Steals the reference to args. */
PyObject *gsp_pyext__torch_call_python(PyObject *callable, PyObject *args);

int gsp_pyext__torch_grad_add(PyObject *module);
int gsp_pyext__torch_step_add(PyObject *module);
int gsp_pyext__torch_rows_add(PyObject *module);
