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
#include "record/run_finish.h"
#include "record/run_signals.h"
#include "report/run_summary.h"
#include "sample/dump.h"
#include "sample/record.h"
#include "wire/ring.h"

#define BEAT_NS             (100 * GSP_NS_PER_MS)
/* Each time costs some hundredths of a second for all tables together. */
#define SEGMENT_NS          (30 * GSP_NS_PER_S)
#define RATE_HZ             100.0
#define PIDS_FILE           "/gsprof-run.XXXXXX"
/* As shells have it: a program that is there and cannot be run; 127 is for one that is missing. */
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
     .help = "Keep the run as gsprof-runs/NAME in this folder. Default: the name of the program "
             "and the time."},
    {.name = "output",
     .letter = 'o',
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct run_opts, output),
     .arg = "DIR",
     .help = "Keep the run in this folder."},
    {.name = "rate",
     .letter = 'r',
     .kind = GSP_OPT_REAL,
     .offset = offsetof(struct run_opts, rate_hz),
     .arg = "HZ",
     .fallback = "100",
     .min = GSP_RATE_MIN_HZ,
     .max = 10000,
     .help = "Looks at the stacks each second."},
    {.name = "torch",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct run_opts, torch),
     .arg = "SPEC",
     .help = "How PyTorch is traced: on, off, the share of steps (0.1), or words such as "
             "rate=0.1,backward=on. Default: GSPROF_TORCH_PROFILING, else on."},
    {.name = "ring-rows",
     .kind = GSP_OPT_INT,
     .offset = offsetof(struct run_opts, ring_rows),
     .arg = "ROWS",
     .min = 1,
     .max = GSP_RING_ROWS_LIMIT,
     .help = "Rows of each table that a thread of the program keeps in memory. Default: "
             "GSPROF_RING_ROWS, else ring.rows of config.toml, else 10000."},
    GSP_OPT_SWITCH(struct run_opts, no_memory, "no-memory", 0, false,
                   "Do not count what is allocated, by call site; GSPROF_MEMORY says how it is "
                   "counted (sampled)."),
    GSP_OPT_SWITCH(struct run_opts, no_torch, "no-torch", 0, false,
                   "Do not trace PyTorch: the same as --torch off."),
    GSP_OPT_SWITCH(struct run_opts, no_stacks, "no-stacks", 0, false, "Do not look at the stacks."),
    GSP_OPT_SWITCH(struct run_opts, no_metrics, "no-metrics", 0, false,
                   "Do not look at memory, CPU, GPUs and the machine."),
    GSP_OPT_FORCE(struct run_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof run -- python3 train.py", "Where its time goes: stacks, metrics, PyTorch modules"},
    {"gsprof run --name base -- torchrun train.py", "All ranks, kept in gsprof-runs/base"},
    {"gsprof run --torch rate=0.1,backward=on -- python3 train.py",
     "One step in ten, with the backward pass"},
    {"gsprof run --no-torch --no-memory --rate 20 -- python3 serve.py",
     "Stacks and metrics alone, twenty looks a second"},
};

struct session {
    const struct gsp_parsed *parsed;
    const struct run_opts *opts;
    struct gsp_term term;
    struct gsp_run_status status_line;
    struct gsp_launch launch;
    pid_t pid;
    struct gsp_run_place place;
    char python_dir[GSP_PYTHON_DIR_MAX];
    char pids_path[GSP_PYTHON_DIR_MAX]; /* where processes tell how they fare */
    bool is_chosen; /* GSPROF was set before: which processes have the package is the user's word */
    struct gsp_rec_rings *rings;
    struct gsp_run_followers *followers; /* NULL: other processes than the program have none */
    struct gsp_follow_result followed;
    size_t no_room;                    /* processes below the program whose stacks had no place */
    struct gsp_ring_dir_limits limits; /* of what ended processes keep */
    int status;                        /* of the program */
    char **environment;                /* the program's, before we changed it */
    bool is_unable;                    /* to record: the program runs without us */
};

