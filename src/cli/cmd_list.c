/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "cli/common.h"
#include "cli/hint.h"
#include "cli/made_rows.h"
#include "cli/rows_out.h"
#include "flight/ending.h"
#include "ring/place.h"
#include "wire/table.h"

struct list_opts {
    int64_t older_than_ns;
    bool clean;
    bool json;
};

static const struct gsp_opt OPTS[] = {
    {.name = "json",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct list_opts, json),
     .help = "For programs: an array of objects."},
    {.name = "clean",
     .kind = GSP_OPT_FLAG,
     .offset = offsetof(struct list_opts, clean),
     .help = "Remove the rings of your processes that have ended."},
    {.name = "older-than",
     .kind = GSP_OPT_DURATION,
     .offset = offsetof(struct list_opts, older_than_ns),
     .arg = "DURATION",
     .help = "With --clean: only rings that nobody has written to for so long."},
};

static const struct gsp_example EXAMPLES[] = {
    {"gsprof list", "Processes that have tables, running or ended"},
    {"gsprof list --clean", "Forget those that have ended"},
    {"gsprof list --clean --older-than 1h", "Forget those that have not written for an hour"},
    {"gsprof list --json", "For a program to read"},
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
};

static const struct gsp_rows_column TABLE_COLUMNS[] = {
    {"pid", "BIGINT", NULL, 0, GSP_CELL_I64},          {"state", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"tables", "BIGINT", NULL, 0, GSP_CELL_I64},       {"size", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    {"last write", "VARCHAR", NULL, 0, GSP_CELL_TEXT}, {"rank", "BIGINT", NULL, 0, GSP_CELL_I64},
    {"command", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
};

/* How the process ended, where somebody followed it. */
static bool find_end(const struct gsp_place *place, struct gsp_ending *out)
{
    int folder_fd = -1;
    if (place->live || gsp_place_open(place, &folder_fd, NULL) < 0)
        return false;
    const bool is_there = gsp_ending_read(folder_fd, out);
    gsp_fd_close(&folder_fd);
    return is_there;
}

static void put_state(const struct gsp_place *place, char *out, size_t cap)
{
    struct gsp_ending end;
    snprintf(out, cap, "%s", place->live ? "live" : "ended");
    if (place->live || !find_end(place, &end))
        return;
    if (end.signal != GSP_NULL_I64)
        snprintf(out, cap, "ended: signal %d", (int)end.signal);
    else if (end.exit_status != GSP_NULL_I64)
        snprintf(out, cap, "ended: status %d", (int)end.exit_status);
}

static void add_for_programs(struct gsp_made_rows *made, const struct gsp_place *place)
{
    gsp_made_i64(made, place->pid);
    gsp_made_i64(made, (int64_t)place->start_time);
    gsp_made_bool(made, place->live);
    gsp_made_i64(made, place->rings);
    gsp_made_i64(made, (int64_t)place->bytes);
    gsp_made_i64(made, place->last_write_ns);
    gsp_made_i64(made, place->rank);
    gsp_made_text(made, gsp_sv_of(place->path));
    gsp_made_text(made, gsp_sv_of(place->cmdline));
    struct gsp_ending end;
    gsp_made_text(made, find_end(place, &end) ? gsp_sv_of(end.detail) : (struct gsp_sv){NULL, 0});
}

static void add_for_people(struct gsp_made_rows *made, const struct gsp_place *place,
                           int64_t now_ns)
{
    char size[32];
    char age[32];
    char ago[40];
    char state[40];
    snprintf(size, sizeof(size), "%.1f MB", (double)place->bytes / 1e6);
    int64_t since = now_ns - place->last_write_ns;
    snprintf(ago, sizeof(ago), "%s ago", gsp_fmt_duration(since > 0 ? since : 0, age, sizeof(age)));
    gsp_made_i64(made, place->pid);
    put_state(place, state, sizeof(state));
    gsp_made_text(made, gsp_sv_of(state));
    gsp_made_i64(made, place->rings);
    gsp_made_text(made, gsp_sv_of(size));
    gsp_made_text(made, gsp_sv_of(ago));
    gsp_made_i64(made, place->rank);
    gsp_made_text(made, gsp_sv_of(place->cmdline));
}

static int show(const struct gsp_parsed *parsed, const struct gsp_places *places,
                struct gsp_err *err)
{
    const struct list_opts *opts = parsed->opts;
    struct gsp_made_rows *made = NULL;
    int rc = opts->json ? gsp_made_rows_new(JSON_COLUMNS, GSP_COUNT(JSON_COLUMNS), &made, err)
                        : gsp_made_rows_new(TABLE_COLUMNS, GSP_COUNT(TABLE_COLUMNS), &made, err);
    if (rc < 0)
        return rc;
    int64_t now_ns = gsp_realtime_ns();
    for (size_t i = 0; i < places->count; i++) {
        if (opts->json)
            add_for_programs(made, &places->at[i]);
        else
            add_for_people(made, &places->at[i], now_ns);
    }
    struct gsp_rows_dest dest = {.format = opts->json ? GSP_ROWS_JSON : GSP_ROWS_TABLE,
                                 .color = parsed->globals.color};
    rc = gsp_cli_put_rows(gsp_made_rows_get(made), &dest, err);
    gsp_rows_free(gsp_made_rows_get(made));
    return rc;
}

/* Removes what is over, or too much; what cannot be removed is told and passed over.  What was
 * removed is not in the list any more. */
static int remove_over(const struct gsp_parsed *parsed, struct gsp_places *places)
{
    struct gsp_term term;
    const size_t count = places->count;
    const struct list_opts *opts = parsed->opts;
    uint64_t kept_bytes = 0;
    uint64_t bytes = 0;
    int status = 0;
    places->count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct gsp_place *place = &places->at[i];
        struct gsp_err err = {0};
        const bool over = opts->clean ? gsp_place_is_over(place, opts->older_than_ns)
                                      : gsp_place_is_surplus(place, &kept_bytes);
        if (over && gsp_place_remove(place, &err) == GSP_OK) {
            bytes += place->bytes;
            continue;
        }
        if (over)
            status = gsp_cli_fail(parsed, &(struct gsp_hint_context){.path = place->path}, &err);
        places->at[places->count++] = *place;
    }
    const size_t removed = count - places->count;
    gsp_places_sweep(); /* folders without rings are not in the list */
    gsp_term_init(&term, STDERR_FILENO, parsed->globals.color);
    if (!parsed->globals.quiet && (opts->clean || removed))
        gsp_term_line(&term, "Removed the rings of %zu ended process%s (%.1f MB).", removed,
                      removed == 1 ? "" : "es", (double)bytes / 1e6);
    return status;
}

static void say_none(const struct gsp_parsed *parsed)
{
    struct gsp_term term;
    gsp_term_init(&term, STDERR_FILENO, parsed->globals.color);
    gsp_term_line(&term, "No process of yours has tables.");
}

static int run(const struct gsp_parsed *parsed)
{
    const struct list_opts *opts = parsed->opts;
    struct gsp_places places = {0};
    struct gsp_err err = {0};
    int rc = gsp_places_read(&places, &err);
    int status = 0;
    if (rc == GSP_OK)
        status = remove_over(parsed, &places);
    if (rc == GSP_OK && opts->clean)
        gsp_places_free(&places);
    else if (rc == GSP_OK && (places.count || opts->json))
        rc = show(parsed, &places, &err);
    else if (rc == GSP_OK && !parsed->globals.quiet)
        say_none(parsed);
    gsp_places_free(&places);
    return rc < 0 ? gsp_cli_fail(parsed, &(struct gsp_hint_context){0}, &err) : status;
}

const struct gsp_command gsp_cmd_list = {
    .name = "list",
    .summary = "List the processes that have tables, running or ended",
    .synopsis = "[--json] [--clean [--older-than DURATION]]",
    .about = "Tables of a process lie in shared memory and stay when it ends, however it ends: "
             "`gsprof query PID` reads its last rows. They take memory until `gsprof list --clean` "
             "removes them, or a day after their last row, when they are next listed. Rings of "
             "processes that run are never removed. Root sees those of every user and removes "
             "its own.",
    .opts = OPTS,
    .opt_count = GSP_COUNT(OPTS),
    .opts_size = sizeof(struct list_opts),
    .examples = EXAMPLES,
    .example_count = GSP_COUNT(EXAMPLES),
    .lesser = true,
    .run = run,
};
