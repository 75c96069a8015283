/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_CHUNK   16384
#define SPILL_BYTES  65536
#define TMP_TRIES    100
#define FD_FOLDER    "/proc/self/fd/"
/* Device numbers of Linux. */
#define MEMORY_MAJOR 1
#define NULL_DEVICE  0x103

void gsp_fd_close(const int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    close(*fd);
    errno = saved;
}

int gsp_fd_release(int *fd)
{
    const int released = *fd;
    *fd = -1;
    return released;
}

void gsp_free_ptr(void *pp)
{
    void *p;
    memcpy(&p, pp, sizeof(p));
    free(p);
}

static int read_failed(int sys, const char *path, struct gsp_err *err)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR:
        return gsp_err_set(err, GSP_E_NOFILE, sys, "%s: %s", path, strerror(sys));
    case EACCES:
    case EPERM:
        return gsp_err_set(err, GSP_E_PERM, sys, "%s: %s", path, strerror(sys));
    default:
        return gsp_err_set(err, GSP_E_IO, sys, "%s: %s", path, strerror(sys));
    }
}

static int read_all(int fd, const char *name, size_t max_bytes, struct gsp_buf *out,
                    struct gsp_err *err)
{
    /* Files in /proc report a size of 0, so read until the end. */
    for (;;) {
        char *p = gsp_buf_reserve(out, READ_CHUNK);
        if (!p)
            return gsp_err_nomem(err);
        ssize_t n = read(fd, p, READ_CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return read_failed(errno, name, err);
        if (n == 0)
            return 0;
        out->len += (size_t)n;
        if (out->len > max_bytes)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "%s has more than %zu bytes", name, max_bytes);
    }
}

int gsp_file_open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    struct stat facts;
    if (fd < 0 || (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

/* Whether a file is not a disk and not one of the memory devices, which have no end (/dev/zero),
 * but may be /dev/null. Without isatty() and major(): the agent must not import them. */
static bool has_end(const struct stat *facts)
{
    const bool is_memory = S_ISCHR(facts->st_mode) && facts->st_rdev >> 8 == MEMORY_MAJOR;
    return !S_ISBLK(facts->st_mode) && (!is_memory || facts->st_rdev == NULL_DEVICE);
}

static int check_opened(int fd, const char *path, size_t max_bytes, struct gsp_err *err)
{
    struct stat facts;
    if (fstat(fd, &facts) < 0)
        return read_failed(errno, path, err);
    if (S_ISREG(facts.st_mode) && (uint64_t)facts.st_size > max_bytes)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "%s has more than %zu bytes", path, max_bytes);
    if (!has_end(&facts))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s is a device", path);
    return GSP_OK;
}

static int open_checked(int fd, const char *path, size_t max_bytes, int *out, struct gsp_err *err)
{
    const int rc = check_opened(fd, path, max_bytes, err);
    if (rc < 0)
        close(fd);
    else
        *out = fd;
    return rc;
}

int gsp_file_open_named(const char *path, size_t max_bytes, int *out, struct gsp_err *err)
{
    *out = -1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? read_failed(errno, path, err) : open_checked(fd, path, max_bytes, out, err);
}

int gsp_file_open_member(const char *path, size_t max_bytes, int *out, struct gsp_err *err)
{
    *out = -1;
    const int fd = gsp_file_open_regular(path);
    if (fd < 0 && (errno == ELOOP || errno == EINVAL || errno == ENXIO))
        return gsp_err_set(err, GSP_E_FORMAT, errno, "%s is not a regular file", path);
    return fd < 0 ? read_failed(errno, path, err) : open_checked(fd, path, max_bytes, out, err);
}

int gsp_file_read(const char *path, size_t max_bytes, struct gsp_buf *out, struct gsp_err *err)
{
    int opened = -1;
    const int rc = gsp_file_open_named(path, max_bytes, &opened, err);
    gsp_auto_fd fd = opened;
    return rc < 0 ? rc : read_all(fd, path, max_bytes, out, err);
}

int gsp_file_read_member(const char *path, size_t max_bytes, struct gsp_buf *out,
                         struct gsp_err *err)
{
    int opened = -1;
    const int rc = gsp_file_open_member(path, max_bytes, &opened, err);
    gsp_auto_fd fd = opened;
    return rc < 0 ? rc : read_all(fd, path, max_bytes, out, err);
}

int gsp_fd_read_all(int fd, size_t max_bytes, struct gsp_buf *out, struct gsp_err *err)
{
    return read_all(fd, "input", max_bytes, out, err);
}

DIR *gsp_fd_open_dir(int fd)
{
    const int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    if (!dir)
        gsp_fd_close(&again);
    return dir;
}

ssize_t gsp_fd_read_at(int fd, void *to, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)done;
}

