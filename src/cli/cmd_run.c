/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/events.h"
#include "cli/hint.h"
#include "cli/ring_settings.h"
#include "cli/run_fault.h"
#include "cli/run_status.h"
#include "inject/package_dir.h"
#include "record/announcements.h"
#include "record/follow.h"
#include "record/followers.h"
#include "record/launch.h"
#include "record/ring_drain.h"
#include "record/run_dir.h"
#include "record/run_file.h"
#include "record/run_finish.h"
#include "record/run_signals.h"
#include "report/run_summary.h"
#include "sample/record.h"
#include "wire/ring.h"

#define POLL_NS             (100 * GSP_NS_PER_MS)
/* Writing a segment of every table costs a few hundredths of a second. */
#define SEGMENT_NS          (30 * GSP_NS_PER_S)
#define RATE_HZ             100.0
/* As in shells: the program exists but cannot be executed; 127 is for a missing program. */
#define EXIT_NOT_EXECUTABLE 126

struct run_opts {
    const char *name;
    const char *output;
    const char *torch;
    double rate_hz;
    int64_t ring_rows;
    bool no_memory;
    bool no_torch;
    bool no_stacks;
    bool no_metrics;
    bool force;
};

static const struct gsp_opt OPTS[] = {
    {.name = "name",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct run_opts, name),
     .arg = "NAME",
     .default_text = "the program's name and the time",
     .help = "Store the run in ./gsprof-runs/NAME."},
    {.name = "output",
     .letter = 'o',
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct run_opts, output),
     .arg = "DIR",
     .help = "Store the run in this folder instead."},
    {.name = "rate",
     .letter = 'r',
     .kind = GSP_OPT_REAL,
     .offset = offsetof(struct run_opts, rate_hz),
     .arg = "HZ",
     .fallback = "100",
     .min = GSP_RATE_MIN_HZ,
     .max = 10000,
     .help = "Samples per second."},
    {.name = "torch",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct run_opts, torch),
     .arg = "SPEC",
     .default_text = "$GSPROF_TORCH_PROFILING, else on",
     .help = "How to trace PyTorch: on, off, the share of steps (0.1), or settings such as "
             "rate=0.1,backward=on."},
    {.name = "ring-rows",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct run_opts, ring_rows),
     .arg = "ROWS",
     .min = 1,
     .max = GSP_RING_ROWS_LIMIT,
     .default_text = "$GSPROF_RING_ROWS, else ring.rows of config.toml, else 10000",
     .help = "Rows that each thread of the program keeps in memory per table."},
    GSP_OPT_SWITCH(struct run_opts, no_memory, "no-memory", 0, false,
                   "Do not count allocations by call site. GSPROF_MEMORY selects the method "
                   "(default: sampled)."),
    GSP_OPT_SWITCH(struct run_opts, no_torch, "no-torch", 0, false,
                   "Do not trace PyTorch. Same as --torch off."),
    GSP_OPT_SWITCH(struct run_opts, no_stacks, "no-stacks", 0, false, "Do not sample stacks."),
    GSP_OPT_SWITCH(struct run_opts, no_metrics, "no-metrics", 0, false,
                   "Do not collect memory, CPU, GPU and machine metrics."),
    GSP_OPT_FORCE(struct run_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof run -- python3 train.py", "Record stacks, metrics and PyTorch modules"},
    {"gsprof run --name base -- torchrun train.py", "Record all ranks into gsprof-runs/base"},
    {"gsprof run --torch rate=0.1,backward=on -- python3 train.py",
     "Trace one step in ten, including the backward pass"},
    {"gsprof run --no-torch --no-memory --rate 20 -- python3 serve.py",
     "Record only stacks and metrics, at 20 Hz"},
};

