/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "model/format.h"
#include "sample/dump.h"
#include "sample/tree.h"

struct dump_opts {
    int64_t pid;
    const char *core;
    bool json;
    bool locals;
    const char *tasks;
    bool subprocesses;
    bool blocking;
    bool nonblocking;
    bool native;
    struct gsp_view_options view; /* only full_filenames */
};

static const char *tasks_choice(size_t i)
{
    static const char *const names[] = {"auto", "never"};
    return i < GSP_COUNT(names) ? names[i] : NULL;
}

static const struct gsp_opt OPTS[] = {
    GSP_OPT_PID_ROW(struct dump_opts),
    {.name = "core",
     .letter = 'c',
     .kind = GSP_OPT_FILE,
     .offset = offsetof(struct dump_opts, core),
     .arg = "FILE",
     .help = "Read a core file instead of a process. The executable and libraries must be at their "
             "original paths."},
    GSP_OPT_SWITCH(struct dump_opts, locals, "locals", 'l', false,
                   "Show the local variables of each frame."),
    {.name = "tasks",
     .kind = GSP_OPT_CHOICE,
     .offset = offsetof(struct dump_opts, tasks),
     .arg = "WHEN",
     .choice = tasks_choice,
     .fallback = "auto",
     .help = "Whether to show asyncio tasks, with what they await, and suspended greenlets."},
    GSP_OPT_SWITCH(struct dump_opts, subprocesses, "subprocesses", 's', false,
                   "Include child processes."),
    GSP_OPT_SWITCH(struct dump_opts, json, "json", 'j', false, "Print JSON."),
    GSP_OPT_FULL_FILENAMES(struct dump_opts),
    GSP_OPT_BLOCKING(struct dump_opts),
    GSP_OPT_NONBLOCKING_AT(struct dump_opts, nonblocking),
    GSP_OPT_NATIVE(struct dump_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof dump 4242", "Print the current stack of every thread"},
    {"gsprof dump -p 4242 --locals", "With local variables: find out why a process hangs"},
    {"gsprof dump -p 4242 --subprocesses", "Include its worker processes"},
    {"gsprof dump -p 4242 --json", "Print JSON"},
    {"gsprof dump --core core.4242 --locals", "Print the stacks of a crashed process"},
    {"gsprof dump --core core.4242 --native", "Include C frames; works without Python"},
};

static struct gsp_sv shown_file(const struct dump_opts *opts, struct gsp_sv file)
{
    return gsp_model_frame_file(&opts->view, file);
}

/* "active+gil", "idle", "idle, torn"; of a core "ended", "ended+gil" */
static void put_state(const struct gsp_dump *dump, const struct gsp_dump_thread *thread,
                      struct gsp_buf *out)
{
    if (!dump->is_core)
        gsp_buf_puts(out, thread->on_cpu ? "active" : "idle");
    else
        gsp_buf_puts(out, "ended");
    if (thread->has_gil)
        gsp_buf_puts(out, "+gil");
    if (thread->torn)
        gsp_buf_puts(out, dump->is_core ? ", unreadable" : ", torn");
}

/* The i-th frame of a stack. */
static void put_frame(const struct dump_opts *opts, const struct gsp_dump_frame *frames, size_t i,
                      size_t count, struct gsp_buf *out)
{
    const struct gsp_dump_frame *frame = &frames[i];
    gsp_buf_puts(out, "    ");
    gsp_buf_term(out, frame->name);
    gsp_buf_puts(out, " (");
    gsp_buf_term(out, shown_file(opts, frame->file));
    if (frame->line)
        gsp_buf_printf(out, ":%" PRIu32, frame->line);
    /* No mark if native frames are shown, for the outermost frame, which C always calls, and for
     * coroutines, which C resumes whenever they are awaited. */
    bool by_c =
        frame->is_entry == 1 && !frame->in_generator && i + 1 < count && !frames[i + 1].is_native;
    const char *mark = by_c ? " [called by C]" : "";
    gsp_buf_printf(out, ")%s\n", frame->bridged ? " [bridged]" : mark);
    static const char *const heads[] = {"Locals", "Arguments"};
    for (int args = 1; args >= 0; args--) {
        bool has_head = false;
        for (size_t k = 0; k < frame->local_count; k++) {
            const struct gsp_dump_local *local = &frame->locals[k];
            if (local->is_arg != (args == 1))
                continue;
            if (!has_head)
                gsp_buf_printf(out, "        %s:\n", heads[args]);
            has_head = true;
            gsp_buf_puts(out, "            ");
            gsp_buf_term(out, local->name);
            gsp_buf_puts(out, ": ");
            gsp_buf_term(out, local->value);
            gsp_buf_putc(out, '\n');
        }
    }
}

/* "Task "fetch" (waiting for task "read")" */
static void put_task(const struct dump_opts *opts, const struct gsp_dump_task *task,
                     const struct gsp_term *term, struct gsp_buf *out)
{
    gsp_buf_printf(out, "\n%s%s \"", gsp_cli__term_bold(term),
                   task->is_greenlet ? "Greenlet" : "Task");
    gsp_buf_term(out, task->name);
    gsp_buf_printf(out, "\"%s (%s", gsp_cli__term_off(term), task->state);
    if (task->waits_for.len) {
        gsp_buf_puts(out, task->waits_for_task ? " for task \"" : " for ");
        gsp_buf_term(out, task->waits_for);
        gsp_buf_puts(out, task->waits_for_task ? "\"" : "");
    }
    if (task->parent.len) {
        gsp_buf_puts(out, ", parent \"");
        gsp_buf_term(out, task->parent);
        gsp_buf_putc(out, '"');
    }
    gsp_buf_puts(out, ")\n");
    for (size_t i = 0; i < task->frame_count; i++)
        put_frame(opts, task->frames, i, task->frame_count, out);
}

static void put_text(const struct dump_opts *opts, const struct gsp_dump *dump,
                     const struct gsp_term *term, struct gsp_buf *out)
{
    if (out->len)
        gsp_buf_putc(out, '\n');
    gsp_buf_printf(out, "%s %d", dump->is_core ? "Core of process" : "Process", (int)dump->pid);
    if (dump->ns_pid)
        gsp_buf_printf(out, " (%d in its container)", (int)dump->ns_pid);
    gsp_buf_puts(out, ": ");
    gsp_buf_term(out, gsp_sv_of(dump->role));
    gsp_buf_term(out, gsp_sv_of(dump->cmdline));
    gsp_buf_printf(out, dump->version[0] ? "\nPython v%s (" : "\nNo Python (%s", dump->version);
    gsp_buf_term(out, gsp_sv_of(dump->exe));
    gsp_buf_puts(out, ")\n");
    if (dump->signal)
        gsp_buf_printf(out, "Killed by signal %d (%s) in thread %d\n", dump->signal,
                       strsignal(dump->signal), (int)dump->signal_tid);
    for (size_t i = 0; i < dump->thread_count; i++) {
        const struct gsp_dump_thread *thread = &dump->threads[i];
        gsp_buf_putc(out, '\n');
        if (thread->os_id)
            gsp_buf_printf(out, "%sThread %" PRIu64 "%s (", gsp_cli__term_bold(term), thread->os_id,
                           gsp_cli__term_off(term));
        else
            gsp_buf_printf(out, "%sThread 0x%" PRIx64 "%s (", gsp_cli__term_bold(term),
                           thread->python_id, gsp_cli__term_off(term));
        put_state(dump, thread, out);
        gsp_buf_putc(out, ')');
        if (thread->name.len) {
            gsp_buf_puts(out, ": \"");
            gsp_buf_term(out, thread->name);
            gsp_buf_putc(out, '"');
        }
        if (thread->interpreter)
            gsp_buf_printf(out, " in interpreter %" PRIu32, thread->interpreter);
        gsp_buf_putc(out, '\n');
        for (size_t k = 0; k < thread->frame_count; k++)
            put_frame(opts, thread->frames, k, thread->frame_count, out);
    }
    for (size_t i = 0; i < dump->task_count; i++)
        put_task(opts, &dump->tasks[i], term, out);
}

static void json_frame(const struct dump_opts *opts, const struct gsp_dump_frame *frame,
                       struct gsp_json *json)
{
    gsp_json_obj_begin(json);
    gsp_json_put_sv(json, "name", frame->name);
    gsp_json_put_sv(json, "filename", frame->file);
    gsp_json_put_sv(json, "short_filename",
                    gsp_model_frame_file(&(struct gsp_view_options){0}, frame->file));
    if (gsp_json_key_or_null(json, "line", frame->line))
        gsp_json_u64(json, frame->line);
    gsp_json_put_str(json, "kind", frame->is_native ? "native" : "python");
    if (frame->is_native)
        gsp_json_put_bool(json, "bridged", frame->bridged);
    if (gsp_json_key_or_null(json, "is_entry", frame->is_entry >= 0))
        gsp_json_bool(json, frame->is_entry == 1);
    gsp_json_key(json, "locals");
    if (!opts->locals) {
        gsp_json_null(json);
        gsp_json_obj_end(json);
        return;
    }
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < frame->local_count; i++) {
        gsp_json_obj_begin(json);
        gsp_json_put_sv(json, "name", frame->locals[i].name);
        gsp_json_put_bool(json, "arg", frame->locals[i].is_arg);
        gsp_json_put_sv(json, "repr", frame->locals[i].value);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
    gsp_json_obj_end(json);
}

static void json_process(const struct gsp_dump *dump, struct gsp_json *json)
{
    gsp_json_obj_begin(json);
    gsp_json_put_i64(json, "pid", dump->pid);
    gsp_json_put_i64(json, "ppid", dump->ppid);
    if (gsp_json_key_or_null(json, "ns_pid", dump->ns_pid))
        gsp_json_i64(json, dump->ns_pid);
    gsp_json_put_str(json, "command_line", dump->cmdline);
    gsp_json_put_str(json, "process_name", dump->name);
    gsp_json_put_str(json, "executable", dump->exe);
    gsp_json_put_str(json, "python_version", dump->version[0] ? dump->version : NULL);
    if (dump->is_cut || dump->lacks_locals || dump->lacks_tasks)
        gsp_json_put_bool(json, "truncated", true);
    if (dump->is_core) {
        if (gsp_json_key_or_null(json, "signal", dump->signal))
            gsp_json_i64(json, dump->signal);
        if (gsp_json_key_or_null(json, "signal_os_thread_id", dump->signal_tid))
            gsp_json_i64(json, dump->signal_tid);
        gsp_json_put_u64(json, "missing_bytes", dump->missing_bytes);
        gsp_json_put_arr_begin(json, "missing_files");
        for (size_t i = 0; i < dump->lacking_count; i++)
            gsp_json_str(json, dump->lacking[i]);
        gsp_json_arr_end(json);
        gsp_json_put_str(json, "python_problem", dump->python_problem);
    }
    gsp_json_obj_end(json);
}

static void json_task(const struct dump_opts *opts, const struct gsp_dump_task *task,
                      struct gsp_json *json)
{
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "kind", task->is_greenlet ? "greenlet" : "task");
    gsp_json_put_sv(json, "name", task->name);
    gsp_json_put_str(json, "state", task->state);
    if (gsp_json_key_or_null(json, "waits_for", task->waits_for.len))
        gsp_json_sv(json, task->waits_for);
    gsp_json_put_bool(json, "waits_for_task", task->waits_for_task);
    if (gsp_json_key_or_null(json, "parent", task->parent.len))
        gsp_json_sv(json, task->parent);
    gsp_json_put_arr_begin(json, "frames");
    for (size_t i = 0; i < task->frame_count; i++)
        json_frame(opts, &task->frames[i], json);
    gsp_json_arr_end(json);
    gsp_json_obj_end(json);
}

