/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "cli/top_view.h"
#include "model/format.h"
#include "tui/screen.h"
#include "tui/top.h"

#define POLL_NS      (100 * GSP_NS_PER_MS)
/* Drawing takes at most 1/COST_FACTOR of the time. */
#define COST_FACTOR  100
#define WAIT_STEP_NS (50 * GSP_NS_PER_MS)

static int on_sample(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    struct gsp_top_view *view = user;
    return gsp_tui_top_add(view->top, sample, err);
}

/* Nothing to do: names are read when they are shown. */
static void on_changed(void *user, uint32_t index)
{
    (void)user;
    (void)index;
}

static void set_facts(struct gsp_top_view *view, const struct gsp_sample_record_stats *stats)
{
    struct gsp_top_facts *facts = &view->facts;
    view->stats = *stats;
    facts->time_ns = stats->elapsed_ns;
    facts->threads = stats->threads;
    facts->processes = stats->processes;
    facts->losses = stats->losses;
}

static void init_facts(struct gsp_top_view *view)
{
    gsp_cli__sampling_title(view->parsed->args, view->pid, view->title, sizeof(view->title));
    view->facts.title = view->title;
    view->facts.pid = (int32_t)view->pid;
    view->facts.rate_hz = view->opts->sampling.rate_hz;
}

static void end_interval(struct gsp_top_view *view)
{
    /* The process may have executed another program. */
    gsp_cli__sampling_title(NULL, view->pid, view->title, sizeof(view->title));
    int64_t delay_ns = view->opts->delay_ns;
    int64_t cost_ns = view->cost_ns * COST_FACTOR;
    gsp_tui_top_end_interval(view->top);
    gsp_tui_machine_read(&view->facts.machine);
    /* Relative to the due time, so that intervals do not drift; skip missed intervals. */
    view->next_turn_ns += cost_ns > delay_ns ? cost_ns : delay_ns;
    if (view->next_turn_ns <= view->stats.elapsed_ns)
        view->next_turn_ns = view->stats.elapsed_ns + delay_ns;
}

static int poll_printed(struct gsp_top_view *view, struct gsp_err *err)
{
    if (view->stats.elapsed_ns < view->next_turn_ns)
        return GSP_OK;
    end_interval(view);
    int rc = gsp_cli__top_print(view, err);
    if (view->opts->once || (view->opts->count && view->printed >= view->opts->count))
        gsp_top_stop = 1;
    return rc;
}

static int poll_screen(struct gsp_top_view *view, struct gsp_err *err)
{
    struct gsp_ui *ui = &view->ui;
    bool is_first = gsp_tui_top_recent(view->top)->length_ns < view->opts->delay_ns;
    bool changed = gsp_cli__top_handle_keys(view, 0);
    gsp_tui_top_pause(view->top, ui->is_paused);
    if (ui->wants_reset) {
        gsp_tui_top_reset(view->top);
        view->next_turn_ns = view->stats.elapsed_ns + view->opts->delay_ns;
        ui->wants_reset = false;
    }
    if (ui->wants_quit) {
        gsp_top_stop = 1;
        return GSP_OK;
    }
    bool due = view->stats.elapsed_ns >= view->next_turn_ns;
    if (due)
        end_interval(view);
    /* During the first interval, show it as it grows. */
    if (changed || ((due || is_first) && !ui->is_paused))
        return gsp_cli__top_draw(view, err);
    return GSP_OK;
}

static int on_poll(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err)
{
    struct gsp_top_view *view = user;
    set_facts(view, stats);
    gsp_tui_top_advance(view->top, stats->elapsed_ns);
    return view->is_printed ? poll_printed(view, err) : poll_screen(view, err);
}

/* Keeps the totals on the screen after the target has exited. */
static int show_ended(struct gsp_top_view *view, struct gsp_err *err)
{
    view->facts.is_ended = true;
    gsp_tui_top_end_interval(view->top);
    view->ui.query.whole = true; /* totals instead of the last interval */
    int rc = gsp_cli__top_draw(view, err);
    while (rc == GSP_OK && !gsp_top_stop && !view->ui.wants_quit)
        if (gsp_cli__top_handle_keys(view, (int)(POLL_NS / GSP_NS_PER_MS)))
            rc = gsp_cli__top_draw(view, err);
    return rc;
}

static int watch(struct gsp_top_view *view, struct gsp_record *record, struct gsp_err *err)
{
    int rc = gsp_cli__top_screen_begin(view, err);
    if (rc < 0)
        return rc;
    view->next_turn_ns = view->opts->delay_ns;
    gsp_tui_machine_read(&view->facts.machine);
    rc = gsp_sample_record_run(record, &gsp_top_stop, &view->end, err);
    set_facts(view, gsp_sample_record_stats(record));
    gsp_tui_top_advance(view->top, view->stats.elapsed_ns);
    bool ended = view->end == GSP_RECORD_EXITED && view->stats.samples > 0;
    if (rc == GSP_OK && !view->is_printed && ended)
        rc = show_ended(view, err);
    /* Also print a table if the target exits within the first interval. */
    if (rc == GSP_OK && view->is_printed && view->end != GSP_RECORD_STOPPED && view->printed == 0) {
        gsp_tui_top_end_interval(view->top);
        gsp_tui_machine_read(&view->facts.machine);
        rc = gsp_cli__top_print(view, err);
    }
    gsp_tui_screen_close();
    return rc;
}

