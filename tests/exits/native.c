/* SPDX-License-Identifier: Apache-2.0 */
/* What C libraries do to a profiler: they allocate in destructors, in threads that Python does not
 * know, and while the calling thread does not hold the GIL. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 4096
#define BLOCKS      256

void native_at_unload(double seconds);
void native_churn(double seconds);
void native_start_thread(void);
void native_parallel(int rounds);
void native_exit(int status);
void native_fork_and_churn(int children);

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
        if (blocks[i]) {
            *(volatile char *)blocks[i] = 1;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

/* Allocates and frees for that long. */
void native_churn(double seconds)
{
    const double end_s = now_s() + seconds;
    while (now_s() < end_s) {
        allocate_some();
    }
}

/* From now on the library's destructor allocates for that long. */
void native_at_unload(double seconds)
{
    unload_s = seconds;
}

static __attribute__((destructor)) void at_unload(void)
{
    native_churn(unload_s);
}

static void *churn_for_ever(void *unused)
{
    (void)unused;
    for (;;) {
        allocate_some();
    }
    return NULL;
}

/* A thread that Python does not know, and that outlives the interpreter. */
void native_start_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, churn_for_ever, NULL) == 0) {
        pthread_detach(thread);
    }
}

/* Threads of OpenMP that allocate. */
void native_parallel(int rounds)
{
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < rounds; i++) {
        allocate_some();
    }
}

/* The C library's exit(): destructors run while Python's other threads go on. */
void native_exit(int status)
{
    exit(status);
}

/* Children that Python does not know of. */
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
