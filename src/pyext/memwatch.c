/* SPDX-License-Identifier: Apache-2.0 */
#include "pyext/memwatch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "base/time.h"

#define STATM_MAX    256
#define STATM_FIELDS 7
#define STATUS_MAX   4096
#define FIRST_CAP    64

struct gsp_memwatch {
    struct gsp_memwatch_device device;
    int64_t interval_ns;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t stopped;
    pthread_t thread;
    pid_t pid; /* process that has the thread: a child of fork has none */
    bool has_thread;
    bool is_on;
    int64_t step_ns; /* current interval */
    struct gsp_memwatch_sample peak;
    struct gsp_memwatch_sample *samples;
    size_t count;
    size_t cap;
};

/* Reads a file of procfs as a string, in one read(). Allocates nothing. */
static bool read_text(const char *path, char *text, size_t size)
{
    /* Opened each time: after fork, an inherited descriptor still reads the parent. */
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return true;
}

/* Reads the fields, in pages: size, resident, shared, text, 0, data and stack, 0. */
static bool read_statm(int64_t pages[STATM_FIELDS])
{
    char text[STATM_MAX];
    if (!read_text("/proc/self/statm", text, sizeof(text)))
        return false;
    char *at = text;
    for (int i = 0; i < STATM_FIELDS; i++) {
        char *end = at;
        pages[i] = strtoll(at, &end, 10);
        if (end == at)
            return false;
        at = end;
    }
    return true;
}

bool gsp_pyext__status_bytes(const char *const *names, int64_t *bytes, size_t count)
{
    char text[STATUS_MAX];
    if (!read_text("/proc/self/status", text, sizeof(text)))
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *at = strstr(text, names[i]);
        if (!at)
            return false;
        bytes[i] = strtoll(at + strlen(names[i]), NULL, 10) * 1024;
    }
    return true;
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void gsp_pyext__memory_now(const struct gsp_memwatch_device *device,
                           struct gsp_memwatch_sample *out)
{
    *out = (struct gsp_memwatch_sample){gsp_now_ns(), -1, -1, -1, -1, -1};
    int64_t pages[STATM_FIELDS];
    if (read_statm(pages)) {
        const int64_t page_bytes = sysconf(_SC_PAGESIZE);
        out->resident_bytes = pages[1] * page_bytes;
        out->anonymous_bytes = (pages[1] - pages[2]) * page_bytes;
        /* Resident libraries and shared memory are not part of the data segment. */
        out->reserved_bytes =
            out->resident_bytes + greater(pages[5] * page_bytes - out->anonymous_bytes, 0);
    }
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (device && device->get_info && device->get_info(&free_bytes, &total_bytes) == 0 &&
        free_bytes <= total_bytes)
        out->device_bytes = (int64_t)(total_bytes - free_bytes);
}

void gsp_pyext__memory_sample(const struct gsp_memwatch_device *device,
                              struct gsp_memwatch_sample *out)
{
    static const char *const names[] = {"\nRssAnon:", "\nRssShmem:"};
    int64_t bytes[GSP_COUNT(names)];
    gsp_pyext__memory_now(device, out);
    /* Linux 4.5 and later. */
    if (gsp_pyext__status_bytes(names, bytes, GSP_COUNT(names)))
        out->nonfile_bytes = bytes[0] + bytes[1];
}

/* The program may fork at any time: the array that a child sees is always valid and holds cap. */
static bool grow(struct gsp_memwatch *watch)
{
    const size_t cap = watch->cap ? watch->cap * 2 : FIRST_CAP;
    struct gsp_memwatch_sample *old = watch->samples;
    struct gsp_memwatch_sample *grown = malloc(cap * sizeof(*grown));
    if (!grown)
        return false;
    if (old)
        memcpy(grown, old, watch->count * sizeof(*grown));
    watch->samples = grown;
    atomic_signal_fence(memory_order_seq_cst);
    watch->cap = cap;
    free(old);
    return true;
}

/* With the mutex held. */
static void add_sample(struct gsp_memwatch *watch, const struct gsp_memwatch_sample *sample)
{
    watch->peak.resident_bytes = greater(watch->peak.resident_bytes, sample->resident_bytes);
    watch->peak.reserved_bytes = greater(watch->peak.reserved_bytes, sample->reserved_bytes);
    watch->peak.device_bytes = greater(watch->peak.device_bytes, sample->device_bytes);
    if (watch->count == GSP_MEMWATCH_KEPT) {
        for (size_t i = 0; i < watch->count / 2; i++)
            watch->samples[i] = watch->samples[i * 2];
        watch->count /= 2;
        watch->step_ns *= 2;
    }
    if (watch->count < watch->cap || grow(watch))
        watch->samples[watch->count++] = *sample;
}

