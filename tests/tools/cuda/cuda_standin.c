/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_standin.c -- a STAND-IN for libcuda.so.1, for tests on machines without a GPU.
 *
 * Streams are queues of simulated work: standin_work(stream, ms) adds work that starts when all
 * earlier work has ended; nothing is computed. An event passes when the work before it has ended;
 * stream 0 waits for all others, as in the driver. Memory is only counted.
 *   GSP_CUDA_STANDIN_COUNT=2              number of devices (default: 1)
 *   GSP_CUDA_STANDIN_FAIL=cuEventRecord   this function returns 700
 * Tests with it cover how gsprof processes answers, not how a GPU behaves.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STANDIN        __attribute__((visibility("default")))
#define OK             0
#define INVALID_VALUE  1
#define NO_CONTEXT     201
#define NOT_READY      600
#define LAUNCH_FAILED  700
#define STREAMS_MAX    64
#define TOTAL_BYTES    ((size_t)8 << 30)
#define OVERHEAD_BYTES ((size_t)256 << 20)

struct event {
    int64_t at_ns; /* when it passes; 0: never recorded */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int64_t busy_until_ns[STREAMS_MAX];
static size_t stream_count = 1;
static size_t used_bytes = OVERHEAD_BYTES;
static char the_context;
static __thread void *current;

STANDIN int cuInit(unsigned flags);
STANDIN int cuDeviceGetCount(int *count);
STANDIN int cuDeviceGet(int *device, int ordinal);
STANDIN int cuDevicePrimaryCtxRetain(void **context, int device);
STANDIN int cuCtxGetCurrent(void **context);
STANDIN int cuCtxSetCurrent(void *context);
STANDIN int cuCtxSynchronize(void);
STANDIN int cuStreamCreate(void **stream, unsigned flags);
STANDIN int cuEventCreate(struct event **event, unsigned flags);
STANDIN int cuEventDestroy_v2(struct event *event);
STANDIN int cuEventRecord(struct event *event, void *stream);
STANDIN int cuEventQuery(const struct event *event);
STANDIN int cuEventElapsedTime(float *ms, const struct event *begin, const struct event *end);
STANDIN int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
STANDIN int cuMemAlloc_v2(uintptr_t *address, size_t bytes);
STANDIN int cuMemFree_v2(uintptr_t address);
STANDIN void standin_work(void *stream, double ms);

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int code_of(const char *name)
{
    const char *failing = getenv("GSP_CUDA_STANDIN_FAIL");
    return failing && strcmp(failing, name) == 0 ? LAUNCH_FAILED : OK;
}

/* Returns when all work of the stream ends. The caller holds the mutex. */
static int64_t end_of(size_t stream)
{
    int64_t end_ns = now_ns();
    for (size_t i = 0; i < stream_count; i++)
        if ((stream == 0 || i == stream || i == 0) && busy_until_ns[i] > end_ns)
            end_ns = busy_until_ns[i];
    return end_ns;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return code_of("cuInit");
}

int cuDeviceGetCount(int *count)
{
    const char *text = getenv("GSP_CUDA_STANDIN_COUNT");
    *count = text ? (int)strtol(text, NULL, 10) : 1;
    return OK;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    *context = &the_context;
    return code_of("cuDevicePrimaryCtxRetain");
}

int cuCtxGetCurrent(void **context)
{
    *context = current;
    return OK;
}

int cuCtxSetCurrent(void *context)
{
    current = context;
    return OK;
}

int cuCtxSynchronize(void)
{
    if (!current)
        return NO_CONTEXT;
    pthread_mutex_lock(&mutex);
    const int64_t end_ns = end_of(0);
    pthread_mutex_unlock(&mutex);
    const struct timespec until = {end_ns / 1000000000, end_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
    return code_of("cuCtxSynchronize");
}

int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    if (!current)
        return NO_CONTEXT;
    pthread_mutex_lock(&mutex);
    const size_t number = stream_count < STREAMS_MAX ? stream_count++ : 0;
    pthread_mutex_unlock(&mutex);
    *stream = (void *)(uintptr_t)number;
    return number ? OK : INVALID_VALUE;
}

int cuEventCreate(struct event **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return current && *event ? OK : NO_CONTEXT;
}

int cuEventDestroy_v2(struct event *event)
{
    free(event);
    return OK;
}

int cuEventRecord(struct event *event, void *stream)
{
    if (!current)
        return NO_CONTEXT;
    pthread_mutex_lock(&mutex);
    event->at_ns = end_of((uintptr_t)stream);
    pthread_mutex_unlock(&mutex);
    return code_of("cuEventRecord");
}

int cuEventQuery(const struct event *event)
{
    return event->at_ns <= now_ns() ? OK : NOT_READY;
}

int cuEventElapsedTime(float *ms, const struct event *begin, const struct event *end)
{
    if (cuEventQuery(begin) != OK || cuEventQuery(end) != OK)
        return NOT_READY;
    *ms = (float)((double)(end->at_ns - begin->at_ns) / 1e6);
    return OK;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    if (!current)
        return NO_CONTEXT;
    pthread_mutex_lock(&mutex);
    *free_bytes = TOTAL_BYTES - used_bytes;
    pthread_mutex_unlock(&mutex);
    *total_bytes = TOTAL_BYTES;
    return OK;
}

/* The address is the size, so that cuMemFree() can subtract it. */
int cuMemAlloc_v2(uintptr_t *address, size_t bytes)
{
    pthread_mutex_lock(&mutex);
    used_bytes += bytes;
    pthread_mutex_unlock(&mutex);
    *address = bytes;
    return OK;
}

int cuMemFree_v2(uintptr_t address)
{
    pthread_mutex_lock(&mutex);
    used_bytes -= address;
    pthread_mutex_unlock(&mutex);
    return OK;
}

void standin_work(void *stream, double ms)
{
    pthread_mutex_lock(&mutex);
    const size_t number = (uintptr_t)stream % STREAMS_MAX;
    busy_until_ns[number] = end_of(number) + (int64_t)(ms * 1e6);
    pthread_mutex_unlock(&mutex);
}
