/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/ring_settings.h"
#include "cli/rows_out.h"
#include "model/row_list.h"
#include "record/exit_watch.h"
#include "record/ring_notes.h"
#include "ring/dir.h"
#include "wire/table.h"

struct list_opts {
    int64_t older_than_ns;
    bool clean;
    bool live;
    bool all_users;
    bool json;
};

static const struct gsp_opt OPTS[] = {
    GSP_OPT_SWITCH(struct list_opts, json, "json", 0, false, "Print a JSON array of objects."),
    GSP_OPT_SWITCH(struct list_opts, live, "live", 0, false, "List only running processes."),
    GSP_OPT_SWITCH(struct list_opts, clean, "clean", 0, false,
                   "Remove the tables of your processes that have exited."),
    GSP_OPT_SWITCH(struct list_opts, all_users, "all-users", 0, true,
                   "As root: include the tables of all users, not only those of root."),
    {.name = "older-than",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct list_opts, older_than_ns),
     .arg = "DURATION",
     .help = "With --clean: remove only tables without new rows for this time."},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof list", "List running and exited processes with tables"},
    {"gsprof list --live", "List only running processes"},
    {"gsprof list --clean", "Remove the tables of exited processes"},
    {"gsprof list --clean --older-than 1h", "Keep tables with rows of the last hour"},
    {"gsprof list --json", "Print JSON"},
};

static const struct gsp_rows_column JSON_COLUMNS[] = {
    {"pid", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"start_time", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"live", "BOOLEAN", NULL, 0, GSP_CELL_BOOL},
    {"tables", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"bytes", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"last_write_ns", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"rank", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"path", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"command", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"end", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"own", "BOOLEAN", NULL, 0, GSP_CELL_BOOL},
    {"removed_ns", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"note", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"small_tables", "BIGINT", NULL, 0, GSP_CELL_I64},
};

static const struct gsp_rows_column TABLE_COLUMNS[] = {
    {"pid", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"state", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"tables", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"size", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"last write", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"kept for", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"rank", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"command", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
};

/* Reads how the process ended; false if unknown because no follower saw it. */
static bool find_end(const struct gsp_ring_dir *dir, struct gsp_exit_info *out)
{
    int folder_fd = -1;
    if (dir->live || gsp_ring_dir_open(dir, &folder_fd, NULL) < 0)
        return false;
    const bool is_known = gsp_record_exit_info_read(folder_fd, out);
    gsp_fd_close(&folder_fd);
    return is_known;
}

static void put_state(const struct gsp_ring_dir *dir, char *out, size_t cap)
{
    struct gsp_exit_info end;
    snprintf(out, cap, "%s", dir->live ? "live" : "ended");
    if (dir->live || !find_end(dir, &end))
        return;
    if (end.signal != GSP_NULL_I64)
        snprintf(out, cap, "ended: signal %d", (int)end.signal);
    else if (end.exit_status != GSP_NULL_I64)
        snprintf(out, cap, "ended: status %d", (int)end.exit_status);
}

static bool is_own(const struct gsp_ring_dir *dir)
{
    return dir->uid == geteuid();
}

/* When the tables will be removed for their age; NULL if they stay or belong to another user. */
static int64_t removed_ns(const struct gsp_ring_dir *dir, const struct gsp_ring_dir_limits *limits)
{
    return dir->live || !is_own(dir) ? GSP_NULL_I64 : dir->last_write_ns + limits->keep_ns;
}

static void add_json_row(struct gsp_row_list *row_list, const struct gsp_ring_dir *dir,
                         const struct gsp_ring_dir_limits *limits)
{
    gsp_model_row_list_add_i64(row_list, dir->pid);
    gsp_model_row_list_add_i64(row_list, (int64_t)dir->start_time);
    gsp_model_row_list_add_bool(row_list, dir->live);
    gsp_model_row_list_add_i64(row_list, dir->rings);
    gsp_model_row_list_add_i64(row_list, (int64_t)dir->bytes);
    gsp_model_row_list_add_i64(row_list, dir->last_write_ns);
    gsp_model_row_list_add_i64(row_list, dir->rank);
    gsp_model_row_list_add_text(row_list, gsp_sv_of(dir->path));
    gsp_model_row_list_add_text(row_list, gsp_sv_of(dir->cmdline));
    struct gsp_exit_info end;
    gsp_model_row_list_add_text(row_list, find_end(dir, &end) ? gsp_sv_of(end.detail)
                                                              : (struct gsp_sv){NULL, 0});
    gsp_model_row_list_add_bool(row_list, is_own(dir));
    gsp_model_row_list_add_i64(row_list, removed_ns(dir, limits));
    gsp_model_row_list_add_text(row_list,
                                dir->note[0] ? gsp_sv_of(dir->note) : (struct gsp_sv){NULL, 0});
    gsp_model_row_list_add_i64(row_list, dir->small_rings);
}

static void add_table_row(struct gsp_row_list *row_list, const struct gsp_ring_dir *dir,
                          const struct gsp_ring_dir_limits *limits, int64_t now_ns)
{
    char size[32];
    char age[32];
    char ago[40];
    char left[32];
    char state[40];
    snprintf(size, sizeof(size), "%.1f MB", (double)dir->bytes / 1e6);
    int64_t since = now_ns - dir->last_write_ns;
    snprintf(ago, sizeof(ago), "%s ago", gsp_fmt_duration(since > 0 ? since : 0, age, sizeof(age)));
    gsp_model_row_list_add_i64(row_list, dir->pid);
    put_state(dir, state, sizeof(state));
    gsp_model_row_list_add_text(row_list, gsp_sv_of(state));
    gsp_model_row_list_add_i64(row_list, dir->rings);
    gsp_model_row_list_add_text(row_list, gsp_sv_of(size));
    gsp_model_row_list_add_text(row_list, gsp_sv_of(ago));
    const int64_t at_ns = removed_ns(dir, limits);
    const int64_t left_ns = at_ns > now_ns ? at_ns - now_ns : 0;
    gsp_model_row_list_add_text(
        row_list, at_ns == GSP_NULL_I64 ? gsp_sv_of("")
                                        : gsp_sv_of(gsp_fmt_duration(left_ns, left, sizeof(left))));
    gsp_model_row_list_add_i64(row_list, dir->rank);
    gsp_model_row_list_add_text(row_list, gsp_sv_of(dir->cmdline));
}

/* Running before exited, own before other users', newest first. */
static int by_interest(const void *a, const void *b)
{
    const struct gsp_ring_dir *left = a;
    const struct gsp_ring_dir *right = b;
    if (left->live != right->live)
        return left->live ? -1 : 1;
    if (is_own(left) != is_own(right))
        return is_own(left) ? -1 : 1;
    if (left->last_write_ns != right->last_write_ns && !left->live)
        return left->last_write_ns > right->last_write_ns ? -1 : 1;
    return left->start_time > right->start_time ? -1 : left->start_time < right->start_time;
}

/* Prints unusual locations of tables, and the space that exited processes use. */
static void report_more(const struct gsp_parsed *parsed, const struct gsp_ring_dirs *dirs,
                        const struct gsp_ring_dir_limits *limits)
{
    struct gsp_term term;
    char age[32];
    size_t ended = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < dirs->count; i++) {
        if (dirs->at[i].live || !is_own(&dirs->at[i]))
            continue;
        ended++;
        bytes += dirs->at[i].bytes;
    }
    gsp_auto_buf notes = {0};
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_record_ring_notes_put(dirs->at, dirs->count, &notes);
    if (notes.len > 0 && !parsed->globals.quiet)
        gsp_cli__term_write(&term, &notes);
    if (ended == 0 || parsed->globals.quiet)
        return;
    gsp_cli__term_line(
        &term,
        "Ended processes: %zu, %.1f MB. gsprof removes their tables %s after the last "
        "row (ring.keep_time), and the oldest above %.0f MB (ring.keep_mb).",
        ended, (double)bytes / 1e6, gsp_fmt_duration(limits->keep_ns, age, sizeof(age)),
        (double)limits->keep_bytes / (1 << 20));
}

