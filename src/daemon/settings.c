/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/xdg.h"
#include "wire/ring.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
/* Names with more edits are not similar. */
#define DISTANCE_MAX   3U

enum kind { SECONDS, WHOLE, REAL, BOOLEAN, TEXT };

struct row {
    struct gsp_setting shown;
    size_t offset;
    double min;
    double max; /* of TEXT: size of the member in bytes */
    enum kind kind;
};

/* A row's member, in the part of struct gsp_settings that it belongs to. */
#define FIXED(member) .offset = offsetof(struct gsp_settings, fixed.member)
#define LIVE(member)  .offset = offsetof(struct gsp_settings, live.member)
#define FIXED_TEXT(member)                                                                         \
    FIXED(member), .max = sizeof(((struct gsp_settings *)0)->fixed.member), .kind = TEXT

static const struct row ROWS[] = {
    {
        .shown = {.name = "sample_rate",
                  .type = "seconds",
                  .fallback = "200ms",
                  .doc = "time between two metric frames"},
        LIVE(period_ns),
        .min = 0.01,
        .max = 3600,
        .kind = SECONDS,
    },
    {
        .shown = {.name = "bind",
                  .type = "text",
                  .fallback = "127.0.0.1",
                  .doc = "address to listen on; any other than loopback needs a token_file"},
        FIXED_TEXT(bind),
    },
    {
        .shown = {.name = "port",
                  .type = "whole number",
                  .fallback = "8091",
                  .doc = "port to listen on; 0: any free port"},
        FIXED(port),
        .min = 0,
        .max = 65535,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "socket",
                  .type = "text",
                  .fallback = "",
                  .doc = "path of the Unix socket, only for this user; empty: port-<port>.sock in "
                         "the state folder"},
        FIXED_TEXT(socket_path),
    },
    {
        .shown = {.name = "output_dir",
                  .type = "text",
                  .fallback = ".",
                  .doc = "folder for session files"},
        FIXED_TEXT(output_dir),
    },
    {
        .shown = {.name = "state_dir",
                  .type = "text",
                  .fallback = "",
                  .doc = "folder for the frame log and the journal; empty: $XDG_STATE_HOME/gsprof"},
        FIXED_TEXT(state_dir),
    },
    {
        .shown = {.name = "token_file",
                  .type = "text",
                  .fallback = "",
                  .doc = "file with the token that requests must send"},
        FIXED_TEXT(token_file),
    },
    {
        .shown = {.name = "allow_control",
                  .type = "boolean",
                  .fallback = "false",
                  .doc = "whether requests with the token may change settings, attach to "
                         "processes and record them"},
        FIXED(allow_control),
        .kind = BOOLEAN,
    },
    {
        .shown = {.name = "all_users",
                  .type = "boolean",
                  .fallback = "false",
                  .doc = "whether a daemon of root reads the tables of all users, not only root's"},
        FIXED(all_users),
        .kind = BOOLEAN,
    },
    {
        .shown =
            {.name = "pss",
             .type = "boolean",
             .fallback = "false",
             .doc = "collect the proportional memory of processes; costs milliseconds per process"},
        FIXED(pss),
        .kind = BOOLEAN,
    },
    {
        .shown = {.name = "carbon_g_per_kwh",
                  .type = "number",
                  .fallback = "0",
                  .doc = "carbon intensity of the power grid in g/kWh; 0: unknown"},
        FIXED(carbon_g_per_kwh),
        .min = 0,
        .max = 1e5,
        .kind = REAL,
    },
    {
        .shown = {.name = "cpu_tdp_watts",
                  .type = "number",
                  .fallback = "0",
                  .doc = "power of all processors in watts, for estimates; 0: 4 W per core"},
        FIXED(cpu_tdp_watts),
        .min = 0,
        .max = 1e5,
        .kind = REAL,
    },
    {
        .shown = {.name = "keep_sessions",
                  .type = "whole number",
                  .fallback = "1000",
                  .doc =
                      "number of finished sessions to list; at most half of them started without "
                      "trust (docs/security.md)"},
        FIXED(keep_sessions),
        .min = 1,
        .max = 1e6,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "keep_time",
                  .type = "seconds",
                  .fallback = "168h",
                  .doc = "how long to list finished sessions; their files stay"},
        FIXED(keep_ns),
        .min = 1,
        .max = 3.2e8,
        .kind = SECONDS,
    },
    {
        .shown = {.name = "request_timeout",
                  .type = "seconds",
                  .fallback = "30s",
                  .doc = "how long a client may take to send a request or to read an answer"},
        FIXED(request_timeout_ns),
        .min = 1,
        .max = 3600,
        .kind = SECONDS,
    },
    {
        .shown = {.name = "query_timeout",
                  .type = "seconds",
                  .fallback = "30s",
                  .doc = "time limit of a query"},
        LIVE(query_timeout_ns),
        .min = 0.01,
        .max = 3600,
        .kind = SECONDS,
    },
    {
        .shown = {.name = "query_rows",
                  .type = "whole number",
                  .fallback = "100000",
                  .doc = "row limit of an answer"},
        LIVE(query_rows),
        .min = 1,
        .max = 1e9,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "query_memory_mb",
                  .type = "whole number",
                  .fallback = "1024",
                  .doc = "memory limit of a query in MiB"},
        LIVE(query_memory_mb),
        .min = 16,
        .max = 1e7,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "query_answer_mb",
                  .type = "whole number",
                  .fallback = "128",
                  .doc = "size limit of the answer to a query in MiB"},
        FIXED(query_answer_mb),
        .min = 1,
        .max = 1e5,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "answers_mb",
                  .type = "whole number",
                  .fallback = "512",
                  .doc = "size limit in MiB of all answers that clients have not read yet"},
        FIXED(answers_mb),
        .min = 1,
        .max = 1e6,
        .kind = WHOLE,
    },
    {
        .shown =
            {.name = "answer_rate_kb",
             .type = "whole number",
             .fallback = "64",
             .doc =
                 "slowest rate in KiB/s at which a client may read an answer, averaged over request_timeout; 0: any"},
        FIXED(answer_rate_kb),
        .min = 0,
        .max = 1e6,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "streams",
                  .type = "whole number",
                  .fallback = "64",
                  .doc = "limit of concurrent clients of GET /stream"},
        FIXED(streams),
        .min = 1,
        .max = 1e5,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "anonymous_mb",
                  .type = "whole number",
                  .fallback = "256",
                  .doc = "size limit in MiB of the files of all sessions that were started without "
                         "trust (docs/security.md)"},
        FIXED(anonymous_mb),
        .min = 1,
        .max = 1e7,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "connections_per_address",
                  .type = "whole number",
                  .fallback = "256",
                  .doc = "limit of connections from one IP address (IPv6: one /64 network; "
                         "all loopback addresses count as one)"},
        FIXED(connections_per_address),
        .min = 1,
        .max = 1e5,
        .kind = WHOLE,
    },
    {
        .shown =
            {.name = "ring.rows",
             .type = "whole number",
             .fallback = "0",
             .doc = "rows per table and thread, in the daemon and in the targets of gsprof run and "
                    "inject; 0: 10000, and 100000 of python.torch_trace"},
        FIXED(ring_rows),
        .min = 0,
        .max = GSP_RING_ROWS_LIMIT,
        .kind = WHOLE,
    },
    {
        .shown = {.name = "ring.keep_time",
                  .type = "seconds",
                  .fallback = "24h",
                  .doc = "how long to keep the tables of an ended process"},
        LIVE(ring_keep_ns),
        .min = 0,
        .max = 3.2e8,
        .kind = SECONDS,
    },
    {
        .shown =
            {.name = "ring.keep_mb",
             .type = "whole number",
             .fallback = "1024",
             .doc =
                 "size limit in MiB for the tables of all ended processes; the oldest are removed first"},
        LIVE(ring_keep_mb),
        .min = 0,
        .max = 1e7,
        .kind = WHOLE,
    },
};

