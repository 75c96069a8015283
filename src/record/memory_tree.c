/* SPDX-License-Identifier: Apache-2.0 */
#include "record/memory_tree.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/time.h"
#include "proc/task.h"
#include "sample/tree.h"

/* Maximum number of injections at the same time. */
#define TASKS_MAX    8U
#define PAUSE_MIN_NS (100 * GSP_NS_PER_MS)
#define PAUSE_MAX_NS (30 * GSP_NS_PER_S)
/* Time that an injection takes besides waiting for the target. */
#define MARGIN_NS    (5 * GSP_NS_PER_S)
/* Maximum wait for the descendants that exist at the start. */
#define FIRST_NS     (2 * GSP_NS_PER_S)
#define POLL_NS      (10 * GSP_NS_PER_MS)
#define SHOWN_MAX    8U
#define CMDLINE_MAX  60U

/* The result of an injection. */
struct answer {
    struct gsp_err err;
    bool is_ours;
    bool was_there;
};

/* ------------------------------------------------------------------------- list of descendants */

static bool is_known(const struct gsp_memory_tree *tree, pid_t pid, uint64_t start_ticks)
{
    for (size_t i = tree->count; i-- > 0;)
        if (tree->at[i].memory_switch.pid == pid && tree->at[i].start_ticks == start_ticks)
            return true;
    return false;
}

static void add_child(struct gsp_memory_tree *tree, pid_t pid, bool is_early, int64_t now_ns)
{
    struct gsp_procinfo info;
    const pid_t us = getpid(); /* gsprof may itself be in the tree */
    if (gsp_proc_info(pid, &info, NULL) < 0 || info.state == 'Z' || pid == us || info.ppid == us ||
        is_known(tree, pid, info.start_ticks))
        return;
    if (!gsp_array_fit(&tree->at, &tree->capacity, tree->count + 1))
        return; /* the next call tries again */
    struct gsp_memory_tree_child *child = &tree->at[tree->count++];
    *child = (struct gsp_memory_tree_child){
        .memory_switch = tree->root,
        .ppid = info.ppid,
        .start_ticks = info.start_ticks,
        .task = {.fd = -1},
        .is_early = is_early,
        .pause_ns = PAUSE_MIN_NS,
        .due_ns = gsp_proc_has_settled(&info) ? now_ns : now_ns + GSP_PROC_SETTLE_NS};
    child->memory_switch.pid = pid;
    child->memory_switch.is_ours = child->memory_switch.was_there = false;
}

/* Whether it still runs, and its pid was not reused. */
static bool is_running(const struct gsp_memory_tree_child *child, struct gsp_procinfo *info)
{
    return gsp_proc_info(child->memory_switch.pid, info, NULL) == GSP_OK && info->state != 'Z' &&
           info->start_ticks == child->start_ticks;
}

static bool is_forked(const struct gsp_memory_tree_child *child)
{
    struct gsp_procinfo info;
    return is_running(child, &info) && info.is_forked;
}

/* Removes exited processes, because a job may start thousands of short-lived ones. Keeps those in
 * which we switched counting on: has_inherited() needs them. */
static void remove_exited(struct gsp_memory_tree *tree)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const struct gsp_memory_tree_child *child = &tree->at[i];
        if (child->memory_switch.is_ours || child->task.child > 0 ||
            kill(child->memory_switch.pid, 0) == 0 || errno != ESRCH)
            tree->at[kept++] = *child;
    }
    tree->count = kept;
}

static void find_children(struct gsp_memory_tree *tree, bool is_early, int64_t now_ns)
{
    pid_t *pids = NULL;
    size_t count = 0;
    if (gsp_sample_tree_pids(tree->root.pid, &pids, &count, NULL) < 0)
        return;
    for (size_t i = 1; i < count; i++)
        add_child(tree, pids[i], is_early, now_ns);
    free(pids);
}

/* ----------------------------------------------------------------------------------- injections */

static void switch_on(void *user, void *answer)
{
    struct gsp_memory_switch *memory_switch = user;
    struct answer *out = answer;
    gsp_ignore(gsp_record__memory_switch_on(memory_switch, &out->err) < 0);
    out->is_ours = memory_switch->is_ours;
    out->was_there = memory_switch->was_there;
}

static void switch_off(void *user, void *answer)
{
    struct gsp_memory_switch *memory_switch = user;
    struct answer *out = answer;
    gsp_ignore(gsp_record__memory_switch_off(memory_switch, &out->err) < 0);
}

static bool is_final(int code)
{
    return code == GSP_E_NOPROC || code == GSP_E_PERM || code == GSP_E_VERSION;
}