struct run {
    const struct gsp_parsed *parsed;
    const struct run_opts *opts;
    struct gsp_term term;
    struct gsp_run_status status_line;
    struct gsp_launch launch;
    pid_t pid;
    struct gsp_run_dir dir;
    char python_dir[GSP_PACKAGE_DIR_MAX];
    struct gsp_run_file file; /* in which processes report their state */
    bool is_chosen;           /* GSPROF was set: the user chose the recorded processes */
    struct gsp_ring_drain *rings;
    struct gsp_followers *followers; /* NULL: no followers for child processes */
    struct gsp_follow_result followed;
    size_t no_space;                   /* child processes without space for their stacks */
    struct gsp_ring_dir_limits limits; /* on what exited processes keep */
    int status;                        /* of the program */
    char **environment;                /* the program's, unmodified */
    bool is_unable;                    /* recording is impossible: run the program without it */
};

/* Set when gsprof has used half of its CPU time limit. */
static volatile sig_atomic_t is_cpu_short;

/* `ulimit -t` is meant for the program but kills gsprof too. Stop sampling before that happens, so
 * that gsprof can still return the program's exit status. */
static void check_cpu_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_max != RLIM_INFINITY &&
        (rlim_t)(gsp_cputime_ns() / (GSP_NS_PER_S / 2)) >= limit.rlim_max)
        is_cpu_short = 1;
}

static void on_poll(void *user)
{
    struct run *run = user;
    gsp_record_run_signals_poll();
    check_cpu_limit();
    const int stopped_by = gsp_record_launch_stop_signal(&run->launch);
    if (stopped_by) {
        /* The shell owns the terminal while gsprof is stopped. */
        gsp_cli__run_status_hide(&run->status_line);
        gsp_record_run_signals_stop(stopped_by);
    }
    gsp_cli__run_status_update(&run->status_line, run->rings);
}

static void on_row(void *user, enum gsp_table_id table, const void *row)
{
    struct run *run = user;
    gsp_cli__run_status_row(&run->status_line, table, row);
}

/* ------------------------------------------------------------------------------- begin */

/* Creates the temporary file in which the processes of the run report their state. A failure is not
 * fatal. */
static void make_run_file(struct run *run)
{
    const char *const folders[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", run->dir.path};
    for (size_t i = 0; i < GSP_COUNT(folders); i++)
        if (gsp_record_run_file_make(&run->file, folders[i]))
            return;
    if (!run->parsed->globals.quiet)
        gsp_cli__term_line(
            &run->term, "gsprof: errors inside processes are not reported: no temporary file: %s",
            strerror(errno));
}

/* The sampling period in seconds; 0: no sampling. */
static double period_of(const struct run_opts *opts)
{
    return opts->no_stacks ? 0 : 1.0 / opts->rate_hz;
}

/* GSPROF_SAMPLE_RATE overrides the default of --rate, but not a value given. */
static bool is_rate_given(const struct run_opts *opts)
{
    return opts->rate_hz < RATE_HZ || opts->rate_hz > RATE_HZ;
}

static void put_env(const char *name, const char *value, bool replace)
{
    gsp_ignore(setenv(name, value, replace) < 0);
}

/* Sets the environment variables that load the package in the program. */
static int set_environment(struct run *run, struct gsp_err *err)
{
    run->is_chosen = getenv("GSPROF") != NULL;
    const int rc = gsp_inject_package_set_env(run->python_dir, err);
    if (rc < 0)
        return rc;
    make_run_file(run);
    put_env("GSPROF_RUN_FILE", run->file.path, true);
    const char *torch = run->opts->no_torch ? "off" : run->opts->torch;
    put_env("GSPROF_TORCH_PROFILING", torch ? torch : "on", torch != NULL);
    put_env("GSPROF_MEMORY", run->opts->no_memory ? "off" : "sampled", run->opts->no_memory);
    char period[32];
    snprintf(period, sizeof(period), "%.9g", period_of(run->opts));
    gsp_cli__ring_rows_export(run->opts->ring_rows);
    put_env("GSPROF_SAMPLE_RATE", period, run->opts->no_stacks || is_rate_given(run->opts));
    return GSP_OK;
}

/* Copies the array of pointers, which setenv() modifies. */
static char **copy_environment(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof(*copy));
    if (copy)
        memcpy(copy, environ, count * sizeof(*copy));
    return copy;
}

