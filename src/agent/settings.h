/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h -- the settings as rows of gsprof.setting: all when the agent starts, then each that
 * has changed.
 *
 * Used by: agent.c.
 * Threads: all; whoever comes while another is at it leaves it to that one.
 * Signal-safe: no.
 * Allocates: never.
 */
#pragma once

#include "ring/writer.h"

/* Puts what differs from what was put last into the present ring. */
void gsp_agent__settings_put(void);
/* In a child after fork: nobody is at it. */
void gsp_agent__settings_forget(void);
/* The table's ring is small. */
void gsp_agent__settings_spec(struct gsp_ring_spec *spec);
