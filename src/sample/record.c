/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "proc/task.h"
#include "sample/clock.h"
#include "sample/proc_slot.h"

#define SLOTS_MAX        16384U
#define SCAN_INTERVAL_NS (50 * GSP_NS_PER_MS)
#define BEAT_INTERVAL_NS (250 * GSP_NS_PER_MS)
/* A stop of the target's threads for one look, at most. */
#define HOLD_LIMIT_NS    (20 * GSP_NS_PER_MS)
/* Looks running without one good stack after which the interpreter is searched anew. */
#define BAD_LOOKS_MAX    64U
/* A process that is starting up is given this long before attaching fails. */
#define START_LIMIT_NS   GSP_NS_PER_S
#define START_STEP_US    5000U

struct gsp_record {
    struct gsp_record_opts opts;
    struct gsp_profile *profile;
    const struct gsp_record_sink *sink;
    struct gsp_record_stats stats;
    struct gsp_clock clock;
    int64_t start_ns;
    int64_t next_scan_ns;
    int64_t next_beat_ns;
    int64_t period_ns;
    struct gsp_slot **slots; /* the root first */
    size_t slot_count;
    size_t slot_cap;
    bool root_ended;
    uint32_t seen_processes; /* Python processes so far */
    struct gsp_err root_err; /* why the root could not be attached, last */
};

