/* SPDX-License-Identifier: Apache-2.0 */
#include "source/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "memlog/log.h"
#include "proc/task.h"
#include "source/allocations.h"
#include "source/profile_file.h"
#include "source/run_folder.h"
#include "store/profile_tables.h"

#define PARQUET_MAGIC "PAR1"
#define PORT_MAX      65535

static bool is_digits(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* "host:8080", "[::1]:8080" */
bool gsp_source_endpoint_is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    int64_t port = 0;
    return colon && colon != text && !strchr(text, '/') && is_digits(colon + 1) &&
           gsp_parse_i64(colon + 1, 1, PORT_MAX, &port, NULL) == GSP_OK;
}

bool gsp_source_endpoint_is_plausible(const char *text)
{
    return is_digits(text) || exists(text) || gsp_source_endpoint_is_address(text) ||
           strncmp(text, "unix:", 5) == 0 || strncmp(text, "http://", 7) == 0;
}

/* Detects the kind of a file from its first bytes. */
static enum gsp_endpoint_kind detect_kind(const char *path)
{
    char head[16] = {0};
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
    const struct gsp_sv bytes = {head, n > 0 ? (size_t)n : 0};
    if (gsp_memlog_is_recording(bytes))
        return GSP_ENDPOINT_MEMORY;
    return gsp_sv_starts(bytes, PARQUET_MAGIC) || gsp_sv_ends(gsp_sv_of(path), ".parquet")
               ? GSP_ENDPOINT_PARQUET
               : GSP_ENDPOINT_PROFILE;
}

static int find_pid(struct gsp_endpoint *out, struct gsp_err *err)
{
    int64_t pid = 0;
    int rc = gsp_parse_i64(out->text, 1, INT_MAX, &pid, err);
    if (rc < 0)
        return rc;
    out->kind = GSP_ENDPOINT_PID;
    out->pid = (pid_t)pid;
    struct gsp_procinfo info;
    out->is_live = gsp_proc_info(out->pid, &info, NULL) == GSP_OK && info.state != 'Z';
    struct gsp_err why = {0};
    rc = gsp_ring_dir_find_pair(out->pid, GSP_RING_DIR_ANY_OWNER, &out->ring_dirs, &why);
    out->has_rings = rc == GSP_OK;
    /* The rings belong to an exited process with the same pid: ignore them. */
    if (out->has_rings && !out->ring_dirs.at[0].live && out->is_live)
        out->has_rings = false;
    if (out->has_rings || (out->is_live && rc != GSP_E_PERM))
        return GSP_OK;
    if (rc == GSP_E_NOFILE)
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d is not running and left no tables",
                           out->pid);
    return gsp_err_set(err, rc < 0 ? rc : GSP_E_IO, why.sys, "%s", why.msg);
}

static int find_path(struct gsp_endpoint *out, struct gsp_err *err)
{
    struct stat st;
    if (stat(out->text, &st) < 0) {
        int code = errno == EACCES ? GSP_E_PERM : GSP_E_NOFILE;
        if (code == GSP_E_NOFILE && strchr(out->text, ',')) {
            out->kind = GSP_ENDPOINT_FOLDER; /* a list of recordings */
            return GSP_OK;
        }
        return gsp_err_set(err, code, errno, "cannot open %.180s: %s", out->text, strerror(errno));
    }
    if (S_ISDIR(st.st_mode))
        out->kind = GSP_ENDPOINT_FOLDER;
    else
        out->kind = detect_kind(out->text);
    return GSP_OK;
}

int gsp_source_endpoint_find(const char *text, struct gsp_endpoint *out, struct gsp_err *err)
{
    *out = (struct gsp_endpoint){.text = text};
    return is_digits(text) ? find_pid(out, err) : find_path(out, err);
}

static int add_pid(struct gsp_endpoint *endpoint, struct gsp_store *store, struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && endpoint->has_rings && i < endpoint->ring_dirs.count; i++)
        rc = gsp_store_add_ring_dir(store, &endpoint->ring_dirs.at[i], err);
    if (rc == GSP_OK && endpoint->has_rings)
        rc = gsp_source__allocations_add(store, &endpoint->ring_dirs.at[0], err);
    if (rc < 0 || !endpoint->is_live)
        return rc;
    endpoint->backtrace.pid = endpoint->pid;
    return gsp_source__backtraces_add(store, &endpoint->backtrace, err);
}

/* Converts text to an SQL name: lower-case letters, digits and underscores. */
static void make_sql_name(struct gsp_sv text, char *out, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len && len + 1 < cap; i++) {
        char c = text.p[i];
        char small = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        bool letter = (small >= 'a' && small <= 'z') || small == '_';
        bool digit = small >= '0' && small <= '9';
        if (digit && len == 0)
            out[len++] = '_';
        if (len + 1 < cap)
            out[len++] = (char)(letter || digit ? small : '_');
    }
    out[len] = '\0';
}

/* <schema>.<table>[.<number>].parquet has rows of that table; any other file becomes a table named
 * after the file. */
static int add_parquet(const char *path, struct gsp_store *store, struct gsp_err *err)
{
    char schema[GSP_NAME_MAX] = "main";
    char table[GSP_NAME_MAX] = "";
    struct gsp_sv rest = gsp_sv_basename(gsp_sv_of(path));
    if (gsp_sv_ends(rest, ".parquet"))
        rest.len -= strlen(".parquet");
    struct gsp_sv whole = rest;
    struct gsp_sv first = {0};
    struct gsp_sv second = {0};
    if (gsp_sv_split(&rest, '.', &first) && gsp_sv_split(&rest, '.', &second) && second.len > 0) {
        make_sql_name(first, schema, sizeof(schema));
        make_sql_name(second, table, sizeof(table));
    }
    if (table[0] == '\0' || !gsp_wire_table_find(schema, table)) {
        snprintf(schema, sizeof(schema), "main");
        make_sql_name(whole, table, sizeof(table));
    }
    if (table[0] == '\0')
        snprintf(table, sizeof(table), "file");
    int rc = gsp_store_add_parquet(store, schema, table, &path, 1, err);
    /* The store leaves out a file that cannot be read, with a warning: here it is the only one. */
    const char *warning = rc == GSP_OK ? gsp_store_warning(store, 0) : NULL;
    if (warning)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%.230s", warning);
    return rc;
}

static int add_profile(const char *path, struct gsp_store *store, struct gsp_err *err)
{
    struct gsp_profile *profile = NULL;
    int rc = gsp_source_profile_load(path, NULL, true, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_profile(store, profile, err);
    gsp_model_profile_free(profile);
    return rc;
}

static int add_memory(const char *path, struct gsp_store *store, struct gsp_err *err)
{
    struct gsp_memlog *log = NULL;
    int rc = gsp_memlog_open(path, &log, err);
    if (rc == GSP_OK)
        rc = gsp_source__memory_recording_add(store, log, err);
    gsp_memlog_close(log);
    return rc;
}

int gsp_source_endpoint_add(struct gsp_endpoint *endpoint, struct gsp_store *store,
                            struct gsp_err *err)
{
    switch (endpoint->kind) {
    case GSP_ENDPOINT_PID:
        return add_pid(endpoint, store, err);
    case GSP_ENDPOINT_FOLDER:
        return gsp_source__run_add(store, endpoint->text, err);
    case GSP_ENDPOINT_PARQUET:
        return add_parquet(endpoint->text, store, err);
    case GSP_ENDPOINT_MEMORY:
        return add_memory(endpoint->text, store, err);
    case GSP_ENDPOINT_PROFILE:
        break;
    }
    return add_profile(endpoint->text, store, err);
}
