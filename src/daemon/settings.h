/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h -- the settings of the daemon, and of rings for other commands: one table.
 *
 * A value comes from, with rising priority: the default in the table, config.toml, the environment
 * (GSPROF_SAMPLE_RATE), a command-line flag and, if the setting can change while the daemon runs,
 * PUT /config.
 *
 * Reads:   a subset of TOML: comments, [sections], key = value with strings, numbers, booleans.
 * Threads: a struct gsp_settings belongs to its owner.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "ring/dir.h"

/* An optional prefix of names: gsprof.sample_rate is sample_rate. */
#define GSP_SETTING_PREFIX       "gsprof."
#define GSP_SETTING_VARIABLE_MAX 64
#define GSP_SETTING_CHARS        PATH_MAX

/* The origin of a value, by rising priority. */
enum gsp_setting_origin {
    GSP_FROM_DEFAULT,
    GSP_FROM_FILE,
    GSP_FROM_ENVIRONMENT,
    GSP_FROM_FLAG,
    GSP_FROM_REQUEST,
};

#define GSP_SETTING_COUNT 27U

/* Settings that do not change after the start. */
struct gsp_settings_fixed {
    int64_t port;
    int64_t keep_sessions;
    int64_t keep_ns;
    int64_t request_timeout_ns;
    int64_t query_answer_mb;
    int64_t answers_mb;
    int64_t answer_rate_kb;
    int64_t streams;
    int64_t anonymous_mb;
    int64_t connections_per_address;
    int64_t ring_rows; /* 0: GSP_RING_ROWS_DEFAULT */
    double carbon_g_per_kwh;
    double cpu_tdp_watts;
    bool allow_control;
    bool all_users;
    bool pss;
    char bind[64];
    char output_dir[GSP_SETTING_CHARS];
    char state_dir[GSP_SETTING_CHARS];
    char token_file[GSP_SETTING_CHARS];
    char socket_path[GSP_SETTING_CHARS];     /* "": none */
    unsigned char origin[GSP_SETTING_COUNT]; /* enum gsp_setting_origin, by table row */
};

/* Settings that can change while the daemon runs. */
struct gsp_settings_live {
    int64_t period_ns;
    int64_t query_timeout_ns;
    int64_t query_rows;
    int64_t query_memory_mb;
    int64_t ring_keep_ns;
    int64_t ring_keep_mb;
    unsigned char origin[GSP_SETTING_COUNT]; /* as in struct gsp_settings_fixed */
};

struct gsp_settings {
    struct gsp_settings_fixed fixed;
    struct gsp_settings_live live;
};

struct gsp_setting {
    const char *name; /* "sample_rate" */
    const char *type; /* "seconds", "whole number", "number", "boolean", "text" */
    const char *fallback;
    const char *doc;
};

/* Returns NULL past the last row. The index is also that of origin[]. */
const struct gsp_setting *gsp_daemon__setting_at(size_t i);
/* Whether the setting can change while the daemon runs. */
bool gsp_daemon__setting_is_live(size_t i);
enum gsp_setting_origin gsp_daemon__setting_origin_of(const struct gsp_settings *settings,
                                                      size_t i);
/* The row of a name with or without the prefix, or a negative number. */
int gsp_daemon_setting_find(struct gsp_sv name);
/* The environment variable of a setting of the daemon or of a process: "GSPROF_RING_ROWS" of
 * "ring.rows". */
void gsp_daemon_setting_variable(const char *name, char out[GSP_SETTING_VARIABLE_MAX]);
/* The setting with the most similar name, or NULL. */
const char *gsp_daemon__setting_nearest(struct gsp_sv name);

/* Fails with USAGE. */
GSP_MUST_CHECK int gsp_daemon_setting_set(struct gsp_settings *settings, size_t i,
                                          struct gsp_sv value, enum gsp_setting_origin origin,
                                          struct gsp_err *err);
void gsp_daemon__setting_json(const struct gsp_settings *settings, size_t i, struct gsp_json *json);
void gsp_daemon__setting_text(const struct gsp_settings *settings, size_t i, struct gsp_buf *out);
const char *gsp_daemon__setting_origin_name(enum gsp_setting_origin origin);
/* Appends the rows of a Markdown table of all settings, for docs/settings.md. */
void gsp_daemon_settings_markdown(struct gsp_buf *out);

/* Loads the defaults, then the file, then the environment. path NULL:
 * $XDG_CONFIG_HOME/gsprof/config.toml, which need not exist. Fails with NOFILE, FORMAT, USAGE. */
GSP_MUST_CHECK int gsp_daemon_settings_load(struct gsp_settings *settings, const char *path,
                                            struct gsp_err *err);

/* Limits for the rings of ended processes. */
struct gsp_ring_dir_limits
gsp_daemon_settings_ring_limits(const struct gsp_settings_live *settings);

/* Called for each key and value. A key includes its section: "a.b". */
typedef int gsp_settings_pair(void *ctx, struct gsp_sv key, struct gsp_sv value, unsigned line,
                              struct gsp_err *err);
GSP_MUST_CHECK int gsp_daemon__settings_parse(struct gsp_sv text, gsp_settings_pair *pair,
                                              void *ctx, struct gsp_err *err);