_Static_assert(GSP_COUNT(ROWS) == GSP_SETTING_COUNT, "an origin for each setting");

static const struct row *row_at(size_t i)
{
    return i < GSP_COUNT(ROWS) ? &ROWS[i] : NULL;
}

const struct gsp_setting *gsp_daemon__setting_at(size_t i)
{
    return i < GSP_COUNT(ROWS) ? &ROWS[i].shown : NULL;
}

bool gsp_daemon__setting_is_live(size_t i)
{
    const struct row *row = row_at(i);
    return row && row->offset >= offsetof(struct gsp_settings, live);
}

enum gsp_setting_origin gsp_daemon__setting_origin_of(const struct gsp_settings *settings, size_t i)
{
    const unsigned char *origin =
        gsp_daemon__setting_is_live(i) ? settings->live.origin : settings->fixed.origin;
    return (enum gsp_setting_origin)origin[i];
}

static struct gsp_sv without_prefix(struct gsp_sv name)
{
    const size_t len = sizeof(GSP_SETTING_PREFIX) - 1;
    if (!gsp_sv_starts(name, GSP_SETTING_PREFIX))
        return name;
    return (struct gsp_sv){name.p + len, name.len - len};
}

int gsp_daemon_setting_find(struct gsp_sv name)
{
    name = without_prefix(name);
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++)
        if (gsp_sv_eq(name, gsp_sv_of(ROWS[i].shown.name)))
            return (int)i;
    return -1;
}

