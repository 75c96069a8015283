/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_switch.h -- switches the counting of allocations in a process on and off.
 *
 * For a program that gsprof starts, by environment variables; for a running process, by injecting
 * the agent. Counting that was already on (GSPROF_MEMORY in its environment) stays on.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

struct gsp_memory_switch {
    pid_t pid;
    bool exact;
    const char *bytes; /* mean distance between two samples, as typed; NULL: the default */
    int64_t limit_ns;
    bool is_ours;   /* we switched counting on */
    bool was_there; /* the process already had the agent */
    uint64_t interval_bytes;
};

/* Fails with USAGE. */
GSP_MUST_CHECK int gsp_record_memory_switch_check(struct gsp_memory_switch *self,
                                                  struct gsp_err *err);
/* Sets the environment for the next program that is started. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_record_memory_switch_set_env(const struct gsp_memory_switch *self,
                                                    struct gsp_err *err);
/* Fails like gsp_inject_run_python(), and with NOTSUP if the process cannot count allocations. */
GSP_MUST_CHECK int gsp_record__memory_switch_on(struct gsp_memory_switch *self,
                                                struct gsp_err *err);
/* Whether a process counts allocations, switched on by us or not. */
bool gsp_record__memory_switch_is_on(pid_t pid);
/* Restores the state before gsp_record__memory_switch_on(). Does nothing if the process has exited.
 */
GSP_MUST_CHECK int gsp_record__memory_switch_off(struct gsp_memory_switch *self,
                                                 struct gsp_err *err);
