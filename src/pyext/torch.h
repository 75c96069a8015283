/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.h -- tracing of PyTorch: what its files share.
 *
 * torch_call.c has the wrapper of Module.__call__, torch_modules.c what is known of each module,
 * torch_grad.c the backward pass of modules, torch_step.c steps and settings, torch_cost.c what all
 * this costs, torch_rows.c rows.  PyTorch is never imported from here: the package (gsprof/torch)
 * hands over what is needed.  PyTorch lives in one interpreter of a process, so this is the
 * process's own state.
 *
 * Used by: torch_*.c.
 * Threads: callers have an attached thread state.
 */
#pragma once

#include <stdatomic.h>

#include "agent/agent.h"
#include "base/attr.h"
#include "pyext/pyapi.h"

/* Modules within modules whose places are remembered, for the names of those that come new. */
#define GSP_TORCH_DEPTH 64

/* What is known of a module, from its first call until it goes. */
struct gsp_torch_module {
    uint32_t stamp; /* of the ids: generation + 1 */
    uint32_t path_id;
    uint32_t class_id;
    uint32_t device_id;
    uint32_t filters; /* as of which `wanted` is; never 0 */
    bool wanted;      /* the filters let it through */
    bool is_root;     /* called from outside of any module */
    bool has_children;
    int64_t last_step; /* roots: the step of its last call */
    char *path;
    char *class_name;
    char *model;     /* roots: name of the model that the whole backward pass is of; NULL: path */
    char device[16]; /* "": not known */
    PyObject *weak;
};

enum gsp_torch_border { GSP_BORDER_FORWARD, GSP_BORDER_OPTIMIZER, GSP_BORDER_PROGRAM };

#define GSP_TORCH_TRACE  1U /* rows of modules are written in this step */
#define GSP_TORCH_WATCH  2U /* outermost calls are looked at: they may begin a step */

/* Traced steps by which the time in hooks is judged. */
#define GSP_TORCH_WINDOW 64
/* Comparisons of a traced step with those after it, by which the overhead is measured. */
#define GSP_TORCH_PAIRS  512

struct gsp_torch_window {
    double s[GSP_TORCH_WINDOW];       /* how long steps took */
    double spent_s[GSP_TORCH_WINDOW]; /* of it, in hooks; and at the step's end, which is no part */
    uint32_t count;
};

struct gsp_torch_pairs {
    double ratio[GSP_TORCH_PAIRS];
    uint32_t count;
    uint32_t due;    /* count at which they are judged before the time comes */
    double traced_s; /* the last traced step; 0: not known, or compared already */
    double next_s;   /* the one after it; 0: it is not over */
};

struct gsp_torch {
    /* Read by each call. */
    _Atomic uint32_t mode; /* GSP_TORCH_*; 0: nothing to do */
    _Atomic uint32_t filters;
    _Atomic uint64_t serial;     /* of the settings that were taken up */
    _Atomic uint32_t generation; /* of the agent, then */
    _Atomic int64_t step;
    const _Atomic uint64_t *serial_word;
    const _Atomic uint32_t *generation_word;
    PyObject *original; /* Module.__call__ as it was */
    PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
    PyObject *name_module; /* Python: learns a module and its neighbours */
    PyObject *is_wanted;   /* Python: the filters */
    PyObject *gpu;         /* Python, or NULL: events and memory of a GPU */
    PyObject *on_error;    /* Python, or NULL: the stack of what leaves a module */
    bool gradients;        /* the backward pass of each module has rows */
    /* Settings and steps. */
    PyObject *on_settings;
    PyObject *on_step;    /* Python, or NULL: called at each border */
    PyObject *on_sampled; /* the same, of steps that were traced */
    PyObject *on_measure; /* Python, or NULL: called now and then with the windows */
    bool on;
    bool marks; /* steps that the program marks are kept */
    int64_t rate_ppm;
    int64_t thin;     /* one of so many sampled steps is taken: lowered by the overhead */
    int64_t shadow_n; /* so many steps with hooks, then shadow_m without; 0: none */
    int64_t shadow_m;
    enum gsp_torch_border border;
    int64_t forwards;      /* outermost calls that waited for an optimizer that never came */
    PyObject *leader;      /* weak reference to the optimizer whose step() is the border */
    int64_t step_began_ns; /* 0: not known */
    int64_t first_step;    /* with these settings */
    int64_t measured_ns;
    int64_t realtime_ns;      /* CLOCK_REALTIME - CLOCK_MONOTONIC, as of some moment ago */
    int64_t realtime_at_ns;   /* that moment */
    _Atomic int64_t hook_ns;  /* what a call's hook costs; 0: not known yet */
    _Atomic int64_t spent_ns; /* in this step, beside the hooks of calls */
    char root_path[128];      /* of the model that was called last; "": none was */
    char root_class[128];
    int root_weight;   /* how much like a model it looked */
    int64_t root_step; /* in which it was called */
    struct gsp_torch_window traced;
    struct gsp_torch_pairs pairs;
    int64_t cpu_began_ns; /* of the thread that ends steps, as the step began; 0: not known */
    _Atomic(const struct gsp_torch_thread *) border_thread;
    _Atomic bool elsewhere; /* another thread runs hooks: its time is not the border's */
    bool by_clock;          /* pairs are of the time on the clock */
};

