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
#include "record/output_file.h"
#include "record/ring_drain.h"
#include "record/stream_sink.h"
#include "record/unsampled_processes.h"
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
    {.name = "output",
     .letter = 'o',
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct record_opts, output),
     .arg = "FILE",
     .default_text = "PROGRAM-PID-TIME.svg",
     .help = "File to write, or the folder of a run (DIR/); - is stdout."},
    GSP_OPT_FORMAT(struct record_opts),
    GSP_OPTS_WHEN(struct record_opts, "Stop after this time: 30, 500ms, 5m, 1h.",
                  "when the target exits"),
    GSP_OPTS_TARGETS(struct record_opts,
                     "Sample only the thread that holds the GIL, and print how long each held it."),
    GSP_OPT_THREADS(struct record_opts),
    GSP_OPT_FUNCTION(struct record_opts),
    GSP_OPT_FORCE(struct record_opts),
    GSP_OPT_NOLINENO(struct record_opts),
    GSP_OPT_FULL_FILENAMES(struct record_opts),
    GSP_OPTS_HOW(struct record_opts, 'n'),
    GSP_OPT_SWITCH(struct record_opts, until_signal, "until-signal", 0, true,
                   "Start recording at the first SIGUSR2 and stop at the second. "
                   "--duration counts from the first."),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof record -- python3 train.py", "Run a program and write a flame graph"},
    {"gsprof record --pid 4242 --duration 30", "Record a running process for 30 seconds"},
    {"gsprof record -p 4242 -o profile.gsp --subprocesses --threads --rate 1000",
     "Include worker processes, sample at 1000 Hz, write a compact file"},
    {"gsprof record -p4242 -d 500ms -o profile.speedscope.json", "Write a file for speedscope"},
    {"gsprof record -p 4242 --gil -o gil.svg", "Show which threads hold the GIL"},
    {"gsprof record -p 4242 --idle -o wall.svg", "Show where threads wait"},
    {"gsprof record -p 4242 -o run1/ --duration 60", "Write a folder of tables for SQL"},
    {"gsprof record -s --exclude site-packages -- torchrun train.py",
     "Record all ranks, without frames of installed packages"},
};

/* Report threads without Python if they used at least 1/100 of a core. */
#define NATIVE_CPU_PART 100
/* Below this rate, a recording without samples suggests a higher rate. */
#define OFTEN_HZ        1000

struct recording {
    const struct gsp_parsed *parsed;
    const struct record_opts *opts;
    struct gsp_term term;
    struct gsp_launch launch; /* pid 0: attached to a running process */
    pid_t pid;
    char title[160]; /* "python3 train.py", safe for a terminal */
    struct gsp_output_file file;
    struct gsp_interim_file interim;
    struct gsp_stream_sink sink;
    struct gsp_record *record;    /* NULL unless sampling */
    struct gsp_ring_drain *rings; /* NULL unless sampling into a run folder */
    struct gsp_store_drain_stats drained;
    struct gsp_sample_record_stats stats; /* a copy of the newest */
    enum gsp_record_end end;
    struct gsp_buf others; /* Python child processes that are not recorded */
    int64_t others_due_ns; /* time of the next search for them, since the start */
    bool others_reported;
};

/* Used by the signal handlers. abort_message is written before the handlers are installed. */
static volatile sig_atomic_t stop_count;
static volatile sig_atomic_t child_pid;
static volatile sig_atomic_t interim_requested; /* by SIGUSR1 */
static volatile sig_atomic_t begun;             /* by SIGUSR2 */
static volatile sig_atomic_t ended;             /* by a second SIGUSR2 */
static char abort_message[512];
static size_t abort_message_len;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    /* The terminal sends Ctrl-C to the child as well; forward signals sent to gsprof alone. */
    if (child_pid > 0 && info->si_code <= 0)
        kill((pid_t)child_pid, sig);
    stop_count++;
    if (stop_count > 1) {
        /* A child that ignores Ctrl-C must not outlive gsprof. */
        if (child_pid > 0)
            kill((pid_t)child_pid, SIGTERM);
        ssize_t n = write(STDERR_FILENO, abort_message, abort_message_len);
        (void)n;
        _exit(128 + sig);
    }
    errno = saved;
}

