/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/events.h"
#include "cli/hint.h"
#include "cli/sampling.h"
#include "model/format.h"
#include "proc/task.h"
#include "record/interim_file.h"
#include "record/launch.h"
#include "record/left_out.h"
#include "record/output_file.h"
#include "record/ring_drain.h"
#include "record/stream_sink.h"
#include "sample/record.h"
#include "source/profile_file.h"
#include "source/run_folder.h"

struct record_opts {
    int64_t pid;
    const char *output;
    const char *format;
    struct gsp_sampling sampling;
    bool force;
    bool until_signal;
    struct gsp_view_options view;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_PID_ROW(struct record_opts),
    GSP_OPT_OUTPUT(struct record_opts,
                   "The file to write, or the folder of a run (DIR/); - is stdout. "
                   "Default: PROGRAM-PID-TIME.svg."),
    GSP_OPT_FORMAT(struct record_opts),
    GSP_OPTS_WHEN(struct record_opts,
                  "Stop after this long: 30, 500ms, 5m, 1h. Default: until the target ends or "
                  "Ctrl-C."),
    GSP_OPTS_WHOM(struct record_opts,
                  "Only the thread that holds the GIL; at the end, how long each held it."),
    GSP_OPT_THREADS(struct record_opts),
    GSP_OPT_FUNCTION(struct record_opts),
    GSP_OPT_FORCE(struct record_opts),
    GSP_OPT_NOLINENO(struct record_opts),
    GSP_OPT_FULL_FILENAMES(struct record_opts),
    GSP_OPTS_HOW(struct record_opts, 'n'),
    GSP_OPT_SWITCH(struct record_opts, until_signal, "until-signal", 0, true,
                   "Wait for SIGUSR2, then record until the next one. "
                   "--duration counts from the first."),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof record -- python3 train.py", "Run a program and draw a flame graph of it"},
    {"gsprof record --pid 4242 --duration 30", "Half a minute of a running process"},
    {"gsprof record -p 4242 -o profile.gsp --subprocesses --threads --rate 1000",
     "With its workers, a thousand times a second, into a compact file"},
    {"gsprof record -p4242 -d 500ms -o profile.speedscope.json", "For speedscope"},
    {"gsprof record -p 4242 --gil -o gil.svg", "Who holds the GIL"},
    {"gsprof record -p 4242 --idle -o wall.svg", "Where it waits"},
    {"gsprof record -p 4242 -o run1/ --duration 60", "A folder of tables, for SQL"},
    {"gsprof record -s --exclude site-packages -- torchrun train.py",
     "All ranks, only code that is not installed"},
};

/* Threads without Python are reported when they have used this part of a core, one in a hundred. */
#define NATIVE_CPU_PART 100
/* From here on a recording without a sample was too short, not too slow. */
#define OFTEN_HZ        1000

/* One recording, from the first check to the last line. */
struct session {
    const struct gsp_parsed *parsed;
    const struct record_opts *opts;
    struct gsp_term term;
    struct gsp_launch launch; /* pid 0 when attached to a process that ran already */
    pid_t pid;
    char title[160]; /* "python3 train.py", safe for a terminal */
    struct gsp_rec_file file;
    struct gsp_interim interim;
    struct gsp_stream_sink sink;
    struct gsp_record *record;   /* while it runs */
    struct gsp_rec_rings *rings; /* while it runs, of a run */
    struct gsp_store_drain_stats drained;
    struct gsp_sample_record_stats stats; /* a copy of the last ones */
    enum gsp_record_end end;
    struct gsp_buf others; /* Python processes below it that are left out */
    int64_t others_due_ns; /* when they are looked for, of the recording's time */
    bool is_told;          /* of them */
};

