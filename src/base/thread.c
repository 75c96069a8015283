/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>
#include <time.h>

void gsp_thread_async_signals(sigset_t *set)
{
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < GSP_COUNT(FAULTS); i++)
        sigdelset(set, FAULTS[i]);
}

int gsp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t blocked;
    sigset_t before;
    gsp_thread_async_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int sys = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return sys;
}

int gsp_thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    const int sys = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return sys;
}
