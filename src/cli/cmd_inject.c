/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/ring_settings.h"
#include "cli/term.h"
#include "inject/run_python.h"
#include "proc/child_task.h"
#include "proc/task.h"
#include "record/follow_child.h"
#include "sample/tree.h"

#define LIMIT     "10s"
#define NEAR_MAX  4U
#define PREFIX    "gsprof."
#define CMD_SHOWN 60U
/* Processes that are injected at the same time. */
#define AT_ONCE   8U

enum state { IN, ALREADY_IN, OUT_OF, NOT_IN };

/* Of the JSON output. */
static const char *const STATES[] = {"in", "already in", "out of", "not in"};

/* The result for one process. With several processes, a child process computes each. */
struct outcome {
    struct gsp_err err;
    enum state state;
    bool by_itself;   /* the interpreter loaded the agent, without a stop */
    int64_t total_ns; /* 0: nothing was done */
    int64_t stopped_ns;
};

struct one {
    struct gsp_python_call call;
    struct gsp_child_task apart;
};

struct inject_opts {
    int64_t pid;
    struct gsp_opt_list defines;
    int64_t limit_ns;
    bool subprocesses;
    bool force;
    bool json;
};

#define OPT_LIMIT                                                                                  \
    {                                                                                              \
        .name = "timeout", .kind = GSP_OPT_DURATION,                                               \
        .offset = offsetof(struct inject_opts, limit_ns), .arg = "DURATION", .fallback = LIMIT,    \
        .help = "Time limit for the process to respond."                                           \
    }
#define OPT_TREE                                                                                   \
    GSP_OPT_SWITCH(struct inject_opts, subprocesses, "subprocesses", 's', false,                   \
                   "Include its current Python child processes. If one fails, gsprof continues "   \
                   "with the others.")
#define OPT_FORCE                                                                                  \
    GSP_OPT_SWITCH(struct inject_opts, force, "force", 0, true,                                    \
                   "Proceed even if the process has a seccomp filter, which may kill it, or if "   \
                   "it sends data, where a call may return before all of it is sent.")
#define OPT_JSON GSP_OPT_SWITCH(struct inject_opts, json, "json", 0, false, "Print JSON.")

static const struct gsp_opt INJECT_OPTS[] = {
    GSP_OPT_PID_ROW(struct inject_opts),
    {.name = "define",
     .letter = 'D',
     .kind = GSP_OPT_LIST,
     .offset = offsetof(struct inject_opts, defines),
     .arg = "KEY=VALUE",
     .help = "Set an initial setting of the agent; `gsprof config PID` lists them. Repeatable."},
    OPT_TREE,
    OPT_LIMIT,
    OPT_FORCE,
    OPT_JSON,
};

static const struct gsp_opt EJECT_OPTS[] = {
    GSP_OPT_PID_ROW(struct inject_opts), OPT_TREE, OPT_LIMIT, OPT_FORCE, OPT_JSON,
};

static const struct gsp_example INJECT_EXAMPLES[] = {
    {"gsprof inject 4242", "Start writing its steps, spans and stacks to tables"},
    {"gsprof inject train.py -D torch=on", "Find it by its command line; trace PyTorch modules"},
    {"gsprof inject 4242 -D torch=on -D torch.rate=0.1", "Trace one step in ten"},
    {"gsprof inject -s 4242", "Include its ranks, pools and data loaders"},
};

static const struct gsp_example EJECT_EXAMPLES[] = {
    {"gsprof eject 4242", "Remove all hooks and stop recording"},
    {"gsprof eject train.py", "Find the process by its command line"},
    {"gsprof 4242 eject", "The PID may come first"},
    {"gsprof eject -s 4242", "Include its worker processes"},
};

/* ------------------------------------------------------------------------------------- target */

static int report_several(const struct gsp_parsed *parsed, const struct gsp_err *err,
                          const struct gsp_buf *list)
{
    struct gsp_hint hint = {0};
    struct gsp_term term;
    gsp_auto_buf text = {0};
    snprintf(hint.what, sizeof(hint.what), "%s:", err->msg);
    gsp_cli__hint_add(&hint, "selects one", "gsprof %s PID", parsed->command->name);
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_cli__hint_print(&hint, &term, &text);
    /* The list may be longer than a hint holds: insert it after the first line. */
    const char *end = memchr(text.p, '\n', text.len);
    size_t first = end ? (size_t)(end - text.p) + 1 : text.len;
    gsp_auto_buf whole = {0};
    gsp_buf_put(&whole, text.p, first);
    gsp_buf_put(&whole, list->p, list->len);
    gsp_buf_put(&whole, text.p + first, text.len - first);
    gsp_cli__term_write(&term, &whole);
    return gsp_err_exit_status(err->code);
}

