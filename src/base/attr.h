/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attr.h -- names for what compilers can check.
 *
 * Threads: nothing here has state.
 */
#pragma once

#define GSP_MUST_CHECK   __attribute__((warn_unused_result))
#define GSP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define GSP_UNUSED       __attribute__((unused))
#define GSP_COLD         __attribute__((cold))
#define gsp_likely(x)    __builtin_expect(!!(x), 1)
#define gsp_unlikely(x)  __builtin_expect(!!(x), 0)

/* The number of elements of an array (not of a pointer). */
#define GSP_COUNT(a)     (sizeof(a) / sizeof((a)[0]))

/* For a call whose failure changes nothing, with the reason beside it: compilers do not take
 * a cast to void for an answer. */
#define gsp_ignore(call)                                                                           \
    do {                                                                                           \
        if (call) {                                                                                \
        }                                                                                          \
    } while (0)
