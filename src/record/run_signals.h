/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_signals.h -- the signals of `gsprof run`: the program gets those that it would get alone.
 *
 * While the program runs, what is sent to us alone is passed on; what is sent to the group, or by
 * the terminal, the program has already.  After its end, SIGINT, SIGTERM, SIGHUP and SIGQUIT ask
 * for an early end, and the second of them ends us.
 *
 * Signals are blocked in all threads.  One thread of this module takes them from the kernel,
 * another decides, so no code of ours is interrupted and nothing here runs in a handler.
 *
 * Used by: cmd_run.c.
 * Threads: one owner; there is one run in a process.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Blocks them, for this thread and all that it starts.  First of all. */
void gsp_run_signals_hold(void);
/* Before the program is forked; gsp_sentry_start() says what argv and words are. */
void gsp_run_signals_prepare(char *const *argv, char *const *words);
/* The program is forked and waits to be let go, with the signals blocked.  What has come up to now
 * is passed on before this returns. */
void gsp_run_signals_begin(pid_t program);
/* To be called now and then: passes signals on where there is no thread for that. */
void gsp_run_signals_beat(void);
/* The program is stopped by this signal, and so are we until another process continues us or it. */
void gsp_run_signals_stop(int sig);
/* The program has ended and is not waited for yet. */
void gsp_run_signals_end(void);
/* Set when the end has to come early. */
const volatile sig_atomic_t *gsp_run_signals_interrupted(void);
/* Ends us by the signal that has ended the program, so that our parent sees what it would see
 * without us; without a core of ours.  Returns when that cannot be. */
void gsp_run_signals_end_by(int sig);
/* Takes no more signals; they stay blocked.  Does nothing before prepare. */
void gsp_run_signals_close(void);
