/* SPDX-License-Identifier: Apache-2.0 */
#include "py/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/time.h"
#include "py/target_internal.h"

/* Interval between comparisons of the heads of the thread lists (new threads are added at the
 * front), and between comparisons of the whole lists. */
#define HEADS_INTERVAL_NS (5 * GSP_NS_PER_MS)
#define LIST_INTERVAL_NS  (250 * GSP_NS_PER_MS)
/* The latter for a process without running threads: only a thread that Python does not know yet
 * could have changed the lists. */
#define QUIET_LIST_NS     GSP_NS_PER_S
/* At rates above about 10 kHz not every pass reads the holder of the GIL, or checks whether a
 * thread still runs whose stack has changed since the previous pass. */
#define GIL_AGE_NS        (50 * GSP_NS_PER_US)
#define STATE_AGE_NS      (50 * GSP_NS_PER_US)
/* Two members of a struct that are closer than this are read as one span. */
#define SPAN_BYTES_MAX    2048U
/* After this number of consecutive passes in which the thread had run (with and without samples of
 * idle threads), assume that it ran again. Check two of every RESTLESS_CHECK passes. */
#define RESTLESS_IDLE     6U
#define RESTLESS          2U
#define RESTLESS_CHECK    16U

/* Initializes a target whose runtime has been located. */
static int init(struct gsp_py_target *target, struct gsp_err *err)
{
    target->walker = malloc(sizeof(*target->walker));
    if (!target->walker)
        return gsp_err_nomem(err);
    gsp_py__walker_init(target->walker, target->mem, &target->run);
    gsp_proc_snap_init(&target->snap, target->mem);
    int rc = gsp_py__threads_list(target, gsp_now_ns());
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "threads of process %d: %s", (int)target->pid,
                           gsp_err_text(rc));
    return GSP_OK;
}

/* Ends an open function with the result of its other steps. */
static int finish_open(struct gsp_py_target *target, int rc, struct gsp_py_target **out,
                       struct gsp_err *err)
{
    if (rc == GSP_OK)
        rc = init(target, err);
    if (rc == GSP_OK)
        *out = target;
    else
        gsp_py_target_close(target);
    return rc;
}

int gsp_py_target_open(pid_t pid, struct gsp_py_target **out, struct gsp_err *err)
{
    return gsp_py_target_open_child(pid, NULL, out, err);
}

int gsp_py_target_open_child(pid_t pid, struct gsp_py_target *parent, struct gsp_py_target **out,
                             struct gsp_err *err)
{
    *out = NULL;
    struct gsp_py_target *target = calloc(1, sizeof(*target));
    if (!target)
        return gsp_err_nomem(err);
    target->pid = pid;
    int rc = gsp_proc_mem_open_pid(pid, &target->mem, err);
    bool located =
        rc == GSP_OK && parent &&
        gsp_py__locate_forked(target->mem, parent->mem, &parent->run, &target->run, NULL) == GSP_OK;
    if (rc == GSP_OK && !located)
        rc = gsp_py_locate(pid, target->mem, &target->run, err);
    return finish_open(target, rc, out, err);
}

int gsp_py_target_open_core(struct gsp_core *core, struct gsp_py_target **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_py_target *target = calloc(1, sizeof(*target));
    if (!target)
        return gsp_err_nomem(err);
    target->core = core;
    target->pid = gsp_proc_core_info(core)->pid;
    int rc = gsp_proc_core_mem(core, &target->mem, err);
    if (rc == GSP_OK) {
        const struct gsp_py_locate_input input = {.mem = target->mem,
                                                  .maps = gsp_proc_core_maps(core),
                                                  .exe = gsp_proc_core_info(core)->exe};
        rc = gsp_py__locate_in(&input, &target->run, err);
    }
    return finish_open(target, rc, out, err);
}

int gsp_py__target_open_located(struct gsp_mem *mem, const struct gsp_py_runtime *runtime,
                                struct gsp_py_target **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_py_target *target = calloc(1, sizeof(*target));
    if (!target) {
        gsp_proc_mem_free(mem);
        return gsp_err_nomem(err);
    }
    target->mem = mem;
    target->run = *runtime;
    return finish_open(target, GSP_OK, out, err);
}

void gsp_py_target_close(struct gsp_py_target *target)
{
    if (!target)
        return;
    for (size_t i = 0; i < target->thread_count; i++) {
        gsp_py__thread_clear(target->threads[i]);
        free(target->threads[i]);
    }
    free(target->threads);
    free(target->spans);
    gsp_proc_snap_free(&target->snap);
    if (target->walker)
        gsp_py__walker_free(target->walker);
    free(target->walker);
    gsp_proc_mem_free(target->mem);
    free(target);
}