static void on_user_signal(int sig)
{
    if (sig == SIGUSR1) {
        interim_requested = 1;
    } else if (!begun) {
        begun = 1;
    } else {
        ended = 1;
        stop_count = stop_count ? stop_count : 1;
    }
}

static void catch_user_signals(const struct recording *recording)
{
    struct sigaction action = {.sa_handler = on_user_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    if (recording->opts->until_signal)
        sigaction(SIGUSR2, &action, NULL);
}

static void catch_signals(const struct recording *recording)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct gsp_output_file *file = &recording->file;
    bool stays = strcmp(file->format->name, "gsp") == 0 && strcmp(file->output, "-") != 0;
    snprintf(abort_message, sizeof(abort_message),
             "\ngsprof: stopped immediately; the samples so far are in %.400s\n",
             stays ? file->output : file->stream_path);
    abort_message_len = strlen(abort_message);
    gsp_record_signals_catch(signals, GSP_COUNT(signals), on_signal, 0);
    catch_user_signals(recording);
}

static double rate_of(const struct gsp_sample_record_stats *stats)
{
    double elapsed_s = (double)stats->elapsed_ns / (double)GSP_NS_PER_S;
    return elapsed_s > 0 ? (double)stats->ticks / elapsed_s : 0;
}

static void report_interim(struct recording *recording, bool wait)
{
    bool ok = false;
    if (!gsp_record_interim_file_is_done(&recording->interim, wait, &ok))
        return;
    if (recording->record)
        gsp_sample_record_set_helper(recording->record, 0);
    if (!ok)
        gsp_cli__term_line(&recording->term, "gsprof: cannot write %s", recording->interim.path);
    else if (!recording->parsed->globals.quiet)
        gsp_cli__term_line(&recording->term, "Wrote the samples so far to %s.",
                           recording->interim.path);
}

/* On SIGUSR1: writes the samples so far to a separate file, in the background. */
static void write_interim(struct recording *recording)
{
    struct gsp_err err = {0};
    report_interim(recording, false);
    if (!interim_requested || recording->interim.writer)
        return;
    interim_requested = 0;
    if (recording->stats.samples == 0)
        gsp_cli__term_line(&recording->term, "gsprof: no interim file: no samples yet");
    else if (gsp_record_interim_file_start(&recording->interim, &recording->file,
                                           &recording->opts->view, &err) < 0)
        gsp_cli__term_line(&recording->term, "gsprof: %s", err.msg);
    else
        gsp_sample_record_set_helper(recording->record, recording->interim.writer);
}

/* Searches for Python child processes that are not recorded, at growing intervals. */
static void find_others(struct recording *recording, int64_t elapsed_ns)
{
    if (recording->opts->sampling.subprocesses || recording->others_reported ||
        elapsed_ns < recording->others_due_ns)
        return;
    /* The children of a launcher that becomes Python later do not count. */
    if (elapsed_ns > 0 && recording->stats.processes == 0)
        return;
    struct gsp_buf found = {0};
    if (gsp_record_unsampled_processes_put(recording->pid, &found) > 0) {
        gsp_buf_free(&recording->others);
        recording->others = found;
    }
    recording->others_due_ns = elapsed_ns ? 2 * elapsed_ns : GSP_NS_PER_S;
}

static void report_others(struct recording *recording)
{
    const char *text = gsp_buf_cstr(&recording->others);
    if (!recording->others.len || recording->others_reported || recording->parsed->globals.quiet)
        return;
    recording->others_reported = true;
    gsp_cli__term_line(&recording->term, "Not recorded without --subprocesses: %s.",
                       text ? text : "");
}

