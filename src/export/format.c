/* SPDX-License-Identifier: Apache-2.0 */
#include "export/format.h"

#include "export/formats.h"

/* In the order in which help shows them. */
static const struct gsp_format *const formats[] = {
    &gsp_format_gsp,    &gsp_format_json, &gsp_format_speedscope, &gsp_format_folded,
    &gsp_format_chrome, &gsp_format_svg,  &gsp_format_pstats,     &gsp_format_pprof,
};

size_t gsp_export_format_count(void)
{
    return GSP_COUNT(formats);
}

const struct gsp_format *gsp_export_format_at(size_t i)
{
    return i < GSP_COUNT(formats) ? formats[i] : NULL;
}

static bool has_name(const struct gsp_format *format, const char *name)
{
    if (strcmp(format->name, name) == 0)
        return true;
    for (size_t i = 0; i < GSP_COUNT(format->aliases); i++)
        if (format->aliases[i] && strcmp(format->aliases[i], name) == 0)
            return true;
    return false;
}

const struct gsp_format *gsp_export_format_find(const char *name)
{
    for (size_t i = 0; i < GSP_COUNT(formats); i++)
        if (has_name(formats[i], name))
            return formats[i];
    return NULL;
}

const struct gsp_format *gsp_export_format_of_path(const char *path)
{
    const struct gsp_format *best = NULL;
    size_t best_len = 0;
    struct gsp_sv name = gsp_sv_basename(gsp_sv_of(path));
    for (size_t i = 0; i < GSP_COUNT(formats); i++) {
        for (size_t k = 0; k < GSP_COUNT(formats[i]->extensions); k++) {
            const char *extension = formats[i]->extensions[k];
            size_t len = extension ? strlen(extension) : 0;
            if (len > best_len && gsp_sv_ends(name, extension)) {
                best = formats[i];
                best_len = len;
            }
        }
    }
    return best;
}

/* The content overrules the extension, because several formats share ".json". */
static const struct gsp_format *detect(const char *path, struct gsp_sv bytes)
{
    const struct gsp_format *named = gsp_export_format_of_path(path);
    if (named && (!named->sniff || named->sniff(bytes)))
        return named;
    for (size_t i = 0; i < GSP_COUNT(formats); i++)
        if (formats[i]->sniff && formats[i]->sniff(bytes))
            return formats[i];
    return named;
}

/* Reads the bytes of a file. Of a file that cannot be a profile, only the head: it may be long. */
static int read_bytes(int fd, const char *path, const struct gsp_format *format,
                      struct gsp_buf *out, struct gsp_err *err)
{
    char head[GSP_SNIFF_BYTES];
    const ssize_t n = gsp_fd_read_at(fd, head, sizeof(head), 0); /* -1: a pipe */
    const struct gsp_sv bytes = {head, n > 0 ? (size_t)n : 0};
    if (!format && bytes.len)
        format = detect(path, bytes);
    const bool is_other =
        bytes.len && (!format || (format == &gsp_format_gsp && !format->sniff(bytes)));
    if (is_other)
        gsp_buf_putsv(out, bytes);
    return is_other ? GSP_OK : gsp_fd_read_all(fd, (size_t)GSP_INPUT_BYTES_MAX, out, err);
}

static int load(int fd, const char *path, const struct gsp_format *format, bool keep_samples,
                struct gsp_profile **out, struct gsp_err *err)
{
    gsp_auto_buf bytes = {0};
    int rc = read_bytes(fd, path, format, &bytes, err);
    if (rc)
        return rc;
    if (!format)
        format = detect(path, gsp_buf_sv(&bytes));
    if (!format)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s: unknown profile format", path);
    if (!format->read)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s: the %s format can be written but not read",
                           path, format->name);
    struct gsp_profile *profile = NULL;
    rc = gsp_model_profile_new(keep_samples, &profile, err);
    if (rc)
        return rc;
    struct gsp_err cause = {0};
    rc = format->read(gsp_buf_sv(&bytes), profile, &cause);
    if (rc) {
        gsp_model_profile_free(profile);
        gsp_err_fill(err, rc, cause.sys, "%s (read as %s): %s", path, format->name, cause.msg);
        return rc;
    }
    *out = profile;
    return GSP_OK;
}

int gsp_export_format_load(const char *path, const struct gsp_format *format, bool keep_samples,
                           struct gsp_profile **out, struct gsp_err *err)
{
    int opened = -1;
    *out = NULL;
    const int rc = gsp_file_open_named(path, (size_t)GSP_INPUT_BYTES_MAX, &opened, err);
    gsp_auto_fd fd = opened;
    return rc < 0 ? rc : load(fd, path, format, keep_samples, out, err);
}

int gsp_export_format_load_member(const char *path, bool keep_samples, struct gsp_profile **out,
                                  struct gsp_err *err)
{
    int opened = -1;
    *out = NULL;
    const int rc = gsp_file_open_member(path, (size_t)GSP_INPUT_BYTES_MAX, &opened, err);
    gsp_auto_fd fd = opened;
    return rc < 0 ? rc : load(fd, path, NULL, keep_samples, out, err);
}

int gsp_export_format_save(const char *path, const struct gsp_format *format,
                           const struct gsp_profile *profile, const struct gsp_view_options *view,
                           bool replace, struct gsp_err *err)
{
    if (!format->write)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the %s format can be read but not written",
                           format->name);
    struct gsp_newfile file = {.fd = -1};
    int rc = gsp_newfile_open(&file, path, replace, err);
    if (rc)
        return rc;
    struct gsp_out out;
    gsp_out_init(&out, file.fd);
    rc = format->write(profile, view, &out, err);
    /* Always finish, to free the buffer. The first failure is the one to report. */
    int finish_rc = gsp_out_finish(&out, rc ? NULL : err);
    if (rc == GSP_OK)
        rc = finish_rc;
    if (rc == GSP_OK)
        rc = gsp_newfile_commit(&file, err);
    else
        gsp_newfile_abort(&file);
    return rc;
}
