/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/time.h"
#include "wire/ring.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
/* More edits than this and a name was not meant. */
#define DISTANCE_MAX   3U

enum kind { SECONDS, WHOLE, REAL, BOOLEAN, TEXT };

struct row {
    struct gsp_setting shown;
    size_t offset;
    double min; /* of TEXT: bytes of the member */
    double max;
    enum kind kind;
};

#define AT(member)      offsetof(struct gsp_settings, member)
#define TEXT_AT(member) AT(member), 0, sizeof(((struct gsp_settings *)0)->member), TEXT

static const struct row ROWS[] = {
    {{"sample_rate", "seconds", "200ms", "time between two frames", true},
     AT(period_ns),
     0.01,
     3600,
     SECONDS},
    {{"bind", "text", "127.0.0.1", "address to listen at; others than this machine's need a token",
      false},
     TEXT_AT(bind)},
    {{"port", "whole number", "8091", "port to listen at; 0 is a free one", false},
     AT(port),
     0,
     65535,
     WHOLE},
    {{"socket", "text", "", "path of a Unix socket to listen at too, for this user alone", false},
     TEXT_AT(socket_path)},
    {{"output_dir", "text", ".", "folder of the sessions' files", false}, TEXT_AT(output_dir)},
    {{"state_dir", "text", "",
      "folder of the log of frames and the journal; "
      "without it $XDG_STATE_HOME/gsprof",
      false},
     TEXT_AT(state_dir)},
    {{"token_file", "text", "", "file with the token that requests must carry", false},
     TEXT_AT(token_file)},
    {{"allow_control", "boolean", "false", "whether requests may look into processes", false},
     AT(allow_control),
     0,
     0,
     BOOLEAN},
    {{"pss", "boolean", "false", "proportional memory of processes, milliseconds each", false},
     AT(pss),
     0,
     0,
     BOOLEAN},
    {{"carbon_g_per_kwh", "number", "0", "carbon intensity of the grid; 0: not known", false},
     AT(carbon_g_per_kwh),
     0,
     1e5,
     REAL},
    {{"cpu_tdp_watts", "number", "0", "power of all processors, for estimates; 0: a guess", false},
     AT(cpu_tdp_watts),
     0,
     1e5,
     REAL},
    {{"keep_sessions", "whole number", "1000", "finished sessions that are listed", false},
     AT(keep_sessions),
     1,
     1e6,
     WHOLE},
    {{"keep_time", "seconds", "168h", "how long finished sessions are listed", false},
     AT(keep_ns),
     1,
     3.2e8,
     SECONDS},
    {{"request_timeout", "seconds", "30s", "a client that sends or reads slower is left", false},
     AT(request_timeout_ns),
     1,
     3600,
     SECONDS},
    {{"query_timeout", "seconds", "30s", "a query that takes longer is ended", true},
     AT(query_timeout_ns),
     0.01,
     3600,
     SECONDS},
    {{"query_rows", "whole number", "100000", "rows of an answer at most", true},
     AT(query_rows),
     1,
     1e9,
     WHOLE},
    {{"query_memory_mb", "whole number", "1024", "memory that a query may take", true},
     AT(query_memory_mb),
     16,
     1e7,
     WHOLE},
    {{"ring.rows", "whole number", "0",
      "rows of a table that each thread keeps; for programs that are started later, and the "
      "server's own tables from its start on; 0: 10000, and 100000 of python.torch_trace",
      false},
     AT(ring_rows),
     0,
     GSP_RING_ROWS_LIMIT,
     WHOLE},
    {{"ring.keep_time", "seconds", "24h", "how long the tables of an ended process stay", true},
     AT(ring_keep_ns),
     0,
     3.2e8,
     SECONDS},
    {{"ring.keep_mb", "whole number", "1024",
      "what the tables of all ended processes may take; the longest unwritten go first", true},
     AT(ring_keep_mb),
     0,
     1e7,
     WHOLE},
};

_Static_assert(GSP_COUNT(ROWS) <= sizeof(((struct gsp_settings *)0)->origin),
               "an origin for each setting");

static const struct row *row_at(size_t i)
{
    return i < GSP_COUNT(ROWS) ? &ROWS[i] : NULL;
}

const struct gsp_setting *gsp_setting_at(size_t i)
{
    return i < GSP_COUNT(ROWS) ? &ROWS[i].shown : NULL;
}

static struct gsp_sv without_prefix(struct gsp_sv name)
{
    const size_t len = sizeof(GSP_SETTING_PREFIX) - 1;
    if (!gsp_sv_starts(name, GSP_SETTING_PREFIX))
        return name;
    return (struct gsp_sv){name.p + len, name.len - len};
}