/* What the signal handler sees.  last_words is written once, before the handler is set. */
static volatile sig_atomic_t stop_count;
static volatile sig_atomic_t child_pid;
static volatile sig_atomic_t interim_wanted; /* by SIGUSR1 */
static volatile sig_atomic_t begun;          /* by SIGUSR2 */
static volatile sig_atomic_t ended;          /* by a second SIGUSR2 */
static char last_words[512];
static size_t last_words_len;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    /* Ctrl-C reaches the child by itself; a signal sent to us alone is passed on. */
    if (child_pid > 0 && info->si_code <= 0)
        kill((pid_t)child_pid, sig);
    stop_count++;
    if (stop_count > 1) {
        /* A program of ours that does not heed Ctrl-C must not be left behind without a shell. */
        if (child_pid > 0)
            kill((pid_t)child_pid, SIGTERM);
        ssize_t n = write(STDERR_FILENO, last_words, last_words_len);
        (void)n;
        _exit(128 + sig);
    }
    errno = saved;
}

static void on_user_signal(int sig)
{
    if (sig == SIGUSR1) {
        interim_wanted = 1;
    } else if (!begun) {
        begun = 1;
    } else {
        ended = 1;
        stop_count = stop_count ? stop_count : 1;
    }
}

static void catch_user_signals(const struct session *session)
{
    struct sigaction action = {.sa_handler = on_user_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    if (session->opts->until_signal)
        sigaction(SIGUSR2, &action, NULL);
}

static void catch_signals(const struct session *session)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct gsp_rec_file *file = &session->file;
    bool stays = strcmp(file->format->name, "gsp") == 0 && strcmp(file->output, "-") != 0;
    snprintf(last_words, sizeof(last_words),
             "\ngsprof: stopped at once; what was recorded is in %.400s\n",
             stays ? file->output : file->stream_path);
    last_words_len = strlen(last_words);
    gsp_launch_catch(signals, GSP_COUNT(signals), on_signal, 0);
    catch_user_signals(session);
}

static double rate_of(const struct gsp_sample_record_stats *stats)
{
    double elapsed_s = (double)stats->elapsed_ns / (double)GSP_NS_PER_S;
    return elapsed_s > 0 ? (double)stats->ticks / elapsed_s : 0;
}

static void tell_interim(struct session *session, bool wait)
{
    bool ok = false;
    if (!gsp_interim_done(&session->interim, wait, &ok))
        return;
    if (session->record)
        gsp_sample_record_set_helper(session->record, 0);
    if (!ok)
        gsp_term_line(&session->term, "gsprof: %s could not be written", session->interim.path);
    else if (!session->parsed->globals.quiet)
        gsp_term_line(&session->term, "Wrote what there is so far to %s.", session->interim.path);
}

/* SIGUSR1 has come: what there is goes to a file of its own. */
static void write_interim(struct session *session)
{
    struct gsp_err err = {0};
    tell_interim(session, false);
    if (!interim_wanted || session->interim.writer)
        return;
    interim_wanted = 0;
    if (session->stats.samples == 0)
        gsp_term_line(&session->term, "gsprof: no interim file: nothing is recorded yet");
    else if (gsp_interim_start(&session->interim, &session->file, &session->opts->view, &err) < 0)
        gsp_term_line(&session->term, "gsprof: %s", err.msg);
    else
        gsp_sample_record_set_helper(session->record, session->interim.writer);
}

/* Whom this recording leaves out.  From time to time; the last look that found some is told of. */
static void look_for_others(struct session *session, int64_t elapsed_ns)
{
    if (session->opts->sampling.subprocesses || session->is_told ||
        elapsed_ns < session->others_due_ns)
        return;
    /* A launcher that will become Python has children of its own kind. */
    if (elapsed_ns > 0 && session->stats.processes == 0)
        return;
    struct gsp_buf found = {0};
    if (gsp_other_processes(session->pid, &found) > 0) {
        gsp_buf_free(&session->others);
        session->others = found;
    }
    session->others_due_ns = elapsed_ns ? 2 * elapsed_ns : GSP_NS_PER_S;
}

