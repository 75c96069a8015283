/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h -- what a command is and which options it takes: one table, one parser.
 *
 * Help, completions and the pages of docs/cli are made from the same tables, so they cannot
 * disagree with what the parser accepts.
 *
 * Used by: every file of cli/.
 * Threads: tables never change; a struct gsp_parsed belongs to its caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* What stands behind an option, and so the type of the member its value goes to. */
enum gsp_opt_kind {
    GSP_OPT_FLAG,     /* bool */
    GSP_OPT_COUNT,    /* int: one more each time it is given */
    GSP_OPT_PID,      /* int64_t, more than 0; 0 stays when not given */
    GSP_OPT_INT,      /* int64_t within min..max */
    GSP_OPT_REAL,     /* double within min..max */
    GSP_OPT_DURATION, /* int64_t nanoseconds, more than 0 */
    GSP_OPT_TEXT,     /* const char *, borrowed from argv */
    GSP_OPT_FILE,     /* the same; completed as a file name */
    GSP_OPT_CHOICE,   /* the same; one of choices */
    GSP_OPT_LIST,     /* struct gsp_opt_list: one more each time it is given */
};

#define GSP_OPT_LIST_MAX 64U

struct gsp_opt_list {
    const char *at[GSP_OPT_LIST_MAX]; /* borrowed from argv */
    size_t count;
};

struct gsp_opt {
    const char *name;     /* long name without dashes */
    size_t offset;        /* of the member in the command's struct */
    const char *arg;      /* what help calls the value: "PID"; NULL for flags */
    const char *fallback; /* the value when not given, as typed; NULL: zero */
    const char *help;     /* one or more sentences */
    const char *instead;  /* the option that its letter may have been meant for, or NULL */
    double min;           /* of INT and REAL */
    double max;
    const char *(*choice)(size_t i); /* the i-th value of a CHOICE, NULL past the last */
    enum gsp_opt_kind kind;
    char letter;   /* short name, or 0 */
    bool advanced; /* only in the long help */
};

struct gsp_example {
    const char *line; /* "gsprof record -p 4242": a test parses it */
    const char *what;
};

struct gsp_parsed;

/* One subcommand.  run gives the exit status of the program. */
struct gsp_command {
    const char *name;     /* one word; "mem-record" is typed "mem record" as well */
    const char *spoken;   /* how help writes it; NULL: as its name */
    const char *summary;  /* one line, no full stop */
    const char *synopsis; /* what follows the name in the usage line */
    const char *about;    /* paragraphs split by \n */
    const struct gsp_opt *opts;
    size_t opt_count;
    size_t opts_size; /* of the struct that the offsets point into */
    const struct gsp_example *examples;
    size_t example_count;
    size_t args_min;
    size_t args_max;
    const char *(*arg_choice)(size_t i); /* values of a positional argument, NULL: files */
    bool takes_program;                  /* the first word that is no option starts a program; a
                                            number is the option --pid, if there is one */
    bool takes_sql; /* a word that begins with "--" and has white space in it may be an argument */
    bool takes_endpoint; /* "gsprof ENDPOINT NAME ..." means the same as "gsprof NAME ENDPOINT ..."
                          */
    bool hidden;
    bool lesser; /* the overview has its name, but no line of its own */
    int (*run)(const struct gsp_parsed *parsed);
};

/* Options that every command takes, before or after its name. */
struct gsp_globals {
    bool help;      /* -h */
    bool help_long; /* --help */
    bool version;
    bool quiet;
    int verbose;
    int64_t ready_fd;  /* see cli/events.h; -1: none */
    const char *color; /* auto, always, never */
};

struct gsp_parsed {
    const struct gsp_command *command; /* NULL until its name was seen */
    struct gsp_globals globals;
    void *opts;  /* the command's struct */
    char **args; /* positional arguments or the program, borrowed from argv; NULL at the end */
    size_t arg_count;
    char **argv;                /* the whole command line, borrowed */
    const struct gsp_opt *list; /* --option=help was given: its values are wanted */
    char suggestion[160];       /* after a failure: what may have been meant, or "" */
};

extern const struct gsp_opt gsp_global_opts[];
extern const size_t gsp_global_opt_count;

/* All commands, in the order of help; the hidden ones last. */
extern const struct gsp_command *const gsp_commands[];
extern const size_t gsp_command_count;

const struct gsp_command *gsp_command_find(const char *name); /* NULL if there is none */
const char *gsp_command_spoken(const struct gsp_command *command);

/* Parses a whole command line, argv[0] included; "ENDPOINT query" is put in order first, in argv
 * itself.  A missing command is no failure
 * (parsed->command is NULL).  Whatever the outcome, free with gsp_parsed_free().
 * Fails with USAGE or NOMEM. */
GSP_MUST_CHECK int gsp_cli_parse(int argc, char **argv, struct gsp_parsed *parsed,
                                 struct gsp_err *err);
void gsp_parsed_free(struct gsp_parsed *parsed);
