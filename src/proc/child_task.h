/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart.h -- something slow done in a process of its own, whose answer is a small struct.
 *
 * Visits to several processes run at once this way: one that does not answer holds up no other.
 * They change the environment and the user id while they work, so threads will not do.
 *
 * Used by: cli/ (mem record, top --mem, inject, eject).
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"

/* Answers are written at once, or not at all. */
#define GSP_APART_BYTES_MAX 4096U

struct gsp_apart {
    pid_t child; /* 0: nothing is under way */
    int fd;
};

enum gsp_apart_state {
    GSP_APART_RUNS,
    GSP_APART_DONE,
    GSP_APART_LOST, /* ended without an answer */
};

/* Has work fill the answer, of so many bytes and zeroed, in a process of its own.  Fails with IO.
 */
GSP_MUST_CHECK int gsp_apart_start(struct gsp_apart *apart, void (*work)(void *user, void *answer),
                                   void *user, size_t bytes, struct gsp_err *err);
/* The answer if it is there, or comes within so many milliseconds (-1: however long that takes). */
enum gsp_apart_state gsp_apart_wait(struct gsp_apart *apart, void *answer, size_t bytes,
                                    int timeout_ms);
