/* SPDX-License-Identifier: Apache-2.0 */
#include "source/profile_file.h"

#include <string.h>

#include "source/run_folder.h"
#include "store/run_profile.h"

static int refuse_stream(const struct gsp_profile *profile, const struct gsp_view_options *view,
                         struct gsp_out *out, struct gsp_err *err)
{
    (void)profile;
    (void)view;
    (void)out;
    return gsp_err_set(err, GSP_E_USAGE, 0,
                       "a run is a folder: cannot write it to a file or stdout");
}

static const struct gsp_format RUN_FORMAT = {
    .name = GSP_SOURCE_RUN_FORMAT,
    .extensions = {"/"},
    .summary = "a folder with one Parquet file per table, for SQL",
    .needs_samples = true,
    .write = refuse_stream,
};

bool gsp_source_is_run(const struct gsp_format *format)
{
    return format == &RUN_FORMAT;
}

int gsp_source_format_find(const char *name, const char *path, const struct gsp_format **out,
                           struct gsp_err *err)
{
    const bool is_run =
        name ? strcmp(name, GSP_SOURCE_RUN_FORMAT) == 0 : gsp_source__path_is_folder(path);
    *out = is_run ? &RUN_FORMAT
           : name ? gsp_export_format_find(name)
                  : gsp_export_format_of_path(path);
    if (is_run && strcmp(path, "-") == 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "a run is a folder: cannot write it to stdout");
    if (!*out && name)
        return gsp_err_set(err, GSP_E_USAGE, 0, "unknown format '%.40s'", name);
    if (!*out)
        return gsp_err_set(
            err, GSP_E_USAGE, 0,
            "the extension of %.120s is not that of a format: --format=help lists them", path);
    if (!(*out)->write) {
        const char *read_only = (*out)->name;
        *out = NULL;
        return gsp_err_set(err, GSP_E_USAGE, 0, "format %s cannot be written", read_only);
    }
    return GSP_OK;
}

int gsp_source_profile_load(const char *path, const char *from, bool keep_samples,
                            struct gsp_profile **out, struct gsp_err *err)
{
    const char *real = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    if (gsp_source__path_is_folder(path))
        return gsp_source__run_load(path, keep_samples, out, err);
    return gsp_export_format_load(real, from ? gsp_export_format_find(from) : NULL, keep_samples,
                                  out, err);
}

int gsp_source_profile_save(const char *path, const struct gsp_format *format,
                            const struct gsp_profile *profile, const struct gsp_view_options *view,
                            bool force, struct gsp_err *err)
{
    return gsp_source_is_run(format)
               ? gsp_store_run_profile_save(path, profile, view, force, err)
               : gsp_export_format_save(path, format, profile, view, force, err);
}
