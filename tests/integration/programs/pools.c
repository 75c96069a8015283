/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads as libraries start them: they have names and never enter Python. One has more on
 * its stack than one copy holds, one runs code without unwind rules. And two loops to call from
 * Python. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

int pools_start(const char *prefix, int count);
void pools_deep(volatile int *stop, int depth);
void pools_spin(volatile int *stop);
void pools_bare(volatile int *stop);
long pools_alpha(long rounds);
long pools_beta(long rounds);

/* No CFI at all: its caller can only be found from its code. */
__asm__(".text\n"
        ".globl pools_bare\n"
        ".type pools_bare, @function\n"
        "pools_bare:\n"
#if defined(__x86_64__)
        "    sub $40, %rsp\n"
        "1:  mov (%rdi), %eax\n"
        "    test %eax, %eax\n"
        "    je 1b\n"
        "    add $40, %rsp\n"
        "    ret\n"
#else
        "1:  ldr w1, [x0]\n"
        "    cbz w1, 1b\n"
        "    ret\n"
#endif
        ".size pools_bare, . - pools_bare\n");

static volatile int never;

__attribute__((noinline)) void pools_spin(volatile int *stop)
{
    while (!*stop) {
    }
}

/* Two kilobytes a frame. */
__attribute__((noinline)) void pools_deep(volatile int *stop, int depth)
{
    volatile char room[2048];
    room[0] = (char)depth;
    if (depth > 0)
        pools_deep(stop, depth - 1);
    else
        pools_spin(stop);
    room[1] = room[0];
}

/* A few microseconds each, for callers that alternate. */
__attribute__((noinline)) long pools_alpha(long rounds)
{
    volatile long sum = 0;
    for (long i = 0; i < rounds; i++)
        sum += i;
    return sum;
}

__attribute__((noinline)) long pools_beta(long rounds)
{
    volatile long product = 1;
    for (long i = 0; i < rounds; i++)
        product *= i | 1;
    return product;
}

static void *work(void *number)
{
    switch ((size_t)number % 3) {
    case 0:
        pools_spin(&never);
        break;
    case 1:
        pools_deep(&never, 40);
        break;
    default:
        pools_bare(&never);
        break;
    }
    return NULL;
}

/* Returns the number of started threads. */
int pools_start(const char *prefix, int count)
{
    int begun = 0;
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        char name[16];
        if (pthread_create(&thread, NULL, work, (void *)(size_t)i) != 0)
            break;
        snprintf(name, sizeof(name), "%.8s-%d", prefix, i);
        pthread_setname_np(thread, name);
        begun++;
    }
    return begun;
}
