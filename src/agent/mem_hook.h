/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_hook.h -- the hooks that replace the allocators.
 *
 * Each hook calls the allocator that it replaces and returns its result. Hooks of sampled mode
 * subtract from a counter of the thread and almost always jump on; hooks of exact mode count. They
 * stay callable forever, because programs keep the addresses of functions.
 *
 * Threads: any thread runs the hooks; one at a time installs or removes them.
 */
#pragma once

#include <stdbool.h>

#include "agent/memory.h"

/* Installs the hooks. Returns false if the modules of this process cannot be hooked. */
bool gsp_agent__hooks_install(const struct gsp_agent_memory_opts *opts);
void gsp_agent__hooks_remove(void);
/* After this, no hook calls the interpreter. */
void gsp_agent__hooks_end_python(void);
