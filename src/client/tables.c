/* SPDX-License-Identifier: Apache-2.0 */
#include "client/tables.h"

#include <string.h>

#define DEPTH_MAX   3U
/* "2026-01-31T23:54:00.123+01:00": the ends of the date and of the seconds. */
#define DATE_LEN    10U
#define SECONDS_LEN 19U

/* Passes the rows to the caller if rc is positive, and frees them otherwise. Returns rc. */
static int finish(struct gsp_row_list *row_list, int rc, struct gsp_row_list **out)
{
    *out = rc > 0 ? row_list : NULL;
    if (rc <= 0)
        gsp_rows_free(gsp_model_row_list_rows(row_list));
    return rc;
}

struct members {
    struct gsp_row_list *row_list;
    const char *const *skip;
    const char *prefix;
};

static bool is_skipped(const struct members *members, struct gsp_sv name)
{
    for (size_t i = 0; members->skip && members->skip[i]; i++)
        if (gsp_sv_eq(gsp_sv_of(members->skip[i]), name))
            return true;
    return false;
}

static void add_members(const struct members *members, const struct gsp_body *body,
                        struct gsp_sv above, unsigned depth);

/* An object becomes one row for each of its members, any other value becomes one row. */
static void add_member(const struct members *members, struct gsp_sv name, struct gsp_sv value,
                       unsigned depth)
{
    struct gsp_body *inner = NULL;
    if (gsp_sv_starts(value, "{") && !gsp_sv_eq(value, gsp_sv_of("{}")) && depth < DEPTH_MAX &&
        gsp_http_body_read(value, &inner, NULL) == GSP_OK) {
        add_members(members, inner, name, depth + 1);
        gsp_http_body_free(inner);
        return;
    }
    if (members->prefix && !gsp_sv_starts(name, members->prefix))
        return;
    gsp_model_row_list_add_text(members->row_list, name);
    gsp_model_row_list_add_text(members->row_list, value);
}

static void add_members(const struct members *members, const struct gsp_body *body,
                        struct gsp_sv above, unsigned depth)
{
    gsp_auto_buf value = {0};
    gsp_auto_buf path = {0};
    struct gsp_sv name = {0};
    for (size_t i = 0; gsp_http_body_member(body, i, &name, &value); i++) {
        gsp_buf_clear(&path);
        gsp_buf_putsv(&path, above);
        if (above.len)
            gsp_buf_putc(&path, '.');
        gsp_buf_putsv(&path, name);
        if (!is_skipped(members, gsp_buf_sv(&path)) &&
            !gsp_sv_eq(gsp_buf_sv(&value), gsp_sv_of("null")))
            add_member(members, gsp_buf_sv(&path), gsp_buf_sv(&value), depth);
        gsp_buf_clear(&value);
    }
}

/* The state of a source, with its error. */
static int add_source(void *ctx, const struct gsp_body *item)
{
    const struct members *members = ctx;
    gsp_auto_buf name = {0};
    gsp_auto_buf state = {0};
    struct gsp_sv text = {0};
    bool is_open = false;
    gsp_buf_puts(&name, "source.");
    if (gsp_http_body_text(item, "name", &text, NULL) == 1)
        gsp_buf_putsv(&name, text);
    int has_state = gsp_http_body_bool(item, "open", &is_open, NULL);
    gsp_buf_puts(&state, has_state == 1 && is_open ? "on" : "off");
    if (gsp_http_body_text(item, "trouble", &text, NULL) == 1) {
        gsp_buf_puts(&state, ": ");
        gsp_buf_putsv(&state, text);
    }
    gsp_model_row_list_add_text(members->row_list, gsp_buf_sv(&name));
    gsp_model_row_list_add_text(members->row_list, gsp_buf_sv(&state));
    return GSP_OK;
}

int gsp_client_members_table(const struct gsp_body *body, const char *const *skip,
                             const char *prefix, struct gsp_row_list **out, struct gsp_err *err)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"name", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"value", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    };
    struct members members = {.skip = skip, .prefix = prefix};
    *out = NULL;
    int rc = gsp_model_row_list_new(COLUMNS, GSP_COUNT(COLUMNS), &members.row_list, err);
    if (rc < 0)
        return rc;
    add_members(&members, body, (struct gsp_sv){0}, 0);
    rc = gsp_http_body_each(body, "sources", add_source, &members, err);
    return finish(members.row_list, rc < 0 ? rc : 1, out);
}

struct settings {
    struct gsp_row_list *row_list;
    const char *prefix;
};

static struct gsp_sv text_of(const struct gsp_body *item, const char *name)
{
    struct gsp_sv text = {0};
    return gsp_http_body_text(item, name, &text, NULL) == 1 ? text : (struct gsp_sv){0};
}

/* "sample_rate" also matches "gsprof.sample_rate". */
static bool has_prefix(struct gsp_sv name, const char *prefix)
{
    const size_t own = strlen("gsprof.");
    if (!prefix || gsp_sv_starts(name, prefix))
        return true;
    return gsp_sv_starts(name, "gsprof.") &&
           gsp_sv_starts((struct gsp_sv){name.p + own, name.len - own}, prefix);
}

