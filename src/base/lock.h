/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h -- a mutex that clang and sanitizer builds can check.
 *
 * Write GSP_REQUIRES(&object->lock) after the prototype of a function whose caller must hold the
 * lock. Clang then rejects a call without it, and gsp_lock_assert_held() checks it at run time in
 * sanitizer builds. Mark a member that a lock protects with GSP_GUARDED_BY(lock).
 *
 * Threads: any thread may call any function.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

/* A zeroed lock is unlocked and ready to use. */
struct GSP_CAPABILITY("mutex") gsp_lock {
    pthread_mutex_t mutex;
#ifdef GSP_ASSERTS
    pthread_t owner;
    bool is_held;
#endif
};

void gsp_lock_take(struct gsp_lock *lock) GSP_ACQUIRE(lock);
void gsp_lock_release(struct gsp_lock *lock) GSP_RELEASE(lock);

/* Aborts in sanitizer builds if this thread does not hold the lock. Other builds do nothing. */
void gsp_lock_assert_held(const struct gsp_lock *lock) GSP_ASSERT_HELD(lock);

/* Waits for a condition variable, and releases the lock meanwhile. */
void gsp_lock_wait(struct gsp_lock *lock, pthread_cond_t *cond) GSP_REQUIRES(lock);

/* The same, with a deadline on the condition's clock. Returns false at the deadline. */
bool gsp_lock_wait_until(struct gsp_lock *lock, pthread_cond_t *cond, int64_t deadline_ns)
    GSP_REQUIRES(lock);
