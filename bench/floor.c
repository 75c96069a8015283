/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor.c -- the cost of the bare mechanisms of a sampler on this machine.
 *
 *   floor sleep RATE_HZ SECONDS   wake up by a timer
 *   floor awake RATE_HZ SECONDS   poll the clock without sleeping
 *   floor read PID SECONDS        copy 512 bytes of a process's stack by process_vm_readv
 *
 * Prints as JSON the number of ticks or copies, the number of late ticks, and the CPU time of a
 * thousand. No sampler can do better on this machine.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

#define NS_PER_S   1000000000LL
#define SPAN_BYTES 512U

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void report(int64_t count, int64_t late, int64_t cpu_ns)
{
    printf("{\"count\": %lld, \"late\": %lld, \"cpu_ms_per_1000\": %.4f}\n", (long long)count,
           (long long)late, count ? (double)cpu_ns / 1e3 / (double)count : 0.0);
}

static int tick(double rate_hz, double seconds, int is_awake)
{
    const int64_t period_ns = (int64_t)((double)NS_PER_S / rate_hz);
    const int64_t slots = (int64_t)(seconds * rate_hz);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    const int64_t cpu_before = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    const int64_t start_ns = read_clock(CLOCK_MONOTONIC);
    int64_t count = 0;
    int64_t late = 0;
    for (int64_t slot = 1; slot < slots; slot++) {
        const int64_t due = start_ns + slot * period_ns;
        const struct timespec at = {due / NS_PER_S, (long)(due % NS_PER_S)};
        while (read_clock(CLOCK_MONOTONIC) < due)
            if (!is_awake)
                clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        count++;
        const int64_t passed = (read_clock(CLOCK_MONOTONIC) - start_ns) / period_ns;
        if (passed > slot) {
            late += passed - slot;
            slot = passed;
        }
    }
    report(count, late, read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_before);
    return 0;
}

/* An address in the used part of the stack. */
static uint64_t stack_of(int pid)
{
    char path[48];
    char line[512];
    unsigned long long end = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, "[stack]"))
            end = strtoull(strchr(line, '-') + 1, NULL, 16);
    if (maps)
        fclose(maps);
    return end ? end - 4096 : 0;
}

static int read_memory(int pid, double seconds)
{
    char bytes[SPAN_BYTES];
    uint64_t addr = stack_of(pid);
    struct iovec local = {bytes, sizeof(bytes)};
    struct iovec remote = {(void *)(uintptr_t)addr, sizeof(bytes)};
    const int64_t cpu_before = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    const int64_t end_ns = read_clock(CLOCK_MONOTONIC) + (int64_t)(seconds * (double)NS_PER_S);
    int64_t count = 0;
    while (read_clock(CLOCK_MONOTONIC) < end_ns) {
        if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(bytes)) {
            fprintf(stderr, "floor: cannot read process %d\n", pid);
            return 69;
        }
        count++;
    }
    report(count, 0, read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_before);
    return 0;
}

int main(int argc, char **argv)
{
    const double what = argc == 4 ? strtod(argv[2], NULL) : 0;
    const double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;
    if (what >= 1 && what <= 4e6 && seconds > 0 && seconds < 3600) {
        if (strcmp(argv[1], "sleep") == 0 || strcmp(argv[1], "awake") == 0)
            return tick(what, seconds, argv[1][0] == 'a');
        if (strcmp(argv[1], "read") == 0)
            return read_memory((int)what, seconds);
    }
    fprintf(stderr, "usage: floor sleep|awake RATE_HZ SECONDS\n       floor read PID SECONDS\n");
    return 64;
}