/* Finds the process by --pid or by the first argument. Returns 0, or the exit status after it has
 * printed the error. */
static int find_target(const struct gsp_parsed *parsed, pid_t *pid)
{
    const struct inject_opts *opts = parsed->opts;
    gsp_auto_buf list = {0};
    struct gsp_err err = {0};
    *pid = (pid_t)opts->pid;
    if ((opts->pid != 0) == (parsed->arg_count > 0))
        return gsp_cli__misuse(parsed, "%s needs one process: a PID or a word of its command line",
                               parsed->command->name);
    if (opts->pid == 0 && gsp_inject_find_process(parsed->args[0], pid, &list, &err) != GSP_OK)
        return err.code == GSP_E_USAGE ? report_several(parsed, &err, &list)
                                       : gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err);
    return 0;
}

/* ------------------------------------------------------------------------------------ settings */

static int unknown_key(const struct gsp_parsed *parsed, struct gsp_sv key)
{
    struct gsp_parsed copy = *parsed;
    char name[64];
    size_t skip = gsp_sv_starts(key, PREFIX) ? sizeof(PREFIX) - 1 : 0;
    size_t best = NEAR_MAX;
    snprintf(name, sizeof(name), "%.*s", (int)(key.len < 60 ? key.len : 60), key.p);
    for (size_t i = 0; gsp_wire_setting_row(i) && skip <= strlen(name); i++) {
        size_t distance = gsp_str_distance(name + skip, gsp_wire_setting_row(i)->name);
        if (distance < best) {
            best = distance;
            snprintf(copy.suggestion, sizeof(copy.suggestion), "gsprof inject PID -D %s=VALUE",
                     gsp_wire_setting_row(i)->name);
        }
    }
    return gsp_cli__misuse(&copy, "unknown setting '%s'", name);
}

static int read_defines(const struct gsp_parsed *parsed, struct gsp_control_change *out)
{
    const struct inject_opts *opts = parsed->opts;
    struct gsp_err err = {0};
    for (size_t i = 0; i < opts->defines.count; i++) {
        const char *word = opts->defines.at[i];
        const char *equals = strchr(word, '=');
        if (!equals || equals == word)
            return gsp_cli__misuse(parsed, "'%.100s' is not KEY=VALUE", word);
        struct gsp_sv key = {word, (size_t)(equals - word)};
        int id = gsp_wire_setting_row_find(key);
        if (id < 0)
            return unknown_key(parsed, key);
        out[i].id = (enum gsp_setting_id)id;
        if (gsp_wire_setting_row_check((size_t)id, gsp_sv_of(equals + 1), out[i].value, &err) !=
            GSP_OK)
            return gsp_cli__misuse(parsed, "%s", err.msg);
    }
    return 0;
}

/* Adds the ring size of gsprof's environment or config.toml, unless -D sets it. */
static size_t add_ring_rows(pid_t pid, struct gsp_control_change *settings, size_t count)
{
    int64_t rows = count < GSP_OPT_LIST_MAX ? gsp_cli__ring_rows_for(pid) : 0;
    for (size_t i = 0; i < count; i++)
        rows = settings[i].id == GSP_SET_ring_rows ? 0 : rows;
    if (rows == 0)
        return count;
    settings[count].id = GSP_SET_ring_rows;
    snprintf(settings[count].value, sizeof(settings[count].value), "%" PRId64, rows);
    return count + 1;
}

/* Reports invalid ring sizes in config.toml and the environments, which the agent ignores without a
 * message. */
static void check_ring_rows(const struct gsp_parsed *parsed, const struct gsp_python_call *call)
{
    struct gsp_control_change settings[GSP_OPT_LIST_MAX];
    char version[32];
    if (gsp_inject_is_injected(call->pid, version))
        return; /* its rings exist already */
    memcpy(settings, call->settings, call->setting_count * sizeof(*settings));
    const size_t count = add_ring_rows(call->pid, settings, call->setting_count);
    const char *used = "0";
    for (size_t i = 0; i < count; i++)
        used = settings[i].id == GSP_SET_ring_rows ? settings[i].value : used;
    gsp_cli__ring_check(parsed);
    gsp_cli__ring_check_process(parsed, call->pid, used);
}

