/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document.h -- the content of a report as one document in memory: of a run, a session, a profile
 * or a memory recording.
 *
 * All forms of a report are written from it; docs/formats/report.md describes the JSON form.
 * Unknown values are NaN, GSP_NULL_I64 or an empty text, never 0.
 *
 * Reads:   the folder of a run (store/run.h), a session file, a profile in any supported format, or
 *          the tables of a store.
 * Gives:   plain structs with all data, ordered by time; the writers reduce them.
 * Threads: one owner; many readers once it is complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "model/profile.h"
#include "store/store.h"

/* A document with more samples merges those of the same thread, stack and time interval. */
#define GSP_REPORT_SAMPLES_MAX 200000U
/* Durations kept for each module and stage, spread evenly over time. */
#define GSP_REPORT_VALUES_MAX  2000U

enum gsp_report_kind { GSP_REPORT_RUN, GSP_REPORT_SESSION, GSP_REPORT_PROFILE, GSP_REPORT_MEMORY };
enum gsp_report_tone {
    GSP_REPORT_TONE_PLAIN,
    GSP_REPORT_TONE_GOOD,
    GSP_REPORT_TONE_WARN,
    GSP_REPORT_TONE_BAD
};

/* All texts are borrowed from the document. Texts of the target may be any bytes. */
struct gsp_report_fact {
    struct gsp_sv name;
    struct gsp_sv value;
};

struct gsp_report_card {
    const char *id;
    const char *title;
    struct gsp_sv value;
    struct gsp_sv detail; /* may be "" */
    enum gsp_report_tone tone;
};

/* Statistics of the known values. */
struct gsp_report_stats {
    uint64_t count;
    double mean;
    double std; /* NaN for fewer than two values */
    double min;
    double max;
};

/* One line of a chart: points ordered by time; v is NaN if a value is unknown. */
struct gsp_report_series {
    struct gsp_sv name;
    int64_t pid;  /* GSP_NULL_I64: not of a single process */
    int64_t rank; /* GSP_NULL_I64: unknown */
    double *t;    /* seconds since start_ns */
    double *v;
    size_t count;
    /* Of all recorded values. If is_binned is set, the points are the extremes of time intervals,
     * and their mean is not the mean of the values. */
    struct gsp_report_stats stats;
    bool is_binned;
};

/* The id is the same in every run: "cpu", "rss", "machine_cpu", "machine_memory", "gpu_util",
 * "gpu_memory", "gpu_power", "gpu_temperature", "power", "pressure", "disk", "network", "steps".
 * Other charts of a session have the name of the metric. */
struct gsp_report_chart {
    struct gsp_sv id;
    struct gsp_sv title;
    struct gsp_sv unit; /* "%", "bytes", "s", "W", ...; "" without a unit */
    const char *help;
    struct gsp_report_series *series;
    size_t series_count;
};

struct gsp_report_process {
    int64_t pid;
    struct gsp_sv name; /* "python3 train.py" */
};

struct gsp_report_thread {
    int64_t pid;
    int64_t tid;
    struct gsp_sv name;
    int64_t rank; /* GSP_NULL_I64: unknown */
};

struct gsp_report_frame {
    struct gsp_sv func;
    struct gsp_sv file;
    uint32_t line;     /* first line of the function, or the line that ran; 0: unknown */
    uint32_t hot_line; /* the line with the most own weight, else with the most total weight */
    enum gsp_frame_kind kind;
};

struct gsp_report_node {
    int32_t parent; /* an earlier index, or -1 */
    uint32_t frame; /* index */
    uint32_t line;  /* the line with the most total weight; 0: unknown */
    double own;     /* in the unit of the stacks */
    double total;   /* includes all descendants */
    double own_cpu; /* part of own in which the thread ran; NaN if unknown */
};

struct gsp_report_sample {
    double t; /* seconds since start_ns: the end of the interval it represents */
    double weight;
    uint32_t thread; /* index */
    int32_t node;    /* -1: the stack is empty */
    bool on_cpu;
};

/* A function, summed over all stacks. Recursive calls count once in total. */
struct gsp_report_function {
    struct gsp_sv func;
    struct gsp_sv file;
    uint32_t line;
    enum gsp_frame_kind kind;
    double own;
    double total;
    double own_cpu; /* NaN: unknown */
};

struct gsp_report_stacks {
    const char *unit; /* "s", "samples" or "bytes" */
    struct gsp_report_process *processes;
    size_t process_count;
    struct gsp_report_thread *threads;
    size_t thread_count;
    struct gsp_report_frame *frames;
    size_t frame_count;
    struct gsp_report_node *nodes; /* parents before children */
    size_t node_count;
    struct gsp_report_sample *samples; /* ordered by time if has_times is set */
    size_t sample_count;
    struct gsp_report_function *functions; /* the largest own first */
    size_t function_count;
    uint64_t seen;    /* samples before merging */
    double total;     /* of all weights */
    double total_cpu; /* of samples in which the thread ran; NaN if unknown */
    double no_frame;  /* of samples with an empty stack */
    bool has_times;   /* if not set, a sample is the sum of a thread and a stack */
};

struct gsp_report_module {
    struct gsp_sv module;
    struct gsp_sv class_name; /* "" if unknown */
    struct gsp_sv stage;
    uint64_t calls;
    double total_s;
    double share; /* of the time of the traced steps; NaN if unknown */
    double mean_s, p50_s, p90_s, p99_s, max_s;
    double *values; /* durations, at most GSP_REPORT_VALUES_MAX; NULL unless requested */
    size_t value_count;
};

struct gsp_report_step {
    int64_t step;
    int64_t rank; /* GSP_NULL_I64: unknown */
    int64_t pid;
    double t; /* its start */
    double duration_s;
};

