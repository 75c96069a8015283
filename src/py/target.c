/* SPDX-License-Identifier: Apache-2.0 */
#include "py/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "py/target_internal.h"

/* The heads of the lists of threads are compared this often (new threads go in front), the
 * whole lists are walked this often. */
#define HEADS_INTERVAL_NS (5 * GSP_NS_PER_MS)
#define LIST_INTERVAL_NS  (250 * GSP_NS_PER_MS)
/* The same of a process of which no thread runs: only one that Python does not know yet could
 * have changed the lists. */
#define QUIET_LIST_NS     GSP_NS_PER_S
/* At rates beyond some ten thousand a second these are not asked for at each look: who holds
 * the GIL, and whether a thread still runs that has moved since the look before. */
#define GIL_AGE_NS        (50 * GSP_NS_PER_US)
#define STATE_AGE_NS      (50 * GSP_NS_PER_US)

/* Once the runtime is known. */
static int begin(struct gsp_py_target *target, struct gsp_err *err)
{
    target->walker = malloc(sizeof(*target->walker));
    if (!target->walker)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    gsp_py_walker_init(target->walker, target->mem, &target->run);
    gsp_snap_init(&target->snap, target->mem);
    int rc = gsp_py__threads_list(target, gsp_now_ns());
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "threads of process %d: %s", (int)target->pid,
                           gsp_err_text(rc));
    return GSP_OK;
}

int gsp_py_target_open(pid_t pid, struct gsp_py_target **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_py_target *target = calloc(1, sizeof(*target));
    if (!target)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    target->pid = pid;
    int rc = gsp_mem_open_pid(pid, &target->mem, err);
    if (rc == GSP_OK)
        rc = gsp_py_locate(pid, target->mem, &target->run, err);
    if (rc == GSP_OK)
        rc = begin(target, err);
    if (rc != GSP_OK) {
        gsp_py_target_close(target);
        return rc;
    }
    *out = target;
    return GSP_OK;
}

int gsp_py_target_open_core(struct gsp_core *core, struct gsp_py_target **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_py_target *target = calloc(1, sizeof(*target));
    if (!target)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    target->core = core;
    target->pid = gsp_core_info(core)->pid;
    int rc = gsp_core_mem(core, &target->mem, err);
    if (rc == GSP_OK) {
        const struct gsp_py_place place = {
            .mem = target->mem, .maps = gsp_core_maps(core), .exe = gsp_core_info(core)->exe};
        rc = gsp_py_locate_in(&place, &target->run, err);
    }
    if (rc == GSP_OK)
        rc = begin(target, err);
    if (rc != GSP_OK) {
        gsp_py_target_close(target);
        return rc;
    }
    *out = target;
    return GSP_OK;
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
    gsp_snap_free(&target->snap);
    if (target->walker)
        gsp_py_walker_free(target->walker);
    free(target->walker);
    gsp_mem_free(target->mem);
    free(target);
}

/* Have threads come?  They are put at the head of their interpreter's list. */
static bool heads_moved(struct gsp_py_target *target)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    for (size_t i = 0; i < target->interp_count; i++) {
        uint64_t words[2] = {0};
        struct gsp_mem_span spans[] = {
            {target->heads[i].interp + lay->interp_tstate_head, 8, &words[0]},
            {target->run.addr + lay->runtime_interpreters_head, 8, &words[1]}};
        if (gsp_mem_gather(target->mem, spans, GSP_COUNT(spans), NULL) != GSP_OK ||
            words[0] != target->heads[i].tstate ||
            words[1] != target->heads[target->interp_count - 1].interp)
            return true;
    }
    return false;
}

static int update_list(struct gsp_py_target *target, int64_t now_ns)
{
    bool due = target->stale || now_ns - target->listed_ns >= LIST_INTERVAL_NS;
    if (!due && now_ns - target->heads_ns >= HEADS_INTERVAL_NS) {
        target->heads_ns = now_ns;
        due = heads_moved(target);
    }
    if (!due)
        return GSP_OK;
    target->stale = false;
    return gsp_py__threads_list(target, now_ns);
}

