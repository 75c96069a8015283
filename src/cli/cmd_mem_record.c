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
#include "cli/events.h"
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

/* Most new call sites appear in a program's first seconds: the interval between snapshots starts
 * at EARLY_TICK_NS and grows to 1/EARLY_PART of the elapsed time. */
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
    {.name = "output",
     .letter = 'o',
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct mem_record_opts, output),
     .arg = "FILE",
     .default_text = "memory-PID-TIME.gspm",
     .help = "File to write."},
    GSP_OPT_SWITCH(struct mem_record_opts, exact, "exact", 0, false,
                   "Count every allocation and free exactly. By default gsprof samples "
                   "allocations by size, at almost no cost, and reports estimates with their "
                   "error."),
    {.name = "interval",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct mem_record_opts, interval_ns),
     .arg = "TIME",
     .fallback = "1s",
     .help = "Longest interval between snapshots. Starts at 100 ms and grows to 5 % of the elapsed "
             "time."},
    {.name = "bytes",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_record_opts, bytes),
     .arg = "SIZE",
     .default_text = "512K",
     .help = "Mean number of bytes between samples. 64K is more precise and costs more.",
     .advanced = true},
    {.name = "duration",
     .letter = 'd',
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct mem_record_opts, duration_ns),
     .arg = "TIME",
     .default_text = "when the target exits",
     .help = "Stop after this time: 30, 500ms, 5m, 1h."},
    GSP_OPT_SUBPROCESSES(struct mem_record_opts),
    GSP_OPT_FORCE(struct mem_record_opts),
    {.name = "max-size",
     .kind = GSP_OPT_TEXT,
     .offset = offsetof(struct mem_record_opts, max_size),
     .arg = "SIZE",
     .fallback = "64M",
     .help = "Maximum file size. Snapshots become rarer as the file fills, so the remaining space "
             "always covers at least as much time as already recorded.",
     .advanced = true},
    {.name = "timeout",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct mem_record_opts, limit_ns),
     .arg = "TIME",
     .fallback = "10s",
     .help = "Time limit for a running process to switch counting on or off.",
     .advanced = true},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof mem record -- python3 train.py", "Find where its memory goes and whether it leaks"},
    {"gsprof mem record --exact -o exact.gspm -- python3 train.py", "Count every byte"},
    {"gsprof mem record -p 4242 -d 60", "Record a running process for one minute"},
    {"gsprof mem record -s -- torchrun train.py", "Include all ranks and workers"},
};

struct recording {
    const struct gsp_parsed *parsed;
    const struct mem_record_opts *opts;
    struct gsp_term term;
    struct gsp_launch launch;
    struct gsp_memory_poll take;
    struct gsp_memory_tree tree;
    struct gsp_memlog_writer *writer;
    char output[PATH_BYTES];
    int fd;
    int pidfd;
    pid_t pid;
    int64_t start_ns;
    uint64_t snapshots;
};

static volatile sig_atomic_t stop_count;
static volatile sig_atomic_t child_pid;

/* The terminal sends Ctrl-C to a started program as well; gsprof continues until it exits. Signals
 * sent to gsprof alone are forwarded. */
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
    gsp_record_signals_catch(signals, GSP_COUNT(signals), on_signal, 0);
}

/* -------------------------------------------------------------------------------------- begin */