/* Replaces gsprof by the program. Returns only if it cannot be started. */
static int run_unrecorded(struct run *run, struct gsp_err *err)
{
    gsp_cli__term_line(&run->term, "gsprof: running the program without recording: %s", err->msg);
    if (run->environment) {
        environ = run->environment;
        run->environment = NULL; /* now owned by the process */
    }
    return gsp_record_launch_exec(run->parsed->args, err);
}

/* If the folder is not writable, the program still runs, but nothing is saved. */
static int make_folder(struct run *run, struct gsp_err *err)
{
    const struct gsp_run_dir_opts opts = {.name = run->opts->name,
                                          .output = run->opts->output,
                                          .force = run->opts->force,
                                          .argv = run->parsed->args};
    struct gsp_err cause = {0};
    const int rc = gsp_record_run_dir_create(&run->dir, &opts, &cause);
    if (rc == GSP_E_NOWRITE) {
        gsp_cli__term_line(&run->term, "gsprof: the run is not saved: %s", cause.msg);
        return GSP_OK;
    }
    if (rc < 0)
        *err = cause;
    return rc;
}

static void start_rings(struct run *run)
{
    struct gsp_err err = {0};
    const struct gsp_ring_drain_opts rings = {.folder = run->dir.handle,
                                              .shown = run->dir.path,
                                              .pid = run->pid,
                                              .owner = gsp_record_launch_user(),
                                              .subprocesses = true,
                                              .announcements = &run->file,
                                              .segment_age_ns = SEGMENT_NS,
                                              .now = true};
    if (run->dir.path[0] && gsp_record_ring_drain_start(&rings, &run->rings, &err) < 0)
        gsp_cli__term_line(&run->term, "gsprof: the run is not saved: %s", err.msg);
}

/* Creates the child process of the program. Fails with IO if the machine lacks what recording
 * needs: descriptors, processes, /proc. */
static int prepare(struct run *run, struct gsp_err *err)
{
    run->environment = copy_environment();
    int rc = set_environment(run, err);
    if (rc < 0)
        return rc;
    gsp_record_run_signals_prepare(run->parsed->argv, run->parsed->args);
    return gsp_record_launch_new(&run->launch, run->parsed->args, err);
}

static int start(struct run *run, struct gsp_err *err)
{
    gsp_ring_dirs_sweep(&run->limits); /* before the program creates its rings */
    /* Before --force removes the existing run. */
    int rc = gsp_record_launch_check(run->parsed->args[0], err);
    if (rc == GSP_OK)
        rc = make_folder(run, err);
    if (rc == GSP_OK) {
        rc = prepare(run, err);
        run->is_unable = rc == GSP_E_IO;
    }
    if (rc == GSP_OK) {
        run->pid = run->launch.pid;
        gsp_record_run_signals_begin(run->pid);
        rc = gsp_record_launch_go(&run->launch, run->parsed->args[0], err);
    }
    if (rc == GSP_OK) {
        gsp_cli__events_ready_pid(run->pid);
        /* Only now, so that the program inherits the original limits. */
        gsp_cli__raise_descriptors();
        gsp_record_launch_drop_descriptors();
        gsp_ignore(gsp_record_followers_start(&run->file, run->pid, &run->followers, NULL) < 0);
        start_rings(run);
    } else {
        gsp_record_run_dir_discard(&run->dir);
    }
    return rc;
}

/* -------------------------------------------------------------------------------- end */

/* Returns the first process that has rings, or 0, and counts all of them. */
static pid_t first_with_rings(const pid_t *pids, size_t count, size_t *with_rings)
{
    pid_t first = 0;
    *with_rings = 0;
    for (size_t i = 0; i < count; i++) {
        struct gsp_ring_dir dir;
        if (gsp_ring_dir_find(pids[i], &dir, NULL) != GSP_OK || dir.rings == 0)
            continue;
        first = first ? first : pids[i];
        (*with_rings)++;
    }
    return first;
}

