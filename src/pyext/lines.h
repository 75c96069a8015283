/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h -- hits and times of lines of Python.
 *
 * Reads:   events: calls, lines and returns. Code objects and frames are only addresses here.
 * Gives:   hits and time of each line. A line's time lasts until the next line of the same frame
 *          begins, and includes its calls.
 * Threads: each thread has its own stack. The GIL protects the tables; without a GIL, a lock and
 *          atomic sums do.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gsp_pyext_line {
    uint64_t hits;
    int64_t ns;
};

/* The lines of one code object; never freed while the process lives. */
struct gsp_pyext_code_lines {
    void *code;   /* with a reference */
    int first;    /* number of the first line */
    size_t count; /* of lines; 0: the code is not measured */
    struct gsp_pyext_line at[];
};

/* Starts counting, with empty stacks. */
void gsp_pyext__lines_start(void);
/* Stops counting; ends the open lines of this thread. */
void gsp_pyext__lines_stop(void);
bool gsp_pyext__lines_is_on(void);

/* Returns NULL for a new code object. */
struct gsp_pyext_code_lines *gsp_pyext__lines_find(const void *code);
/* Steals a reference to code. Returns NULL if out of memory; the reference is then still the
 * caller's. */
struct gsp_pyext_code_lines *gsp_pyext__lines_add(void *code, int first, size_t count);

/* frame distinguishes calls of the same code; it is the code itself if frames are not known. */
void gsp_pyext__lines_call(const void *frame, struct gsp_pyext_code_lines *lines);
/* Returns false if the frame is not the innermost one; then call gsp_pyext__lines_enter(). */
bool gsp_pyext__lines_line(const void *frame, int line);
void gsp_pyext__lines_enter(const void *frame, struct gsp_pyext_code_lines *lines, int line);
void gsp_pyext__lines_return(const void *frame);

/* Calls fn for each code object until it returns false. */
void gsp_pyext__lines_each(bool (*fn)(void *user, const struct gsp_pyext_code_lines *lines),
                           void *user);
