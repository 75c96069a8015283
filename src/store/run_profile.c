/* SPDX-License-Identifier: Apache-2.0 */
#include "store/run_profile.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "export/format.h"
#include "export/gsp_stream.h"
#include "store/run.h"

/* -------------------------------------------------------------------------------------- loading */

static int load_named(const char *folder, const char *name, bool keep_samples,
                      struct gsp_profile **out, struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    *out = NULL;
    const int rc = gsp_store_run_path(path, folder, name, err);
    if (rc < 0)
        return rc;
    if (access(path, F_OK) != 0)
        return gsp_err_set(err, GSP_E_NOFILE, 0, "no recorded profile in %.180s", folder);
    return gsp_export_format_load_member(path, keep_samples, out, err);
}

int gsp_store_run_profile_load_file(const char *folder, struct gsp_profile **out,
                                    struct gsp_err *err)
{
    const int rc = load_named(folder, GSP_RUN_PROFILE, true, out, err);
    return rc == GSP_E_NOFILE ? load_named(folder, GSP_RUN_JSON, true, out, err) : rc;
}

static int read_tables(struct gsp_store *store, bool keep_samples, struct gsp_profile **out,
                       struct gsp_err *err)
{
    static const struct gsp_profile_source ALL = {0};
    int rc = gsp_model_profile_new(keep_samples, out, err);
    if (rc == GSP_OK)
        rc = gsp_store__profile_read(store, &ALL, *out, err);
    if (rc == GSP_OK && gsp_model_profile_sample_count(*out) > 0)
        return GSP_OK;
    gsp_model_profile_free(*out);
    *out = NULL;
    return rc;
}

int gsp_store_run_profile_load_tables(struct gsp_store *store, struct gsp_profile **out,
                                      struct gsp_err *err)
{
    return read_tables(store, true, out, err);
}

static int load_tables(const char *folder, struct gsp_store *store, bool keep_samples,
                       struct gsp_profile **out, struct gsp_err *err)
{
    struct gsp_store *own = NULL;
    *out = NULL;
    if (store)
        return read_tables(store, keep_samples, out, err);
    if (!gsp_store_run_exists(folder))
        return GSP_OK;
    int rc = gsp_store_open(&(struct gsp_store_options){.timeout_ns = -1}, &own, err);
    if (rc == GSP_OK)
        rc = gsp_store_add_run(own, folder, err);
    if (rc == GSP_OK)
        rc = gsp_store_lock(own, err);
    if (rc == GSP_OK)
        rc = read_tables(own, keep_samples, out, err);
    gsp_store_close(own);
    return rc;
}

int gsp_store_run_profile_load(const char *folder, struct gsp_store *store, bool keep_samples,
                               struct gsp_profile **out, struct gsp_err *skipped,
                               struct gsp_err *err)
{
    static const char *const FORMS[] = {GSP_RUN_PROFILE, NULL /* the tables */, GSP_RUN_JSON};
    *out = NULL;
    *skipped = (struct gsp_err){0};
    for (size_t i = 0; i < GSP_COUNT(FORMS); i++) {
        struct gsp_profile *profile = NULL;
        struct gsp_err cause = {0};
        const int rc = FORMS[i] ? load_named(folder, FORMS[i], keep_samples, &profile, &cause)
                                : load_tables(folder, store, keep_samples, &profile, &cause);
        if (rc == GSP_E_NOMEM) {
            gsp_model_profile_free(*out);
            *out = NULL;
            return gsp_err_nomem(err);
        }
        if (rc < 0 && rc != GSP_E_NOFILE && skipped->code == GSP_OK)
            *skipped = cause;
        if (!profile)
            continue;
        gsp_model_profile_free(*out);
        *out = profile;
        if (gsp_model_profile_sample_count(profile) > 0)
            return GSP_OK;
    }
    return GSP_OK;
}

/* ----------------------------------------------------------------- tables -> profile.gsp, .json */

static int stream_sample(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    return gsp_export_stream_add(user, sample, err);
}