static void *run(void *arg)
{
    struct gsp_memwatch *watch = arg;
    if (watch->device.set_context)
        (void)watch->device.set_context(watch->device.context);
    int64_t due_ns = gsp_now_ns();
    pthread_mutex_lock(&watch->mutex);
    while (watch->is_on) {
        due_ns = greater(due_ns + watch->step_ns, gsp_now_ns());
        const struct timespec until = {due_ns / GSP_NS_PER_S, due_ns % GSP_NS_PER_S};
        if (pthread_cond_timedwait(&watch->stopped, &watch->mutex, &until) == 0)
            continue;
        pthread_mutex_unlock(&watch->mutex);
        struct gsp_memwatch_sample now;
        gsp_pyext__memory_sample(&watch->device, &now);
        pthread_mutex_lock(&watch->mutex);
        if (watch->is_on)
            add_sample(watch, &now);
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

static void make_locks(struct gsp_memwatch *watch)
{
    pthread_mutex_init(&watch->mutex, NULL);
    gsp_thread_cond_init(&watch->stopped);
}

/* In a child of fork the thread does not exist, and may have held the mutex. */
static void after_fork(struct gsp_memwatch *watch)
{
    if (watch->pid != getpid()) {
        watch->pid = getpid();
        watch->is_on = false;
        watch->has_thread = false;
        make_locks(watch);
    }
}

struct gsp_memwatch *gsp_pyext__memwatch_new(int64_t interval_ns,
                                             const struct gsp_memwatch_device *device)
{
    struct gsp_memwatch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return NULL;
    watch->interval_ns = interval_ns > 0 ? interval_ns : GSP_NS_PER_MS;
    watch->pid = getpid();
    if (device)
        watch->device = *device;
    make_locks(watch);
    return watch;
}

/* With the mutex held: the new thread waits for it. */
static bool start_thread(struct gsp_memwatch *watch)
{
    watch->has_thread = gsp_thread_start(&watch->thread, run, watch) == 0;
    return watch->has_thread;
}

bool gsp_pyext__memwatch_start(struct gsp_memwatch *watch, bool with_thread)
{
    gsp_pyext__memwatch_stop(watch);
    struct gsp_memwatch_sample now;
    gsp_pyext__memory_sample(&watch->device, &now);
    /* After the read: an allocation later than at_ns is not in the first sample. */
    now.at_ns = gsp_now_ns();
    bool ok = true;
    pthread_mutex_lock(&watch->mutex);
    /* Another thread may have started it meanwhile. */
    if (!watch->is_on) {
        watch->count = 0;
        watch->peak = (struct gsp_memwatch_sample){0, -1, -1, -1, -1, -1};
        watch->step_ns = watch->interval_ns;
        add_sample(watch, &now);
        watch->is_on = true;
        ok = !with_thread || start_thread(watch);
    }
    pthread_mutex_unlock(&watch->mutex);
    return ok;
}

void gsp_pyext__memwatch_stop(struct gsp_memwatch *watch)
{
    after_fork(watch);
    pthread_mutex_lock(&watch->mutex);
    const bool was_on = watch->is_on;
    const bool has_thread = watch->has_thread;
    if (was_on) {
        struct gsp_memwatch_sample now;
        gsp_pyext__memory_sample(&watch->device, &now);
        add_sample(watch, &now);
    }
    watch->is_on = false;
    watch->has_thread = false;
    pthread_cond_signal(&watch->stopped);
    pthread_mutex_unlock(&watch->mutex);
    if (has_thread)
        pthread_join(watch->thread, NULL);
}

bool gsp_pyext__memwatch_is_on(struct gsp_memwatch *watch)
{
    after_fork(watch);
    pthread_mutex_lock(&watch->mutex);
    const bool is_on = watch->is_on;
    pthread_mutex_unlock(&watch->mutex);
    return is_on;
}

struct gsp_memwatch_sample *gsp_pyext__memwatch_samples(struct gsp_memwatch *watch, size_t *count,
                                                        struct gsp_memwatch_sample *peak)
{
    after_fork(watch);
    pthread_mutex_lock(&watch->mutex);
    struct gsp_memwatch_sample *copy = malloc((watch->count + 1) * sizeof(*copy));
    if (copy && watch->count > 0)
        memcpy(copy, watch->samples, watch->count * sizeof(*copy));
    *count = watch->count;
    *peak = watch->peak;
    pthread_mutex_unlock(&watch->mutex);
    return copy;
}

void gsp_pyext__memwatch_free(struct gsp_memwatch *watch)
{
    if (!watch)
        return;
    gsp_pyext__memwatch_stop(watch);
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->stopped);
    free(watch->samples);
    free(watch);
}
