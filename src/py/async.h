/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async.h -- the asyncio tasks of a target: names, states and await chains.
 *
 * Reads:   asyncio's own task registries: weak sets up to 3.13; from 3.14 on lists per thread and
 *          per interpreter, whose offsets are in asyncio's debug section.
 * Threads: the owner of the target.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"
#include "py/await.h"
#include "py/target.h"

#define GSP_PY_TASKS_MAX 65536U

enum gsp_py_task_state {
    GSP_PY_TASK_UNKNOWN,
    GSP_PY_TASK_NEW,     /* not started */
    GSP_PY_TASK_READY,   /* waits only for the event loop */
    GSP_PY_TASK_WAITING, /* for a future or another task */
    GSP_PY_TASK_RUNNING,
};

struct gsp_py_task {
    gsp_raddr addr;
    struct gsp_sv name; /* UTF-8, valid during the call */
    enum gsp_py_task_state state;
    uint64_t python_id;      /* of the thread that runs its event loop; 0 if unknown */
    struct gsp_sv waits_for; /* name of the task, or type of the future; valid during the call */
    bool waits_for_task;
    const struct gsp_py_awaits *chain; /* valid during the call */
};

typedef void gsp_py_task_fn(void *arg, const struct gsp_py_task *task);

/* "waiting" */
const char *gsp_py_task_state_name(enum gsp_py_task_state state);

/* Calls fn for each task that is not done; never if asyncio is not imported. Skips malformed tasks
 * (the target may be running). Calls is_enough, unless it is NULL, before it reads a task. Fails
 * with NOPROC, PERM, NOMEM. */
GSP_MUST_CHECK int gsp_py_tasks(struct gsp_py_target *target, gsp_py_task_fn *fn,
                                gsp_py_enough_fn *is_enough, void *arg);