/* ------------------------------------------------------------------------------------- report */

/* "process 4242 (python3 train.py)" */
static void put_target(pid_t pid, struct gsp_buf *out)
{
    gsp_auto_buf cmdline = {0};
    gsp_proc_cmdline(pid, &cmdline);
    struct gsp_sv shown = gsp_buf_sv(&cmdline);
    shown.len = shown.len < CMD_SHOWN ? shown.len : CMD_SHOWN;
    gsp_buf_printf(out, "process %d (", (int)pid);
    gsp_buf_term(out, shown);
    gsp_buf_putc(out, ')');
}

static void put_json(pid_t pid, const struct outcome *outcome, struct gsp_buf *out)
{
    struct gsp_json json;
    const int code = outcome->err.code;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "pid", pid);
    if (code != GSP_OK) {
        gsp_json_put_str(&json, "state", code == GSP_E_NOTPY ? "skipped" : "failed");
        gsp_json_put_str(&json, "reason", outcome->err.msg);
    } else {
        gsp_json_put_str(&json, "state", STATES[outcome->state]);
        gsp_json_put_str(&json, "by", outcome->by_itself ? "interpreter" : "library");
        gsp_json_put_f64(&json, "total_ms", (double)outcome->total_ns / 1e6);
        gsp_json_put_f64(&json, "stopped_ms", (double)outcome->stopped_ns / 1e6);
    }
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}

static void put_text(pid_t pid, const struct outcome *outcome, struct gsp_buf *out)
{
    static const char *const DONE[] = {"Injected the agent into", "The agent is already in",
                                       "Ejected the agent from", "No agent in"};
    char total[32];
    char stopped[32];
    if (outcome->err.code == GSP_E_NOTPY) {
        gsp_buf_puts(out, "Skipped ");
        put_target(pid, out);
        gsp_buf_puts(out, ": not Python.\n");
        return;
    }
    gsp_buf_printf(out, "%s ", DONE[outcome->state]);
    put_target(pid, out);
    gsp_fmt_duration(outcome->total_ns, total, sizeof(total));
    gsp_fmt_duration(outcome->stopped_ns, stopped, sizeof(stopped));
    if (outcome->total_ns == 0)
        gsp_buf_puts(out, ".\n");
    else if (outcome->by_itself)
        gsp_buf_printf(out, ": took %s, no thread was stopped.\n", total);
    else
        gsp_buf_printf(out, ": took %s, one thread was stopped for %s.\n", total, stopped);
}

static int report(const struct gsp_parsed *parsed, pid_t pid, const struct outcome *outcome)
{
    const struct inject_opts *opts = parsed->opts;
    gsp_auto_buf text = {0};
    if (opts->json)
        put_json(pid, outcome, &text);
    else if (!parsed->globals.quiet)
        put_text(pid, outcome, &text);
    struct gsp_err err = {0};
    if ((text.len || text.failed) && gsp_file_put(NULL, false, &text, &err) != GSP_OK)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.pid = pid}, &err);
    return 0;
}

static int report_failed(const struct gsp_parsed *parsed, pid_t pid, const struct outcome *outcome)
{
    return gsp_cli__fail(parsed, &(struct gsp_hint_context){.pid = pid}, &outcome->err);
}

/* ------------------------------------------------------------------------------------- inject */

/* Sets *err to the last line of the traceback, which names the exception. */
static void set_raised(const struct gsp_python_call_result *result, struct gsp_err *err)
{
    struct gsp_sv rest = result->trace;
    struct gsp_sv line;
    struct gsp_sv last = {"", 0};
    while (gsp_sv_split(&rest, '\n', &line))
        if (line.len > 0)
            last = line;
    gsp_err_fill(err, GSP_E_NOTSUP, 0, "%.*s", (int)(last.len < 200 ? last.len : 200), last.p);
}

static void execute(const struct gsp_python_call *call, struct outcome *out)
{
    struct gsp_python_call_result result;
    if (gsp_inject_run_python(call, &result, &out->err) == GSP_OK && result.raised)
        set_raised(&result, &out->err);
    out->by_itself = result.by_itself;
    out->total_ns = result.total_ns;
    out->stopped_ns = result.stopped_ns;
    gsp_inject_python_call_result_free(&result);
}