int gsp_fd_write_all(int fd, const void *bytes, size_t n, struct gsp_err *err)
{
    const char *p = bytes;
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done >= 0) {
            p += done;
            n -= (size_t)done;
        } else if (errno == EAGAIN) {
            /* Another process that shares stdout may have made it non-blocking. */
            struct pollfd pfd = {.fd = fd, .events = POLLOUT};
            poll(&pfd, 1, -1);
        } else if (errno != EINTR) {
            return gsp_err_set(err, GSP_E_IO, errno, "cannot write: %s", strerror(errno));
        }
    }
    return 0;
}

int gsp_fd_write_text(int fd, struct gsp_sv text, bool colors, struct gsp_err *err)
{
    if (isatty(fd) != 1)
        return gsp_fd_write_all(fd, text.p, text.len, err);
    gsp_auto_buf safe = {0};
    gsp_buf_term_lines(&safe, text, colors);
    return safe.failed ? gsp_err_nomem(err) : gsp_fd_write_all(fd, safe.p, safe.len, err);
}

static int write_refused(const char *path, int sys, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_NOWRITE, sys, "cannot write %s: %s", path, strerror(sys));
}

static int open_stdout(struct gsp_newfile *file, struct gsp_err *err)
{
    file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return file->fd < 0 ? write_refused("standard output", errno, err) : 0;
}

/* Opens a device or a pipe, which a rename must not replace. */
static int open_special(struct gsp_newfile *file, struct gsp_err *err)
{
    file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return file->fd < 0 ? write_refused(file->path, errno, err) : 0;
}

/* Opens a temporary file beside the final one. Its name is visible, so that a user can find what a
 * killed process leaves behind. */
static int open_tmp(struct gsp_newfile *file, mode_t mode, struct gsp_err *err)
{
    for (unsigned i = 0; i < TMP_TRIES; i++) {
        gsp_auto_free char *tmp = NULL;
        if (asprintf(&tmp, "%s.%ld-%u.part", file->path, (long)getpid(), i) < 0) {
            tmp = NULL;
            return gsp_err_nomem(err);
        }
        file->fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->fd >= 0) {
            file->tmp_path = tmp;
            tmp = NULL;
            return 0;
        }
        if (errno != EEXIST)
            return write_refused(file->path, errno, err);
    }
    return write_refused(file->path, EEXIST, err);
}

/* Whether a file is named by its folder's descriptor and its name. The caller holds on to that
 * folder, so that neither a link nor a pipe in it may take the content elsewhere. */
static bool is_of_held_folder(const char *path)
{
    const size_t len = strlen(FD_FOLDER);
    return strncmp(path, FD_FOLDER, len) == 0 && strchr(path + len, '/') != NULL;
}

static int fill_newfile(struct gsp_newfile *file, const char *path, struct gsp_err *err)
{
    const bool is_held = is_of_held_folder(path);
    /* A symbolic link stands for its target. */
    file->path = is_held ? NULL : realpath(path, NULL);
    if (!file->path)
        file->path = strdup(path);
    if (!file->path)
        return gsp_err_nomem(err);
    if (strcmp(path, "-") == 0)
        return open_stdout(file, err);
    if (path[0] == '\0')
        return write_refused("''", ENOENT, err);

    /* lstat, because a dangling link also counts as an existing file. */
    struct stat st;
    if (lstat(file->path, &st) != 0)
        return open_tmp(file, 0666, err);
    if (S_ISDIR(st.st_mode))
        return write_refused(path, EISDIR, err);
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !is_held)
        return open_special(file, err);
    if (!file->replace)
        return gsp_err_set(err, GSP_E_EXISTS, EEXIST, "%s already exists", path);
    return open_tmp(file, S_ISREG(st.st_mode) ? st.st_mode & 0777 : 0666, err);
}

