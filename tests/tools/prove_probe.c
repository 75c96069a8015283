/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libprove_probe.so -- for tests/prove/programs/busy.py: counts signals, and computes with all
 * kinds of registers. The counts are in a file that the tests map too.
 */
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* tests/prove/targets.py knows this layout. */
struct shared {
    _Atomic uint64_t stop; /* set by the test: the program ends */
    _Atomic uint64_t signals;
    _Atomic uint64_t alarms;
    _Atomic uint64_t wrong; /* results that differ from the first */
    _Atomic uint64_t computed;
};

#define EXPORT __attribute__((visibility("default")))

EXPORT int probe_open(const char *path);
EXPORT int probe_compute(void);
EXPORT int probe_compute_upward(void);

static struct shared *shared;

static void count_signal(int number)
{
    atomic_fetch_add(number == SIGALRM ? &shared->alarms : &shared->signals, 1);
}

/* Maps the file and installs the handlers. */
int probe_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return -1;
    shared = map;
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    int rc = sigaction(SIGALRM, &action, NULL);
    rc |= sigaction(SIGRTMIN + 3, &action, NULL);
    action.sa_flags = 0; /* system calls end with EINTR */
    return rc | sigaction(SIGRTMIN + 4, &action, NULL);
}

struct sum {
    double a[8];
    long double x87;
    uint64_t words;
};

/* Eight independent chaotic sequences keep most registers in use. */
__attribute__((noinline)) static void compute(struct sum *sum, unsigned rounds)
{
    double a[8] = {0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77, 0.88};
    long double x87 = 0.123456789L;
    uint64_t words = 1;
    for (unsigned i = 0; i < rounds; i++) {
        for (unsigned k = 0; k < 8; k++)
            a[k] = 3.99 * a[k] * (1.0 - a[k]);
        x87 = 3.99L * x87 * (1.0L - x87);
        words = words * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    }
    memset(sum, 0, sizeof(*sum));
    memcpy(sum->a, a, sizeof(a));
    sum->x87 = x87;
    sum->words = words;
}

/* Computes, and compares every bit with the first result. */
static int repeat(unsigned rounds, int rounding, struct sum *first, bool *has_first)
{
    struct sum sum;
    const int before = fegetround();
    fesetround(rounding);
    compute(&sum, rounds);
    const bool is_kept = fegetround() == rounding;
    fesetround(before);
    if (!*has_first) {
        *first = sum;
        *has_first = true;
    }
    const bool is_same = is_kept && memcmp(sum.a, first->a, sizeof(sum.a)) == 0 &&
                         sum.x87 == first->x87 && sum.words == first->words;
    atomic_fetch_add(&shared->computed, 1);
    if (!is_same)
        atomic_fetch_add(&shared->wrong, 1);
    return is_same ? 0 : 1;
}

/* Takes a few milliseconds. */
int probe_compute(void)
{
    static _Thread_local struct sum first;
    static _Thread_local bool has_first;
    return repeat(200000, FE_TONEAREST, &first, &has_first);
}

/* The same with another rounding mode, which a signal handler has to restore. */
int probe_compute_upward(void)
{
    static _Thread_local struct sum first;
    static _Thread_local bool has_first;
    return repeat(200000, FE_UPWARD, &first, &has_first);
}
