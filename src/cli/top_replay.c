/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/time.h"
#include "cli/top_view.h"
#include "model/format.h"
#include "source/profile_file.h"
#include "tui/screen.h"
#include "tui/top.h"

#define KEY_WAIT_MS 50
#define DRAW_NS     (200 * GSP_NS_PER_MS)

static void rewind_samples(struct gsp_top_view *view)
{
    gsp_model_sample_iter_init(&view->iter, view->profile);
    view->has_pending = gsp_model_sample_iter_next(&view->iter, &view->pending);
}

/* Returns the duration of the recording and sets is_sorted. */
static int64_t measure(struct gsp_top_view *view)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(view->profile);
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    int64_t last_ns = 0;
    view->is_sorted = true;
    gsp_model_sample_iter_init(&iter, view->profile);
    while (gsp_model_sample_iter_next(&iter, &sample))
        if (sample.time_ns < last_ns)
            view->is_sorted = false;
        else
            last_ns = sample.time_ns;
    /* A sample counts until the next one. */
    int64_t seen_ns = last_ns < INT64_MAX - meta->period_ns ? last_ns + meta->period_ns : last_ns;
    return meta->duration_ns > last_ns ? meta->duration_ns : seen_ns;
}

/* Adds the samples up to a time. If they are not sorted, as in imported files that store one thread
 * after the other, scans all of them. */
static int feed(struct gsp_top_view *view, int64_t until_ns, struct gsp_err *err)
{
    int64_t from_ns = view->pos_ns;
    if (!view->is_sorted)
        rewind_samples(view);
    int rc = GSP_OK;
    while (rc == GSP_OK && view->has_pending) {
        const struct gsp_sample *sample = &view->pending;
        bool due = sample->time_ns < until_ns;
        if (!due && view->is_sorted)
            break;
        if (due && (view->is_sorted || sample->time_ns >= from_ns))
            rc = gsp_tui_top_add(view->top, sample, err);
        view->has_pending = gsp_model_sample_iter_next(&view->iter, &view->pending);
    }
    view->pos_ns = until_ns;
    gsp_tui_top_advance(view->top, until_ns);
    return rc;
}

/* Plays forward to a time, from the start if the time has passed, and ends intervals on the way. */
static int play_to(struct gsp_top_view *view, int64_t to_ns, struct gsp_err *err)
{
    int64_t delay_ns = view->opts->delay_ns;
    int rc = GSP_OK;
    if (to_ns < view->pos_ns) {
        gsp_tui_top_seek(view->top, 0);
        view->pos_ns = 0;
        view->next_turn_ns = delay_ns;
        rewind_samples(view);
    }
    /* A long jump merges all intervals but the last two. */
    if (to_ns - view->next_turn_ns > 2 * delay_ns) {
        rc = feed(view, (to_ns / delay_ns - 1) * delay_ns, err);
        gsp_tui_top_end_interval(view->top);
        view->next_turn_ns = view->pos_ns + delay_ns;
    }
    while (rc == GSP_OK && view->next_turn_ns <= to_ns) {
        rc = feed(view, view->next_turn_ns, err);
        gsp_tui_top_end_interval(view->top);
        view->next_turn_ns += delay_ns;
    }
    if (rc == GSP_OK)
        rc = feed(view, to_ns, err);
    view->facts.time_ns = to_ns;
    view->facts.is_ended = to_ns >= view->facts.duration_ns;
    gsp_tui_top_facts_count(view->top, &view->facts);
    return rc;
}

static int64_t clamp(int64_t ns, int64_t end_ns)
{
    return ns < 0 ? 0 : ns > end_ns ? end_ns : ns;
}

/* Applies the keys that move the position. */
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

