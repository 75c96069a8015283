/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_notice.h -- the stack of one great allocation, as rows of python.backtrace.
 *
 * Used by: mem_hook.c.
 * Threads: all; one in ten milliseconds is told, the others are left out.
 * Allocates: as gsp_agent_put() does.
 */
#pragma once

/* The thread is busy (GSP_AGENT__INSIDE). */
void gsp_agent__mem_notice(void);
/* Tells how many were left out for coming too soon; also when there will be no more. */
void gsp_agent__mem_notice_end(void);