static int open_output(struct recording *recording, struct gsp_err *err)
{
    const struct mem_record_opts *opts = recording->opts;
    char when[32];
    if (opts->output)
        snprintf(recording->output, sizeof(recording->output), "%s", opts->output);
    else
        snprintf(recording->output, sizeof(recording->output), "memory-%d-%s.gspm",
                 (int)(recording->pid ? recording->pid : getpid()),
                 gsp_fmt_file_time(gsp_realtime_ns(), when, sizeof(when)));
    const int how = opts->force ? O_TRUNC : O_EXCL;
    recording->fd = open(recording->output, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
    if (recording->fd < 0 && errno == EEXIST)
        return gsp_err_set(err, GSP_E_EXISTS, errno, "%.200s already exists", recording->output);
    if (recording->fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write %.180s: %s", recording->output,
                           strerror(errno));
    return GSP_OK;
}

static int start_program(struct recording *recording, struct gsp_err *err)
{
    char package[GSP_PACKAGE_DIR_MAX];
    int rc = gsp_inject_package_set_env(package, err);
    if (rc == GSP_OK)
        rc = gsp_record_memory_switch_set_env(&recording->tree.root, err);
    if (rc == GSP_OK)
        rc = gsp_record_launch_new(&recording->launch, recording->parsed->args, err);
    if (rc < 0)
        return rc;
    recording->pid = recording->launch.pid;
    child_pid = recording->pid;
    return gsp_record_launch_go(&recording->launch, recording->parsed->args[0], err);
}

static int start(struct recording *recording, struct gsp_err *err)
{
    struct gsp_memlog_writer_opts how = {.start_real_ns = gsp_realtime_ns()};
    int rc = gsp_parse_size(recording->opts->max_size, &how.budget_bytes, err);
    if (rc == GSP_OK)
        rc = open_output(recording, err);
    if (rc < 0)
        return rc;
    char huge[GSP_HUGE_SETTING_BYTES];
    gsp_collect_huge_setting(huge);
    how.huge_setting = huge;
    recording->start_ns = how.start_ns = gsp_now_ns();
    how.fd = recording->fd;
    catch_signals();
    rc = gsp_memlog_writer_new(&how, &recording->writer, err);
    if (rc == GSP_OK && recording->parsed->arg_count)
        rc = start_program(recording, err);
    else if (rc == GSP_OK)
        rc = gsp_record_memory_tree_on(&recording->tree, err);
    recording->take = (struct gsp_memory_poll){.pid = recording->pid,
                                               .subprocesses = recording->opts->subprocesses,
                                               .claims = true,
                                               .reads_huge = strcmp(huge, "never") != 0,
                                               .writer = recording->writer};
    recording->pidfd = gsp_proc_pidfd_open(recording->pid);
    return rc;
}

/* --------------------------------------------------------------------------------------- loop */

static bool target_runs(const struct recording *recording)
{
    struct gsp_procinfo info;
    if (recording->launch.pid > 0)
        return gsp_record_launch_is_running(&recording->launch);
    return gsp_proc_info(recording->pid, &info, NULL) == GSP_OK && info.state != 'Z';
}

/* Returns after pause_ns, when the target exits, or on a signal. */
static void wait_for(const struct recording *recording, int64_t pause_ns)
{
    struct pollfd end = {.fd = recording->pidfd, .events = POLLIN};
    const struct timespec pause = {pause_ns / GSP_NS_PER_S, pause_ns % GSP_NS_PER_S};
    gsp_ignore(ppoll(&end, recording->pidfd >= 0, &pause, NULL) < 0);
}

static int64_t pause_of(const struct recording *recording, int64_t now_ns)
{
    const struct mem_record_opts *opts = recording->opts;
    const int64_t elapsed_ns = now_ns - recording->start_ns;
    int64_t pause_ns = elapsed_ns / EARLY_PART;
    pause_ns = pause_ns > EARLY_TICK_NS ? pause_ns : EARLY_TICK_NS;
    pause_ns = pause_ns < opts->interval_ns ? pause_ns : opts->interval_ns;
    const int64_t budget_ns = gsp_memlog_writer_pause_ns(recording->writer, now_ns);
    pause_ns = budget_ns > pause_ns ? budget_ns : pause_ns;
    if (opts->duration_ns && pause_ns > opts->duration_ns - elapsed_ns)
        pause_ns = opts->duration_ns - elapsed_ns;
    return pause_ns > 0 ? pause_ns : 0;
}

static void show(struct recording *recording, int64_t now_ns)
{
    char elapsed[32];
    gsp_auto_buf bytes = {0};
    if (recording->parsed->globals.quiet)
        return;
    gsp_fmt_duration(now_ns - recording->start_ns, elapsed, sizeof(elapsed));
    gsp_model_amount_put(GSP_UNIT_BYTES, (int64_t)gsp_memlog_writer_bytes(recording->writer),
                         &bytes);
    const char *text = gsp_buf_cstr(&bytes);
    gsp_cli__term_status(&recording->term, "%s, %zu process%s, %s written", elapsed,
                         recording->take.live, recording->take.live == 1 ? "" : "es",
                         text ? text : "");
}

static int record(struct recording *recording, struct gsp_err *err)
{
    const int64_t end_ns = recording->opts->duration_ns
                               ? recording->start_ns + recording->opts->duration_ns
                               : INT64_MAX;
    int rc = GSP_OK;
    bool last = false;
    gsp_cli__events_ready_pid(recording->pid);
    while (rc == GSP_OK && !last) {
        const int64_t now_ns = gsp_now_ns();
        last = !target_runs(recording) || stop_count > 1 || now_ns >= end_ns;
        recording->take.is_last = last;
        if (!last)
            gsp_record_memory_tree_update(&recording->tree, now_ns);
        rc = gsp_record_memory_poll_read(&recording->take, now_ns, err);
        if (rc == GSP_OK)
            rc = gsp_memlog_writer_flush(recording->writer, err);
        recording->snapshots++;
        show(recording, now_ns);
        if (recording->take.is_claimed && recording->take.taken == 0)
            break;
        if (!last)
            wait_for(recording, pause_of(recording, gsp_now_ns()));
    }
    gsp_cli__term_clear_status(&recording->term);
    if (rc == GSP_OK)
        rc = gsp_memlog_writer_end(recording->writer, err);
    return rc;
}

/* ---------------------------------------------------------------------------------------- end */

static void report(struct recording *recording)
{
    char elapsed[32];
    gsp_auto_buf bytes = {0};
    gsp_auto_buf quoted = {0};
    gsp_cli__events_done(-1, recording->output);
    if (recording->parsed->globals.quiet)
        return;
    gsp_fmt_duration(gsp_now_ns() - recording->start_ns, elapsed, sizeof(elapsed));
    gsp_model_amount_put(GSP_UNIT_BYTES, (int64_t)gsp_memlog_writer_bytes(recording->writer),
                         &bytes);
    gsp_buf_shell(&quoted, gsp_sv_of(recording->output));
    const char *text = gsp_buf_cstr(&bytes);
    const char *output = gsp_buf_cstr(&quoted);
    gsp_cli__term_line(
        &recording->term,
        "%" PRIu64 " snapshot%s of %zu process%s in %s; wrote %s (%s):", recording->snapshots,
        gsp_model_plural_s(recording->snapshots), recording->take.taken,
        recording->take.taken == 1 ? "" : "es", elapsed, recording->output, text ? text : "");
    gsp_cli__term_line(&recording->term, "    gsprof mem report %s", output ? output : "");
    gsp_cli__term_line(&recording->term, "    gsprof mem report --leaks %s", output ? output : "");
}

/* Sets *err to the reason why no process was recorded. */
static int explain_empty(const struct recording *recording, struct gsp_err *err)
{
    const struct gsp_memory_poll *take = &recording->take;
    if (take->err.code)
        return gsp_err_set(err, take->err.code, take->err.sys, "%s", take->err.msg);
    if (recording->launch.pid > 0)
        return gsp_err_set(err, GSP_E_EMPTY, 0,
                           "no allocations were counted: the program is not Python, exited too "
                           "early, or runs Python in a child process (-s)");
    return gsp_err_set(err, GSP_E_NOFILE, 0, "process %d%s does not count allocations",
                       (int)recording->pid,
                       recording->opts->subprocesses ? " or its children" : "");
}

static int fail(const struct recording *recording, const struct gsp_err *err)
{
    const bool is_file = err->code == GSP_E_EXISTS && recording->take.err.code == 0;
    return gsp_cli__fail(recording->parsed,
                         &(struct gsp_hint_context){.command = "mem record",
                                                    .pid = recording->pid,
                                                    .program = recording->parsed->args[0],
                                                    .path = is_file || err->code == GSP_E_NOWRITE
                                                                ? recording->output
                                                                : NULL,
                                                    .argv = recording->parsed->argv},
                         err);
}

/* Returns the program's exit status, even if recording failed. */
static int finish(struct recording *recording, int rc, struct gsp_err *err)
{
    if (rc == GSP_OK && recording->take.taken == 0)
        rc = explain_empty(recording, err);
    gsp_record_memory_tree_off(&recording->tree);
    const bool is_kept = recording->take.taken > 0;
    if (rc == GSP_OK)
        report(recording);
    else if (!is_kept && recording->fd >= 0)
        unlink(recording->output);
    int status = rc < 0 ? fail(recording, err) : 0;
    if (recording->launch.pid > 0) {
        const int program = gsp_record_launch_wait(&recording->launch);
        status = program ? program : status;
    }
    return status;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct mem_record_opts *opts = parsed->opts;
    struct recording recording = {.parsed = parsed,
                                  .opts = opts,
                                  .launch = {.gate = -1, .report = -1},
                                  .fd = -1,
                                  .pidfd = -1,
                                  .pid = (pid_t)opts->pid};
    struct gsp_err err = {0};
    if (opts->pid && parsed->arg_count)
        return gsp_cli__misuse(parsed, "--pid and a command exclude each other");
    if (!opts->pid && !parsed->arg_count)
        return gsp_cli__misuse(parsed, "mem record needs a target: PID or -- COMMAND");
    if (opts->output && strcmp(opts->output, "-") == 0)
        return gsp_cli__misuse(parsed, "mem record cannot write to stdout: --output FILE");
    gsp_cli__term_init(&recording.term, STDERR_FILENO, parsed->globals.color);
    recording.tree = (struct gsp_memory_tree){.root = {.pid = recording.pid,
                                                       .exact = opts->exact,
                                                       .limit_ns = opts->limit_ns,
                                                       .bytes = opts->bytes},
                                              .has_children = opts->subprocesses && opts->pid != 0};
    int rc = gsp_record_memory_switch_check(&recording.tree.root, &err);
    if (rc < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    if (opts->pid)
        gsp_cli__await_python(recording.pid, opts->subprocesses, parsed);
    rc = start(&recording, &err);
    if (rc == GSP_OK)
        rc = record(&recording, &err);
    else
        gsp_record_launch_abort(&recording.launch);
    const int status = finish(&recording, rc, &err);
    gsp_record_memory_poll_free(&recording.take);
    gsp_record_memory_tree_free(&recording.tree);
    gsp_memlog_writer_free(recording.writer);
    gsp_fd_close(&recording.fd);
    gsp_fd_close(&recording.pidfd);
    return status;
}

const struct gsp_command gsp_cmd_mem_record = {
    .name = "mem-record",
    .title = "mem record",
    .summary = "Record memory allocations by call site",
    .synopsis = "[OPTIONS] (PID | -- COMMAND...)",
    .about =
        "Counts allocations and frees by call site inside the process: those of Python's "
        "allocators, of the C library (NumPy, PyTorch on the CPU, C++), and anonymous mappings. "
        "gsprof reads the counters from outside once a second and appends the changes to a file, "
        "which is valid up to the last snapshot even after a crash. `gsprof mem report` shows the "
        "peak, leaks, temporary allocations and differences.\n"
        "For a running process, gsprof injects the agent like `gsprof inject` and ejects it at the "
        "end. Only allocations made after that are counted.",
    GSP_COMMAND_OPTS(OPTS, struct mem_record_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .takes_program = true,
    .run = run,
};
