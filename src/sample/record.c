/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/record.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/time.h"
#include "proc/births.h"
#include "proc/task.h"
#include "sample/clock.h"
#include "sample/native_slot.h"
#include "sample/proc_slot.h"

#define SLOTS_MAX          16384U
#define SCAN_INTERVAL_NS   (50 * GSP_NS_PER_MS)
/* How often the children of every known process are listed, in addition to birth notifications.
 * Listing takes at most 1/200 of the time, or 1/20 if notifications were missed. */
#define FULL_INTERVAL_NS   GSP_NS_PER_S
#define FULL_COST_FACTOR   200
#define MISSED_COST_FACTOR 20
#define POLL_NS            (250 * GSP_NS_PER_MS)
/* How often the CPU times of threads are read. */
#define CPU_INTERVAL_NS    GSP_NS_PER_S
/* Longest stop of the threads for one pass. */
#define HOLD_LIMIT_NS      (20 * GSP_NS_PER_MS)
/* After this many consecutive passes, and this time, without a valid stack, the interpreter is
 * searched for again. */
#define BAD_PASSES_MAX     64U
#define BAD_TIME_NS        (250 * GSP_NS_PER_MS)
/* A thread that has had no CPU for this long is sampled without native frames. */
#define OWED_MAX_NS        GSP_NS_PER_S
/* Number of processes polled by one system call. */
#define ENDS_BATCH         256U
/* Attempts to find an interpreter before a process is sampled by native frames. */
#define NATIVE_TRIES       24U
/* Attaching to a process that is starting up fails after this time. */
#define START_LIMIT_NS     GSP_NS_PER_S
#define START_STEP_US      5000U

struct gsp_record {
    struct gsp_record_opts opts;
    struct gsp_profile *profile;
    const struct gsp_record_sink *sink;
    struct gsp_sample_record_stats stats;
    struct gsp_tick_clock clock;
    int64_t start_ns;
    struct gsp_select *select;
    struct gsp_thread_cpu cpu;
    int64_t next_cpu_ns;
    struct gsp_pending *later;      /* samples that wait for names; NULL without native frames */
    struct gsp_native_store *store; /* tables and symbols of native code; NULL without */
    int64_t *gil_ns;                /* by thread of the profile */
    size_t gil_cap;
    pid_t helper;
    struct gsp_births births;
    int64_t next_scan_ns;
    bool births_missed; /* notifications are incomplete: all children must be listed */
    int64_t full_done_ns;
    int64_t full_cost_ns;
    int64_t next_poll_ns;
    int64_t poll_ns;
    int poll_rc; /* result of poll_sink() between two ticks */
    struct gsp_err poll_err;
    int64_t period_ns;
    struct gsp_proc_slot **slots; /* the root first */
    size_t slot_count;
    size_t slot_cap;
    bool root_ended;
    struct gsp_err root_err; /* the last error when attaching to the root */
};

/* Passes a sample with a known stack to the sink. */
static int emit(void *user, struct gsp_sample *sample, bool in_gc, struct gsp_err *err)
{
    struct gsp_record *rec = user;
    if (sample->stack == GSP_NONE)
        return GSP_OK;
    int rc = gsp_sample__select_stack(rec->select, sample->stack, in_gc, &sample->stack, err);
    if (rc != GSP_OK)
        return rc;
    if (sample->stack == GSP_NONE) {
        rec->stats.frames_left++;
        return GSP_OK;
    }
    rec->stats.samples++;
    return rec->sink->sample(rec->sink->user, sample, err);
}

