/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/time.h"
#include "cli/common.h"
#include "cli/top_session.h"
#include "model/format.h"
#include "source/profile_file.h"
#include "tui/screen.h"
#include "tui/top.h"

#define KEY_WAIT_MS 50
#define DRAW_NS     (200 * GSP_NS_PER_MS)

static void rewind_samples(struct gsp_top_session *session)
{
    gsp_model_sample_iter_init(&session->iter, session->profile);
    session->has_pending = gsp_model_sample_iter_next(&session->iter, &session->pending);
}

/* How long the recording is, and whether its samples are in the order of time. */
static int64_t measure(struct gsp_top_session *session)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(session->profile);
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    int64_t last_ns = 0;
    session->is_sorted = true;
    gsp_model_sample_iter_init(&iter, session->profile);
    while (gsp_model_sample_iter_next(&iter, &sample))
        if (sample.time_ns < last_ns)
            session->is_sorted = false;
        else
            last_ns = sample.time_ns;
    /* A sample stands for the time up to the next one. */
    int64_t seen_ns = last_ns < INT64_MAX - meta->period_ns ? last_ns + meta->period_ns : last_ns;
    return meta->duration_ns > last_ns ? meta->duration_ns : seen_ns;
}

/* Adds the samples up to a time.  An imported file may have one thread after the other: then all
 * are looked at. */
static int feed(struct gsp_top_session *session, int64_t until_ns, struct gsp_err *err)
{
    int64_t from_ns = session->pos_ns;
    if (!session->is_sorted)
        rewind_samples(session);
    int rc = GSP_OK;
    while (rc == GSP_OK && session->has_pending) {
        const struct gsp_sample *sample = &session->pending;
        bool due = sample->time_ns < until_ns;
        if (!due && session->is_sorted)
            break;
        if (due && (session->is_sorted || sample->time_ns >= from_ns))
            rc = gsp_tui_top_add(session->top, sample, err);
        session->has_pending = gsp_model_sample_iter_next(&session->iter, &session->pending);
    }
    session->pos_ns = until_ns;
    gsp_tui_top_advance(session->top, until_ns);
    return rc;
}

/* Plays on, or from the beginning when the time lies behind; ends intervals on the way. */
static int play_to(struct gsp_top_session *session, int64_t to_ns, struct gsp_err *err)
{
    int64_t delay_ns = session->opts->delay_ns;
    int rc = GSP_OK;
    if (to_ns < session->pos_ns) {
        gsp_tui_top_seek(session->top, 0);
        session->pos_ns = 0;
        session->next_turn_ns = delay_ns;
        rewind_samples(session);
    }
    /* Of a long jump only the last two intervals are told apart. */
    if (to_ns - session->next_turn_ns > 2 * delay_ns) {
        rc = feed(session, (to_ns / delay_ns - 1) * delay_ns, err);
        gsp_tui_top_end_interval(session->top);
        session->next_turn_ns = session->pos_ns + delay_ns;
    }
    while (rc == GSP_OK && session->next_turn_ns <= to_ns) {
        rc = feed(session, session->next_turn_ns, err);
        gsp_tui_top_end_interval(session->top);
        session->next_turn_ns += delay_ns;
    }
    if (rc == GSP_OK)
        rc = feed(session, to_ns, err);
    session->facts.time_ns = to_ns;
    session->facts.is_ended = to_ns >= session->facts.duration_ns;
    gsp_tui_top_facts_count(session->top, &session->facts);
    return rc;
}

static int64_t clamp(int64_t ns, int64_t end_ns)
{
    return ns < 0 ? 0 : ns > end_ns ? end_ns : ns;
}

/* Where the keys want to be. */
static int64_t seek(struct gsp_ui *ui, int64_t pos_ns, int64_t end_ns)
{
    if (ui->wants_start)
        pos_ns = 0;
    if (ui->wants_end)
        pos_ns = end_ns;
    pos_ns = clamp(pos_ns + ui->seek_ns, end_ns);
    ui->wants_start = false;
    ui->wants_end = false;
    ui->seek_ns = 0;
    return pos_ns;
}

