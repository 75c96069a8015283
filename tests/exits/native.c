/* SPDX-License-Identifier: Apache-2.0 */
/* Situations that C libraries create for a profiler: they allocate in destructors, in threads that
 * Python does not know, and while the calling thread does not hold the GIL. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 4096
#define BLOCKS      256
#define BIG_BYTES   1000000

void native_at_unload(double seconds);
void native_churn(double seconds);
void native_start_thread(void);
void native_parallel(int rounds);
void native_exit(int status);
void native_fork_and_churn(int children);
void native_start_helper(void);
int native_cancel(int rounds);

static double unload_s;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void allocate_some(void)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        if (blocks[i])
            *(volatile char *)blocks[i] = 1;
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* Allocates and frees for the given time. */
void native_churn(double seconds)
{
    const double end_s = now_s() + seconds;
    while (now_s() < end_s)
        allocate_some();
}

/* Makes the library's destructor allocate for the given time. */
void native_at_unload(double seconds)
{
    unload_s = seconds;
}

static __attribute__((destructor)) void at_unload(void)
{
    native_churn(unload_s);
}

static void *churn_forever(void *unused)
{
    (void)unused;
    for (;;)
        allocate_some();
    return NULL;
}

/* Starts a thread that Python does not know and that outlives the interpreter. */
void native_start_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, churn_forever, NULL) == 0)
        pthread_detach(thread);
}

/* Allocates in threads of OpenMP. */
void native_parallel(int rounds)
{
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < rounds; i++)
        allocate_some();
}

/* Calls exit() of the C library: destructors run while Python's other threads continue. */
void native_exit(int status)
{
    exit(status);
}

/* Starts children that Python does not know. */
void native_fork_and_churn(int children)
{
    for (int i = 0; i < children; i++) {
        const pid_t child = fork();
        if (child == 0) {
            native_churn(0.01);
            _exit(0);
        }
    }
}

/* ------------------------------------------------------------------------------- fork handlers */

/* A thread that the handler before fork ends, like OpenBLAS ends its threads. */
static pthread_t helper;
static bool has_helper;
static _Atomic int helper_ends;

static void *help(void *unused)
{
    (void)unused;
    while (!atomic_load(&helper_ends))
        sched_yield();
    allocate_some();
    return NULL;
}

void native_start_helper(void)
{
    atomic_store(&helper_ends, 0);
    has_helper = pthread_create(&helper, NULL, help, NULL) == 0;
}

static void end_helper(void)
{
    if (has_helper) {
        atomic_store(&helper_ends, 1);
        pthread_join(helper, NULL);
        has_helper = false;
    }
}

static __attribute__((constructor)) void watch_forks(void)
{
    (void)pthread_atfork(end_helper, NULL, NULL);
}

/* -------------------------------------------------------------------------------- cancellation */

#define CANCELLED 4

static pthread_mutex_t allocating = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int all_cancelled;

/* Allocates with a pending cancellation: malloc() and free() are not cancellation points. */
static void *allocate_cancelled(void *finished)
{
    while (!atomic_load(&all_cancelled))
        sched_yield();
    for (int i = 0; i < BLOCKS; i++) {
        pthread_mutex_lock(&allocating);
        volatile char *block = malloc(BIG_BYTES);
        if (block)
            *block = 1;
        free((void *)block);
        pthread_mutex_unlock(&allocating);
    }
    *(int *)finished = 1;
    pthread_testcancel();
    return NULL;
}

/* Returns how many threads finished their allocations. */
int native_cancel(int rounds)
{
    int count = 0;
    for (int round = 0; round < rounds; round++) {
        pthread_t threads[CANCELLED];
        int finished[CANCELLED] = {0};
        atomic_store(&all_cancelled, 0);
        for (int i = 0; i < CANCELLED; i++)
            if (pthread_create(&threads[i], NULL, allocate_cancelled, &finished[i]) != 0)
                abort();
        for (int i = 0; i < CANCELLED; i++)
            pthread_cancel(threads[i]);
        atomic_store(&all_cancelled, 1);
        for (int i = 0; i < CANCELLED; i++) {
            pthread_join(threads[i], NULL);
            count += finished[i];
        }
    }
    return count;
}
