/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_switch.h -- counting of allocations in a process, switched on and off again.
 *
 * A program that we start is told by its environment, one that runs by a visit.  Where it is on
 * already (GSPROF_MEMORY in its environment) it is left on.
 *
 * Used by: cli/ (mem record, top --mem).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_memswitch {
    pid_t pid;
    bool exact;
    const char *bytes; /* mean distance of two samples, as typed; NULL: the engine's own */
    int64_t limit_ns;
    bool is_ours;   /* we switched it on */
    bool was_there; /* the agent was in the process before */
    uint64_t interval_bytes;
};

/* Fails with USAGE. */
GSP_MUST_CHECK int gsp_memswitch_check(struct gsp_memswitch *self, struct gsp_err *err);
/* For the program that is started next. */
GSP_MUST_CHECK int gsp_memswitch_environment(const struct gsp_memswitch *self, struct gsp_err *err);
/* Fails like gsp_visit(), and with NOTSUP when the process cannot count. */
GSP_MUST_CHECK int gsp_memswitch_on(struct gsp_memswitch *self, struct gsp_err *err);
/* Whether a process counts, no matter who switched that on. */
bool gsp_memswitch_is_on(pid_t pid);
/* As it was before; nothing when the process has ended. */
GSP_MUST_CHECK int gsp_memswitch_off(struct gsp_memswitch *self, struct gsp_err *err);