static int play(struct gsp_top_session *session, struct gsp_err *err)
{
    struct gsp_ui *ui = &session->ui;
    int64_t end_ns = session->facts.duration_ns;
    int64_t pos_ns = session->pos_ns;
    int64_t last_ns = gsp_now_ns();
    int64_t drawn_ns = 0;
    int rc = GSP_OK;
    while (rc == GSP_OK && !gsp_top_stop && !ui->wants_quit) {
        bool changed = gsp_top_hear_keys(session, KEY_WAIT_MS);
        int64_t now_ns = gsp_now_ns();
        if (ui->wants_reset)
            gsp_tui_top_reset(session->top);
        ui->wants_reset = false;
        bool plays = !ui->is_paused && pos_ns < end_ns;
        if (plays)
            pos_ns = clamp(pos_ns + now_ns - last_ns, end_ns);
        last_ns = now_ns;
        pos_ns = seek(ui, pos_ns, end_ns);
        if (pos_ns != session->pos_ns)
            rc = play_to(session, pos_ns, err);
        if (rc == GSP_OK && (changed || drawn_ns == 0 || (plays && now_ns - drawn_ns > DRAW_NS))) {
            rc = gsp_top_show(session, err);
            drawn_ns = now_ns;
        }
    }
    return rc;
}

/* Everything at once: for --once, and where nobody knows when samples were. */
static int show_whole(struct gsp_top_session *session, struct gsp_err *err)
{
    int64_t end_ns = session->facts.duration_ns;
    session->ui.query.whole = true;
    if (gsp_model_profile_has_samples(session->profile))
        return play_to(session, end_ns, err);
    gsp_tui_top_advance(session->top, end_ns);
    session->pos_ns = end_ns;
    int rc = gsp_tui_top_add_totals(session->top, err);
    session->facts.time_ns = end_ns;
    session->facts.is_ended = true;
    gsp_tui_top_facts_count(session->top, &session->facts);
    return rc;
}

static int print_all(struct gsp_top_session *session, struct gsp_err *err)
{
    const struct gsp_top_opts *opts = session->opts;
    if (opts->once || opts->count == 0 || !gsp_model_profile_has_samples(session->profile)) {
        int rc = show_whole(session, err);
        return rc < 0 ? rc : gsp_top_print(session, err);
    }
    int rc = GSP_OK;
    for (int64_t i = 0; rc == GSP_OK && i < opts->count && !gsp_top_stop; i++) {
        if (session->facts.is_ended)
            break;
        int64_t left_ns = session->facts.duration_ns - session->pos_ns;
        int64_t step_ns = opts->delay_ns < left_ns ? opts->delay_ns : left_ns;
        rc = play_to(session, session->pos_ns + step_ns, err);
        if (rc == GSP_OK)
            rc = gsp_top_print(session, err);
    }
    return rc;
}

static int load(struct gsp_top_session *session, struct gsp_err *err)
{
    const struct gsp_top_opts *opts = session->opts;
    int rc = gsp_source_load_profile(opts->input, opts->from, true, &session->profile, err);
    if (rc == GSP_OK)
        rc = gsp_tui_top_new(session->profile, &session->top, err);
    if (rc < 0)
        return rc;
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(session->profile);
    const struct gsp_process *process = gsp_model_profile_process_at(session->profile, 0);
    struct gsp_top_facts *facts = &session->facts;
    gsp_auto_buf raw = {0};
    gsp_auto_buf shown = {0};
    gsp_model_command_put(session->profile, &raw);
    gsp_buf_term(&shown, gsp_buf_sv(&raw));
    const char *title = gsp_buf_cstr(&shown);
    snprintf(session->title, sizeof(session->title), "%.150s", title ? title : "");
    facts->title = session->title;
    facts->pid = process && process->pid > 0 ? process->pid : 0;
    facts->is_replay = true;
    facts->losses = meta->losses;
    facts->rate_hz = meta->period_ns > 0 ? 1e9 / (double)meta->period_ns : 0;
    facts->duration_ns =
        gsp_model_profile_has_samples(session->profile) ? measure(session) : meta->duration_ns;
    session->next_turn_ns = opts->delay_ns;
    rewind_samples(session);
    return GSP_OK;
}

int gsp_top_run_replay(struct gsp_top_session *session)
{
    struct gsp_err err = {0};
    int rc = load(session, &err);
    gsp_top_catch_signals();
    if (rc == GSP_OK && session->is_printed)
        rc = print_all(session, &err);
    else if (rc == GSP_OK) {
        rc = gsp_top_screen_begin(session, &err);
        if (rc == GSP_OK && !gsp_model_profile_has_samples(session->profile))
            rc = show_whole(session, &err);
        if (rc == GSP_OK)
            rc = play(session, &err);
        gsp_tui_screen_close();
    }
    return rc < 0 ? gsp_top_fail(session, &err) : 0;
}