int gsp_setting_find(struct gsp_sv name)
{
    name = without_prefix(name);
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++)
        if (gsp_sv_eq(name, gsp_sv_of(ROWS[i].shown.name)))
            return (int)i;
    return -1;
}

const char *gsp_setting_nearest(struct gsp_sv name)
{
    char text[64];
    const char *best = NULL;
    size_t least = DISTANCE_MAX + 1;
    name = without_prefix(name);
    snprintf(text, sizeof(text), "%.*s", (int)(name.len < 60 ? name.len : 60), name.p);
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        const size_t distance = gsp_str_distance(text, ROWS[i].shown.name);
        /* Half of a short word changed is another word. */
        if (distance < least && distance * 2 < strlen(text)) {
            least = distance;
            best = ROWS[i].shown.name;
        }
    }
    return best;
}

static int refuse(const struct row *row, struct gsp_sv value, struct gsp_err *err)
{
    char shown[40];
    snprintf(shown, sizeof(shown), "%.*s", (int)(value.len < 36 ? value.len : 36), value.p);
    if (row->kind == TEXT)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s is too long or has a NUL", row->shown.name);
    if (row->kind == BOOLEAN)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be true or false, not %s", row->shown.name,
                           shown);
    return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be a %s from %.10g to %.10g, not %s",
                       row->shown.name, row->kind == SECONDS ? "time" : row->shown.type, row->min,
                       row->max, shown);
}

static bool set_seconds(const struct row *row, const char *text, void *at)
{
    int64_t ns = 0;
    if (gsp_parse_duration(text, &ns, NULL) < 0)
        return false;
    const double s = (double)ns / 1e9;
    if (s < row->min || s > row->max)
        return false;
    memcpy(at, &ns, sizeof(ns));
    return true;
}

static bool set_number(const struct row *row, const char *text, void *at)
{
    double v = 0;
    if (gsp_parse_f64(text, row->min, row->max, &v, NULL) < 0)
        return false;
    if (row->kind == WHOLE) {
        const int64_t whole = (int64_t)v;
        if (v != floor(v))
            return false;
        memcpy(at, &whole, sizeof(whole));
        return true;
    }
    memcpy(at, &v, sizeof(v));
    return true;
}

static bool set_bool(const char *text, void *at)
{
    static const char *const words[][2] = {
        {"true", "false"}, {"1", "0"}, {"yes", "no"}, {"on", "off"}};
    for (size_t i = 0; i < GSP_COUNT(words); i++) {
        for (int no = 0; no < 2; no++) {
            if (strcmp(text, words[i][no]) != 0)
                continue;
            const bool v = no == 0;
            memcpy(at, &v, sizeof(v));
            return true;
        }
    }
    return false;
}

int gsp_setting_set(struct gsp_settings *settings, size_t i, struct gsp_sv value,
                    enum gsp_setting_origin origin, struct gsp_err *err)
{
    const struct row *row = row_at(i);
    char text[GSP_SETTING_CHARS];
    if (!row)
        return gsp_err_set(err, GSP_E_USAGE, 0, "no such setting");
    const size_t max = row->kind == TEXT ? (size_t)row->max : 64;
    if (value.len >= max || (value.len && memchr(value.p, 0, value.len)))
        return refuse(row, value, err);
    if (value.len)
        memcpy(text, value.p, value.len);
    text[value.len] = '\0';
    char *at = (char *)settings + row->offset;
    bool ok = true;
    switch (row->kind) {
    case SECONDS:
        ok = set_seconds(row, text, at);
        break;
    case WHOLE:
    case REAL:
        ok = set_number(row, text, at);
        break;
    case BOOLEAN:
        ok = set_bool(text, at);
        break;
    case TEXT:
        memcpy(at, text, value.len + 1);
        break;
    }
    if (!ok)
        return refuse(row, value, err);
    settings->origin[i] = (unsigned char)origin;
    return GSP_OK;
}

void gsp_setting_json(const struct gsp_settings *settings, size_t i, struct gsp_json *json)
{
    const struct row *row = row_at(i);
    if (!row)
        return;
    const char *at = (const char *)settings + row->offset;
    int64_t whole = 0;
    double real = 0;
    bool flag = false;
    switch (row->kind) {
    case SECONDS:
        memcpy(&whole, at, sizeof(whole));
        gsp_json_f64(json, (double)whole / 1e9);
        break;
    case WHOLE:
        memcpy(&whole, at, sizeof(whole));
        gsp_json_i64(json, whole);
        break;
    case REAL:
        memcpy(&real, at, sizeof(real));
        gsp_json_f64(json, real);
        break;
    case BOOLEAN:
        memcpy(&flag, at, sizeof(flag));
        gsp_json_bool(json, flag);
        break;
    case TEXT:
        gsp_json_str(json, at);
        break;
    }
}

