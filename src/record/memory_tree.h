/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_tree.h -- counting of allocations in the children of a process, switched on and off again.
 *
 * Children that are there already and those that come later are entered one by one, each by a
 * process of ours that waits for the answer.  A forked child of a process that counts does so by
 * itself.  One that cannot be entered is tried again, ever more rarely, and holds up no other.
 *
 * Used by: cli/ (mem record, top --mem).
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

struct gsp_memtree_child {
    struct gsp_memswitch memswitch;
    pid_t ppid;
    uint64_t start_ticks;
    struct gsp_apart apart; /* who is in it at the moment */
    bool is_early;          /* was there before anything counted */
    bool is_on;             /* it counts, no matter who switched that on */
    int64_t due_ns;         /* when it is entered; INT64_MAX: not again */
    int64_t pause_ns;       /* until the next try */
    struct gsp_err why;     /* the last try failed */
};

struct gsp_memtree {
    struct gsp_memswitch root;
    bool has_children; /* they are wanted too */
    struct gsp_memtree_child *at;
    size_t count;
};

/* Switches counting on in the process of tree->root, and in its children if they are wanted: then
 * the process itself need not be Python.  Fails like gsp_memswitch_on(). */
GSP_MUST_CHECK int gsp_memtree_on(struct gsp_memtree *tree, struct gsp_err *err);
/* Enters children whose time has come; waits for none of them. */
void gsp_memtree_round(struct gsp_memtree *tree, int64_t now_ns);
/* All as they were before.  Tells which Python processes did not count, and in which counting goes
 * on. */
void gsp_memtree_off(struct gsp_memtree *tree);
void gsp_memtree_free(struct gsp_memtree *tree); /* {0} does nothing */