static int show(const struct gsp_parsed *parsed, const struct gsp_ring_dirs *dirs,
                const struct gsp_ring_dir_limits *limits, struct gsp_err *err)
{
    const struct list_opts *opts = parsed->opts;
    struct gsp_row_list *row_list = NULL;
    int rc = opts->json
                 ? gsp_model_row_list_new(JSON_COLUMNS, GSP_COUNT(JSON_COLUMNS), &row_list, err)
                 : gsp_model_row_list_new(TABLE_COLUMNS, GSP_COUNT(TABLE_COLUMNS), &row_list, err);
    if (rc < 0)
        return rc;
    int64_t now_ns = gsp_realtime_ns();
    for (size_t i = 0; i < dirs->count; i++)
        if (opts->json)
            add_json_row(row_list, &dirs->at[i], limits);
        else
            add_table_row(row_list, &dirs->at[i], limits, now_ns);
    struct gsp_rows_dest dest = {.format = opts->json ? GSP_ROWS_JSON : GSP_ROWS_TABLE,
                                 .color = parsed->globals.color};
    rc = gsp_cli__put_rows(gsp_model_row_list_rows(row_list), &dest, err);
    gsp_rows_free(gsp_model_row_list_rows(row_list));
    if (rc == GSP_OK && !opts->json)
        report_more(parsed, dirs, limits);
    return rc;
}

static void report_removed(const struct gsp_parsed *parsed, struct gsp_ring_dirs_swept removed)
{
    struct gsp_term term;
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (!parsed->globals.quiet)
        gsp_cli__term_line(&term, "Removed the tables of %zu ended process%s (%.1f MB).",
                           removed.count, removed.count == 1 ? "" : "es",
                           (double)removed.bytes / 1e6);
}

/* Reports a ring directory that could not be removed. It is not an error if a process uses or fills
 * it meanwhile. Returns an exit status. */
