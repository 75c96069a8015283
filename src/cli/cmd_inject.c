/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/term.h"
#include "cli/visit.h"
#include "proc/task.h"

#define LIMIT     "10s"
#define NEAR_MAX  4U
#define PREFIX    "gsprof."
#define CMD_SHOWN 60U

struct inject_opts {
    int64_t pid;
    struct gsp_opt_list defines;
    int64_t limit_ns;
    bool force;
    bool json;
};

#define OPT_LIMIT                                                                                  \
    {                                                                                              \
        .name = "timeout", .kind = GSP_OPT_DURATION,                                               \
        .offset = offsetof(struct inject_opts, limit_ns), .arg = "DURATION", .fallback = LIMIT,    \
        .help = "How long the process may take to answer."                                         \
    }
#define OPT_FORCE                                                                                  \
    GSP_OPT_SWITCH(struct inject_opts, force, "force", 0, true,                                    \
                   "Also if a seccomp filter of the process may end it for this.")
#define OPT_JSON GSP_OPT_SWITCH(struct inject_opts, json, "json", 0, false, "For programs.")

static const struct gsp_opt INJECT_OPTS[] = {
    GSP_OPT_PID_ROW(struct inject_opts),
    {.name = "define",
     .letter = 'D',
     .kind = GSP_OPT_LIST,
     .offset = offsetof(struct inject_opts, defines),
     .arg = "KEY=VALUE",
     .help = "A setting of the agent from the start on; gsprof config PID lists them."},
    OPT_LIMIT,
    OPT_FORCE,
    OPT_JSON,
};

static const struct gsp_opt EJECT_OPTS[] = {
    GSP_OPT_PID_ROW(struct inject_opts),
    OPT_LIMIT,
    OPT_FORCE,
    OPT_JSON,
};

static const struct gsp_example INJECT_EXAMPLES[] = {
    {"gsprof inject 4242", "From now on its steps, spans and stacks are tables"},
    {"gsprof inject train.py -D torch=on", "By its command line, and trace PyTorch's modules"},
    {"gsprof inject 4242 -D torch=on -D torch.rate=0.1", "One step in ten"},
};

static const struct gsp_example EJECT_EXAMPLES[] = {
    {"gsprof eject 4242", "Hooks off, nothing is recorded any more"},
    {"gsprof eject train.py", "By its command line"},
    {"gsprof 4242 eject", "The other order of words"},
};

/* ------------------------------------------------------------------------------------- target */

static int tell_several(const struct gsp_parsed *parsed, const struct gsp_err *err,
                        const struct gsp_buf *list)
{
    struct gsp_hint hint = {0};
    struct gsp_term term;
    gsp_auto_buf text = {0};
    snprintf(hint.what, sizeof(hint.what), "%s:", err->msg);
    gsp_hint_add(&hint, "one of them", "gsprof %s PID", parsed->command->name);
    gsp_term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_hint_print(&hint, &term, &text);
    /* The list may be longer than a hint: below its first line. */
    const char *end = memchr(text.p, '\n', text.len);
    size_t first = end ? (size_t)(end - text.p) + 1 : text.len;
    gsp_auto_buf whole = {0};
    gsp_buf_put(&whole, text.p, first);
    gsp_buf_put(&whole, list->p, list->len);
    gsp_buf_put(&whole, text.p + first, text.len - first);
    gsp_term_write(&term, &whole);
    return gsp_err_exit_status(err->code);
}

/* The process by --pid or by the first word; 0, or the exit status after it was told. */
static int find_target(const struct gsp_parsed *parsed, pid_t *pid)
{
    const struct inject_opts *opts = parsed->opts;
    gsp_auto_buf list = {0};
    struct gsp_err err = {0};
    *pid = (pid_t)opts->pid;
    if ((opts->pid != 0) == (parsed->arg_count > 0))
        return gsp_cli_misuse(parsed, "say which process: a pid, or a word of its command line");
    if (opts->pid == 0 && gsp_visit_find(parsed->args[0], pid, &list, &err) != GSP_OK)
        return err.code == GSP_E_USAGE ? tell_several(parsed, &err, &list)
                                       : gsp_cli_fail(parsed, &(struct gsp_hint_context){0}, &err);
    gsp_visit_look_there(*pid);
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
    for (size_t i = 0; gsp_setting_row(i) && skip <= strlen(name); i++) {
        size_t distance = gsp_str_distance(name + skip, gsp_setting_row(i)->name);
        if (distance < best) {
            best = distance;
            snprintf(copy.suggestion, sizeof(copy.suggestion), "gsprof inject PID -D %s=VALUE",
                     gsp_setting_row(i)->name);
        }
    }
    return gsp_cli_misuse(&copy, "there is no setting '%s'", name);
}

