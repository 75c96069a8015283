/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async.h -- the asyncio tasks of a target: their names, states and chains of awaits.
 *
 * Reads:   asyncio's own registers of tasks: weak sets up to 3.13, lists of threads and
 *          interpreters from 3.14 on, whose places asyncio tells in its debug section.
 * Used by: sample/ (dump).
 * Threads: one owner, that of the target.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "py/await.h"
#include "py/target.h"

#define GSP_PY_TASKS_MAX 65536U

enum gsp_py_task_state {
    GSP_PY_TASK_UNKNOWN,
    GSP_PY_TASK_NEW,     /* not begun */
    GSP_PY_TASK_READY,   /* waits for nothing but its turn */
    GSP_PY_TASK_WAITING, /* for a future or another task */
    GSP_PY_TASK_RUNNING,
};

struct gsp_py_task {
    gsp_raddr addr;
    struct gsp_sv name; /* UTF-8, good during the call */
    enum gsp_py_task_state state;
    uint64_t python_id;      /* of the thread whose loop it belongs to; 0 unknown */
    struct gsp_sv waits_for; /* name of the task, or type of the future; good during the call */
    bool waits_for_task;
    const struct gsp_py_awaits *chain; /* good during the call */
};

typedef void gsp_py_task_fn(void *arg, const struct gsp_py_task *task);

/* "waiting" */
const char *gsp_py_task_state_name(enum gsp_py_task_state state);

/* Calls fn for each task that is not done; no calls when asyncio was not imported.  Tasks that
 * make no sense (the target may be running) are left out.  Fails with NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_tasks(struct gsp_py_target *target, gsp_py_task_fn *fn, void *arg);