static void inject(void *user, void *answer)
{
    const struct gsp_python_call *call = user;
    struct outcome *out = answer;
    char version[32];
    gsp_inject_use_runtime_dir_of(call->pid);
    const bool is_there = gsp_inject_is_injected(call->pid, version);
    if (is_there && strcmp(version, GSP_VERSION) != 0) {
        gsp_err_fill(&out->err, GSP_E_EXISTS, 0, "process %d already has an agent of version %.31s",
                     (int)call->pid, version);
        return;
    }
    out->state = is_there ? ALREADY_IN : IN;
    struct gsp_control_change settings[GSP_OPT_LIST_MAX];
    struct gsp_python_call mine = *call;
    if (!is_there) {
        memcpy(settings, call->settings, call->setting_count * sizeof(*settings));
        mine.settings = settings;
        mine.setting_count = add_ring_rows(call->pid, settings, call->setting_count);
    }
    if (!is_there || call->setting_count > 0)
        execute(&mine, out);
}

static void eject(void *user, void *answer)
{
    const struct gsp_python_call *call = user;
    struct outcome *out = answer;
    char version[32];
    gsp_inject_use_runtime_dir_of(call->pid);
    out->state = OUT_OF;
    if (gsp_inject_is_injected(call->pid, version)) {
        execute(call, out);
        return;
    }
    const bool is_gone = kill(call->pid, 0) < 0 && errno == ESRCH;
    out->state = NOT_IN;
    gsp_err_fill(&out->err, is_gone ? GSP_E_NOPROC : GSP_E_NOFILE, 0, "no %s %d",
                 is_gone ? "process" : "agent in process", (int)call->pid);
}

/* ---------------------------------------------------------------------------------------- tree */

/* Whether a process of the tree may be skipped: it exited, is not Python, or has no agent to
 * eject. */
static bool can_skip(int code)
{
    return code == GSP_OK || code == GSP_E_NOTPY || code == GSP_E_NOPROC || code == GSP_E_NOFILE;
}

/* Reports the result of one process of the tree; returns its exit status, 0 if it is skipped. */
static int report_one(const struct gsp_parsed *parsed, pid_t pid, const struct outcome *outcome)
{
    const struct inject_opts *opts = parsed->opts;
    const int code = outcome->err.code;
    int status = 0;
    if (code == GSP_OK || code == GSP_E_NOTPY)
        return report(parsed, pid, outcome);
    if (can_skip(code))
        return 0;
    if (opts->json)
        status = report(parsed, pid, outcome);
    const int failed = report_failed(parsed, pid, outcome);
    return status ? status : failed;
}

/* Works on all processes, AT_ONCE at a time, and reports them in order. *first is the result of the
 * first, *done the number of processes that succeeded. Returns the first failed exit status. */
static int work_on_all(const struct gsp_parsed *parsed, struct one *all, size_t count,
                       void (*work)(void *, void *), struct outcome *first, size_t *done)
{
    int status = 0;
    for (size_t next = 0, at = 0; at < count; at++) {
        struct outcome outcome = {.err = {.code = GSP_OK}};
        for (; next < count && next - at < AT_ONCE; next++)
            gsp_ignore(gsp_proc_child_task_start(&all[next].apart, work, &all[next].call,
                                                 sizeof(outcome), NULL) < 0);
        if (all[at].apart.child <= 0)
            work(&all[at].call, &outcome);
        else if (gsp_proc_child_task_wait(&all[at].apart, &outcome, sizeof(outcome), -1) !=
                 GSP_CHILD_TASK_DONE)
            gsp_err_fill(&outcome.err, GSP_E_IO, 0, "the helper process ended without a result");
        const int one = report_one(parsed, all[at].call.pid, &outcome);
        status = status ? status : one;
        *done += outcome.err.code == GSP_OK;
        if (at == 0)
            *first = outcome;
    }
    return status;
}