/* The comparison of the thread lists that is due. */
enum lists {
    LISTS_NONE,
    LISTS_HEADS,
    LISTS_WHOLE,
};

static enum lists lists_due(const struct gsp_py_target *target, int64_t now_ns)
{
    if (now_ns - target->listed_ns >= LIST_INTERVAL_NS)
        return LISTS_WHOLE;
    return now_ns - target->heads_ns >= HEADS_INTERVAL_NS ? LISTS_HEADS : LISTS_NONE;
}

static bool reserve_spans(struct gsp_py_target *target, size_t need)
{
    return gsp_array_fit(&target->spans, &target->span_cap, need);
}

/* Returns whether to assume that the thread has run since the last pass, because it had run before
 * each of the last passes. Then only its current activity is read. Two consecutive passes of every
 * RESTLESS_CHECK test the assumption; a needless read of a stack costs more than such a test. */
static bool is_restless(const struct gsp_py_thread *thread, unsigned flags)
{
    unsigned least = flags & GSP_PY_SAMPLE_IDLE ? RESTLESS_IDLE : RESTLESS;
    return thread->sleep.wakes >= least && thread->sleep.wakes % RESTLESS_CHECK > 1;
}

/* Returns true if the thread has not run since the last pass. */
static bool update_state(struct gsp_py_target *target, struct gsp_py_thread *thread, unsigned flags,
                         int64_t now_ns)
{
    if (thread->on_cpu && thread->changed && now_ns - target->sampled_ns < STATE_AGE_NS)
        return false;
    if (thread->task.stat_fd < 0) {
        thread->state = 0;
        thread->on_cpu = true;
        return false;
    }
    bool is_known = thread->state == 'R' || thread->state == 'S';
    /* Read the count before the activity: if the thread runs in between, the next pass notices. */
    uint64_t slices = is_known && !thread->on_cpu && !is_restless(thread, flags)
                          ? gsp_proc_taskfd_slices(&thread->task)
                          : 0;
    if (slices && thread->sleep.is_current && slices == thread->sleep.slices) {
        thread->sleep.wakes = 0;
        return true; /* still in the same sleep */
    }
    thread->sleep.wakes++;
    thread->sleep.is_sampled = false;
    thread->sleep.is_current = false;
    enum gsp_activity activity = gsp_proc_taskfd_activity(&thread->task);
    thread->on_cpu = activity == GSP_ACTIVITY_RUNNING;
    if (thread->on_cpu) {
        thread->state = 'R';
        return false;
    }
    if (activity == GSP_ACTIVITY_WAITING && is_known) {
        thread->state = 'S'; /* or 'D': a distinction not worth another read */
        thread->sleep.slices = slices;
        thread->sleep.is_current = slices != 0;
        return false;
    }
    thread->sleep.slices = gsp_proc_taskfd_slices(&thread->task);
    thread->state = gsp_proc_taskfd_state(&thread->task);
    thread->on_cpu = thread->state == 'R';
    thread->sleep.is_current =
        thread->sleep.slices && (thread->state == 'S' || thread->state == 'D');
    if (thread->state == 0 || thread->state == 'Z' || thread->state == 'X')
        target->stale = true;
    return false;
}

/* Returns true if no thread has run since the last pass. */
static bool update_states(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    bool none = target->thread_count > 0;
    for (size_t i = 0; i < target->thread_count; i++)
        none &= update_state(target, target->threads[i], flags, now_ns);
    return none;
}

/* Walks the lists and reads the states of new threads. */
static int renew_list(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    target->stale = false;
    int rc = gsp_py__threads_list(target, now_ns);
    for (size_t i = 0; rc == GSP_OK && i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        if (thread->state == 0 && !thread->on_cpu)
            update_state(target, thread, flags, now_ns);
    }
    return rc;
}

void gsp_py_target_update_states(struct gsp_py_target *target, int64_t now_ns)
{
    bool changed = false;
    update_states(target, 0, now_ns);
    if (lists_due(target, now_ns) != LISTS_NONE &&
        reserve_spans(target, gsp_py__lists_span_count(target))) {
        size_t count = gsp_py__lists_plan(target, target->spans);
        gsp_ignore(gsp_proc_mem_gather(target->mem, target->spans, count, NULL));
        changed = gsp_py__lists_have_changed(target, now_ns);
    }
    if (changed || target->stale)
        gsp_ignore(renew_list(target, 0, now_ns)); /* the next pass reports the failure */
}

