/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile.h -- a profile in memory: recorders fill it, exporters and reports read it.
 *
 * Strings, frames and stacks are interned once; everything else refers to them by 32-bit ids.
 * A stack is a node of a prefix tree (the stack of its caller + one frame), so equal stacks have
 * equal ids and a stack costs one node.
 * Samples are kept as delta-coded blocks of about 5 bytes each, or not at all (keep_samples false).
 * The sum per thread and stack is always kept.
 * Formats without single samples add sums; then the profile has no samples to iterate.
 *
 * Threads: one owner; many readers once nothing writes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

/* No string, no frame, the empty stack: id 0 of each kind is reserved. */
#define GSP_NONE                0U
/* A thread or process that does not exist: their ids start at 0. */
#define GSP_NO_INDEX            UINT32_MAX

/* Maximum number of ids of one kind; more fails with LIMIT. */
#define GSP_PROFILE_IDS_MAX     (1U << 26)
/* The same for processes and threads. */
#define GSP_PROFILE_THREADS_MAX (1U << 20)
/* Maximum length of a string; more fails with LIMIT. */
#define GSP_STRING_BYTES_MAX    (1U << 24)
/* Maximum number of frames of one stack. */
#define GSP_STACK_DEPTH_MAX     4096U

enum gsp_frame_kind {
    GSP_FRAME_PYTHON,
    GSP_FRAME_NATIVE,
    GSP_FRAME_KERNEL,
    GSP_FRAME_MARK,    /* made by gsprof, e.g. "(more frames)" */
    GSP_FRAME_BRIDGED, /* native, without unwind rules: its caller was found by searching */
};

struct gsp_frame {
    uint32_t name;       /* string: qualified function name */
    uint32_t file;       /* string: path in the target, or GSP_NONE */
    uint32_t line;       /* 0 when unknown */
    uint32_t first_line; /* of the function; 0 when unknown */
    enum gsp_frame_kind kind;
};

struct gsp_process {
    int32_t pid;
    int32_t ppid;     /* -1 when unknown */
    int32_t ns_pid;   /* in its own pid namespace; 0: the same as ours, or unknown */
    uint32_t name;    /* string: "python3 train.py", "rank 0: python3 train.py" */
    uint32_t cmdline; /* string: arguments joined by spaces, or GSP_NONE */
    uint32_t version; /* string: "3.11.7", or GSP_NONE */
};

struct gsp_thread {
    uint32_t process;   /* index */
    uint64_t os_id;     /* kernel thread id; 0 when unknown */
    uint64_t python_id; /* threading.get_ident(); 0 when unknown */
    uint32_t name;      /* string, or GSP_NONE */
    bool is_main;
};

enum gsp_unit {
    GSP_UNIT_NS,    /* weights are time */
    GSP_UNIT_COUNT, /* weights are sample counts (imported, rate unknown) */
    GSP_UNIT_BYTES,
};

#define GSP_SAMPLE_ON_CPU  1U /* the thread was running or runnable */
#define GSP_SAMPLE_HAS_GIL 2U

struct gsp_sample {
    int64_t time_ns; /* since meta.start_ns; the end of the time that the sample stands for */
    int64_t weight;  /* in meta.unit */
    uint32_t thread; /* index */
    uint32_t stack;  /* id of the leaf node; GSP_NONE: no Python frame */
    uint32_t flags;  /* GSP_SAMPLE_* */
};

/* The sum of the samples of one thread with one stack. */
struct gsp_total {
    uint32_t thread;
    uint32_t stack;
    uint64_t count;
    int64_t weight;
};

/* Why samples are missing. */
struct gsp_losses {
    uint64_t torn;    /* the stack kept changing while it was read */
    uint64_t late;    /* ticks whose time had passed */
    uint64_t failed;  /* memory that could not be read or was invalid */
    uint64_t gone;    /* processes that exited before they could be sampled */
    uint64_t skipped; /* processes that are not Python */
    /* Not lost: stacks whose native and Python frames could not be merged. */
    uint64_t unmerged;
};

struct gsp_model_profile_meta {
    int64_t start_ns;    /* CLOCK_REALTIME of time 0; 0 when unknown */
    int64_t duration_ns; /* 0 when unknown */
    int64_t period_ns;   /* between two ticks; 0 when unknown */
    enum gsp_unit unit;
    uint64_t ticks; /* number of ticks */
    struct gsp_losses losses;
    bool truncated; /* read from a file whose end is missing */
};

struct gsp_profile; /* opaque */

GSP_MUST_CHECK int gsp_model_profile_new(bool keep_samples, struct gsp_profile **out,
                                         struct gsp_err *err);
void gsp_model_profile_free(struct gsp_profile *profile); /* NULL does nothing */

/* Borrowed, for reading and writing, until gsp_model_profile_free(). */
struct gsp_model_profile_meta *gsp_model_profile_meta(struct gsp_profile *profile);
const struct gsp_model_profile_meta *gsp_model_profile_meta_get(const struct gsp_profile *profile);

/* Intern: *out is the id of an equal entry if one exists, otherwise a new id. An empty text is
 * GSP_NONE. Fail with NOMEM, LIMIT, or FORMAT for unknown ids. */
