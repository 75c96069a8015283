/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attr.h -- short names for compiler attributes.
 *
 * Threads: no state.
 */
#pragma once

#define GSP_MUST_CHECK   __attribute__((warn_unused_result))
#define GSP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define GSP_UNUSED       __attribute__((unused))
#define GSP_COLD         __attribute__((cold))
#define gsp_likely(x)    __builtin_expect(!!(x), 1)
#define gsp_unlikely(x)  __builtin_expect(!!(x), 0)

/* Clang's thread-safety analysis; see base/lock.h. Before version 20 clang cannot name a member of
 * the same struct in C: GSP_GUARDED_BY then only informs the reader. */
#ifdef __clang__
#define GSP_TSA(x) __attribute__((x))
#else
#define GSP_TSA(x)
#endif
#define GSP_CAPABILITY(name) GSP_TSA(capability(name))
#define GSP_ACQUIRE(...)     GSP_TSA(acquire_capability(__VA_ARGS__))
#define GSP_RELEASE(...)     GSP_TSA(release_capability(__VA_ARGS__))
#define GSP_REQUIRES(...)    GSP_TSA(requires_capability(__VA_ARGS__))
#define GSP_EXCLUDES(...)    GSP_TSA(locks_excluded(__VA_ARGS__))
#define GSP_ASSERT_HELD(...) GSP_TSA(assert_capability(__VA_ARGS__))
#define GSP_NO_ANALYSIS      GSP_TSA(no_thread_safety_analysis)
#define GSP_GUARDED_BY(lock)

/* Whether this is a build with ASan or TSan, which use much more memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GSP_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GSP_IS_SANITIZED 1
#endif
#endif
#ifndef GSP_IS_SANITIZED
#define GSP_IS_SANITIZED 0
#endif

/* The number of elements of an array (not of a pointer). */
#define GSP_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Ignores the result of a call that must be checked; state the reason beside it. A cast to void
 * does not silence the compilers. */
#define gsp_ignore(call)                                                                           \
    do {                                                                                           \
        if (call) {                                                                                \
        }                                                                                          \
    } while (0)