static int sample_target(struct gsp_top_view *view, struct gsp_err *err)
{
    int64_t delay_ns = view->opts->delay_ns;
    struct gsp_record_opts record_opts =
        gsp_cli__sampling_begin(&view->opts->sampling, view->pid, view->launch.pid > 0);
    record_opts.poll_ns = delay_ns < POLL_NS ? delay_ns : POLL_NS;
    const struct gsp_record_sink sink = {.user = view,
                                         .sample = on_sample,
                                         .thread_changed = on_changed,
                                         .process_changed = on_changed,
                                         .poll = on_poll};
    struct gsp_record *record = NULL;
    int rc = gsp_sample_record_new(&record_opts, view->profile, &sink, &record, err);
    if (rc == GSP_OK)
        rc = watch(view, record, err);
    gsp_sample_record_free(record);
    return rc;
}

/* Copies of the standard streams. */
struct streams {
    int in;
    int out;
    int err;
};

/* Opens an unnamed file for the child's output while the screen is open. */
static int open_output(void)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("gsprof", MFD_CLOEXEC);
}

static void put_stream(int from, int to)
{
    if (from >= 0)
        gsp_ignore(dup2(from, to) < 0);
}

/* Redirects the standard streams that the child inherits. With a screen, the child must neither
 * write to it nor read keys. With printed tables, its stdout goes to stderr because stdout carries
 * data. */
static void divert_streams(struct gsp_top_view *view, struct streams *saved)
{
    *saved = (struct streams){fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
                              fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
                              fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
    if (view->is_printed) {
        put_stream(STDERR_FILENO, STDOUT_FILENO);
        return;
    }
    view->child_output = open_output();
    put_stream(view->child_output, STDOUT_FILENO);
    if (isatty(STDERR_FILENO))
        put_stream(view->child_output, STDERR_FILENO);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    put_stream(null_fd, STDIN_FILENO);
    gsp_fd_close(&null_fd);
}

static void restore_streams(struct streams *saved)
{
    put_stream(saved->in, STDIN_FILENO);
    put_stream(saved->out, STDOUT_FILENO);
    put_stream(saved->err, STDERR_FILENO);
    gsp_fd_close(&saved->in);
    gsp_fd_close(&saved->out);
    gsp_fd_close(&saved->err);
}

static int start_child(struct gsp_top_view *view, struct gsp_err *err)
{
    struct streams saved;
    char **args = view->parsed->args;
    divert_streams(view, &saved);
    int rc = gsp_record_launch_new(&view->launch, args, err);
    restore_streams(&saved);
    if (rc < 0)
        return rc;
    view->pid = view->launch.pid;
    rc = gsp_record_launch_go(&view->launch, args[0], err);
    if (rc == GSP_OK)
        gsp_cli__top_set_child(view->launch.pid);
    return rc;
}

/* Prints the child's new output. */
static void print_output(struct gsp_top_view *view)
{
    char bytes[16384];
    ssize_t n = 0;
    while (view->child_output >= 0 &&
           (n = pread(view->child_output, bytes, sizeof(bytes), view->child_output_pos)) > 0) {
        view->child_output_pos += n;
        if (gsp_fd_write_all(STDOUT_FILENO, bytes, (size_t)n, NULL) < 0)
            return;
    }
}

/* After the view is closed: waits for the child and prints its output. Returns its exit status. */
static int wait_child(struct gsp_top_view *view)
{
    print_output(view);
    if (gsp_record_launch_is_running(&view->launch) && !view->parsed->globals.quiet)
        gsp_cli__term_line(&view->term, "%s is still running; waiting for it to exit.",
                           view->title);
    const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
    while (view->child_output >= 0 && gsp_record_launch_is_running(&view->launch)) {
        nanosleep(&step, NULL);
        print_output(view);
    }
    int status = gsp_record_launch_wait(&view->launch);
    gsp_cli__top_set_child(0);
    print_output(view);
    gsp_fd_close(&view->child_output);
    return status;
}

static void print_summary(struct gsp_top_view *view)
{
    const struct gsp_sample_record_stats *stats = &view->stats;
    gsp_auto_buf lost = {0};
    char elapsed[32];
    gsp_model_losses_put(&stats->losses, &lost);
    const char *losses = gsp_buf_cstr(&lost);
    gsp_cli__term_line(&view->term, "%s: %llu sample%s in %s; lost: %s.", view->title,
                       (unsigned long long)stats->samples, gsp_model_plural_s(stats->samples),
                       gsp_fmt_duration(stats->elapsed_ns, elapsed, sizeof(elapsed)),
                       losses ? losses : "unknown");
    if (stats->samples == 0 && stats->idle_left)
        gsp_cli__term_line(&view->term, "All threads were waiting; --idle includes them.");
}

int gsp_cli__top_run_live(struct gsp_top_view *view)
{
    struct gsp_err err = {0};
    bool has_child = view->parsed->args[0] != NULL;
    int rc = GSP_OK;
    if (!view->is_printed && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        rc = gsp_err_set(&err, GSP_E_NOTSUP, 0, "%s is not a terminal",
                         isatty(STDIN_FILENO) ? "the output" : "the input");
    if (rc == GSP_OK)
        rc = gsp_model_profile_new(false, &view->profile, &err);
    if (rc == GSP_OK)
        rc = gsp_tui_top_new(view->profile, &view->top, &err);
    gsp_cli__top_catch_signals();
    if (rc == GSP_OK && has_child)
        rc = start_child(view, &err);
    init_facts(view);
    if (rc == GSP_OK)
        rc = sample_target(view, &err);
    int status = rc < 0 ? gsp_cli__top_fail(view, &err) : 0;
    if (rc == GSP_OK && !view->parsed->globals.quiet &&
        (!view->is_printed || view->stats.samples == 0))
        print_summary(view);
    if (view->launch.pid > 0) {
        int child_status = wait_child(view);
        return child_status ? child_status : status;
    }
    return status;
}
