/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h -- checks brackets, escapes and repetitions of a Python regular expression, without an
 * interpreter.
 *
 * It accepts everything that Python accepts, and some patterns that Python rejects (names of
 * groups, ranges).
 *
 * Threads: no state.
 * Signal-safe: yes.
 */
#pragma once

#include "base/str.h"

/* Returns a clause that describes the error, or NULL if it finds none. */
const char *gsp_wire__pattern_check(struct gsp_sv text);