void gsp_setting_text(const struct gsp_settings *settings, size_t i, struct gsp_buf *out)
{
    const struct row *row = row_at(i);
    struct gsp_json json;
    if (row && row->kind == TEXT) {
        gsp_buf_puts(out, (const char *)settings + row->offset);
        return;
    }
    gsp_json_init(&json, out);
    gsp_setting_json(settings, i, &json);
}

const char *gsp_setting_origin_name(enum gsp_setting_origin origin)
{
    static const char *const names[] = {"default", "file", "environment", "flag", "request"};
    return (size_t)origin < GSP_COUNT(names) ? names[origin] : "default";
}

static int take_pair(void *ctx, struct gsp_sv key, struct gsp_sv value, unsigned line,
                     struct gsp_err *err)
{
    struct gsp_err why = {0};
    int i = gsp_setting_find(key);
    if (i < 0) {
        /* The file serves other commands and later versions too. */
        gsp_log_warn("daemon", "line %u of the configuration: no setting %.*s", line, (int)key.len,
                     key.p);
        return GSP_OK;
    }
    if (gsp_setting_set(ctx, (size_t)i, value, GSP_FROM_FILE, &why) < 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "line %u: %.200s", line, why.msg);
    return GSP_OK;
}

/* The usual place; false when the environment does not tell any. */
static bool usual_path(char *out, size_t cap)
{
    const char *config = getenv("XDG_CONFIG_HOME"); /* NOLINT(concurrency-mt-unsafe) */
    const char *home = getenv("HOME");              /* NOLINT(concurrency-mt-unsafe) */
    int n = -1;
    if (config && config[0] == '/')
        n = snprintf(out, cap, "%s/gsprof/config.toml", config);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/.config/gsprof/config.toml", home);
    return n > 0 && (size_t)n < cap;
}

static int load_file(struct gsp_settings *settings, const char *path, struct gsp_err *err)
{
    char usual[GSP_SETTING_CHARS];
    gsp_auto_buf text = {0};
    struct gsp_err why = {0};
    if (!path && !usual_path(usual, sizeof(usual)))
        return GSP_OK;
    const char *from = path ? path : usual;
    int rc = gsp_file_read(from, FILE_BYTES_MAX, &text, &why);
    if (rc == GSP_E_NOFILE && !path)
        return GSP_OK;
    if (rc == GSP_OK)
        rc = gsp_settings__parse(gsp_buf_sv(&text), take_pair, settings, &why);
    if (rc < 0)
        return gsp_err_set(err, rc == GSP_E_USAGE ? GSP_E_USAGE : why.code, why.sys, "%.100s: %s",
                           from, why.msg);
    return GSP_OK;
}

void gsp_setting_variable(size_t i, char out[GSP_SETTING_VARIABLE_MAX])
{
    static const char prefix[] = "GSPROF_";
    size_t len = sizeof(prefix) - 1;
    memcpy(out, prefix, len);
    for (const char *p = ROWS[i].shown.name; *p && len < GSP_SETTING_VARIABLE_MAX - 1; p++)
        out[len++] = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p == '.' ? '_' : *p);
    out[len] = '\0';
}

static int load_environment(struct gsp_settings *settings, struct gsp_err *err)
{
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        char name[GSP_SETTING_VARIABLE_MAX];
        gsp_setting_variable(i, name);
        const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
        struct gsp_err why = {0};
        if (value && gsp_setting_set(settings, i, gsp_sv_of(value), GSP_FROM_ENVIRONMENT, &why) < 0)
            return gsp_err_set(err, GSP_E_USAGE, 0, "%s: %.180s", name, why.msg);
    }
    return GSP_OK;
}

int gsp_settings_load(struct gsp_settings *settings, const char *path, struct gsp_err *err)
{
    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        int rc =
            gsp_setting_set(settings, i, gsp_sv_of(ROWS[i].shown.fallback), GSP_FROM_DEFAULT, err);
        if (rc < 0)
            return rc;
    }
    int rc = load_file(settings, path, err);
    return rc < 0 ? rc : load_environment(settings, err);
}

struct gsp_ring_dir_limits gsp_settings_ring_limits(const struct gsp_settings *settings)
{
    return (struct gsp_ring_dir_limits){.keep_ns = settings->ring_keep_ns,
                                        .keep_bytes = (uint64_t)settings->ring_keep_mb << 20};
}
