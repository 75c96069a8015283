/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/query_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "daemon/query_input.h"
#include "export/rows_arrow.h"
#include "export/rows_csv.h"
#include "export/rows_json.h"
#include "proc/pidfd.h"
#include "source/processes.h"
#include "store/store.h"

#define ARGS_MAX      32U
#define BAD_ALLOC     "std::bad_alloc"
#define ERR_BYTES_MAX ((size_t)64 << 10)
#define SQL_BYTES_MAX ((size_t)1 << 20)
#define FACTS_BYTES   ((size_t)256 << 20)
/* Time for a worker to report that it has reached its own time limit. */
#define GRACE_NS      (2 * GSP_NS_PER_S)
/* Address space of a thread: its stack and its allocator's first block. */
#define THREAD_BYTES  ((rlim_t)16 << 20)

extern char **environ;

/* Creates a file in memory with these bytes, positioned at its start. */
static int memory_file(struct gsp_sv bytes, struct gsp_err *err)
{
    int fd = memfd_create("gsprof", MFD_CLOEXEC);
    if (fd < 0)
        return gsp_err_nomem(err);
    if (gsp_fd_write_all(fd, bytes.p, bytes.len, NULL) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        close(fd);
        return gsp_err_nomem(err);
    }
    return fd;
}

/* The daemon's descriptors of a worker's files. */
struct files {
    int in;
    int out;
    int err;
    int extra;
};

static void close_files(const struct files *files)
{
    gsp_fd_close(&files->in);
    gsp_fd_close(&files->out);
    gsp_fd_close(&files->err);
    gsp_fd_close(&files->extra);
}

static int open_files(const struct gsp_worker_job *order, struct files *files, struct gsp_err *err)
{
    const struct gsp_sv nothing = {"", 0};
    *files = (struct files){-1, -1, -1, -1};
    int *const to[] = {&files->in, &files->out, &files->err, &files->extra};
    const struct gsp_sv bytes[] = {order->input, nothing, nothing, order->extra};
    for (size_t i = 0; i < GSP_COUNT(to); i++) {
        const bool is_given = i == 0 && order->input_fd;
        int fd = is_given ? dup(order->input_fd) : memory_file(bytes[i], err);
        if (fd < 0)
            return fd;
        /* Above the numbers they get in the worker, so that no dup2() overwrites another. */
        *to[i] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
        close(fd);
        if (*to[i] < 0)
            return gsp_err_set(err, GSP_E_IO, errno, "cannot duplicate a descriptor for a worker");
    }
    return GSP_OK;
}

/* Returns an errno. */
static int set_files(posix_spawn_file_actions_t *actions, const struct files *files)
{
    const int from[] = {files->in, files->out, files->err, files->extra};
    const int to[] = {0, 1, 2, GSP_WORKER_EXTRA_FD};
    int sys = 0;
    for (size_t i = 0; sys == 0 && i < GSP_COUNT(from); i++)
        sys = posix_spawn_file_actions_adddup2(actions, from[i], to[i]);
    return sys;
}

/* Returns an errno. */
static int spawn(const struct gsp_worker_job *order, const struct files *files, pid_t *pid)
{
    /* posix_spawn() has char * parameters that it does not change. */
    union {
        const char *constant;
        char *plain;
    } words[ARGS_MAX + 2] = {{.constant = "gsprof"}};
    char *argv[ARGS_MAX + 2] = {words[0].plain};
    for (size_t i = 0; i < ARGS_MAX && order->args[i]; i++) {
        words[i + 1].constant = order->args[i];
        argv[i + 1] = words[i + 1].plain;
    }
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t reset;
    sigemptyset(&none);
    sigemptyset(&reset);
    sigaddset(&reset, SIGPIPE);
    int sys = posix_spawn_file_actions_init(&actions);
    if (sys != 0)
        return sys;
    sys = set_files(&actions, files);
    if (sys == 0)
        sys = posix_spawnattr_init(&attr);
    if (sys != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return sys;
    }
    posix_spawnattr_setsigmask(&attr, &none); /* the daemon's threads block signals */
    posix_spawnattr_setsigdefault(&attr, &reset);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sys = posix_spawn(pid, "/proc/self/exe", &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return sys;
}

/* Limits a worker from outside, so that no code of the worker runs without limits for long. */
static void limit_worker(const struct gsp_worker_job *order, pid_t pid)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const rlim_t threads = (rlim_t)(cores > 0 ? cores : 1) + 4;
    const rlim_t seconds =
        (rlim_t)((order->timeout_ns + GRACE_NS) / GSP_NS_PER_S + 1) * (threads < 64 ? threads : 64);
    const struct {
        int what;
        rlim_t max;
    } limits[] = {
        {RLIMIT_DATA, GSP_IS_SANITIZED
                          ? RLIM_INFINITY
                          : order->memory_bytes + GSP_WORKER_BASE_BYTES + threads * THREAD_BYTES},
        {RLIMIT_FSIZE, order->answer_bytes},
        {RLIMIT_CPU, seconds}, /* in case the daemon is killed */
        {RLIMIT_CORE, 0},
    };
    for (size_t i = 0; i < GSP_COUNT(limits); i++) {
        struct rlimit now;
        if (prlimit(pid, limits[i].what, NULL, &now) == 0 && now.rlim_cur > limits[i].max) {
            now.rlim_cur = limits[i].max;
            prlimit(pid, limits[i].what, &now, NULL);
        }
    }
    /* If memory runs out, the kernel should end this process first. */
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    gsp_auto_fd fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        gsp_ignore(gsp_fd_write_all(fd, "1000", 4, NULL));
}

