/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"

#define RANGES_MAX 65536U

/* start is stored last and cleared first; 0 marks a free entry. */
struct range {
    _Atomic uintptr_t start;
    _Atomic uintptr_t end;
    _Atomic(_Atomic uintptr_t *) cut;
    atomic_bool is_writable;
};

static struct range ranges[RANGES_MAX];
static struct gsp_lock lock;
static _Atomic uint32_t range_count;                   /* entries that were ever used */
static uint32_t freed_count GSP_GUARDED_BY(lock);      /* entries that are free again */
static struct sigaction previous GSP_GUARDED_BY(lock); /* the handler reads it without the lock */
static long page_bytes;
/* A handler that was installed after this one may pass a fault back. */
static _Thread_local volatile sig_atomic_t depth __attribute__((tls_model("initial-exec")));

/* Maps zeros from the fault to the end of its range. Returns false if no range contains it. */
static bool map_zeros(uintptr_t addr)
{
    const uint32_t count = atomic_load_explicit(&range_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        /* Partner: the store of start in gsp_ring_guard_add(). */
        const uintptr_t start = atomic_load_explicit(&ranges[i].start, memory_order_acquire);
        const uintptr_t end = atomic_load_explicit(&ranges[i].end, memory_order_acquire);
        _Atomic uintptr_t *cut = atomic_load_explicit(&ranges[i].cut, memory_order_acquire);
        const int access = atomic_load_explicit(&ranges[i].is_writable, memory_order_acquire)
                               ? PROT_READ | PROT_WRITE
                               : PROT_READ;
        /* The range with the fault does not change meanwhile. Another entry may be reused, which
         * would mix the members of two ranges. */
        if (start == 0 || addr < start || addr >= end ||
            atomic_load_explicit(&ranges[i].start, memory_order_relaxed) != start)
            continue;
        const uintptr_t page = addr & ~((uintptr_t)page_bytes - 1);
        if (mmap((void *)page, end - page, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            return false;
        uintptr_t lowest = atomic_load_explicit(cut, memory_order_relaxed);
        while (page < lowest &&
               !atomic_compare_exchange_weak_explicit(cut, &lowest, page, memory_order_relaxed,
                                                      memory_order_relaxed)) {
        }
        return true;
    }
    return false;
}

static void call_previous(int number, siginfo_t *info, void *context)
{
    const bool is_function = (previous.sa_flags & SA_SIGINFO) != 0 ||
                             (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN);
    if (depth > 0 || !is_function) {
        if (previous.sa_handler == SIG_IGN && info->si_code <= 0)
            return;
        /* A fault recurs and ends the process; a signal that was sent does not. */
        signal(number, SIG_DFL);
        if (info->si_code <= 0)
            raise(number);
        return;
    }
    depth++;
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else
        previous.sa_handler(number);
    depth--;
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    const int saved_errno = errno;
    /* Positive codes come from the kernel. */
    if (info->si_code <= 0 || !map_zeros((uintptr_t)info->si_addr))
        call_previous(number, info, context);
    errno = saved_errno;
}

/* Checks every time, because the program may have replaced the handler. */
static bool install(void) GSP_REQUIRES(&lock);
static bool install(void)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) != 0)
        return false;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigbus)
        return true;
    page_bytes = sysconf(_SC_PAGESIZE);
    previous = now;
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) == 0;
}

/* Returns a free entry, or NULL if the table is full. */
static struct range *free_range(void) GSP_REQUIRES(&lock);
static struct range *free_range(void)
{
    const uint32_t count = atomic_load_explicit(&range_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && freed_count > 0; i++) {
        if (atomic_load_explicit(&ranges[i].start, memory_order_relaxed) == 0) {
            freed_count--;
            return &ranges[i];
        }
    }
    if (count == RANGES_MAX)
        return NULL;
    /* Partner: the load in map_zeros(). The new entry is free until its start is stored. */
    atomic_store_explicit(&range_count, count + 1, memory_order_release);
    return &ranges[count];
}

int gsp_ring_guard_add(void *start, size_t len, bool is_writable, _Atomic uintptr_t *cut,
                       struct gsp_err *err)
{
    gsp_lock_take(&lock);
    int rc = 0;
    struct range *range = NULL;
    if (!install()) {
        rc = gsp_err_set(err, GSP_E_IO, errno, "cannot install a SIGBUS handler");
    } else {
        range = free_range();
        if (!range) {
            rc = gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u parts of rings are mapped",
                             RANGES_MAX);
        }
    }
    if (range) {
        atomic_store_explicit(&range->end, (uintptr_t)start + len, memory_order_relaxed);
        atomic_store_explicit(&range->cut, cut, memory_order_relaxed);
        atomic_store_explicit(&range->is_writable, is_writable, memory_order_relaxed);
        atomic_store_explicit(&range->start, (uintptr_t)start, memory_order_release);
    }
    gsp_lock_release(&lock);
    return rc;
}

void gsp_ring_guard_remove(const void *start)
{
    gsp_lock_take(&lock);
    const uint32_t count = atomic_load_explicit(&range_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load_explicit(&ranges[i].start, memory_order_relaxed) == (uintptr_t)start) {
            atomic_store_explicit(&ranges[i].start, 0, memory_order_relaxed);
            freed_count++;
            break;
        }
    }
    gsp_lock_release(&lock);
}

const struct gsp_ring_guard gsp_ring_guard = {gsp_ring_guard_add, gsp_ring_guard_remove};
