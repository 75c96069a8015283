/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h -- whether a text can be a regular expression of Python, as far as its brackets,
 * escapes and repetitions tell.
 *
 * For whoever sets one from outside of an interpreter.  It refuses nothing that Python takes; some
 * of what Python refuses (names of groups, ranges) it lets through.
 *
 * Used by: control.c.
 * Threads: any.  Signal-safe: yes.
 */
#pragma once

#include "base/str.h"

/* NULL when nothing is wrong with it; else what, as the end of "is a regular expression, but". */
const char *gsp_pattern_fault(struct gsp_sv text);
