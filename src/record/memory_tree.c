/* SPDX-License-Identifier: Apache-2.0 */
#include "record/memory_tree.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "proc/task.h"
#include "sample/dump.h"

/* Visits at the same time. */
#define AT_ONCE      8U
#define PAUSE_MIN_NS (100 * GSP_NS_PER_MS)
#define PAUSE_MAX_NS (30 * GSP_NS_PER_S)
/* For what a visit does beside waiting for the process. */
#define MARGIN_NS    (5 * GSP_NS_PER_S)
/* For those who were there first, before anything is looked at. */
#define SETTLED_NS   (2 * GSP_NS_PER_S)
#define NAP_NS       (10 * GSP_NS_PER_MS)
#define TOLD_MAX     8U
#define CMD_SHOWN    60U

/* What a visit in a process of its own tells. */
struct answer {
    struct gsp_err err;
    bool is_ours;
    bool was_there;
};

/* -------------------------------------------------------------------------------- who is there */

static bool is_known(const struct gsp_memtree *tree, pid_t pid, uint64_t start_ticks)
{
    for (size_t i = tree->count; i-- > 0;)
        if (tree->at[i].memswitch.pid == pid && tree->at[i].start_ticks == start_ticks)
            return true;
    return false;
}

static void add(struct gsp_memtree *tree, pid_t pid, bool is_early, int64_t now_ns)
{
    struct gsp_procinfo info;
    const pid_t us = getpid(); /* may have been called from within the tree */
    if (gsp_proc_info(pid, &info, NULL) < 0 || info.state == 'Z' || pid == us || info.ppid == us ||
        is_known(tree, pid, info.start_ticks))
        return;
    struct gsp_memtree_child *at = realloc(tree->at, (tree->count + 1) * sizeof(*at));
    if (!at)
        return; /* the next round tries again */
    tree->at = at;
    struct gsp_memtree_child *child = &at[tree->count++];
    *child = (struct gsp_memtree_child){
        .memswitch = tree->root,
        .ppid = info.ppid,
        .start_ticks = info.start_ticks,
        .apart = {.fd = -1},
        .is_early = is_early,
        .pause_ns = PAUSE_MIN_NS,
        .due_ns = gsp_proc_has_settled(&info) ? now_ns : now_ns + GSP_PROC_SETTLE_NS};
    child->memswitch.pid = pid;
    child->memswitch.is_ours = child->memswitch.was_there = false;
}

/* Whether it still runs, and not another one with its number. */
static bool is_there(const struct gsp_memtree_child *child, struct gsp_procinfo *info)
{
    return gsp_proc_info(child->memswitch.pid, info, NULL) == GSP_OK && info->state != 'Z' &&
           info->start_ticks == child->start_ticks;
}

static bool is_forked(const struct gsp_memtree_child *child)
{
    struct gsp_procinfo info;
    return is_there(child, &info) && info.is_forked;
}

/* Those that were not entered, or have left: a job may start thousands of short ones.  Parents of
 * others are asked for later. */
static void forget_ended(struct gsp_memtree *tree)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const struct gsp_memtree_child *child = &tree->at[i];
        if (child->memswitch.is_ours || child->apart.child > 0 ||
            kill(child->memswitch.pid, 0) == 0 || errno != ESRCH)
            tree->at[kept++] = *child;
    }
    tree->count = kept;
}

static void look_around(struct gsp_memtree *tree, bool is_early, int64_t now_ns)
{
    pid_t *pids = NULL;
    size_t count = 0;
    if (gsp_sample_tree_pids(tree->root.pid, &pids, &count, NULL) < 0)
        return;
    for (size_t i = 1; i < count; i++)
        add(tree, pids[i], is_early, now_ns);
    free(pids);
}

/* -------------------------------------------------------------------------------------- visits */

static void switch_on(void *user, void *answer)
{
    struct gsp_memswitch *memswitch = user;
    struct answer *told = answer;
    gsp_ignore(gsp_memswitch_on(memswitch, &told->err) < 0);
    told->is_ours = memswitch->is_ours;
    told->was_there = memswitch->was_there;
}

static void switch_off(void *user, void *answer)
{
    struct gsp_memswitch *memswitch = user;
    struct answer *told = answer;
    gsp_ignore(gsp_memswitch_off(memswitch, &told->err) < 0);
}