static void report_next(struct run *run, pid_t pid)
{
    gsp_cli__term_line(&run->term, "Next: gsprof query %d 'FROM gsprof.hot_functions()'", (int)pid);
    gsp_cli__term_line(&run->term, "      gsprof report %d", (int)pid);
}

/* Reports why spans, steps or modules are missing. */
static void report_fault(struct run *run, const struct gsp_announcements *announced)
{
    /* Only Python processes load the package. */
    const bool is_python = run->followed.samples > 0 && !run->is_chosen;
    gsp_auto_buf line = {0};
    if (!run->file.path[0] || (!announced->inside && !is_python))
        return;
    gsp_cli__run_fault_explain(announced, run->python_dir, run->parsed->args[0], &line);
    const char *text = gsp_buf_cstr(&line);
    if (text && *text)
        gsp_cli__term_line(&run->term, "%s", text);
}

/* Reports data that was dropped because shared memory was full. */
static void report_no_space(struct run *run)
{
    const struct gsp_follow_result *followed = &run->followed;
    const bool stacks = followed->no_space_for_stacks && !run->opts->no_stacks;
    const bool metrics = followed->no_space_for_metrics && !run->opts->no_metrics;
    const size_t children = run->opts->no_stacks ? 0 : run->no_space;
    if (!stacks && !metrics && children == 0)
        return;
    if (stacks || metrics)
        gsp_cli__term_line(&run->term, "gsprof: %s%s%s not recorded: %s", stacks ? "stacks" : "",
                           stacks && metrics ? " and " : "", metrics ? "metrics" : "",
                           followed->space_err.msg);
    if (children > 0)
        gsp_cli__term_line(
            &run->term, "gsprof: stacks of %zu child process%s not recorded: no space for tables",
            children, children == 1 ? "" : "es");
    gsp_cli__term_line(
        &run->term,
        "    try   a larger /dev/shm (docker run --shm-size 1g), or XDG_RUNTIME_DIR=FOLDER "
        "with free space");
}

/* Without a folder: prints a summary of the rings. */
static void report_rings(struct run *run, const struct gsp_announcements *announced)
{
    size_t with_rings = 0;
    size_t functions = 0;
    struct gsp_err err = {0};
    const pid_t first = first_with_rings(announced->pids, announced->count, &with_rings);
    if (with_rings == 0) {
        gsp_cli__term_line(&run->term, "gsprof: nothing was recorded%s%s",
                           run->followed.stacks_err.code ? ": " : "; is the program Python?",
                           run->followed.stacks_err.msg);
        return;
    }
    gsp_auto_buf summary = {0};
    const int rc =
        gsp_report_run_summary_put(announced->pids, announced->count, &summary, &functions, &err);
    gsp_cli__term_write(&run->term, &summary);
    if (rc < 0)
        gsp_cli__term_line(&run->term, "gsprof: no summary: %s", err.msg);
    else if (functions == 0)
        gsp_cli__term_line(&run->term, "gsprof: no running stacks were sampled");
    report_fault(run, announced);
    report_no_space(run);
    report_next(run, first);
}

static void print_part(struct run *run, struct gsp_buf *part)
{
    if (part->len > 0)
        gsp_cli__term_write(&run->term, part);
}

/* Prints the verdict, problems, and last the commands to run next. */
static void report_result(struct run *run, const struct gsp_announcements *announced,
                          struct gsp_run_finish_result *result)
{
    gsp_auto_buf quoted = {0};
    gsp_auto_buf former = {0};
    gsp_buf_shell(&quoted, gsp_sv_of(run->dir.path));
    gsp_buf_shell(&former, gsp_sv_of(result->previous));
    const char *folder = gsp_buf_cstr(&quoted);
    const char *other = gsp_buf_cstr(&former);
    const char *next = result->next.len > 0 ? "      " : "Next: ";
    print_part(run, &result->verdict);
    print_part(run, &result->notes);
    report_fault(run, announced);
    report_no_space(run);
    if (result->err.code)
        gsp_cli__term_line(&run->term, "gsprof: the run is incomplete: %s", result->err.msg);
    print_part(run, &result->next);
    if (!folder || !other)
        return;
    if (result->failed_early) {
        gsp_cli__term_line(&run->term, "The recording is in %s.", folder);
        return;
    }
    if (result->has_report)
        gsp_cli__term_line(&run->term, "%sxdg-open %s/" GSP_RUN_REPORT, next, folder);
    else
        gsp_cli__term_line(&run->term, "%sgsprof report %s", next, folder);
    if (result->previous[0])
        gsp_cli__term_line(&run->term, "      gsprof compare %s %s", other, folder);
}