static int read_defines(const struct gsp_parsed *parsed, struct gsp_control_change *out)
{
    const struct inject_opts *opts = parsed->opts;
    struct gsp_err err = {0};
    for (size_t i = 0; i < opts->defines.count; i++) {
        const char *word = opts->defines.at[i];
        const char *equals = strchr(word, '=');
        if (!equals || equals == word)
            return gsp_cli_misuse(parsed, "'%.100s' is not KEY=VALUE", word);
        struct gsp_sv key = {word, (size_t)(equals - word)};
        int id = gsp_setting_row_find(key);
        if (id < 0)
            return unknown_key(parsed, key);
        out[i].id = (enum gsp_setting_id)id;
        if (gsp_setting_row_check((size_t)id, gsp_sv_of(equals + 1), out[i].value, &err) != GSP_OK)
            return gsp_cli_misuse(parsed, "%s", err.msg);
    }
    return 0;
}

/* --------------------------------------------------------------------------------------- told */

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

static void put_json(pid_t pid, const char *state, const struct gsp_visit_result *result,
                     struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "pid", pid);
    gsp_json_put_str(&json, "state", state);
    gsp_json_put_str(&json, "by", result->by_itself ? "interpreter" : "library");
    gsp_json_put_f64(&json, "total_ms", (double)result->total_ns / 1e6);
    gsp_json_put_f64(&json, "stopped_ms", (double)result->stopped_ns / 1e6);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}

static int tell(const struct gsp_parsed *parsed, pid_t pid, const char *state,
                const struct gsp_visit_result *result)
{
    const struct inject_opts *opts = parsed->opts;
    gsp_auto_buf text = {0};
    char total[32];
    char stopped[32];
    if (opts->json) {
        put_json(pid, state, result, &text);
        return gsp_err_exit_status(gsp_cli_put_text(NULL, false, &text, NULL));
    }
    if (parsed->globals.quiet)
        return 0;
    gsp_buf_printf(&text, "The agent is %s ", state);
    put_target(pid, &text);
    gsp_fmt_duration(result->total_ns, total, sizeof(total));
    gsp_fmt_duration(result->stopped_ns, stopped, sizeof(stopped));
    if (result->total_ns == 0)
        gsp_buf_puts(&text, ".\n");
    else if (result->by_itself)
        gsp_buf_printf(&text, ": %s, nothing was stopped.\n", total);
    else
        gsp_buf_printf(&text, ": %s, of which one thread stood still for %s.\n", total, stopped);
    return gsp_err_exit_status(gsp_cli_put_text(NULL, false, &text, NULL));
}

/* The last line of a traceback says what happened. */
static int tell_raised(const struct gsp_parsed *parsed, pid_t pid,
                       const struct gsp_visit_result *result)
{
    struct gsp_err err = {0};
    struct gsp_sv rest = result->trace;
    struct gsp_sv line;
    struct gsp_sv last = {"", 0};
    while (gsp_sv_split(&rest, '\n', &line)) {
        if (line.len > 0)
            last = line;
    }
    gsp_err_fill(&err, GSP_E_NOTSUP, 0, "%.*s", (int)(last.len < 200 ? last.len : 200), last.p);
    return gsp_cli_fail(parsed, &(struct gsp_hint_context){.pid = pid}, &err);
}

