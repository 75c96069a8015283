/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h -- writes the settings as rows of gsprof.setting: all when the agent starts, then each
 * one that has changed.
 *
 * Threads: any. If another thread is writing them, a call does nothing.
 * Signal-safe: no.
 * Allocates: never.
 */
#pragma once

#include "ring/writer.h"

/* Writes the settings that differ from the last written ones. */
void gsp_agent__settings_write(void);
/* Call in a child after fork: releases the lock. */
void gsp_agent__settings_reset(void);
/* Sets the sizes of the table's ring, which is small. */
void gsp_agent__settings_spec(struct gsp_ring_spec *spec);
