/* SPDX-License-Identifier: Apache-2.0 */
#include "source/run_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "export/format.h"
#include "store/profile_tables.h"
#include "store/run.h"
#include "store/run_profile.h"

bool gsp_source__path_is_folder(const char *path)
{
    struct stat info;
    const size_t len = strlen(path);
    return (len > 0 && path[len - 1] == '/') || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

int gsp_source__run_load(const char *path, bool keep_samples, struct gsp_profile **out,
                         struct gsp_err *err)
{
    struct gsp_err skipped = {0};
    const int rc = gsp_store_run_profile_load(path, NULL, keep_samples, out, &skipped, err);
    if (rc < 0)
        return rc;
    if (!*out && skipped.code < 0)
        return gsp_err_set(err, skipped.code, skipped.sys, "%s", skipped.msg);
    if (!*out)
        return gsp_err_set(err, GSP_E_NOFILE, 0, "no recorded profile in %.180s", path);
    if (skipped.code < 0)
        gsp_log_warn("source", "%s", skipped.msg);
    return GSP_OK;
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

/* paths: "before/,after.gsp". */
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
            return gsp_err_nomem(err);
        rc = gsp_source__path_is_folder(path) ? gsp_source__run_add(store, path, err)
                                              : add_file(store, path, err);
    }
    return rc;
}

int gsp_source__run_add(struct gsp_store *store, const char *path, struct gsp_err *err)
{
    if (strchr(path, ',') && access(path, F_OK) != 0)
        return add_list(store, path, err);
    struct gsp_profile *profile = NULL;
    int rc = gsp_store_add_run(store, path, err);
    if (rc < 0 || gsp_store_run_has_table(path, "python", "stack_sample"))
        return rc;
    /* `gsprof record` was killed or is still running: profile.gsp has the samples so far. */
    struct gsp_err cause = {0};
    rc = gsp_store_run_profile_load_file(path, &profile, &cause);
    if (rc == GSP_E_NOFILE)
        return GSP_OK; /* the run has no stack samples */
    if (rc == GSP_OK)
        rc = gsp_store_add_profile(store, profile, err);
    else if (err)
        *err = cause;
    gsp_model_profile_free(profile);
    return rc;
}

uint64_t gsp_source_run_bytes(const char *path)
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
