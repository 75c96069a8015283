/* SPDX-License-Identifier: Apache-2.0 */
#include "source/profile_file.h"

#include <string.h>

#include "source/run_folder.h"

int gsp_source_output_format(const char *name, const char *path, const struct gsp_format **out,
                             struct gsp_err *err)
{
    const bool is_run = name ? strcmp(name, gsp_format_run.name) == 0 : gsp_run_folder_named(path);
    *out = is_run ? &gsp_format_run
           : name ? gsp_export_format_find(name)
                  : gsp_export_format_of_path(path);
    if (is_run && strcmp(path, "-") == 0)
        return gsp_err_set(err, GSP_E_USAGE, 0, "a run is a folder: it cannot go to stdout");
    if (!*out && name)
        return gsp_err_set(err, GSP_E_USAGE, 0, "there is no format '%.40s'", name);
    if (!*out)
        return gsp_err_set(err, GSP_E_USAGE, 0, "the name %.120s does not tell a format", path);
    if (!(*out)->write) {
        const char *read_only = (*out)->name;
        *out = NULL;
        return gsp_err_set(err, GSP_E_USAGE, 0, "format %s cannot be written", read_only);
    }
    return GSP_OK;
}

int gsp_source_load_profile(const char *path, const char *from, bool keep_samples,
                            struct gsp_profile **out, struct gsp_err *err)
{
    const char *real = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    if (gsp_run_folder_named(path))
        return gsp_run_folder_load(path, keep_samples, out, err);
    return gsp_export_format_load(real, from ? gsp_export_format_find(from) : NULL, keep_samples,
                                  out, err);
}

int gsp_source_save_profile(const char *path, const struct gsp_format *format,
                            const struct gsp_profile *profile, const struct gsp_view_options *view,
                            bool force, struct gsp_err *err)
{
    return format == &gsp_format_run
               ? gsp_run_folder_save(path, profile, view, force, err)
               : gsp_export_format_save(path, format, profile, view, force, err);
}
