/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/query_runner.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "cli/await_python.h"
#include "cli/common.h"
#include "cli/hint.h"

#define RETRY_S 1U

/* State of the signal handlers: at most one query runs at a time. */
static struct gsp_store *volatile running;
static volatile sig_atomic_t interrupts;
static volatile sig_atomic_t running_remote; /* a request polls `interrupts` itself */

static void on_interrupt(int number)
{
    (void)number;
    struct gsp_store *store = running;
    if (interrupts++ > 0 || (!store && !running_remote))
        _exit(gsp_err_exit_status(GSP_E_INTR));
    if (!store)
        return;
    gsp_store_interrupt(store);
    alarm(RETRY_S);
}

/* Interrupts again: the engine ignores an interrupt that arrives before the query starts. */
static void on_alarm(int number)
{
    (void)number;
    struct gsp_store *store = running;
    if (store)
        gsp_store_interrupt(store);
    alarm(RETRY_S);
}

static void print_warnings(struct gsp_query_runner *runner)
{
    const char *line = NULL;
    while ((line = gsp_store_warning(runner->store, runner->warned))) {
        gsp_cli__warn(runner->parsed, gsp_sv_of(line));
        runner->warned++;
    }
}

/* Prints why the tables of a process are empty or old. */
static void print_state(const struct gsp_query_runner *runner)
{
    const struct gsp_endpoint *endpoint = &runner->endpoint;
    struct gsp_term term;
    char age[32];
    gsp_cli__term_init(&term, STDERR_FILENO, runner->parsed->globals.color);
    if (runner->parsed->globals.quiet || endpoint->kind != GSP_ENDPOINT_PID)
        return;
    if (!endpoint->is_live) {
        int64_t since = gsp_realtime_ns() - endpoint->ring_dirs.at[0].last_write_ns;
        const uint32_t uid = endpoint->ring_dirs.at[0].uid;
        gsp_fmt_duration(since > 0 ? since : 0, age, sizeof(age));
        gsp_cli__term_line(&term, "gsprof: process %d has exited; its last rows are %s old",
                           (int)endpoint->pid, age);
        if (uid != geteuid())
            gsp_cli__term_line(&term, "gsprof: these rows are from user %u", (unsigned)uid);
    } else if (!endpoint->has_rings) {
        gsp_cli__term_line(&term,
                           "gsprof: process %d has no tables; only python.backtrace has rows, its "
                           "current stacks",
                           (int)endpoint->pid);
    }
}

static int fail(const struct gsp_query_runner *runner, const char *text, const struct gsp_err *err)
{
    struct gsp_hint_context context = {.endpoint = text, .pid = runner->endpoint.pid};
    if (runner->endpoint.kind != GSP_ENDPOINT_PID)
        context.path = text;
    return gsp_cli__fail(runner->parsed, &context, err);
}

int gsp_cli__query_open(struct gsp_query_runner *runner, const char *text,
                        const struct gsp_store_options *options, const char *output)
{
    struct gsp_err err = {0};
    if (gsp_cli__remote_is_address(text) && runner->locals)
        return gsp_cli__misuse(runner->parsed, "--locals needs the PID of a running process");
    if (gsp_cli__remote_is_address(text))
        return gsp_cli__remote_query_open(&runner->remote, runner->parsed, text,
                                          &runner->remote_opts, options->timeout_ns);
    int rc = gsp_source_endpoint_find(text, &runner->endpoint, &err);
    if (rc == GSP_OK && runner->endpoint.kind == GSP_ENDPOINT_PID && runner->endpoint.is_live &&
        !runner->endpoint.has_rings) {
        /* Its tables appear when the interpreter starts. */
        gsp_cli__await_python(runner->endpoint.pid, false, runner->parsed);
        rc = gsp_source_endpoint_find(text, &runner->endpoint, &err);
    }
    if (rc == GSP_OK && runner->locals && runner->endpoint.kind != GSP_ENDPOINT_PID)
        return gsp_cli__misuse(runner->parsed, "--locals needs the PID of a running process");
    runner->endpoint.backtrace.locals = runner->locals;
    if (rc == GSP_OK)
        rc = gsp_store_open(options, &runner->store, &err);
    if (rc == GSP_OK)
        rc = gsp_source_endpoint_add(&runner->endpoint, runner->store, &err);
    if (rc == GSP_OK && output)
        rc = gsp_store_allow_output(runner->store, output, &err);
    if (rc == GSP_OK)
        rc = gsp_store_lock(runner->store, &err);
    if (rc < 0)
        return fail(runner, text, &err);
    print_state(runner);
    print_warnings(runner);
    return 0;
}