int gsp_newfile_open(struct gsp_newfile *file, const char *path, bool replace, struct gsp_err *err)
{
    *file = (struct gsp_newfile){.fd = -1, .replace = replace};
    int rc = fill_newfile(file, path, err);
    if (rc)
        gsp_newfile_abort(file);
    return rc;
}

/* Gives the temporary its final name; without replace, only if that name is still free. */
static int publish(const struct gsp_newfile *file, struct gsp_err *err)
{
    if (!file->replace) {
        if (renameat2(AT_FDCWD, file->tmp_path, AT_FDCWD, file->path, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno == EEXIST)
            return gsp_err_set(err, GSP_E_EXISTS, EEXIST, "%s already exists", file->path);
        /* Some file systems do not support the flag. */
        if (errno != EINVAL && errno != ENOSYS)
            return write_refused(file->path, errno, err);
        if (access(file->path, F_OK) == 0)
            return gsp_err_set(err, GSP_E_EXISTS, EEXIST, "%s already exists", file->path);
    }
    if (rename(file->tmp_path, file->path) != 0)
        return write_refused(file->path, errno, err);
    return 0;
}

int gsp_newfile_commit(struct gsp_newfile *file, struct gsp_err *err)
{
    int rc = 0;
    /* Sync the data before the rename, or a power failure could leave an empty file. */
    if (file->tmp_path && !file->lazy && fdatasync(file->fd) != 0 && errno != EINVAL &&
        errno != EROFS)
        rc = gsp_err_set(err, GSP_E_IO, errno, "cannot write %s: %s", file->path, strerror(errno));
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0 && rc == 0 && errno != EINTR)
        rc = gsp_err_set(err, GSP_E_IO, errno, "cannot write %s: %s", file->path, strerror(errno));
    if (rc == 0 && file->tmp_path)
        rc = publish(file, err);
    if (rc == 0) {
        free(file->tmp_path);
        file->tmp_path = NULL;
    }
    gsp_newfile_abort(file);
    return rc;
}

void gsp_newfile_abort(struct gsp_newfile *file)
{
    gsp_fd_close(&file->fd);
    if (file->tmp_path)
        unlink(file->tmp_path);
    free(file->tmp_path);
    free(file->path);
    *file = (struct gsp_newfile){.fd = -1};
}

void gsp_out_init(struct gsp_out *out, int fd)
{
    *out = (struct gsp_out){.fd = fd};
}

static void flush(struct gsp_out *out)
{
    if (!out->failed && out->buf.failed)
        out->failed = GSP_E_NOMEM;
    if (!out->failed && out->buf.len) {
        struct gsp_err err = {0};
        out->failed = gsp_fd_write_text(out->fd, gsp_buf_sv(&out->buf), out->colors, &err);
        out->sys = err.sys;
        out->done += out->failed ? 0 : out->buf.len;
    }
    gsp_buf_clear(&out->buf);
}

void gsp_out_spill(struct gsp_out *out)
{
    if (out->buf.len > SPILL_BYTES || out->buf.failed)
        flush(out);
}

int gsp_out_finish(struct gsp_out *out, struct gsp_err *err)
{
    flush(out);
    gsp_buf_free(&out->buf);
    if (out->failed == GSP_E_NOMEM)
        return gsp_err_nomem(err);
    if (out->failed)
        return gsp_err_set(err, GSP_E_IO, out->sys, "cannot write: %s", strerror(out->sys));
    return 0;
}

int gsp_file_put(const char *path, bool force, const struct gsp_buf *text, struct gsp_err *err)
{
    if (text->failed)
        return gsp_err_nomem(err);
    if (!path || strcmp(path, "-") == 0)
        return gsp_fd_write_text(STDOUT_FILENO, gsp_buf_sv(text), false, err);
    struct gsp_newfile file = {.fd = -1};
    int rc = gsp_newfile_open(&file, path, force, err);
    if (rc < 0)
        return rc;
    rc = gsp_fd_write_all(file.fd, text->p, text->len, err);
    if (rc == GSP_OK)
        return gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}

int gsp_file_check_new(const char *path, bool force, struct gsp_err *err)
{
    if (!force && strcmp(path, "-") != 0 && access(path, F_OK) == 0)
        return gsp_err_set(err, GSP_E_EXISTS, 0, "%.200s already exists", path);
    return GSP_OK;
}
