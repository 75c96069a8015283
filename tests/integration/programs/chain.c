/* SPDX-License-Identifier: Apache-2.0 */
/* A chain of native functions below Python, whose last one calls back into Python. */
#include <stdint.h>

typedef int (*callback)(int);

__attribute__((noinline)) int chain_spin(int count)
{
    volatile uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (uint64_t)i * 7;
    return (int)(sum & 1);
}

__attribute__((noinline)) int chain_inner(int count, callback back)
{
    int got = chain_spin(count);
    if (back)
        got += back(count);
    __asm__ volatile("" ::: "memory");
    return got + 1;
}

__attribute__((noinline)) int chain_middle(int count, callback back)
{
    int got = chain_inner(count, back);
    __asm__ volatile("" ::: "memory");
    return got + 1;
}

int chain_outer(int count, callback back)
{
    int got = chain_middle(count, back);
    __asm__ volatile("" ::: "memory");
    return got + 1;
}
