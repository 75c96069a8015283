/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assert.h -- checks of our own invariants, in sanitizer builds.
 *
 * Never for bytes from outside, and never in agent/, which lives in another program.
 *
 * Threads: no state.
 */
#pragma once

/* Ends the process with a message if the condition is false. Other builds do not evaluate it. */
#ifdef GSP_ASSERTS
#include <assert.h>
#define gsp_assert(condition) assert(condition)
#else
#define gsp_assert(condition) ((void)sizeof(condition))
#endif