static int play(struct gsp_top_view *view, struct gsp_err *err)
{
    struct gsp_ui *ui = &view->ui;
    int64_t end_ns = view->facts.duration_ns;
    int64_t pos_ns = view->pos_ns;
    int64_t last_ns = gsp_now_ns();
    int64_t drawn_ns = 0;
    int rc = GSP_OK;
    while (rc == GSP_OK && !gsp_top_stop && !ui->wants_quit) {
        bool changed = gsp_cli__top_handle_keys(view, KEY_WAIT_MS);
        int64_t now_ns = gsp_now_ns();
        if (ui->wants_reset)
            gsp_tui_top_reset(view->top);
        ui->wants_reset = false;
        bool plays = !ui->is_paused && pos_ns < end_ns;
        if (plays)
            pos_ns = clamp(pos_ns + now_ns - last_ns, end_ns);
        last_ns = now_ns;
        pos_ns = seek(ui, pos_ns, end_ns);
        if (pos_ns != view->pos_ns)
            rc = play_to(view, pos_ns, err);
        if (rc == GSP_OK && (changed || drawn_ns == 0 || (plays && now_ns - drawn_ns > DRAW_NS))) {
            rc = gsp_cli__top_draw(view, err);
            drawn_ns = now_ns;
        }
    }
    return rc;
}

/* Shows totals: for --once, and for profiles without times. */
static int show_whole(struct gsp_top_view *view, struct gsp_err *err)
{
    int64_t end_ns = view->facts.duration_ns;
    view->ui.query.whole = true;
    if (gsp_model_profile_has_samples(view->profile))
        return play_to(view, end_ns, err);
    gsp_tui_top_advance(view->top, end_ns);
    view->pos_ns = end_ns;
    int rc = gsp_tui_top_add_totals(view->top, err);
    view->facts.time_ns = end_ns;
    view->facts.is_ended = true;
    gsp_tui_top_facts_count(view->top, &view->facts);
    return rc;
}

static int print_all(struct gsp_top_view *view, struct gsp_err *err)
{
    const struct gsp_top_opts *opts = view->opts;
    if (opts->once || opts->count == 0 || !gsp_model_profile_has_samples(view->profile)) {
        int rc = show_whole(view, err);
        return rc < 0 ? rc : gsp_cli__top_print(view, err);
    }
    int rc = GSP_OK;
    for (int64_t i = 0; rc == GSP_OK && i < opts->count && !gsp_top_stop; i++) {
        if (view->facts.is_ended)
            break;
        int64_t left_ns = view->facts.duration_ns - view->pos_ns;
        int64_t step_ns = opts->delay_ns < left_ns ? opts->delay_ns : left_ns;
        rc = play_to(view, view->pos_ns + step_ns, err);
        if (rc == GSP_OK)
            rc = gsp_cli__top_print(view, err);
    }
    return rc;
}

static int load(struct gsp_top_view *view, struct gsp_err *err)
{
    const struct gsp_top_opts *opts = view->opts;
    int rc = gsp_source_profile_load(opts->input, opts->from, true, &view->profile, err);
    if (rc == GSP_OK)
        rc = gsp_tui_top_new(view->profile, &view->top, err);
    if (rc < 0)
        return rc;
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(view->profile);
    const struct gsp_process *process = gsp_model_profile_process_at(view->profile, 0);
    struct gsp_top_facts *facts = &view->facts;
    gsp_auto_buf raw = {0};
    gsp_auto_buf shown = {0};
    gsp_model_command_put(view->profile, &raw);
    gsp_buf_term(&shown, gsp_buf_sv(&raw));
    const char *title = gsp_buf_cstr(&shown);
    if (!title)
        return gsp_err_nomem(err);
    snprintf(view->title, sizeof(view->title), "%.150s", title);
    facts->title = view->title;
    facts->pid = process && process->pid > 0 ? process->pid : 0;
    facts->is_replay = true;
    facts->losses = meta->losses;
    facts->rate_hz = meta->period_ns > 0 ? 1e9 / (double)meta->period_ns : 0;
    facts->duration_ns =
        gsp_model_profile_has_samples(view->profile) ? measure(view) : meta->duration_ns;
    view->next_turn_ns = opts->delay_ns;
    rewind_samples(view);
    return GSP_OK;
}

int gsp_cli__top_run_replay(struct gsp_top_view *view)
{
    struct gsp_err err = {0};
    int rc = load(view, &err);
    gsp_cli__top_catch_signals();
    if (rc == GSP_OK && view->is_printed)
        rc = print_all(view, &err);
    else if (rc == GSP_OK) {
        rc = gsp_cli__top_screen_begin(view, &err);
        if (rc == GSP_OK && !gsp_model_profile_has_samples(view->profile))
            rc = show_whole(view, &err);
        if (rc == GSP_OK)
            rc = play(view, &err);
        gsp_tui_screen_close();
    }
    return rc < 0 ? gsp_cli__top_fail(view, &err) : 0;
}
