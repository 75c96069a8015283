/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the overhead of tracing, and limits the number of traced steps. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "pyext/torch.h"

#define T            gsp_pyext__torch
#define PPM          1000000
#define MEASURE_NS   (2 * GSP_NS_PER_S)
/* Traced steps after which the overhead is evaluated for the first time, however short they are. */
#define FIRST_TRACED 16U
/* Pairs after which it is evaluated again, and then whenever their number has doubled. */
#define FIRST_PAIRS  32U
/* From one traced step in this many on, each has two untraced steps after it to compare with. */
#define COMPARED     4

/* Whether traced and untraced steps alternate. */
static bool is_mixed(void)
{
    return T.thin > 1 || T.shadow_m > 0;
}

static int64_t cpu_ns(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0
               ? (int64_t)now.tv_sec * GSP_NS_PER_S + now.tv_nsec
               : 0;
}

void gsp_pyext__torch_cost_begin_step(void)
{
    atomic_store_explicit(&T.border_thread, gsp_pyext__torch_thread(), memory_order_relaxed);
    T.cpu_began_ns = is_mixed() ? cpu_ns() : 0;
}

/* Returns the duration of a step for comparisons; 0 if not known. It is CPU time, since wall time
 * varies on a busy machine. If hooks ran in another thread (gradients of a GPU), it is wall time.
 */
static double comparable_s(double seconds)
{
    if (T.by_clock)
        return seconds;
    const bool same =
        atomic_load_explicit(&T.border_thread, memory_order_relaxed) == gsp_pyext__torch_thread();
    return same && T.cpu_began_ns ? (double)(cpu_ns() - T.cpu_began_ns) / GSP_NS_PER_S : 0;
}

static void clear_pairs(void)
{
    T.pairs.count = 0;
    T.pairs.due = FIRST_PAIRS;
    T.pairs.traced_s = 0;
}

static void put_ratio(double ratio)
{
    T.pairs.ratio[T.pairs.count++ % GSP_TORCH_PAIRS] = ratio;
    T.pairs.traced_s = 0;
}

/* Tensors and hooks of a step may be freed in the next one, so both are compared with the step
 * after that. If that one is traced, the first two are compared, but only for torch.shadow.
 */
static void compare_step(bool sampled, double seconds)
{
    struct gsp_torch_pairs *pairs = &T.pairs;
    if (T.by_clock != atomic_load_explicit(&T.elsewhere, memory_order_relaxed)) {
        T.by_clock = !T.by_clock;
        clear_pairs();
    }
    const double s = comparable_s(seconds);
    const bool has_both = pairs->traced_s > 0 && pairs->next_s > 0;
    if (has_both && !sampled && s > 0)
        put_ratio((pairs->traced_s + pairs->next_s) / s - 1);
    else if (has_both && sampled && T.shadow_m > 0)
        put_ratio(pairs->traced_s / pairs->next_s);
    pairs->next_s = sampled ? 0 : s;
    if (sampled)
        pairs->traced_s = s;
}

void gsp_pyext__torch_cost_add_step(bool sampled, double seconds, int64_t spent_ns)
{
    if (sampled) {
        const uint32_t at = T.traced.count++ % GSP_TORCH_WINDOW;
        T.traced.s[at] = seconds;
        T.traced.spent_s[at] = (double)spent_ns / GSP_NS_PER_S;
    }
    if (is_mixed())
        compare_step(sampled, seconds);
}

static uint32_t kept(const struct gsp_torch_window *window)
{
    return window->count < GSP_TORCH_WINDOW ? window->count : GSP_TORCH_WINDOW;
}

/* Sets that one in `thin` sampled steps is traced; `gsprof config` reads it from the control page.
 */
static void set_thin(int64_t thin)
{
    uint32_t power = 0;
    while ((int64_t)1 << power < thin)
        power++;
    T.thin = thin;
    gsp_agent_mark(power << GSP_CONTROL_THIN_SHIFT, GSP_CONTROL_THIN_MASK);
}

void gsp_pyext__torch_cost_clear(void)
{
    if (T.thin != 1)
        set_thin(1);
    clear_pairs();
    atomic_store_explicit(&T.elsewhere, false, memory_order_relaxed);
    T.by_clock = false;
    T.traced.count = 0;
    T.measured_ns = 0;
}

static PyObject *ratios(void)
{
    const uint32_t count = T.pairs.count < GSP_TORCH_PAIRS ? T.pairs.count : GSP_TORCH_PAIRS;
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (uint32_t i = 0; list && i < count; i++) {
        /* Steals the reference, and fails for NULL. */
        if (PyList_SetItem(list, (Py_ssize_t)i, PyFloat_FromDouble(T.pairs.ratio[i])) != 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* Returns the share of steps that are traced. */
static double share_traced(void)
{
    const double whole = (double)(T.shadow_n + T.shadow_m);
    const double rate = (double)T.rate_ppm / PPM / (double)T.thin;
    return whole > 0 ? rate * (double)T.shadow_n / whole : rate;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the value below which `eighths` of 8 parts of the values lie. */
static double octile(const double *values, uint32_t count, uint32_t eighths)
{
    double sorted[GSP_TORCH_WINDOW];
    memcpy(sorted, values, count * sizeof(values[0]));
    qsort(sorted, count, sizeof(sorted[0]), compare);
    return sorted[count * eighths / 8];
}

/* Returns the hooks' own times in per cent of a step without them. Uses the faster steps: others
 * are longer for other reasons (a busy machine, an evaluation), which must not hide the overhead.
 */
static double percent_spent(void)
{
    const uint32_t count = kept(&T.traced);
    if (count == 0)
        return 0;
    const double spent_s = octile(T.traced.spent_s, count, 4);
    const double step_s = octile(T.traced.s, count, 1);
    /* More than the step itself is impossible: report a large value. */
    const double plain_s = spent_s < step_s ? step_s - spent_s : step_s / 100;
    return plain_s > 0 ? 100 * spent_s / plain_s : 0;
}

int gsp_pyext__torch_cost_measure(int64_t now_ns)
{
    /* The first time as soon as possible: a tiny model makes thousands of steps in one interval. */
    const bool is_due = T.measured_ns != 0
                            ? now_ns - T.measured_ns > MEASURE_NS || T.pairs.count >= T.pairs.due
                            : T.traced.count >= FIRST_TRACED;
    if (!T.on || !T.on_measure || !is_due)
        return 0;
    T.measured_ns = now_ns;
    while (T.pairs.due <= T.pairs.count)
        T.pairs.due *= 2;
    PyObject *pairs = ratios();
    PyObject *args =
        pairs ? Py_BuildValue("(NddL)", pairs, percent_spent(), share_traced(), (long long)T.thin)
              : NULL;
    PyObject *result = gsp_pyext__torch_call_python(T.on_measure, args);
    const long thin = result && PyLong_Check(result) ? PyLong_AsLong(result) : 0;
    if (thin > 0 && thin <= PPM && thin != T.thin) {
        set_thin(thin);
        T.pairs.traced_s = 0;
        if (thin < COMPARED) {
            /* No new pairs will replace the old ones. */
            clear_pairs();
        }
    }
    Py_XDECREF(result);
    return result ? 0 : -1;
}