static int add_setting(void *ctx, const struct gsp_body *item)
{
    const struct settings *settings = ctx;
    gsp_auto_buf value = {0};
    struct gsp_sv name = {0};
    bool is_mutable = false;
    if (!has_prefix(text_of(item, "name"), settings->prefix))
        return GSP_OK;
    /* The value may have any type. */
    for (size_t i = 0; gsp_http_body_member(item, i, &name, &value); i++) {
        if (gsp_sv_eq(name, gsp_sv_of("value")))
            break;
        gsp_buf_clear(&value);
    }
    int has_mutable = gsp_http_body_bool(item, "mutable", &is_mutable, NULL);
    gsp_model_row_list_add_text(settings->row_list, text_of(item, "name"));
    gsp_model_row_list_add_text(settings->row_list, gsp_buf_sv(&value));
    gsp_model_row_list_add_text(settings->row_list, text_of(item, "description"));
    gsp_model_row_list_add_text(settings->row_list,
                                gsp_sv_of(has_mutable == 1 && is_mutable ? "now" : "at start"));
    gsp_model_row_list_add_text(settings->row_list, text_of(item, "origin"));
    gsp_model_row_list_add_text(settings->row_list, text_of(item, "type"));
    return GSP_OK;
}

int gsp_client_settings_table(const struct gsp_body *body, const char *name, const char *prefix,
                              struct gsp_row_list **out, struct gsp_err *err)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"setting", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"value", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"meaning", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"changes", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"from", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"type", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    };
    struct settings settings = {.prefix = prefix};
    *out = NULL;
    int rc = gsp_model_row_list_new(COLUMNS, GSP_COUNT(COLUMNS), &settings.row_list, err);
    if (rc < 0)
        return rc;
    rc = gsp_http_body_each(body, name, add_setting, &settings, err);
    return finish(settings.row_list, rc, out);
}

struct sessions {
    struct gsp_row_list *row_list;
    size_t count;
    bool has_notes; /* a session has labels or an error, which need a column */
};

/* The error of a session, or else its labels. */
static void put_note(const struct gsp_body *item, struct gsp_buf *out)
{
    gsp_auto_buf labels = {0};
    struct gsp_sv error = text_of(item, "error");
    int has_labels = gsp_http_body_object(item, "labels", &labels, NULL);
    if (error.len)
        gsp_buf_putsv(out, error);
    else if (has_labels == 1 && labels.len > 2)
        gsp_buf_putsv(out, gsp_buf_sv(&labels));
}

static int count_notes(void *ctx, const struct gsp_body *item)
{
    struct sessions *sessions = ctx;
    gsp_auto_buf note = {0};
    put_note(item, &note);
    sessions->has_notes = sessions->has_notes || note.len;
    sessions->count++;
    return GSP_OK;
}

/* A time in seconds in the zone of the server, without the date if that is same_day. */
static void put_time(struct gsp_row_list *row_list, struct gsp_sv time, struct gsp_sv same_day)
{
    char text[SECONDS_LEN + 1];
    const char *shown = text;
    if (time.len < SECONDS_LEN || time.p[DATE_LEN] != 'T') {
        gsp_model_row_list_add_text(row_list, time.len ? time : gsp_sv_of(""));
        return;
    }
    memcpy(text, time.p, SECONDS_LEN);
    text[DATE_LEN] = ' ';
    text[SECONDS_LEN] = '\0';
    if (same_day.len >= DATE_LEN && memcmp(time.p, same_day.p, DATE_LEN) == 0)
        shown = text + DATE_LEN + 1;
    gsp_model_row_list_add_text(row_list, gsp_sv_of(shown));
}

static int add_session(void *ctx, const struct gsp_body *item)
{
    struct sessions *sessions = ctx;
    double frames = -1;
    bool active = false;
    gsp_auto_buf note = {0};
    /* Members of the wrong type are not shown. */
    int has_state = gsp_http_body_bool(item, "is_active", &active, NULL);
    int has_frames = gsp_http_body_f64(item, "frame_count", &frames, NULL);
    gsp_model_row_list_add_text(sessions->row_list, text_of(item, "name"));
    if (has_state == 1 && active)
        gsp_model_row_list_add_text(sessions->row_list, gsp_sv_of("active"));
    else
        gsp_model_row_list_add_text(sessions->row_list,
                                    gsp_sv_of(text_of(item, "error").len ? "failed" : "done"));
    put_time(sessions->row_list, text_of(item, "start_time"), (struct gsp_sv){0});
    put_time(sessions->row_list, text_of(item, "end_time"), text_of(item, "start_time"));
    gsp_model_row_list_add_i64(sessions->row_list, has_frames == 1 && frames >= 0 && frames < 1e15
                                                       ? (int64_t)frames
                                                       : INT64_MIN);
    gsp_model_row_list_add_text(sessions->row_list, text_of(item, "output_file"));
    if (sessions->has_notes) {
        put_note(item, &note);
        gsp_model_row_list_add_text(sessions->row_list,
                                    note.len ? gsp_buf_sv(&note) : gsp_sv_of(""));
    }
    return GSP_OK;
}

int gsp_client_sessions_table(const struct gsp_body *body, const char *name,
                              struct gsp_row_list **out, struct gsp_err *err)
{
    static const struct gsp_rows_column COLUMNS[] = {
        {"session", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"state", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"start", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"end", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"frames", "BIGINT", NULL, 0, GSP_CELL_I64},
        {"file", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
        {"labels", "VARCHAR", NULL, 0, GSP_CELL_TEXT},
    };
    struct sessions sessions = {0};
    *out = NULL;
    int rc = gsp_http_body_each(body, name, count_notes, &sessions, err);
    if (rc < 0 || !sessions.count)
        return rc < 0 ? rc : 0;
    const size_t columns = GSP_COUNT(COLUMNS) - (sessions.has_notes ? 0 : 1);
    rc = gsp_model_row_list_new(COLUMNS, columns, &sessions.row_list, err);
    if (rc < 0)
        return rc;
    rc = gsp_http_body_each(body, name, add_session, &sessions, err);
    return finish(sessions.row_list, rc < 0 ? rc : 1, out);
}