/* Doubles the delay up to PAUSE_MAX_NS. */
static void schedule_retry(struct gsp_memory_tree_child *child, int64_t now_ns)
{
    child->due_ns = now_ns + child->pause_ns;
    child->pause_ns = child->pause_ns < PAUSE_MAX_NS / 2 ? child->pause_ns * 2 : PAUSE_MAX_NS;
}

static void apply_answer(struct gsp_memory_tree_child *child, const struct answer *answer,
                         int64_t now_ns)
{
    const int pid = (int)child->memory_switch.pid;
    child->memory_switch.is_ours = answer->is_ours;
    child->memory_switch.was_there = answer->was_there;
    child->is_on = answer->err.code == GSP_OK;
    child->why = answer->err;
    if (child->is_on)
        gsp_log_info("memory", "process %d counts allocations", pid);
    else
        gsp_log_info("memory", "process %d does not count allocations: %s", pid, answer->err.msg);
    schedule_retry(child, now_ns);
    if (is_final(answer->err.code) || (child->is_on && !is_forked(child)))
        child->due_ns = INT64_MAX;
}

/* Returns false if the injection is still running. */
static bool wait_for_answer(struct gsp_memory_tree_child *child, int timeout_ms, int64_t now_ns)
{
    struct answer answer = {.err = {.code = GSP_OK}};
    const enum gsp_child_task_state state =
        gsp_proc_child_task_wait(&child->task, &answer, sizeof(answer), timeout_ms);
    if (state == GSP_CHILD_TASK_RUNNING)
        return false;
    if (state == GSP_CHILD_TASK_FAILED)
        gsp_err_fill(&answer.err, GSP_E_IO, 0, "the injecting process exited without an answer");
    apply_answer(child, &answer, now_ns);
    return true;
}

static void start_injection(struct gsp_memory_tree_child *child, int64_t now_ns)
{
    struct answer answer = {.err = {.code = GSP_OK}};
    if (gsp_proc_child_task_start(&child->task, switch_on, &child->memory_switch, sizeof(answer),
                                  &answer.err) < 0)
        apply_answer(child, &answer, now_ns);
}

void gsp_record_memory_tree_update(struct gsp_memory_tree *tree, int64_t now_ns)
{
    size_t busy = 0;
    if (!tree->has_children)
        return;
    remove_exited(tree);
    find_children(tree, false, now_ns);
    for (size_t i = 0; i < tree->count; i++)
        if (tree->at[i].task.child > 0)
            busy += !wait_for_answer(&tree->at[i], 0, now_ns);
    for (size_t i = 0; i < tree->count && busy < TASKS_MAX; i++) {
        struct gsp_memory_tree_child *child = &tree->at[i];
        if (child->task.child > 0 || child->due_ns > now_ns)
            continue;
        /* A forked child stops counting when it calls exec: check it again later. */
        if (child->is_on && is_forked(child)) {
            schedule_retry(child, now_ns);
            continue;
        }
        start_injection(child, now_ns);
        busy += child->task.child > 0;
    }
}

