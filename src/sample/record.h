/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h -- samples the stacks of a process, or of a tree of processes, on a steady clock.
 *
 * Reads:   the targets, through py/ and proc/.
 * Gives:   interned stacks into a profile, and each sample to a sink.
 * Used by: cli/ (record).
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
    double rate_hz;                  /* GSP_RATE_MIN_HZ to GSP_RATE_MAX_HZ */
    int64_t duration_ns;             /* 0: until the target ends or stop is set */
    bool subprocesses;               /* children too, also those that start later */
    bool gil_only;                   /* only the thread that holds the GIL */
    bool idle;                       /* threads that are not running too */
    bool blocking;                   /* stop the threads while they are read */
    bool jitter;                     /* spread the ticks at random within their period */
    bool is_child;                   /* pid is our own child: it may not be a Python process yet */
    bool native;                     /* native frames too */
    enum gsp_capture_choice capture; /* how they may be had */
    struct gsp_select_opts select;   /* which threads and frames */
    int64_t beat_ns;                 /* between two beats of the sink; 0: about four a second */
};

enum gsp_record_end {
    GSP_RECORD_DURATION, /* the time was up */
    GSP_RECORD_EXITED,   /* every target ended */
    GSP_RECORD_STOPPED,  /* *stop was set */
};

/* Running figures, for progress and for saying why there are no samples. */
struct gsp_record_stats {
    int64_t elapsed_ns;
    uint64_t ticks;
    uint64_t samples;      /* handed to the sink */
    uint64_t idle_left;    /* stacks left out because the thread was not running */
    uint64_t no_gil_left;  /* stacks left out because the thread did not hold the GIL */
    uint64_t threads_left; /* stacks left out because the thread was not asked for */
    uint64_t frames_left;  /* stacks left out because no frame of them was asked for */
    uint32_t processes;    /* Python processes being sampled now */
    uint32_t threads;      /* of them */
    struct gsp_losses losses;
    struct gsp_native_stats native;
    struct gsp_native_cpu native_cpu; /* of threads that Python does not know */
};

struct gsp_record_sink {
    void *user;
    /* One sample; everything it refers to is in the profile.  A failure ends the recording. */
    int (*sample)(void *user, const struct gsp_sample *sample, struct gsp_err *err);
    /* Something became known of a thread or process that was added before. */
    void (*thread_changed)(void *user, uint32_t thread);
    void (*process_changed)(void *user, uint32_t process);
    /* As often as beat_ns says, also while ticks are far apart: flush, show progress.
     * A failure ends the recording. */
    int (*beat)(void *user, const struct gsp_record_stats *stats, struct gsp_err *err);
};

struct gsp_record; /* opaque */

/* Attaches.  profile and sink are borrowed until gsp_record_free(); the profile's meta (start,
 * period, unit) is filled.  Unless is_child, fails when the target cannot be sampled:
 * NOPROC, PERM, NOTPY, VERSION, FORMAT, NOMEM. */
GSP_MUST_CHECK int gsp_record_new(const struct gsp_record_opts *opts, struct gsp_profile *profile,
                                  const struct gsp_record_sink *sink, struct gsp_record **out,
                                  struct gsp_err *err);
void gsp_record_free(struct gsp_record *rec); /* NULL does nothing */

/* Samples until something ends it; *end says what.  *stop is looked at every tick.
 * The profile's meta (duration, ticks, losses) is true afterwards.
 * Fails with the sink's error; with is_child also when the child never was a Python process
 * (NOTPY, VERSION, PERM: the last attempt's error). */
GSP_MUST_CHECK int gsp_record_run(struct gsp_record *rec, const volatile sig_atomic_t *stop,
                                  enum gsp_record_end *end, struct gsp_err *err);

const struct gsp_record_stats *gsp_record_stats(const struct gsp_record *rec); /* borrowed */
/* How long a thread (index in the profile) was seen to hold the GIL, also while it did not run. */
int64_t gsp_record_gil_ns(const struct gsp_record *rec, uint32_t thread);
/* This child of ours is no part of the tree, and not to be waited for; 0: none. */
void gsp_record_set_helper(struct gsp_record *rec, pid_t pid);