static int report_kept(const struct gsp_parsed *parsed, const struct gsp_ring_dir *dir,
                       const struct gsp_err *err)
{
    struct gsp_term term;
    if (err->code != GSP_E_EXISTS && err->sys != ENOTEMPTY)
        return gsp_cli__fail(parsed, &(struct gsp_hint_context){.path = dir->path}, err);
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (!parsed->globals.quiet)
        gsp_cli__term_line(&term, "gsprof: kept %s: %s", dir->path,
                           err->sys == ENOTEMPTY ? "it contains other files" : err->msg);
    return 0;
}

/* Removes the ring directories of exited processes; reports and skips those that cannot be removed.
 * Returns an exit status. */
static int clean(const struct gsp_parsed *parsed, const struct gsp_ring_dirs *dirs)
{
    const struct list_opts *opts = parsed->opts;
    struct gsp_ring_dirs_swept removed = {0};
    int status = 0;
    for (size_t i = 0; i < dirs->count; i++) {
        const struct gsp_ring_dir *dir = &dirs->at[i];
        struct gsp_err err = {0};
        if (!gsp_ring_dir_is_expired(dir, opts->older_than_ns))
            continue;
        if (gsp_ring_dir_remove(dir, &err) == GSP_OK) {
            removed.count++;
            removed.bytes += dir->bytes;
        } else if (report_kept(parsed, dir, &err) != 0) {
            status = gsp_err_exit_status(err.code);
        }
    }
    report_removed(parsed, removed);
    return status;
}

static void sort_and_select(struct gsp_ring_dirs *dirs, bool only_live)
{
    if (dirs->count > 1)
        qsort(dirs->at, dirs->count, sizeof(*dirs->at), by_interest);
    while (only_live && dirs->count > 0 && !dirs->at[dirs->count - 1].live)
        dirs->count--;
}

static int list(const struct gsp_parsed *parsed, struct gsp_ring_dirs *dirs,
                const struct gsp_ring_dir_limits *limits, struct gsp_err *err)
{
    const struct list_opts *opts = parsed->opts;
    struct gsp_term term;
    sort_and_select(dirs, opts->live);
    if (dirs->count > 0 || opts->json)
        return show(parsed, dirs, limits, err);
    gsp_cli__term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (!parsed->globals.quiet)
        gsp_cli__term_line(&term, "No %sprocesses with tables.", opts->live ? "running " : "");
    return GSP_OK;
}

/* Reports what is not in the list. */
static void report_skipped(const struct gsp_parsed *parsed, const struct gsp_ring_dirs *dirs)
{
    char line[256];
    if (dirs->refused[0]) {
        snprintf(line, sizeof(line), "skipped: %s", dirs->refused);
        gsp_cli__warn(parsed, gsp_sv_of(line));
    }
    if (dirs->left_out > 0) {
        snprintf(line, sizeof(line), "left out: the tables of %zu process%s", dirs->left_out,
                 dirs->left_out == 1 ? "" : "es");
        gsp_cli__warn(parsed, gsp_sv_of(line));
    }
}

static int run(const struct gsp_parsed *parsed)
{
    const struct list_opts *opts = parsed->opts;
    struct gsp_ring_dirs dirs = {0};
    struct gsp_err err = {0};
    if (opts->clean && opts->live)
        return gsp_cli__misuse(parsed, "--clean and --live exclude each other");
    const struct gsp_ring_dir_limits limits = gsp_cli__ring_limits(parsed);
    /* Also removes empty ring directories. */
    const struct gsp_ring_dirs_swept swept = gsp_ring_dirs_sweep(&limits);
    if (swept.count > 0)
        report_removed(parsed, swept);
    int rc = gsp_ring_dirs_read(opts->all_users, &dirs, &err);
    int status = 0;
    if (rc == GSP_OK)
        report_skipped(parsed, &dirs);
    if (rc == GSP_OK && opts->clean)
        status = clean(parsed, &dirs);
    else if (rc == GSP_OK)
        rc = list(parsed, &dirs, &limits, &err);
    gsp_ring_dirs_free(&dirs);
    return rc < 0 ? gsp_cli__fail(parsed, &(struct gsp_hint_context){0}, &err) : status;
}

const struct gsp_command gsp_cmd_list = {
    .name = "list",
    .summary = "List processes with tables, running or exited",
    .synopsis = "[--live] [--json] [--clean [--older-than DURATION]]",
    .about = "The tables of a process are in shared memory and outlive it: `gsprof query PID` "
             "reads its last rows, even after a crash.\n"
             "Tables of exited processes are kept for a day after their last row "
             "(ring.keep_time). Together they use at most 1024 MB (ring.keep_mb) and a quarter of "
             "their file system; above that, the oldest are removed first. `list`, `run`, `follow` "
             "and `serve` enforce these limits; `--clean` removes all tables of exited processes. "
             "Change the limits in config.toml or with GSPROF_RING_KEEP_TIME and "
             "GSPROF_RING_KEEP_MB. Tables of running processes, and tables that another command "
             "is reading, are never removed. Root lists the tables of all users with "
             "--all-users, but removes only its own.",
    GSP_COMMAND_OPTS(OPTS, struct list_opts),
    GSP_COMMAND_EXAMPLES(EXAMPLES),
    .lesser = true,
    .run = run,
};
