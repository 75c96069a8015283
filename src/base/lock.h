/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h -- a mutex that compilers and sanitizer builds can check.
 *
 * A function that needs a lock says so: GSP_REQUIRES(&object->lock) after its prototype. Clang
 * then rejects a call without the lock, and gsp_lock_assert_held() checks it at run time in
 * sanitizer builds. A member that a lock protects says GSP_GUARDED_BY(lock).
 *
 * Threads: all functions may be called from any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

/* Zeroed is unlocked, and needs no initialization. */
struct GSP_CAPABILITY("mutex") gsp_lock {
    pthread_mutex_t mutex;
#ifdef GSP_ASSERTS
    pthread_t owner;
    bool is_held;
#endif
};

void gsp_lock_take(struct gsp_lock *lock) GSP_ACQUIRE(lock);
bool gsp_lock_try(struct gsp_lock *lock) GSP_TRY_ACQUIRE(true, lock);
void gsp_lock_release(struct gsp_lock *lock) GSP_RELEASE(lock);

/* Ends a sanitizer build that does not hold the lock; nothing in other builds. */
void gsp_lock_assert_held(const struct gsp_lock *lock) GSP_ASSERT_HELD(lock);

/* Waits for a condition variable. The lock is released while it waits. */
void gsp_lock_wait(struct gsp_lock *lock, pthread_cond_t *cond) GSP_REQUIRES(lock);

/* The same, until a time of the condition's clock. Returns false at the deadline. */
bool gsp_lock_wait_until(struct gsp_lock *lock, pthread_cond_t *cond, int64_t deadline_ns)
    GSP_REQUIRES(lock);
