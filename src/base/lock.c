/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lock.h"

#include <errno.h>
#include <time.h>

#include "base/assert.h"
#include "base/time.h"

static void set_owner(struct gsp_lock *lock, bool is_held)
{
#ifdef GSP_ASSERTS
    lock->owner = pthread_self();
    lock->is_held = is_held;
#else
    (void)lock;
    (void)is_held;
#endif
}

void gsp_lock_take(struct gsp_lock *lock) GSP_NO_ANALYSIS
{
    pthread_mutex_lock(&lock->mutex);
    set_owner(lock, true);
}

void gsp_lock_release(struct gsp_lock *lock) GSP_NO_ANALYSIS
{
    gsp_lock_assert_held(lock);
    set_owner(lock, false);
    pthread_mutex_unlock(&lock->mutex);
}

void gsp_lock_assert_held(const struct gsp_lock *lock) GSP_NO_ANALYSIS
{
#ifdef GSP_ASSERTS
    gsp_assert(lock->is_held && pthread_equal(lock->owner, pthread_self()));
#else
    (void)lock;
#endif
}

void gsp_lock_wait(struct gsp_lock *lock, pthread_cond_t *cond)
{
    gsp_lock_assert_held(lock);
    set_owner(lock, false);
    pthread_cond_wait(cond, &lock->mutex);
    set_owner(lock, true);
}

bool gsp_lock_wait_until(struct gsp_lock *lock, pthread_cond_t *cond, int64_t deadline_ns)
{
    const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / GSP_NS_PER_S),
                                      .tv_nsec = (long)(deadline_ns % GSP_NS_PER_S)};
    gsp_lock_assert_held(lock);
    set_owner(lock, false);
    const int rc = pthread_cond_timedwait(cond, &lock->mutex, &deadline);
    set_owner(lock, true);
    return rc != ETIMEDOUT;
}
