/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_fixture.h -- a simulated machine in a temporary folder, and a sink that keeps rows.
 *
 *     struct machine m;
 *     machine_open(&m, "cgroup2");
 *     machine_tick(&m, collect, 1);     one second after the start
 *     machine_later(&m);                switches to the files of one second later
 *     const struct gsp_row_system_cpu *row = machine_row(&m, GSP_TABLE_system_cpu, 0);
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "collect/collect.h"
#include "tap.h"

#define MACHINE_ROWS_MAX  4096U
#define MACHINE_TEXTS_MAX 512U
#define MACHINE_START_NS  (1000 * GSP_NS_PER_S)

struct machine_row {
    enum gsp_table_id table;
    void *values;
};

struct machine {
    struct gsp_collect_sink sink; /* must be first: sources get its address */
    char folder[64];
    char fixture[PATH_MAX];
    char proc[128];
    char sys[128];
    struct gsp_collect_env env;
    struct machine_row rows[MACHINE_ROWS_MAX]; /* of the last tick */
    size_t row_count;
    char *texts[MACHINE_TEXTS_MAX]; /* by id - 1 */
    size_t text_count;
};

static uint32_t machine_intern(struct gsp_collect_sink *sink, enum gsp_table_id table,
                               struct gsp_sv text)
{
    struct machine *m = (struct machine *)sink;
    (void)table;
    for (size_t i = 0; i < m->text_count; i++)
        if (gsp_sv_eq(gsp_sv_of(m->texts[i]), text))
            return (uint32_t)i + 1;
    tap_require(m->text_count < MACHINE_TEXTS_MAX);
    m->texts[m->text_count] = strndup(text.p, text.len);
    return (uint32_t)++m->text_count;
}

static void machine_put(struct gsp_collect_sink *sink, enum gsp_table_id table, const void *row)
{
    struct machine *m = (struct machine *)sink;
    const size_t bytes = gsp_wire_table_at(table)->row_bytes;
    tap_require(m->row_count < MACHINE_ROWS_MAX);
    struct machine_row *slot = &m->rows[m->row_count++];
    slot->table = table;
    slot->values = malloc(bytes);
    tap_require(slot->values != NULL);
    memcpy(slot->values, row, bytes);
}

/* Overwrites in place, so that open descriptors see the new content. */
static inline void machine_write(const struct machine *m, const char *path, const char *bytes,
                                 size_t len)
{
    char full[PATH_MAX];
    tap_require((size_t)snprintf(full, sizeof(full), "%s/%s", m->folder, path) < sizeof(full));
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    gsp_auto_fd fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    tap_require(fd >= 0 && gsp_fd_write_all(fd, bytes, len, NULL) == 0);
}

static inline void machine_set(const struct machine *m, const char *path, const char *text)
{
    machine_write(m, path, text, strlen(text));
}

static inline void machine_copy(const struct machine *m, const char *from, const char *to)
{
    DIR *dir = opendir(from);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        char source[PATH_MAX];
        char target[PATH_MAX];
        struct stat st;
        gsp_auto_buf text = {0};
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tap_require((size_t)snprintf(source, sizeof(source), "%s/%s", from, e->d_name) <
                    sizeof(source));
        tap_require((size_t)snprintf(target, sizeof(target), "%s%s%s", to, to[0] ? "/" : "",
                                     e->d_name) < sizeof(target));
        tap_require(stat(source, &st) == 0);
        if (S_ISDIR(st.st_mode)) {
            machine_copy(m, source, target);
        } else {
            tap_require(gsp_file_read(source, 1 << 20, &text, NULL) == 0);
            machine_write(m, target, text.p, text.len);
        }
    }
    if (dir)
        closedir(dir);
}

static inline void machine_open(struct machine *m, const char *name)
{
    char first[PATH_MAX];
    *m = (struct machine){.sink = {machine_intern, machine_put}};
    snprintf(m->folder, sizeof(m->folder), "/tmp/gsprof-machine-XXXXXX");
    tap_require(mkdtemp(m->folder) != NULL);
    snprintf(m->fixture, sizeof(m->fixture), "%s/machines/%s", GSP_TEST_FIXTURES, name);
    snprintf(first, sizeof(first), "%.4000s/0", m->fixture);
    machine_copy(m, first, "");
    snprintf(m->proc, sizeof(m->proc), "%s/proc", m->folder);
    snprintf(m->sys, sizeof(m->sys), "%s/sys", m->folder);
    m->env =
        (struct gsp_collect_env){.proc_root = m->proc, .sys_root = m->sys, .carbon_g_per_kwh = 360};
}

static inline void machine_later(const struct machine *m)
{
    char second[PATH_MAX];
    snprintf(second, sizeof(second), "%.4000s/1", m->fixture);
    machine_copy(m, second, "");
}

static inline void machine_forget_rows(struct machine *m)
{
    for (size_t i = 0; i < m->row_count; i++)
        free(m->rows[i].values);
    m->row_count = 0;
}

static inline struct gsp_collect_tick machine_time(double seconds)
{
    const int64_t mono = MACHINE_START_NS + (int64_t)(seconds * 1e9);
    return (struct gsp_collect_tick){mono + 5, mono};
}

static inline void machine_tick(struct machine *m, struct gsp_collect *collect, double seconds)
{
    const struct gsp_collect_tick tick = machine_time(seconds);
    machine_forget_rows(m);
    gsp_collect_read(collect, &tick, &m->sink);
}

/* Returns the i-th row of a table in the last tick, or NULL if it does not exist. */
static inline const void *machine_row(const struct machine *m, enum gsp_table_id table, size_t i)
{
    for (size_t k = 0; k < m->row_count; k++)
        if (m->rows[k].table == table && i-- == 0)
            return m->rows[k].values;
    return NULL;
}

/* The same, but fails the test if the row does not exist. */
__attribute__((returns_nonnull)) static inline const void *
machine_need(const struct machine *m, enum gsp_table_id table, size_t i)
{
    const void *row = machine_row(m, table, i);
    tap_require(row != NULL);
    if (!row)
        abort();
    return row;
}

static inline const char *machine_text(const struct machine *m, uint32_t id)
{
    return id > 0 && id <= m->text_count ? m->texts[id - 1] : NULL;
}

static inline int machine_remove(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline void machine_close(struct machine *m)
{
    machine_forget_rows(m);
    for (size_t i = 0; i < m->text_count; i++)
        free(m->texts[i]);
    nftw(m->folder, machine_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Returns the error of a source: "" if none, "?" if the source does not exist. */
static inline const char *machine_trouble(const struct gsp_collect *collect, const char *name)
{
    struct gsp_collect_state state;
    for (size_t i = 0; gsp_collect_state(collect, i, &state); i++)
        if (strcmp(state.name, name) == 0)
            return state.trouble ? state.trouble : "";
    return "?";
}

static inline bool near_at(double a, double b, const char *what, const char *file, int line)
{
    const bool ok = tap_check_at(fabs(a - b) <= 1e-6 * (1 + fabs(b)), what, file, line);
    if (!ok)
        printf("#   left  %.9g\n#   right %.9g\n", a, b);
    return ok;
}
#define near(a, b) near_at((a), (b), #a " is near " #b, __FILE__, __LINE__)