static void tell_others(struct session *session)
{
    const char *text = gsp_buf_cstr(&session->others);
    if (!session->others.len || session->is_told || session->parsed->globals.quiet)
        return;
    session->is_told = true;
    gsp_term_line(&session->term,
                  "Python processes below it are not recorded without --subprocesses: %s.",
                  text ? text : "");
}

static void tell_others_at_end(struct session *session)
{
    session->others_due_ns = 0;
    if (session->end != GSP_RECORD_EXITED)
        look_for_others(session, session->stats.elapsed_ns);
    tell_others(session);
}

static int on_flushed(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err)
{
    struct session *session = user;
    (void)err;
    if (!session->parsed->globals.quiet) {
        const struct gsp_losses *lost = &stats->losses;
        gsp_term_status(&session->term,
                        "%.1f s  %" PRIu64 " sample%s  %.0f Hz  torn %" PRIu64 "  late %" PRIu64
                        "  failed %" PRIu64,
                        (double)stats->elapsed_ns / (double)GSP_NS_PER_S, stats->samples,
                        gsp_model_plural_s(stats->samples), rate_of(stats), lost->torn, lost->late,
                        lost->failed);
    }
    session->stats = *stats;
    look_for_others(session, stats->elapsed_ns);
    write_interim(session);
    return GSP_OK;
}

/* What the target is called, for messages and for the default name of the file. */
static void look_title(struct session *session, char *program, size_t cap)
{
    gsp_auto_buf raw = {0};
    gsp_auto_buf shown = {0};
    char **args = session->parsed->args;
    if (session->launch.pid > 0)
        for (size_t i = 0; args[i]; i++)
            gsp_buf_printf(&raw, "%s%s", i ? " " : "", args[i]);
    else
        gsp_proc_cmdline(session->pid, &raw);
    gsp_buf_term(&shown, gsp_buf_sv(&raw));
    const char *title = gsp_buf_cstr(&shown);
    snprintf(session->title, sizeof(session->title), "%s", title ? title : "");

    struct gsp_sv first = gsp_sv_of(session->title);
    first.len = strcspn(session->title, " ");
    first = gsp_sv_basename(first);
    size_t len = 0;
    for (size_t i = 0; i < first.len && len + 1 < cap; i++) {
        char c = first.p[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                        (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
        if (is_plain && !(len == 0 && c == '-'))
            program[len++] = c;
    }
    program[len] = '\0';
    if (len == 0)
        snprintf(program, cap, "profile");
}

/* "python3-4242-20240131-154500.svg" */
static void default_output(const struct session *session, const char *program,
                           const struct gsp_format *format, char *out, size_t cap)
{
    char when[32] = "";
    time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local))
        strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &local);
    snprintf(out, cap, "%.60s-%d-%s%s", program, (int)session->pid, when,
             format->extensions[0] ? format->extensions[0] : "");
}

/* The output is found unwritable here or not at all: the target has not been touched yet. */
static int open_file(struct session *session, struct gsp_err *err)
{
    const struct record_opts *opts = session->opts;
    const struct gsp_format *format = NULL;
    char program[64];
    char name[160];
    look_title(session, program, sizeof(program));
    int rc =
        gsp_source_output_format(opts->format, opts->output ? opts->output : ".svg", &format, err);
    if (rc < 0)
        return rc;
    default_output(session, program, format, name, sizeof(name));
    const char *output = opts->output ? opts->output : name;
    rc = gsp_rec_file_open(&session->file, output, format, opts->force, err);
    return rc == GSP_OK ? gsp_stream_sink_init(&session->sink, err) : rc;
}

static bool target_lives(const struct session *session)
{
    struct gsp_procinfo info;
    return gsp_proc_info(session->pid, &info, NULL) == GSP_OK && info.state != 'Z' &&
           info.state != 'X';
}