/* The tasks of a thread's event loop. Tasks of unknown threads are listed with the first. */
static void json_tasks(const struct dump_opts *opts, const struct gsp_dump *dump,
                       const struct gsp_dump_thread *thread, struct gsp_json *json)
{
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < dump->task_count; i++) {
        const struct gsp_dump_task *task = &dump->tasks[i];
        const struct gsp_dump_thread *owner = &dump->threads[0];
        for (size_t k = 0; k < dump->thread_count; k++)
            if (dump->threads[k].python_id == task->python_id)
                owner = &dump->threads[k];
        if (owner == thread)
            json_task(opts, task, json);
    }
    gsp_json_arr_end(json);
}

static void json_thread(const struct dump_opts *opts, const struct gsp_dump *dump,
                        const struct gsp_dump_thread *thread, struct gsp_json *json)
{
    const char state[2] = {thread->state, '\0'};
    gsp_json_obj_begin(json);
    gsp_json_put_i64(json, "pid", dump->pid);
    if (gsp_json_key_or_null(json, "thread_id", thread->python_id))
        gsp_json_u64(json, thread->python_id);
    if (gsp_json_key_or_null(json, "os_thread_id", thread->os_id))
        gsp_json_u64(json, thread->os_id);
    if (gsp_json_key_or_null(json, "thread_name", thread->name.len))
        gsp_json_sv(json, thread->name);
    gsp_json_put_bool(json, "is_main", thread->is_main);
    if (gsp_json_key_or_null(json, "active", !dump->is_core))
        gsp_json_bool(json, thread->on_cpu);
    gsp_json_put_bool(json, "owns_gil", thread->has_gil);
    gsp_json_put_bool(json, "torn", thread->torn);
    gsp_json_put_str(json, "state", thread->state ? state : NULL);
    gsp_json_put_u64(json, "interpreter_id", thread->interpreter);
    gsp_json_put_arr_begin(json, "frames");
    for (size_t i = 0; i < thread->frame_count; i++)
        json_frame(opts, &thread->frames[i], json);
    gsp_json_arr_end(json);
    gsp_json_key(json, "tasks");
    json_tasks(opts, dump, thread, json);
    gsp_json_key(json, "process_info");
    json_process(dump, json);
    gsp_json_obj_end(json);
}

