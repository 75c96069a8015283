/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "base/time.h"
#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/query_runner.h"
#include "cli/remote.h"
#include "cli/rows_out.h"
#include "model/row_list.h"
#include "sample/dump.h"
#include "source/backtraces.h"

#define REMOTE_TIMEOUT_NS (30 * GSP_NS_PER_S)
#define LAST_STACKS                                                                                \
    "SELECT pid, thread_id, thread_name, func, file, lineno, depth, frame_type "                   \
    "FROM gsprof.last_stacks()"

struct backtrace_opts {
    struct gsp_remote_opts remote;
    bool locals;
    bool native;
    bool json;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct backtrace_opts, locals, "locals", 'l', false, "Show local variables."),
    GSP_OPT_NATIVE_AT(struct backtrace_opts, native, 'n'),
    GSP_OPT_SWITCH(struct backtrace_opts, json, "json", 0, false, "Print a JSON array of frames."),
    GSP_OPT_TOKEN(struct backtrace_opts),
    GSP_OPT_TOKEN_FILE(struct backtrace_opts),
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof backtrace 4242",
     "Show the frames of all threads, or the last frames of a process that exited"},
    {"gsprof backtrace 4242 4245 --locals", "Show one thread with its local variables"},
    {"gsprof 4242 backtrace --json", "Print JSON; the PID may come first"},
    {"gsprof backtrace localhost:8091", "Show the last stacks of the processes of a daemon"},
};

static const struct gsp_rows_column COLUMNS[] = {
    {"pid", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"thread_id", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"thread_name", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"func", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"file", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"lineno", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"depth", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"frame_type", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"locals", "VARCHAR", NULL, 0, GSP_CELL_TEXT}, /* last: only with --locals */
};

static void add_text(struct gsp_row_list *row_list, struct gsp_sv text)
{
    gsp_model_row_list_add_text(row_list, text.len ? text : (struct gsp_sv){NULL, 0});
}

static void add_thread(struct gsp_row_list *row_list, const struct gsp_dump *dump,
                       const struct gsp_dump_thread *thread, bool locals)
{
    gsp_auto_buf text = {0};
    const uint64_t id = thread->os_id ? thread->os_id : thread->python_id;
    for (size_t i = 0; i < thread->frame_count; i++) {
        const struct gsp_dump_frame *frame = &thread->frames[i];
        gsp_model_row_list_add_i64(row_list, dump->pid);
        gsp_model_row_list_add_i64(row_list, id ? (int64_t)(id & INT64_MAX) : INT64_MIN);
        add_text(row_list, thread->name);
        add_text(row_list, frame->name);
        add_text(row_list, frame->file);
        gsp_model_row_list_add_i64(row_list, frame->line ? (int64_t)frame->line : INT64_MIN);
        gsp_model_row_list_add_i64(row_list, (int64_t)i);
        gsp_model_row_list_add_text(row_list, gsp_sv_of(frame->is_native ? "Native" : "Python"));
        if (!locals)
            continue;
        gsp_source_backtrace_put_locals(frame, &text);
        gsp_model_row_list_add_text(row_list, frame->is_native ? (struct gsp_sv){NULL, 0}
                                                               : gsp_buf_sv(&text));
    }
}

static bool is_selected(const struct gsp_dump_thread *thread, int64_t tid)
{
    return tid == 0 || thread->os_id == (uint64_t)tid || thread->python_id == (uint64_t)tid;
}

/* Shows the current stacks of a running process. */
static int show_live(const struct gsp_parsed *parsed, pid_t pid, int64_t tid,
                     const struct gsp_rows_dest *dest, struct gsp_err *err)
{
    const struct backtrace_opts *opts = parsed->opts;
    const struct gsp_dump_opts how = {.locals = opts->locals, .native = opts->native};
    struct gsp_row_list *row_list = NULL;
    struct gsp_dump *dump = NULL;
    size_t found = 0;
    int rc = gsp_sample_dump_new(pid, &how, &dump, err);
    if (rc == GSP_OK)
        rc = gsp_model_row_list_new(COLUMNS, GSP_COUNT(COLUMNS) - (opts->locals ? 0 : 1), &row_list,
                                    err);
    for (size_t i = 0; rc == GSP_OK && i < dump->thread_count; i++) {
        if (!is_selected(&dump->threads[i], tid))
            continue;
        found++;
        add_thread(row_list, dump, &dump->threads[i], opts->locals);
    }
    if (rc == GSP_OK && tid && found == 0)
        rc = gsp_err_set(err, GSP_E_USAGE, 0, "process %d has no Python thread %" PRId64, (int)pid,
                         tid);
    if (rc == GSP_OK)
        rc = gsp_cli__put_rows(gsp_model_row_list_rows(row_list), dest, err);
    if (row_list)
        gsp_rows_free(gsp_model_row_list_rows(row_list));
    gsp_sample_dump_free(dump);
    return rc;
}

