/* SPDX-License-Identifier: Apache-2.0 */
/* A target that detects changed registers and calls that fail unexpectedly: in a tight loop, in a
 * sleep, reading a pipe, or waiting for it with epoll, depending on its argument. Prints "ready"
 * and, when its standard input ends, the number of rounds and the errors. */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static bool input_ended(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

#if defined(__x86_64__)

/* Fills the registers, spins, and compares. Returns 0 if none changed. The words right below the
 * stack pointer belong to the function. */
static uint64_t spin(uint64_t rounds)
{
    uint64_t bad = 0;
    __asm__ volatile("movq $0x1111111111111111, %%r8\n\t"
                     "movq $0x2222222222222222, %%r9\n\t"
                     "movq $0x3333333333333333, %%r10\n\t"
                     "movq $0x4444444444444444, %%r11\n\t"
                     "movq %%r8, %%xmm0\n\t"
                     "movq %%r9, %%xmm7\n\t"
                     "movq %%r10, %%xmm15\n\t"
                     "movq %%r11, -8(%%rsp)\n\t"
                     "movq %%r8, -120(%%rsp)\n\t"
                     "std\n\t"
                     "1: decq %1\n\t"
                     "jnz 1b\n\t"
                     "pushfq\n\t"
                     "popq %%rax\n\t"
                     "cld\n\t"
                     "notq %%rax\n\t"
                     "andq $0x400, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     "movq %%xmm0, %%rax\n\t"
                     "xorq %%r8, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     "movq %%xmm7, %%rax\n\t"
                     "xorq %%r9, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     "movq %%xmm15, %%rax\n\t"
                     "xorq %%r10, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     "movq -120(%%rsp), %%rax\n\t"
                     "xorq %%r8, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     "movq $0x4444444444444444, %%rax\n\t"
                     "xorq %%r11, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     : "+r"(bad), "+r"(rounds)
                     :
                     : "rax", "r8", "r9", "r10", "r11", "xmm0", "xmm7", "xmm15", "memory", "cc");
    return bad;
}

#else

static uint64_t spin(uint64_t rounds)
{
    volatile double kept = 0.25;
    for (volatile uint64_t i = 0; i < rounds; i++) {
    }
    return kept == 0.25 ? 0 : 1;
}

#endif

/* Sleeps briefly. Returns false if the sleep was interrupted or too short. */
static bool sleep_briefly(void)
{
    struct timespec from;
    struct timespec to;
    const struct timespec length = {.tv_nsec = 20000000};
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (nanosleep(&length, NULL) != 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec >= length.tv_nsec;
}

/* Waits for the end of standard input. Returns how often the call was interrupted. */
static uint64_t wait_by_epoll(void)
{
    uint64_t interrupted = 0;
    struct epoll_event event = {.events = EPOLLIN};
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0)
        return 1;
    while (epoll_wait(poller, &event, 1, -1) < 0)
        interrupted++;
    close(poller);
    return interrupted;
}

static uint64_t wait_by_read(void)
{
    uint64_t interrupted = 0;
    char byte;
    ssize_t n;
    while ((n = read(STDIN_FILENO, &byte, 1)) != 0)
        interrupted += n < 0;
    return interrupted;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "spin";
    uint64_t rounds = 0;
    uint64_t bad = 0;
    uint64_t interrupted = 0;
    puts("ready");
    fflush(stdout);
    if (strcmp(how, "read") == 0)
        interrupted = wait_by_read();
    else if (strcmp(how, "epoll") == 0)
        interrupted = wait_by_epoll();
    while (!input_ended()) {
        if (strcmp(how, "sleep") == 0)
            interrupted += !sleep_briefly();
        else
            bad |= spin(2000000);
        rounds++;
    }
    printf("{\"rounds\": %llu, \"bad\": %llu, \"interrupted\": %llu}\n", (unsigned long long)rounds,
           (unsigned long long)bad, (unsigned long long)interrupted);
    return bad || interrupted ? 1 : 0;
}