/* Waits for the worker, or kills it if it takes too long (TIMEOUT) or if the client disconnects
 * (INTR). *status is the status of waitpid(). */
static int wait_for(pid_t pid, int client_fd, int64_t timeout_ns, int *status)
{
    gsp_auto_fd pidfd = gsp_proc_pidfd_open(pid);
    /* poll() ignores negative descriptors. */
    struct pollfd ends[] = {{.fd = pidfd, .events = POLLIN},
                            {.fd = client_fd, .events = POLLRDHUP}};
    const int64_t deadline_ns = gsp_now_ns() + timeout_ns;
    int why = GSP_OK;
    while (why == GSP_OK) {
        const int64_t left_ns = deadline_ns - gsp_now_ns();
        int64_t step_ms = left_ns / GSP_NS_PER_MS + 1;
        /* Without a pidfd, poll the process. */
        if (pidfd < 0)
            step_ms = step_ms < 5 ? step_ms : 5;
        if (left_ns > 0)
            poll(ends, GSP_COUNT(ends), (int)(step_ms < 60000 ? step_ms : 60000));
        if (waitpid(pid, status, WNOHANG) == pid)
            return GSP_OK;
        if (ends[1].revents)
            why = GSP_E_INTR;
        else if (left_ns <= 0)
            why = GSP_E_TIMEOUT;
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    return why;
}

/* Whether the worker aborted because it could not allocate: the runtime of the engine says so. */
static bool lacked_memory(struct gsp_sv said)
{
    return said.len && memmem(said.p, said.len, BAD_ALLOC, sizeof(BAD_ALLOC) - 1);
}

/* The error of a worker that a signal ended. */
static int signal_error(int number, struct gsp_sv said, struct gsp_err *err)
{
    if (number == SIGABRT && lacked_memory(said))
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the request needs more memory than its limit");
    switch (number) {
    case SIGXFSZ:
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the answer is too long");
    case SIGKILL:
        return gsp_err_set(err, GSP_E_NOMEM, 0,
                           "the worker process was killed, probably because memory ran out");
    case SIGALRM:
    case SIGXCPU:
        return gsp_err_set(err, GSP_E_TIMEOUT, 0, "the worker process reached its time limit");
    default:
        return gsp_err_set(err, GSP_E_IO, 0, "the worker process crashed (signal %d)", number);
    }
}

int gsp_daemon__worker_run(const struct gsp_worker_job *order, struct gsp_worker_result *out,
                           struct gsp_err *err)
{
    struct files files;
    pid_t pid = 0;
    int status = 0;
    *out = (struct gsp_worker_result){.out_fd = -1};
    int rc = open_files(order, &files, err);
    if (rc == GSP_OK) {
        int sys = spawn(order, &files, &pid);
        if (sys)
            rc = gsp_err_set(err, GSP_E_IO, sys, "cannot start a worker");
        else
            limit_worker(order, pid);
    }
    const int ended =
        rc < 0 ? rc : wait_for(pid, order->client_fd, order->timeout_ns + GRACE_NS, &status);
    if (ended == GSP_E_TIMEOUT)
        rc = gsp_err_set(err, GSP_E_TIMEOUT, 0, "the request took longer than %.3g s",
                         (double)order->timeout_ns / 1e9);
    else if (ended == GSP_E_INTR)
        rc = gsp_err_set(err, GSP_E_INTR, 0, "the client has disconnected");
    if (rc == GSP_OK && lseek(files.err, 0, SEEK_SET) == 0)
        gsp_ignore(gsp_fd_read_all(files.err, ERR_BYTES_MAX, &out->err, NULL));
    if (rc == GSP_OK && WIFSIGNALED(status)) {
        rc = signal_error(WTERMSIG(status), gsp_buf_sv(&out->err), err);
        gsp_buf_free(&out->err);
    }
    if (rc == GSP_OK) {
        out->status = WEXITSTATUS(status);
        out->out_fd = files.out;
        files.out = -1;
        lseek(out->out_fd, 0, SEEK_SET);
    }
    close_files(&files);
    return rc;
}

/* The code of the worker itself. */

static int worker_fail(const struct gsp_err *err, const struct gsp_sql_error *where, bool refused)
{
    gsp_auto_buf text = {0};
    struct gsp_json json;
    gsp_json_init(&json, &text);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "code", refused ? "TRUST" : gsp_err_name(err->code));
    gsp_json_put_i64(&json, "status",
                     err->code == GSP_E_LIMIT ? GSP_WORKER_LIMIT_STATUS
                                              : gsp_err_http_status(err->code));
    gsp_json_put_str(&json, "message", err->msg);
    gsp_json_put_u64(&json, "line", where->line);
    gsp_json_put_u64(&json, "column", where->column);
    gsp_json_put_str(&json, "candidate", where->candidate[0] ? where->candidate : NULL);
    gsp_json_obj_end(&json);
    gsp_ignore(
        gsp_fd_write_all(STDERR_FILENO, text.p, text.len, NULL)); /* stderr is the only channel */
    return gsp_err_exit_status(err->code);
}