static void update_state(struct gsp_py_target *target, struct gsp_py_thread *thread, int64_t now_ns)
{
    if (thread->on_cpu && thread->changed && now_ns - target->looked_ns < STATE_AGE_NS)
        return;
    if (thread->task.stat_fd < 0) {
        thread->state = 0;
        thread->on_cpu = true;
        return;
    }
    uint64_t slices = thread->slept ? gsp_taskfd_slices(&thread->task) : 0;
    if (slices && slices == thread->slices)
        return; /* it has not run: still asleep, still there */
    thread->taken = false;
    thread->slept = false;
    enum gsp_activity activity = gsp_taskfd_activity(&thread->task);
    if (activity == GSP_ACTIVITY_WAITING && slices && thread->state == 'S') {
        /* It ran, and sleeps again: what its state is called does not matter so much. */
        thread->slices = slices;
        thread->slept = true;
        return;
    }
    thread->on_cpu = activity == GSP_ACTIVITY_RUNNING;
    thread->state = 'R';
    if (thread->on_cpu)
        return;
    /* The number first, then the state: if it ran in between, the next look sees it. */
    thread->slices = gsp_taskfd_slices(&thread->task);
    thread->state = gsp_taskfd_state(&thread->task);
    thread->on_cpu = thread->state == 'R';
    thread->slept = thread->state == 'S' || thread->state == 'D';
    if (thread->state == 0 || thread->state == 'Z' || thread->state == 'X')
        target->stale = true;
}

static int update_states(struct gsp_py_target *target, int64_t now_ns)
{
    int rc = update_list(target, now_ns);
    if (rc != GSP_OK)
        return rc;
    target->all_slept = target->thread_count > 0;
    for (size_t i = 0; i < target->thread_count; i++) {
        update_state(target, target->threads[i], now_ns);
        target->all_slept &= target->threads[i]->slept;
    }
    return GSP_OK;
}

void gsp_py_target_states(struct gsp_py_target *target, int64_t now_ns)
{
    gsp_ignore(update_states(target, now_ns)); /* the look that follows tells */
}

static bool read_collecting(struct gsp_py_target *target, gsp_raddr interp)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    int32_t collecting = 0;
    return lay->interp_gc != UINT32_MAX && lay->gc_collecting != GSP_NO_OFFSET &&
           gsp_snap_read(&target->snap, interp + lay->interp_gc + lay->gc_collecting, &collecting,
                         sizeof(collecting)) == GSP_OK &&
           collecting == 1;
}

/* Who holds the GIL, from the bytes of this look. */
static void read_gil(struct gsp_py_target *target)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    uint64_t current = 0;
    if (lay->runtime_tstate_current != UINT32_MAX) {
        gsp_raddr at = target->run.addr + lay->runtime_tstate_current;
        if (gsp_snap_read(&target->snap, at, &current, 8) != GSP_OK)
            current = 0;
    }
    for (size_t i = 0; i < target->interp_count; i++) {
        struct gsp_py__head *head = &target->heads[i];
        head->holder = current;
        head->collecting = read_collecting(target, head->interp);
        if (!head->gil)
            continue;
        int32_t locked = 0;
        int32_t enabled = 1;
        if (lay->gil_enabled != GSP_NO_OFFSET &&
            gsp_snap_read(&target->snap, head->gil + lay->gil_enabled, &enabled, 4) != GSP_OK)
            enabled = 0;
        if (gsp_snap_read(&target->snap, head->gil + lay->gil_locked, &locked, 4) != GSP_OK ||
            gsp_snap_read(&target->snap, head->gil + lay->gil_last_holder, &head->holder, 8) !=
                GSP_OK ||
            locked != 1 || !enabled)
            head->holder = 0;
    }
}

static bool reserve_spans(struct gsp_py_target *target, size_t need)
{
    if (need <= target->span_cap)
        return true;
    struct gsp_mem_span *grown = realloc(target->spans, need * 2 * sizeof(*grown));
    if (!grown)
        return false;
    target->spans = grown;
    target->span_cap = need * 2;
    return true;
}

/* Reads what the wanted threads needed last time, all in one system call. */
static int gather(struct gsp_py_target *target, bool with_gil)
{
    size_t need = GSP_SNAP_WINDOWS_MAX;
    for (size_t i = 0; i < target->thread_count; i++)
        need += target->threads[i]->wanted ? target->threads[i]->snap.count : 0;
    if (!reserve_spans(target, need))
        return GSP_E_NOMEM;
    target->snap.planned = 0;
    size_t count = with_gil ? gsp_snap_plan(&target->snap, target->spans, target->span_cap) : 0;
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        if (thread->wanted)
            count += gsp_snap_plan(&thread->snap, target->spans + count, target->span_cap - count);
    }
    size_t done = 0;
    int rc = count ? gsp_mem_gather(target->mem, target->spans, count, &done) : GSP_OK;
    if (rc != GSP_OK && rc != GSP_E_FAULT)
        return rc;
    /* Each snapshot gets its share of what was read. */
    struct gsp_snap *snap = &target->snap;
    for (size_t i = 0;; i++) {
        size_t planned = snap->planned;
        size_t mine = done < planned ? done : planned;
        gsp_snap_filled(snap, mine);
        done -= mine;
        while (i < target->thread_count && !target->threads[i]->wanted)
            i++;
        if (i >= target->thread_count)
            break;
        snap = &target->threads[i]->snap;
    }
    return GSP_OK;
}

