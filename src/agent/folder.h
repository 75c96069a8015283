/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folder.h -- the folder of this process's rings, once the agent has started.
 *
 * Used by: agent.c, memory.c.
 * Threads: all.
 */
#pragma once

/* The caller closes it; -1 when it is gone, or another's. */
int gsp_agent__folder_open(void);