GSP_MUST_CHECK int gsp_model_profile_string(struct gsp_profile *profile, struct gsp_sv text,
                                            uint32_t *out, struct gsp_err *err);
GSP_MUST_CHECK int gsp_model_profile_frame(struct gsp_profile *profile,
                                           const struct gsp_frame *frame, uint32_t *out,
                                           struct gsp_err *err);
/* The stack in which caller calls frame (GSP_NONE: frame is the root). Fails with LIMIT beyond
 * GSP_STACK_DEPTH_MAX. */
GSP_MUST_CHECK int gsp_model_profile_stack(struct gsp_profile *profile, uint32_t caller,
                                           uint32_t frame, uint32_t *out, struct gsp_err *err);
/* Returns GSP_NONE if the profile has no such stack. */
uint32_t gsp_model_profile_stack_find(struct gsp_profile *profile, uint32_t caller, uint32_t frame);
/* Add an entry without a search for an equal one. *out is the index. Fail with NOMEM, LIMIT, or
 * FORMAT for unknown ids. */
GSP_MUST_CHECK int gsp_model_profile_process(struct gsp_profile *profile,
                                             const struct gsp_process *process, uint32_t *out,
                                             struct gsp_err *err);
GSP_MUST_CHECK int gsp_model_profile_thread(struct gsp_profile *profile,
                                            const struct gsp_thread *thread, uint32_t *out,
                                            struct gsp_err *err);

/* Replace a thread or process, for example when its name becomes known. Do nothing if the index
 * or an id does not exist. */
void gsp_model_profile_set_thread(struct gsp_profile *profile, uint32_t i,
                                  const struct gsp_thread *thread);
void gsp_model_profile_set_process(struct gsp_profile *profile, uint32_t i,
                                   const struct gsp_process *process);

/* Removes the lines from a complete profile: each frame keeps only the first line of its
 * function (first), or none. Ids do not change; some frames are equal afterwards. */
void gsp_model_profile_merge_lines(struct gsp_profile *profile, bool first);

/* Adds one sample. Times must not decrease within a thread, and are clamped if they do. Fails
 * with FORMAT for unknown ids, and with NOMEM. */
GSP_MUST_CHECK int gsp_model_profile_add(struct gsp_profile *profile,
                                         const struct gsp_sample *sample, struct gsp_err *err);

/* Adds a sum without single samples (an imported format). Fails like gsp_model_profile_add(). */
GSP_MUST_CHECK int gsp_model_profile_add_total(struct gsp_profile *profile,
                                               const struct gsp_total *total, struct gsp_err *err);

/* Counts. Ids of strings, frames and stacks run from 1 to the count. */
size_t gsp_model_profile_string_count(const struct gsp_profile *profile);
size_t gsp_model_profile_string_bytes(const struct gsp_profile *profile);
size_t gsp_model_profile_frame_count(const struct gsp_profile *profile);
size_t gsp_model_profile_stack_count(const struct gsp_profile *profile);
size_t gsp_model_profile_process_count(const struct gsp_profile *profile);
size_t gsp_model_profile_thread_count(const struct gsp_profile *profile);
uint64_t
gsp_model_profile_sample_count(const struct gsp_profile *profile); /* the sum of all counts */
/* Returns whether the iterator covers everything: samples were kept, and no sums were added. */
bool gsp_model_profile_has_samples(const struct gsp_profile *profile);

/* Borrowed until the next addition. An unknown id gives an empty string or NULL. */
struct gsp_sv gsp_model_profile_string_at(const struct gsp_profile *profile, uint32_t id);
const struct gsp_frame *gsp_model_profile_frame_at(const struct gsp_profile *profile, uint32_t id);
const struct gsp_process *gsp_model_profile_process_at(const struct gsp_profile *profile,
                                                       uint32_t i);
const struct gsp_thread *gsp_model_profile_thread_at(const struct gsp_profile *profile, uint32_t i);

uint32_t gsp_model_profile_stack_caller(const struct gsp_profile *profile, uint32_t stack);
uint32_t gsp_model_profile_stack_frame(const struct gsp_profile *profile, uint32_t stack);
uint32_t gsp_model_profile_stack_depth(const struct gsp_profile *profile, uint32_t stack);
/* Writes frame ids, root first, at most cap of them (those nearest the root). Returns their
 * number. */
size_t gsp_model_profile_stack_frames(const struct gsp_profile *profile, uint32_t stack,
                                      uint32_t *frames, size_t cap);

/* Iterates over the samples in the order they were added. */
struct gsp_sample_iter {
    const struct gsp_profile *profile;
    size_t block;
    size_t pos;
    int64_t step_ns; /* the last time difference that was not 0 */
    struct gsp_sample last;
};
void gsp_model_sample_iter_init(struct gsp_sample_iter *iter, const struct gsp_profile *profile);
bool gsp_model_sample_iter_next(struct gsp_sample_iter *iter, struct gsp_sample *out);

/* The sums: one row per (thread, stack) with samples, in order of first appearance. */
size_t gsp_model_profile_total_count(const struct gsp_profile *profile);
const struct gsp_total *gsp_model_profile_total_at(const struct gsp_profile *profile, size_t i);