static void report_others_at_end(struct recording *recording)
{
    recording->others_due_ns = 0;
    if (recording->end != GSP_RECORD_EXITED)
        find_others(recording, recording->stats.elapsed_ns);
    report_others(recording);
}

static int on_flushed(void *user, const struct gsp_sample_record_stats *stats, struct gsp_err *err)
{
    struct recording *recording = user;
    (void)err;
    if (!recording->parsed->globals.quiet) {
        const struct gsp_losses *lost = &stats->losses;
        gsp_cli__term_status(&recording->term,
                             "%.1f s  %" PRIu64 " sample%s  %.0f Hz  torn %" PRIu64
                             "  late %" PRIu64 "  failed %" PRIu64,
                             (double)stats->elapsed_ns / (double)GSP_NS_PER_S, stats->samples,
                             gsp_model_plural_s(stats->samples), rate_of(stats), lost->torn,
                             lost->late, lost->failed);
    }
    recording->stats = *stats;
    find_others(recording, stats->elapsed_ns);
    write_interim(recording);
    return GSP_OK;
}

/* Sets the title from the target's command line, and program to a name for the default file. */
static void set_title(struct recording *recording, char *program, size_t cap)
{
    gsp_cli__sampling_title(recording->parsed->args, recording->pid, recording->title,
                            sizeof(recording->title));

    struct gsp_sv first = gsp_sv_of(recording->title);
    first.len = strcspn(recording->title, " ");
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
static void default_output(const struct recording *recording, const char *program,
                           const struct gsp_format *format, char *out, size_t cap)
{
    char when[32];
    snprintf(out, cap, "%.60s-%d-%s%s", program, (int)recording->pid,
             gsp_fmt_file_time(gsp_realtime_ns(), when, sizeof(when)),
             format->extensions[0] ? format->extensions[0] : "");
}

/* Opens the output before the target is touched, so that an unwritable file is found early. */
static int open_file(struct recording *recording, struct gsp_err *err)
{
    const struct record_opts *opts = recording->opts;
    const struct gsp_format *format = NULL;
    char program[64];
    char name[160];
    set_title(recording, program, sizeof(program));
    int rc =
        gsp_source_format_find(opts->format, opts->output ? opts->output : ".svg", &format, err);
    if (rc < 0)
        return rc;
    default_output(recording, program, format, name, sizeof(name));
    const char *output = opts->output ? opts->output : name;
    rc = gsp_record_output_file_open(&recording->file, output, format, opts->force, err);
    return rc == GSP_OK ? gsp_record_stream_sink_init(&recording->sink, err) : rc;
}

static bool target_lives(const struct recording *recording)
{
    struct gsp_procinfo info;
    return gsp_proc_info(recording->pid, &info, NULL) == GSP_OK && info.state != 'Z' &&
           info.state != 'X';
}

/* Waits for the first SIGUSR2 of --until-signal. */
static void await_signal(const struct recording *recording)
{
    const struct timespec step = {.tv_nsec = 20 * GSP_NS_PER_MS};
    while (!begun && !stop_count && target_lives(recording))
        nanosleep(&step, NULL); /* a signal interrupts it */
}

static void report_begin(struct recording *recording)
{
    char inside[48] = "";
    struct gsp_procinfo info;
    gsp_cli__events_ready_pid(recording->pid);
    if (recording->parsed->globals.quiet)
        return;
    if (gsp_proc_info(recording->pid, &info, NULL) == GSP_OK && info.ns_pid &&
        info.ns_pid != recording->pid)
        snprintf(inside, sizeof(inside), ", %d in its container", (int)info.ns_pid);
    gsp_cli__term_line(
        &recording->term, "Recording %s (pid %d%s) at %.7g Hz. Press Ctrl-C to stop.",
        recording->title, (int)recording->pid, inside, recording->opts->sampling.rate_hz);
}

/* Prints the threads that held the GIL, with their share of the time. */
static void report_gil(struct recording *recording, const struct gsp_record *record)
{
    size_t count = gsp_model_profile_thread_count(recording->sink.profile);
    int64_t elapsed_ns = recording->stats.elapsed_ns;
    if (!recording->opts->sampling.gil || recording->parsed->globals.quiet || elapsed_ns <= 0)
        return;
    gsp_cli__term_line(&recording->term, "Time with the GIL:");
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_thread *thread = gsp_model_profile_thread_at(recording->sink.profile, i);
        const struct gsp_process *process =
            gsp_model_profile_process_at(recording->sink.profile, thread->process);
        gsp_auto_buf name = {0};
        int64_t held_ns = gsp_sample_record_gil_ns(record, i);
        if (held_ns == 0)
            continue;
        gsp_buf_term(&name, gsp_model_profile_string_at(recording->sink.profile, thread->name));
        const char *shown = gsp_buf_cstr(&name);
        gsp_cli__term_line(&recording->term,
                           "    %5.1f %%  thread %s (%" PRIu64 ") of process %" PRId32,
                           100.0 * (double)held_ns / (double)elapsed_ns, shown ? shown : "",
                           thread->os_id, process->pid);
    }
}

