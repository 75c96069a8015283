/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common.h -- option rows and helpers that several commands share.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "cli/options.h"
#include "export/format.h"

/* Rows for the option tables of several commands. The first argument is the type of the command's
 * struct. */
#define GSP_OPT_THREADS(type)                                                                      \
    GSP_OPT_SWITCH(type, view.threads, "threads", 't', false, "Show each thread separately.")
#define GSP_OPT_FUNCTION(type)                                                                     \
    GSP_OPT_SWITCH(type, view.by_function, "function", 'F', false, "Merge all lines of a function.")
#define GSP_OPT_NOLINENO(type)                                                                     \
    GSP_OPT_SWITCH(type, view.no_lines, "nolineno", 0, true, "Do not show line numbers.")
#define GSP_OPT_FULL_FILENAMES(type)                                                               \
    GSP_OPT_SWITCH(type, view.full_filenames, "full-filenames", 0, true, "Show full file paths.")
#define GSP_OPT_FORCE(type)                                                                        \
    GSP_OPT_SWITCH(type, force, "force", 0, false, "Overwrite existing output.")
#define GSP_OPT_SUBPROCESSES_AT(type, member)                                                      \
    GSP_OPT_SWITCH(type, member, "subprocesses", 's', false,                                       \
                   "Include child processes, also those started later.")
#define GSP_OPT_SUBPROCESSES(type) GSP_OPT_SUBPROCESSES_AT(type, subprocesses)
#define GSP_OPT_BLOCKING_AT(type, member)                                                          \
    GSP_OPT_SWITCH(type, member, "blocking", 0, true,                                              \
                   "Stop threads while reading them, for exact stacks. "                           \
                   "By default gsprof never stops the target.")
#define GSP_OPT_BLOCKING(type) GSP_OPT_BLOCKING_AT(type, blocking)
#define GSP_OPT_NONBLOCKING_AT(type, member)                                                       \
    GSP_OPT_SWITCH(type, member, "nonblocking", 0, true,                                           \
                   "Accepted for compatibility; this is the default.")
/* short_name: 'n', or 0 where that letter means something else. */
#define GSP_OPT_NATIVE_AT(type, member, short_name)                                                \
    GSP_OPT_SWITCH(type, member, "native", short_name, false,                                      \
                   "Include native frames (C, C++, Rust). "                                        \
                   "Stops threads if perf events are not permitted.")
#define GSP_OPT_NATIVE(type) GSP_OPT_NATIVE_AT(type, native, 'n')

#define GSP_OPT_PID_ROW(type)                                                                      \
    {                                                                                              \
        .name = "pid", .letter = 'p', .kind = GSP_OPT_PID, .offset = offsetof(type, pid),          \
        .arg = "PID", .help = "Process to attach to."                                              \
    }
#define GSP_OPT_OUTPUT(type, text)                                                                 \
    {                                                                                              \
        .name = "output", .letter = 'o', .kind = GSP_OPT_FILE, .offset = offsetof(type, output),   \
        .arg = "FILE", .help = (text)                                                              \
    }
#define GSP_OPT_INPUT(type)                                                                        \
    {                                                                                              \
        .name = "input", .letter = 'i', .kind = GSP_OPT_FILE, .offset = offsetof(type, input),     \
        .arg = "FILE", .help = "Profile to read, in any supported format; - is stdin."             \
    }
#define GSP_OPT_FROM(type)                                                                         \
    {                                                                                              \
        .name = "from", .kind = GSP_OPT_CHOICE, .offset = offsetof(type, from), .arg = "NAME",     \
        .choice = gsp_cli__from_choice, .advanced = true, .help = "Input format.",                 \
        .default_text = "from the extension or content"                                            \
    }
#define GSP_OPT_FORMAT(type)                                                                       \
    {                                                                                              \
        .name = "format", .letter = 'f', .kind = GSP_OPT_CHOICE, .offset = offsetof(type, format), \
        .arg = "NAME", .choice = gsp_cli__format_choice,                                           \
        .help = "Output format; --format=help lists them.", .default_text = "from the extension"   \
    }

extern const struct gsp_command gsp_cmd_run;
extern const struct gsp_command gsp_cmd_record;
extern const struct gsp_command gsp_cmd_top;
extern const struct gsp_command gsp_cmd_dump;
extern const struct gsp_command gsp_cmd_flamegraph;
extern const struct gsp_command gsp_cmd_convert;
extern const struct gsp_command gsp_cmd_report;
extern const struct gsp_command gsp_cmd_compare;
extern const struct gsp_command gsp_cmd_query;
extern const struct gsp_command gsp_cmd_tables;
extern const struct gsp_command gsp_cmd_serve;
extern const struct gsp_command gsp_cmd_query_worker;
extern const struct gsp_command gsp_cmd_list;
extern const struct gsp_command gsp_cmd_follow;
extern const struct gsp_command gsp_cmd_backtrace;
extern const struct gsp_command gsp_cmd_http_profile;
extern const struct gsp_command gsp_cmd_http_stop;
extern const struct gsp_command gsp_cmd_http_status;
extern const struct gsp_command gsp_cmd_http_sessions;
extern const struct gsp_command gsp_cmd_http_login;
extern const struct gsp_command gsp_cmd_config;
extern const struct gsp_command gsp_cmd_stat;
extern const struct gsp_command gsp_cmd_mem_record;
extern const struct gsp_command gsp_cmd_mem_report;
extern const struct gsp_command gsp_cmd_inject;
extern const struct gsp_command gsp_cmd_eject;
extern const struct gsp_command gsp_cmd_eval;
extern const struct gsp_command gsp_cmd_doctor;
extern const struct gsp_command gsp_cmd_completions;
extern const struct gsp_command gsp_cmd_help;
extern const struct gsp_command gsp_cmd_docs;

/* Names of the formats that can be written. */
const char *gsp_cli__format_choice(size_t i);
/* Names of the formats that can be read. */
const char *gsp_cli__from_choice(size_t i);

/* Prints a usage error and how to get help; returns the exit status. */
int gsp_cli__misuse(const struct gsp_parsed *parsed, const char *fmt, ...) GSP_PRINTF(2, 3);

/* Raises the soft limit on open files to the hard limit. */
void gsp_cli__raise_descriptors(void);
