/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h -- the control page of this process. Its address never changes.
 *
 * Before the agent starts, and if no space is left for a file, the page is private memory. The file
 * is mapped over it, and, in a child after fork, over the parent's page.
 *
 * Threads: any thread reads and sets; the thread that starts the agent calls make and local.
 * Signal-safe: gsp_agent__page(), after its first call.
 * Allocates: once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "wire/control.h"

/* Never NULL. */
struct gsp_control *gsp_agent__page(void);

/* Creates the file `control` in the ring directory and maps it; the values stay. Fails with
 * NO_SPACE, NO_MEMORY or OTHER; then the page is private memory. */
enum gsp_agent_rc gsp_agent__page_make(int folder_fd);
/* Makes the page private memory, with the same values or with the defaults. */
void gsp_agent__page_make_private(bool keep_values, uint32_t state);
/* Sets a value that was checked. folder is the ring directory; "": none. Returns false if another
 * writer holds the lock for a second. */
bool gsp_agent__page_set(const char *folder, enum gsp_setting_id id, const char *value);
/* Call in a child after fork: releases the lock. */
void gsp_agent__page_reset(void);
