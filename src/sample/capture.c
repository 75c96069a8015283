/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "proc/perf.h"
#include "proc/stop.h"

/* A thread that waits for a CPU stops when it gets one, which takes long on a busy machine; one
 * that waits for a disk may take forever. */
#define HOLD_READY_NS  (200 * GSP_NS_PER_MS)
#define HOLD_LIMIT_NS  (20 * GSP_NS_PER_MS)
/* A thread that is on a CPU gives its moment in a fraction of this. */
#define EVENT_LIMIT_NS (300 * GSP_NS_PER_US)
#define PAGE_BYTES     4096U
#define STACK_PAGES    16U /* 64 KB: enough for all stacks of torch that were seen */
#define STACK_PAGES_LO 4U  /* enough for nineteen of twenty */
/* Each event has a ring of locked memory, of which an ordinary user has half a megabyte. */
#define EVENTS_MAX     64U
/* Moments for which a thread is left alone after misses in a row: powers of two up to this. */
#define PATIENCE_MAX   3U
#define LOCS_MAX       1024U

/* The event of one thread. */
struct event {
    pid_t tid;
    struct gsp_perf *perf; /* NULL: it cannot be had */
    size_t stack_bytes;
    unsigned misses; /* in a row */
    unsigned wait;   /* moments until it is tried again */
};

struct gsp_capture {
    enum gsp_capture_choice choice;
    struct gsp_mem *mem; /* borrowed */
    struct gsp_stop *stop;
    unsigned pages; /* of the stack to copy */
    bool no_events; /* not permitted, or the kernel has none */
    size_t event_count;
    struct event events[EVENTS_MAX];
    uint32_t locs[LOCS_MAX]; /* of the Python frames before the event */
    unsigned char stack[STACK_PAGES * PAGE_BYTES];
};

int gsp_capture_open(pid_t pid, struct gsp_mem *mem, struct gsp_capture **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_capture *capture = calloc(1, sizeof(*capture));
    if (!capture)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    capture->mem = mem;
    capture->pages = STACK_PAGES_LO;
    gsp_stop_be_prompt();
    int rc = gsp_stop_new(pid, &capture->stop, err);
    if (rc != GSP_OK) {
        gsp_capture_close(capture);
        return rc;
    }
    *out = capture;
    return GSP_OK;
}

void gsp_capture_close(struct gsp_capture *capture)
{
    if (!capture)
        return;
    for (size_t i = 0; i < capture->event_count; i++)
        gsp_perf_close(capture->events[i].perf);
    gsp_stop_free(capture->stop);
    free(capture);
}

/* Copies the stack from sp on, as far as it is there; returns the bytes. */
static size_t copy_stack(struct gsp_capture *capture, uint64_t sp)
{
    struct gsp_mem_span spans[STACK_PAGES] = {{0}};
    size_t len = 0;
    size_t count = 0;
    for (; count < capture->pages; count++) {
        size_t want = PAGE_BYTES - (size_t)((sp + len) % PAGE_BYTES);
        if (len + want > sizeof(capture->stack))
            break;
        spans[count] = (struct gsp_mem_span){sp + len, want, capture->stack + len};
        len += want;
    }
    size_t done = 0;
    gsp_ignore(gsp_mem_gather(capture->mem, spans, count, &done)); /* what there is of it */
    len = 0;
    for (size_t i = 0; i < done; i++)
        len += spans[i].len;
    return len;
}

static int walk(const struct gsp_mixed_who *who, unsigned flags)
{
    return who->target ? gsp_py_target_walk(who->target, who->thread, flags, gsp_now_ns()) : GSP_OK;
}

static void fill(struct gsp_moment *out, const struct gsp_stop_regs *regs, const void *stack,
                 size_t len)
{
    out->copy = (struct gsp_native_copy){
        .regs = {.pc = regs->pc, .sp = regs->sp, .fp = regs->fp, .lr = regs->lr},
        .stack = stack,
        .stack_len = len};
    memcpy(out->copy.regs.kept, regs->kept, sizeof(out->copy.regs.kept));
}

/* The frame pointer is not told, but what sleeps is in a function of the C library that needs
 * none, and who does has saved it. */
static int take_asleep(struct gsp_capture *capture, const struct gsp_mixed_who *who,
                       struct gsp_moment *out)
{
    struct gsp_stop_regs regs = {0};
    const struct gsp_taskfd *task = who->thread ? &who->thread->task : NULL;
    uint64_t slices = task ? gsp_taskfd_slices(task) : 0;
    if (slices == 0 || !gsp_taskfd_asleep_at(task, &regs.sp, &regs.pc))
        return GSP_E_NOTSUP;
    size_t len = copy_stack(capture, regs.sp);
    int rc = walk(who, GSP_PY_LOOK_STILL);
    uint64_t sp;
    uint64_t pc;
    if (rc != GSP_OK || !gsp_taskfd_asleep_at(task, &sp, &pc) || sp != regs.sp || pc != regs.pc ||
        gsp_taskfd_slices(task) != slices)
        return GSP_E_NOTSUP;
    fill(out, &regs, capture->stack, len);
    return GSP_OK;
}