static int add_slot(struct gsp_record *rec, pid_t pid, bool is_root, struct gsp_err *err)
{
    if (rec->slot_count == SLOTS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u processes", SLOTS_MAX);
    if (rec->slot_count == rec->slot_cap) {
        size_t cap = rec->slot_cap ? rec->slot_cap * 2 : 8;
        struct gsp_slot **grown = realloc(rec->slots, cap * sizeof(*grown));
        if (!grown)
            return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
        rec->slots = grown;
        rec->slot_cap = cap;
    }
    struct gsp_slot *slot;
    int rc = gsp_slot_new(pid, is_root, &slot, err);
    if (rc != GSP_OK)
        return rc;
    slot->found = true;
    rec->slots[rec->slot_count++] = slot;
    return GSP_OK;
}

/* Attaches to a process that must be Python, or about to be. */
static int attach_root(struct gsp_record *rec, struct gsp_err *err)
{
    struct gsp_slot *slot = rec->slots[0];
    int64_t deadline_ns = gsp_now_ns() + START_LIMIT_NS;
    int rc;
    while ((rc = gsp_slot_attach(slot, gsp_now_ns())) == GSP_E_STARTING) {
        if (gsp_now_ns() > deadline_ns)
            break;
        usleep(START_STEP_US);
    }
    /* With its children in view a shell may be the root. */
    if (rc != GSP_OK && !(rec->opts.subprocesses && rc == GSP_E_NOTPY))
        return gsp_err_set(err, rc, slot->last_err.sys, "%s", slot->last_err.msg);
    return GSP_OK;
}

int gsp_record_new(const struct gsp_record_opts *opts, struct gsp_profile *profile,
                   const struct gsp_record_sink *sink, struct gsp_record **out, struct gsp_err *err)
{
    *out = NULL;
    if (!(opts->rate_hz >= GSP_RATE_MIN_HZ && opts->rate_hz <= GSP_RATE_MAX_HZ))
        return gsp_err_set(err, GSP_E_USAGE, 0, "a rate of %g is not within %g and %g per second",
                           opts->rate_hz, GSP_RATE_MIN_HZ, GSP_RATE_MAX_HZ);
    struct gsp_record *rec = calloc(1, sizeof(*rec));
    if (!rec)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    rec->opts = *opts;
    rec->profile = profile;
    rec->sink = sink;
    rec->period_ns = (int64_t)(1e9 / opts->rate_hz + 0.5);
    int rc = add_slot(rec, opts->pid, true, err);
    if (rc == GSP_OK && !opts->is_child)
        rc = attach_root(rec, err);
    if (rc != GSP_OK) {
        gsp_record_free(rec);
        return rc;
    }
    struct gsp_profile_meta *meta = gsp_profile_meta(profile);
    meta->start_ns = gsp_realtime_ns();
    meta->period_ns = rec->period_ns;
    meta->unit = GSP_UNIT_NS;
    *out = rec;
    return GSP_OK;
}

void gsp_record_free(struct gsp_record *rec)
{
    if (!rec)
        return;
    for (size_t i = 0; i < rec->slot_count; i++)
        gsp_slot_free(rec->slots[i]);
    free(rec->slots);
    free(rec);
}

static void end_slot(struct gsp_record *rec, struct gsp_slot *slot)
{
    if (slot->state == GSP_SLOT_ENDED)
        return;
    if (!slot->was_python)
        rec->stats.losses.skipped++;
    else if (!slot->was_sampled)
        rec->stats.losses.gone++;
    if (slot->is_root) {
        rec->root_ended = true;
        rec->root_err = slot->was_python ? (struct gsp_err){0} : slot->last_err;
    }
    slot->state = GSP_SLOT_ENDED;
}

static void drop_ended(struct gsp_record *rec)
{
    size_t kept = 0;
    for (size_t i = 0; i < rec->slot_count; i++) {
        struct gsp_slot *slot = rec->slots[i];
        if (slot->state == GSP_SLOT_ENDED && !slot->is_root)
            gsp_slot_free(slot);
        else
            rec->slots[kept++] = slot;
    }
    rec->slot_count = kept;
}

static void meet_child(void *user, pid_t child)
{
    struct gsp_record *rec = user;
    for (size_t i = 0; i < rec->slot_count; i++) {
        if (rec->slots[i]->pid == child && rec->slots[i]->state != GSP_SLOT_ENDED)
            return;
    }
    /* One that is gone already was never seen: nothing is lost. */
    gsp_ignore(add_slot(rec, child, false, NULL));
}

/* Orphans of the tree come to us as its subreaper; whoever has ended is buried by us, but for
 * the root, whose exit status is for others. */
static void meet_orphan(void *user, pid_t child)
{
    struct gsp_record *rec = user;
    if (child != rec->opts.pid && waitpid(child, NULL, WNOHANG) == 0)
        meet_child(rec, child);
}

/* Looks for new children of everything known, and for processes that have ended. */
static void scan_tree(struct gsp_record *rec)
{
    for (size_t i = 0; i < rec->slot_count; i++) {
        if (!gsp_slot_is_alive(rec->slots[i]))
            end_slot(rec, rec->slots[i]);
    }
    if (rec->opts.subprocesses) {
        /* The array grows while it is walked: grandchildren are found in the same scan. */
        for (size_t i = 0; i < rec->slot_count; i++) {
            if (rec->slots[i]->state != GSP_SLOT_ENDED)
                gsp_proc_children(rec->slots[i]->pid, meet_child, rec);
        }
        if (rec->opts.is_child)
            gsp_proc_children(getpid(), meet_orphan, rec);
    }
    drop_ended(rec);
}

static int give_sample(struct gsp_record *rec, struct gsp_slot *slot, struct gsp_py_thread *thread,
                       struct gsp_sample *sample, struct gsp_err *err)
{
    struct gsp_slot_thread *note = gsp_slot_thread_of(slot, thread, rec->profile, err);
    if (!note)
        return GSP_E_NOMEM;
    if (thread->changed || note->stack == GSP_NONE) {
        int rc =
            gsp_path_intern(&note->path, slot->target, thread, rec->profile, &note->stack, err);
        if (rc != GSP_OK)
            return rc;
    }
    sample->thread = note->index;
    sample->stack = note->stack;
    sample->flags =
        (thread->on_cpu ? GSP_SAMPLE_ON_CPU : 0) | (thread->has_gil ? GSP_SAMPLE_HAS_GIL : 0);
    slot->was_sampled = true;
    rec->stats.samples++;
    return rec->sink->sample(rec->sink->user, sample, err);
}

static void count_failure(struct gsp_record *rec, int status)
{
    if (status == GSP_E_TORN)
        rec->stats.losses.torn++;
    else
        rec->stats.losses.failed++;
}

/* Hands out what the look at one process has brought. */
static int give_samples(struct gsp_record *rec, struct gsp_slot *slot, struct gsp_sample *sample,
                        struct gsp_err *err)
{
    size_t count = gsp_py_target_thread_count(slot->target);
    bool any_good = count == 0;
    bool any_bad = false;
    for (size_t i = 0; i < count; i++) {
        struct gsp_py_thread *thread = gsp_py_target_thread(slot->target, i);
        if (thread->shadowed)
            continue;
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
        if (thread->depth == 0)
            continue; /* a thread without Python frames: starting or ending */
        int rc = give_sample(rec, slot, thread, sample, err);
        if (rc != GSP_OK)
            return rc;
    }
    slot->bad_looks = any_bad && !any_good ? slot->bad_looks + 1 : 0;
    rec->stats.threads += (uint32_t)count;
    return GSP_OK;
}

static int look(struct gsp_record *rec, struct gsp_slot *slot, int64_t now_ns)
{
    unsigned flags =
        (rec->opts.idle ? GSP_PY_LOOK_IDLE : 0) | (rec->opts.gil_only ? GSP_PY_LOOK_GIL_ONLY : 0);
    if (!rec->opts.blocking)
        return gsp_py_target_look(slot->target, flags, now_ns);
    if (!slot->stop && gsp_stop_new(slot->pid, &slot->stop, NULL) != GSP_OK)
        return GSP_E_NOMEM;
    gsp_py_target_states(slot->target, now_ns);
    int rc = gsp_stop_hold(slot->stop, HOLD_LIMIT_NS, &slot->last_err);
    if (rc != GSP_OK)
        return rc;
    rc = gsp_py_target_look(slot->target, flags | GSP_PY_LOOK_STILL | GSP_PY_LOOK_NO_STATE, now_ns);
    gsp_stop_release(slot->stop);
    return rc;
}

static int sample_slot(struct gsp_record *rec, struct gsp_slot *slot, struct gsp_sample *sample,
                       int64_t now_ns, struct gsp_err *err)
{
    if (slot->state == GSP_SLOT_TRYING && now_ns >= slot->next_try_ns &&
        gsp_slot_attach(slot, now_ns) == GSP_E_NOPROC && !gsp_slot_is_alive(slot))
        end_slot(rec, slot);
    if (slot->state != GSP_SLOT_PYTHON)
        return GSP_OK;
    int rc = look(rec, slot, now_ns);
    if (rc == GSP_OK)
        rc = give_samples(rec, slot, sample, err);
    else if (rc == GSP_E_NOMEM)
        return gsp_err_set(err, rc, 0, "out of memory");
    else if (rc == GSP_E_PERM && rec->opts.blocking)
        return gsp_err_set(err, rc, slot->last_err.sys, "%s", slot->last_err.msg);
    else if (rc == GSP_E_TIMEOUT)
        rec->stats.losses.failed++;
    else
        slot->bad_looks = BAD_LOOKS_MAX; /* gone, or another program by exec */
    if (slot->bad_looks >= BAD_LOOKS_MAX) {
        if (gsp_slot_is_alive(slot))
            gsp_slot_detach(slot, now_ns);
        else
            end_slot(rec, slot);
        return rc == GSP_E_NOPROC || rc == GSP_E_PERM ? GSP_OK : rc;
    }
    rec->stats.processes++;
    return rc == GSP_E_TIMEOUT ? GSP_OK : rc;
}

static void update_meta(struct gsp_record *rec)
{
    struct gsp_profile_meta *meta = gsp_profile_meta(rec->profile);
    meta->duration_ns = rec->stats.elapsed_ns;
    meta->ticks = rec->stats.ticks;
    meta->losses = rec->stats.losses;
}

static int beat(struct gsp_record *rec, int64_t now_ns, struct gsp_err *err)
{
    rec->next_beat_ns = now_ns + BEAT_INTERVAL_NS;
    for (size_t i = 0; i < rec->slot_count; i++)
        gsp_slot_name_threads(rec->slots[i], rec->profile, rec->sink->thread_changed,
                              rec->sink->user);
    update_meta(rec);
    return rec->sink->beat(rec->sink->user, &rec->stats, err);
}

static int tick(struct gsp_record *rec, int64_t now_ns, uint64_t missed, struct gsp_err *err)
{
    rec->stats.ticks++;
    rec->stats.losses.late += missed;
    rec->stats.elapsed_ns = now_ns - rec->start_ns;
    rec->stats.processes = 0;
    rec->stats.threads = 0;
    /* A tick stands for the time since the one before, so that the sums stay true. */
    struct gsp_sample sample = {.time_ns = now_ns - rec->start_ns,
                                .weight = rec->period_ns * (int64_t)(missed + 1)};
    for (size_t i = 0; i < rec->slot_count; i++) {
        int rc = sample_slot(rec, rec->slots[i], &sample, now_ns, err);
        if (rc != GSP_OK)
            return rc;
    }
    if (now_ns >= rec->next_scan_ns || rec->root_ended) {
        rec->next_scan_ns = now_ns + SCAN_INTERVAL_NS;
        scan_tree(rec);
    }
    return now_ns >= rec->next_beat_ns ? beat(rec, now_ns, err) : GSP_OK;
}

static int loop(struct gsp_record *rec, const volatile sig_atomic_t *stop, enum gsp_record_end *end,
                struct gsp_err *err)
{
    for (;;) {
        uint64_t missed;
        int64_t now_ns = gsp_clock_wait(&rec->clock, stop, &missed);
        if (now_ns < 0) {
            *end = GSP_RECORD_STOPPED;
            return GSP_OK;
        }
        if (rec->opts.duration_ns && now_ns - rec->start_ns > rec->opts.duration_ns) {
            *end = GSP_RECORD_DURATION;
            return GSP_OK;
        }
        int rc = tick(rec, now_ns, missed, err);
        if (rc != GSP_OK)
            return rc;
        if (rec->root_ended) {
            *end = GSP_RECORD_EXITED;
            return GSP_OK;
        }
    }
}

int gsp_record_run(struct gsp_record *rec, const volatile sig_atomic_t *stop,
                   enum gsp_record_end *end, struct gsp_err *err)
{
    bool reap = rec->opts.is_child && rec->opts.subprocesses;
    if (reap)
        prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
    rec->start_ns = gsp_now_ns();
    rec->next_scan_ns = rec->start_ns;
    rec->next_beat_ns = rec->start_ns + BEAT_INTERVAL_NS / 10;
    gsp_profile_meta(rec->profile)->start_ns = gsp_realtime_ns();
    gsp_clock_start(&rec->clock, rec->period_ns, rec->opts.jitter, rec->start_ns);
    int rc = loop(rec, stop, end, err);
    if (reap)
        prctl(PR_SET_CHILD_SUBREAPER, 0UL, 0UL, 0UL, 0UL);
    rec->stats.elapsed_ns = gsp_now_ns() - rec->start_ns;
    for (size_t i = 0; i < rec->slot_count; i++) {
        if (!rec->slots[i]->was_python && !rec->slots[i]->is_root)
            rec->stats.losses.skipped++;
    }
    update_meta(rec);
    if (rc == GSP_OK && rec->stats.samples == 0 && rec->root_err.code &&
        rec->root_err.code != GSP_E_NOPROC)
        return gsp_err_set(err, rec->root_err.code, rec->root_err.sys, "%s", rec->root_err.msg);
    return rc;
}

const struct gsp_record_stats *gsp_record_stats(const struct gsp_record *rec)
{
    return &rec->stats;
}