static int enter(const struct gsp_parsed *parsed, struct gsp_visit *visit, const char *state)
{
    struct gsp_visit_result result;
    struct gsp_err err = {0};
    int status;
    if (gsp_visit(visit, &result, &err) != GSP_OK)
        status = gsp_cli_fail(parsed, &(struct gsp_hint_context){.pid = visit->pid}, &err);
    else if (result.raised)
        status = tell_raised(parsed, visit->pid, &result);
    else
        status = tell(parsed, visit->pid, state, &result);
    gsp_visit_result_free(&result);
    return status;
}

static int run_inject(const struct gsp_parsed *parsed)
{
    const struct inject_opts *opts = parsed->opts;
    struct gsp_control_change settings[GSP_OPT_LIST_MAX];
    char version[32];
    struct gsp_visit visit = {.what = "inject",
                              .settings = settings,
                              .setting_count = opts->defines.count,
                              .limit_ns = opts->limit_ns,
                              .force = opts->force};
    int status = read_defines(parsed, settings);
    if (status == 0)
        status = find_target(parsed, &visit.pid);
    if (status != 0)
        return status;
    bool there = gsp_visit_is_there(visit.pid, version);
    if (there && strcmp(version, GSP_VERSION) != 0) {
        struct gsp_err err = {0};
        gsp_err_fill(&err, GSP_E_EXISTS, 0, "an agent of version %.31s is in process %d already",
                     version, (int)visit.pid);
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){.pid = visit.pid}, &err);
    }
    if (there && visit.setting_count == 0)
        return tell(parsed, visit.pid, "already in", &(struct gsp_visit_result){0});
    return enter(parsed, &visit, there ? "already in" : "in");
}

static int run_eject(const struct gsp_parsed *parsed)
{
    const struct inject_opts *opts = parsed->opts;
    char version[32];
    struct gsp_visit visit = {.what = "eject", .limit_ns = opts->limit_ns, .force = opts->force};
    int status = find_target(parsed, &visit.pid);
    if (status != 0)
        return status;
    if (!gsp_visit_is_there(visit.pid, version)) {
        struct gsp_err err = {0};
        const bool is_gone = kill(visit.pid, 0) < 0 && errno == ESRCH;
        gsp_err_fill(&err, is_gone ? GSP_E_NOPROC : GSP_E_NOFILE, 0, "there is no %s %d",
                     is_gone ? "process" : "agent in process", (int)visit.pid);
        return gsp_cli_fail(parsed, &(struct gsp_hint_context){.pid = visit.pid}, &err);
    }
    return enter(parsed, &visit, "out of");
}

const struct gsp_command gsp_cmd_inject = {
    .name = "inject",
    .summary = "Load the agent into a running Python process",
    .synopsis = "PID|NAME [-D KEY=VALUE]...",
    .about = "The process then has tables of its steps, spans and PyTorch modules, and someone "
             "who follows its stacks, as if it had been started with GSPROF=1. NAME is a word of "
             "its command line.\n"
             "One thread is stopped for some tenths of a millisecond, where it holds no lock of "
             "the C library, and loads the agent's library; Python 3.14 and later are asked to do "
             "it themselves, without a stop, unless PYTHON_DISABLE_REMOTE_DEBUG is set. Nothing "
             "is copied to the process's disk. Said again it only changes settings.",
    .opts = INJECT_OPTS,
    .opt_count = GSP_COUNT(INJECT_OPTS),
    .opts_size = sizeof(struct inject_opts),
    .examples = INJECT_EXAMPLES,
    .example_count = GSP_COUNT(INJECT_EXAMPLES),
    .args_max = 1,
    .takes_endpoint = true,
    .run = run_inject,
};

const struct gsp_command gsp_cmd_eject = {
    .name = "eject",
    .summary = "Switch the agent in a process off again",
    .synopsis = "PID|NAME",
    .about = "All hooks are taken out and the rings are unmapped; what they have can still be "
             "read. The library itself stays loaded, and does nothing.",
    .opts = EJECT_OPTS,
    .opt_count = GSP_COUNT(EJECT_OPTS),
    .opts_size = sizeof(struct inject_opts),
    .examples = EJECT_EXAMPLES,
    .example_count = GSP_COUNT(EJECT_EXAMPLES),
    .args_max = 1,
    .takes_endpoint = true,
    .lesser = true,
    .run = run_eject,
};
