/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h -- copies bytes that another thread may be writing or reading.
 *
 * The copy may be torn; the caller detects this afterwards with the counters of the ring. The
 * thread sanitizer cannot know that, so its builds copy single bytes with atomics.
 * Threads: any.
 * Signal-safe: yes.
 * Allocates: never.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define GSP_RING_BYTEWISE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GSP_RING_BYTEWISE 1
#endif
#endif

static inline void gsp_ring__put_bytes(char *to, const char *from, size_t n)
{
#ifdef GSP_RING_BYTEWISE
    for (size_t i = 0; i < n; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
#else
    memcpy(to, from, n);
#endif
}

static inline void gsp_ring__get_bytes(char *to, const char *from, size_t n)
{
#ifdef GSP_RING_BYTEWISE
    for (size_t i = 0; i < n; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
#else
    memcpy(to, from, n);
#endif
}
