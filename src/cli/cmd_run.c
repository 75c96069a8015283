/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/launch.h"
#include "cli/python_dir.h"
#include "cli/rec_rings.h"
#include "cli/run_folder.h"
#include "cli/run_summary.h"
#include "cli/run_told.h"
#include "flight/follow.h"
#include "store/run.h"

#define RUNS_FOLDER "gsprof-runs"

struct run_opts {
    const char *name;
    const char *output;
    const char *torch;
    bool force;
};

static const struct gsp_opt OPTS[] = {
    {.name = "name",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct run_opts, name),
     .arg = "NAME",
     .help = "Keep the run as gsprof-runs/NAME in this folder."},
    {.name = "output",
     .letter = 'o',
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct run_opts, output),
     .arg = "DIR",
     .help = "Keep the run in this folder. Without it and --name the tables stay in memory for a "
             "day, where query and report find them."},
    {.name = "torch",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct run_opts, torch),
     .arg = "SPEC",
     .help = "How PyTorch is traced: on, off, the share of steps (0.1), or words such as "
             "rate=0.1,backward=on. Default: GSPROF_TORCH_PROFILING, else on."},
    GSP_OPT_FORCE(struct run_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof run -- python3 train.py", "Where its time goes: stacks, metrics, PyTorch modules"},
    {"gsprof run --name base -- torchrun train.py", "All ranks, kept in gsprof-runs/base"},
    {"gsprof run --torch rate=0.1,backward=on -- python3 train.py",
     "One step in ten, with the backward pass"},
};

struct session {
    const struct gsp_parsed *parsed;
    const struct run_opts *opts;
    struct gsp_term term;
    struct gsp_launch launch;
    pid_t pid;
    char folder[GSP_PYTHON_DIR_MAX]; /* of the run; "" without one */
    char python_dir[GSP_PYTHON_DIR_MAX];
    char pids_path[GSP_PYTHON_DIR_MAX]; /* where processes tell how they fare */
    bool is_chosen; /* GSPROF was set before: which processes have the package is the user's word */
    struct gsp_rec_rings *rings;
    struct gsp_follow_result followed;
    int status; /* of the program */
};

static volatile sig_atomic_t child_pid;
static const volatile sig_atomic_t never_stop;

/* Ctrl-C reaches the program by itself, being in the same group; what is sent to us alone is
 * passed on.  We end when it does. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const int saved = errno;
    if (child_pid > 0 && info->si_code <= 0)
        kill((pid_t)child_pid, sig);
    errno = saved;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    action.sa_sigaction = pass_on;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < GSP_COUNT(signals); i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

/* ------------------------------------------------------------------------------- begin */

/* A file of our own that processes of the run append their pids to. */
static int make_pids_file(struct session *session, struct gsp_err *err)
{
    const char *folder = getenv("TMPDIR");
    snprintf(session->pids_path, sizeof(session->pids_path), "%.4000s/gsprof-run.XXXXXX",
             folder && *folder ? folder : "/tmp");
    const int fd = mkostemp(session->pids_path, O_CLOEXEC);
    if (fd < 0) {
        const int code = errno;
        session->pids_path[0] = '\0';
        return gsp_err_set(err, GSP_E_NOWRITE, code, "no temporary file: %s", strerror(code));
    }
    uid_t uid = 0;
    gid_t gid = 0;
    /* The program does not run as root when sudo was used: it must be able to write there. */
    if (gsp_launch_caller(&uid, &gid))
        gsp_ignore(fchown(fd, uid, gid) < 0);
    gsp_fd_close(&fd);
    return GSP_OK;
}

static void put_env(const char *name, const char *value, bool replace)
{
    gsp_ignore(setenv(name, value, replace) < 0);
}

static int hand_over(struct session *session, struct gsp_err *err)
{
    int rc = make_pids_file(session, err);
    session->is_chosen = getenv("GSPROF") != NULL;
    if (rc == GSP_OK)
        rc = gsp_python_hand_over(session->python_dir, err);
    if (rc < 0)
        return rc;
    put_env("GSPROF_RUN_FILE", session->pids_path, true);
    put_env("GSPROF_TORCH_PROFILING", session->opts->torch ? session->opts->torch : "on",
            session->opts->torch != NULL);
    return GSP_OK;
}

static int make_folder(struct session *session, struct gsp_err *err)
{
    const struct run_opts *opts = session->opts;
    if (!opts->name && !opts->output)
        return GSP_OK;
    if (opts->name && (strchr(opts->name, '/') || opts->name[0] == '.' || !opts->name[0]))
        return gsp_err_set(err, GSP_E_USAGE, 0, "--name: a name, not a path: %.100s", opts->name);
    if (opts->output) {
        snprintf(session->folder, sizeof(session->folder), "%s", opts->output);
    } else {
        if (mkdir(RUNS_FOLDER, 0777) < 0 && errno != EEXIST)
            return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot make " RUNS_FOLDER ": %s",
                               strerror(errno));
        snprintf(session->folder, sizeof(session->folder), RUNS_FOLDER "/%s", opts->name);
    }
    return gsp_run_prepare(session->folder, opts->force, err);
}

static int start(struct session *session, struct gsp_err *err)
{
    int rc = make_folder(session, err);
    if (rc == GSP_OK)
        rc = hand_over(session, err);
    if (rc == GSP_OK)
        rc = gsp_launch_new(&session->launch, session->parsed->args, err);
    if (rc < 0)
        return rc;
    session->pid = session->launch.pid;
    child_pid = session->pid;
    catch_signals();
    return gsp_launch_go(&session->launch, session->parsed->args[0], err);
}

