/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_tree.h -- switches the counting of allocations in a process and its descendants on and
 * off.
 *
 * Each descendant, present or future, is injected by a child process of its own, so that one that
 * does not answer delays no other. A descendant that cannot be injected is retried at growing
 * intervals. A forked child of a process that counts also counts.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proc/child_task.h"
#include "record/memory_switch.h"

struct gsp_memory_tree_child {
    struct gsp_memory_switch memory_switch;
    pid_t ppid;
    uint64_t start_ticks;
    struct gsp_child_task task; /* the running injection */
    bool is_early;              /* existed before counting was switched on anywhere */
    bool is_on;                 /* counts, switched on by us or not */
    int64_t due_ns;             /* time of the next injection; INT64_MAX: never */
    int64_t pause_ns;           /* delay before the next retry */
    struct gsp_err why;         /* of the last attempt */
};

struct gsp_memory_tree {
    struct gsp_memory_switch root;
    bool has_children; /* include descendants */
    struct gsp_memory_tree_child *at;
    size_t count;
    size_t capacity;
};

/* Switches counting on in tree->root, and in its descendants if has_children; then the root need
 * not be a Python process. Fails like gsp_record__memory_switch_on(). */
GSP_MUST_CHECK int gsp_record_memory_tree_on(struct gsp_memory_tree *tree, struct gsp_err *err);
/* Injects descendants that are due, without waiting for the result. */
void gsp_record_memory_tree_update(struct gsp_memory_tree *tree, int64_t now_ns);
/* Switches counting off where we switched it on. Logs the Python processes that did not count, and
 * those that keep counting. */
void gsp_record_memory_tree_off(struct gsp_memory_tree *tree);
void gsp_record_memory_tree_free(struct gsp_memory_tree *tree); /* {0} does nothing */
