/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "proc/perf.h"
#include "proc/stop.h"

/* A thread that waits for a CPU stops once it gets one, which can take long on a busy machine. A
 * thread that waits for a disk may never stop. */
#define HOLD_READY_NS  (200 * GSP_NS_PER_MS)
#define HOLD_LIMIT_NS  (20 * GSP_NS_PER_MS)
/* The event of a thread on a CPU arrives in a fraction of this time. */
#define EVENT_LIMIT_NS (400 * GSP_NS_PER_US)
#define PAGE_BYTES     4096U
#define STACK_PAGES    64U /* 256 KB: assembly code has buffers of that size */
#define STACK_PAGES_LO 4U  /* enough for 95 % of stacks */
/* The kernel copies this much for an event; the rest is read from memory. */
#define EVENT_BYTES    ((size_t)STACK_PAGES_LO * PAGE_BYTES)
/* Each event has a ring of locked memory. An unprivileged user may lock half a megabyte. */
#define EVENTS_MAX     64U
/* After this many events that never arrived, the events of a thread are not used any more. */
#define MISSES_MAX     100U

/* The event of one thread. */
struct event {
    pid_t tid;
    struct gsp_perf *perf; /* NULL: not available */
    bool has_arrived;      /* at least one event has arrived */
    unsigned misses;       /* events that did not arrive, before the first one */
};

struct gsp_capture {
    enum gsp_capture_policy choice;
    struct gsp_mem *mem; /* borrowed */
    struct gsp_stop *stop;
    unsigned pages; /* of the stack to copy */
    bool no_events; /* not permitted, or not supported by the kernel */
    size_t event_count;
    size_t event_next; /* the next one to replace when all are in use */
    struct event events[EVENTS_MAX];
    struct gsp_python_stack before; /* the last event */
    unsigned char stack[STACK_PAGES * PAGE_BYTES];
};

int gsp_sample__capture_open(pid_t pid, struct gsp_mem *mem, struct gsp_capture **out,
                             struct gsp_err *err)
{
    *out = NULL;
    struct gsp_capture *capture = calloc(1, sizeof(*capture));
    if (!capture)
        return gsp_err_nomem(err);
    capture->mem = mem;
    capture->pages = STACK_PAGES_LO;
    gsp_proc_stop_request_short_slices();
    int rc = gsp_proc_stop_new(pid, &capture->stop, err);
    if (rc != GSP_OK) {
        gsp_sample__capture_close(capture);
        return rc;
    }
    *out = capture;
    return GSP_OK;
}

void gsp_sample__capture_close(struct gsp_capture *capture)
{
    if (!capture)
        return;
    for (size_t i = 0; i < capture->event_count; i++)
        gsp_proc_perf_close(capture->events[i].perf);
    gsp_proc_stop_free(capture->stop);
    free(capture);
}

/* Appends the stack at addr to the `have` bytes already copied, as far as it is readable.
 * Returns the number of bytes added. */
static size_t copy_stack(struct gsp_capture *capture, uint64_t addr, size_t have)
{
    struct gsp_mem_span spans[STACK_PAGES] = {{0}};
    /* Doubles the copy. */
    size_t pages = have ? (have + PAGE_BYTES - 1) / PAGE_BYTES : capture->pages;
    size_t len = 0;
    size_t count = 0;
    for (; count < pages && count < STACK_PAGES; count++) {
        size_t part = PAGE_BYTES - (size_t)((addr + len) % PAGE_BYTES);
        if (have + len + part > sizeof(capture->stack))
            break;
        spans[count] = (struct gsp_mem_span){addr + len, part, capture->stack + have + len};
        len += part;
    }
    size_t done = 0;
    gsp_ignore(gsp_proc_mem_gather(capture->mem, spans, count, &done)); /* partial reads are fine */
    len = 0;
    for (size_t i = 0; i < done; i++)
        len += spans[i].len;
    return len;
}

static int walk_python(const struct gsp_capture_thread *subject, unsigned flags)
{
    return subject->target
               ? gsp_py_target_walk(subject->target, subject->thread, flags, gsp_now_ns())
               : GSP_OK;
}

static void fill(struct gsp_capture_moment *out, const struct gsp_stop_regs *regs,
                 const void *stack, size_t len)
{
    out->copy = (struct gsp_native_copy){
        .regs = {.pc = regs->pc, .sp = regs->sp, .fp = regs->fp, .lr = regs->lr},
        .stack = stack,
        .stack_len = len};
    memcpy(out->copy.regs.kept, regs->kept, sizeof(out->copy.regs.kept));
}

/* /proc does not give the frame pointer. A sleeping thread is inside a C library function that
 * does not need it, and a caller that does has saved it. */
static int capture_asleep(struct gsp_capture *capture, const struct gsp_capture_thread *subject,
                          struct gsp_capture_moment *out)
{
    struct gsp_stop_regs regs = {0};
    const struct gsp_taskfd *task = subject->thread ? &subject->thread->task : NULL;
    uint64_t slices = task ? gsp_proc_taskfd_slices(task) : 0;
    if (slices == 0 || !gsp_proc_taskfd_sleep_position(task, &regs.sp, &regs.pc))
        return GSP_E_NOTSUP;
    size_t len = copy_stack(capture, regs.sp, 0);
    int rc = walk_python(subject, GSP_PY_SAMPLE_STOPPED);
    uint64_t sp;
    uint64_t pc;
    if (rc != GSP_OK || !gsp_proc_taskfd_sleep_position(task, &sp, &pc) || sp != regs.sp ||
        pc != regs.pc || gsp_proc_taskfd_slices(task) != slices)
        return GSP_E_NOTSUP;
    fill(out, &regs, capture->stack, len);
    return GSP_OK;
}