/* Stops recording while the program continues. The user can make a report of what is on disk. */
static void stop_recording(struct run *run)
{
    struct gsp_err err = {0};
    struct gsp_store_drain_stats unused;
    gsp_auto_buf quoted = {0};
    gsp_buf_shell(&quoted, gsp_sv_of(run->dir.path));
    const char *folder = run->rings ? gsp_buf_cstr(&quoted) : NULL;
    gsp_cli__run_status_hide(&run->status_line);
    gsp_cli__term_line(&run->term, "gsprof: recording stopped, the program continues: gsprof has "
                                   "used half of its CPU time limit (ulimit -t)");
    if (gsp_record_ring_drain_stop(run->rings, &unused, &err) < 0)
        gsp_cli__term_line(&run->term, "gsprof: the run is incomplete: %s", err.msg);
    run->rings = NULL;
    if (folder)
        gsp_cli__term_line(&run->term, "Next: gsprof report %s", folder);
}

static void finish(struct run *run, int64_t took_ns)
{
    const bool quiet = run->parsed->globals.quiet;
    struct gsp_announcements announced;
    struct gsp_run_finish_result result = {0};
    char took[32];
    gsp_record_announcements_read(run->file.fd, run->pid, &announced);
    if (!quiet)
        gsp_cli__term_line(&run->term, "gsprof: the program ran for %s and exited with status %d.",
                           gsp_fmt_duration(took_ns, took, sizeof(took)), run->status);
    if (!run->rings) {
        gsp_cli__events_done((int64_t)run->followed.samples, NULL);
        if (!quiet && !is_cpu_short)
            report_rings(run, &announced);
        return;
    }
    const struct gsp_run_finish_opts what = {.dir = &run->dir,
                                             .rings = run->rings,
                                             .announced = &announced,
                                             .followed = &run->followed,
                                             .status = run->status,
                                             .interrupted = gsp_record_run_signals_interrupted()};
    if (!quiet)
        gsp_cli__term_status(&run->term, "gsprof: writing %s", run->dir.path);
    gsp_record_run_finish(&what, &result);
    run->rings = NULL;
    gsp_cli__term_clear_status(&run->term);
    if (result.err.code)
        gsp_cli__events_error(&result.err, gsp_sv_of(result.err.msg));
    else
        gsp_cli__events_done((int64_t)run->followed.samples, run->dir.path);
    if (!quiet)
        report_result(run, &announced, &result);
    else if (result.err.code)
        gsp_cli__term_line(&run->term, "gsprof: the run is incomplete: %s", result.err.msg);
    gsp_buf_free(&result.verdict);
    gsp_buf_free(&result.next);
    gsp_buf_free(&result.notes);
}

