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
#include "cli/top_session.h"
#include "model/format.h"
#include "proc/task.h"
#include "tui/screen.h"
#include "tui/top.h"

#define BEAT_NS      (100 * GSP_NS_PER_MS)
/* Drawing takes at most this part of the time. */
#define COST_FACTOR  100
#define WAIT_STEP_NS (50 * GSP_NS_PER_MS)

static int on_sample(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    struct gsp_top_session *session = user;
    return gsp_tui_top_add(session->top, sample, err);
}

/* Names are looked up when they are shown. */
static void on_changed(void *user, uint32_t index)
{
    (void)user;
    (void)index;
}

static void take_facts(struct gsp_top_session *session, const struct gsp_sample_record_stats *stats)
{
    struct gsp_top_facts *facts = &session->facts;
    session->stats = *stats;
    facts->time_ns = stats->elapsed_ns;
    facts->threads = stats->threads;
    facts->processes = stats->processes;
    facts->losses = stats->losses;
}

static void set_title(struct gsp_top_session *session, struct gsp_sv raw)
{
    gsp_auto_buf shown = {0};
    gsp_buf_term(&shown, raw);
    const char *title = gsp_buf_cstr(&shown);
    snprintf(session->title, sizeof(session->title), "%.150s", title ? title : "");
    session->facts.title = session->title;
}

/* The process may have run another program by exec. */
static void follow_exec(struct gsp_top_session *session)
{
    gsp_auto_buf raw = {0};
    gsp_proc_cmdline(session->pid, &raw);
    if (raw.len > 0)
        set_title(session, gsp_buf_sv(&raw));
}

/* What is started is named by its words: it may not run yet. */
static void look_title(struct gsp_top_session *session)
{
    gsp_auto_buf raw = {0};
    char **args = session->parsed->args;
    for (size_t i = 0; args[i]; i++)
        gsp_buf_printf(&raw, "%s%s", i ? " " : "", args[i]);
    set_title(session, gsp_buf_sv(&raw));
    if (!args[0])
        follow_exec(session);
    session->facts.pid = (int32_t)session->pid;
    session->facts.rate_hz = session->opts->sampling.rate_hz;
}

static void end_interval(struct gsp_top_session *session)
{
    follow_exec(session);
    int64_t delay_ns = session->opts->delay_ns;
    int64_t cost_ns = session->cost_ns * COST_FACTOR;
    gsp_tui_top_end_interval(session->top);
    gsp_tui_machine_read(&session->facts.machine);
    /* From the time it was due, so that intervals do not drift; but never a burst of them. */
    session->next_turn_ns += cost_ns > delay_ns ? cost_ns : delay_ns;
    if (session->next_turn_ns <= session->stats.elapsed_ns)
        session->next_turn_ns = session->stats.elapsed_ns + delay_ns;
}

static int beat_printed(struct gsp_top_session *session, struct gsp_err *err)
{
    if (session->stats.elapsed_ns < session->next_turn_ns)
        return GSP_OK;
    end_interval(session);
    int rc = gsp_top_print(session, err);
    if (session->opts->once || (session->opts->count && session->printed >= session->opts->count))
        gsp_top_stop = 1;
    return rc;
}

static int beat_screen(struct gsp_top_session *session, struct gsp_err *err)
{
    struct gsp_ui *ui = &session->ui;
    bool is_first = gsp_tui_top_recent(session->top)->length_ns < session->opts->delay_ns;
    bool changed = gsp_top_hear_keys(session, 0);
    gsp_tui_top_pause(session->top, ui->is_paused);
    if (ui->wants_reset) {
        gsp_tui_top_reset(session->top);
        session->next_turn_ns = session->stats.elapsed_ns + session->opts->delay_ns;
        ui->wants_reset = false;
    }
    if (ui->wants_quit) {
        gsp_top_stop = 1;
        return GSP_OK;
    }
    bool due = session->stats.elapsed_ns >= session->next_turn_ns;
    if (due)
        end_interval(session);
    /* Until there is a whole interval its beginning is shown as it grows. */
    if (changed || ((due || is_first) && !ui->is_paused))
        return gsp_top_show(session, err);
    return GSP_OK;
}

