/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assert.h -- checks of gsprof's own invariants, in sanitizer builds.
 *
 * Do not use it for external input, or in agent/, which runs inside the target.
 *
 * Threads: no state.
 */
#pragma once

/* Aborts with a message if the condition is false. Other builds do not evaluate the condition. */
#ifdef GSP_ASSERTS
#include <assert.h>
#define gsp_assert(condition) assert(condition)
#else
#define gsp_assert(condition) ((void)sizeof(condition))
#endif