/* --until-signal: nothing happens before the first SIGUSR2. */
static void await_signal(const struct session *session)
{
    const struct timespec step = {.tv_nsec = 20 * GSP_NS_PER_MS};
    while (!begun && !stop_count && target_lives(session))
        nanosleep(&step, NULL); /* a signal ends it early */
}

static void tell_begin(struct session *session)
{
    char inside[48] = "";
    struct gsp_procinfo info;
    gsp_events_ready_pid(session->pid);
    if (session->parsed->globals.quiet)
        return;
    if (gsp_proc_info(session->pid, &info, NULL) == GSP_OK && info.ns_pid &&
        info.ns_pid != session->pid)
        snprintf(inside, sizeof(inside), " (%d inside)", (int)info.ns_pid);
    gsp_term_line(&session->term, "Recording %s (pid %d%s) at %.7g Hz. Press Ctrl-C to stop.",
                  session->title, (int)session->pid, inside, session->opts->sampling.rate_hz);
}

/* Who held the GIL, and for how much of the time. */
static void tell_gil(struct session *session, const struct gsp_record *record)
{
    size_t count = gsp_model_profile_thread_count(session->sink.profile);
    int64_t elapsed_ns = session->stats.elapsed_ns;
    if (!session->opts->sampling.gil || session->parsed->globals.quiet || elapsed_ns <= 0)
        return;
    gsp_term_line(&session->term, "The GIL was held by");
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_thread *thread = gsp_model_profile_thread_at(session->sink.profile, i);
        const struct gsp_process *process =
            gsp_model_profile_process_at(session->sink.profile, thread->process);
        gsp_auto_buf name = {0};
        int64_t held_ns = gsp_sample_record_gil_ns(record, i);
        if (held_ns == 0)
            continue;
        gsp_buf_term(&name, gsp_model_profile_string_at(session->sink.profile, thread->name));
        const char *shown = gsp_buf_cstr(&name);
        gsp_term_line(&session->term, "    %5.1f %%  thread %s (%" PRIu64 ") of process %" PRId32,
                      100.0 * (double)held_ns / (double)elapsed_ns, shown ? shown : "",
                      thread->os_id, process->pid);
    }
}

/* A run has the rows of the target's rings too.  Without them there are still the samples. */
static void start_rings(struct session *session)
{
    struct gsp_err err = {0};
    const struct gsp_rec_rings_opts opts = {.folder = session->file.output,
                                            .pid = session->pid,
                                            .subprocesses = session->opts->sampling.subprocesses};
    if (gsp_source_is_run(session->file.format) &&
        gsp_rec_rings_start(&opts, &session->rings, &err) < 0)
        gsp_term_line(&session->term, "gsprof: the tables of the target are not recorded: %s",
                      err.msg);
}

static void stop_rings(struct session *session)
{
    struct gsp_err err = {0};
    if (gsp_rec_rings_stop(session->rings, &session->drained, &err) < 0)
        gsp_term_line(&session->term, "gsprof: tables of the target are not complete: %s", err.msg);
    session->rings = NULL;
}

static int sample_target(struct session *session, struct gsp_err *err)
{
    const struct record_opts *opts = session->opts;
    const struct gsp_record_opts record_opts =
        gsp_sampling_begin(&opts->sampling, session->pid, session->launch.pid > 0);
    struct gsp_stream_sink *sink = &session->sink;
    struct gsp_record *record = NULL;
    sink->flushed = on_flushed;
    sink->user = session;
    int rc = gsp_sample_record_new(&record_opts, sink->profile, &sink->sink, &record, err);
    if (rc == GSP_OK)
        rc = gsp_rec_file_settle(&session->file, err);
    /* The profile's period is known now: the stream predicts times by it. */
    if (rc == GSP_OK)
        rc = gsp_stream_sink_open(sink, session->file.fd, err);
    if (rc < 0) {
        gsp_sample_record_free(record);
        return rc;
    }
    if (opts->until_signal && !session->parsed->globals.quiet)
        gsp_term_line(&session->term, "Waiting for SIGUSR2 (kill -USR2 %d).", (int)getpid());
    if (opts->until_signal)
        await_signal(session);
    if (session->launch.pid == 0)
        look_for_others(session, 0);
    tell_others(session);
    tell_begin(session);
    session->record = record;
    start_rings(session);
    rc = gsp_sample_record_run(record, &stop_count, &session->end, err);
    session->record = NULL;
    session->stats = *gsp_sample_record_stats(record);
    stop_rings(session);
    gsp_term_wipe(&session->term);
    tell_interim(session, true);
    tell_gil(session, record);
    gsp_sample_record_free(record);
    return rc;
}

