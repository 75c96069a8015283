/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h -- the tables that describe commands and their options, and the parser of the command
 * line.
 *
 * Help, completions and the pages of docs/cli are generated from the same tables, so they always
 * match what the parser accepts.
 *
 * Threads: the tables are constant; a struct gsp_parsed belongs to its caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* The kind of an option's value, which determines the type of the member that stores it. */
enum gsp_opt_kind {
    GSP_OPT_FLAG,     /* bool */
    GSP_OPT_COUNT,    /* int: the number of times the option is given */
    GSP_OPT_PID,      /* int64_t > 0; 0 if not given */
    GSP_OPT_INT,      /* int64_t within min..max */
    GSP_OPT_REAL,     /* double within min..max */
    GSP_OPT_DURATION, /* int64_t nanoseconds > 0 */
    GSP_OPT_TEXT,     /* const char *, borrowed from argv */
    GSP_OPT_FILE,     /* const char *, borrowed from argv; completed as a file name */
    GSP_OPT_CHOICE,   /* const char *, one of choice() */
    GSP_OPT_LIST,     /* struct gsp_opt_list: one entry per occurrence */
};

#define GSP_OPT_LIST_MAX 64U

struct gsp_opt_list {
    const char *at[GSP_OPT_LIST_MAX]; /* borrowed from argv */
    size_t count;
};

struct gsp_opt {
    const char *name;         /* long name without dashes */
    size_t offset;            /* of the member in the command's struct */
    const char *arg;          /* the value's name in help: "PID"; NULL for flags */
    const char *fallback;     /* the default, as it would be typed; NULL: zero */
    const char *default_text; /* the default as help shows it; NULL: fallback */
    const char *help;         /* sentences; help inserts the default at the end of the first */
    const char *instead;      /* the option the user may have meant by this letter, or NULL */
    double min;               /* of INT and REAL */
    double max;
    const char *(*choice)(size_t i); /* the i-th value of a CHOICE, NULL past the last */
    enum gsp_opt_kind kind;
    char letter;   /* short name, or 0 */
    bool advanced; /* shown only by --help */
};

/* A row for a flag. type is the struct that the offset refers to. */
#define GSP_OPT_SWITCH(type, member, long_name, short_name, is_advanced, text)                     \
    {                                                                                              \
        .name = (long_name), .letter = (short_name), .kind = GSP_OPT_FLAG,                         \
        .offset = offsetof(type, member), .help = (text), .advanced = (is_advanced)                \
    }

struct gsp_example {
    const char *line; /* "gsprof record -p 4242"; a test parses it */
    const char *what;
};

struct gsp_parsed;

/* One subcommand. run() returns the exit status of the program. */
struct gsp_command {
    const char *name;     /* one word; "mem-record" can also be typed "mem record" */
    const char *title;    /* the name as help shows it; NULL: name */
    const char *summary;  /* one line, imperative, no full stop */
    const char *synopsis; /* the usage line after the name */
    const char *about;    /* paragraphs separated by \n */
    const struct gsp_opt *opts;
    size_t opt_count;
    size_t opts_size; /* of the struct that the offsets refer to */
    const struct gsp_example *examples;
    size_t example_count;
    size_t args_min;
    size_t args_max;
    const char *(*arg_choice)(size_t i); /* values of a positional argument, NULL: files */
    bool takes_program;  /* the first word that is not an option starts a command line; a number
                            is the value of --pid, if the command has that option */
    bool takes_sql;      /* a word that starts with "--" and contains white space is an argument */
    bool takes_endpoint; /* "gsprof ENDPOINT NAME ..." means "gsprof NAME ENDPOINT ..." */
    bool hidden;
    bool lesser; /* the overview lists only its name, without the summary */
    int (*run)(const struct gsp_parsed *parsed);
};

/* Members of struct gsp_command. type is the struct that the offsets of the options refer to. */
#define GSP_COMMAND_OPTS(table, type)                                                              \
    .opts = (table), .opt_count = GSP_COUNT(table), .opts_size = sizeof(type)
#define GSP_COMMAND_EXAMPLES(table) .examples = (table), .example_count = GSP_COUNT(table)

/* Options of every command, accepted before or after its name. */
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
    const struct gsp_command *command; /* NULL if the command line names none */
    struct gsp_globals globals;
    void *opts;  /* the command's struct */
    char **args; /* positional arguments or the program, borrowed from argv; NULL-terminated */
    size_t arg_count;
    char **argv;                /* the whole command line, borrowed */
    const struct gsp_opt *list; /* set by --option=help: list this option's values */
    char suggestion[160];       /* after a failure: what the user may have meant, or "" */
};

extern const struct gsp_opt gsp_global_opts[];
extern const size_t gsp_global_opt_count;

/* All commands in the order of the overview; hidden commands last. */
extern const struct gsp_command *const gsp_commands[];
extern const size_t gsp_command_count;

const struct gsp_command *gsp_cli__command_find(const char *name); /* NULL if it does not exist */
const char *gsp_cli__command_title(const struct gsp_command *command);

/* Parses a whole command line, including argv[0]. May swap words of argv ("ENDPOINT query" becomes
 * "query ENDPOINT"). A missing command is not an error: parsed->command is then NULL. The caller
 * frees *parsed with gsp_cli__parsed_free(), also after a failure. Fails with USAGE or NOMEM. */
GSP_MUST_CHECK int gsp_cli__parse(int argc, char **argv, struct gsp_parsed *parsed,
                                  struct gsp_err *err);
void gsp_cli__parsed_free(struct gsp_parsed *parsed);
