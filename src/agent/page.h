/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h -- the control page of this process: one address for ever, whatever file is behind it.
 *
 * Before the agent starts, and where there is no room for a file, it is memory of the process's
 * own.  The file is mapped over it, and over the parent's page in a child after fork.
 *
 * Used by: agent.c.
 * Threads: all read and set; make, local by whoever starts the agent.
 * Signal-safe: gsp_agent__page() is, once it was called.
 * Allocates: once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent.h"
#include "wire/control.h"

/* Never NULL. */
struct gsp_control *gsp_agent__page(void);

/* Makes the file `control` in the folder and maps it; values stay what they were.  Fails with
 * NO_PLACE, NO_MEMORY, OTHER: then the page is memory of the process's own. */
enum gsp_agent_rc gsp_agent__page_make(int folder_fd);
/* Memory of the process's own, with the same values or with the fallbacks. */
void gsp_agent__page_local(bool keep_values, uint32_t state);
/* Sets a value that was checked; folder is where the file is, "" when there is none.  False when
 * another writer has held it for a second. */
bool gsp_agent__page_set(const char *folder, enum gsp_setting_id id, const char *value);
/* In a child after fork: nobody is writing. */
void gsp_agent__page_forget(void);
