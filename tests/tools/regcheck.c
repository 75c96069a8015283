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

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

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

#elif defined(__aarch64__)

/* Fills general and vector registers, flags and status, spins, and compares. Returns 0 if none
 * changed. */
static uint64_t spin(uint64_t rounds)
{
    uint64_t bad = 0;
    __asm__ volatile("mov x0, #0x1111\n\t"
                     "mov x7, #0x2222\n\t"
                     "mov x8, #0x3333\n\t"
                     "mov x16, #0x4444\n\t"
                     "mov x17, #0x5555\n\t"
                     "mov x28, #0x6666\n\t"
                     "mov x30, #0x7777\n\t"
                     "dup v0.2d, x0\n\t"
                     "dup v8.2d, x7\n\t"
                     "dup v16.2d, x8\n\t"
                     "dup v31.2d, x16\n\t"
                     "mov x9, #0x90000000\n\t"
                     "msr nzcv, x9\n\t"
                     "mov x9, #0x08000000\n\t"
                     "msr fpsr, x9\n\t"
                     "1: sub %1, %1, #1\n\t"
                     "cbnz %1, 1b\n\t"
                     "mrs x10, fpsr\n\t"
                     "eor x10, x10, x9\n\t"
                     "orr %0, %0, x10\n\t"
                     "msr fpsr, xzr\n\t"
                     "mrs x10, nzcv\n\t"
                     "mov x9, #0x90000000\n\t"
                     "eor x10, x10, x9\n\t"
                     "orr %0, %0, x10\n\t"
                     "dup v1.2d, x0\n\t"
                     "eor v1.16b, v1.16b, v0.16b\n\t"
                     "dup v2.2d, x7\n\t"
                     "eor v2.16b, v2.16b, v8.16b\n\t"
                     "orr v1.16b, v1.16b, v2.16b\n\t"
                     "dup v2.2d, x8\n\t"
                     "eor v2.16b, v2.16b, v16.16b\n\t"
                     "orr v1.16b, v1.16b, v2.16b\n\t"
                     "dup v2.2d, x16\n\t"
                     "eor v2.16b, v2.16b, v31.16b\n\t"
                     "orr v1.16b, v1.16b, v2.16b\n\t"
                     "mov x10, v1.d[0]\n\t"
                     "orr %0, %0, x10\n\t"
                     "mov x10, v1.d[1]\n\t"
                     "orr %0, %0, x10\n\t"
                     "add x0, x0, x7\n\t"
                     "add x0, x0, x8\n\t"
                     "add x0, x0, x16\n\t"
                     "add x0, x0, x17\n\t"
                     "add x0, x0, x28\n\t"
                     "add x0, x0, x30\n\t"
                     "mov x10, #0xdddc\n\t"
                     "movk x10, #0x1, lsl #16\n\t"
                     "eor x10, x10, x0\n\t"
                     "orr %0, %0, x10\n\t"
                     : "+r"(bad), "+r"(rounds)
                     :
                     : "x0", "x7", "x8", "x9", "x10", "x16", "x17", "x28", "x30", "v0", "v1", "v2",
                       "v8", "v16", "v31", "memory", "cc");
    return bad;
}

#else
#error "unsupported processor architecture"
#endif

#if defined(__x86_64__)

/* Fills the upper halves of the wide vector registers, spins, and compares. */
__attribute__((target("avx"))) static uint64_t spin_wide(uint64_t rounds)
{
    uint64_t bad = 0;
    __asm__ volatile("movq $0x5555555555555555, %%r8\n\t"
                     "movq %%r8, %%xmm3\n\t"
                     "vpunpcklqdq %%xmm3, %%xmm3, %%xmm3\n\t"
                     "vinsertf128 $1, %%xmm3, %%ymm3, %%ymm3\n\t"
                     "vmovaps %%ymm3, %%ymm14\n\t"
                     "1: decq %1\n\t"
                     "jnz 1b\n\t"
                     "vextractf128 $1, %%ymm3, %%xmm3\n\t"
                     "vmovq %%xmm3, %%rax\n\t"
                     "xorq %%r8, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     "vextractf128 $1, %%ymm14, %%xmm14\n\t"
                     "vmovq %%xmm14, %%rax\n\t"
                     "xorq %%r8, %%rax\n\t"
                     "orq %%rax, %0\n\t"
                     "vzeroupper\n\t"
                     : "+r"(bad), "+r"(rounds)
                     :
                     : "rax", "r8", "xmm3", "xmm14", "memory", "cc");
    return bad;
}

static bool has_wide(void)
{
    return __builtin_cpu_supports("avx");
}

#else

/* Fills scalable vector and predicate registers, spins, and compares. Every lane differs. */
static uint64_t spin_wide(uint64_t rounds)
{
    uint64_t bad = 0;
    __asm__ volatile(".arch_extension sve\n\t"
                     "mov x9, #0x1111\n\t"
                     "index z0.d, x9, #1\n\t"
                     "index z14.d, x9, #2\n\t"
                     "index z31.d, x9, #3\n\t"
                     "ptrue p5.s\n\t"
                     "ptrue p15.d\n\t"
                     "ptrue p6.h\n\t"
                     "wrffr p6.b\n\t"
                     "1: sub %1, %1, #1\n\t"
                     "cbnz %1, 1b\n\t"
                     "ptrue p0.b\n\t"
                     "rdffr p1.b\n\t"
                     "ptrue p6.h\n\t"
                     "eor p1.b, p0/z, p1.b, p6.b\n\t"
                     "ptrue p6.s\n\t"
                     "eor p2.b, p0/z, p5.b, p6.b\n\t"
                     "orr p1.b, p0/z, p1.b, p2.b\n\t"
                     "ptrue p6.d\n\t"
                     "eor p2.b, p0/z, p15.b, p6.b\n\t"
                     "orr p1.b, p0/z, p1.b, p2.b\n\t"
                     "index z1.d, x9, #1\n\t"
                     "cmpne p2.d, p0/z, z0.d, z1.d\n\t"
                     "orr p1.b, p0/z, p1.b, p2.b\n\t"
                     "index z1.d, x9, #2\n\t"
                     "cmpne p2.d, p0/z, z14.d, z1.d\n\t"
                     "orr p1.b, p0/z, p1.b, p2.b\n\t"
                     "index z1.d, x9, #3\n\t"
                     "cmpne p2.d, p0/z, z31.d, z1.d\n\t"
                     "orr p1.b, p0/z, p1.b, p2.b\n\t"
                     "cntp x10, p0, p1.b\n\t"
                     "orr %0, %0, x10\n\t"
                     : "+r"(bad), "+r"(rounds)
                     :
                     : "x9", "x10", "v0", "v1", "v14", "v31", "memory", "cc");
    return bad;
}

static bool has_wide(void)
{
    return getauxval(AT_HWCAP) & HWCAP_SVE;
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
        else if (strcmp(how, "wide") == 0 && has_wide())
            bad |= spin_wide(2000000);
        else
            bad |= spin(2000000);
        rounds++;
    }
    printf("{\"rounds\": %llu, \"bad\": %llu, \"interrupted\": %llu}\n", (unsigned long long)rounds,
           (unsigned long long)bad, (unsigned long long)interrupted);
    return bad || interrupted ? 1 : 0;
}
