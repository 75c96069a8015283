/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/term.h"
#include "inject/run_python.h"
#include "proc/perm.h"
#include "proc/task.h"

#define RAISED    1 /* exit status if the code raised an exception */
#define CODE_MAX  (1U << 20)
#define CMD_SHOWN 60U

struct eval_opts {
    int64_t limit_ns;
    bool yes;
    bool force;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct eval_opts, yes, "yes", 'y', false, "Do not ask for confirmation."),
    {.name = "timeout",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct eval_opts, limit_ns),
     .arg = "DURATION",
     .fallback = "10s",
     .help = "How long to wait for the code. The code itself is not interrupted."},
    GSP_OPT_SWITCH(struct eval_opts, force, "force", 0, true,
                   "Proceed even if the process has a seccomp filter, which may kill it, or if it "
                   "sends data, where a call may return before all of it is sent."),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof eval 4242 'len(gc.get_objects())' --yes", "Print the value of an expression"},
    {"gsprof eval 4242 'import gc; print(gc.get_count())'", "Print the output of statements"},
    {"gsprof eval 4242 - --yes", "Read the code from stdin"},
};

/* Requires --yes, or asks the user on the terminal. */
static int confirm(const struct gsp_parsed *parsed, pid_t pid)
{
    const struct eval_opts *opts = parsed->opts;
    struct gsp_term term;
    gsp_auto_buf cmdline = {0};
    gsp_auto_buf shown = {0};
    char answer[16] = "";
    if (opts->yes)
        return 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        struct gsp_parsed copy = *parsed;
        snprintf(copy.suggestion, sizeof(copy.suggestion), "gsprof eval --yes %d CODE", (int)pid);
        return gsp_cli__misuse(&copy, "eval needs --yes without a terminal");
    }
    gsp_proc_cmdline(pid, &cmdline);
    struct gsp_sv words = gsp_buf_sv(&cmdline);
    words.len = words.len < CMD_SHOWN ? words.len : CMD_SHOWN;
    gsp_buf_term(&shown, words);
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_cli__term_line(&term, "Run this code in process %d (%s)? [y/N]", (int)pid,
                       shown.failed ? "" : gsp_buf_cstr(&shown));
    ssize_t len = read(STDIN_FILENO, answer, sizeof(answer) - 1);
    if (len > 0 && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    gsp_cli__term_line(&term, "The code was not run.");
    return RAISED;
}

/* Only the owner of a process may run code in it; this holds for root as well. */
static int check_owner(pid_t pid, struct gsp_err *err)
{
    struct gsp_perm perm;
    gsp_proc_perm_read("", pid, &perm);
    if (!perm.exists)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has exited", (int)pid);
    if (perm.target_uid != perm.euid)
        return gsp_err_set(err, GSP_E_PERM, 0,
                           "process %d belongs to user %lld, and gsprof runs as user %lld: eval "
                           "works only in your own processes",
                           (int)pid, (long long)perm.target_uid, (long long)perm.euid);
    return GSP_OK;
}

static int put_line(int fd, struct gsp_sv text, struct gsp_err *err)
{
    gsp_auto_buf line = {0};
    gsp_buf_putsv(&line, text);
    if (text.len > 0 && text.p[text.len - 1] != '\n')
        gsp_buf_putc(&line, '\n');
    return line.failed ? gsp_err_nomem(err) : gsp_fd_write_text(fd, gsp_buf_sv(&line), false, err);
}

static int show(const struct gsp_python_call_result *result, struct gsp_err *err)
{
    int rc = gsp_fd_write_text(STDOUT_FILENO, result->printed, false, err);
    if (rc == GSP_OK)
        rc = put_line(STDOUT_FILENO, result->value, err);
    if (rc == GSP_OK)
        rc = put_line(STDERR_FILENO, result->trace, err);
    return rc;
}

static int run(const struct gsp_parsed *parsed)
{
    const struct eval_opts *opts = parsed->opts;
    struct gsp_python_call call = {
        .what = "eval", .limit_ns = opts->limit_ns, .force = opts->force};
    struct gsp_python_call_result result = {0};
    struct gsp_err err = {0};
    gsp_auto_buf list = {0};
    gsp_auto_buf code = {0};
    int rc = gsp_inject_find_process(parsed->args[0], &call.pid, &list, &err);
    if (rc == GSP_OK)
        rc = check_owner(call.pid, &err);
    if (rc == GSP_OK && strcmp(parsed->args[1], "-") == 0)
        rc = gsp_fd_read_all(STDIN_FILENO, CODE_MAX, &code, &err);
    else if (rc == GSP_OK)
        gsp_buf_puts(&code, parsed->args[1]);
    const struct gsp_hint_context context = {.pid = err.code == GSP_E_PERM ? 0 : call.pid};
    if (rc != GSP_OK)
        return gsp_cli__fail(parsed, &context, &err);
    int status = confirm(parsed, call.pid);
    if (status != 0)
        return status;
    call.code = gsp_buf_cstr(&code);
    gsp_inject_use_runtime_dir_of(call.pid);
    rc = gsp_inject_run_python(&call, &result, &err);
    if (rc == GSP_OK)
        rc = show(&result, &err);
    if (rc == GSP_OK)
        status = result.raised ? RAISED : 0;
    else
        status = gsp_cli__fail(parsed, &context, &err);
    gsp_inject_python_call_result_free(&result);
    return status;
}

const struct gsp_command gsp_cmd_eval = {
    .name = "eval",
    .summary = "Run Python code in one of your processes",
    .synopsis = "PID|NAME CODE",
    .about = "Prints the output of the code and the value of its last expression. The code runs in "
             "the namespace of __main__, in its own thread or in a running one. If it raises an "
             "exception, the traceback goes to stderr and the exit status is 1. If CODE is -, it "
             "is read from stdin.\n"
             "Asks for confirmation on a terminal; needs --yes otherwise.",
    GSP_COMMAND_OPTS(OPTS, struct eval_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_min = 2,
    .args_max = 2,
    .takes_endpoint = true,
    .lesser = true,
    .run = run,
};
