/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h -- what is known of a run, a session or a profile, as one document in memory.
 *
 * Every form of a report is made of it: docs/formats/report.md is the same as JSON.  Values that
 * are not known are NaN, GSP_NULL_I64 or an empty text, never 0.
 *
 * Reads:   the folder of a run (store/run.h), a session's file, a profile in any readable format,
 *          or tables that somebody else has opened.
 * Gives:   plain structs, whole and in the order of time: whoever writes them thins them out.
 * Used by: contrast/, cli/ (report, run, compare).
 * Threads: one owner; many readers once it is made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"
#include "store/store.h"

/* Above so many samples, those of one thread, stack and stretch of time are one. */
#define GSP_DIGEST_SAMPLES_MAX 200000U
/* Durations that are kept of one module and stage, evenly over time. */
#define GSP_DIGEST_VALUES_MAX  2000U

enum gsp_digest_kind { GSP_DIGEST_RUN, GSP_DIGEST_SESSION, GSP_DIGEST_PROFILE };
enum gsp_digest_tone { GSP_TONE_PLAIN, GSP_TONE_GOOD, GSP_TONE_WARN, GSP_TONE_BAD };

/* All texts are borrowed from the digest; bytes of a target may be anything. */
struct gsp_digest_fact {
    struct gsp_sv name;
    struct gsp_sv value;
};

struct gsp_digest_card {
    const char *id;
    const char *title;
    struct gsp_sv value;
    struct gsp_sv detail; /* "" for none */
    enum gsp_digest_tone tone;
};

/* Of the values that are numbers. */
struct gsp_digest_stats {
    uint64_t count;
    double mean;
    double std; /* NaN below two values */
    double min;
    double max;
};

/* One line of a chart: count points in the order of time, v NaN where a value is not known. */
struct gsp_digest_series {
    struct gsp_sv name;
    int64_t pid;  /* GSP_NULL_I64: of no one process */
    int64_t rank; /* GSP_NULL_I64: not known */
    double *t;    /* seconds since start_ns */
    double *v;
    size_t count;
    /* Of all values that there were.  is_binned: the points are the extremes of stretches of
     * time, so their mean is not the mean. */
    struct gsp_digest_stats stats;
    bool is_binned;
};

/* id is the same in every run: "cpu", "rss", "machine_cpu", "machine_memory", "gpu_util",
 * "gpu_memory", "gpu_power", "gpu_temperature", "power", "pressure", "disk", "network", "steps";
 * in a session the name of its metric. */
struct gsp_digest_chart {
    struct gsp_sv id;
    struct gsp_sv title;
    struct gsp_sv unit; /* "%", "bytes", "s", "W", ...; "" when it has none */
    const char *help;
    struct gsp_digest_series *series;
    size_t series_count;
};

struct gsp_digest_process {
    int64_t pid;
    struct gsp_sv name; /* "python3 train.py" */
};

struct gsp_digest_thread {
    int64_t pid;
    int64_t tid;
    struct gsp_sv name;
    int64_t rank; /* GSP_NULL_I64: not known */
};

struct gsp_digest_frame {
    struct gsp_sv func;
    struct gsp_sv file;
    uint32_t line;     /* of a function its first; 0: not known */
    uint32_t hot_line; /* of a function the heaviest: of its own weight, else by what it calls */
    enum gsp_frame_kind kind;
};

struct gsp_digest_node {
    int32_t parent; /* an earlier index; -1 */
    uint32_t frame; /* index */
    uint32_t line;  /* the heaviest: where it was, or what it called from; 0: not known */
    double own;     /* in the unit of the stacks */
    double total;   /* with everything below */
    double own_cpu; /* of own: the thread was running; NaN when that is not known */
};

struct gsp_digest_sample {
    double t; /* seconds since start_ns; the end of the time that it stands for */
    double weight;
    uint32_t thread; /* index */
    int32_t node;    /* -1: no frame was there */
    bool on_cpu;
};

/* A function of all stacks; one that calls itself counts once in total. */
struct gsp_digest_function {
    struct gsp_sv func;
    struct gsp_sv file;
    uint32_t line;
    enum gsp_frame_kind kind;
    double own;
    double total;
    double own_cpu; /* NaN: not known */
};

struct gsp_digest_stacks {
    const char *unit; /* "s", "samples" or "bytes" */
    struct gsp_digest_process *processes;
    size_t process_count;
    struct gsp_digest_thread *threads;
    size_t thread_count;
    struct gsp_digest_frame *frames;
    size_t frame_count;
    struct gsp_digest_node *nodes; /* parents before children */
    size_t node_count;
    struct gsp_digest_sample *samples; /* in the order of time, when has_times */
    size_t sample_count;
    struct gsp_digest_function *functions; /* by own, the largest first */
    size_t function_count;
    uint64_t seen;    /* samples before they were merged */
    double total;     /* of all weights */
    double total_cpu; /* of those that ran; NaN when that is not known */
    double no_frame;  /* of those without a frame */
    bool has_times;   /* without, samples are sums of a thread and a stack */
};

struct gsp_digest_module {
    struct gsp_sv module;
    struct gsp_sv class_name; /* "" when not known */
    struct gsp_sv stage;
    uint64_t calls;
    double total_s;
    double share; /* of the time of its stage's outermost calls; NaN when not known */
    double mean_s, p50_s, p90_s, p99_s, max_s;
    double *values; /* durations, at most GSP_DIGEST_VALUES_MAX; NULL unless they were asked for */
    size_t value_count;
};

struct gsp_digest_step {
    int64_t step;
    int64_t rank; /* GSP_NULL_I64: not known */
    int64_t pid;
    double t; /* of its begin */
    double duration_s;
};