static void follow(struct run *run)
{
    struct gsp_err err = {0};
    const double period_s = period_of(run->opts);
    const struct timespec pause = {.tv_nsec = POLL_NS};
    const struct gsp_follow_opts how = {.pid = run->pid,
                                        .period_s = run->opts->no_stacks ? 0 : -1,
                                        .begin_s = period_s,
                                        .is_child = true,
                                        .tree = true,
                                        .no_metrics = run->opts->no_metrics,
                                        .limits = &run->limits,
                                        .poll = on_poll,
                                        .row = on_row,
                                        .user = run,
                                        .stop = &is_cpu_short};
    if (gsp_record_follow_run(&how, &run->followed, &err) < 0) {
        run->followed.stacks_err = err;
        run->followed.space_err = err;
        run->followed.no_space_for_stacks = run->followed.no_space_for_metrics =
            err.code == GSP_E_NOWRITE || err.code == GSP_E_PERM;
    }
    if (is_cpu_short)
        stop_recording(run);
    /* The program may still run if following failed. */
    while (gsp_record_launch_is_running(&run->launch)) {
        on_poll(run);
        nanosleep(&pause, NULL);
    }
    gsp_record_run_signals_end();
    run->status = gsp_record_launch_wait(&run->launch);
    gsp_cli__run_status_hide(&run->status_line);
}

static int run_command(const struct gsp_parsed *parsed)
{
    struct run run = {.parsed = parsed,
                      .opts = parsed->opts,
                      .launch = {.gate = -1, .report = -1},
                      .file = {.fd = -1}};
    struct gsp_err err = {0};
    if (parsed->arg_count == 0)
        return gsp_cli__misuse(parsed, "run needs a program: gsprof run -- python3 train.py");
    if (run.opts->no_torch && run.opts->torch)
        return gsp_cli__misuse(parsed, "--torch and --no-torch exclude each other");
    if (run.opts->name && run.opts->output)
        return gsp_cli__misuse(parsed, "--name and --output exclude each other");
    gsp_record_run_signals_block();
    gsp_cli__term_init(&run.term, STDERR_FILENO, parsed->globals.color);
    gsp_cli__run_status_init(&run.status_line, STDERR_FILENO, parsed->globals.quiet);
    const int64_t began_ns = gsp_now_ns();
    run.limits = gsp_cli__ring_limits(parsed);
    int rc = start(&run, &err);
    if (rc == GSP_OK) {
        follow(&run);
        run.no_space = gsp_record_followers_stop(run.followers);
        finish(&run, gsp_now_ns() - began_ns);
    }
    gsp_record_launch_abort(&run.launch);
    gsp_record_run_signals_close();
    gsp_record_run_file_remove(&run.file);
    gsp_record_run_dir_free(&run.dir);
    if (run.is_unable)
        rc = run_unrecorded(&run, &err);
    free(run.environment);
    if (rc == GSP_OK) {
        if (run.launch.signal)
            gsp_record_run_signals_raise(run.launch.signal);
        return run.status;
    }
    /* A missing file belongs to gsprof's installation, not to the output. */
    const char *path = rc == GSP_E_NOFILE ? NULL : run.opts->output;
    const int status = gsp_cli__fail(
        parsed,
        &(struct gsp_hint_context){
            .command = "run", .program = parsed->args[0], .path = path, .argv = parsed->argv},
        &err);
    return rc == GSP_E_NOEXEC && err.sys != ENOENT ? EXIT_NOT_EXECUTABLE : status;
}

const struct gsp_command gsp_cmd_run = {
    .name = "run",
    .summary = "Run a program, record everything, and print where its time went",
    .synopsis = "[OPTIONS] -- PROGRAM [ARGS...]",
    .about = "Starts a program and records it and its children: stacks and metrics from outside, "
             "spans, steps and PyTorch modules from inside. The program's Python needs no "
             "installation: gsprof adds its package to PYTHONPATH, and an existing sitecustomize "
             "still runs.\n"
             "The folder gsprof-runs/NAME stores the tables as Parquet files, the profile, and "
             "report.html, which opens in any browser, even if the program crashes or is killed. "
             "At the end, gsprof prints a verdict of at most ten lines and commands to run next. "
             "If gsprof itself is killed, `gsprof report FOLDER` makes a report from the files on "
             "disk. If the folder is not writable, the program still runs, but nothing is saved.\n"
             "gsprof forwards signals to the program and exits with its status; if a signal kills "
             "the program, gsprof ends by the same signal.",
    GSP_COMMAND_OPTS(OPTS, struct run_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .takes_program = true,
    .run = run_command,
};
