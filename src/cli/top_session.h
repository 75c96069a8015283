/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_session.h -- one run of gsprof top: what a live view of a process and the replay of a
 * recording have in common.
 *
 * Used by: cmd_top.c, top_live.c, top_replay.c.
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
    int64_t count; /* of the tables to print; 0: no number was given */
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

struct gsp_top_session {
    const struct gsp_parsed *parsed;
    const struct gsp_top_opts *opts;
    struct gsp_term term; /* stderr */
    bool is_printed;      /* tables on stdout instead of a screen */
    int64_t printed;      /* tables so far */
    char title[160];      /* safe for a terminal */
    struct gsp_profile *profile;
    struct gsp_top *top;
    struct gsp_ui ui;
    struct gsp_top_facts facts;
    struct gsp_top_rows rows;
    int64_t cost_ns; /* of making the last rows and drawing them */
    /* Live: */
    struct gsp_launch launch; /* pid 0 when attached to a process that ran already */
    pid_t pid;
    int64_t next_turn_ns;
    struct gsp_sample_record_stats stats;
    enum gsp_record_end end;
    int child_output; /* what the child has said, kept from the screen; -1: it is not kept */
    int64_t child_output_pos;
    /* Replay: */
    struct gsp_sample_iter iter;
    struct gsp_sample pending; /* the next one of iter */
    bool has_pending;
    bool is_sorted; /* samples by time */
    int64_t pos_ns; /* everything before it was added */
};

/* Set by a signal, or by whoever wants the end. */
extern volatile sig_atomic_t gsp_top_stop;

/* Signals end the run in order; a second one, or a crash, gives the terminal back and ends at
 * once.  child: passed on to, 0 for none. */
void gsp_top_catch_signals(void);
void gsp_top_set_child(pid_t child);

/* The screen, unless tables are printed.  Fails with NOTSUP. */
GSP_MUST_CHECK int gsp_top_screen_begin(struct gsp_top_session *session, struct gsp_err *err);

/* Hands the keys that were pressed to the view; true when there were any. */
bool gsp_top_hear_keys(struct gsp_top_session *session, int timeout_ms);
/* Makes the rows anew and draws. */
GSP_MUST_CHECK int gsp_top_show(struct gsp_top_session *session, struct gsp_err *err);
/* The table, as text or JSON, on stdout. */
GSP_MUST_CHECK int gsp_top_print(struct gsp_top_session *session, struct gsp_err *err);

/* The ways; each gives the exit status. */
int gsp_top_run_live(struct gsp_top_session *session);
int gsp_top_run_replay(struct gsp_top_session *session);
/* The same of --mem: who holds the memory. */
int gsp_top_run_mem(struct gsp_top_session *session);

/* Tells the failure and gives its exit status. */
int gsp_top_fail(const struct gsp_top_session *session, const struct gsp_err *err);