/* Adds "gsprof COMMAND OPTION" for the same target. */
static void add_again(const struct session *session, const char *command, const char *note,
                      struct gsp_hint *hint)
{
    char **args = session->parsed->args;
    gsp_auto_buf program = {0};
    for (size_t i = 0; args[i]; i++) {
        gsp_buf_putc(&program, ' ');
        gsp_buf_shell(&program, gsp_sv_of(args[i]));
    }
    const char *text = gsp_buf_cstr(&program);
    if (!args[0])
        gsp_hint_add(hint, note, "gsprof %s --pid %d", command, (int)session->pid);
    else
        gsp_hint_add(hint, note, "gsprof %s --%.160s", command,
                     text && program.len < 160 ? text : " COMMAND");
}

/* Whether threads that samples of Python do not show were at work: those of a library. */
static bool has_native_cpu(const struct session *session)
{
    return !session->opts->sampling.native && !session->opts->sampling.gil &&
           session->stats.native_cpu.cpu_ns >= session->stats.elapsed_ns / NATIVE_CPU_PART;
}

static void tell_native_cpu(struct session *session)
{
    gsp_auto_buf words = {0};
    if (!has_native_cpu(session))
        return;
    gsp_sample_native_cpu_put(&session->stats.native_cpu, &words);
    gsp_auto_buf shown = {0};
    gsp_buf_term(&shown, gsp_buf_sv(&words));
    gsp_term_line(&session->term, "Threads without Python used %s; --native shows their stacks.",
                  gsp_buf_cstr(&shown) ? gsp_buf_cstr(&shown) : "some CPU");
}

/* It was over before the first sample. */
static const char *judge_short(const struct session *session, struct gsp_hint *hint)
{
    const bool has_ended = session->end == GSP_RECORD_EXITED;
    if (session->opts->sampling.rate_hz < OFTEN_HZ)
        add_again(session, "record --rate 1000", "more samples a second", hint);
    else if (!has_ended)
        add_again(session, "record --duration 10", "more time", hint);
    return has_ended ? "it ended before the first sample"
                     : "it was stopped before the first sample";
}

/* Why there is not one sample, and what to do about it. */
static const char *judge_empty(const struct session *session, struct gsp_hint *hint)
{
    const struct gsp_sample_record_stats *stats = &session->stats;
    const struct record_opts *opts = session->opts;
    if (opts->until_signal && !begun)
        return "no SIGUSR2 came, so recording did not begin";
    if (stats->frames_left)
        return "no stack had a frame that was asked for (--include, --exclude, --below)";
    if (stats->threads_left)
        return "no thread had a name that was asked for (--thread)";
    if (opts->sampling.gil && stats->no_gil_left) {
        add_again(session, "record", "all running threads", hint);
        return "no thread was seen with the GIL";
    }
    if (!opts->sampling.idle && !opts->sampling.wall && stats->idle_left) {
        if (has_native_cpu(session)) {
            add_again(session, "record --native", "threads without Python too", hint);
            add_again(session, "record --idle", "waiting threads too", hint);
            return "every thread with Python was waiting; waiting threads are left out";
        }
        add_again(session, "record --idle", "waiting threads too", hint);
        if (!session->parsed->args[0])
            add_again(session, "dump", "what it waits for", hint);
        return "every thread was waiting; waiting threads are left out";
    }
    if (opts->sampling.blocking && stats->losses.failed) {
        add_again(session, "record --blocking --duration 30", "more time", hint);
        return "no thread stopped within the time limit: the machine is busy";
    }
    if (stats->losses.torn + stats->losses.failed) {
        add_again(session, "record --blocking", "stops the target while it is read", hint);
        return "no stack could be read whole";
    }
    if (session->end == GSP_RECORD_EXITED && stats->losses.skipped) {
        if (!opts->sampling.subprocesses)
            add_again(session, "record --subprocesses", "if it starts Python", hint);
        return "it ended, and was not seen to run Python";
    }
    if (session->end == GSP_RECORD_EXITED || stats->ticks == 0)
        return judge_short(session, hint);
    if (stats->processes == 0)
        return "no Python interpreter had started by then";
    return "the interpreter ran no Python code";
}

