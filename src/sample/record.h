/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h -- samples the stacks of a process, or of a tree of processes, on a steady clock.
 *
 * Reads:   the targets, through py/ and proc/.
 * Gives:   interned stacks into a profile, and each sample to a sink.
 * Threads: one owner; runs in the calling thread.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/profile.h"
#include "sample/native_stats.h"
#include "sample/select.h"
#include "sample/thread_cpu.h"

#define GSP_RATE_MIN_HZ 0.01
#define GSP_RATE_MAX_HZ 1e6

struct gsp_record_opts {
    pid_t pid;
    double rate_hz;      /* GSP_RATE_MIN_HZ to GSP_RATE_MAX_HZ */
    int64_t duration_ns; /* 0: until the target exits or *stop is set */
    bool subprocesses;   /* also child processes, including later ones */
    bool gil_only;       /* only the thread that holds the GIL */
    bool idle;           /* also threads that are not running */
    bool blocking;       /* stop the threads while they are read */
    bool jitter;         /* spread the ticks at random within their period */
    bool is_child;       /* pid is our own child, which may not be a Python process yet */
    bool native;         /* also native frames */
    enum gsp_capture_policy capture; /* how native stacks may be captured */
    struct gsp_select_opts select;   /* which threads and frames */
    int64_t poll_ns;                 /* interval between calls of sink->poll; 0: 250 ms */
};

enum gsp_record_end {
    GSP_RECORD_DURATION, /* duration_ns has passed */
    GSP_RECORD_EXITED,   /* every target has exited */
    GSP_RECORD_STOPPED,  /* *stop was set */
};

/* Running totals, for progress and to explain why there are no samples. */
struct gsp_sample_record_stats {
    int64_t elapsed_ns;
    uint64_t ticks;
    uint64_t samples;      /* passed to the sink */
    uint64_t idle_left;    /* stacks skipped because the thread was not running */
    uint64_t no_gil_left;  /* stacks skipped because the thread did not hold the GIL */
    uint64_t threads_left; /* stacks skipped because the thread was not selected */
    uint64_t frames_left;  /* stacks skipped because none of their frames was selected */
    uint32_t processes;    /* Python processes being sampled now */
    uint32_t threads;      /* of them */
    struct gsp_losses losses;
    struct gsp_native_stats native;
    struct gsp_native_cpu native_cpu; /* of threads that are not Python's */
};

struct gsp_record_sink {
    void *user;
    /* Receives one sample; all its ids are in the profile. A failure ends the recording. */
    int (*sample)(void *user, const struct gsp_sample *sample, struct gsp_err *err);
    /* A thread or process of the profile has changed. */
    void (*thread_changed)(void *user, uint32_t thread);
    void (*process_changed)(void *user, uint32_t process);
    /* Called every poll_ns, even if ticks are further apart, to flush and to show progress. A
     * failure ends the recording. */
    int (*poll)(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err);
};

struct gsp_record; /* opaque */

/* Attaches. profile and sink are borrowed until gsp_sample_record_free(). Fills the profile's meta
 * (start, period, unit). Unless is_child is set, fails if the target cannot be sampled: NOPROC,
 * PERM, NOTPY, VERSION, FORMAT, NOMEM. */
GSP_MUST_CHECK int gsp_sample_record_new(const struct gsp_record_opts *opts,
                                         struct gsp_profile *profile,
                                         const struct gsp_record_sink *sink,
                                         struct gsp_record **out, struct gsp_err *err);
void gsp_sample_record_free(struct gsp_record *rec); /* NULL does nothing */

/* Samples until the recording ends; *end is the reason. Checks *stop at every tick. Fills the
 * rest of the profile's meta (duration, ticks, losses). Fails with the error of the sink. With
 * is_child, also fails if the child never was a Python process (NOTPY, VERSION, PERM: the error
 * of the last attempt). */
GSP_MUST_CHECK int gsp_sample_record_run(struct gsp_record *rec, const volatile sig_atomic_t *stop,
                                         enum gsp_record_end *end, struct gsp_err *err);

const struct gsp_sample_record_stats *
gsp_sample_record_stats(const struct gsp_record *rec); /* borrowed */
/* The time for which a thread (index in the profile) held the GIL, even when it did not run. */
int64_t gsp_sample_record_gil_ns(const struct gsp_record *rec, uint32_t thread);
/* Excludes one of our own children from the tree, and does not reap it; 0: none. */
void gsp_sample_record_set_helper(struct gsp_record *rec, pid_t pid);
