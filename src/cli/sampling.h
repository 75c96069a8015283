/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampling.h -- whom to sample, how often and what of it to keep: options that record and top
 * have in common.
 *
 * Used by: cmd_record.c, cmd_top.c, top_live.c.
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
    const char *native_capture; /* NULL: as the table says */
    struct gsp_select_opts select;
};

#define GSP_OPT_REGEX(type, member, long_name, text)                                               \
    {                                                                                              \
        .name = (long_name), .kind = GSP_OPT_TEXT, .offset = offsetof(type, member),               \
        .arg = "REGEX", .help = (text), .advanced = true                                           \
    }

/* Rows of an option table; type is the command's struct, which has a struct gsp_sampling called
 * sampling. */
#define GSP_OPTS_WHEN(type, duration_text)                                                         \
    {.name = "rate",                                                                               \
     .letter = 'r',                                                                                \
     .kind = GSP_OPT_REAL,                                                                         \
     .offset = offsetof(type, sampling.rate_hz),                                                   \
     .arg = "HZ",                                                                                  \
     .fallback = "100",                                                                            \
     .min = GSP_RATE_MIN_HZ,                                                                       \
     .max = GSP_RATE_MAX_HZ,                                                                       \
     .help = "Samples a second."},                                                                 \
    {                                                                                              \
        .name = "duration", .letter = 'd', .kind = GSP_OPT_DURATION,                               \
        .offset = offsetof(type, sampling.duration_ns), .arg = "TIME", .help = (duration_text)     \
    }

#define GSP_OPTS_WHOM(type, gil_text)                                                              \
    GSP_OPT_SUBPROCESSES_AT(type, sampling.subprocesses),                                          \
        GSP_OPT_SWITCH(type, sampling.gil, "gil", 'g', false, gil_text),                           \
        GSP_OPT_SWITCH(type, sampling.idle, "idle", 'i', false,                                    \
                       "Also threads that wait: wall time instead of CPU time."),                  \
        GSP_OPT_SWITCH(type, sampling.wall, "wall", 0, true, "The same as --idle."),               \
        GSP_OPT_SWITCH(type, sampling.cpu, "cpu", 0, true,                                         \
                       "Only threads that run: CPU time. This is the default."),                   \
        GSP_OPT_REGEX(type, sampling.select.include, "include",                                    \
                      "Only frames whose function or file matches."),                              \
        GSP_OPT_REGEX(type, sampling.select.exclude, "exclude",                                    \
                      "No frames whose function or file matches."),                                \
        GSP_OPT_REGEX(type, sampling.select.thread, "thread", "Only threads whose name matches."), \
        GSP_OPT_REGEX(type, sampling.select.below, "below",                                        \
                      "Only what functions that match call, or functions of files that match; "    \
                      "without their callers."),                                                   \
    {                                                                                              \
        .name = "file-names", .kind = GSP_OPT_FILE,                                                \
        .offset = offsetof(type, sampling.select.names), .arg = "FILE",                            \
        .help = "Other names for files of the program: lines of a path, a tab and the name.",      \
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
         .choice = gsp_sampling_capture,                                                           \
         .advanced = true,                                                                         \
         .help =                                                                                   \
             "How native frames are had: auto stops a thread only if nothing gentler will do, "    \
             "stop always does, perf never."},                                                     \
        GSP_OPT_SWITCH(type, sampling.jitter, "jitter", 0, true,                                   \
                       "Spread the ticks at random, for programs with a beat of their own."),      \
        GSP_OPT_SWITCH(type, sampling.select.import_frames, "import-frames", 0, true,              \
                       "Show the frames of the import system; else \"(import)\" stands for them.")

/* Names of the ways to have native frames; NULL past the last. */
const char *gsp_sampling_capture(size_t i);

/* USAGE when options contradict each other, or a text is no regular expression. */
GSP_MUST_CHECK int gsp_sampling_check(const struct gsp_sampling *sampling, struct gsp_err *err);

/* The same in the words of sample/; the texts are borrowed.  Whoever is asked for a tree gets as
 * many descriptors as the system allows. */
struct gsp_record_opts gsp_sampling_begin(const struct gsp_sampling *sampling, pid_t pid,
                                          bool is_child);