/* -------------------------------------------------------------------------------- end */

/* The process to ask next: the first that has rings. */
static pid_t first_with_rings(const pid_t *pids, size_t count, size_t *with_rings)
{
    pid_t first = 0;
    *with_rings = 0;
    for (size_t i = 0; i < count; i++) {
        struct gsp_place place;
        if (gsp_place_find(pids[i], &place, NULL) != GSP_OK || place.rings == 0)
            continue;
        first = first ? first : pids[i];
        (*with_rings)++;
    }
    return first;
}

static void tell_next(struct session *session, pid_t pid)
{
    gsp_auto_buf word = {0};
    if (session->folder[0])
        gsp_hint_word(&word, gsp_sv_of(session->folder));
    else
        gsp_buf_printf(&word, "%d", (int)pid);
    const char *endpoint = gsp_buf_cstr(&word);
    if (!endpoint)
        return;
    gsp_term_line(&session->term, "Next: gsprof query %s 'FROM gsprof.hot_functions()'", endpoint);
    if (pid)
        gsp_term_line(&session->term, "      gsprof report %d", (int)pid);
}

/* What is missing of what users of this command expect. */
static void tell_fault(struct session *session, const struct gsp_run_told *told)
{
    /* Only what was seen to be Python can be expected to have had the package. */
    const bool is_python = session->followed.samples > 0 && !session->is_chosen;
    gsp_auto_buf line = {0};
    if (!told->inside && !is_python)
        return;
    gsp_run_told_fault(told, session->python_dir, session->parsed->args[0], &line);
    const char *text = gsp_buf_cstr(&line);
    if (text && *text)
        gsp_term_line(&session->term, "%s", text);
}

static void tell(struct session *session, int64_t took_ns)
{
    struct gsp_run_told told;
    size_t with_rings = 0;
    size_t functions = 0;
    struct gsp_err err = {0};
    char took[32];
    gsp_run_told_read(session->pids_path, session->pid, &told);
    const pid_t first = first_with_rings(told.pids, told.count, &with_rings);
    gsp_term_line(&session->term, "gsprof: the program ran for %s and ended with status %d.",
                  gsp_fmt_duration(took_ns, took, sizeof(took)), session->status);
    if (with_rings == 0) {
        gsp_term_line(&session->term, "gsprof: nothing was recorded of it%s%s",
                      session->followed.stacks_err.code ? ": " : "; is it Python?",
                      session->followed.stacks_err.msg);
        tell_fault(session, &told);
        return;
    }
    if (gsp_run_summary_tell(told.pids, told.count, &session->term, &functions, &err) < 0)
        gsp_term_line(&session->term, "gsprof: no summary: %s", err.msg);
    else if (functions == 0)
        gsp_term_line(&session->term, "gsprof: no stack was seen running.");
    tell_fault(session, &told);
    tell_next(session, first);
}

static void follow(struct session *session)
{
    struct gsp_err err = {0};
    const struct gsp_rec_rings_opts rings = {
        .folder = session->folder, .pid = session->pid, .subprocesses = true};
    const struct gsp_follow_opts how = {
        .pid = session->pid, .period_s = -1, .is_child = true, .stop = &never_stop};
    if (session->folder[0] && gsp_rec_rings_start(&rings, &session->rings, &err) < 0)
        gsp_term_line(&session->term, "gsprof: the run is not kept: %s", err.msg);
    if (gsp_follow_run(&how, &session->followed, &err) < 0)
        session->followed.stacks_err = err;
    struct gsp_drain_stats drained;
    if (gsp_rec_rings_stop(session->rings, &drained, &err) < 0)
        gsp_term_line(&session->term, "gsprof: the run is not complete: %s", err.msg);
    session->status = gsp_launch_wait(&session->launch);
}

static int run(const struct gsp_parsed *parsed)
{
    struct session session = {
        .parsed = parsed, .opts = parsed->opts, .launch = {.gate = -1, .report = -1}};
    struct gsp_err err = {0};
    if (parsed->arg_count == 0)
        return gsp_cli_misuse(parsed, "run needs a program: gsprof run -- python3 train.py");
    if (session.opts->name && session.opts->output)
        return gsp_cli_misuse(parsed, "--name and --output both say where the run goes");
    gsp_term_init(&session.term, STDERR_FILENO, parsed->globals.color);
    const int64_t began_ns = gsp_now_ns();
    int rc = start(&session, &err);
    if (rc == GSP_OK) {
        follow(&session);
        if (!parsed->globals.quiet)
            tell(&session, gsp_now_ns() - began_ns);
    }
    gsp_launch_abort(&session.launch);
    if (session.pids_path[0])
        unlink(session.pids_path);
    if (rc < 0)
        return gsp_cli_fail(
            parsed,
            &(struct gsp_hint_context){.command = "run",
                                       .program = parsed->args[0],
                                       .path = session.folder[0] ? session.folder : NULL,
                                       .argv = parsed->argv},
            &err);
    return session.status;
}

const struct gsp_command gsp_cmd_run = {
    .name = "run",
    .summary = "Run a program with everything on, and say where its time went",
    .synopsis = "[OPTIONS] -- PROGRAM [ARGS...]",
    .about =
        "Starts a program and records it and its children: stacks and metrics from outside, "
        "spans, steps and PyTorch modules from inside. Nothing need be installed for the "
        "program's Python: the package is handed over by PYTHONPATH, and a sitecustomize of the "
        "program's own still runs. Signals and the exit status are passed on. At the end the "
        "functions and modules are shown that took the most time, and what to ask next.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct run_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .takes_program = true,
    .run = run,
};
