/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock_shift.c -- a library for LD_PRELOAD that shifts the wall clock by the number of nanoseconds
 * in the file $GSPROF_TEST_CLOCK (eight bytes). The file may change at any time.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

static const _Atomic int64_t *shift;

__attribute__((constructor)) static void open_shift(void)
{
    const char *path = getenv("GSPROF_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED)
        shift = at;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *out)
{
    long rc = syscall(SYS_clock_gettime, id, out);
    if (rc != 0 || id != CLOCK_REALTIME || !shift)
        return (int)rc;
    const int64_t ns = (int64_t)out->tv_sec * NS_PER_S + out->tv_nsec + *shift;
    out->tv_sec = (time_t)(ns / NS_PER_S);
    out->tv_nsec = ns % NS_PER_S;
    return 0;
}