/* Collects the output: text, or one JSON array for all processes. */
struct sink {
    const struct dump_opts *opts;
    struct gsp_term term;
    struct gsp_json json;
    struct gsp_buf out;
    struct gsp_buf losses; /* lines for stderr about data missing from a core file */
};

static void put_losses(const struct gsp_dump *dump, struct gsp_buf *out)
{
    if (dump->is_cut)
        gsp_buf_printf(out, "gsprof: process %d: the dump is cut at 48 MB\n", (int)dump->pid);
    if (dump->lacks_locals)
        gsp_buf_printf(out,
                       "gsprof: process %d: reading local variables took 10 s: those of the "
                       "remaining frames are left out\n",
                       (int)dump->pid);
    if (dump->lacks_tasks)
        gsp_buf_printf(out,
                       "gsprof: process %d: reading tasks took 10 s: the remaining ones are left "
                       "out\n",
                       (int)dump->pid);
    if (dump->python_problem) {
        gsp_buf_puts(out, "gsprof: native frames only: ");
        gsp_buf_term(out, gsp_sv_of(dump->python_problem));
        gsp_buf_putc(out, '\n');
    }
    if (dump->missing_bytes)
        gsp_buf_printf(out,
                       "gsprof: the core file is truncated: %" PRIu64 " byte%s of memory missing\n",
                       dump->missing_bytes, gsp_model_plural_s(dump->missing_bytes));
    for (size_t i = 0; i < dump->lacking_count; i++) {
        gsp_buf_puts(out, "gsprof: ");
        gsp_buf_term(out, gsp_sv_of(dump->lacking[i]));
        gsp_buf_puts(out, " is missing or another build: its frames are shown by address\n");
    }
}