/* A run folder also gets the rows of the target's rings. A failure is not fatal: the samples are
 * still recorded. */
static void start_rings(struct recording *recording)
{
    struct gsp_err err = {0};
    const struct gsp_ring_drain_opts opts = {
        .folder = recording->file.output,
        .pid = recording->pid,
        .owner = recording->launch.pid > 0 ? gsp_record_launch_user()
                                           : gsp_ring_dir_owner(recording->pid),
        .subprocesses = recording->opts->sampling.subprocesses};
    if (gsp_source_is_run(recording->file.format) &&
        gsp_record_ring_drain_start(&opts, &recording->rings, &err) < 0)
        gsp_cli__term_line(&recording->term, "gsprof: cannot record the target's tables: %s",
                           err.msg);
}

static void stop_rings(struct recording *recording)
{
    struct gsp_err err = {0};
    if (gsp_record_ring_drain_stop(recording->rings, &recording->drained, &err) < 0)
        gsp_cli__term_line(&recording->term, "gsprof: the target's tables are incomplete: %s",
                           err.msg);
    recording->rings = NULL;
}

static int sample_target(struct recording *recording, struct gsp_err *err)
{
    const struct record_opts *opts = recording->opts;
    const struct gsp_record_opts record_opts =
        gsp_cli__sampling_begin(&opts->sampling, recording->pid, recording->launch.pid > 0);
    struct gsp_stream_sink *sink = &recording->sink;
    struct gsp_record *record = NULL;
    sink->flushed = on_flushed;
    sink->user = recording;
    int rc = gsp_sample_record_new(&record_opts, sink->profile, &sink->sink, &record, err);
    if (rc == GSP_OK)
        rc = gsp_record_output_file_replace_old(&recording->file, err);
    /* The stream encodes times relative to the period, which is known only now. */
    if (rc == GSP_OK)
        rc = gsp_record_stream_sink_open(sink, recording->file.fd, err);
    if (rc < 0) {
        gsp_sample_record_free(record);
        return rc;
    }
    if (opts->until_signal && !recording->parsed->globals.quiet)
        gsp_cli__term_line(&recording->term, "Waiting for SIGUSR2 (kill -USR2 %d).", (int)getpid());
    if (opts->until_signal)
        await_signal(recording);
    if (recording->launch.pid == 0)
        find_others(recording, 0);
    report_others(recording);
    report_begin(recording);
    recording->record = record;
    start_rings(recording);
    rc = gsp_sample_record_run(record, &stop_count, &recording->end, err);
    recording->record = NULL;
    recording->stats = *gsp_sample_record_stats(record);
    stop_rings(recording);
    gsp_cli__term_clear_status(&recording->term);
    report_interim(recording, true);
    report_gil(recording, record);
    gsp_sample_record_free(record);
    return rc;
}

