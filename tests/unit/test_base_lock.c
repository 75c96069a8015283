/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/time.h"
#include "tap.h"

struct shared {
    struct gsp_lock lock;
    pthread_cond_t changed;
    int value;
};

static void *add(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < 10000; i++) {
        gsp_lock_take(&shared->lock);
        shared->value++;
        pthread_cond_signal(&shared->changed);
        gsp_lock_release(&shared->lock);
    }
    return NULL;
}

TAP_TEST(one_thread_at_a_time)
{
    struct shared shared = {.changed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        tap_require(pthread_create(&threads[i], NULL, add, &shared) == 0);
    gsp_lock_take(&shared.lock);
    while (shared.value < 20000)
        gsp_lock_wait(&shared.lock, &shared.changed);
    gsp_lock_release(&shared.lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    tap_eq_int(shared.value, 20000);
}

TAP_TEST(a_wait_ends_at_its_deadline)
{
    struct shared shared = {.changed = PTHREAD_COND_INITIALIZER};
    gsp_lock_take(&shared.lock);
    const int64_t deadline_ns = gsp_realtime_ns() + 10 * GSP_NS_PER_MS;
    while (gsp_lock_wait_until(&shared.lock, &shared.changed, deadline_ns)) {
        /* A spurious wake-up: wait again. */
    }
    tap_check(gsp_realtime_ns() >= deadline_ns);
    gsp_lock_release(&shared.lock);
}

#ifdef GSP_ASSERTS
TAP_TEST(an_assertion_without_the_lock_ends_the_process)
{
    const pid_t pid = fork();
    if (pid == 0) {
        struct gsp_lock lock = {0};
        close(STDERR_FILENO);
        gsp_lock_assert_held(&lock);
        _exit(0);
    }
    int status = 0;
    tap_require(waitpid(pid, &status, 0) == pid);
    tap_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

TAP_MAIN()
