/* SPDX-License-Identifier: Apache-2.0 */
#include "source/run_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/profile_read.h"
#include "store/profile_tables.h"
#include "store/run.h"

static int refuse_stream(const struct gsp_profile *profile, const struct gsp_view_options *view,
                         struct gsp_out *out, struct gsp_err *err)
{
    (void)profile;
    (void)view;
    (void)out;
    return gsp_err_set(err, GSP_E_USAGE, 0, "a run is a folder: it cannot go to a file or stdout");
}

const struct gsp_format gsp_format_run = {
    .name = "run",
    .extensions = {"/"},
    .summary = "a folder with one Parquet file per table, for SQL",
    .needs_samples = true,
    .write = refuse_stream,
};

bool gsp_run_folder_named(const char *path)
{
    struct stat info;
    const size_t len = strlen(path);
    return (len > 0 && path[len - 1] == '/') || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

static int load_file(const char *path, bool keep_samples, struct gsp_profile **out,
                     struct gsp_err *err)
{
    static const char *const NAMES[] = {GSP_RUN_PROFILE, GSP_RUN_JSON};
    *out = NULL;
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++) {
        char file[GSP_RUN_PATH_MAX];
        int rc = gsp_store_run_path(file, path, NAMES[i], err);
        if (rc < 0)
            return rc;
        if (access(file, F_OK) == 0)
            return gsp_export_format_load(file, NULL, keep_samples, out, err);
    }
    return gsp_err_set(err, GSP_E_NOFILE, 0, "there is no recorded profile in %.180s", path);
}

/* The recorder was killed before it came to write a profile: the tables have its samples. */
static int load_tables(const char *path, bool keep_samples, struct gsp_profile **out,
                       struct gsp_err *err)
{
    const struct gsp_profile_source from = {0};
    struct gsp_profile *profile = NULL;
    struct gsp_store *store = NULL;
    int rc = gsp_store_open(&(struct gsp_store_options){.timeout_ns = -1}, &store, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_run(store, path, err);
    if (rc == GSP_OK)
        rc = gsp_store_lock(store, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_new(keep_samples, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_store_profile_read(store, &from, profile, err);
    if (rc == GSP_OK && gsp_model_profile_sample_count(profile) == 0)
        rc = gsp_err_set(err, GSP_E_NOFILE, 0, "there is no recorded profile in %.180s", path);
    gsp_store_close(store);
    if (rc < 0)
        gsp_model_profile_free(profile);
    else
        *out = profile;
    return rc;
}

int gsp_run_folder_load(const char *path, bool keep_samples, struct gsp_profile **out,
                        struct gsp_err *err)
{
    const int rc = load_file(path, keep_samples, out, err);
    return rc == GSP_E_NOFILE && gsp_store_run_exists(path)
               ? load_tables(path, keep_samples, out, err)
               : rc;
}

static const char *command_of(const struct gsp_profile *profile, struct gsp_buf *text)
{
    const struct gsp_process *process = gsp_model_profile_process_at(profile, 0);
    if (!process)
        return NULL;
    const uint32_t id = process->cmdline != GSP_NONE ? process->cmdline : process->name;
    gsp_buf_putsv(text, gsp_model_profile_string_at(profile, id));
    return gsp_buf_cstr(text);
}

int gsp_run_folder_fill(const char *path, const struct gsp_profile *profile,
                        const struct gsp_view_options *view, bool here, struct gsp_err *err)
{
    char file[GSP_RUN_PATH_MAX];
    char host[256] = "";
    gsp_auto_buf command = {0};
    struct gsp_run_meta about = {.command = command_of(profile, &command)};
    if (here && gethostname(host, sizeof(host) - 1) == 0)
        about.host = host;
    int rc = gsp_store_run_path(file, path, GSP_RUN_JSON, err);
    if (rc == GSP_OK && gsp_model_profile_sample_count(profile) <= GSP_RUN_JSON_SAMPLES_MAX)
        rc = gsp_export_format_save(file, gsp_export_format_find("json"), profile, view, true, err);
    if (rc == GSP_OK)
        rc = gsp_store_run_write(path, profile, &about, err);
    return rc;
}

int gsp_run_folder_save(const char *path, const struct gsp_profile *profile,
                        const struct gsp_view_options *view, bool replace, struct gsp_err *err)
{
    char file[GSP_RUN_PATH_MAX];
    int rc = gsp_store_run_create(path, replace, err);
    if (rc == GSP_OK)
        rc = gsp_store_run_path(file, path, GSP_RUN_PROFILE, err);
    if (rc < 0)
        return rc;
    gsp_store_run_remove_files(path);
    rc = gsp_export_format_save(file, gsp_export_format_find("gsp"), profile, view, true, err);
    return rc == GSP_OK ? gsp_run_folder_fill(path, profile, view, false, err) : rc;
}

static int add_file(struct gsp_store *store, const char *path, struct gsp_err *err)
{
    struct gsp_profile *profile = NULL;
    int rc = gsp_export_format_load(path, NULL, true, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_profile(store, profile, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_run_row(store, path, profile, err);
    gsp_model_profile_free(profile);
    return rc;
}

/* "before/,after.gsp": each by itself, all in the same tables. */
static int add_list(struct gsp_store *store, const char *paths, struct gsp_err *err)
{
    struct gsp_sv rest = gsp_sv_of(paths);
    struct gsp_sv part;
    int rc = GSP_OK;
    while (rc == GSP_OK && gsp_sv_split(&rest, ',', &part)) {
        gsp_auto_buf text = {0};
        gsp_buf_putsv(&text, part);
        const char *path = gsp_buf_cstr(&text);
        if (!path)
            return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
        rc = gsp_run_folder_named(path) ? gsp_run_folder_add(store, path, err)
                                        : add_file(store, path, err);
    }
    return rc;
}

int gsp_run_folder_add(struct gsp_store *store, const char *path, struct gsp_err *err)
{
    if (strchr(path, ',') && access(path, F_OK) != 0)
        return add_list(store, path, err);
    struct gsp_profile *profile = NULL;
    int rc = gsp_store_add_run(store, path, err);
    if (rc < 0 || gsp_store_run_has_table(path, "python", "stack_sample"))
        return rc;
    /* The recorder was killed, or is still at work: its stream has the samples so far. */
    struct gsp_err cause = {0};
    rc = load_file(path, true, &profile, &cause);
    if (rc == GSP_E_NOFILE)
        return GSP_OK; /* nothing but tables was recorded */
    if (rc == GSP_OK)
        rc = gsp_store_add_profile(store, profile, err);
    else if (err)
        *err = cause;
    gsp_model_profile_free(profile);
    return rc;
}

uint64_t gsp_run_folder_bytes(const char *path)
{
    uint64_t bytes = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        struct stat info;
        if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            bytes += (uint64_t)info.st_size;
    }
    closedir(dir);
    return bytes;
}
