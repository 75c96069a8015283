/* SPDX-License-Identifier: Apache-2.0 */
#include "record/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "source/profile_file.h"
#include "store/run.h"
#include "store/run_profile.h"

/* Maximum number of hidden files left by killed recorders. */
#define NAMES_MAX 100

static bool is_gsp(const struct gsp_output_file *file)
{
    return strcmp(file->format->name, "gsp") == 0;
}

static bool is_run(const struct gsp_output_file *file)
{
    return gsp_source_is_run(file->format);
}

/* Returns "DIR/profile.gsp". */
static char *run_stream_name(const char *folder)
{
    struct gsp_buf name = {0};
    const size_t len = strlen(folder);
    gsp_buf_printf(&name, "%s%s%s", folder, len > 0 && folder[len - 1] == '/' ? "" : "/",
                   GSP_RUN_PROFILE);
    return gsp_buf_take(&name);
}

static int check_kind(const char *path, bool force, struct gsp_err *err)
{
    int rc = gsp_file_check_new(path, force, err);
    struct stat info;
    /* rename() replaces the output: it would destroy a device. */
    if (rc == GSP_OK && stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        rc = gsp_err_set(err, GSP_E_NOWRITE, 0, "cannot write %.180s: not a regular file", path);
    return rc;
}

static int no_write(const char *path, struct gsp_err *err)
{
    return gsp_err_set(err, errno == EEXIST ? GSP_E_EXISTS : GSP_E_NOWRITE, errno,
                       "cannot write %.160s: %s", path, strerror(errno));
}

static int open_direct(struct gsp_output_file *file, struct gsp_err *err)
{
    file->is_direct = true;
    file->stream_path = strdup(file->output);
    if (!file->stream_path)
        return gsp_err_nomem(err);
    file->fd =
        open(file->output, O_WRONLY | O_CREAT | O_CLOEXEC | (file->force ? O_TRUNC : O_EXCL), 0666);
    return file->fd < 0 ? no_write(file->output, err) : GSP_OK;
}

/* Returns "dir/.NAME.gsp" or "dir/.NAME.NUMBER.gsp". */
static char *hidden_name(const char *output, int number)
{
    struct gsp_buf name = {0};
    struct gsp_sv base = gsp_sv_basename(gsp_sv_of(output));
    gsp_buf_put(&name, output, strlen(output) - base.len);
    gsp_buf_putc(&name, '.');
    gsp_buf_putsv(&name, base);
    if (number)
        gsp_buf_printf(&name, ".%d", number);
    gsp_buf_puts(&name, ".gsp");
    return gsp_buf_take(&name);
}

static int open_hidden(struct gsp_output_file *file, const char *beside, struct gsp_err *err)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        free(file->stream_path);
        file->stream_path = hidden_name(beside, i);
        if (!file->stream_path)
            return gsp_err_nomem(err);
        file->fd =
            open(file->stream_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (file->fd >= 0)
            return GSP_OK;
        if (errno != EEXIST)
            return no_write(file->output, err);
    }
    return no_write(file->stream_path, err);
}

