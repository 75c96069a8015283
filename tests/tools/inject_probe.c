/* SPDX-License-Identifier: Apache-2.0 */
/* A library to load into a target. It uses memory, vector registers and files like a real one and
 * writes a line to a file. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define EXPORT __attribute__((visibility("default")))

EXPORT void probe_enter(const char *path, const char *text, int *value);
EXPORT void probe_wait(const char *path, const char *text, int *value);
EXPORT void probe_lock(const char *path, const char *text, int *value);
EXPORT int probe_crash(const char *path, const char *text);

static int work(const char *path, const char *text)
{
    double sum = 0;
    for (int i = 0; i < 100; i++) {
        char *block = malloc((size_t)(i + 1) * 64U);
        if (!block)
            return -1;
        memset(block, i, (size_t)(i + 1) * 64U);
        sum += (double)block[i] * 0.5;
        free(block);
    }
    FILE *file = fopen(path, "ae");
    if (!file)
        return -2;
    fprintf(file, "%s %.1f\n", text ? text : "none", sum);
    return fclose(file) == 0 ? 42 : -3;
}

void probe_enter(const char *path, const char *text, int *value)
{
    *value = work(path, text);
}

#if defined(__aarch64__)

static void clear_vectors(void)
{
    __asm__ volatile("movi v0.2d, #0\n\t"
                     "movi v8.2d, #0\n\t"
                     "movi v16.2d, #0\n\t"
                     "movi v31.2d, #0\n\t"
                     "msr fpsr, xzr\n\t"
                     "mov x7, #0\n\t"
                     "mov x16, #0\n\t"
                     "mov x17, #0\n\t" ::
                         : "x7", "x16", "x17", "v0", "v8", "v16", "v31", "memory");
}

static void clear_scalable(void)
{
    __asm__ volatile(".arch_extension sve\n\t"
                     "mov z0.d, #0\n\t"
                     "mov z14.d, #0\n\t"
                     "mov z31.d, #0\n\t"
                     "pfalse p5.b\n\t"
                     "pfalse p15.b\n\t"
                     "wrffr p5.b\n\t" ::
                         : "v0", "v14", "v31", "memory");
}

#endif

/* Waits until the FIFO has no writer. Changes the registers as any function may. */
void probe_wait(const char *path, const char *text, int *value)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char byte;
    while (fd >= 0 && read(fd, &byte, 1) > 0) {
    }
    *value = fd;
    close(fd);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroall" ::: "memory");
#elif defined(__aarch64__)
    clear_vectors();
    if (getauxval(AT_HWCAP) & HWCAP_SVE)
        clear_scalable();
#endif
    errno = ENOTTY;
    (void)text;
}

/* Waits for a lock that is never released. */
void probe_lock(const char *path, const char *text, int *value)
{
    static int lock;
    while (__atomic_load_n(&lock, __ATOMIC_RELAXED) == 0)
        syscall(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    (void)path;
    (void)text;
    (void)value;
}

int probe_crash(const char *path, const char *text)
{
    if (path || text)
        __builtin_trap();
    return 0;
}
