/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_signals.h -- the signals of `gsprof run`: the program gets the signals it would get without
 * gsprof.
 *
 * While the program runs, signals sent to gsprof alone are passed on. Signals sent to the process
 * group or by the terminal have already reached the program. After the program has exited, the
 * first SIGINT, SIGTERM, SIGHUP or SIGQUIT asks gsprof to finish early, and the second ends it.
 *
 * Signals are blocked in all threads. One thread of this module receives them and another one acts
 * on them, so that no code is interrupted and nothing here runs in a signal handler.
 *
 * Threads: one owner; one run per process.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

/* Blocks the signals in this thread and all threads it starts. To be called first. */
void gsp_record_run_signals_block(void);
/* Starts the sentry; to be called before the program is forked. See
 * gsp_record__signal_sentry_start() for argv and words. */
void gsp_record_run_signals_prepare(char *const *argv, char *const *words);
/* To be called when the program is forked but held, with its signals blocked. Passes on the signals
 * received so far. */
void gsp_record_run_signals_begin(pid_t program);
/* Passes signals on if the threads could not be started. To be called periodically. */
void gsp_record_run_signals_poll(void);
/* Stops gsprof with the signal that stopped the program, until either is continued. */
void gsp_record_run_signals_stop(int sig);
/* To be called when the program has exited, before it is reaped. */
void gsp_record_run_signals_end(void);
/* Set when the user asks gsprof to finish early. */
const volatile sig_atomic_t *gsp_record_run_signals_interrupted(void);
/* Ends gsprof with the signal that ended the program, so that the parent sees the same status;
 * writes no core file. Returns if that fails. */
void gsp_record_run_signals_raise(int sig);
/* Ends the threads; the signals stay blocked. Does nothing before gsp_record_run_signals_prepare().
 */
void gsp_record_run_signals_close(void);
