/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_hook.h -- what is called instead of the allocators.
 *
 * Each function calls the allocator that it stands for and hands on its answer.  Sampled ones
 * subtract from a number of the thread's and, nearly always, jump on; exact ones count.  They stay
 * callable for ever: programs keep the addresses of functions.
 *
 * Used by: memory.c.
 * Threads: all; put and take by one at a time.
 */
#pragma once

#include <stdbool.h>

#include "agent/memory.h"

/* Puts them in; false when this process has no tables to put them in. */
bool gsp_agent__hooks_put(const struct gsp_agent_memory_opts *opts);
void gsp_agent__hooks_take(void);
/* No hook calls the interpreter from now on. */
void gsp_agent__hooks_end_python(void);