static bool is_final(int code)
{
    return code == GSP_E_NOPROC || code == GSP_E_PERM || code == GSP_E_VERSION;
}

/* Ever later. */
static void put_off(struct gsp_memtree_child *child, int64_t now_ns)
{
    child->due_ns = now_ns + child->pause_ns;
    child->pause_ns = child->pause_ns < PAUSE_MAX_NS / 2 ? child->pause_ns * 2 : PAUSE_MAX_NS;
}

static void take_answer(struct gsp_memtree_child *child, const struct answer *answer,
                        int64_t now_ns)
{
    const int pid = (int)child->memswitch.pid;
    child->memswitch.is_ours = answer->is_ours;
    child->memswitch.was_there = answer->was_there;
    child->is_on = answer->err.code == GSP_OK;
    child->why = answer->err;
    if (child->is_on)
        gsp_log_info("memory", "process %d counts", pid);
    else
        gsp_log_info("memory", "process %d does not count: %s", pid, answer->err.msg);
    put_off(child, now_ns);
    if (is_final(answer->err.code) || (child->is_on && !is_forked(child)))
        child->due_ns = INT64_MAX;
}

/* True when no visit is under way any more. */
static bool hear(struct gsp_memtree_child *child, int timeout_ms, int64_t now_ns)
{
    struct answer answer = {.err = {.code = GSP_OK}};
    const enum gsp_apart_state state =
        gsp_apart_wait(&child->apart, &answer, sizeof(answer), timeout_ms);
    if (state == GSP_APART_RUNS)
        return false;
    if (state == GSP_APART_LOST)
        gsp_err_fill(&answer.err, GSP_E_IO, 0, "the visit ended without an answer");
    take_answer(child, &answer, now_ns);
    return true;
}

static void enter(struct gsp_memtree_child *child, int64_t now_ns)
{
    struct answer answer = {.err = {.code = GSP_OK}};
    if (gsp_apart_start(&child->apart, switch_on, &child->memswitch, sizeof(answer), &answer.err) <
        0)
        take_answer(child, &answer, now_ns);
}

void gsp_memtree_round(struct gsp_memtree *tree, int64_t now_ns)
{
    size_t busy = 0;
    if (!tree->has_children)
        return;
    forget_ended(tree);
    look_around(tree, false, now_ns);
    for (size_t i = 0; i < tree->count; i++)
        if (tree->at[i].apart.child > 0)
            busy += !hear(&tree->at[i], 0, now_ns);
    for (size_t i = 0; i < tree->count && busy < AT_ONCE; i++) {
        struct gsp_memtree_child *child = &tree->at[i];
        if (child->apart.child > 0 || child->due_ns > now_ns)
            continue;
        /* Counting ends when a forked child runs another program. */
        if (child->is_on && is_forked(child)) {
            put_off(child, now_ns);
            continue;
        }
        enter(child, now_ns);
        busy += child->apart.child > 0;
    }
}