static int stream_tables(struct gsp_store *store, int fd, const struct gsp_profile_source *all,
                         struct gsp_err *err)
{
    struct gsp_profile_source from = *all;
    struct gsp_profile *profile = NULL;
    struct gsp_stream *stream = NULL;
    int rc = gsp_model_profile_new(false, &profile, err);
    if (rc == GSP_OK)
        rc = gsp_export_stream_new(fd, profile, &stream, err);
    from.take = stream_sample;
    from.user = stream;
    if (rc == GSP_OK)
        rc = gsp_store__profile_read(store, &from, profile, err);
    if (rc == GSP_OK) {
        rc = gsp_export_stream_finish(stream, err);
        stream = NULL;
    }
    gsp_export_stream_free(stream);
    gsp_model_profile_free(profile);
    return rc;
}

static int write_stream(const char *folder, struct gsp_store *store,
                        const struct gsp_profile_source *from, struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    struct gsp_newfile file = {.fd = -1};
    int rc = gsp_store_run_path(path, folder, GSP_RUN_PROFILE, err);
    if (rc == GSP_OK)
        rc = gsp_newfile_open(&file, path, true, err);
    if (rc < 0)
        return rc;
    rc = stream_tables(store, file.fd, from, err);
    if (rc == GSP_OK)
        return gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}

static int save_as(const char *folder, const char *name, const char *format,
                   const struct gsp_profile *profile, const struct gsp_view_options *view,
                   struct gsp_err *err)
{
    char path[GSP_RUN_PATH_MAX];
    const int rc = gsp_store_run_path(path, folder, name, err);
    return rc < 0 ? rc
                  : gsp_export_format_save(path, gsp_export_format_find(format), profile, view,
                                           true, err);
}

int gsp_store_run_profile_write_files(const char *folder, struct gsp_store *store,
                                      const struct gsp_profile_source *from, uint64_t samples,
                                      struct gsp_profile **out, struct gsp_err *err)
{
    *out = NULL;
    if (samples > GSP_RUN_JSON_SAMPLES_MAX)
        return write_stream(folder, store, from, err);
    int rc = gsp_model_profile_new(true, out, err);
    if (rc == GSP_OK)
        rc = gsp_store__profile_read(store, from, *out, err);
    if (rc == GSP_OK)
        rc = save_as(folder, GSP_RUN_PROFILE, "gsp", *out, NULL, err);
    if (rc == GSP_OK)
        rc = save_as(folder, GSP_RUN_JSON, "json", *out, NULL, err);
    if (rc < 0) {
        gsp_model_profile_free(*out);
        *out = NULL;
    }
    return rc;
}

/* -------------------------------------------------------------------- profile -> tables, .json */

static const char *command_of(const struct gsp_profile *profile, struct gsp_buf *text)
{
    const struct gsp_process *process = gsp_model_profile_process_at(profile, 0);
    if (!process)
        return NULL;
    const uint32_t id = process->cmdline != GSP_NONE ? process->cmdline : process->name;
    gsp_buf_putsv(text, gsp_model_profile_string_at(profile, id));
    return gsp_buf_cstr(text);
}

int gsp_store_run_profile_write_tables(const char *folder, const struct gsp_profile *profile,
                                       const struct gsp_view_options *view, bool is_local,
                                       struct gsp_err *err)
{
    char host[256] = "";
    gsp_auto_buf command = {0};
    struct gsp_run_meta about = {.command = command_of(profile, &command)};
    if (is_local && gethostname(host, sizeof(host) - 1) == 0)
        about.host = host;
    int rc = GSP_OK;
    if (gsp_model_profile_sample_count(profile) <= GSP_RUN_JSON_SAMPLES_MAX)
        rc = save_as(folder, GSP_RUN_JSON, "json", profile, view, err);
    return rc == GSP_OK ? gsp_store__run_write(folder, profile, &about, err) : rc;
}

int gsp_store_run_profile_save(const char *folder, const struct gsp_profile *profile,
                               const struct gsp_view_options *view, bool replace,
                               struct gsp_err *err)
{
    int rc = gsp_store_run_create(folder, replace, err);
    if (rc < 0)
        return rc;
    gsp_store_run_remove_files(folder);
    rc = save_as(folder, GSP_RUN_PROFILE, "gsp", profile, view, err);
    return rc == GSP_OK ? gsp_store_run_profile_write_tables(folder, profile, view, false, err)
                        : rc;
}
