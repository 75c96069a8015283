/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processes.h -- the tables of all processes of this machine that have rings.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "ring/dir.h"
#include "source/backtraces.h"
#include "store/store.h"

struct gsp_source_processes {
    struct gsp_ring_dirs dirs;
    struct gsp_source_backtraces *backtraces; /* one per ring directory */
};

/* Adds the rings and the allocation counters of each process of this user to the store;
 * with_stacks: also the current stacks of running processes; all_users: root adds the processes of
 * all users. Leaves out a process that exits in the meantime, and with a warning one that has
 * damaged rings. Keep *all until the store is closed, and free it in any case. Fails with NOMEM,
 * IO. */
GSP_MUST_CHECK int gsp_source_processes_add(struct gsp_source_processes *all,
                                            struct gsp_store *store, bool with_stacks,
                                            bool all_users, struct gsp_err *err);
void gsp_source_processes_free(struct gsp_source_processes *all); /* {0} does nothing */
