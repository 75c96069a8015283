/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/term.h"
#include "collect/huge.h"
#include "inject/package_dir.h"
#include "memlog/writer.h"
#include "model/format.h"
#include "proc/pidfd.h"
#include "proc/task.h"
#include "record/launch.h"
#include "record/memory_poll.h"
#include "record/memory_switch.h"
#include "record/memory_tree.h"

/* Programs do most of what is new in their first seconds: looks become rarer with time. */
#define EARLY_TICK_NS (100 * GSP_NS_PER_MS)
#define EARLY_PART    20
#define PATH_BYTES    4096U

struct mem_record_opts {
    int64_t pid;
    const char *output;
    const char *bytes;
    const char *max_size;
    int64_t interval_ns;
    int64_t duration_ns;
    int64_t limit_ns;
    bool exact;
    bool subprocesses;
    bool force;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_PID_ROW(struct mem_record_opts),
    GSP_OPT_OUTPUT(struct mem_record_opts, "The file to write. Default: memory-PID-TIME.gspm."),
    GSP_OPT_SWITCH(struct mem_record_opts, exact, "exact", 0, false,
                   "Every allocation and free, to the byte. Without it allocations are sampled by "
                   "their bytes, which costs next to nothing; amounts are estimates with a stated "
                   "error then."),
    {.name = "interval",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct mem_record_opts, interval_ns),
     .arg = "TIME",
     .fallback = "1s",
     .help = "Between two looks at the counters; at the start 100 ms, then a twentieth of the "
             "recording so far until it is this."},
    {.name = "bytes",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_record_opts, bytes),
     .arg = "SIZE",
     .help = "Mean distance of two samples: 64K is finer and costs more. Default: 512K.",
     .advanced = true},
    {.name = "duration",
     .letter = 'd',
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct mem_record_opts, duration_ns),
     .arg = "TIME",
     .help = "Stop after this long: 30, 500ms, 5m, 1h. Default: until the target ends or Ctrl-C."},
    GSP_OPT_SUBPROCESSES(struct mem_record_opts),
    GSP_OPT_FORCE(struct mem_record_opts),
    {.name = "max-size",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_record_opts, max_size),
     .arg = "SIZE",
     .fallback = "64M",
     .help = "The file stays below this: what is left of it always lasts as long again as the "
             "recording did so far, by looking less often.",
     .advanced = true},
    {.name = "timeout",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct mem_record_opts, limit_ns),
     .arg = "TIME",
     .fallback = "10s",
     .help = "How long a running process may take to switch counting on or off.",
     .advanced = true},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof mem record -- python3 train.py", "Where its memory goes, and whether it leaks"},
    {"gsprof mem record --exact -o exact.gspm -- python3 train.py", "To the byte"},
    {"gsprof mem record -p 4242 -d 60", "A minute of a process that runs"},
    {"gsprof mem record -s -- torchrun train.py", "All ranks and workers"},
};

struct session {
    const struct gsp_parsed *parsed;
    const struct mem_record_opts *opts;
    struct gsp_term term;
    struct gsp_launch launch;
    struct gsp_memtake take;
    struct gsp_memtree tree;
    struct gsp_memlog_writer *writer;
    char output[PATH_BYTES];
    int fd;
    int pidfd;
    pid_t pid;
    int64_t start_ns;
    uint64_t rounds;
    int64_t longest_ns; /* between two rounds */
};

static volatile sig_atomic_t stop_count;
static volatile sig_atomic_t child_pid;

/* Ctrl-C reaches a program that we started by itself: we go on until it ends.  What is sent to us
 * alone is passed on. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const int saved = errno;
    if (child_pid > 0 && info->si_code <= 0)
        kill((pid_t)child_pid, sig);
    stop_count += child_pid > 0 && stop_count == 0 ? 1 : 2;
    errno = saved;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    gsp_launch_catch(signals, GSP_COUNT(signals), on_signal, 0);
}

/* -------------------------------------------------------------------------------------- begin */