static int tell_empty(struct session *session)
{
    struct gsp_hint hint = {.more = "gsprof help sampling"};
    gsp_auto_buf text = {0};
    snprintf(hint.why, sizeof(hint.why), "%s", judge_empty(session, &hint));
    snprintf(hint.what, sizeof(hint.what), "nothing was recorded of %s", session->title);
    gsp_hint_print(&hint, &session->term, &text);
    gsp_events_error(&(struct gsp_err){.code = GSP_E_EMPTY}, gsp_buf_sv(&text));
    gsp_term_write(&session->term, &text);
    tell_native_cpu(session);
    tell_others_at_end(session);
    return gsp_err_exit_status(GSP_E_EMPTY);
}

static const char *end_text(const struct session *session)
{
    switch (session->end) {
    case GSP_RECORD_DURATION:
        return "the time was up";
    case GSP_RECORD_EXITED:
        return session->launch.pid > 0 ? "the program ended" : "the process ended";
    case GSP_RECORD_STOPPED:
        break;
    }
    return ended ? "a second SIGUSR2 came" : "it was interrupted";
}

/* The last line is always what to type next. */
static void tell_next(struct session *session)
{
    const char *output = session->file.output;
    const char *name = session->file.format->name;
    const struct {
        const char *format;
        const char *command;
    } viewers[] = {
        {"svg", "xdg-open"}, {"pstats", "python3 -m pstats"}, {"pprof", "go tool pprof -top"}};
    const bool is_ours = session->file.format->read || gsp_source_is_run(session->file.format);
    const char *command = is_ours ? "gsprof report" : NULL;
    if (gsp_source_is_run(session->file.format))
        gsp_term_line(&session->term,
                      "    gsprof query %s \"SELECT * FROM gsprof.hot_functions() LIMIT 20\"",
                      output);
    for (size_t i = 0; i < GSP_COUNT(viewers) && !is_ours; i++)
        if (strcmp(viewers[i].format, name) == 0)
            command = viewers[i].command;
    if (command)
        gsp_term_line(&session->term, "    %s %s", command, output);
    else
        gsp_term_line(&session->term, "    https://ui.perfetto.dev opens %s", output);
}

/* How native frames were had: what a thread has noticed of it is how long it was stopped. */
static void tell_native(struct session *session)
{
    const struct gsp_native_stats *native = &session->stats.native;
    if (native->stacks == 0)
        return;
    gsp_term_line(&session->term,
                  "Native: %.1f %% of the stacks reach the thread's entry; %" PRIu64
                  " taken asleep, %" PRIu64 " by perf events, %" PRIu64 " by stops.",
                  100.0 * (double)native->whole / (double)native->stacks,
                  native->by_way[GSP_CAPTURE_IDLE], native->by_way[GSP_CAPTURE_EVENT],
                  native->by_way[GSP_CAPTURE_STOP]);
    gsp_log_info("record",
                 "a tick took at most %.1f ms of CPU; %" PRIu64 " of %" PRIu64
                 " more than their period",
                 (double)native->tick_max_ns / 1e6, native->long_ticks, session->stats.ticks);
    if (native->by_way[GSP_CAPTURE_STOP])
        gsp_term_line(&session->term,
                      "Stopped for at most %.0f us (median), %.0f us (p99), %.0f us (longest).",
                      (double)gsp_sample_native_stats_stop_ns(native, 0.5) / 1000,
                      (double)gsp_sample_native_stats_stop_ns(native, 0.99) / 1000,
                      (double)native->stop_max_ns / 1000);
}