/* Until those who were there first have answered, but not for long. */
static void settle(struct gsp_memtree *tree)
{
    const int64_t end_ns = gsp_now_ns() + SETTLED_NS;
    bool is_waiting = true;
    while (is_waiting && gsp_now_ns() < end_ns) {
        gsp_memtree_round(tree, gsp_now_ns());
        is_waiting = false;
        for (size_t i = 0; i < tree->count; i++) {
            const struct gsp_memtree_child *child = &tree->at[i];
            is_waiting = is_waiting || child->apart.child > 0 ||
                         (child->is_early && !child->is_on && child->why.code == GSP_OK);
        }
        if (is_waiting)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

int gsp_memtree_on(struct gsp_memtree *tree, struct gsp_err *err)
{
    if (tree->has_children)
        look_around(tree, true, gsp_now_ns());
    int rc = gsp_memswitch_on(&tree->root, err);
    if (rc == GSP_E_NOTPY && tree->count > 0) {
        /* It may become Python yet. */
        add(tree, tree->root.pid, true, gsp_now_ns());
        rc = GSP_OK;
    }
    if (rc == GSP_OK && tree->has_children)
        settle(tree);
    return rc;
}

/* ----------------------------------------------------------------------------------------- end */

/* Whether a process that counts does so because its parent did when it forked. */
static bool has_inherited(const struct gsp_memtree *tree, const struct gsp_memtree_child *child)
{
    if (child->is_early || !child->is_on || !is_forked(child))
        return false;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->at[i].memswitch.pid == child->ppid)
            return tree->at[i].memswitch.is_ours;
    return child->ppid == tree->root.pid && tree->root.is_ours;
}

static void say(const struct gsp_memtree_child *child, const char *what)
{
    gsp_auto_buf cmdline = {0};
    gsp_auto_buf shown = {0};
    gsp_proc_cmdline(child->memswitch.pid, &cmdline);
    struct gsp_sv text = gsp_buf_sv(&cmdline);
    text.len = text.len < CMD_SHOWN ? text.len : CMD_SHOWN;
    gsp_buf_term(&shown, text);
    const char *name = gsp_buf_cstr(&shown);
    gsp_log_warn("memory", "%s process %d (%s): %s", what, (int)child->memswitch.pid,
                 name ? name : "", child->why.msg);
}

/* Python processes that could not be entered, and still run. */
static void tell_refused(const struct gsp_memtree *tree)
{
    size_t count = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const struct gsp_memtree_child *child = &tree->at[i];
        struct gsp_procinfo info;
        const int code = child->why.code;
        const bool is_refused = !child->is_on && code != GSP_OK && code != GSP_E_NOTPY &&
                                code != GSP_E_STARTING && code != GSP_E_NOPROC;
        if (is_refused && is_there(child, &info) && count++ < TOLD_MAX)
            say(child, "allocations were not counted in");
    }
    if (count > TOLD_MAX)
        gsp_log_warn("memory", "nor in %zu other processes", count - TOLD_MAX);
}

static int ms_until(int64_t end_ns)
{
    const int64_t left_ns = end_ns - gsp_now_ns();
    return left_ns > 0 ? (int)(left_ns / GSP_NS_PER_MS) + 1 : 0;
}

static void begin_to_leave(const struct gsp_memtree *tree, struct gsp_memtree_child *child)
{
    struct gsp_procinfo info;
    child->memswitch.is_ours = child->memswitch.is_ours || has_inherited(tree, child);
    if (child->memswitch.is_ours && is_there(child, &info) &&
        gsp_apart_start(&child->apart, switch_off, &child->memswitch, sizeof(struct answer),
                        &child->why) < 0)
        say(child, "counting goes on in");
}

/* Leaves those from first on. */
static void leave(struct gsp_memtree *tree, size_t first)
{
    for (size_t next = first, done = first; done < tree->count; done++) {
        while (next < tree->count && next - done < AT_ONCE)
            begin_to_leave(tree, &tree->at[next++]);
        struct gsp_memtree_child *child = &tree->at[done];
        struct answer answer = {.err = {.code = GSP_OK}};
        if (child->apart.child <= 0)
            continue;
        const int64_t end_ns = gsp_now_ns() + 2 * child->memswitch.limit_ns + MARGIN_NS;
        gsp_ignore(gsp_apart_wait(&child->apart, &answer, sizeof(answer), ms_until(end_ns)));
        child->why = answer.err;
        if (answer.err.code != GSP_OK)
            say(child, "counting goes on in");
    }
}

void gsp_memtree_off(struct gsp_memtree *tree)
{
    const size_t count = tree->count;
    const int64_t end_ns = gsp_now_ns() + tree->root.limit_ns + MARGIN_NS;
    struct gsp_err err = {0};
    for (size_t i = 0; i < count; i++) {
        struct gsp_memtree_child *child = &tree->at[i];
        if (child->apart.child > 0 && !hear(child, ms_until(end_ns), 0))
            child->apart = (struct gsp_apart){.fd = -1}; /* it has its limits, and ends by itself */
    }
    tell_refused(tree);
    if (gsp_memswitch_off(&tree->root, &err) < 0)
        gsp_log_warn("memory", "counting goes on in process %d: %s", (int)tree->root.pid, err.msg);
    leave(tree, 0);
    if (!tree->has_children)
        return;
    /* Who was forked meanwhile by one that counted. */
    look_around(tree, false, gsp_now_ns());
    for (size_t i = count; i < tree->count; i++)
        tree->at[i].is_on = gsp_memswitch_is_on(tree->at[i].memswitch.pid);
    leave(tree, count);
}

void gsp_memtree_free(struct gsp_memtree *tree)
{
    free(tree->at);
    *tree = (struct gsp_memtree){0};
}