void gsp_cli__query_close(struct gsp_query_runner *runner)
{
    gsp_store_close(runner->store);
    runner->store = NULL;
    gsp_cli__remote_close(&runner->remote);
}

struct old_handlers {
    struct sigaction interrupt;
    struct sigaction alarm;
};

static void catch_interrupts(struct gsp_store *store, struct old_handlers *old)
{
    const struct sigaction interrupt = {.sa_handler = on_interrupt};
    const struct sigaction again = {.sa_handler = on_alarm};
    interrupts = 0;
    running = store;
    running_remote = store == NULL;
    sigaction(SIGALRM, &again, &old->alarm);
    sigaction(SIGINT, &interrupt, &old->interrupt);
}

static void release_interrupts(const struct old_handlers *old)
{
    sigaction(SIGINT, &old->interrupt, NULL);
    alarm(0);
    sigaction(SIGALRM, &old->alarm, NULL);
    running = NULL;
    running_remote = 0;
}

/* Wraps rows and measures the time that the query itself takes, without that of the pager. */
struct timed_rows {
    struct gsp_rows rows; /* first: formatters hold a pointer to it */
    struct gsp_rows *inner;
    int64_t took_ns;
    uint64_t count;
};

static int next_timed(struct gsp_rows *rows, struct gsp_batch_view *out, struct gsp_err *err)
{
    struct timed_rows *timed = (struct timed_rows *)(void *)rows;
    int64_t start_ns = gsp_now_ns();
    int rc = gsp_rows_next(timed->inner, out, err);
    timed->took_ns += gsp_now_ns() - start_ns;
    timed->count += rc > 0 ? out->row_count : 0;
    rows->truncated = timed->inner->truncated;
    return rc;
}

static void free_timed(struct gsp_rows *rows)
{
    gsp_rows_free(((struct timed_rows *)(void *)rows)->inner);
}

/* Prints the column names, which an empty JSON array lacks. */
static void print_columns(const struct gsp_query_runner *runner, const struct gsp_rows *rows)
{
    struct gsp_term term;
    gsp_auto_buf text = {0};
    if (runner->parsed->globals.quiet)
        return;
    gsp_buf_puts(&text, "gsprof: no rows; the columns are ");
    for (size_t i = 0; i < rows->column_count; i++) {
        gsp_buf_puts(&text, i ? ", " : "");
        gsp_buf_term(&text, gsp_sv_of(rows->columns[i].name));
    }
    const char *line = gsp_buf_cstr(&text);
    gsp_cli__term_init(&term, STDERR_FILENO, runner->parsed->globals.color);
    if (line)
        gsp_cli__term_line(&term, "%s", line);
}

static int run_local(struct gsp_query_runner *runner, struct gsp_sv sql,
                     struct gsp_sql_error *where, struct timed_rows *timed, struct gsp_err *err)
{
    static const struct gsp_rows_ops OPS = {next_timed, free_timed};
    int64_t start_ns = gsp_now_ns();
    if (runner->dest.format == GSP_ROWS_PARQUET) {
        int done = gsp_store_query_to_file(runner->store, sql, NULL, where, err);
        timed->took_ns = gsp_now_ns() - start_ns;
        return done;
    }
    int rc = gsp_store_query_with(runner->store, sql, &runner->params, &timed->inner, where, err);
    timed->took_ns = gsp_now_ns() - start_ns;
    if (rc < 0)
        return rc;
    timed->rows = (struct gsp_rows){
        .ops = &OPS, .columns = timed->inner->columns, .column_count = timed->inner->column_count};
    rc = gsp_cli__put_rows(&timed->rows, &runner->dest, err);
    if (rc == GSP_OK && timed->count == 0 && runner->dest.format == GSP_ROWS_JSON)
        print_columns(runner, &timed->rows);
    gsp_rows_free(&timed->rows);
    return rc;
}

static void print_end(const struct gsp_query_runner *runner, bool truncated, int64_t took_ns)
{
    struct gsp_term term;
    char text[32];
    gsp_cli__term_init(&term, STDERR_FILENO, runner->parsed->globals.color);
    if (truncated && runner->dest.format != GSP_ROWS_TABLE)
        gsp_cli__warn(runner->parsed,
                      gsp_sv_of("there are more rows: --limit truncated the result"));
    if (runner->timing)
        gsp_cli__term_line(&term, "Time: %s", gsp_fmt_duration(took_ns, text, sizeof(text)));
}