static int open_run(struct gsp_output_file *file, struct gsp_err *err)
{
    file->made_folder = access(file->output, F_OK) != 0;
    int rc = gsp_store_run_create(file->output, file->force, err);
    if (rc < 0)
        return rc;
    gsp_auto_free char *stream = run_stream_name(file->output);
    if (!stream)
        return gsp_err_nomem(err);
    if (file->force)
        return open_hidden(file, stream, err);
    file->stream_path = stream;
    stream = NULL;
    file->fd = open(file->stream_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return file->fd < 0 ? no_write(file->stream_path, err) : GSP_OK;
}

static int open_stream(struct gsp_output_file *file, struct gsp_err *err)
{
    if (is_run(file))
        return open_run(file, err);
    if (strcmp(file->output, "-") != 0) {
        int rc = check_kind(file->output, file->force, err);
        if (rc < 0)
            return rc;
        /* With force the old file stays until the target is attached. */
        return is_gsp(file) && !file->force ? open_direct(file, err)
                                            : open_hidden(file, file->output, err);
    }
    const char *folder = getenv("TMPDIR");
    char beside[512];
    snprintf(beside, sizeof(beside), "%s/gsprof-%d", folder && folder[0] ? folder : "/tmp",
             (int)getpid());
    return open_hidden(file, beside, err);
}

int gsp_record_output_file_open(struct gsp_output_file *file, const char *output,
                                const struct gsp_format *format, bool force, struct gsp_err *err)
{
    *file = (struct gsp_output_file){.fd = -1, .force = force, .format = format};
    file->output = strdup(output);
    int rc = file->output ? open_stream(file, err) : gsp_err_nomem(err);
    if (rc < 0)
        gsp_record_output_file_free(file);
    return rc;
}

static int replace_run(struct gsp_output_file *file, struct gsp_err *err)
{
    gsp_auto_free char *name = run_stream_name(file->output);
    if (!name)
        return gsp_err_nomem(err);
    if (strcmp(name, file->stream_path) == 0)
        return GSP_OK;
    gsp_store_run_remove_files(file->output);
    if (rename(file->stream_path, name) < 0)
        return no_write(name, err);
    free(file->stream_path);
    file->stream_path = name;
    name = NULL;
    return GSP_OK;
}

int gsp_record_output_file_replace_old(struct gsp_output_file *file, struct gsp_err *err)
{
    if (is_run(file))
        return replace_run(file, err);
    if (file->is_direct || !is_gsp(file) || strcmp(file->output, "-") == 0)
        return GSP_OK;
    char *name = strdup(file->output);
    if (!name)
        return gsp_err_nomem(err);
    if (rename(file->stream_path, file->output) < 0) {
        free(name);
        return no_write(file->output, err);
    }
    free(file->stream_path);
    file->stream_path = name;
    file->is_direct = true;
    return GSP_OK;
}

static int copy_to_stdout(const char *path, struct gsp_err *err)
{
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read %.180s: %s", path, strerror(errno));
    char block[65536];
    for (;;) {
        ssize_t n = read(fd, block, sizeof(block));
        if (n == 0)
            return GSP_OK;
        if (n < 0)
            return gsp_err_set(err, GSP_E_IO, errno, "cannot read %.180s: %s", path,
                               strerror(errno));
        int rc = gsp_fd_write_text(STDOUT_FILENO, (struct gsp_sv){block, (size_t)n}, false, err);
        if (rc < 0)
            return rc;
    }
}

int gsp_record_output_file_finish(struct gsp_output_file *file, const struct gsp_view_options *view,
                                  struct gsp_err *err)
{
    gsp_fd_close(&file->fd);
    file->fd = -1;
    if (file->is_direct)
        return GSP_OK;
    int rc = GSP_OK;
    if (is_gsp(file)) {
        rc = copy_to_stdout(file->stream_path, err);
    } else {
        struct gsp_profile *profile = NULL;
        rc = gsp_export_format_load(file->stream_path, gsp_export_format_find("gsp"),
                                    file->format->needs_samples, &profile, err);
        if (rc == GSP_OK && (view->by_function || view->no_lines))
            gsp_model_profile_merge_lines(profile, view->by_function);
        if (rc == GSP_OK)
            rc = is_run(file)
                     ? gsp_store_run_profile_write_tables(file->output, profile, view, true, err)
                     : gsp_export_format_save(file->output, file->format, profile, view,
                                              file->force, err);
        gsp_model_profile_free(profile);
    }
    if (rc == GSP_OK && !is_run(file))
        unlink(file->stream_path);
    return rc;
}

void gsp_record_output_file_discard(struct gsp_output_file *file)
{
    if (file->stream_path && file->fd >= 0)
        unlink(file->stream_path);
    if (file->made_folder)
        rmdir(file->output); /* fails if it has other files */
    gsp_record_output_file_free(file);
}

void gsp_record_output_file_free(struct gsp_output_file *file)
{
    gsp_fd_close(&file->fd);
    file->fd = -1;
    free(file->output);
    free(file->stream_path);
    file->output = NULL;
    file->stream_path = NULL;
}
