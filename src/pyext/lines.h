/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h -- how often lines of Python run and how long they take.
 *
 * Gets:    calls, lines and returns, as they happen.
 * Gives:   hits and time of each line.  A line's time is from its begin to that of the next line
 *          of the same frame: what it calls is within.
 * Used by: lines_type.c.  Code objects and frames are addresses here, never looked into.
 * Threads: each has a stack of its own.  The tables are guarded by the GIL, or by a lock and
 *          atomic sums in an interpreter that has none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gsp_line {
    uint64_t hits;
    int64_t ns;
};

/* The lines of one code object; never freed while the process lives. */
struct gsp_code_lines {
    void *code;   /* with a reference */
    int first;    /* number of the first line */
    size_t count; /* of lines; 0: none of them is wanted */
    struct gsp_line at[];
};

/* From now on lines count; stacks begin anew. */
void gsp_pyext__lines_start(void);
/* What is open in this thread ends here. */
void gsp_pyext__lines_stop(void);
bool gsp_pyext__lines_is_on(void);

/* NULL: not seen yet. */
struct gsp_code_lines *gsp_pyext__lines_find(const void *code);
/* Takes a reference to code.  NULL when there is no memory: the reference is still the caller's. */
struct gsp_code_lines *gsp_pyext__lines_add(void *code, int first, size_t count);

/* frame tells calls of the same code apart; the code itself where frames are not known. */
void gsp_pyext__lines_call(const void *frame, struct gsp_code_lines *lines);
/* False when the frame is not the innermost that was called: then gsp_pyext__lines_enter(). */
bool gsp_pyext__lines_line(const void *frame, int line);
void gsp_pyext__lines_enter(const void *frame, struct gsp_code_lines *lines, int line);
void gsp_pyext__lines_return(const void *frame);

/* Calls fn for each code object, until it returns false. */
void gsp_pyext__lines_each(bool (*fn)(void *user, const struct gsp_code_lines *lines), void *user);
