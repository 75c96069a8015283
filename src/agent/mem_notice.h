/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_notice.h -- writes the stack of a large allocation as rows of python.backtrace.
 *
 * Threads: any. Writes at most one stack every ten milliseconds, and counts the rest as lost.
 * Allocates: like gsp_agent_put().
 */
#pragma once

/* The thread is busy (GSP_AGENT__INSIDE). */
void gsp_agent__mem_notice(void);
/* Reports the number of omitted stacks. Also called when counting stops. */
void gsp_agent__mem_notice_end(void);