extern struct gsp_torch gsp_pyext__torch;

/* What each thread has. */
struct gsp_torch_thread {
    uint32_t stamp; /* of thread_id, as a module's: after fork it is another's */
    int32_t depth;  /* of modules within modules */
    uint32_t calls;
    bool busy; /* in our own Python code: what it calls is not traced */
    int64_t thread_id;
    int64_t step;
    int64_t seq;                      /* rows so far within the step */
    int64_t timed;                    /* calls of modules among them */
    PyObject *stack[GSP_TORCH_DEPTH]; /* modules, borrowed: compared and looked up, never read */
};

struct gsp_torch_thread *gsp_pyext__torch_thread(void);

/* The place of what begins now within its step, which thread->step then is. */
static inline int64_t gsp_pyext__torch_seq(struct gsp_torch_thread *thread)
{
    const int64_t step = atomic_load_explicit(&gsp_pyext__torch.step, memory_order_relaxed);
    if (thread->step != step) {
        thread->step = step;
        thread->seq = 0;
        thread->timed = 0;
    }
    return thread->seq++;
}

/* Known modules.  Found by their address; a weak reference takes them out before the address can
 * be another's. */
struct gsp_torch_module *gsp_pyext__modules_find(const PyObject *module);
/* Makes a module known, or replaces what is known of it.  NULL with an exception set. */
struct gsp_torch_module *gsp_pyext__modules_put(PyObject *module, struct gsp_sv path,
                                                struct gsp_sv class_name, struct gsp_sv device);
size_t gsp_pyext__modules_count(void);

/* Settings that have changed, and ids of another life of the agent: one load each if not. */
static inline bool gsp_pyext__torch_stale(void)
{
    /* Relaxed: a change is seen a little later, no other bytes hang on it. */
    return atomic_load_explicit(gsp_pyext__torch.serial_word, memory_order_relaxed) !=
               atomic_load_explicit(&gsp_pyext__torch.serial, memory_order_relaxed) ||
           atomic_load_explicit(gsp_pyext__torch.generation_word, memory_order_relaxed) !=
               atomic_load_explicit(&gsp_pyext__torch.generation, memory_order_relaxed);
}

GSP_COLD void gsp_pyext__torch_refresh(void);

/* A step ends and the next one begins, now.  batch: samples in it, 0 when not known.
 * -1 with an exception that is the program's (see gsp_pyext__torch_ask()). */
int gsp_pyext__torch_border(int64_t batch);
/* An outermost module is called: where nothing else says what a step is, it may begin one. */
int gsp_pyext__torch_outermost(struct gsp_torch_module *module);

/* Part of the step that runs was spent by us, beside the hooks of calls. */
static inline void gsp_pyext__torch_spent(int64_t ns)
{
    atomic_fetch_add_explicit(&gsp_pyext__torch.spent_ns, ns, memory_order_relaxed);
}
/* A step is over that took so many seconds, spent_ns of them (or after it) by us. */
void gsp_pyext__torch_note(bool sampled, double seconds, int64_t spent_ns);
/* The next step begins: its CPU time counts from now on. */
void gsp_pyext__torch_cpu_begin(void);
/* Nothing is known any more of what it costs. */
void gsp_pyext__torch_cost_clear(void);
/* Has the package judge the cost if that is due.  -1 with an exception that is the program's. */
int gsp_pyext__torch_measure(int64_t now_ns);

/* A module has returned: rows of its backward pass, if there will be one.  -1 with an exception
 * that is the program's. */
int gsp_pyext__torch_gradients(struct gsp_torch_module *known, PyObject *const *inputs,
                               size_t count, PyObject *output);
/* A whole backward pass that began then is over, and so are those of modules within. */
void gsp_pyext__torch_gradients_end(int64_t began_ns, int64_t now_ns);
/* What stands for the model in the row of the whole pass. */
void gsp_pyext__torch_put_backward(int64_t began_ns);

/* The columns that tell the module. */
void gsp_pyext__torch_ids(struct gsp_torch_module *module, struct gsp_row_python_torch_trace *row);
/* All columns NULL but the times, the thread and its step; seq is 0. */
void gsp_pyext__torch_row(struct gsp_row_python_torch_trace *row, struct gsp_torch_thread *thread,
                          int64_t now_ns);
/* The id of "forward", "backward" or "step". */
enum gsp_torch_stage { GSP_STAGE_FORWARD, GSP_STAGE_BACKWARD, GSP_STAGE_STEP, GSP_STAGES };
uint32_t gsp_pyext__torch_stage(enum gsp_torch_stage stage);
/* A row of the whole backward pass, or of an optimizer's step. */
void gsp_pyext__torch_put_stage(enum gsp_torch_stage stage, const char *module,
                                const char *class_name, int64_t began_ns, int64_t ended_ns);

/* Calls Python code of ours.  What it raises is swallowed unless it is meant for the program
 * (KeyboardInterrupt, SystemExit): then NULL with the exception set.  An exception that was set
 * before stays.  Takes the reference to args; Py_None when something was swallowed. */
PyObject *gsp_pyext__torch_ask(PyObject *callable, PyObject *args);

int gsp_pyext__torch_grad_add(PyObject *module);
int gsp_pyext__torch_step_add(PyObject *module);
int gsp_pyext__torch_rows_add(PyObject *module);