/* Adds a hint to run "gsprof COMMAND" on the same target. */
static void add_again(const struct recording *recording, const char *command, const char *note,
                      struct gsp_hint *hint)
{
    char **args = recording->parsed->args;
    gsp_auto_buf program = {0};
    for (size_t i = 0; args[i]; i++) {
        gsp_buf_putc(&program, ' ');
        gsp_buf_shell(&program, gsp_sv_of(args[i]));
    }
    const char *text = gsp_buf_cstr(&program);
    if (!args[0])
        gsp_cli__hint_add(hint, note, "gsprof %s --pid %d", command, (int)recording->pid);
    else
        gsp_cli__hint_add(hint, note, "gsprof %s --%.160s", command,
                          text && program.len < 160 ? text : " COMMAND");
}

/* Whether threads without Python used CPU, which the samples do not show. */
static bool has_native_cpu(const struct recording *recording)
{
    return !recording->opts->sampling.native && !recording->opts->sampling.gil &&
           recording->stats.native_cpu.cpu_ns >= recording->stats.elapsed_ns / NATIVE_CPU_PART;
}

static void report_native_cpu(struct recording *recording)
{
    gsp_auto_buf words = {0};
    if (!has_native_cpu(recording))
        return;
    gsp_sample_native_cpu_put(&recording->stats.native_cpu, &words);
    gsp_auto_buf shown = {0};
    gsp_buf_term(&shown, gsp_buf_sv(&words));
    gsp_cli__term_line(&recording->term,
                       "Threads without Python used %s; --native shows their stacks.",
                       gsp_buf_cstr(&shown) ? gsp_buf_cstr(&shown) : "some CPU");
}

/* Explains a recording that ended before the first sample. */
static const char *explain_short(const struct recording *recording, struct gsp_hint *hint)
{
    const bool has_ended = recording->end == GSP_RECORD_EXITED;
    if (recording->opts->sampling.rate_hz < OFTEN_HZ)
        add_again(recording, "record --rate 1000", "more samples per second", hint);
    else if (!has_ended)
        add_again(recording, "record --duration 10", "more time", hint);
    return has_ended ? "the target exited before the first sample"
                     : "recording stopped before the first sample";
}

/* Returns why there are no samples, and adds hints. */
static const char *explain_empty(const struct recording *recording, struct gsp_hint *hint)
{
    const struct gsp_sample_record_stats *stats = &recording->stats;
    const struct record_opts *opts = recording->opts;
    if (opts->until_signal && !begun)
        return "recording did not start: no SIGUSR2 was received";
    if (stats->frames_left)
        return "no frame matched --include, --exclude or --below";
    if (stats->threads_left)
        return "no thread matched --thread";
    if (opts->sampling.gil && stats->no_gil_left) {
        add_again(recording, "record", "samples all running threads", hint);
        return "no sampled thread held the GIL";
    }
    if (!opts->sampling.idle && !opts->sampling.wall && stats->idle_left) {
        if (has_native_cpu(recording)) {
            add_again(recording, "record --native", "includes threads without Python", hint);
            add_again(recording, "record --idle", "includes waiting threads", hint);
            return "all Python threads were waiting, and waiting threads are left out";
        }
        add_again(recording, "record --idle", "includes waiting threads", hint);
        if (!recording->parsed->args[0])
            add_again(recording, "dump", "shows what it waits for", hint);
        return "all threads were waiting, and waiting threads are left out";
    }
    if (opts->sampling.blocking && stats->losses.failed) {
        add_again(recording, "record --blocking --duration 30", "more time", hint);
        return "no thread stopped within the time limit: the machine is overloaded";
    }
    if (stats->losses.torn + stats->losses.failed) {
        add_again(recording, "record --blocking", "stops threads while reading them", hint);
        return "every stack was torn or unreadable";
    }
    if (recording->end == GSP_RECORD_EXITED && stats->losses.skipped) {
        if (!opts->sampling.subprocesses)
            add_again(recording, "record --subprocesses", "if it starts Python", hint);
        return "the target exited without running Python";
    }
    if (recording->end == GSP_RECORD_EXITED || stats->ticks == 0)
        return explain_short(recording, hint);
    if (stats->processes == 0)
        return "no Python interpreter was started";
    return "the interpreter ran no Python code";
}