static struct event *find_event(struct gsp_capture *capture, pid_t tid)
{
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->events[i].tid == tid)
            return &capture->events[i];
    return NULL;
}

/* Replaces the oldest event. */
static struct event *drop_event(struct gsp_capture *capture)
{
    struct event *event = &capture->events[capture->event_next++ % capture->event_count];
    gsp_proc_perf_close(event->perf);
    *event = (struct event){0};
    return event;
}

/* Returns the event of a thread; NULL if it has none. */
static struct event *get_event(struct gsp_capture *capture, pid_t tid)
{
    struct event *event = find_event(capture, tid);
    if (!event) {
        if (capture->event_count == EVENTS_MAX)
            event = drop_event(capture);
        else
            event = &capture->events[capture->event_count++];
        *event = (struct event){.tid = tid};
        int rc = gsp_proc_perf_open(tid, EVENT_BYTES, &event->perf, NULL);
        if (rc == GSP_E_LIMIT && drop_event(capture) != event)
            rc = gsp_proc_perf_open(tid, EVENT_BYTES, &event->perf, NULL);
        capture->no_events = rc == GSP_E_PERM || rc == GSP_E_NOTSUP;
    }
    return event->perf && (event->has_arrived || event->misses < MISSES_MAX) ? event : NULL;
}

static void save_python(const struct gsp_capture_thread *subject, struct gsp_python_stack *out)
{
    out->depth = 0;
    if (!subject->target || walk_python(subject, 0) != GSP_OK ||
        subject->thread->depth > GSP_CAPTURE_DEPTH_MAX)
        return;
    out->depth = subject->thread->depth;
    out->frame = gsp_py_target_frame_addr(subject->target, 0);
    out->instr = gsp_py_target_frame_instr(subject->target, 0);
    for (size_t i = 0; i < out->depth; i++) {
        out->locs[i] = subject->thread->locs[i];
        out->entries[i] = (int8_t)gsp_py_target_frame_entry(subject->target, i);
    }
}

static int capture_event(struct gsp_capture *capture, const struct gsp_capture_thread *subject,
                         struct gsp_capture_moment *out)
{
    struct event *event = capture->no_events ? NULL : get_event(capture, subject->tid);
    if (!event)
        return GSP_E_NOTSUP;
    save_python(subject, &capture->before);
    struct gsp_perf_sample moment;
    if (!gsp_proc_perf_capture(event->perf, EVENT_LIMIT_NS, &moment)) {
        event->misses++;
        return GSP_E_TIMEOUT;
    }
    event->has_arrived = true;
    int rc = walk_python(subject, 0);
    if (rc != GSP_OK)
        return GSP_E_TIMEOUT;
    size_t len = moment.stack_len < sizeof(capture->stack) ? moment.stack_len : 0;
    if (len > 0)
        memcpy(capture->stack, moment.stack, len);
    fill(out, &moment.regs, capture->stack, len);
    return GSP_OK;
}

static int capture_stopped(struct gsp_capture *capture, const struct gsp_capture_thread *subject,
                           struct gsp_capture_moment *out, struct gsp_err *err)
{
    struct gsp_stop_regs regs;
    bool is_ready = subject->thread && subject->thread->on_cpu;
    int rc = gsp_proc_stop_hold_task(capture->stop, subject->tid,
                                     is_ready ? HOLD_READY_NS : HOLD_LIMIT_NS, &regs, err);
    if (rc != GSP_OK)
        return rc;
    size_t len = copy_stack(capture, regs.sp, 0);
    rc = walk_python(subject, GSP_PY_SAMPLE_STOPPED);
    gsp_proc_stop_release(capture->stop);
    out->stopped_ns = gsp_now_ns() - gsp_proc_stop_running_ns(capture->stop);
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "Python frames of thread %d: %s", (int)subject->tid,
                           gsp_err_text(rc));
    fill(out, &regs, capture->stack, len);
    return GSP_OK;
}

int gsp_sample__capture_moment(struct gsp_capture *capture, enum gsp_capture_method way,
                               const struct gsp_capture_thread *subject,
                               struct gsp_capture_moment *out, struct gsp_err *err)
{
    *out = (struct gsp_capture_moment){0};
    if (way == GSP_CAPTURE_STOP ? capture->choice == GSP_CAPTURE_NO_STOP
                                : capture->choice == GSP_CAPTURE_ONLY_STOP)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "thread %d: this capture method is disabled",
                           (int)subject->tid);
    if (way == GSP_CAPTURE_IDLE)
        return capture_asleep(capture, subject, out);
    return way == GSP_CAPTURE_EVENT ? capture_event(capture, subject, out)
                                    : capture_stopped(capture, subject, out, err);
}

void gsp_sample__capture_sweep(struct gsp_capture *capture)
{
    gsp_proc_stop_sweep(capture->stop);
}

bool gsp_sample__capture_extend(struct gsp_capture *capture, enum gsp_capture_method way,
                                struct gsp_capture_moment *moment, bool *again)
{
    size_t have = moment->copy.stack_len;
    *again = way == GSP_CAPTURE_STOP;
    if (*again) {
        bool can_grow = capture->pages < STACK_PAGES;
        capture->pages *= can_grow ? 2 : 1;
        return can_grow;
    }
    size_t more = copy_stack(capture, moment->copy.regs.sp + have, have);
    moment->copy.stack_len = have + more;
    return more > 0;
}

const struct gsp_python_stack *gsp_sample__capture_python_before(const struct gsp_capture *capture)
{
    return &capture->before;
}

void gsp_sample__capture_set_policy(struct gsp_capture *capture, enum gsp_capture_policy choice)
{
    capture->choice = choice;
}