/* Returns the exit status of the first process that failed. */
static int work_on_tree(const struct gsp_parsed *parsed, const struct gsp_python_call *call,
                        void (*work)(void *, void *))
{
    pid_t *pids = NULL;
    size_t count = 0;
    size_t done = 0;
    struct outcome first = {.err = {.code = GSP_OK}};
    int rc = gsp_sample_tree_pids(call->pid, &pids, &count, &first.err);
    struct one *all = rc == GSP_OK ? calloc(count, sizeof(*all)) : NULL;
    if (rc == GSP_OK && !all)
        rc = gsp_err_nomem(&first.err);
    size_t kept = 0;
    for (size_t i = 0; rc == GSP_OK && i < count; i++) {
        if (pids[i] == getpid())
            continue; /* gsprof itself is part of the tree */
        all[kept] = (struct one){.call = *call, .apart = {.fd = -1}};
        all[kept++].call.pid = pids[i];
    }
    int status = rc == GSP_OK ? work_on_all(parsed, all, kept, work, &first, &done) : 0;
    if (rc < 0 || (status == 0 && done == 0))
        status = report_failed(parsed, call->pid, &first);
    free(all);
    free(pids);
    return status;
}

static int work_on(const struct gsp_parsed *parsed, struct gsp_python_call *call,
                   void (*work)(void *, void *))
{
    const struct inject_opts *opts = parsed->opts;
    struct outcome outcome = {.err = {.code = GSP_OK}};
    if (opts->subprocesses)
        return work_on_tree(parsed, call, work);
    work(call, &outcome);
    return outcome.err.code == GSP_OK ? report(parsed, call->pid, &outcome)
                                      : report_failed(parsed, call->pid, &outcome);
}

static int run_inject(const struct gsp_parsed *parsed)
{
    const struct inject_opts *opts = parsed->opts;
    struct gsp_control_change settings[GSP_OPT_LIST_MAX];
    struct gsp_python_call call = {.what = "inject",
                                   .follow = gsp_record_follow_in_background,
                                   .settings = settings,
                                   .setting_count = opts->defines.count,
                                   .limit_ns = opts->limit_ns,
                                   .force = opts->force};
    int status = read_defines(parsed, settings);
    if (status == 0)
        status = find_target(parsed, &call.pid);
    if (status == 0)
        gsp_cli__await_python(call.pid, opts->subprocesses, parsed);
    if (status == 0)
        check_ring_rows(parsed, &call);
    return status ? status : work_on(parsed, &call, inject);
}

static int run_eject(const struct gsp_parsed *parsed)
{
    const struct inject_opts *opts = parsed->opts;
    struct gsp_python_call call = {
        .what = "eject", .limit_ns = opts->limit_ns, .force = opts->force};
    int status = find_target(parsed, &call.pid);
    return status ? status : work_on(parsed, &call, eject);
}

const struct gsp_command gsp_cmd_inject = {
    .name = "inject",
    .summary = "Load the agent into a running Python process",
    .synopsis = "[-s] PID|NAME [-D KEY=VALUE]...",
    .about = "The process then writes tables of its steps, spans and PyTorch modules, and a "
             "follower samples its stacks, as if it had been started with GSPROF=1. NAME is a word "
             "of its command line.\n"
             "gsprof stops one thread for some milliseconds, at a point where it holds no lock of "
             "the C library, and lets it load the agent. If gsprof is killed meanwhile, the "
             "program continues as if nothing had happened. Python 3.14 and later load the "
             "agent themselves, without a stop, unless PYTHON_DISABLE_REMOTE_DEBUG is set. No "
             "files are written for the process. If the agent is already loaded, only the "
             "settings change.\n"
             "With --subprocesses, prints one line for each process of the tree and skips "
             "processes that are not Python. The exit status is 0 if the agent is in all Python "
             "processes of the tree, otherwise that of the first failure.",
    GSP_COMMAND_OPTS(INJECT_OPTS, struct inject_opts),
    GSP_COMMAND_EXAMPLES(INJECT_EXAMPLES),
    .args_max = 1,
    .takes_endpoint = true,
    .run = run_inject,
};

const struct gsp_command gsp_cmd_eject = {
    .name = "eject",
    .summary = "Remove the agent from a process",
    .synopsis = "[-s] PID|NAME",
    .about = "Removes all hooks and unmaps the rings. The recorded rows stay readable. The agent's "
             "library stays loaded but inactive.",
    GSP_COMMAND_OPTS(EJECT_OPTS, struct inject_opts),
    GSP_COMMAND_EXAMPLES(EJECT_EXAMPLES),
    .args_max = 1,
    .takes_endpoint = true,
    .lesser = true,
    .run = run_eject,
};