static int report_empty(struct recording *recording)
{
    struct gsp_hint hint = {.more = "gsprof help sampling"};
    gsp_auto_buf text = {0};
    snprintf(hint.why, sizeof(hint.why), "%s", explain_empty(recording, &hint));
    snprintf(hint.what, sizeof(hint.what), "no samples of %s", recording->title);
    gsp_cli__hint_print(&hint, &recording->term, &text);
    gsp_cli__events_error(&(struct gsp_err){.code = GSP_E_EMPTY}, gsp_buf_sv(&text));
    gsp_cli__term_write(&recording->term, &text);
    report_native_cpu(recording);
    report_others_at_end(recording);
    return gsp_err_exit_status(GSP_E_EMPTY);
}

static const char *end_text(const struct recording *recording)
{
    switch (recording->end) {
    case GSP_RECORD_DURATION:
        return "--duration elapsed";
    case GSP_RECORD_EXITED:
        return recording->launch.pid > 0 ? "the program exited" : "the process exited";
    case GSP_RECORD_STOPPED:
        break;
    }
    return ended ? "received SIGUSR2" : "interrupted";
}

/* The last line of the summary is always the command to run next. */
static void report_next(struct recording *recording)
{
    const char *output = recording->file.output;
    const char *name = recording->file.format->name;
    const struct {
        const char *format;
        const char *command;
    } viewers[] = {
        {"svg", "xdg-open"}, {"pstats", "python3 -m pstats"}, {"pprof", "go tool pprof -top"}};
    const bool is_ours = recording->file.format->read || gsp_source_is_run(recording->file.format);
    const char *command = is_ours ? "gsprof report" : NULL;
    if (gsp_source_is_run(recording->file.format))
        gsp_cli__term_line(&recording->term,
                           "    gsprof query %s \"SELECT * FROM gsprof.hot_functions() LIMIT 20\"",
                           output);
    for (size_t i = 0; i < GSP_COUNT(viewers) && !is_ours; i++)
        if (strcmp(viewers[i].format, name) == 0)
            command = viewers[i].command;
    if (command)
        gsp_cli__term_line(&recording->term, "    %s %s", command, output);
    else
        gsp_cli__term_line(&recording->term, "    open %s in https://ui.perfetto.dev", output);
}

/* How native stacks were captured, and how long threads were stopped for it. */
static void report_native(struct recording *recording)
{
    const struct gsp_native_stats *native = &recording->stats.native;
    if (native->stacks == 0)
        return;
    gsp_cli__term_line(&recording->term,
                       "Native stacks: %.1f %% complete; %" PRIu64 " from idle threads, %" PRIu64
                       " by perf events, %" PRIu64 " by stopping.",
                       100.0 * (double)native->whole / (double)native->stacks,
                       native->by_way[GSP_CAPTURE_IDLE], native->by_way[GSP_CAPTURE_EVENT],
                       native->by_way[GSP_CAPTURE_STOP]);
    gsp_log_info("record",
                 "a sampling pass took at most %.1f ms of CPU; %" PRIu64 " of %" PRIu64
                 " took longer than the period",
                 (double)native->tick_max_ns / 1e6, native->long_ticks, recording->stats.ticks);
    if (native->by_way[GSP_CAPTURE_STOP])
        gsp_cli__term_line(&recording->term,
                           "Stop time: %.0f us median, %.0f us p99, %.0f us longest.",
                           (double)gsp_sample_native_stats_stop_ns(native, 0.5) / 1000,
                           (double)gsp_sample_native_stats_stop_ns(native, 0.99) / 1000,
                           (double)native->stop_max_ns / 1000);
}

