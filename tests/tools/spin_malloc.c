/* SPDX-License-Identifier: Apache-2.0 */
/* spin_malloc.c -- an allocator with an unknown name, whose lock spins. */
#include <stdatomic.h>
#include <stddef.h>

#define EXPORT      __attribute__((visibility("default")))
#define LOCKED_LOOP 3000

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void __libc_free(void *old);
EXPORT void *malloc(size_t bytes);
EXPORT void *calloc(size_t count, size_t bytes);
EXPORT void *realloc(void *old, size_t bytes);
EXPORT void free(void *old);

static atomic_flag held = ATOMIC_FLAG_INIT;

static void take(void)
{
    while (atomic_flag_test_and_set(&held)) {
    }
    for (volatile int i = 0; i < LOCKED_LOOP; i++) {
    }
}

static void *give(void *result)
{
    atomic_flag_clear(&held);
    return result;
}

void *malloc(size_t bytes)
{
    take();
    return give(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    take();
    return give(__libc_calloc(count, bytes));
}

void *realloc(void *old, size_t bytes)
{
    take();
    return give(__libc_realloc(old, bytes));
}

void free(void *old)
{
    take();
    __libc_free(old);
    give(NULL);
}
