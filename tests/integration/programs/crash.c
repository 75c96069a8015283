/* SPDX-License-Identifier: Apache-2.0 */
/* A program without Python: one thread waits, the main one aborts at a known depth. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t met;

__attribute__((noinline)) static int innermost(int depth)
{
    if (depth == 3)
        abort();
    return depth + 1;
}

__attribute__((noinline)) static int middle(int depth)
{
    return innermost(depth + 1) + 1;
}

__attribute__((noinline)) static int outer(int depth)
{
    return middle(depth + 1) + 1;
}

__attribute__((noinline)) static void *waits(void *pipe_fd)
{
    char byte;
    pthread_barrier_wait(&met);
    while (read(*(int *)pipe_fd, &byte, 1) < 0) {
    }
    return NULL;
}

int main(void)
{
    int fds[2];
    pthread_t thread;
    if (pipe(fds) != 0 || pthread_barrier_init(&met, NULL, 2) != 0 ||
        pthread_create(&thread, NULL, waits, &fds[0]) != 0)
        return 1;
    pthread_barrier_wait(&met);
    return outer(1) & 1;
}