static int on_beat(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err)
{
    struct gsp_top_session *session = user;
    take_facts(session, stats);
    gsp_tui_top_advance(session->top, stats->elapsed_ns);
    return session->is_printed ? beat_printed(session, err) : beat_screen(session, err);
}

/* The target has ended: what was seen of it stays on the screen. */
static int linger(struct gsp_top_session *session, struct gsp_err *err)
{
    session->facts.is_ended = true;
    gsp_tui_top_end_interval(session->top);
    session->ui.query.whole = true; /* there is no last second any more */
    int rc = gsp_top_show(session, err);
    while (rc == GSP_OK && !gsp_top_stop && !session->ui.wants_quit)
        if (gsp_top_hear_keys(session, (int)(BEAT_NS / GSP_NS_PER_MS)))
            rc = gsp_top_show(session, err);
    return rc;
}

static int watch(struct gsp_top_session *session, struct gsp_record *record, struct gsp_err *err)
{
    int rc = gsp_top_screen_begin(session, err);
    if (rc < 0)
        return rc;
    session->next_turn_ns = session->opts->delay_ns;
    gsp_tui_machine_read(&session->facts.machine);
    rc = gsp_sample_record_run(record, &gsp_top_stop, &session->end, err);
    take_facts(session, gsp_sample_record_stats(record));
    gsp_tui_top_advance(session->top, session->stats.elapsed_ns);
    bool ended = session->end == GSP_RECORD_EXITED && session->stats.samples > 0;
    if (rc == GSP_OK && !session->is_printed && ended)
        rc = linger(session, err);
    /* A target that ends within the first interval has a table too. */
    if (rc == GSP_OK && session->is_printed && session->end != GSP_RECORD_STOPPED &&
        session->printed == 0) {
        gsp_tui_top_end_interval(session->top);
        gsp_tui_machine_read(&session->facts.machine);
        rc = gsp_top_print(session, err);
    }
    gsp_tui_screen_close();
    return rc;
}

static int sample_target(struct gsp_top_session *session, struct gsp_err *err)
{
    int64_t delay_ns = session->opts->delay_ns;
    struct gsp_record_opts record_opts =
        gsp_sampling_begin(&session->opts->sampling, session->pid, session->launch.pid > 0);
    record_opts.beat_ns = delay_ns < BEAT_NS ? delay_ns : BEAT_NS;
    const struct gsp_record_sink sink = {.user = session,
                                         .sample = on_sample,
                                         .thread_changed = on_changed,
                                         .process_changed = on_changed,
                                         .beat = on_beat};
    struct gsp_record *record = NULL;
    int rc = gsp_sample_record_new(&record_opts, session->profile, &sink, &record, err);
    if (rc == GSP_OK)
        rc = watch(session, record, err);
    gsp_sample_record_free(record);
    return rc;
}

/* What our standard streams are while the child is made, and what they were. */
struct streams {
    int in;
    int out;
    int err;
};

/* Where the child's words go while the screen is ours: a file that has no name. */
static int open_hidden(void)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("gsprof", MFD_CLOEXEC);
}

static void put_stream(int from, int to)
{
    if (from >= 0)
        gsp_ignore(dup2(from, to) < 0);
}

/* The child inherits what stands at 0, 1 and 2 when it is made.  On a screen it would write into
 * the picture and take the keys; beside printed tables its stdout goes to stderr, for stdout is
 * data. */