/* Dumps a process, or the core file if pid is 0. */
static int dump_one(struct sink *sink, pid_t pid, struct gsp_err *err)
{
    const struct gsp_dump_opts how = {.locals = sink->opts->locals,
                                      .tasks = strcmp(sink->opts->tasks, "never") != 0,
                                      .blocking = sink->opts->blocking,
                                      .native = sink->opts->native};
    struct gsp_dump *dump = NULL;
    int rc = pid ? gsp_sample_dump_new(pid, &how, &dump, err)
                 : gsp_sample_dump_new_core(sink->opts->core, &how, &dump, err);
    if (rc < 0)
        return rc;
    put_losses(dump, &sink->losses);
    if (sink->opts->json)
        for (size_t i = 0; i < dump->thread_count; i++)
            json_thread(sink->opts, dump, &dump->threads[i], &sink->json);
    else
        put_text(sink->opts, dump, &sink->term, &sink->out);
    gsp_sample_dump_free(dump);
    return GSP_OK;
}

/* Skips processes that cannot be read; fails only if all of them fail. */
static int dump_tree(struct sink *sink, pid_t pid, size_t *skipped, struct gsp_err *err)
{
    gsp_auto_free pid_t *pids = NULL;
    size_t count = 0;
    size_t dumped = 0;
    struct gsp_err first = {0};
    int rc = gsp_sample_tree_pids(pid, &pids, &count, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count; i++) {
        struct gsp_err one = {0};
        if (dump_one(sink, pids[i], &one) == GSP_OK)
            dumped++;
        else if (!first.code)
            first = one;
    }
    *skipped = count - dumped;
    if (!dumped && first.code) {
        *err = first;
        return first.code;
    }
    return GSP_OK;
}

