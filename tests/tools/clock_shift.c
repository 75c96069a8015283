/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock_shift.c -- a library for LD_PRELOAD that changes the clocks of a program, as the file
 * $GSPROF_TEST_CLOCK says: two numbers of eight bytes, which may change at any time.
 *
 *   shift_ns  is added to the wall clock
 *   rate      (fixed when the program starts; 0 and 1 are the same) all clocks run this many times
 *             as fast, and all waits are as many times shorter
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S  1000000000LL
#define NS_PER_MS 1000000LL
#define NS_PER_US 1000LL
#define PUBLIC    __attribute__((visibility("default")))

struct clock_page {
    _Atomic int64_t shift_ns;
    int64_t rate;
};

static const struct clock_page *page;
static int64_t rate = 1;
/* When the program started, by the true clocks. */
static int64_t start_wall_ns, start_mono_ns;

static int64_t to_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * NS_PER_S + t->tv_nsec;
}

static struct timespec of_ns(int64_t ns)
{
    const int64_t kept = ns > 0 ? ns : 0;
    return (struct timespec){.tv_sec = (time_t)(kept / NS_PER_S), .tv_nsec = kept % NS_PER_S};
}

static int64_t true_ns(clockid_t id)
{
    struct timespec now;
    syscall(SYS_clock_gettime, id, &now);
    return to_ns(&now);
}

__attribute__((constructor)) static void open_page(void)
{
    const char *path = getenv("GSPROF_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return;
    page = at;
    rate = page->rate > 1 ? page->rate : 1;
    start_wall_ns = true_ns(CLOCK_REALTIME);
    start_mono_ns = true_ns(CLOCK_MONOTONIC);
}

/* The time at which a clock of the program shows `ns`, by the true clock. */
static int64_t true_time(clockid_t id, int64_t ns)
{
    const int64_t start_ns = id == CLOCK_REALTIME ? start_wall_ns : start_mono_ns;
    if (page && id == CLOCK_REALTIME)
        ns -= page->shift_ns;
    return ns < start_ns ? ns : start_ns + (ns - start_ns) / rate;
}

PUBLIC int clock_gettime(clockid_t id, struct timespec *out)
{
    long rc = syscall(SYS_clock_gettime, id, out);
    const int is_wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    const int is_mono = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE ||
                        id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME;
    if (rc != 0 || !page || !(is_wall || is_mono))
        return (int)rc;
    const int64_t start_ns = is_wall ? start_wall_ns : start_mono_ns;
    *out = of_ns(start_ns + (to_ns(out) - start_ns) * rate + (is_wall ? page->shift_ns : 0));
    return 0;
}

PUBLIC int clock_nanosleep(clockid_t id, int flags, const struct timespec *t, struct timespec *left)
{
    const int64_t ns = to_ns(t);
    const struct timespec own = of_ns(flags & TIMER_ABSTIME ? true_time(id, ns) : ns / rate);
    return syscall(SYS_clock_nanosleep, id, flags, &own, left) == 0 ? 0 : errno;
}

PUBLIC int nanosleep(const struct timespec *t, struct timespec *left)
{
    const struct timespec own = of_ns(to_ns(t) / rate);
    return (int)syscall(SYS_nanosleep, &own, left);
}

PUBLIC int usleep(useconds_t us)
{
    const struct timespec own = of_ns(us * NS_PER_US / rate);
    return (int)syscall(SYS_nanosleep, &own, NULL);
}

PUBLIC int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
    struct timespec own = of_ns(t ? to_ns(t) / rate : 0);
    return (int)syscall(SYS_ppoll, fds, n, t ? &own : NULL, mask, 8UL);
}

PUBLIC int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct timespec own = of_ns(timeout_ms * NS_PER_MS / rate);
    return (int)syscall(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &own, NULL, 8UL);
}

/* The conditions of gsprof use CLOCK_MONOTONIC (base/thread.c). */
PUBLIC int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *at)
{
    const struct timespec own = of_ns(true_time(CLOCK_MONOTONIC, to_ns(at)));
    return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &own);
}