/* Set when half of the CPU time that we may use is used. */
static volatile sig_atomic_t is_cpu_short;

/* `ulimit -t` is meant for the program, and kills us too: rather no more stacks than no status. */
static void look_at_cpu(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_max != RLIM_INFINITY &&
        (rlim_t)(gsp_cputime_ns() / (GSP_NS_PER_S / 2)) >= limit.rlim_max)
        is_cpu_short = 1;
}

static void on_beat(void *user)
{
    struct session *session = user;
    gsp_run_signals_beat();
    look_at_cpu();
    const int stopped_by = gsp_launch_stopped(&session->launch);
    if (stopped_by) {
        /* The terminal is the shell's while we are stopped, so it is left as it was found. */
        gsp_run_status_hide(&session->status_line);
        gsp_run_signals_stop(stopped_by);
    }
    gsp_run_status_beat(&session->status_line, session->rings);
}

static void on_row(void *user, enum gsp_table_id table, const void *row)
{
    struct session *session = user;
    gsp_run_status_row(&session->status_line, table, row);
}

/* ------------------------------------------------------------------------------- begin */

static bool make_pids_file_in(struct session *session, const char *folder)
{
    uid_t uid = 0;
    gid_t gid = 0;
    /* Absolute: the program may change its folder. */
    gsp_auto_free char *real = folder && *folder ? realpath(folder, NULL) : NULL;
    if (!real || strlen(real) + sizeof(PIDS_FILE) > sizeof(session->pids_path))
        return false;
    snprintf(session->pids_path, sizeof(session->pids_path), "%s" PIDS_FILE, real);
    gsp_auto_fd fd = mkostemp(session->pids_path, O_CLOEXEC);
    if (fd < 0) {
        session->pids_path[0] = '\0';
        return false;
    }
    /* The program does not run as root when sudo was used: it must be able to write there. */
    if (gsp_launch_caller(&uid, &gid))
        gsp_ignore(fchown(fd, uid, gid) < 0);
    return true;
}

/* A file of our own that processes of the run append their pids to.  The program runs without it
 * too. */
