/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/gate.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Threads with their own gate; further threads join the crowd. */
#define GATES_MAX   4096U
/* A thread of the crowd tries to claim a gate at every 256th entry. */
#define CROWD_STAYS 256U
/* Number of waits: longer than the scheduler keeps any thread from running. */
#define WAITS_MAX   2000U
#define WAIT_NS     1000000L

_Thread_local struct gsp_agent__gate *gsp_agent__my_gate __attribute__((tls_model("initial-exec")));

static struct gsp_agent__gate gates[GATES_MAX];
static _Atomic uint32_t gate_count; /* gates that were ever claimed */
static _Atomic uint32_t crowd;      /* threads without a gate that are inside */
static _Thread_local uint32_t my_crowd __attribute__((tls_model("initial-exec"))); /* this thread */
static _Thread_local uint32_t my_stays __attribute__((tls_model("initial-exec")));
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_key;
static int end_key_error = -1;

static void end_thread(void *arg)
{
    struct gsp_agent__gate *gate = arg;
    gsp_agent__my_gate = NULL;
    /* Partner: the exchange in find_free(). */
    atomic_store_explicit(&gate->owner, 0, memory_order_release);
}

static void init_once(void)
{
    end_key_error = pthread_key_create(&end_key, end_thread);
}

static struct gsp_agent__gate *find_free(uint32_t tid)
{
    for (uint32_t i = 0; i < GATES_MAX; i++) {
        uint32_t free_owner = 0;
        if (atomic_load_explicit(&gates[i].owner, memory_order_relaxed) != 0)
            continue;
        /* Partner of acquire: the store in end_thread(). */
        if (atomic_compare_exchange_strong_explicit(&gates[i].owner, &free_owner, tid,
                                                    memory_order_acquire, memory_order_relaxed)) {
            uint32_t count = atomic_load(&gate_count);
            while (count <= i && !atomic_compare_exchange_weak(&gate_count, &count, i + 1)) {
            }
            return &gates[i];
        }
    }
    return NULL;
}

struct gsp_agent__gate *gsp_agent__gate_claim(void)
{
    /* Not while this thread is in the crowd: it would leave the gate instead of the crowd. */
    if (my_crowd > 0 || my_stays++ % CROWD_STAYS != 0)
        return NULL;
    pthread_once(&once, init_once);
    if (end_key_error != 0)
        return NULL;
    const int saved_errno = errno;
    struct gsp_agent__gate *gate = find_free((uint32_t)gettid());
    if (gate && pthread_setspecific(end_key, gate) != 0) {
        atomic_store_explicit(&gate->owner, 0, memory_order_release);
        gate = NULL;
    }
    errno = saved_errno;
    gsp_agent__my_gate = gate;
    return gate;
}

void gsp_agent__crowd_enter(void)
{
    my_crowd = my_crowd + 1;
    /* Before any load of a ring. Partner: the load in crowd_is_out(). */
    atomic_fetch_add(&crowd, 1);
}

void gsp_agent__crowd_leave(void)
{
    atomic_fetch_sub(&crowd, 1);
    my_crowd = my_crowd - 1;
}

/* Makes every thread of the process pass a full barrier. Registration takes milliseconds, so it is
 * done only when needed. */
static bool order_all(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
        return true;
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

/* Waits until the thread is outside, or has been outside since the first load. */
static bool wait_for(const struct gsp_agent__gate *gate)
{
    const struct timespec pause = {0, WAIT_NS};
    /* Partner: the store in gate_out(). */
    const uint64_t first = atomic_load_explicit(&gate->word, memory_order_acquire);
    uint64_t now = first;
    for (unsigned i = 0; i < WAITS_MAX; i++) {
        if ((now & GSP_AGENT__DEPTH) == 0 ||
            (now & ~(uint64_t)GSP_AGENT__DEPTH) != (first & ~(uint64_t)GSP_AGENT__DEPTH))
            return true;
        nanosleep(&pause, NULL);
        now = atomic_load_explicit(&gate->word, memory_order_acquire);
    }
    return false;
}

/* Waits until every thread of the crowd has left. */
static bool crowd_is_out(void)
{
    const struct timespec pause = {0, WAIT_NS};
    for (unsigned i = 0; i < WAITS_MAX; i++) {
        if (atomic_load(&crowd) == 0)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

bool gsp_agent__gate_wait(void)
{
    if (!order_all())
        return false;
    const uint32_t count = atomic_load(&gate_count);
    bool empty = true;
    for (uint32_t i = 0; i < count && empty; i++)
        empty = wait_for(&gates[i]);
    return empty && crowd_is_out();
}

bool gsp_agent__gate_is_nested(void)
{
    const struct gsp_agent__gate *gate = gsp_agent__my_gate;
    return my_crowd > 1 || (gate && (atomic_load_explicit(&gate->word, memory_order_relaxed) &
                                     GSP_AGENT__DEPTH) > 1);
}

void gsp_agent__gate_reset(void)
{
    const uint32_t count = atomic_load(&gate_count);
    for (uint32_t i = 0; i < count; i++) {
        if (&gates[i] != gsp_agent__my_gate) {
            atomic_store_explicit(&gates[i].word, 0, memory_order_relaxed);
            atomic_store_explicit(&gates[i].owner, 0, memory_order_relaxed);
        }
    }
    atomic_store(&crowd, my_crowd);
}