/* Waits up to FIRST_NS for the descendants that exist at the start. */
static void wait_for_first(struct gsp_memory_tree *tree)
{
    const int64_t end_ns = gsp_now_ns() + FIRST_NS;
    bool is_waiting = true;
    while (is_waiting && gsp_now_ns() < end_ns) {
        gsp_record_memory_tree_update(tree, gsp_now_ns());
        is_waiting = false;
        for (size_t i = 0; i < tree->count; i++) {
            const struct gsp_memory_tree_child *child = &tree->at[i];
            is_waiting = is_waiting || child->task.child > 0 ||
                         (child->is_early && !child->is_on && child->why.code == GSP_OK);
        }
        if (is_waiting)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

int gsp_record_memory_tree_on(struct gsp_memory_tree *tree, struct gsp_err *err)
{
    if (tree->has_children)
        find_children(tree, true, gsp_now_ns());
    int rc = gsp_record__memory_switch_on(&tree->root, err);
    if (rc == GSP_E_NOTPY && tree->count > 0) {
        /* It may still become a Python process. */
        add_child(tree, tree->root.pid, true, gsp_now_ns());
        rc = GSP_OK;
    }
    if (rc == GSP_OK && tree->has_children)
        wait_for_first(tree);
    return rc;
}

/* ----------------------------------------------------------------------------------- switching off
 */

/* Whether a process counts because its parent, in which we switched counting on, forked it. */
static bool has_inherited(const struct gsp_memory_tree *tree,
                          const struct gsp_memory_tree_child *child)
{
    if (child->is_early || !child->is_on || !is_forked(child))
        return false;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->at[i].memory_switch.pid == child->ppid)
            return tree->at[i].memory_switch.is_ours;
    return child->ppid == tree->root.pid && tree->root.is_ours;
}

static void log_child(const struct gsp_memory_tree_child *child, const char *what)
{
    gsp_auto_buf cmdline = {0};
    gsp_auto_buf shown = {0};
    gsp_proc_cmdline(child->memory_switch.pid, &cmdline);
    struct gsp_sv text = gsp_buf_sv(&cmdline);
    text.len = text.len < CMDLINE_MAX ? text.len : CMDLINE_MAX;
    gsp_buf_term(&shown, text);
    const char *name = gsp_buf_cstr(&shown);
    gsp_log_warn("memory", "%s process %d (%s): %s", what, (int)child->memory_switch.pid,
                 name ? name : "", child->why.msg);
}

/* Logs running Python processes that could not be injected. */
static void log_refused(const struct gsp_memory_tree *tree)
{
    size_t count = 0;
    for (size_t i = 0; i < tree->count; i++) {
        const struct gsp_memory_tree_child *child = &tree->at[i];
        struct gsp_procinfo info;
        const int code = child->why.code;
        const bool is_refused = !child->is_on && code != GSP_OK && code != GSP_E_NOTPY &&
                                code != GSP_E_STARTING && code != GSP_E_NOPROC;
        if (is_refused && is_running(child, &info) && count++ < SHOWN_MAX)
            log_child(child, "allocations were not counted in");
    }
    if (count > SHOWN_MAX)
        gsp_log_warn("memory", "allocations were not counted in %zu other processes",
                     count - SHOWN_MAX);
}

static int ms_until(int64_t end_ns)
{
    const int64_t left_ns = end_ns - gsp_now_ns();
    return left_ns > 0 ? (int)(left_ns / GSP_NS_PER_MS) + 1 : 0;
}

static void start_switch_off(const struct gsp_memory_tree *tree,
                             struct gsp_memory_tree_child *child)
{
    struct gsp_procinfo info;
    child->memory_switch.is_ours = child->memory_switch.is_ours || has_inherited(tree, child);
    if (child->memory_switch.is_ours && is_running(child, &info) &&
        gsp_proc_child_task_start(&child->task, switch_off, &child->memory_switch,
                                  sizeof(struct answer), &child->why) < 0)
        log_child(child, "counting stays on in");
}

/* Switches counting off in the children from index first on. */
static void switch_off_children(struct gsp_memory_tree *tree, size_t first)
{
    for (size_t next = first, done = first; done < tree->count; done++) {
        while (next < tree->count && next - done < TASKS_MAX)
            start_switch_off(tree, &tree->at[next++]);
        struct gsp_memory_tree_child *child = &tree->at[done];
        struct answer answer = {.err = {.code = GSP_OK}};
        if (child->task.child <= 0)
            continue;
        const int64_t end_ns = gsp_now_ns() + 2 * child->memory_switch.limit_ns + MARGIN_NS;
        gsp_ignore(
            gsp_proc_child_task_wait(&child->task, &answer, sizeof(answer), ms_until(end_ns)));
        child->why = answer.err;
        if (answer.err.code != GSP_OK)
            log_child(child, "counting stays on in");
    }
}

void gsp_record_memory_tree_off(struct gsp_memory_tree *tree)
{
    const size_t count = tree->count;
    const int64_t end_ns = gsp_now_ns() + tree->root.limit_ns + MARGIN_NS;
    struct gsp_err err = {0};
    for (size_t i = 0; i < count; i++) {
        struct gsp_memory_tree_child *child = &tree->at[i];
        if (child->task.child > 0 && !wait_for_answer(child, ms_until(end_ns), 0))
            child->task = (struct gsp_child_task){.fd = -1}; /* it ends at its own time limit */
    }
    log_refused(tree);
    if (gsp_record__memory_switch_off(&tree->root, &err) < 0)
        gsp_log_warn("memory", "counting stays on in process %d: %s", (int)tree->root.pid, err.msg);
    switch_off_children(tree, 0);
    if (!tree->has_children)
        return;
    /* Children forked in the meantime by a process that counted. */
    find_children(tree, false, gsp_now_ns());
    for (size_t i = count; i < tree->count; i++)
        tree->at[i].is_on = gsp_record__memory_switch_is_on(tree->at[i].memory_switch.pid);
    switch_off_children(tree, count);
}

void gsp_record_memory_tree_free(struct gsp_memory_tree *tree)
{
    free(tree->at);
    *tree = (struct gsp_memory_tree){0};
}