static void make_pids_file(struct session *session)
{
    const char *const folders[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", session->place.path};
    for (size_t i = 0; i < GSP_COUNT(folders); i++)
        if (make_pids_file_in(session, folders[i]))
            return;
    if (!session->parsed->globals.quiet)
        gsp_term_line(&session->term,
                      "gsprof: faults inside processes are not reported: no temporary file: %s",
                      strerror(errno));
}

/* Between two looks at the stacks; 0: none. */
static double period_of(const struct run_opts *opts)
{
    return opts->no_stacks ? 0 : 1.0 / opts->rate_hz;
}

/* The user's GSPROF_SAMPLE_RATE counts for more than what nobody said. */
static bool is_rate_given(const struct run_opts *opts)
{
    return opts->rate_hz < RATE_HZ || opts->rate_hz > RATE_HZ;
}

static void put_env(const char *name, const char *value, bool replace)
{
    gsp_ignore(setenv(name, value, replace) < 0);
}

static int hand_over(struct session *session, struct gsp_err *err)
{
    session->is_chosen = getenv("GSPROF") != NULL;
    const int rc = gsp_python_hand_over(session->python_dir, err);
    if (rc < 0)
        return rc;
    make_pids_file(session);
    put_env("GSPROF_RUN_FILE", session->pids_path, true);
    const char *torch = session->opts->no_torch ? "off" : session->opts->torch;
    put_env("GSPROF_TORCH_PROFILING", torch ? torch : "on", torch != NULL);
    put_env("GSPROF_MEMORY", session->opts->no_memory ? "off" : "sampled",
            session->opts->no_memory);
    char period[32];
    snprintf(period, sizeof(period), "%.9g", period_of(session->opts));
    gsp_cli_ring_hand_over(session->opts->ring_rows);
    put_env("GSPROF_SAMPLE_RATE", period, session->opts->no_stacks || is_rate_given(session->opts));
    return GSP_OK;
}

/* Of the pointers: setenv() may write to the array. */
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

/* Becomes the program.  Returns only if it cannot be started. */
static int run_unrecorded(struct session *session, struct gsp_err *err)
{
    gsp_term_line(&session->term, "gsprof: the program runs unrecorded: %s", err->msg);
    if (session->environment) {
        environ = session->environment;
        session->environment = NULL; /* from here on it belongs to the process */
    }
    return gsp_launch_become(session->parsed->args, err);
}

/* That there is no room for the run keeps nobody from running the program. */
static int make_folder(struct session *session, struct gsp_err *err)
{
    const struct gsp_run_place_opts opts = {.name = session->opts->name,
                                            .output = session->opts->output,
                                            .force = session->opts->force,
                                            .argv = session->parsed->args};
    struct gsp_err cause = {0};
    const int rc = gsp_run_place_make(&session->place, &opts, &cause);
    if (rc == GSP_E_NOWRITE) {
        gsp_term_line(&session->term, "gsprof: the run is not kept: %s", cause.msg);
        return GSP_OK;
    }
    if (rc < 0)
        *err = cause;
    return rc;
}

static void start_rings(struct session *session)
{
    struct gsp_err err = {0};
    const struct gsp_rec_rings_opts rings = {.folder = session->place.path,
                                             .pid = session->pid,
                                             .subprocesses = true,
                                             .told_path = session->pids_path,
                                             .segment_age_ns = SEGMENT_NS,
                                             .now = true};
    if (session->place.path[0] && gsp_rec_rings_start(&rings, &session->rings, &err) < 0)
        gsp_term_line(&session->term, "gsprof: the run is not kept: %s", err.msg);
}

/* The child that will be the program.  Fails with IO if the machine lacks what recording needs:
 * descriptors, processes, /proc. */
static int prepare(struct session *session, struct gsp_err *err)
{
    session->environment = copy_environment();
    int rc = hand_over(session, err);
    if (rc < 0)
        return rc;
    gsp_run_signals_prepare(session->parsed->argv, session->parsed->args);
    return gsp_launch_new(&session->launch, session->parsed->args, err);
}

static int start(struct session *session, struct gsp_err *err)
{
    gsp_ring_dirs_sweep(&session->limits); /* while the program's own rings are not there yet */
    /* Before --force removes the run that is there. */
    int rc = gsp_launch_check(session->parsed->args[0], err);
    if (rc == GSP_OK)
        rc = make_folder(session, err);
    if (rc == GSP_OK) {
        rc = prepare(session, err);
        session->is_unable = rc == GSP_E_IO;
    }
    if (rc == GSP_OK) {
        session->pid = session->launch.pid;
        gsp_run_signals_begin(session->pid);
        rc = gsp_launch_go(&session->launch, session->parsed->args[0], err);
    }
    if (rc == GSP_OK) {
        /* Not before: the program has the limits that it would have had. */
        gsp_cli_raise_descriptors();
        gsp_launch_leave();
        gsp_ignore(gsp_run_followers_start(session->pids_path, session->pid, &session->followers,
                                           NULL) < 0);
        start_rings(session);
    } else {
        gsp_run_place_discard(&session->place);
    }
    return rc;
}

/* -------------------------------------------------------------------------------- end */

/* The process to ask next: the first that has rings. */
static pid_t first_with_rings(const pid_t *pids, size_t count, size_t *with_rings)
{
    pid_t first = 0;
    *with_rings = 0;
    for (size_t i = 0; i < count; i++) {
        struct gsp_ring_dir place;
        if (gsp_ring_dir_find(pids[i], &place, NULL) != GSP_OK || place.rings == 0)
            continue;
        first = first ? first : pids[i];
        (*with_rings)++;
    }
    return first;
}

static void tell_next(struct session *session, pid_t pid)
{
    gsp_term_line(&session->term, "Next: gsprof query %d 'FROM gsprof.hot_functions()'", (int)pid);
    gsp_term_line(&session->term, "      gsprof report %d", (int)pid);
}

/* What is missing of what users of this command expect. */
static void tell_fault(struct session *session, const struct gsp_run_told *told)
{
    /* Only what was seen to be Python can be expected to have had the package. */
    const bool is_python = session->followed.samples > 0 && !session->is_chosen;
    gsp_auto_buf line = {0};
    if (!session->pids_path[0] || (!told->inside && !is_python))
        return;
    gsp_run_told_fault(told, session->python_dir, session->parsed->args[0], &line);
    const char *text = gsp_buf_cstr(&line);
    if (text && *text)
        gsp_term_line(&session->term, "%s", text);
}

/* What there was no place for, why, and what helps. */
static void tell_room(struct session *session)
{
    const struct gsp_follow_result *followed = &session->followed;
    const bool stacks = followed->no_room_for_stacks && !session->opts->no_stacks;
    const bool metrics = followed->no_room_for_metrics && !session->opts->no_metrics;
    const size_t below = session->opts->no_stacks ? 0 : session->no_room;
    if (!stacks && !metrics && below == 0)
        return;
    if (stacks || metrics)
        gsp_term_line(&session->term, "gsprof: %s%s%s could not be kept: %s",
                      stacks ? "stacks" : "", stacks && metrics ? " and " : "",
                      metrics ? "metrics" : "", followed->room_err.msg);
    if (below > 0)
        gsp_term_line(
            &session->term,
            "gsprof: stacks of %zu process%s below it could not be kept: there is no room "
            "for tables",
            below, below == 1 ? "" : "es");
    gsp_term_line(
        &session->term,
        "    try   a larger /dev/shm (docker run --shm-size 1g), or XDG_RUNTIME_DIR=FOLDER "
        "with room");
}

/* Without a folder: what the rings have. */
static void tell_rings(struct session *session, const struct gsp_run_told *told)
{
    size_t with_rings = 0;
    size_t functions = 0;
    struct gsp_err err = {0};
    const pid_t first = first_with_rings(told->pids, told->count, &with_rings);
    if (with_rings == 0) {
        gsp_term_line(&session->term, "gsprof: nothing was recorded of it%s%s",
                      session->followed.stacks_err.code ? ": " : "; is it Python?",
                      session->followed.stacks_err.msg);
        return;
    }
    gsp_auto_buf summary = {0};
    const int rc = gsp_run_summary_tell(told->pids, told->count, &summary, &functions, &err);
    gsp_term_write(&session->term, &summary);
    if (rc < 0)
        gsp_term_line(&session->term, "gsprof: no summary: %s", err.msg);
    else if (functions == 0)
        gsp_term_line(&session->term, "gsprof: no stack was seen running.");
    tell_fault(session, told);
    tell_room(session);
    tell_next(session, first);
}

/* Where the verdict's own command begins; its end if it has none. */
static size_t command_at(struct gsp_buf *verdict)
{
    const char *text = gsp_buf_cstr(verdict);
    const char *next = text ? strstr(text, "\nNext: ") : NULL;
    return next ? (size_t)(next - text) + 1 : verdict->len;
}

/* A part of the verdict. */
static void tell_part(struct session *session, struct gsp_sv text)
{
    gsp_auto_buf part = {0};
    gsp_buf_putsv(&part, text);
    if (part.len > 0)
        gsp_term_write(&session->term, &part);
}

/* What was made of the run, and the commands to type next. */
static void tell_made(struct session *session, const struct gsp_run_told *told,
                      struct gsp_run_made *made)
{
    gsp_auto_buf word = {0};
    gsp_auto_buf former = {0};
    gsp_buf_shell(&word, gsp_sv_of(session->place.path));
    gsp_buf_shell(&former, gsp_sv_of(made->previous));
    const char *folder = gsp_buf_cstr(&word);
    const char *other = gsp_buf_cstr(&former);
    /* The verdict may end with a command of its own: commands come last. */
    const size_t command = command_at(&made->verdict);
    const struct gsp_sv verdict = gsp_buf_sv(&made->verdict);
    const char *next = command < verdict.len ? "      " : "Next: ";
    tell_part(session, (struct gsp_sv){verdict.p, command});
    tell_part(session, gsp_buf_sv(&made->notes));
    tell_fault(session, told);
    tell_room(session);
    if (made->err.code)
        gsp_term_line(&session->term, "gsprof: the run is not complete: %s", made->err.msg);
    if (command < verdict.len)
        tell_part(session, (struct gsp_sv){verdict.p + command, verdict.len - command});
    if (!folder || !other)
        return;
    if (made->failed_early) {
        gsp_term_line(&session->term, "What was recorded until then is in %s.", folder);
        return;
    }
    if (made->has_report)
        gsp_term_line(&session->term, "%sxdg-open %s/" GSP_RUN_REPORT, next, folder);
    else
        gsp_term_line(&session->term, "%sgsprof report %s", next, folder);
    if (made->previous[0])
        gsp_term_line(&session->term, "      gsprof compare %s %s", other, folder);
}

/* The program goes on without us; what is on disk makes a report, in a process of its own. */
static void stop_recording(struct session *session)
{
    struct gsp_err err = {0};
    struct gsp_store_drain_stats unused;
    gsp_auto_buf word = {0};
    gsp_buf_shell(&word, gsp_sv_of(session->place.path));
    const char *folder = session->rings ? gsp_buf_cstr(&word) : NULL;
    gsp_run_status_hide(&session->status_line);
    gsp_term_line(&session->term, "gsprof: recording ends, the program goes on: gsprof has used "
                                  "half of the CPU time that it may use (ulimit -t)");
    if (gsp_rec_rings_stop(session->rings, &unused, &err) < 0)
        gsp_term_line(&session->term, "gsprof: the run is not complete: %s", err.msg);
    session->rings = NULL;
    if (folder)
        gsp_term_line(&session->term, "Next: gsprof report %s", folder);
}

static void finish(struct session *session, int64_t took_ns)
{
    const bool quiet = session->parsed->globals.quiet;
    struct gsp_run_told told;
    struct gsp_run_made made = {0};
    char took[32];
    gsp_run_told_read(session->pids_path, session->pid, &told);
    if (!quiet)
        gsp_term_line(&session->term, "gsprof: the program ran for %s and ended with status %d.",
                      gsp_fmt_duration(took_ns, took, sizeof(took)), session->status);
    if (!session->rings) {
        if (!quiet && !is_cpu_short)
            tell_rings(session, &told);
        return;
    }
    const struct gsp_run_finish what = {.dir = &session->place,
                                        .rings = session->rings,
                                        .announced = &told,
                                        .followed = &session->followed,
                                        .status = session->status,
                                        .interrupted = gsp_run_signals_interrupted()};
    if (!quiet)
        gsp_term_status(&session->term, "gsprof: writing %s", session->place.path);
    gsp_run_finish(&what, &made);
    session->rings = NULL;
    gsp_term_wipe(&session->term);
    if (!quiet)
        tell_made(session, &told, &made);
    else if (made.err.code)
        gsp_term_line(&session->term, "gsprof: the run is not complete: %s", made.err.msg);
    gsp_buf_free(&made.verdict);
    gsp_buf_free(&made.notes);
}

static void follow(struct session *session)
{
    struct gsp_err err = {0};
    const double period_s = period_of(session->opts);
    const struct timespec pause = {.tv_nsec = BEAT_NS};
    const struct gsp_follow_opts how = {.pid = session->pid,
                                        .period_s = session->opts->no_stacks ? 0 : -1,
                                        .begin_s = period_s,
                                        .is_child = true,
                                        .tree = true,
                                        .no_metrics = session->opts->no_metrics,
                                        .limits = &session->limits,
                                        .beat = on_beat,
                                        .row = on_row,
                                        .user = session,
                                        .stop = &is_cpu_short};
    if (gsp_follow_run(&how, &session->followed, &err) < 0) {
        session->followed.stacks_err = err;
        session->followed.room_err = err;
        session->followed.no_room_for_stacks = session->followed.no_room_for_metrics =
            err.code == GSP_E_NOWRITE || err.code == GSP_E_PERM;
    }
    if (is_cpu_short)
        stop_recording(session);
    /* It goes on though it could not be followed. */
    while (gsp_launch_running(&session->launch)) {
        on_beat(session);
        nanosleep(&pause, NULL);
    }
    gsp_run_signals_end();
    session->status = gsp_launch_wait(&session->launch);
    gsp_run_status_hide(&session->status_line);
}

static int run(const struct gsp_parsed *parsed)
{
    struct session session = {
        .parsed = parsed, .opts = parsed->opts, .launch = {.gate = -1, .report = -1}};
    struct gsp_err err = {0};
    if (parsed->arg_count == 0)
        return gsp_cli_misuse(parsed, "run needs a program: gsprof run -- python3 train.py");
    if (session.opts->no_torch && session.opts->torch)
        return gsp_cli_misuse(parsed, "--torch and --no-torch contradict each other");
    if (session.opts->name && session.opts->output)
        return gsp_cli_misuse(parsed, "--name and --output both say where the run goes");
    gsp_run_signals_hold();
    gsp_term_init(&session.term, STDERR_FILENO, parsed->globals.color);
    gsp_run_status_init(&session.status_line, STDERR_FILENO, parsed->globals.quiet);
    const int64_t began_ns = gsp_now_ns();
    session.limits = gsp_cli_ring_limits(parsed);
    int rc = start(&session, &err);
    if (rc == GSP_OK) {
        follow(&session);
        session.no_room = gsp_run_followers_stop(session.followers);
        finish(&session, gsp_now_ns() - began_ns);
    }
    gsp_launch_abort(&session.launch);
    gsp_run_signals_close();
    if (session.pids_path[0])
        unlink(session.pids_path);
    gsp_run_place_free(&session.place);
    if (session.is_unable)
        rc = run_unrecorded(&session, &err);
    free(session.environment);
    if (rc == GSP_OK) {
        if (session.launch.signal)
            gsp_run_signals_end_by(session.launch.signal);
        return session.status;
    }
    const int status = gsp_cli_fail(parsed,
                                    &(struct gsp_hint_context){.command = "run",
                                                               .program = parsed->args[0],
                                                               .path = session.opts->output,
                                                               .argv = parsed->argv},
                                    &err);
    return rc == GSP_E_NOEXEC && err.sys != ENOENT ? EXIT_NOT_EXECUTABLE : status;
}

const struct gsp_command gsp_cmd_run = {
    .name = "run",
    .summary = "Run a program with everything on, and say where its time went",
    .synopsis = "[OPTIONS] -- PROGRAM [ARGS...]",
    .about = "Starts a program and records it and its children: stacks and metrics from outside, "
             "spans, steps and PyTorch modules from inside. Nothing need be installed for the "
             "program's Python: the package is handed over by PYTHONPATH, and a sitecustomize of "
             "the program's own still runs. Everything is kept in a folder, gsprof-runs/NAME: "
             "tables as Parquet files, the profile, and report.html, which opens in any browser; "
             "also when the program crashes or is killed. At the end it prints a verdict of ten "
             "lines and the next commands. The exit status is the program's; a signal that ended "
             "it ends gsprof too. Signals are passed on. If gsprof itself is killed, `gsprof "
             "report FOLDER` makes a report of what is on disk. If the folder cannot be written, "
             "or nothing can be recorded, the program runs all the same.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct run_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .takes_program = true,
    .run = run,
};