static int run_remote(struct gsp_query_runner *runner, struct gsp_sv sql)
{
    struct old_handlers old;
    const int64_t start_ns = gsp_now_ns();
    catch_interrupts(NULL, &old);
    runner->remote.cancel = &interrupts;
    int status =
        gsp_cli__query_remote_statement(&runner->remote, sql, &runner->params, &runner->dest);
    runner->remote.cancel = NULL;
    release_interrupts(&old);
    if (status == 0)
        print_end(runner, false, gsp_now_ns() - start_ns);
    return status;
}

/* Runs one statement; whole is the text that contains it. */
static int run_one(struct gsp_query_runner *runner, struct gsp_sv sql, struct gsp_sv whole)
{
    if (!runner->store)
        return run_remote(runner, sql);
    struct gsp_err err = {0};
    struct gsp_sql_error where = {0};
    struct old_handlers old;
    struct timed_rows timed = {0};
    catch_interrupts(runner->store, &old);
    int rc = run_local(runner, sql, &where, &timed, &err);
    release_interrupts(&old);
    print_warnings(runner);
    if (rc == GSP_OK) {
        print_end(runner, timed.rows.truncated, timed.took_ns);
        return 0;
    }
    bool is_output = rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE;
    struct gsp_hint_context context = {
        .endpoint = is_output ? NULL : runner->endpoint.text,
        .pid = runner->endpoint.pid,
        .path = is_output ? runner->dest.path : NULL,
        .sql = whole,
        .sql_line = where.line,
        .sql_column = where.column,
        .candidate = where.candidate,
    };
    return gsp_cli__fail(runner->parsed, &context, &err);
}

/* Replaces everything before the statement by blanks, so that error positions refer to the whole
 * text. */
static void put_alone(struct gsp_sv whole, struct gsp_sv statement, struct gsp_buf *out)
{
    gsp_buf_clear(out);
    for (const char *p = whole.p; p < statement.p; p++)
        if (((unsigned char)*p & 0xc0) != 0x80) /* a multi-byte character is one column */
            gsp_buf_putc(out, *p == '\n' ? '\n' : ' ');
    gsp_buf_putsv(out, statement);
}

/* The option that allows only one statement, or NULL. */
static const char *single_option(const struct gsp_query_runner *runner)
{
    const struct gsp_rows_dest *dest = &runner->dest;
    if (runner->params.count)
        return "--param";
    if (dest->path && strcmp(dest->path, "-") != 0)
        return "--output";
    return dest->format == GSP_ROWS_ARROW ? "arrow" : NULL;
}

int gsp_cli__query_run(struct gsp_query_runner *runner, struct gsp_sv sql)
{
    struct gsp_sv statement;
    struct gsp_sv next;
    size_t pos = 0;
    gsp_auto_buf alone = {0};
    if (!gsp_store_sql_next(sql, &pos, &statement))
        return run_one(runner, sql, sql); /* reports the missing statement */
    bool is_more = gsp_store_sql_next(sql, &pos, &next);
    if (is_more && single_option(runner))
        return gsp_cli__misuse(runner->parsed, "%s accepts only one statement",
                               single_option(runner));
    for (bool is_first = true;; is_first = false) {
        put_alone(sql, statement, &alone);
        if (alone.failed)
            return fail(runner, NULL,
                        &(struct gsp_err){.code = GSP_E_NOMEM, .msg = "out of memory"});
        if (!is_first && runner->dest.format != GSP_ROWS_JSON)
            gsp_ignore(gsp_fd_write_all(STDOUT_FILENO, "\n", 1, NULL)); /* the rows will fail */
        const int status = run_one(runner, gsp_buf_sv(&alone), sql);
        if (status != 0 || !is_more)
            return status;
        statement = next;
        is_more = gsp_store_sql_next(sql, &pos, &next);
    }
}

int gsp_cli__query_rows(struct gsp_query_runner *runner, const char *sql, struct gsp_rows **out,
                        struct gsp_err *err)
{
    return runner->store ? gsp_store_query(runner->store, gsp_sv_of(sql), out, NULL, err)
                         : gsp_cli__remote_query_rows(&runner->remote, gsp_sv_of(sql), out, err);
}