const char *gsp_daemon__setting_nearest(struct gsp_sv name)
{
    char text[64];
    const char *best = NULL;
    size_t least = DISTANCE_MAX + 1;
    name = without_prefix(name);
    snprintf(text, sizeof(text), "%.*s", (int)(name.len < 60 ? name.len : 60), name.p);
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        const size_t distance = gsp_str_distance(text, ROWS[i].shown.name);
        /* Not similar if half of a short word differs. */
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
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s is too long or contains a NUL",
                           row->shown.name);
    if (row->kind == BOOLEAN)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be true or false, not %s", row->shown.name,
                           shown);
    return gsp_err_set(err, GSP_E_USAGE, 0, "%s must be a %s from %.10g to %.10g%s, not %s",
                       row->shown.name, row->kind == SECONDS ? "time" : row->shown.type, row->min,
                       row->max, row->kind == SECONDS ? " s" : "", shown);
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

int gsp_daemon_setting_set(struct gsp_settings *settings, size_t i, struct gsp_sv value,
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
    unsigned char *origins =
        gsp_daemon__setting_is_live(i) ? settings->live.origin : settings->fixed.origin;
    origins[i] = (unsigned char)origin;
    return GSP_OK;
}

void gsp_daemon__setting_json(const struct gsp_settings *settings, size_t i, struct gsp_json *json)
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

void gsp_daemon__setting_text(const struct gsp_settings *settings, size_t i, struct gsp_buf *out)
{
    const struct row *row = row_at(i);
    struct gsp_json json;
    if (row && row->kind == TEXT) {
        gsp_buf_puts(out, (const char *)settings + row->offset);
        return;
    }
    gsp_json_init(&json, out);
    gsp_daemon__setting_json(settings, i, &json);
}

const char *gsp_daemon__setting_origin_name(enum gsp_setting_origin origin)
{
    static const char *const names[] = {"default", "file", "environment", "flag", "request"};
    return (size_t)origin < GSP_COUNT(names) ? names[origin] : "default";
}