static void divert_streams(struct gsp_top_session *session, struct streams *saved)
{
    *saved = (struct streams){fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
                              fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
                              fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
    if (session->is_printed) {
        put_stream(STDERR_FILENO, STDOUT_FILENO);
        return;
    }
    session->child_output = open_hidden();
    put_stream(session->child_output, STDOUT_FILENO);
    if (isatty(STDERR_FILENO))
        put_stream(session->child_output, STDERR_FILENO);
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

static int start_child(struct gsp_top_session *session, struct gsp_err *err)
{
    struct streams saved;
    char **args = session->parsed->args;
    divert_streams(session, &saved);
    int rc = gsp_launch_new(&session->launch, args, err);
    restore_streams(&saved);
    if (rc < 0)
        return rc;
    session->pid = session->launch.pid;
    rc = gsp_launch_go(&session->launch, args[0], err);
    if (rc == GSP_OK)
        gsp_top_set_child(session->launch.pid);
    return rc;
}

/* Says what the child has said since the last time. */
static void tell_output(struct gsp_top_session *session)
{
    char bytes[16384];
    ssize_t n = 0;
    while (session->child_output >= 0 && (n = pread(session->child_output, bytes, sizeof(bytes),
                                                    session->child_output_pos)) > 0) {
        session->child_output_pos += n;
        if (gsp_fd_write_all(STDOUT_FILENO, bytes, (size_t)n, NULL) < 0)
            return;
    }
}

/* The view is left; a child that runs on is waited for, its words are heard again. */
static int end_child(struct gsp_top_session *session)
{
    tell_output(session);
    if (gsp_launch_running(&session->launch) && !session->parsed->globals.quiet)
        gsp_term_line(&session->term, "%s is still running; waiting for it to end.",
                      session->title);
    const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
    while (session->child_output >= 0 && gsp_launch_running(&session->launch)) {
        nanosleep(&step, NULL);
        tell_output(session);
    }
    int status = gsp_launch_wait(&session->launch);
    gsp_top_set_child(0);
    tell_output(session);
    gsp_fd_close(&session->child_output);
    return status;
}

static void tell_summary(struct gsp_top_session *session)
{
    const struct gsp_sample_record_stats *stats = &session->stats;
    gsp_auto_buf lost = {0};
    char elapsed[32];
    gsp_model_losses_put(&stats->losses, &lost);
    const char *losses = gsp_buf_cstr(&lost);
    gsp_term_line(&session->term, "%s: %llu sample%s in %s; lost: %s.", session->title,
                  (unsigned long long)stats->samples, gsp_model_plural_s(stats->samples),
                  gsp_fmt_duration(stats->elapsed_ns, elapsed, sizeof(elapsed)),
                  losses ? losses : "unknown");
    if (stats->samples == 0 && stats->idle_left)
        gsp_term_line(&session->term, "Every thread was waiting; --idle shows them.");
}

int gsp_top_run_live(struct gsp_top_session *session)
{
    struct gsp_err err = {0};
    bool has_child = session->parsed->args[0] != NULL;
    int rc = GSP_OK;
    if (!session->is_printed && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        rc = gsp_err_set(&err, GSP_E_NOTSUP, 0, "%s is not a terminal",
                         isatty(STDIN_FILENO) ? "the output" : "the input");
    if (rc == GSP_OK)
        rc = gsp_model_profile_new(false, &session->profile, &err);
    if (rc == GSP_OK)
        rc = gsp_tui_top_new(session->profile, &session->top, &err);
    gsp_top_catch_signals();
    if (rc == GSP_OK && has_child)
        rc = start_child(session, &err);
    look_title(session);
    if (rc == GSP_OK)
        rc = sample_target(session, &err);
    int status = rc < 0 ? gsp_top_fail(session, &err) : 0;
    if (rc == GSP_OK && !session->parsed->globals.quiet &&
        (!session->is_printed || session->stats.samples == 0))
        tell_summary(session);
    if (session->launch.pid > 0) {
        int child_status = end_child(session);
        return child_status ? child_status : status;
    }
    return status;
}