static void tell_summary(struct session *session)
{
    const struct gsp_sample_record_stats *stats = &session->stats;
    gsp_auto_buf lost = {0};
    char elapsed[32];
    gsp_model_losses_put(&stats->losses, &lost);
    const char *losses = gsp_buf_cstr(&lost);
    gsp_term_line(&session->term, "%" PRIu64 " sample%s in %s (%.1f Hz); stopped because %s.",
                  stats->samples, gsp_model_plural_s(stats->samples),
                  gsp_fmt_duration(stats->elapsed_ns, elapsed, sizeof(elapsed)), rate_of(stats),
                  end_text(session));
    gsp_term_line(&session->term, "Lost: %s.", losses ? losses : "unknown");
    tell_native(session);
    tell_native_cpu(session);
    if (stats->frames_left + stats->threads_left)
        gsp_term_line(&session->term,
                      "Left out: %" PRIu64 " stack%s without a frame that was asked for, %" PRIu64
                      " of other threads.",
                      stats->frames_left, gsp_model_plural_s(stats->frames_left),
                      stats->threads_left);
    tell_others_at_end(session);
    if (strcmp(session->file.output, "-") == 0)
        return;
    struct stat info;
    const bool is_run = gsp_source_is_run(session->file.format);
    if (session->drained.rows + session->drained.lost)
        gsp_term_line(&session->term,
                      "Tables of the target: %" PRIu64 " row%s; %" PRIu64 " came too fast.",
                      session->drained.rows, gsp_model_plural_s(session->drained.rows),
                      session->drained.lost);
    if (stat(session->file.output, &info) == 0)
        gsp_term_line(
            &session->term, "Wrote %s (%s, %.3g KB):", session->file.output,
            session->file.format->name,
            (double)(is_run ? gsp_run_folder_bytes(session->file.output) : (uint64_t)info.st_size) /
                1024);
    tell_next(session);
}

static int fail(const struct session *session, const struct gsp_err *err)
{
    char **args = session->parsed->args;
    return gsp_cli_fail(session->parsed,
                        &(struct gsp_hint_context){.pid = session->pid,
                                                   .path = session->opts->output,
                                                   .program = args[0],
                                                   .blocking = session->opts->sampling.blocking},
                        err);
}

/* After sampling: the file gets its form, and the person is told. */
static int conclude(struct session *session, int rc, struct gsp_err *err)
{
    struct gsp_err late = {0};
    int finished = gsp_stream_sink_finish(&session->sink, &late);
    if (rc == GSP_OK && finished < 0) {
        rc = finished;
        *err = late;
    }
    if (session->stats.samples == 0) {
        gsp_rec_file_discard(&session->file);
        return rc < 0 ? fail(session, err) : tell_empty(session);
    }
    struct gsp_err convert = {0};
    int converted = gsp_rec_file_finish(&session->file, &session->opts->view, &convert);
    if (converted < 0) {
        int status = fail(session, &convert);
        gsp_term_line(&session->term, "The recording is kept. To convert it:");
        gsp_term_line(&session->term, "    gsprof convert -i %s -o FILE",
                      session->file.stream_path);
        return status;
    }
    if (rc < 0)
        return fail(session, err);
    gsp_events_done(session->stats.samples, session->file.output);
    if (!session->parsed->globals.quiet)
        tell_summary(session);
    return 0;
}