/* Reads the head of an interpreter's thread list, and whether it collects garbage. Both are members
 * of one struct; if they are close they are read as one span, because a span costs more than its
 * bytes. */
static void read_interp(struct gsp_py_target *target, struct gsp_py__interp *head)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    bool has_gc = lay->interp_gc != UINT32_MAX && lay->gc_collecting != GSP_NO_OFFSET;
    gsp_raddr list = head->interp + lay->interp_tstate_head;
    gsp_raddr gc = has_gc ? head->interp + lay->interp_gc + lay->gc_collecting : list;
    gsp_raddr low = list < gc ? list : gc;
    size_t len = (size_t)(list < gc ? gc - list : list - gc) + 8;
    const unsigned char *bytes;
    int32_t collecting = 0;
    head->now_tstate = ~head->tstate; /* counts as changed if it cannot be read */
    if (len <= SPAN_BYTES_MAX && gsp_proc_snap_view(&target->snap, low, len, &bytes) == GSP_OK) {
        memcpy(&head->now_tstate, bytes + (list - low), 8);
        memcpy(&collecting, bytes + (gc - low), sizeof(collecting));
    } else if (len > SPAN_BYTES_MAX) {
        if (gsp_proc_snap_read(&target->snap, list, &head->now_tstate, 8) != GSP_OK)
            head->now_tstate = ~head->tstate;
        if (gsp_proc_snap_read(&target->snap, gc, &collecting, sizeof(collecting)) != GSP_OK)
            collecting = 0;
    }
    head->collecting = has_gc && collecting == 1;
}

/* Determines the holder of the GIL from the bytes of this pass. */
static void read_holder(struct gsp_py_target *target, struct gsp_py__interp *head,
                        gsp_raddr current)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    int32_t locked = 0;
    int32_t enabled = 1;
    head->holder = current;
    if (!head->gil)
        return;
    if (lay->gil_enabled != GSP_NO_OFFSET &&
        gsp_proc_snap_read(&target->snap, head->gil + lay->gil_enabled, &enabled, 4) != GSP_OK)
        enabled = 0;
    if (gsp_proc_snap_read(&target->snap, head->gil + lay->gil_locked, &locked, 4) != GSP_OK ||
        gsp_proc_snap_read(&target->snap, head->gil + lay->gil_last_holder, &head->holder, 8) !=
            GSP_OK ||
        locked != 1 || !enabled)
        head->holder = 0;
}

/* Reads the data that belongs to no thread. */
static void read_common(struct gsp_py_target *target)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    gsp_raddr current = 0;
    gsp_raddr at = target->run.addr + lay->runtime_tstate_current;
    if (lay->runtime_tstate_current != UINT32_MAX &&
        gsp_proc_snap_read(&target->snap, at, &current, 8) != GSP_OK)
        current = 0;
    at = target->run.addr + lay->runtime_interpreters_head;
    if (gsp_proc_snap_read(&target->snap, at, &target->now_interp, 8) != GSP_OK)
        target->now_interp = 0;
    for (size_t i = 0; i < target->interp_count; i++) {
        read_interp(target, &target->heads[i]);
        read_holder(target, &target->heads[i], current);
    }
}

/* Returns whether threads or interpreters were added. They are added at the heads of the lists. */
static bool heads_changed(struct gsp_py_target *target, int64_t now_ns)
{
    bool changed = target->now_interp != target->heads[target->interp_count - 1].interp;
    for (size_t i = 0; i < target->interp_count; i++)
        changed |= target->heads[i].now_tstate != target->heads[i].tstate;
    target->heads_ns = now_ns;
    return changed;
}

