/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h -- copies of bytes that another thread may be writing or reading.
 *
 * The copy may be a mixture; who makes it finds out afterwards by the ring's counters.  The
 * thread sanitizer cannot know that, so in its builds the bytes go one by one as atomics.
 * Used by: ring/ alone.
 * Threads: that is what it is for.
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
    for (size_t i = 0; i < n; i++) {
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    }
#else
    memcpy(to, from, n);
#endif
}

static inline void gsp_ring__get_bytes(char *to, const char *from, size_t n)
{
#ifdef GSP_RING_BYTEWISE
    for (size_t i = 0; i < n; i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
#else
    memcpy(to, from, n);
#endif
}