struct gsp_digest_span {
    uint32_t name; /* index into span_names */
    uint32_t depth;
    int64_t pid;
    int64_t tid; /* GSP_NULL_I64: not known */
    double t;
    double duration_s; /* 0: an event */
    bool is_data;      /* its phase is data, and it is not within another such span */
};

/* A rank of a distributed job. */
struct gsp_digest_rank {
    int64_t rank;
    double collective_s; /* spent in collectives: the rank that the others wait for has least */
};

struct gsp_digest_site {
    uint32_t *frames; /* into the digest's site_frames, the outermost first */
    size_t frame_count;
    double bytes;
    double count;
};

struct gsp_digest_memory {
    double peak_rss_bytes;     /* the highest sum over the processes of a run; NaN */
    double growth_bytes_per_s; /* a trend that is not noise; 0: there is none; NaN: not known */
    struct gsp_digest_site *sites;
    size_t site_count;
};

struct gsp_digest_loss {
    struct gsp_sv what;
    struct gsp_sv why;
    uint64_t count;
};

/* CPU time of the threads that have one name. */
struct gsp_digest_named_cpu {
    struct gsp_sv name; /* "" when not known */
    size_t threads;
    double cpu_s;
};

/* Threads that never ran Python, such as the workers of a library. */
struct gsp_digest_native {
    size_t threads;
    double cpu_s;
    struct gsp_digest_named_cpu top[3]; /* the largest first */
    size_t top_count;
};

struct gsp_digest {
    enum gsp_digest_kind kind;
    struct gsp_sv title;
    struct gsp_sv name;    /* of the run or the file */
    struct gsp_sv path;    /* where it is, as it was given; "" when it is nowhere */
    struct gsp_sv host;    /* "" when not known */
    struct gsp_sv command; /* "" when not known */
    int64_t start_ns;      /* CLOCK_REALTIME; 0 when not known */
    double duration_s;     /* NaN */
    double period_s;       /* between two samples; NaN */
    int64_t exit_status;   /* of the program, 128 + n if signal n ended it; GSP_NULL_I64 */
    bool failed_early;     /* it failed before it did anything: the verdict says that alone */
    struct gsp_digest_fact *facts;
    size_t fact_count;
    struct gsp_digest_card *cards;
    size_t card_count;
    struct gsp_sv *verdict; /* lines, facts first */
    size_t verdict_count;
    struct gsp_digest_chart *charts;
    size_t chart_count;
    struct gsp_digest_stacks stacks;
    struct gsp_digest_native native;
    struct gsp_digest_module *modules; /* by total_s, the largest first */
    size_t module_count;
    struct gsp_digest_step *steps; /* by t */
    size_t step_count;
    uint64_t steps_traced; /* of them; known where torch.adaptive had fewer traced, else 0 */
    struct gsp_digest_rank *ranks; /* by number; those that took part in collectives */
    size_t rank_count;
    struct gsp_sv *span_names;
    size_t span_name_count;
    struct gsp_digest_span *spans; /* by t */
    size_t span_count;
    struct gsp_digest_frame *site_frames;
    size_t site_frame_count;
    struct gsp_digest_memory memory;
    struct gsp_digest_loss *losses;
    size_t loss_count;
    bool has_losses;             /* the source counts losses: no rows means that nothing was lost */
    struct gsp_profile *profile; /* what the stacks are of; NULL when there are none */
    struct gsp_digest_text *texts; /* blocks that the texts lie in */
    bool no_memory;                /* something is missing from it: it is not handed out */
};

struct gsp_digest_opts {
    const char *from;    /* format of a profile, by name; NULL: find out */
    bool lines;          /* lines of a function are functions of their own */
    bool values;         /* durations of each module's calls, for comparisons */
    const char *engine;  /* the SQL engine's file; NULL: looked for */
    const char *command; /* command line, where the tables do not have it; NULL: not known */
};

/* What a path is, by a look at it: a folder is a run. */
enum gsp_digest_kind gsp_digest_kind_of(const char *path);

/* Reads whatever the path is; "-" is stdin.  On success *out is the caller's, who frees it with
 * gsp_digest_free(); on failure it is NULL.  opts may be NULL.  Fails with NOFILE (also a folder
 * that has no recording), FORMAT, EMPTY (nothing at all is in it), NOTSUP, LIMIT, NOMEM or IO. */
GSP_MUST_CHECK int gsp_digest_open_path(const char *path, const struct gsp_digest_opts *opts,
                                        struct gsp_digest **out, struct gsp_err *err);
/* The same of a profile, which is kept also on failure. */
GSP_MUST_CHECK int gsp_digest_open_profile(struct gsp_profile *profile, const char *name,
                                           const struct gsp_digest_opts *opts,
                                           struct gsp_digest **out, struct gsp_err *err);
/* The same of tables: a locked store, of a run or a process.  profile (may be NULL: made of the
 * tables) is kept also on failure. */
GSP_MUST_CHECK int gsp_digest_open_store(struct gsp_store *store, struct gsp_profile *profile,
                                         const char *name, const struct gsp_digest_opts *opts,
                                         struct gsp_digest **out, struct gsp_err *err);
void gsp_digest_free(struct gsp_digest *digest); /* NULL does nothing */

/* A chart by its id; NULL.  Borrowed. */
const struct gsp_digest_chart *gsp_digest_chart_named(const struct gsp_digest *digest,
                                                      struct gsp_sv id);
const struct gsp_digest_chart *gsp_digest_chart_find(const struct gsp_digest *digest,
                                                     const char *id);
