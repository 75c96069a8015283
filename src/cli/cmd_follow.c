/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/common.h"
#include "cli/events.h"
#include "cli/hint.h"
#include "cli/ring_settings.h"
#include "record/follow.h"
#include "record/launch.h"
#include "sample/record.h"

/* The target has priority. */
#define NICENESS 10

struct follow_opts {
    int64_t pid;
    double rate_hz;
    bool detach;
    bool no_metrics;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_PID_ROW(struct follow_opts),
    {.name = "rate",
     .letter = 'r',
     .kind = GSP_OPT_REAL,
     .offset = offsetof(struct follow_opts, rate_hz),
     .arg = "HZ",
     .fallback = "-1",
     .default_text = "the target's setting gsprof.sample_rate, initially 10",
     .min = -1,
     .max = 10000,
     .help = "Samples per second; 0 disables sampling. Without this option, changes of "
             "gsprof.sample_rate take effect immediately."},
    GSP_OPT_SWITCH(struct follow_opts, detach, "detach", 0, false,
                   "Run in the background; return when the tables of the process exist."),
    GSP_OPT_SWITCH(
        struct follow_opts, no_metrics, "no-metrics", 0, true,
        "Collect only stacks and the exit status. Used by `gsprof run`, which collects the "
        "metrics of all processes itself."),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof follow 4242 --detach", "Keep its last minutes from now on, even if it crashes"},
    {"gsprof follow 4242 --rate 50", "Sample its stacks 50 times per second"},
    {"gsprof follow 4242", "Follow it until it exits; then run gsprof report 4242"},
};

static volatile sig_atomic_t stop;

static void note_signal(int sig)
{
    (void)sig;
    stop = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

struct readiness {
    pid_t pid;
    int parent_fd; /* pipe to the parent of a detached follower; else -1 */
};

/* Notifies the parent through the pipe and detaches from stderr, which reported errors so far. */
static void report_ready(void *user)
{
    const struct readiness *readiness = user;
    gsp_cli__events_ready_pid(readiness->pid);
    if (readiness->parent_fd < 0)
        return;
    gsp_cli__events_close();
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDERR_FILENO);
    gsp_fd_close(&null);
    gsp_ignore(gsp_fd_write_all(readiness->parent_fd, "+", 1, NULL) < 0);
    gsp_fd_close(&readiness->parent_fd);
}

static void report(const struct gsp_parsed *parsed, const struct gsp_follow_result *result)
{
    struct gsp_term term;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (parsed->globals.quiet)
        return;
    if (result->stacks_err.code)
        gsp_cli__term_line(&term, "No stacks: %s.", result->stacks_err.msg);
    if (result->has_ended)
        gsp_cli__term_line(&term, "The process %s.", result->ending.detail);
}

static int follow(const struct gsp_parsed *parsed, pid_t pid, int parent_fd)
{
    const struct follow_opts *opts = parsed->opts;
    struct readiness readiness = {.pid = pid, .parent_fd = parent_fd};
    struct gsp_follow_result result = {0};
    struct gsp_err err = {0};
    const struct gsp_ring_dir_limits limits = gsp_cli__ring_limits(parsed);
    const struct gsp_follow_opts how = {.pid = pid,
                                        .period_s =
                                            opts->rate_hz > 0 ? 1.0 / opts->rate_hz : opts->rate_hz,
                                        .no_metrics = opts->no_metrics,
                                        .limits = &limits,
                                        .ready = report_ready,
                                        .user = &readiness,
                                        .stop = &stop};
    catch_signals();
    setpriority(PRIO_PROCESS, 0, NICENESS);
    if (gsp_record_follow_run(&how, &result, &err) < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.command = "follow", .pid = pid},
                             &err);
    report(parsed, &result);
    return 0;
}

/* Follows in the background, without a terminal or working directory. */
static int follow_in_background(const struct gsp_parsed *parsed, pid_t pid, int parent_fd)
{
    if (chdir("/") != 0)
        return gsp_err_exit_status(GSP_E_IO);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    gsp_fd_close(&null);
    return follow(parsed, pid, parent_fd);
}

static int detach(const struct gsp_parsed *parsed, pid_t pid)
{
    struct gsp_err err = {0};
    int fd = -1;
    const pid_t child = gsp_record_background_fork(&fd, &err);
    if (child < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    if (child == 0)
        return follow_in_background(parsed, pid, fd);
    char ready = 0;
    ssize_t n = read(fd, &ready, 1);
    while (n < 0 && errno == EINTR)
        n = read(fd, &ready, 1);
    close(fd);
    return n == 1 ? 0 : gsp_record_background_status(child);
}

static int run(const struct gsp_parsed *parsed)
{
    const struct follow_opts *opts = parsed->opts;
    int64_t pid = opts->pid;
    struct gsp_err err = {0};
    if (pid == 0 && parsed->arg_count == 0)
        return gsp_cli__misuse(parsed, "follow needs a process: PID");
    if (pid == 0 && gsp_parse_i64(parsed->args[0], 1, INT32_MAX, &pid, &err) < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    if (opts->rate_hz > 0 && opts->rate_hz < GSP_RATE_MIN_HZ)
        return gsp_cli__misuse(parsed, "--rate must be at least %g", GSP_RATE_MIN_HZ);
    return opts->detach ? detach(parsed, (pid_t)pid) : follow(parsed, (pid_t)pid, -1);
}

const struct gsp_command gsp_cmd_follow = {
    .name = "follow",
    .summary = "Keep the last stacks and metrics of a process, even if it crashes",
    .synopsis = "PID [--rate HZ] [--detach]",
    .about = "Samples a process from outside until it exits, and writes tables in shared memory: "
             "the stacks of its threads (python.stack_sample, python.stack), its memory and CPU "
             "(process.metrics), the machine (system.*, gpu.*), and how it exited "
             "(process.event). The tables outlive the process: read them with `gsprof report PID` "
             "or `gsprof query PID`. The process is neither changed nor stopped. GSPROF=1, `gsprof "
             "inject` and `gsprof run` start a follower automatically.",
    GSP_COMMAND_OPTS(OPTS, struct follow_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_max = 1,
    .takes_endpoint = true,
    .lesser = true,
    .run = run,
};
