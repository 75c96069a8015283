/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/ring_settings.h"
#include "record/follow.h"
#include "record/launch.h"
#include "sample/record.h"

/* The job comes first. */
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
     .min = -1,
     .max = 10000,
     .help = "Looks at the stacks each second; 0 for none. Without it (-1) as often as the "
             "process's setting gsprof.sample_rate says, 10 at first, also when that changes."},
    {.name = "detach",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct follow_opts, detach),
     .help = "Go on in the background, and return when the process has its tables."},
    {.name = "no-metrics",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct follow_opts, no_metrics),
     .advanced = true,
     .help = "Stacks and the end alone: somebody else looks at memory, CPU and the machine, as "
             "`gsprof run` does for all its processes."},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof follow 4242 --detach", "From now on its last minutes are kept, however it ends"},
    {"gsprof follow 4242 --rate 50", "Look at its stacks fifty times a second"},
    {"gsprof follow 4242", "Until it ends or Ctrl-C; gsprof report 4242 tells what it did"},
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

/* Tells who waits at the other end of the pipe.  Errors were told until now; from here on nothing
 * of whoever started it is held. */
static void say_ready(void *user)
{
    const int *fd = user;
    if (*fd < 0)
        return;
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDERR_FILENO);
    gsp_fd_close(&null);
    gsp_ignore(gsp_fd_write_all(*fd, "+", 1, NULL) < 0);
    gsp_fd_close(fd);
}

static void tell(const struct gsp_parsed *parsed, const struct gsp_follow_result *result)
{
    struct gsp_term term;
    gsp_term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (parsed->globals.quiet)
        return;
    if (result->stacks_err.code)
        gsp_term_line(&term, "No stacks: %s.", result->stacks_err.msg);
    if (result->has_ended)
        gsp_term_line(&term, "The process %s.", result->ending.detail);
}

static int follow(const struct gsp_parsed *parsed, pid_t pid, int ready_fd)
{
    const struct follow_opts *opts = parsed->opts;
    struct gsp_follow_result result = {0};
    struct gsp_err err = {0};
    const struct gsp_ring_dir_limits limits = gsp_cli_ring_limits(parsed);
    const struct gsp_follow_opts how = {.pid = pid,
                                        .period_s =
                                            opts->rate_hz > 0 ? 1.0 / opts->rate_hz : opts->rate_hz,
                                        .no_metrics = opts->no_metrics,
                                        .limits = &limits,
                                        .ready = say_ready,
                                        .user = &ready_fd,
                                        .stop = &stop};
    catch_signals();
    /* Not permitted only where it is not needed either. */
    setpriority(PRIO_PROCESS, 0, NICENESS);
    if (gsp_follow_run(&how, &result, &err) < 0)
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){.command = "follow", .pid = pid},
                            &err);
    tell(parsed, &result);
    return 0;
}

/* In the background: no terminal, no folder. */
static int follow_apart(const struct gsp_parsed *parsed, pid_t pid, int ready_fd)
{
    if (chdir("/") != 0)
        return gsp_err_exit_status(GSP_E_IO);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    gsp_fd_close(&null);
    return follow(parsed, pid, ready_fd);
}

static int detach(const struct gsp_parsed *parsed, pid_t pid)
{
    struct gsp_err err = {0};
    int fd = -1;
    const pid_t child = gsp_launch_apart(&fd, &err);
    if (child < 0)
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){0}, &err);
    if (child == 0)
        return follow_apart(parsed, pid, fd);
    char word = 0;
    ssize_t n = read(fd, &word, 1);
    while (n < 0 && errno == EINTR)
        n = read(fd, &word, 1);
    close(fd);
    return n == 1 ? 0 : gsp_launch_apart_status(child);
}

static int run(const struct gsp_parsed *parsed)
{
    const struct follow_opts *opts = parsed->opts;
    int64_t pid = opts->pid;
    struct gsp_err err = {0};
    if (pid == 0 && parsed->arg_count == 0)
        return gsp_cli_misuse(parsed, "follow needs a process: PID");
    if (pid == 0 && gsp_parse_i64(parsed->args[0], 1, INT32_MAX, &pid, &err) < 0)
        return gsp_cli_misuse(parsed, "%s", err.msg);
    if (opts->rate_hz > 0 && opts->rate_hz < GSP_RATE_MIN_HZ)
        return gsp_cli_misuse(parsed, "--rate: at least %g", GSP_RATE_MIN_HZ);
    return opts->detach ? detach(parsed, (pid_t)pid) : follow(parsed, (pid_t)pid, -1);
}

const struct gsp_command gsp_cmd_follow = {
    .name = "follow",
    .summary = "Keep the last stacks and metrics of a process, however it ends",
    .synopsis = "PID [--rate HZ] [--detach]",
    .about = "Looks at a process from outside until it ends, and writes what it sees into tables "
             "in shared memory: the stacks of its threads (python.stack_sample, python.stack), its "
             "memory and CPU (process.metrics), the machine (system.*, gpu.*), and how it ended "
             "(process.event). They stay when the process ends, by whatever it ends: `gsprof "
             "report PID` tells what it did, `gsprof query PID` asks. The process itself is not "
             "changed and never stopped. GSPROF=1, `gsprof inject` and `gsprof run` start it by "
             "themselves.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct follow_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .args_max = 1,
    .takes_endpoint = true,
    .lesser = true,
    .run = run,
};
