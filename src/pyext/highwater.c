/* SPDX-License-Identifier: Apache-2.0 */
#include "pyext/highwater.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/file.h"
#include "pyext/memwatch.h"

/* Most stored marks. Beyond that, the two oldest are merged. */
#define KEPT_MAX    1024U
/* The kernel counts pages per CPU, with a delay: a smaller difference needs no reset. */
#define SLACK_BYTES (64L * 1024)

/* A mark stored at a reset: the peak between two resets. */
struct kept {
    int64_t mark;
    int64_t peak_bytes;
};

static struct {
    pthread_mutex_t mutex;
    pid_t pid; /* process that the state belongs to */
    int64_t mark;
    unsigned open;
    /* Oldest first, peaks decreasing: a mark below a later one is not needed. */
    struct kept kept[KEPT_MAX];
    size_t count;
} H = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* In a child of fork, the mutex may be held by a thread that does not exist. */
static void lock(void)
{
    if (H.pid != getpid()) {
        pthread_mutex_init(&H.mutex, NULL);
        H.pid = getpid();
        H.open = 0;
        H.count = 0;
        H.mark++;
    }
    pthread_mutex_lock(&H.mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&H.mutex);
}

/* Reads the kernel's mark and the resident memory. */
static bool read_marks(int64_t *peak_bytes, int64_t *now_bytes)
{
    static const char *const names[] = {"\nVmHWM:", "\nVmRSS:"};
    int64_t bytes[GSP_COUNT(names)];
    if (!gsp_pyext__status_bytes(names, bytes, GSP_COUNT(names)))
        return false;
    *peak_bytes = bytes[0];
    *now_bytes = bytes[1];
    return true;
}

static bool reset_mark(void)
{
    gsp_auto_fd fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, "5", 1) == 1;
}

static void keep(int64_t peak_bytes)
{
    while (H.count > 0 && H.kept[H.count - 1].peak_bytes <= peak_bytes)
        H.count--;
    if (H.count == KEPT_MAX) {
        memmove(&H.kept[1], &H.kept[2], (KEPT_MAX - 2) * sizeof(H.kept[0]));
        H.count--;
    }
    H.kept[H.count++] = (struct kept){H.mark, peak_bytes};
}

int64_t gsp_pyext__highwater_begin(void)
{
    int64_t peak_bytes = -1;
    int64_t now_bytes = -1;
    int64_t mark = -1;
    lock();
    if (H.open == 0)
        H.count = 0;
    if (read_marks(&peak_bytes, &now_bytes)) {
        if (peak_bytes - now_bytes <= SLACK_BYTES) {
            mark = H.mark;
        } else if (reset_mark()) {
            keep(peak_bytes);
            mark = ++H.mark;
        }
    }
    H.open += mark >= 0;
    unlock();
    return mark;
}

int64_t gsp_pyext__highwater_since(int64_t mark)
{
    int64_t peak_bytes = -1;
    int64_t now_bytes = -1;
    if (mark < 0)
        return -1;
    lock();
    if (!read_marks(&peak_bytes, &now_bytes))
        peak_bytes = -1;
    for (size_t i = 0; i < H.count && peak_bytes >= 0; i++) {
        if (H.kept[i].mark >= mark) {
            peak_bytes = H.kept[i].peak_bytes > peak_bytes ? H.kept[i].peak_bytes : peak_bytes;
            break;
        }
    }
    unlock();
    return peak_bytes;
}

void gsp_pyext__highwater_end(void)
{
    lock();
    H.open -= H.open > 0;
    unlock();
}