/* Moves stdout to another descriptor, so that nothing but the rows gets there. */
static int take_stdout(int *out, struct gsp_err *err)
{
    gsp_auto_fd null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    *out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    if (*out < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot redirect stdout");
    return GSP_OK;
}

/* Reads the facts. *out stays NULL if the worker was started by hand, without the file. */
static int read_facts(struct gsp_body **out, struct gsp_err *err)
{
    gsp_auto_buf bytes = {0};
    if (gsp_fd_read_all(GSP_WORKER_EXTRA_FD, FACTS_BYTES, &bytes, NULL) < 0)
        return GSP_OK;
    return gsp_http_body_read(gsp_buf_sv(&bytes), out, err);
}

/* The state of a query. */
struct query {
    struct gsp_buf sql;
    struct gsp_body *facts; /* NULL: none */
    struct gsp_param *params;
    size_t param_count;
    struct gsp_err trouble; /* why the frame log cannot be read */
    bool refused;           /* the statement read a table that is not for this client */
    struct gsp_source_processes processes;
    struct gsp_store *store;
    struct gsp_rows *rows;
    int out_fd;
};

static int refuse_table(void *ctx, struct gsp_batch *batch GSP_UNUSED, struct gsp_err *err)
{
    struct query *query = ctx;
    query->refused = true;
    return gsp_err_set(err, GSP_E_PERM, 0,
                       "only the daemon's owner may read its settings and tables of processes");
}

/* Whether a table needs trust: those of targets, and the settings, like GET /config. */
static bool needs_trust(enum gsp_table_id id)
{
    return id == GSP_TABLE_gsprof_setting || strcmp(gsp_wire_table_at(id)->schema, "python") == 0;
}

/* The rings of the daemon itself. The tables that need trust exist, but reading them fails. */
static int add_own_tables(int64_t pid, struct query *query, struct gsp_err *err)
{
    struct gsp_ring_dir own;
    int rc = GSP_OK;
    for (size_t i = 0; i < GSP_TABLE_COUNT && rc == GSP_OK; i++) {
        const enum gsp_table_id id = (enum gsp_table_id)i;
        if (needs_trust(id))
            rc = gsp_store_add_live(query->store, gsp_wire_table_at(id), refuse_table, query, err);
    }
    /* A daemon without rings still has sessions and frames. */
    if (rc == GSP_OK && gsp_ring_dir_find((pid_t)pid, &own, NULL) == GSP_OK && own.live &&
        own.uid == geteuid())
        rc = gsp_store_add_ring_dir(query->store, &own, err);
    return rc;
}

static int open_store(const struct gsp_query_job *order, struct query *query, struct gsp_err *err)
{
    struct gsp_store **out = &query->store;
    const struct gsp_store_options options = {.memory_bytes = order->memory_bytes,
                                              .timeout_ns = order->timeout_ns,
                                              .row_limit = order->row_limit,
                                              .limit_process = true};
    int rc = gsp_store_open(&options, out, err);
    if (rc == GSP_OK)
        rc = query->facts ? gsp_daemon__query_input_add(query->facts, *out, &query->trouble, err)
                          : GSP_OK;
    if (rc == GSP_OK)
        rc = order->only_pid ? add_own_tables(order->only_pid, query, err)
                             : gsp_source_processes_add(&query->processes, *out, order->stacks,
                                                        order->all_users, err);
    return rc == GSP_OK ? gsp_store_lock(*out, err) : rc;
}

static void put_columns(const struct gsp_rows *rows, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_arr_begin(&json);
    for (size_t i = 0; i < rows->column_count; i++) {
        gsp_json_obj_begin(&json);
        gsp_json_put_str(&json, "name", rows->columns[i].name);
        gsp_json_put_str(&json, "type", rows->columns[i].sql_type);
        gsp_json_obj_end(&json);
    }
    gsp_json_arr_end(&json);
}

static void put_warnings(const struct gsp_store *store, bool truncated, struct gsp_buf *out)
{
    struct gsp_json json;
    const char *line = NULL;
    gsp_json_init(&json, out);
    gsp_json_arr_begin(&json);
    for (size_t i = 0; (line = gsp_store_warning(store, i)); i++)
        gsp_json_str(&json, line);
    if (truncated)
        gsp_json_str(&json, "the result is truncated at the row limit");
    gsp_json_arr_end(&json);
}

/* Writes columns, rows and warnings. Frees the rows first, because that may add warnings. */
static int write_object(struct query *query, struct gsp_out *out, struct gsp_err *err)
{
    gsp_buf_puts(&out->buf, "{\"columns\": ");
    put_columns(query->rows, &out->buf);
    gsp_buf_puts(&out->buf, ", \"rows\": ");
    const int rc = gsp_export_rows_write_json(query->rows, out, err);
    const bool truncated = query->rows->truncated;
    gsp_rows_free(query->rows);
    query->rows = NULL;
    gsp_buf_puts(&out->buf, ", \"warnings\": ");
    put_warnings(query->store, truncated, &out->buf);
    gsp_buf_puts(&out->buf, "}\n");
    return rc;
}

static int write_rows(const struct gsp_query_job *order, struct query *query, struct gsp_err *err)
{
    struct gsp_rows *rows = query->rows;
    struct gsp_out out;
    gsp_out_init(&out, query->out_fd);
    int rc = GSP_OK;
    if (strcmp(order->format, "csv") == 0)
        rc = gsp_export_rows_write_csv(rows, &out, err);
    else if (strcmp(order->format, "csv-raw") == 0)
        rc = gsp_export_rows_write_csv_raw(rows, &out, err);
    else if (strcmp(order->format, "arrow") == 0)
        rc = gsp_export_rows_write_arrow(rows, &out, err);
    else if (strcmp(order->format, "object") == 0)
        rc = write_object(query, &out, err);
    else
        rc = gsp_export_rows_write_json(rows, &out, err);
    int finished = gsp_out_finish(&out, rc < 0 ? NULL : err);
    return rc < 0 ? rc : finished;
}

static int run_query(const struct gsp_query_job *order, struct query *query,
                     struct gsp_sql_error *where, struct gsp_err *err)
{
    int rc = take_stdout(&query->out_fd, err);
    if (rc == GSP_OK)
        rc = gsp_fd_read_all(STDIN_FILENO, SQL_BYTES_MAX, &query->sql, err);
    if (rc == GSP_OK)
        rc = read_facts(&query->facts, err);
    if (rc == GSP_OK && query->facts)
        rc = gsp_daemon__query_params_read(query->facts, &query->params, &query->param_count, err);
    if (rc == GSP_OK)
        rc = open_store(order, query, err);
    if (rc < 0)
        return rc;
    const struct gsp_params params = {query->params, query->param_count};
    rc = gsp_store_query_with(query->store, gsp_buf_sv(&query->sql), &params, &query->rows, where,
                              err);
    return rc < 0 ? rc : write_rows(order, query, err);
}

int gsp_daemon_query_worker_main(const struct gsp_query_job *order)
{
    struct query query = {.out_fd = -1};
    struct gsp_sql_error where = {0};
    struct gsp_err err = {0};
    /* In case the daemon is killed. */
    alarm((unsigned)(order->timeout_ns / GSP_NS_PER_S + 5));
    int status =
        run_query(order, &query, &where, &err) < 0 ? worker_fail(&err, &where, query.refused) : 0;
    gsp_rows_free(query.rows);
    gsp_store_close(query.store);
    gsp_source_processes_free(&query.processes);
    free(query.params);
    gsp_http_body_free(query.facts);
    gsp_buf_free(&query.sql);
    gsp_fd_close(&query.out_fd);
    return status;
}