static void report_summary(struct recording *recording)
{
    const struct gsp_sample_record_stats *stats = &recording->stats;
    gsp_auto_buf lost = {0};
    char elapsed[32];
    gsp_model_losses_put(&stats->losses, &lost);
    const char *losses = gsp_buf_cstr(&lost);
    gsp_cli__term_line(&recording->term, "%" PRIu64 " sample%s in %s (%.1f Hz); stopped: %s.",
                       stats->samples, gsp_model_plural_s(stats->samples),
                       gsp_fmt_duration(stats->elapsed_ns, elapsed, sizeof(elapsed)),
                       rate_of(stats), end_text(recording));
    gsp_cli__term_line(&recording->term, "Lost: %s.", losses ? losses : "unknown");
    report_native(recording);
    report_native_cpu(recording);
    if (stats->frames_left + stats->threads_left)
        gsp_cli__term_line(
            &recording->term,
            "Left out: %" PRIu64 " stack%s without a matching frame, %" PRIu64 " of other threads.",
            stats->frames_left, gsp_model_plural_s(stats->frames_left), stats->threads_left);
    report_others_at_end(recording);
    if (strcmp(recording->file.output, "-") == 0)
        return;
    struct stat info;
    const bool is_run = gsp_source_is_run(recording->file.format);
    if (recording->drained.rows + recording->drained.lost)
        gsp_cli__term_line(&recording->term,
                           "Target's tables: %" PRIu64 " row%s; %" PRIu64 " lost.",
                           recording->drained.rows, gsp_model_plural_s(recording->drained.rows),
                           recording->drained.lost);
    if (stat(recording->file.output, &info) == 0)
        gsp_cli__term_line(&recording->term, "Wrote %s (%s, %.3g KB):", recording->file.output,
                           recording->file.format->name,
                           (double)(is_run ? gsp_source_run_bytes(recording->file.output)
                                           : (uint64_t)info.st_size) /
                               1024);
    report_next(recording);
}

static int fail(const struct recording *recording, const struct gsp_err *err)
{
    char **args = recording->parsed->args;
    return gsp_cli__fail(recording->parsed,
                         &(struct gsp_hint_context){.pid = recording->pid,
                                                    .path = recording->opts->output,
                                                    .program = args[0],
                                                    .blocking = recording->opts->sampling.blocking},
                         err);
}

/* Converts the file to its format and prints the summary. */
static int conclude(struct recording *recording, int rc, struct gsp_err *err)
{
    struct gsp_err late = {0};
    int finished = gsp_record_stream_sink_finish(&recording->sink, &late);
    gsp_record_stream_sink_free(&recording->sink); /* the conversion needs the memory */
    if (rc == GSP_OK && finished < 0) {
        rc = finished;
        *err = late;
    }
    if (recording->stats.samples == 0) {
        gsp_record_output_file_discard(&recording->file);
        return rc < 0 ? fail(recording, err) : report_empty(recording);
    }
    struct gsp_err convert = {0};
    int converted =
        gsp_record_output_file_finish(&recording->file, &recording->opts->view, &convert);
    if (converted < 0) {
        int status = fail(recording, &convert);
        gsp_cli__term_line(&recording->term, "The samples are kept. To convert them:");
        gsp_cli__term_line(&recording->term, "    gsprof convert -i %s -o FILE",
                           recording->file.stream_path);
        return status;
    }
    if (rc < 0)
        return fail(recording, err);
    gsp_cli__events_done((int64_t)recording->stats.samples, recording->file.output);
    if (!recording->parsed->globals.quiet)
        report_summary(recording);
    return 0;
}