static int record(struct session *session)
{
    struct gsp_err err = {0};
    char **args = session->parsed->args;
    int rc = GSP_OK;
    if (args[0]) {
        rc = gsp_launch_new(&session->launch, args, &err);
        session->pid = session->launch.pid;
    }
    if (rc == GSP_OK)
        rc = open_file(session, &err);
    if (rc < 0) {
        gsp_launch_abort(&session->launch);
        if (session->file.fd >= 0)
            gsp_rec_file_discard(&session->file);
        return rc == GSP_E_USAGE ? gsp_cli_misuse(session->parsed, "%s", err.msg)
                                 : fail(session, &err);
    }
    catch_signals(session);
    if (args[0]) {
        rc = gsp_launch_go(&session->launch, args[0], &err);
        if (rc < 0) {
            gsp_rec_file_discard(&session->file);
            return fail(session, &err);
        }
        child_pid = session->launch.pid;
    }
    rc = sample_target(session, &err);
    return conclude(session, rc, &err);
}

static int run(const struct gsp_parsed *parsed)
{
    const struct record_opts *opts = parsed->opts;
    if (opts->pid && parsed->arg_count)
        return gsp_cli_misuse(parsed, "either a process or a program, not both");
    if (!opts->pid && !parsed->arg_count)
        return gsp_cli_misuse(parsed, "record needs a process or a program: PID, "
                                      "or -- COMMAND");
    struct gsp_err err = {0};
    if (gsp_sampling_check(&opts->sampling, &err) != GSP_OK)
        return gsp_cli_misuse(parsed, "%s", err.msg);
    struct session session = {.parsed = parsed,
                              .opts = opts,
                              .pid = (pid_t)opts->pid,
                              .launch = {.gate = -1, .report = -1},
                              .file = {.fd = -1}};
    gsp_term_init(&session.term, STDERR_FILENO, parsed->globals.color);
    if (opts->pid && !opts->sampling.subprocesses && !opts->sampling.native)
        gsp_await_python(session.pid, false, parsed);
    int status = record(&session);
    gsp_stream_sink_free(&session.sink);
    gsp_rec_file_free(&session.file);
    gsp_buf_free(&session.others);
    if (session.launch.pid > 0) {
        if (gsp_launch_running(&session.launch) && !parsed->globals.quiet)
            gsp_term_line(&session.term, "%s is still running; waiting for it to end.",
                          session.title);
        stop_count = 1; /* nothing is left to save: the next signal ends us */
        last_words_len = 0;
        int child_status = gsp_launch_wait(&session.launch);
        child_pid = 0;
        return child_status ? child_status : status;
    }
    return status;
}

const struct gsp_command gsp_cmd_record = {
    .name = "record",
    .summary = "Record the stacks of a process, or of a program it starts",
    .synopsis = "[OPTIONS] (PID | -- COMMAND...)",
    .about =
        "Reads the stacks of a Python process from outside, RATE times a second, without "
        "stopping it and without any change to it, and writes a profile.\n"
        "The format follows the extension of the output: an interactive flame graph (.svg), "
        "pstats (.prof), speedscope, pprof, folded stacks, JSON, or .gsp, which is compact and "
        "on disk while recording goes on. A folder (a name that ends in /) gets all of it as "
        "tables for SQL, with the rows that the target itself writes. Ctrl-C finishes and writes; a second Ctrl-C stops "
        "at once. SIGUSR1 writes what there is so far to a file of its own (profile.1.svg, "
        "profile.2.svg, ...) while recording goes on. The exit status of a COMMAND is passed "
        "through.\n"
        "\"(import)\" stands for the frames of the import system, \"(garbage collection)\" for the "
        "collector at work (3.9 and later).",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct record_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .takes_program = true,
    .run = run,
};