static struct event *find_event(struct gsp_capture *capture, pid_t tid)
{
    for (size_t i = 0; i < capture->event_count; i++) {
        if (capture->events[i].tid == tid)
            return &capture->events[i];
    }
    return NULL;
}

/* The event of a thread, made or made larger; NULL when it has none. */
static struct event *get_event(struct gsp_capture *capture, pid_t tid)
{
    struct event *event = find_event(capture, tid);
    if (!event && capture->event_count == EVENTS_MAX) {
        /* Threads come and go: start anew. */
        while (capture->event_count > 0)
            gsp_perf_close(capture->events[--capture->event_count].perf);
    }
    size_t bytes = (size_t)capture->pages * PAGE_BYTES;
    if (!event) {
        event = &capture->events[capture->event_count++];
        *event = (struct event){.tid = tid};
    } else if (event->stack_bytes == bytes) {
        return event->perf ? event : NULL;
    }
    gsp_perf_close(event->perf);
    event->stack_bytes = bytes;
    int rc = gsp_perf_open(tid, bytes, &event->perf, NULL);
    capture->no_events = rc == GSP_E_PERM || rc == GSP_E_NOTSUP;
    return event->perf ? event : NULL;
}

static int take_event(struct gsp_capture *capture, const struct gsp_mixed_who *who,
                      struct gsp_moment *out)
{
    struct event *event = capture->no_events ? NULL : get_event(capture, who->tid);
    if (!event)
        return GSP_E_NOTSUP;
    if (event->wait > 0) {
        event->wait--;
        return GSP_E_NOTSUP;
    }
    const struct gsp_py_thread *thread = who->target ? who->thread : NULL;
    if (walk(who, 0) != GSP_OK)
        return GSP_E_NOTSUP;
    size_t depth = thread ? thread->depth : 0;
    if (depth > LOCS_MAX)
        return GSP_E_NOTSUP;
    if (depth > 0)
        memcpy(capture->locs, thread->locs, depth * sizeof(*capture->locs));
    struct gsp_perf_moment moment;
    bool good = gsp_perf_take(event->perf, EVENT_LIMIT_NS, &moment) && walk(who, 0) == GSP_OK;
    if (good && thread)
        good = thread->depth == depth &&
               memcmp(capture->locs, thread->locs, depth * sizeof(*capture->locs)) == 0;
    if (!good) {
        gsp_capture_judge(capture, who->tid, false);
        return GSP_E_NOTSUP;
    }
    fill(out, &moment.regs, moment.stack, moment.stack_len);
    return GSP_OK;
}

static int take_stop(struct gsp_capture *capture, const struct gsp_mixed_who *who,
                     struct gsp_moment *out, struct gsp_err *err)
{
    struct gsp_stop_regs regs;
    bool is_ready = who->thread && who->thread->on_cpu;
    int rc = gsp_stop_hold_task(capture->stop, who->tid, is_ready ? HOLD_READY_NS : HOLD_LIMIT_NS,
                                &regs, err);
    if (rc != GSP_OK)
        return rc;
    size_t len = copy_stack(capture, regs.sp);
    rc = walk(who, GSP_PY_LOOK_STILL);
    gsp_stop_release(capture->stop);
    out->stopped_ns = gsp_now_ns() - gsp_stop_running_ns(capture->stop);
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "Python frames of thread %d: %s", (int)who->tid,
                           gsp_err_text(rc));
    fill(out, &regs, capture->stack, len);
    return GSP_OK;
}

int gsp_capture_take(struct gsp_capture *capture, enum gsp_capture_way way,
                     const struct gsp_mixed_who *who, struct gsp_moment *out, struct gsp_err *err)
{
    *out = (struct gsp_moment){0};
    if (way == GSP_CAPTURE_STOP ? capture->choice == GSP_CAPTURE_NO_STOP
                                : capture->choice == GSP_CAPTURE_ONLY_STOP)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "thread %d is not to be taken this way",
                           (int)who->tid);
    if (way == GSP_CAPTURE_ASLEEP)
        return take_asleep(capture, who, out);
    return way == GSP_CAPTURE_EVENT ? take_event(capture, who, out)
                                    : take_stop(capture, who, out, err);
}

void gsp_capture_sweep(struct gsp_capture *capture)
{
    gsp_stop_sweep(capture->stop);
}

bool gsp_capture_grow(struct gsp_capture *capture)
{
    if (capture->pages >= STACK_PAGES)
        return false;
    capture->pages *= 2;
    return true;
}

void gsp_capture_judge(struct gsp_capture *capture, pid_t tid, bool good)
{
    struct event *event = find_event(capture, tid);
    if (!event)
        return;
    event->misses = good ? 0 : event->misses + 1;
    unsigned power = event->misses < PATIENCE_MAX ? event->misses : PATIENCE_MAX;
    event->wait = good ? 0 : (1U << power) - 1;
}

void gsp_capture_choose(struct gsp_capture *capture, enum gsp_capture_choice choice)
{
    capture->choice = choice;
}