/* Reports what the dump lacks. */
static void report_losses(const struct gsp_parsed *parsed, const struct sink *sink, size_t skipped)
{
    struct gsp_term term;
    if (parsed->globals.quiet)
        return;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (skipped)
        gsp_cli__term_line(&term,
                           "gsprof: skipped %zu process%s of the tree: not Python, or exited",
                           skipped, skipped == 1 ? "" : "es");
    for (size_t at = 0; at < sink->losses.len;) {
        const char *line = sink->losses.p + at;
        const char *end = memchr(line, '\n', sink->losses.len - at);
        size_t len = end ? (size_t)(end - line) : sink->losses.len - at;
        gsp_cli__term_line(&term, "%.*s", (int)len, line);
        at += len + 1;
    }
}

static int run(const struct gsp_parsed *parsed)
{
    const struct dump_opts *opts = parsed->opts;
    if (!opts->pid && !opts->core)
        return gsp_cli__misuse(parsed, "dump needs a target: PID or --core FILE");
    if (opts->core && (opts->pid || opts->subprocesses || opts->blocking))
        return gsp_cli__misuse(parsed,
                               "--core cannot be used with a PID, --subprocesses or --blocking");
    if (opts->blocking && opts->nonblocking)
        return gsp_cli__misuse(parsed, "--blocking and --nonblocking exclude each other");
    struct sink sink = {.opts = opts};
    struct gsp_err err = {0};
    size_t skipped = 0;
    if (opts->pid && !opts->subprocesses)
        gsp_cli__await_python((pid_t)opts->pid, false, parsed);
    gsp_cli__term_init(&sink.term, STDOUT_FILENO, parsed->globals.color);
    gsp_json_init(&sink.json, &sink.out);
    if (opts->json)
        gsp_json_arr_begin(&sink.json);
    int rc = opts->subprocesses ? dump_tree(&sink, (pid_t)opts->pid, &skipped, &err)
                                : dump_one(&sink, (pid_t)opts->pid, &err);
    if (opts->json) {
        gsp_json_arr_end(&sink.json);
        gsp_buf_putc(&sink.out, '\n');
    }
    if (rc == GSP_OK)
        rc = gsp_fd_write_text(STDOUT_FILENO, gsp_buf_sv(&sink.out), true, &err);
    gsp_buf_free(&sink.out);
    if (rc < 0) {
        gsp_buf_free(&sink.losses);
        return gsp_cli__fail(parsed,
                             &(struct gsp_hint_context){.pid = (pid_t)opts->pid,
                                                        .path = opts->core,
                                                        .blocking = opts->blocking,
                                                        .is_core = opts->core != NULL},
                             &err);
    }
    report_losses(parsed, &sink, skipped);
    gsp_buf_free(&sink.losses);
    return 0;
}

const struct gsp_command gsp_cmd_dump = {
    .name = "dump",
    .summary = "Print the current stack of every thread of a process",
    .synopsis = "PID | --core FILE [OPTIONS]",
    .about = "Prints the stack of each thread, innermost frame first, whether the thread is "
             "running (active) or waiting (idle), and whether it holds the GIL. The process is "
             "neither stopped nor changed. For a core file, prints the threads at the time of the "
             "crash; --native adds threads without Python and supports programs without Python.",
    GSP_COMMAND_OPTS(OPTS, struct dump_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .run = run,
};