/* Reads the windows of the selected threads, all in one system call. */
static int gather(struct gsp_py_target *target, bool with_common, enum lists due)
{
    size_t need = GSP_SNAP_WINDOWS_MAX + gsp_py__lists_span_count(target);
    for (size_t i = 0; i < target->thread_count; i++)
        need += target->threads[i]->selected ? target->threads[i]->snap.count : 0;
    if (!reserve_spans(target, need))
        return GSP_E_NOMEM;
    target->snap.planned = 0;
    size_t listed = due == LISTS_WHOLE ? gsp_py__lists_plan(target, target->spans) : 0;
    size_t count = listed;
    if (with_common)
        count += gsp_proc_snap_plan(&target->snap, target->spans + count, target->span_cap - count);
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        if (thread->selected)
            count +=
                gsp_proc_snap_plan(&thread->snap, target->spans + count, target->span_cap - count);
    }
    size_t done = 0;
    int rc = count ? gsp_proc_mem_gather(target->mem, target->spans, count, &done) : GSP_OK;
    if (rc != GSP_OK && rc != GSP_E_FAULT)
        return rc;
    /* Report to each snapshot how many of its spans were read. */
    done -= done < listed ? done : listed;
    struct gsp_snap *snap = &target->snap;
    for (size_t i = 0;; i++) {
        size_t planned = snap->planned;
        size_t mine = done < planned ? done : planned;
        gsp_proc_snap_filled(snap, mine);
        done -= mine;
        while (i < target->thread_count && !target->threads[i]->selected)
            i++;
        if (i >= target->thread_count)
            break;
        snap = &target->threads[i]->snap;
    }
    return GSP_OK;
}

static int keep_locs(struct gsp_py_thread *thread, const struct gsp_py_chain *chain)
{
    if (gsp_unlikely(chain->depth > thread->locs_cap) &&
        !gsp_array_fit(&thread->locs, &thread->locs_cap, chain->depth + chain->depth / 2 + 16))
        return GSP_E_NOMEM;
    thread->changed = thread->depth != chain->depth;
    for (size_t i = 0; i < chain->depth; i++) {
        thread->changed |= thread->locs[i] != chain->frames[i].loc;
        thread->locs[i] = chain->frames[i].loc;
    }
    thread->depth = chain->depth;
    thread->cut = chain->cut;
    return GSP_OK;
}

static void select_threads(struct gsp_py_target *target, unsigned flags)
{
    bool cleared = gsp_py__walker_tidy(target->walker);
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        thread->changed = false;
        if (cleared) {
            thread->sleep.is_sampled = false;
            thread->depth = 0;
            thread->status = GSP_E_TORN; /* until it is walked again */
        }
        thread->selected = thread->on_cpu || (flags & GSP_PY_SAMPLE_IDLE);
        if (thread->selected && thread->sleep.is_current && thread->sleep.is_sampled &&
            thread->status == GSP_OK)
            thread->selected = false; /* locs are still valid */
    }
}

static int walk_threads(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    struct gsp_py_walker *walker = target->walker;
    walker->stopped = (flags & GSP_PY_SAMPLE_STOPPED) != 0;
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        const struct gsp_py__interp *head = &target->heads[thread->interp];
        thread->has_gil = thread->tstate == head->holder;
        thread->in_gc = thread->has_gil && head->collecting;
        if (!thread->selected || ((flags & GSP_PY_SAMPLE_GIL_ONLY) && !thread->has_gil))
            continue;
        thread->status = gsp_py__walk(walker, &thread->snap, thread->tstate, now_ns);
        if (thread->status == GSP_E_NOPROC || thread->status == GSP_E_PERM ||
            thread->status == GSP_E_NOMEM)
            return thread->status;
        if (thread->status == GSP_OK && keep_locs(thread, &walker->chain) != GSP_OK)
            return GSP_E_NOMEM;
        if (thread->status != GSP_OK)
            target->stale = true;
        thread->sleep.is_sampled = thread->sleep.is_current;
    }
    return GSP_OK;
}

/* A thread that has entered a sub-interpreter has a thread state and a stack in each interpreter.
 * It runs in the one that it entered last. */
static void find_shadowed(struct gsp_py_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++)
        target->threads[i]->shadowed = false;
    if (target->interp_count < 2)
        return;
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *outer = target->threads[i];
        for (size_t k = 0; k < target->thread_count && outer->tid; k++) {
            const struct gsp_py_thread *inner = target->threads[k];
            if (inner->tid == outer->tid && inner->interp > outer->interp && inner->depth > 0)
                outer->shadowed = true;
        }
    }
}

/* Called if no thread has run since the last pass. Returns whether the results of that pass are
 * still complete. */
static bool is_quiet(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    if (target->stale || (flags & GSP_PY_SAMPLE_STOPPED) ||
        now_ns - target->listed_ns >= QUIET_LIST_NS)
        return false;
    for (size_t i = 0; (flags & GSP_PY_SAMPLE_IDLE) && i < target->thread_count; i++) {
        const struct gsp_py_thread *thread = target->threads[i];
        if (!thread->sleep.is_sampled || thread->status != GSP_OK)
            return false;
    }
    for (size_t i = 0; i < target->thread_count; i++)
        target->threads[i]->changed = false;
    return true;
}