static int set_pair(void *ctx, struct gsp_sv key, struct gsp_sv value, unsigned line,
                    struct gsp_err *err)
{
    struct gsp_err why = {0};
    int i = gsp_daemon_setting_find(key);
    if (i < 0) {
        /* Only a warning: other commands and later versions use the file too. */
        gsp_log_warn("daemon", "line %u of the configuration: unknown setting %.*s", line,
                     (int)key.len, key.p);
        return GSP_OK;
    }
    if (gsp_daemon_setting_set(ctx, (size_t)i, value, GSP_FROM_FILE, &why) < 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "line %u: %.200s", line, why.msg);
    return GSP_OK;
}

static int load_file(struct gsp_settings *settings, const char *path, struct gsp_err *err)
{
    char usual[GSP_SETTING_CHARS];
    gsp_auto_buf text = {0};
    struct gsp_err why = {0};
    if (!path && !gsp_xdg_path(GSP_XDG_CONFIG, "config.toml", usual, sizeof(usual)))
        return GSP_OK;
    const char *from = path ? path : usual;
    int rc = gsp_file_read(from, FILE_BYTES_MAX, &text, &why);
    if (rc == GSP_E_NOFILE && !path)
        return GSP_OK;
    if (rc == GSP_OK)
        rc = gsp_daemon__settings_parse(gsp_buf_sv(&text), set_pair, settings, &why);
    if (rc < 0)
        return gsp_err_set(err, rc == GSP_E_USAGE ? GSP_E_USAGE : why.code, why.sys, "%.100s: %s",
                           from, why.msg);
    return GSP_OK;
}

void gsp_daemon_setting_variable(const char *name, char out[GSP_SETTING_VARIABLE_MAX])
{
    static const char prefix[] = "GSPROF_";
    size_t len = sizeof(prefix) - 1;
    memcpy(out, prefix, len);
    for (const char *p = name; *p && len < GSP_SETTING_VARIABLE_MAX - 1; p++)
        out[len++] = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p == '.' ? '_' : *p);
    out[len] = '\0';
}

void gsp_daemon_settings_markdown(struct gsp_buf *out)
{
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        const struct gsp_setting *shown = &ROWS[i].shown;
        char variable[GSP_SETTING_VARIABLE_MAX];
        gsp_daemon_setting_variable(shown->name, variable);
        gsp_buf_printf(out, "| `%s` | `%s` | %s", shown->name, variable, shown->type);
        if (ROWS[i].kind != TEXT && ROWS[i].kind != BOOLEAN)
            gsp_buf_printf(out, ", %.10g to %.10g", ROWS[i].min, ROWS[i].max);
        gsp_buf_printf(out, " | %s | %s | %s |\n", shown->fallback,
                       gsp_daemon__setting_is_live(i) ? "live" : "fixed", shown->doc);
    }
}

static int load_environment(struct gsp_settings *settings, struct gsp_err *err)
{
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        char name[GSP_SETTING_VARIABLE_MAX];
        gsp_daemon_setting_variable(ROWS[i].shown.name, name);
        const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
        struct gsp_err why = {0};
        if (value &&
            gsp_daemon_setting_set(settings, i, gsp_sv_of(value), GSP_FROM_ENVIRONMENT, &why) < 0)
            return gsp_err_set(err, GSP_E_USAGE, 0, "%s: %.180s", name, why.msg);
    }
    return GSP_OK;
}

int gsp_daemon_settings_load(struct gsp_settings *settings, const char *path, struct gsp_err *err)
{
    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++) {
        int rc = gsp_daemon_setting_set(settings, i, gsp_sv_of(ROWS[i].shown.fallback),
                                        GSP_FROM_DEFAULT, err);
        if (rc < 0)
            return rc;
    }
    int rc = load_file(settings, path, err);
    return rc < 0 ? rc : load_environment(settings, err);
}

struct gsp_ring_dir_limits gsp_daemon_settings_ring_limits(const struct gsp_settings_live *settings)
{
    return (struct gsp_ring_dir_limits){.keep_ns = settings->ring_keep_ns,
                                        .keep_bytes = (uint64_t)settings->ring_keep_mb << 20};
}
