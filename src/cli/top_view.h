/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_view.h -- the state of `gsprof top`, shared by the live view of a process and the replay
 * of a recording.
 *
 * Threads: one owner.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "cli/options.h"
#include "cli/sampling.h"
#include "cli/term.h"
#include "model/tree.h"
#include "record/launch.h"
#include "sample/record.h"
#include "tui/lines.h"
#include "tui/ui.h"

struct gsp_top_opts {
    int64_t pid;
    const char *input;
    const char *from;
    struct gsp_sampling sampling;
    int64_t delay_ns;
    int64_t count; /* of tables to print; 0: no limit */
    int64_t rows;
    const char *sort;
    const char *filter;
    bool once;
    bool json;
    bool mem;
    bool tree;
    bool lines;
    struct gsp_view_options view;
};

struct gsp_top_view {
    const struct gsp_parsed *parsed;
    const struct gsp_top_opts *opts;
    struct gsp_term term; /* stderr */
    bool is_printed;      /* print tables on stdout instead of a screen */
    int64_t printed;      /* tables printed so far */
    char title[160];      /* safe for a terminal */
    struct gsp_profile *profile;
    struct gsp_top *top;
    struct gsp_ui ui;
    struct gsp_top_facts facts;
    struct gsp_top_rows rows;
    int64_t cost_ns; /* of computing and drawing the last rows */
    /* Live: */
    struct gsp_launch launch; /* pid 0: attached to a running process */
    pid_t pid;
    int64_t next_turn_ns;
    struct gsp_sample_record_stats stats;
    enum gsp_record_end end;
    int child_output; /* file with the child's output, hidden while the screen is open; or -1 */
    int64_t child_output_pos;
    /* Replay: */
    struct gsp_sample_iter iter;
    struct gsp_sample pending; /* the next sample of iter */
    bool has_pending;
    bool is_sorted; /* the samples are sorted by time */
    int64_t pos_ns; /* all samples before it have been added */
};

/* Set by signals and by the views to end the command. */
extern volatile sig_atomic_t gsp_top_stop;

/* Installs handlers: the first signal ends the command cleanly; a second signal, or a crash,
 * restores the terminal and exits immediately. */
void gsp_cli__top_catch_signals(void);
/* Sets the child that signals are forwarded to; 0: none. */
void gsp_cli__top_set_child(pid_t child);

/* Opens the screen unless tables are printed. Fails with NOTSUP. */
GSP_MUST_CHECK int gsp_cli__top_screen_begin(struct gsp_top_view *view, struct gsp_err *err);

/* Handles pressed keys; returns whether there were any. */
bool gsp_cli__top_handle_keys(struct gsp_top_view *view, int timeout_ms);
/* Computes and draws the rows. */
GSP_MUST_CHECK int gsp_cli__top_draw(struct gsp_top_view *view, struct gsp_err *err);
/* Prints the table on stdout as text or JSON. */
GSP_MUST_CHECK int gsp_cli__top_print(struct gsp_top_view *view, struct gsp_err *err);

/* The modes of the command; each returns the exit status. */
int gsp_cli__top_run_live(struct gsp_top_view *view);
int gsp_cli__top_run_replay(struct gsp_top_view *view);
int gsp_cli__top_run_mem(struct gsp_top_view *view);

/* Prints the error and returns its exit status. */
int gsp_cli__top_fail(const struct gsp_top_view *view, const struct gsp_err *err);