static int add_slot(struct gsp_record *rec, pid_t pid, bool is_root, struct gsp_err *err)
{
    if (rec->slot_count == SLOTS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u processes", SLOTS_MAX);
    if (!gsp_array_fit(&rec->slots, &rec->slot_cap, rec->slot_count + 1))
        return gsp_err_nomem(err);
    struct gsp_proc_slot *slot;
    int rc = gsp_sample__proc_slot_new(pid, is_root, &slot, err);
    if (rc != GSP_OK)
        return rc;
    /* A child may have ended, and been counted, long before its parent reaps it. */
    if (!is_root && !gsp_sample__proc_slot_is_alive(slot)) {
        gsp_sample__proc_slot_free(slot);
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has ended", (int)pid);
    }
    for (size_t i = 0; i < rec->slot_count && !slot->is_from_python; i++)
        slot->is_from_python =
            rec->slots[i]->pid == slot->ppid && gsp_sample__proc_slot_is_python(rec->slots[i]);
    rec->slots[rec->slot_count++] = slot;
    return GSP_OK;
}

static int open_native(const struct gsp_record *rec, struct gsp_proc_slot *slot)
{
    int rc = gsp_sample__native_slot_open(slot, rec->store);
    if (rc == GSP_OK)
        gsp_sample__mixed_set_policy(slot->mixed, rec->opts.capture);
    return rc;
}

/* A process that denies native frames is sampled without them. */
static void open_mixed(struct gsp_record *rec, struct gsp_proc_slot *slot)
{
    if (!rec->opts.native || slot->mixed || slot->mixed_failed)
        return;
    struct gsp_mem *mem = gsp_py_target_mem(slot->target);
    slot->mixed_failed =
        gsp_sample__mixed_open(slot->pid, mem, rec->store, &slot->mixed, &slot->last_err) != GSP_OK;
    if (slot->mixed)
        gsp_sample__mixed_set_policy(slot->mixed, rec->opts.capture);
}

/* Attaches to a process that must be Python, or is about to be. */
static int attach_root(struct gsp_record *rec, struct gsp_err *err)
{
    struct gsp_proc_slot *slot = rec->slots[0];
    int64_t deadline_ns = gsp_now_ns() + START_LIMIT_NS;
    int rc;
    while ((rc = gsp_sample__proc_slot_attach(slot, NULL, gsp_now_ns())) == GSP_E_STARTING) {
        if (gsp_now_ns() > deadline_ns)
            break;
        usleep(START_STEP_US);
    }
    /* If its children are sampled, a shell may be the root. */
    if (rc == GSP_E_NOTPY && rec->opts.native)
        rc = open_native(rec, slot);
    if (rc != GSP_OK && !(rec->opts.subprocesses && rc == GSP_E_NOTPY))
        return gsp_err_set(err, rc, slot->last_err.sys, "%s", slot->last_err.msg);
    if (slot->state == GSP_PROC_SLOT_PYTHON)
        open_mixed(rec, slot);
    if (slot->mixed)
        gsp_sample__mixed_prepare(slot->mixed);
    return GSP_OK;
}

int gsp_sample_record_new(const struct gsp_record_opts *opts, struct gsp_profile *profile,
                          const struct gsp_record_sink *sink, struct gsp_record **out,
                          struct gsp_err *err)
{
    *out = NULL;
    if (!(opts->rate_hz >= GSP_RATE_MIN_HZ && opts->rate_hz <= GSP_RATE_MAX_HZ))
        return gsp_err_set(err, GSP_E_USAGE, 0, "a rate of %g is not between %g and %g Hz",
                           opts->rate_hz, GSP_RATE_MIN_HZ, GSP_RATE_MAX_HZ);
    struct gsp_record *rec = calloc(1, sizeof(*rec));
    if (!rec)
        return gsp_err_nomem(err);
    rec->births = GSP_BIRTHS_CLOSED;
    rec->opts = *opts;
    rec->profile = profile;
    rec->sink = sink;
    rec->period_ns = (int64_t)(1e9 / opts->rate_hz + 0.5);
    int rc = gsp_sample__select_new(&opts->select, profile, &rec->select, err);
    if (rc == GSP_OK && opts->native)
        rc = gsp_native_store_new(&rec->store, err);
    if (rc == GSP_OK && opts->native)
        rc = gsp_sample__pending_new(profile, emit, rec, &rec->later, err);
    if (rc == GSP_OK)
        rc = add_slot(rec, opts->pid, true, err);
    if (rc == GSP_OK && !opts->is_child)
        rc = attach_root(rec, err);
    if (rc != GSP_OK) {
        gsp_sample_record_free(rec);
        return rc;
    }
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(profile);
    meta->start_ns = gsp_realtime_ns();
    meta->period_ns = rec->period_ns;
    meta->unit = GSP_UNIT_NS;
    *out = rec;
    return GSP_OK;
}

void gsp_sample_record_free(struct gsp_record *rec)
{
    if (!rec)
        return;
    for (size_t i = 0; i < rec->slot_count; i++)
        gsp_sample__proc_slot_free(rec->slots[i]);
    gsp_proc_births_close(&rec->births);
    gsp_sample__select_free(rec->select);
    gsp_sample__pending_free(rec->later);
    gsp_native_store_free(rec->store);
    gsp_sample__thread_cpu_free(&rec->cpu);
    free(rec->gil_ns);
    free(rec->slots);
    free(rec);
}

static void end_slot(struct gsp_record *rec, struct gsp_proc_slot *slot)
{
    if (slot->state == GSP_PROC_SLOT_ENDED)
        return;
    if (gsp_sample__proc_slot_is_other(slot))
        rec->stats.losses.skipped++;
    else if (!slot->was_sampled && gsp_sample__proc_slot_is_early(slot))
        rec->stats.losses.gone++;
    if (slot->is_root) {
        rec->root_ended = true;
        rec->root_err = slot->was_python ? (struct gsp_err){0} : slot->last_err;
    }
    slot->state = GSP_PROC_SLOT_ENDED;
}

static void drop_ended(struct gsp_record *rec)
{
    size_t kept = 0;
    for (size_t i = 0; i < rec->slot_count; i++) {
        struct gsp_proc_slot *slot = rec->slots[i];
        if (slot->state == GSP_PROC_SLOT_ENDED && !slot->is_root)
            gsp_sample__proc_slot_free(slot);
        else
            rec->slots[kept++] = slot;
    }
    rec->slot_count = kept;
}

static bool is_known(const struct gsp_record *rec, pid_t pid)
{
    for (size_t i = 0; i < rec->slot_count; i++)
        if (rec->slots[i]->pid == pid && rec->slots[i]->state != GSP_PROC_SLOT_ENDED)
            return true;
    return false;
}

static void add_child(void *user, pid_t child)
{
    struct gsp_record *rec = user;
    /* A child that is gone already was never seen, so nothing is lost. */
    if (!is_known(rec, child))
        gsp_ignore(add_slot(rec, child, false, NULL));
}

/* Orphans of the tree become our children, because we are its subreaper. Reaps those that have
 * exited, except the root, whose exit status the caller reads. */
static void add_orphan(void *user, pid_t child)
{
    struct gsp_record *rec = user;
    if (child != rec->opts.pid && child != rec->helper && waitpid(child, NULL, WNOHANG) == 0)
        add_child(rec, child);
}

static void add_newborn(void *user, pid_t pid, pid_t ppid)
{
    struct gsp_record *rec = user;
    if (is_known(rec, ppid))
        add_child(rec, pid);
}

/* Adds the children of all known processes. The array grows during the loop, so one scan also
 * finds grandchildren. */
static void scan_all(struct gsp_record *rec)
{
    int64_t start_ns = gsp_now_ns();
    for (size_t i = 0; i < rec->slot_count; i++)
        if (rec->slots[i]->state != GSP_PROC_SLOT_ENDED)
            gsp_proc_children(rec->slots[i]->pid, add_child, rec);
    rec->full_done_ns = gsp_now_ns();
    rec->full_cost_ns = rec->full_done_ns - start_ns;
    rec->births_missed = false;
}

static bool is_full_due(const struct gsp_record *rec, int64_t now_ns)
{
    int64_t age_ns = now_ns - rec->full_done_ns;
    if (rec->births_missed)
        return age_ns >= MISSED_COST_FACTOR * rec->full_cost_ns;
    return age_ns >= FULL_INTERVAL_NS && age_ns >= FULL_COST_FACTOR * rec->full_cost_ns;
}

/* Finds the processes that have exited, with one poll() per batch. */
static void find_ended(struct gsp_record *rec)
{
    struct pollfd polled_fds[ENDS_BATCH];
    for (size_t from = 0; from < rec->slot_count; from += ENDS_BATCH) {
        struct gsp_proc_slot *const *slots = rec->slots + from;
        size_t left = rec->slot_count - from;
        nfds_t count = left < ENDS_BATCH ? left : ENDS_BATCH;
        /* poll() ignores descriptor -1: such a process is checked alone. */
        for (size_t i = 0; i < count; i++)
            polled_fds[i] = (struct pollfd){.fd = slots[i]->pidfd, .events = POLLIN};
        bool polled = poll(polled_fds, count, 0) >= 0;
        for (size_t i = 0; i < count; i++) {
            bool is_alive = polled && polled_fds[i].fd >= 0
                                ? polled_fds[i].revents == 0
                                : gsp_sample__proc_slot_is_alive(slots[i]);
            if (!is_alive)
                end_slot(rec, slots[i]);
        }
    }
}

/* Finds new processes of the tree, and those that have exited. */
static void scan_tree(struct gsp_record *rec, int64_t now_ns)
{
    find_ended(rec);
    if (rec->opts.subprocesses) {
        if (!gsp_proc_births_each(&rec->births, add_newborn, rec))
            rec->births_missed = true;
        if (is_full_due(rec, now_ns))
            scan_all(rec);
        if (rec->opts.is_child)
            gsp_proc_children(getpid(), add_orphan, rec);
    }
    drop_ended(rec);
}

static int count_gil(struct gsp_record *rec, uint32_t thread, int64_t weight_ns,
                     struct gsp_err *err)
{
    if (!gsp_array_fit_zeroed(&rec->gil_ns, &rec->gil_cap, (size_t)thread + 1))
        return gsp_err_nomem(err);
    rec->gil_ns[thread] += weight_ns;
    return GSP_OK;
}

/* Returns whether the thread is selected. That depends on its name, which must be read first. */
static bool is_thread_selected(struct gsp_record *rec, struct gsp_proc_slot *slot,
                               struct gsp_proc_slot_thread *note)
{
    if (!rec->opts.select.thread)
        return true;
    if (!note->named && note->name_tries == 0)
        gsp_sample__proc_slot_name_threads(slot, rec->profile, rec->sink->thread_changed,
                                           rec->sink->user);
    if (note->selected_name_tries != note->name_tries + 1) {
        const struct gsp_thread *thread = gsp_model_profile_thread_at(rec->profile, note->index);
        note->selected_name_tries = note->name_tries + 1;
        note->is_selected = gsp_sample__select_thread(
            rec->select, gsp_model_profile_string_at(rec->profile, thread->name));
    }
    return note->is_selected;
}

/* Adds a sample with native frames. If they cannot be captured, adds the Python frames alone and
 * counts the loss. While the thread waits for a CPU, adds nothing: the time counts for the stack
 * it has when it runs again. */
static int add_mixed_sample(struct gsp_record *rec, struct gsp_proc_slot *slot,
                            struct gsp_py_thread *thread, struct gsp_proc_slot_thread *note,
                            struct gsp_sample *sample, struct gsp_err *err)
{
    struct gsp_py_target *target = thread->tstate ? slot->target : NULL;
    struct gsp_capture_thread subject = {thread->tid, target, thread, .locs_only = true};
    struct gsp_mixed_stack stack;
    int rc =
        thread->tid ? gsp_sample__mixed_capture(slot->mixed, &subject, &stack, err) : GSP_E_NOPROC;
    if (rc == GSP_E_PERM && slot->is_root) /* a child that refuses does not end the recording */
        return rc;
    note->owed_ns += sample->weight;
    if (rc == GSP_E_TIMEOUT && note->owed_ns < OWED_MAX_NS)
        return GSP_OK;
    sample->weight = note->owed_ns;
    note->owed_ns = 0;
    if (rc == GSP_OK) {
        rec->stats.losses.unmerged += stack.unmerged;
        gsp_sample__native_stats_add(&rec->stats.native, &stack);
        struct gsp_mixed_sink sink = {rec->profile, rec->later, sample, thread->in_gc};
        return gsp_sample__mixed_add_sample(slot->mixed, &subject, &stack, &sink, err);
    }
    if (!target) {
        rec->stats.losses.failed++;
        return GSP_OK;
    }
    rec->stats.losses.unmerged++;
    rc = gsp_sample__stack_intern(&note->path, target, thread, rec->profile, &sample->stack, err);
    return rc == GSP_OK ? gsp_sample__pending_add(rec->later, sample, thread->in_gc, NULL, 0, err)
                        : rc;
}

static int add_sample(struct gsp_record *rec, struct gsp_proc_slot *slot,
                      struct gsp_py_thread *thread, const struct gsp_sample *like,
                      struct gsp_err *err)
{
    struct gsp_proc_slot_thread *note =
        gsp_sample__proc_slot_get_thread(slot, thread, rec->profile, err);
    if (!note)
        return GSP_E_NOMEM;
    slot->was_sampled = true;
    if (!is_thread_selected(rec, slot, note)) {
        rec->stats.threads_left++;
        return GSP_OK;
    }
    struct gsp_sample sample = *like;
    sample.thread = note->index;
    sample.flags =
        (thread->on_cpu ? GSP_SAMPLE_ON_CPU : 0) | (thread->has_gil ? GSP_SAMPLE_HAS_GIL : 0);
    if (slot->mixed)
        return add_mixed_sample(rec, slot, thread, note, &sample, err);
    int rc = GSP_OK;
    if (thread->changed || note->stack == GSP_NONE)
        rc = gsp_sample__stack_intern(&note->path, slot->target, thread, rec->profile, &note->stack,
                                      err);
    if (rc != GSP_OK)
        return rc;
    sample.stack = note->stack;
    return rec->later ? gsp_sample__pending_add(rec->later, &sample, thread->in_gc, NULL, 0, err)
                      : emit(rec, &sample, thread->in_gc, err);
}

/* Counts the time of the GIL holder, even if its stack is not recorded. */
static int count_gil_holder(struct gsp_record *rec, struct gsp_proc_slot *slot,
                            struct gsp_py_thread *thread, int64_t weight_ns, struct gsp_err *err)
{
    if (!thread->has_gil || !rec->opts.gil_only)
        return GSP_OK;
    struct gsp_proc_slot_thread *note =
        gsp_sample__proc_slot_get_thread(slot, thread, rec->profile, err);
    return note ? count_gil(rec, note->index, weight_ns, err) : GSP_E_NOMEM;
}

static void count_failure(struct gsp_record *rec, int status)
{
    if (status == GSP_E_TORN)
        rec->stats.losses.torn++;
    else
        rec->stats.losses.failed++;
}

/* Adds the samples of one pass over a process. */
static int add_samples(struct gsp_record *rec, struct gsp_proc_slot *slot,
                       struct gsp_sample *sample, struct gsp_err *err)
{
    size_t count = gsp_py_target_thread_count(slot->target);
    bool any_good = count == 0;
    bool any_bad = false;
    for (size_t i = 0; i < count; i++) {
        struct gsp_py_thread *thread = gsp_py_target_thread(slot->target, i);
        if (thread->shadowed)
            continue;
        int rc = count_gil_holder(rec, slot, thread, sample->weight, err);
        if (rc != GSP_OK)
            return rc;
        if (!thread->on_cpu && !rec->opts.idle) {
            rec->stats.idle_left++;
            continue;
        }
        if (rec->opts.gil_only && !thread->has_gil) {
            rec->stats.no_gil_left++;
            continue;
        }
        if (thread->status != GSP_OK) {
            count_failure(rec, thread->status);
            any_bad = true;
            continue;
        }
        any_good = true;
        /* No Python frames: the thread starts or ends, or runs C code that was in Python before. */
        if (thread->depth == 0 && !slot->mixed)
            continue;
        rc = add_sample(rec, slot, thread, sample, err);
        if (rc != GSP_OK)
            return rc;
    }
    slot->bad_passes = any_bad && !any_good ? slot->bad_passes + 1 : 0;
    rec->stats.threads += (uint32_t)count;
    return GSP_OK;
}

static int sample_threads(struct gsp_record *rec, struct gsp_proc_slot *slot, int64_t now_ns)
{
    unsigned flags = (rec->opts.idle ? GSP_PY_SAMPLE_IDLE : 0) |
                     (rec->opts.gil_only ? GSP_PY_SAMPLE_GIL_ONLY : 0);
    if (!rec->opts.blocking)
        return gsp_py_target_sample(slot->target, flags, now_ns);
    if (!slot->stop && gsp_proc_stop_new(slot->pid, &slot->stop, NULL) != GSP_OK)
        return GSP_E_NOMEM;
    gsp_py_target_update_states(slot->target, now_ns);
    int rc = gsp_proc_stop_hold(slot->stop, HOLD_LIMIT_NS, &slot->last_err);
    if (rc != GSP_OK)
        return rc;
    rc = gsp_py_target_sample(slot->target,
                              flags | GSP_PY_SAMPLE_STOPPED | GSP_PY_SAMPLE_KEEP_STATES, now_ns);
    gsp_proc_stop_release(slot->stop);
    return rc;
}

/* Adds samples of the threads that are not Python's. */
static int add_native_samples(struct gsp_record *rec, struct gsp_proc_slot *slot,
                              struct gsp_sample *sample, struct gsp_err *err)
{
    for (size_t i = 0; i < slot->native_count; i++) {
        struct gsp_py_thread *thread = slot->native_threads[i];
        if (gsp_sample__native_slot_is_python_thread(slot, thread->tid))
            continue;
        rec->stats.threads++;
        if (!thread->on_cpu && !rec->opts.idle) {
            rec->stats.idle_left++;
            continue;
        }
        int rc = add_sample(rec, slot, thread, sample, err);
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

/* Samples a process without an interpreter. */
static int sample_native(struct gsp_record *rec, struct gsp_proc_slot *slot,
                         struct gsp_sample *sample, int64_t now_ns, struct gsp_err *err)
{
    if (gsp_sample__native_slot_update(slot, now_ns) != GSP_OK) {
        end_slot(rec, slot);
        return GSP_OK;
    }
    rec->stats.processes++;
    return add_native_samples(rec, slot, sample, err);
}

/* The target of the parent process; NULL if the parent is not sampled. */
static struct gsp_py_target *parent_of(const struct gsp_record *rec,
                                       const struct gsp_proc_slot *slot)
{
    for (size_t i = 0; i < rec->slot_count; i++) {
        const struct gsp_proc_slot *other = rec->slots[i];
        if (other->pid == slot->ppid && other->state == GSP_PROC_SLOT_PYTHON)
            return other->target;
    }
    return NULL;
}

/* Tries to attach. A process that has not been Python for a while is sampled by native frames. */
static void try_slot(struct gsp_record *rec, struct gsp_proc_slot *slot, int64_t now_ns)
{
    int rc = gsp_sample__proc_slot_attach(slot, parent_of(rec, slot), now_ns);
    if (rc == GSP_E_NOPROC && !gsp_sample__proc_slot_is_alive(slot))
        end_slot(rec, slot);
    if (rc == GSP_E_NOTPY && rec->opts.native && slot->state == GSP_PROC_SLOT_TRYING &&
        slot->tries > NATIVE_TRIES)
        gsp_ignore(open_native(rec, slot)); /* on failure it is tried again */
}

static int sample_slot(struct gsp_record *rec, struct gsp_proc_slot *slot,
                       struct gsp_sample *sample, int64_t now_ns, struct gsp_err *err)
{
    if (slot->mixed)
        gsp_sample__mixed_sweep(slot->mixed);
    if (slot->stop)
        gsp_proc_stop_sweep(slot->stop);
    bool is_open = slot->state == GSP_PROC_SLOT_TRYING || slot->state == GSP_PROC_SLOT_NATIVE;
    if (is_open && now_ns >= slot->next_try_ns)
        try_slot(rec, slot, now_ns);
    if (slot->state == GSP_PROC_SLOT_NATIVE)
        return sample_native(rec, slot, sample, now_ns, err);
    if (slot->state != GSP_PROC_SLOT_PYTHON)
        return GSP_OK;
    open_mixed(rec, slot);
    int rc = sample_threads(rec, slot, now_ns);
    bool is_lost = false;
    if (rc == GSP_OK) {
        rc = add_samples(rec, slot, sample, err);
        if (rc == GSP_OK && slot->mixed && !rec->opts.gil_only &&
            gsp_sample__native_slot_update(slot, now_ns) == GSP_OK)
            rc = add_native_samples(rec, slot, sample, err);
    } else if (rc == GSP_E_NOMEM)
        return gsp_err_set(err, rc, 0, "out of memory");
    else if (rc == GSP_E_PERM && rec->opts.blocking && slot->is_root)
        return gsp_err_set(err, rc, slot->last_err.sys, "%s", slot->last_err.msg);
    else if (rc == GSP_E_TIMEOUT)
        rec->stats.losses.failed++;
    else
        is_lost = true; /* exited, or another program after exec */
    if (slot->bad_passes == 1)
        slot->bad_since_ns = now_ns;
    is_lost |= slot->bad_passes >= BAD_PASSES_MAX && now_ns - slot->bad_since_ns >= BAD_TIME_NS;
    if (is_lost) {
        if (gsp_sample__proc_slot_is_alive(slot))
            gsp_sample__proc_slot_detach(slot, now_ns);
        else
            end_slot(rec, slot);
        return rc == GSP_E_NOPROC || rc == GSP_E_PERM ? GSP_OK : rc;
    }
    rec->stats.processes++;
    return rc == GSP_E_TIMEOUT ? GSP_OK : rc;
}

static void update_meta(struct gsp_record *rec)
{
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(rec->profile);
    meta->duration_ns = rec->stats.elapsed_ns;
    meta->ticks = rec->stats.ticks;
    meta->losses = rec->stats.losses;
}

static bool is_python_thread(const void *user, pid_t tid)
{
    return gsp_sample__native_slot_is_python_thread(user, tid);
}

/* Reads the CPU time of threads that no sample shows. */
static void count_cpu(struct gsp_record *rec, int64_t now_ns)
{
    rec->next_cpu_ns = now_ns + CPU_INTERVAL_NS;
    for (size_t i = 0; i < rec->slot_count; i++) {
        if (rec->slots[i]->state == GSP_PROC_SLOT_PYTHON)
            gsp_sample__thread_cpu_update(&rec->cpu, rec->slots[i]->pid, is_python_thread,
                                          rec->slots[i]);
    }
    gsp_sample__thread_cpu_sum(&rec->cpu, &rec->stats.native_cpu);
}

static int poll_sink(struct gsp_record *rec, int64_t now_ns, struct gsp_err *err)
{
    rec->next_poll_ns = now_ns + rec->poll_ns;
    for (size_t i = 0; i < rec->slot_count; i++) {
        gsp_sample__proc_slot_name_threads(rec->slots[i], rec->profile, rec->sink->thread_changed,
                                           rec->sink->user);
        gsp_sample__proc_slot_name_process(rec->slots[i], rec->profile, rec->sink->process_changed,
                                           rec->sink->user);
    }
    if (now_ns >= rec->next_cpu_ns)
        count_cpu(rec, now_ns);
    update_meta(rec);
    return rec->sink->poll(rec->sink->user, &rec->stats, err);
}

/* Calls poll_sink() while the next tick is far away. */
static void poll_clock(void *user, int64_t now_ns)
{
    struct gsp_record *rec = user;
    if (rec->poll_rc != GSP_OK || now_ns < rec->next_poll_ns)
        return;
    rec->stats.elapsed_ns = now_ns - rec->start_ns;
    rec->poll_rc = poll_sink(rec, now_ns, &rec->poll_err);
}

static int tick(struct gsp_record *rec, int64_t now_ns, uint64_t missed, struct gsp_err *err)
{
    rec->stats.ticks++;
    rec->stats.losses.late += missed;
    rec->stats.elapsed_ns = now_ns - rec->start_ns;
    rec->stats.processes = 0;
    rec->stats.threads = 0;
    /* A tick stands for the time since the last one, so that sums are correct. */
    struct gsp_sample sample = {.time_ns = now_ns - rec->start_ns,
                                .weight = rec->period_ns * (int64_t)(missed + 1)};
    int rc = GSP_OK;
    for (size_t i = 0; i < rec->slot_count; i++) {
        rc = sample_slot(rec, rec->slots[i], &sample, now_ns, err);
        if (rc != GSP_OK)
            return rc;
    }
    rc = rec->later ? gsp_sample__pending_flush(rec->later, false, err) : GSP_OK;
    if (rc != GSP_OK)
        return rc;
    if (now_ns >= rec->next_scan_ns || rec->root_ended) {
        rec->next_scan_ns = now_ns + SCAN_INTERVAL_NS;
        scan_tree(rec, now_ns);
    }
    return now_ns >= rec->next_poll_ns ? poll_sink(rec, now_ns, err) : GSP_OK;
}

/* Measures our own CPU time per tick: distinguishes ticks that are late because of us from those
 * of a busy machine. */
static int tick_counted(struct gsp_record *rec, int64_t now_ns, uint64_t missed,
                        struct gsp_err *err)
{
    struct gsp_native_stats *stats = &rec->stats.native;
    int64_t start_ns = rec->later ? gsp_thread_cputime_ns() : 0;
    int rc = tick(rec, now_ns, missed, err);
    int64_t used_ns = rec->later ? gsp_thread_cputime_ns() - start_ns : 0;
    stats->long_ticks += used_ns > rec->period_ns;
    if (used_ns > stats->tick_max_ns)
        stats->tick_max_ns = used_ns;
    return rc;
}

static int loop(struct gsp_record *rec, const volatile sig_atomic_t *stop, enum gsp_record_end *end,
                struct gsp_err *err)
{
    for (;;) {
        uint64_t missed;
        int64_t now_ns = gsp_sample__clock_wait(&rec->clock, stop, &missed);
        if (rec->poll_rc != GSP_OK)
            return gsp_err_set(err, rec->poll_rc, rec->poll_err.sys, "%s", rec->poll_err.msg);
        if (now_ns < 0) {
            *end = GSP_RECORD_STOPPED;
            return GSP_OK;
        }
        if (rec->opts.duration_ns && now_ns - rec->start_ns > rec->opts.duration_ns) {
            *end = GSP_RECORD_DURATION;
            return GSP_OK;
        }
        int rc = tick_counted(rec, now_ns, missed, err);
        if (rc != GSP_OK)
            return rc;
        if (rec->root_ended) {
            *end = GSP_RECORD_EXITED;
            return GSP_OK;
        }
    }
}

int gsp_sample_record_run(struct gsp_record *rec, const volatile sig_atomic_t *stop,
                          enum gsp_record_end *end, struct gsp_err *err)
{
    bool reap = rec->opts.is_child && rec->opts.subprocesses;
    if (reap)
        prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
    rec->start_ns = gsp_now_ns();
    if (rec->opts.subprocesses)
        gsp_proc_births_open(&rec->births);
    rec->next_scan_ns = rec->start_ns;
    rec->births_missed = true; /* processes that exist already */
    rec->poll_ns = rec->opts.poll_ns > 0 ? rec->opts.poll_ns : POLL_NS;
    rec->next_poll_ns = rec->start_ns + rec->poll_ns / 10;
    gsp_model_profile_meta(rec->profile)->start_ns = gsp_realtime_ns();
    gsp_sample__clock_start(&rec->clock, rec->period_ns, rec->opts.jitter, rec->start_ns);
    rec->clock.poll = poll_clock;
    rec->clock.user = rec;
    rec->clock.poll_ns = rec->poll_ns;
    int rc = loop(rec, stop, end, err);
    if (rc == GSP_OK && rec->later)
        rc = gsp_sample__pending_flush(rec->later, true, err);
    if (reap)
        prctl(PR_SET_CHILD_SUBREAPER, 0UL, 0UL, 0UL, 0UL);
    rec->stats.elapsed_ns = gsp_now_ns() - rec->start_ns;
    count_cpu(rec, gsp_now_ns());
    for (size_t i = 0; i < rec->slot_count; i++) {
        const struct gsp_proc_slot *slot = rec->slots[i];
        if (!slot->is_root && slot->state != GSP_PROC_SLOT_ENDED &&
            gsp_sample__proc_slot_is_other(slot))
            rec->stats.losses.skipped++;
    }
    update_meta(rec);
    if (rc == GSP_OK && rec->stats.samples == 0 && rec->root_err.code &&
        rec->root_err.code != GSP_E_NOPROC)
        return gsp_err_set(err, rec->root_err.code, rec->root_err.sys, "%s", rec->root_err.msg);
    return rc;
}

const struct gsp_sample_record_stats *gsp_sample_record_stats(const struct gsp_record *rec)
{
    return &rec->stats;
}

int64_t gsp_sample_record_gil_ns(const struct gsp_record *rec, uint32_t thread)
{
    return thread < rec->gil_cap ? rec->gil_ns[thread] : 0;
}

void gsp_sample_record_set_helper(struct gsp_record *rec, pid_t pid)
{
    rec->helper = pid;
}