static int open_output(struct session *session, struct gsp_err *err)
{
    const struct mem_record_opts *opts = session->opts;
    char when[32];
    const time_t now = time(NULL);
    struct tm tm;
    if (opts->output) {
        snprintf(session->output, sizeof(session->output), "%s", opts->output);
    } else {
        strftime(when, sizeof(when), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
        snprintf(session->output, sizeof(session->output), "memory-%d-%s.gspm",
                 (int)(session->pid ? session->pid : getpid()), when);
    }
    const int how = opts->force ? O_TRUNC : O_EXCL;
    session->fd = open(session->output, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
    if (session->fd < 0 && errno == EEXIST)
        return gsp_err_set(err, GSP_E_EXISTS, errno, "%.200s exists", session->output);
    if (session->fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write %.180s: %s", session->output,
                           strerror(errno));
    return GSP_OK;
}

static int start_program(struct session *session, struct gsp_err *err)
{
    char package[GSP_PYTHON_DIR_MAX];
    int rc = gsp_python_hand_over(package, err);
    if (rc == GSP_OK)
        rc = gsp_memswitch_environment(&session->tree.root, err);
    if (rc == GSP_OK)
        rc = gsp_launch_new(&session->launch, session->parsed->args, err);
    if (rc < 0)
        return rc;
    session->pid = session->launch.pid;
    child_pid = session->pid;
    return gsp_launch_go(&session->launch, session->parsed->args[0], err);
}

static int start(struct session *session, struct gsp_err *err)
{
    struct gsp_memlog_writer_opts how = {.start_real_ns = gsp_realtime_ns()};
    int rc = gsp_parse_size(session->opts->max_size, &how.budget_bytes, err);
    if (rc == GSP_OK)
        rc = open_output(session, err);
    if (rc < 0)
        return rc;
    char huge[GSP_HUGE_SETTING_BYTES];
    gsp_collect_huge_setting(huge);
    how.huge_setting = huge;
    session->start_ns = how.start_ns = gsp_now_ns();
    how.fd = session->fd;
    catch_signals();
    rc = gsp_memlog_writer_new(&how, &session->writer, err);
    if (rc == GSP_OK && session->parsed->arg_count)
        rc = start_program(session, err);
    else if (rc == GSP_OK)
        rc = gsp_memtree_on(&session->tree, err);
    session->take = (struct gsp_memtake){.pid = session->pid,
                                         .subprocesses = session->opts->subprocesses,
                                         .claims = true,
                                         .asks_huge = strcmp(huge, "never") != 0,
                                         .writer = session->writer};
    session->pidfd = gsp_proc_pidfd_open(session->pid);
    return rc;
}

/* --------------------------------------------------------------------------------------- loop */

static bool target_runs(const struct session *session)
{
    struct gsp_procinfo info;
    if (session->launch.pid > 0)
        return gsp_launch_running(&session->launch);
    return gsp_proc_info(session->pid, &info, NULL) == GSP_OK && info.state != 'Z';
}

/* Until the time has come, the target has ended, or a signal arrived. */
static void wait_for(const struct session *session, int64_t pause_ns)
{
    struct pollfd end = {.fd = session->pidfd, .events = POLLIN};
    const struct timespec pause = {pause_ns / GSP_NS_PER_S, pause_ns % GSP_NS_PER_S};
    gsp_ignore(ppoll(&end, session->pidfd >= 0, &pause, NULL) < 0);
}

static int64_t pause_of(const struct session *session, int64_t now_ns)
{
    const struct mem_record_opts *opts = session->opts;
    const int64_t elapsed_ns = now_ns - session->start_ns;
    int64_t pause_ns = elapsed_ns / EARLY_PART;
    pause_ns = pause_ns > EARLY_TICK_NS ? pause_ns : EARLY_TICK_NS;
    pause_ns = pause_ns < opts->interval_ns ? pause_ns : opts->interval_ns;
    const int64_t budget_ns = gsp_memlog_writer_pause_ns(session->writer, now_ns);
    pause_ns = budget_ns > pause_ns ? budget_ns : pause_ns;
    if (opts->duration_ns && pause_ns > opts->duration_ns - elapsed_ns)
        pause_ns = opts->duration_ns - elapsed_ns;
    return pause_ns > 0 ? pause_ns : 0;
}

static void show(struct session *session, int64_t now_ns)
{
    char elapsed[32];
    gsp_auto_buf bytes = {0};
    if (session->parsed->globals.quiet)
        return;
    gsp_fmt_duration(now_ns - session->start_ns, elapsed, sizeof(elapsed));
    gsp_model_amount_put(GSP_UNIT_BYTES, (int64_t)gsp_memlog_writer_bytes(session->writer), &bytes);
    const char *text = gsp_buf_cstr(&bytes);
    gsp_term_status(&session->term, "%s, %zu process%s, %s written", elapsed, session->take.live,
                    session->take.live == 1 ? "" : "es", text ? text : "");
}

static int record(struct session *session, struct gsp_err *err)
{
    const int64_t end_ns =
        session->opts->duration_ns ? session->start_ns + session->opts->duration_ns : INT64_MAX;
    int rc = GSP_OK;
    bool last = false;
    int64_t before_ns = gsp_now_ns();
    while (rc == GSP_OK && !last) {
        const int64_t now_ns = gsp_now_ns();
        last = !target_runs(session) || stop_count > 1 || now_ns >= end_ns;
        session->take.is_last = last;
        if (!last)
            gsp_memtree_round(&session->tree, now_ns);
        rc = gsp_memtake_round(&session->take, now_ns, err);
        if (rc == GSP_OK)
            rc = gsp_memlog_writer_flush(session->writer, err);
        session->rounds++;
        if (now_ns - before_ns > session->longest_ns)
            session->longest_ns = now_ns - before_ns;
        before_ns = now_ns;
        show(session, now_ns);
        if (session->take.is_claimed && session->take.taken == 0)
            break;
        if (!last)
            wait_for(session, pause_of(session, gsp_now_ns()));
    }
    gsp_term_wipe(&session->term);
    if (rc == GSP_OK)
        rc = gsp_memlog_writer_end(session->writer, err);
    return rc;
}

/* ---------------------------------------------------------------------------------------- end */

static void tell(struct session *session)
{
    char elapsed[32];
    gsp_auto_buf bytes = {0};
    gsp_auto_buf word = {0};
    if (session->parsed->globals.quiet)
        return;
    gsp_fmt_duration(gsp_now_ns() - session->start_ns, elapsed, sizeof(elapsed));
    gsp_model_amount_put(GSP_UNIT_BYTES, (int64_t)gsp_memlog_writer_bytes(session->writer), &bytes);
    gsp_buf_shell(&word, gsp_sv_of(session->output));
    const char *text = gsp_buf_cstr(&bytes);
    const char *output = gsp_buf_cstr(&word);
    gsp_term_line(&session->term,
                  "%" PRIu64 " look%s at %zu process%s in %s; wrote %s (%s):", session->rounds,
                  gsp_model_plural_s(session->rounds), session->take.taken,
                  session->take.taken == 1 ? "" : "es", elapsed, session->output, text ? text : "");
    gsp_term_line(&session->term, "    gsprof mem report %s", output ? output : "");
    gsp_term_line(&session->term, "    gsprof mem report --leaks %s", output ? output : "");
}

/* Nothing was seen: why. */
static int nothing(const struct session *session, struct gsp_err *err)
{
    const struct gsp_memtake *take = &session->take;
    if (take->err.code)
        return gsp_err_set(err, take->err.code, take->err.sys, "%s", take->err.msg);
    if (session->launch.pid > 0)
        return gsp_err_set(err, GSP_E_EMPTY, 0,
                           "allocations were not counted in the program: it is not Python, ended "
                           "at once, or starts Python in another process (-s)");
    return gsp_err_set(err, GSP_E_NOFILE, 0, "allocations are not counted in process %d%s",
                       (int)session->pid, session->opts->subprocesses ? " or a child of it" : "");
}

static int fail(const struct session *session, const struct gsp_err *err)
{
    const bool is_file = err->code == GSP_E_EXISTS && session->take.err.code == 0;
    return gsp_cli_fail(session->parsed,
                        &(struct gsp_hint_context){
                            .command = "mem record",
                            .pid = session->pid,
                            .program = session->parsed->args[0],
                            .path = is_file || err->code == GSP_E_NOWRITE ? session->output : NULL,
                            .argv = session->parsed->argv},
                        err);
}

/* The program's own status, also when the recording of it failed. */
static int finish(struct session *session, int rc, struct gsp_err *err)
{
    if (rc == GSP_OK && session->take.taken == 0)
        rc = nothing(session, err);
    gsp_memtree_off(&session->tree);
    const bool is_kept = session->take.taken > 0;
    if (rc == GSP_OK)
        tell(session);
    else if (!is_kept && session->fd >= 0)
        unlink(session->output);
    int status = rc < 0 ? fail(session, err) : 0;
    if (session->launch.pid > 0) {
        const int program = gsp_launch_wait(&session->launch);
        status = program ? program : status;
    }
    return status;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct mem_record_opts *opts = parsed->opts;
    struct session session = {.parsed = parsed,
                              .opts = opts,
                              .launch = {.gate = -1, .report = -1},
                              .fd = -1,
                              .pidfd = -1,
                              .pid = (pid_t)opts->pid};
    struct gsp_err err = {0};
    if (opts->pid && parsed->arg_count)
        return gsp_cli_misuse(parsed, "either a process or a program, not both");
    if (!opts->pid && !parsed->arg_count)
        return gsp_cli_misuse(parsed, "mem record needs a process or a program: PID, or "
                                      "-- COMMAND");
    if (opts->output && strcmp(opts->output, "-") == 0)
        return gsp_cli_misuse(parsed, "a recording of memory is a file: --output FILE");
    gsp_term_init(&session.term, STDERR_FILENO, parsed->globals.color);
    session.tree = (struct gsp_memtree){.root = {.pid = session.pid,
                                                 .exact = opts->exact,
                                                 .limit_ns = opts->limit_ns,
                                                 .bytes = opts->bytes},
                                        .has_children = opts->subprocesses && opts->pid != 0};
    int rc = gsp_memswitch_check(&session.tree.root, &err);
    if (rc < 0)
        return gsp_cli_misuse(parsed, "%s", err.msg);
    if (opts->pid)
        gsp_await_python(session.pid, opts->subprocesses, parsed);
    rc = start(&session, &err);
    if (rc == GSP_OK)
        rc = record(&session, &err);
    else
        gsp_launch_abort(&session.launch);
    const int status = finish(&session, rc, &err);
    gsp_memtake_free(&session.take);
    gsp_memtree_free(&session.tree);
    gsp_memlog_writer_free(session.writer);
    gsp_fd_close(&session.fd);
    gsp_fd_close(&session.pidfd);
    return status;
}

const struct gsp_command gsp_cmd_mem_record = {
    .name = "mem-record",
    .spoken = "mem record",
    .summary = "Record where a program's memory goes",
    .synopsis = "[OPTIONS] (PID | -- COMMAND...)",
    .about =
        "Counts allocations and frees by call site within the process: of Python's allocators, of "
        "the C library (NumPy, PyTorch on the CPU, C++), and of anonymous mappings. The counters "
        "are looked at from outside once a second, and what changed is appended to a file that is "
        "good up to the last look, whatever happens. `gsprof mem report` shows the peak, leaks, "
        "what is allocated only to be freed, and differences.\n"
        "A process that runs is entered as by `gsprof inject`, and left as it was. Only what is "
        "allocated from then on is counted.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct mem_record_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .takes_program = true,
    .run = run,
};