struct gsp_report_span {
    uint32_t name; /* index into span_names */
    uint32_t depth;
    int64_t pid;
    int64_t tid; /* GSP_NULL_I64: unknown */
    double t;
    double duration_s; /* 0: an event */
    bool is_data;      /* its phase is data, and no enclosing span is of that phase */
};

/* A rank of a distributed job. */
struct gsp_report_rank {
    int64_t rank;
    double collective_s; /* time in collectives; the slowest rank, for which the others wait, has
                            the least */
};

struct gsp_report_site {
    uint32_t *frames; /* indexes into site_frames, the outermost first */
    size_t frame_count;
    double bytes;
    double count;
};

struct gsp_report_memory {
    double peak_rss_bytes;     /* the highest sum over all processes; NaN if unknown */
    double growth_bytes_per_s; /* 0 without a significant trend; NaN if unknown */
    struct gsp_report_site *sites;
    size_t site_count;
};

struct gsp_report_loss {
    struct gsp_sv what;
    struct gsp_sv why;
    uint64_t count;
};

/* CPU time of all threads with the same name. */
struct gsp_report_named_cpu {
    struct gsp_sv name; /* "" if unknown */
    size_t threads;
    double cpu_s;
};

/* Threads that never ran Python, such as the workers of a library. */
struct gsp_report_native {
    size_t threads;
    double cpu_s;
    struct gsp_report_named_cpu top[3]; /* the largest first */
    size_t top_count;
};

struct gsp_report {
    struct gsp_sv title;
    struct gsp_sv name;    /* of the run or file */
    struct gsp_sv path;    /* as the caller passed it; may be "" */
    struct gsp_sv host;    /* "" if unknown */
    struct gsp_sv command; /* "" if unknown */
    int64_t start_ns;      /* CLOCK_REALTIME; 0 if unknown */
    double duration_s;     /* NaN if unknown */
    double period_s;       /* between two samples; NaN if unknown */
    int64_t exit_status;   /* of the program, or 128 + signal; GSP_NULL_I64 if unknown */
    struct gsp_report_fact *facts;
    size_t fact_count;
    struct gsp_report_card *cards;
    size_t card_count;
    struct gsp_sv *verdict; /* lines, findings first */
    size_t verdict_count;
    struct gsp_report_chart *charts;
    size_t chart_count;
    struct gsp_report_stacks stacks;
    struct gsp_report_native native;
    struct gsp_report_module *modules; /* the largest total_s first */
    size_t module_count;
    struct gsp_report_step *steps; /* ordered by t */
    size_t step_count;
    uint64_t steps_traced; /* steps with traced modules; 0 unless torch.adaptive reduced them */
    struct gsp_report_rank *ranks; /* ranks that took part in collectives, by number */
    size_t rank_count;
    struct gsp_sv *span_names;
    size_t span_name_count;
    struct gsp_report_span *spans; /* ordered by t */
    size_t span_count;
    struct gsp_report_frame *site_frames;
    size_t site_frame_count;
    struct gsp_report_memory memory;
    struct gsp_report_loss *losses;
    size_t loss_count;
    struct gsp_profile *profile;         /* the source of the stacks; NULL without stacks */
    struct gsp_report_text_block *texts; /* memory of the texts */
    enum gsp_report_kind kind;
    bool failed_early;     /* the program failed during startup; the verdict has no other line */
    bool verdict_has_next; /* the last line is the command to run next */
    bool has_losses;       /* the source counts losses: no rows means that nothing was lost */
    bool no_memory;        /* the document is incomplete and must not be used */
};

struct gsp_report_open_opts {
    const char *from;    /* name of the profile's format; NULL: detect it */
    bool lines;          /* treat each line of a function as a function */
    bool values;         /* keep the durations of module calls, for comparisons */
    const char *engine;  /* path of the SQL engine; NULL: search for it */
    const char *command; /* command line, if the tables do not have it; may be NULL */
};

/* The kind of a file, from its first bytes; a folder is a run. */
enum gsp_report_kind gsp_report_kind_of(const char *path);

/* Opens a run, session or profile; "-" is stdin. On success the caller frees *out with
 * gsp_report_free(); on failure it is NULL. opts may be NULL. Fails with NOFILE (also if a folder
 * has no recording), FORMAT, EMPTY (nothing was recorded), NOTSUP, LIMIT, NOMEM or IO. */
GSP_MUST_CHECK int gsp_report_open_path(const char *path, const struct gsp_report_open_opts *opts,
                                        struct gsp_report **out, struct gsp_err *err);
/* Builds the document of a profile and takes ownership of it, also on failure. */
GSP_MUST_CHECK int gsp_report__open_profile(struct gsp_profile *profile, const char *name,
                                            const struct gsp_report_open_opts *opts,
                                            struct gsp_report **out, struct gsp_err *err);
/* Builds the document of a run or a process from a locked store. Takes ownership of the profile,
 * also on failure; if it is NULL, the profile is read from the tables. */
GSP_MUST_CHECK int gsp_report_open_store(struct gsp_store *store, struct gsp_profile *profile,
                                         const char *name, const struct gsp_report_open_opts *opts,
                                         struct gsp_report **out, struct gsp_err *err);
void gsp_report_free(struct gsp_report *report); /* NULL does nothing */

/* Returns the chart with this id, borrowed; NULL if it does not exist. */
const struct gsp_report_chart *gsp_report_chart_named(const struct gsp_report *report,
                                                      struct gsp_sv id);
const struct gsp_report_chart *gsp_report_chart_find(const struct gsp_report *report,
                                                     const char *id);