static void put_sql(int64_t tid, struct gsp_buf *sql)
{
    gsp_buf_puts(sql, LAST_STACKS);
    if (tid)
        gsp_buf_printf(sql, " WHERE thread_id = %" PRId64, tid);
}

/* Shows the newest recorded stacks. */
static int show_last(const struct gsp_parsed *parsed, int64_t tid, const struct gsp_rows_dest *dest)
{
    const struct gsp_store_options options = {0};
    struct gsp_query_runner runner = {.parsed = parsed, .dest = *dest};
    gsp_auto_buf sql = {0};
    put_sql(tid, &sql);
    int status = gsp_cli__query_open(&runner, parsed->args[0], &options, NULL);
    if (status == 0)
        status = gsp_cli__query_run(&runner, gsp_buf_sv(&sql));
    gsp_cli__query_close(&runner);
    return status;
}

static int show_remote(const struct gsp_parsed *parsed, int64_t tid,
                       const struct gsp_rows_dest *dest)
{
    const struct backtrace_opts *opts = parsed->opts;
    gsp_auto_buf sql = {0};
    put_sql(tid, &sql);
    const struct gsp_remote_query query = {.parsed = parsed,
                                           .remote = opts->remote,
                                           .dest = *dest,
                                           .sql = gsp_buf_sv(&sql),
                                           .timeout_ns = REMOTE_TIMEOUT_NS};
    return gsp_cli__remote_query_run(&query);
}

static int run(const struct gsp_parsed *parsed)
{
    const struct backtrace_opts *opts = parsed->opts;
    const char *text = parsed->args[0];
    const struct gsp_rows_dest dest = {.format = opts->json ? GSP_ROWS_JSON : GSP_ROWS_TABLE,
                                       .color = parsed->globals.color};
    struct gsp_endpoint endpoint;
    struct gsp_err err = {0};
    int64_t tid = 0;
    if (parsed->arg_count > 1 && gsp_parse_i64(parsed->args[1], 1, INT64_MAX, &tid, &err) < 0)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    const bool is_remote = gsp_cli__remote_is_address(text);
    if (!is_remote && gsp_source_endpoint_find(text, &endpoint, &err) < 0)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = text}, &err);
    const bool is_live = !is_remote && endpoint.kind == GSP_ENDPOINT_PID && endpoint.is_live;
    if (!is_live && (opts->locals || opts->native))
        return gsp_cli__misuse(parsed,
                               "--locals and --native need a process running on this machine");
    if (is_remote)
        return show_remote(parsed, tid, &dest);
    if (!is_live)
        return show_last(parsed, tid, &dest);
    if (!opts->native)
        gsp_cli__await_python(endpoint.pid, false, parsed);
    const int rc = show_live(parsed, endpoint.pid, tid, &dest, &err);
    if (rc == GSP_E_USAGE)
        return gsp_cli__misuse(parsed, "%s", err.msg);
    if (rc < 0)
        return gsp_cli__fail(
            parsed, &(struct gsp_hint_context){.command = "backtrace", .pid = endpoint.pid}, &err);
    return 0;
}

const struct gsp_command gsp_cmd_backtrace = {
    .name = "backtrace",
    .summary = "Show the stacks of a process as a table, even after it exited",
    .synopsis = "ENDPOINT [TID] [--locals] [--native] [--json]",
    .about = "For a running process, shows its current stacks. For a process that exited, a "
             "recording or a daemon (HOST:PORT), shows the last stacks that `gsprof follow` "
             "sampled. TID is a thread's ID in the kernel or in Python. `gsprof dump PID` prints "
             "the same stacks as text.",
    GSP_COMMAND_OPTS(OPTS, struct backtrace_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .args_min = 1,
    .args_max = 2,
    .takes_endpoint = true,
    .lesser = true,
    .run = run,
};