static int read_memory(struct gsp_py_target *target, unsigned flags, bool with_common,
                       enum lists due)
{
    select_threads(target, flags);
    int rc = gather(target, with_common, due);
    if (rc == GSP_OK && with_common)
        read_common(target);
    return rc;
}

int gsp_py_target_sample(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    bool with_state = !(flags & GSP_PY_SAMPLE_KEEP_STATES);
    if (with_state && update_states(target, flags, now_ns) && is_quiet(target, flags, now_ns))
        return GSP_OK;
    int rc = with_state && target->stale ? renew_list(target, flags, now_ns) : GSP_OK;
    if (rc != GSP_OK)
        return rc;
    enum lists due = with_state ? lists_due(target, now_ns) : LISTS_NONE;
    bool with_common = (flags & (GSP_PY_SAMPLE_GIL_ONLY | GSP_PY_SAMPLE_STOPPED)) ||
                       due == LISTS_HEADS || now_ns - target->gil_ns >= GIL_AGE_NS;
    rc = read_memory(target, flags, with_common, due);
    bool changed =
        rc == GSP_OK && ((due == LISTS_WHOLE && gsp_py__lists_have_changed(target, now_ns)) ||
                         (due == LISTS_HEADS && heads_changed(target, now_ns)));
    if (changed) {
        /* Threads have started or ended: repeat with the current ones. */
        rc = renew_list(target, flags, now_ns);
        rc = rc == GSP_OK ? read_memory(target, flags, true, LISTS_NONE) : rc;
    }
    if (rc != GSP_OK)
        return rc;
    target->gil_ns = with_common || changed ? now_ns : target->gil_ns;
    target->sampled_ns = now_ns;
    rc = walk_threads(target, flags, now_ns);
    find_shadowed(target);
    return rc;
}

int gsp_py_target_walk(struct gsp_py_target *target, struct gsp_py_thread *thread, unsigned flags,
                       int64_t now_ns)
{
    target->walker->stopped = (flags & GSP_PY_SAMPLE_STOPPED) != 0;
    gsp_proc_snap_refresh(&thread->snap);
    thread->status = gsp_py__walk(target->walker, &thread->snap, thread->tstate, now_ns);
    return thread->status == GSP_OK ? keep_locs(thread, &target->walker->chain) : thread->status;
}

size_t gsp_py_target_thread_count(const struct gsp_py_target *target)
{
    return target->thread_count;
}

struct gsp_py_thread *gsp_py_target_thread(struct gsp_py_target *target, size_t i)
{
    return i < target->thread_count ? target->threads[i] : NULL;
}

pid_t gsp_py_target_pid(const struct gsp_py_target *target)
{
    return target->pid;
}

struct gsp_mem *gsp_py_target_mem(struct gsp_py_target *target)
{
    return target->mem;
}

const struct gsp_py_runtime *gsp_py_target_runtime(const struct gsp_py_target *target)
{
    return &target->run;
}

struct gsp_py_codes *gsp_py_target_codes(struct gsp_py_target *target)
{
    return &target->walker->codes;
}

gsp_raddr gsp_py_target_interp(const struct gsp_py_target *target, size_t i)
{
    return i < target->interp_count ? target->heads[i].interp : 0;
}

uint64_t gsp_py_target_epoch(const struct gsp_py_target *target)
{
    return target->walker->codes.resets;
}

gsp_raddr gsp_py_target_frame_addr(const struct gsp_py_target *target, size_t i)
{
    const struct gsp_py_chain *chain = &target->walker->chain;
    return i < chain->depth ? chain->frames[i].addr : 0;
}

uint64_t gsp_py_target_frame_instr(const struct gsp_py_target *target, size_t i)
{
    const struct gsp_py_chain *chain = &target->walker->chain;
    return i < chain->depth ? chain->frames[i].instr : 0;
}

int gsp_py_target_frame_entry(const struct gsp_py_target *target, size_t i)
{
    const struct gsp_py_chain *chain = &target->walker->chain;
    if (i >= chain->depth || target->run.layout.frames == GSP_PY_FRAMES_OBJECTS)
        return -1;
    return chain->frames[i].is_entry ? 1 : 0;
}

bool gsp_py_target_frame_in_generator(const struct gsp_py_target *target, size_t i)
{
    const struct gsp_py_chain *chain = &target->walker->chain;
    return i < chain->depth && target->run.layout.frames != GSP_PY_FRAMES_OBJECTS &&
           chain->frames[i].in_generator;
}