static int record(struct recording *recording)
{
    struct gsp_err err = {0};
    char **args = recording->parsed->args;
    int rc = GSP_OK;
    if (args[0]) {
        rc = gsp_record_launch_new(&recording->launch, args, &err);
        recording->pid = recording->launch.pid;
    }
    if (rc == GSP_OK)
        rc = open_file(recording, &err);
    if (rc < 0) {
        gsp_record_launch_abort(&recording->launch);
        if (recording->file.fd >= 0)
            gsp_record_output_file_discard(&recording->file);
        return rc == GSP_E_USAGE ? gsp_cli__misuse(recording->parsed, "%s", err.msg)
                                 : fail(recording, &err);
    }
    catch_signals(recording);
    if (args[0]) {
        rc = gsp_record_launch_go(&recording->launch, args[0], &err);
        if (rc < 0) {
            gsp_record_output_file_discard(&recording->file);
            return fail(recording, &err);
        }
        child_pid = recording->launch.pid;
    }
    rc = sample_target(recording, &err);
    return conclude(recording, rc, &err);
}

static int run(const struct gsp_parsed *parsed)
{
    const struct record_opts *opts = parsed->opts;
    if (opts->pid && parsed->arg_count)
        return gsp_cli__misuse(parsed, "--pid and a command exclude each other");
    if (!opts->pid && !parsed->arg_count)
        return gsp_cli__misuse(parsed, "record needs a target: PID or -- COMMAND");
    struct gsp_err err = {0};
    if (gsp_cli__sampling_check(&opts->sampling, &err) != GSP_OK)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    struct recording recording = {.parsed = parsed,
                                  .opts = opts,
                                  .pid = (pid_t)opts->pid,
                                  .launch = {.gate = -1, .report = -1},
                                  .file = {.fd = -1}};
    gsp_cli__term_init(&recording.term, STDERR_FILENO, parsed->globals.color);
    if (opts->pid && !opts->sampling.subprocesses && !opts->sampling.native)
        gsp_cli__await_python(recording.pid, false, parsed);
    int status = record(&recording);
    gsp_record_stream_sink_free(&recording.sink);
    gsp_record_output_file_free(&recording.file);
    gsp_buf_free(&recording.others);
    if (recording.launch.pid > 0) {
        if (gsp_record_launch_is_running(&recording.launch) && !parsed->globals.quiet)
            gsp_cli__term_line(&recording.term, "%s is still running; waiting for it to exit.",
                               recording.title);
        stop_count = 1; /* everything is saved: the next signal ends gsprof */
        abort_message_len = 0;
        int child_status = gsp_record_launch_wait(&recording.launch);
        child_pid = 0;
        return child_status ? child_status : status;
    }
    return status;
}

const struct gsp_command gsp_cmd_record = {
    .name = "record",
    .summary = "Sample the stacks of a process or command, and write a profile",
    .synopsis = "[OPTIONS] (PID | -- COMMAND...)",
    .about =
        "Reads the stacks of a Python process from outside, at a fixed rate, without stopping or "
        "changing it, and writes a profile.\n"
        "The extension of the output selects the format: an interactive flame graph (.svg), "
        "pstats (.prof), speedscope, pprof, folded stacks, JSON, or .gsp, a compact file that is "
        "written during the recording. A folder (a name that ends in /) stores tables for SQL, "
        "including the rows that the target itself writes.\n"
        "Ctrl-C stops the recording and writes the output; a second Ctrl-C exits immediately. "
        "SIGUSR1 writes the samples so far to a separate file (profile.1.svg, profile.2.svg, ...) "
        "and continues. gsprof exits with the status of COMMAND.\n"
        "\"(import)\" replaces the frames of the import system; \"(garbage collection)\" marks "
        "time in the garbage collector (Python 3.9 and later).",
    GSP_COMMAND_OPTS(OPTS, struct record_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .takes_program = true,
    .run = run,
};
