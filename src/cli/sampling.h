/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampling.h -- the sampling options of record and top: which threads and frames, how often, and
 * how to capture them.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "cli/common.h"
#include "cli/options.h"
#include "sample/record.h"

struct gsp_sampling {
    double rate_hz;
    int64_t duration_ns;
    bool subprocesses;
    bool gil;
    bool idle;
    bool wall;
    bool cpu;
    bool blocking;
    bool nonblocking;
    bool native;
    bool jitter;
    const char *native_capture; /* NULL: auto */
    struct gsp_select_opts select;
};

#define GSP_OPT_REGEX(type, member, long_name, text)                                               \
    {                                                                                              \
        .name = (long_name), .kind = GSP_OPT_TEXT, .offset = offsetof(type, member),               \
        .arg = "REGEX", .help = (text), .advanced = true                                           \
    }

/* Rows of an option table; type is the command's struct, with a member struct gsp_sampling
 * sampling. */
#define GSP_OPTS_WHEN(type, duration_text, duration_default)                                       \
    {.name = "rate",                                                                               \
     .letter = 'r',                                                                                \
     .kind = GSP_OPT_REAL,                                                                         \
     .offset = offsetof(type, sampling.rate_hz),                                                   \
     .arg = "HZ",                                                                                  \
     .fallback = "100",                                                                            \
     .min = GSP_RATE_MIN_HZ,                                                                       \
     .max = GSP_RATE_MAX_HZ,                                                                       \
     .help = "Samples per second."},                                                               \
    {                                                                                              \
        .name = "duration", .letter = 'd', .kind = GSP_OPT_DURATION,                               \
        .offset = offsetof(type, sampling.duration_ns), .arg = "TIME", .help = (duration_text),    \
        .default_text = (duration_default)                                                         \
    }

#define GSP_OPTS_TARGETS(type, gil_text)                                                           \
    GSP_OPT_SUBPROCESSES_AT(type, sampling.subprocesses),                                          \
        GSP_OPT_SWITCH(type, sampling.gil, "gil", 'g', false, gil_text),                           \
        GSP_OPT_SWITCH(type, sampling.idle, "idle", 'i', false,                                    \
                       "Include waiting threads: wall time instead of CPU time."),                 \
        GSP_OPT_SWITCH(type, sampling.wall, "wall", 0, true, "Same as --idle."),                   \
        GSP_OPT_SWITCH(type, sampling.cpu, "cpu", 0, true,                                         \
                       "Only running threads: CPU time. This is the default."),                    \
        GSP_OPT_REGEX(type, sampling.select.include, "include",                                    \
                      "Keep only frames whose function or file matches."),                         \
        GSP_OPT_REGEX(type, sampling.select.exclude, "exclude",                                    \
                      "Drop frames whose function or file matches."),                              \
        GSP_OPT_REGEX(type, sampling.select.thread, "thread",                                      \
                      "Keep only threads whose name matches."),                                    \
        GSP_OPT_REGEX(type, sampling.select.below, "below",                                        \
                      "Keep only frames whose function or file matches and what they call; "       \
                      "drop their callers."),                                                      \
    {                                                                                              \
        .name = "file-names", .kind = GSP_OPT_FILE,                                                \
        .offset = offsetof(type, sampling.select.names), .arg = "FILE",                            \
        .help = "Rename source files in the output. Each line of FILE has a path, a tab and "      \
                "the new name.",                                                                   \
        .advanced = true                                                                           \
    }

/* native_letter: 'n', or 0 where that letter means something else. */
#define GSP_OPTS_HOW(type, native_letter)                                                          \
    GSP_OPT_BLOCKING_AT(type, sampling.blocking),                                                  \
        GSP_OPT_NONBLOCKING_AT(type, sampling.nonblocking),                                        \
        GSP_OPT_NATIVE_AT(type, sampling.native, native_letter),                                   \
        {.name = "native-capture",                                                                 \
         .kind = GSP_OPT_CHOICE,                                                                   \
         .offset = offsetof(type, sampling.native_capture),                                        \
         .arg = "WAY",                                                                             \
         .fallback = "auto",                                                                       \
         .choice = gsp_cli__capture_choice,                                                        \
         .advanced = true,                                                                         \
         .help = "How to capture native stacks. auto stops a thread only as a last resort, "       \
                 "stop always stops it, perf never does."},                                        \
        GSP_OPT_SWITCH(type, sampling.jitter, "jitter", 0, true,                                   \
                       "Randomize the sampling interval, for programs with periodic behaviour."),  \
        GSP_OPT_SWITCH(type, sampling.select.import_frames, "import-frames", 0, true,              \
                       "Show the frames of the import system instead of \"(import)\".")

/* The i-th value of --native-capture; NULL past the last. */
const char *gsp_cli__capture_choice(size_t i);

/* Fails with USAGE if options contradict each other or a regular expression is invalid. */
GSP_MUST_CHECK int gsp_cli__sampling_check(const struct gsp_sampling *sampling,
                                           struct gsp_err *err);

/* Writes the target's command line, safe for a terminal: args if given, else that of the process.
 * Leaves out unchanged if it is unknown. */
void gsp_cli__sampling_title(char *const *args, pid_t pid, char *out, size_t cap);

/* Converts the options for sample/; the strings are borrowed. Also raises the limit on open files,
 * which a tree of processes needs. */
struct gsp_record_opts gsp_cli__sampling_begin(const struct gsp_sampling *sampling, pid_t pid,
                                               bool is_child);