static int keep_locs(struct gsp_py_thread *thread, const struct gsp_py_chain *chain)
{
    if (chain->depth > thread->locs_cap) {
        size_t cap = chain->depth + chain->depth / 2 + 16;
        uint32_t *grown = realloc(thread->locs, cap * sizeof(*grown));
        if (!grown)
            return GSP_E_NOMEM;
        thread->locs = grown;
        thread->locs_cap = cap;
    }
    thread->changed = thread->depth != chain->depth;
    for (size_t i = 0; i < chain->depth; i++) {
        thread->changed |= thread->locs[i] != chain->frames[i].loc;
        thread->locs[i] = chain->frames[i].loc;
    }
    thread->depth = chain->depth;
    thread->cut = chain->cut;
    return GSP_OK;
}

static void want(struct gsp_py_target *target, unsigned flags)
{
    bool forgotten = gsp_py_walker_tidy(target->walker);
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        thread->changed = false;
        if (forgotten) {
            thread->taken = false;
            thread->depth = 0;
            thread->status = GSP_E_TORN; /* until it is walked again */
        }
        thread->wanted = thread->on_cpu || (flags & GSP_PY_LOOK_IDLE);
        if (thread->wanted && thread->slept && thread->taken && thread->status == GSP_OK)
            thread->wanted = false; /* locs are still true */
    }
}

static int walk_threads(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    struct gsp_py_walker *walker = target->walker;
    walker->still = (flags & GSP_PY_LOOK_STILL) != 0;
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        const struct gsp_py__head *head = &target->heads[thread->interp];
        thread->has_gil = thread->tstate == head->holder;
        thread->in_gc = thread->has_gil && head->collecting;
        if (!thread->wanted || ((flags & GSP_PY_LOOK_GIL_ONLY) && !thread->has_gil))
            continue;
        thread->status = gsp_py_walk(walker, &thread->snap, thread->tstate, now_ns);
        if (thread->status == GSP_E_NOPROC || thread->status == GSP_E_PERM ||
            thread->status == GSP_E_NOMEM)
            return thread->status;
        if (thread->status == GSP_OK && keep_locs(thread, &walker->chain) != GSP_OK)
            return GSP_E_NOMEM;
        if (thread->status != GSP_OK)
            target->stale = true;
        thread->taken = thread->slept;
    }
    return GSP_OK;
}

/* A thread that has entered a sub-interpreter has a thread state, and a stack, in each: the
 * one it entered last is where it runs. */
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

/* Did all threads sleep at the last look, and has none run since?  Then all is as it was. */
static bool is_quiet(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    if (!target->all_slept || target->stale || (flags & GSP_PY_LOOK_STILL) ||
        now_ns - target->listed_ns >= QUIET_LIST_NS)
        return false;
    for (size_t i = 0; i < target->thread_count; i++) {
        const struct gsp_py_thread *thread = target->threads[i];
        bool known = !(flags & GSP_PY_LOOK_IDLE) || (thread->taken && thread->status == GSP_OK);
        if (!known || !thread->slices || gsp_taskfd_slices(&thread->task) != thread->slices)
            return false;
    }
    for (size_t i = 0; i < target->thread_count; i++)
        target->threads[i]->changed = false;
    return true;
}

int gsp_py_target_look(struct gsp_py_target *target, unsigned flags, int64_t now_ns)
{
    if (is_quiet(target, flags, now_ns))
        return GSP_OK;
    if (!(flags & GSP_PY_LOOK_NO_STATE)) {
        int rc = update_states(target, now_ns);
        if (rc != GSP_OK)
            return rc;
    }
    want(target, flags);
    bool with_gil = (flags & (GSP_PY_LOOK_GIL_ONLY | GSP_PY_LOOK_STILL)) ||
                    now_ns - target->gil_ns >= GIL_AGE_NS;
    int rc = gather(target, with_gil);
    if (rc != GSP_OK)
        return rc;
    target->looked_ns = now_ns;
    if (with_gil) {
        target->gil_ns = now_ns;
        read_gil(target);
    }
    rc = walk_threads(target, flags, now_ns);
    find_shadowed(target);
    return rc;
}

int gsp_py_target_walk(struct gsp_py_target *target, struct gsp_py_thread *thread, unsigned flags,
                       int64_t now_ns)
{
    target->walker->still = (flags & GSP_PY_LOOK_STILL) != 0;
    gsp_snap_refresh(&thread->snap);
    thread->status = gsp_py_walk(target->walker, &thread->snap, thread->tstate, now_ns);
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

int gsp_py_target_frame_entry(const struct gsp_py_target *target, size_t i)
{
    const struct gsp_py_chain *chain = &target->walker->chain;
    if (i >= chain->depth || target->run.layout.frames == GSP_PY_FRAMES_OBJECTS)
        return -1;
    return chain->frames[i].is_entry ? 1 : 0;
}
