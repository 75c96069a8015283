/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h -- descriptors, reading of whole files, and files that appear complete or not at all.
 *
 * Threads: no state.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

void gsp_fd_close(const int *fd); /* closes if >= 0 */
int gsp_fd_release(int *fd);      /* returns the descriptor and sets *fd to -1 */
void gsp_free_ptr(void *pp);      /* frees *(void **)pp */

#define gsp_auto_fd   __attribute__((cleanup(gsp_fd_close))) int
#define gsp_auto_free __attribute__((cleanup(gsp_free_ptr)))

/* Opens a regular file for reading. Follows no link and does not wait for a pipe. Returns a
 * descriptor, or -1 with errno (ELOOP: a link, EINVAL: not a regular file). */
int gsp_file_open_regular(const char *path);

/* Opens a file that the user has named: it may be a link, a pipe or a terminal. Fails with LIMIT if
 * it is a regular file of more than max_bytes, FORMAT (a device, which may have no end), NOFILE,
 * PERM or IO. *out is -1 then. */
GSP_MUST_CHECK int gsp_file_open_named(const char *path, size_t max_bytes, int *out,
                                       struct gsp_err *err);
/* Opens a file of a folder that another user may have made: only a regular file. Fails with LIMIT,
 * FORMAT (a link, a pipe, a device, a folder), NOFILE, PERM or IO. *out is -1 then. */
GSP_MUST_CHECK int gsp_file_open_member(const char *path, size_t max_bytes, int *out,
                                        struct gsp_err *err);
/* Appends the content of a file, also one in /proc, to *out. Fails as gsp_file_open_named() does,
 * and with NOMEM. */
GSP_MUST_CHECK int gsp_file_read(const char *path, size_t max_bytes, struct gsp_buf *out,
                                 struct gsp_err *err);
/* The same for a file of a folder. Fails as gsp_file_open_member() does, and with NOMEM. */
GSP_MUST_CHECK int gsp_file_read_member(const char *path, size_t max_bytes, struct gsp_buf *out,
                                        struct gsp_err *err);
GSP_MUST_CHECK int gsp_fd_read_all(int fd, size_t max_bytes, struct gsp_buf *out,
                                   struct gsp_err *err);
/* Opens a folder again, to list it with its own position. Returns NULL with errno. The caller calls
 * closedir(). */
DIR *gsp_fd_open_dir(int fd);
/* Reads n bytes from an offset, fewer only at the end of the file. Returns the number, or -1 with
 * errno. */
ssize_t gsp_fd_read_at(int fd, void *to, size_t n, uint64_t offset);
/* Writes all n bytes, with as many write() calls as necessary. */
GSP_MUST_CHECK int gsp_fd_write_all(int fd, const void *bytes, size_t n, struct gsp_err *err);
/* Writes text unchanged, or if fd is a terminal as gsp_buf_term_lines() does. */
GSP_MUST_CHECK int gsp_fd_write_text(int fd, struct gsp_sv text, bool colors, struct gsp_err *err);

/* A file being written. It has a temporary name in the same folder until commit renames it. */
struct gsp_newfile {
    int fd;
    bool replace;   /* overwrite an existing file at commit */
    bool lazy;      /* set after open: the caller syncs the content to disk */
    char *path;     /* the final name */
    char *tmp_path; /* the name until commit */
};

/* Fails with EXISTS (unless replace), NOWRITE or NOMEM, before the caller produces any content.
 * If path is "-", writes to a duplicate of stdout. A file of "/proc/self/fd/N/" is replaced even if
 * it is a link or a pipe. */
GSP_MUST_CHECK int gsp_newfile_open(struct gsp_newfile *file, const char *path, bool replace,
                                    struct gsp_err *err);
/* Gives the file its final name and closes the struct. Fails with EXISTS, NOWRITE or IO. */
GSP_MUST_CHECK int gsp_newfile_commit(struct gsp_newfile *file, struct gsp_err *err);
/* Removes the temporary file. Does nothing after commit or on {.fd = -1}. */
void gsp_newfile_abort(struct gsp_newfile *file);

/* A stream of bytes to a descriptor: append to out->buf, and call gsp_out_spill() regularly,
 * between characters. A terminal gets what gsp_buf_term_lines() makes of the bytes. */
struct gsp_out {
    struct gsp_buf buf;
    bool colors;   /* set after init: the writer escapes the names, and sets colours */
    int fd;        /* borrowed */
    int failed;    /* GSP_E_* of the first failure; later spills do nothing */
    int sys;       /* the errno behind it, or 0 */
    uint64_t done; /* bytes written to the descriptor */
};

void gsp_out_init(struct gsp_out *out, int fd);
/* Writes the buffer when it holds more than 64 KB. */
void gsp_out_spill(struct gsp_out *out);
/* Writes the rest and frees the buffer. Returns the first failure of the stream. */
GSP_MUST_CHECK int gsp_out_finish(struct gsp_out *out, struct gsp_err *err);

/* Writes text to a new file; replaces an old one only if `force` is set. NULL or "-" is stdout. A
 * file appears complete or not at all. Fails with EXISTS, NOWRITE, IO, NOMEM. */
GSP_MUST_CHECK int gsp_file_put(const char *path, bool force, const struct gsp_buf *text,
                                struct gsp_err *err);

/* Fails with EXISTS if the path exists and must not be replaced: before work is spent on it. */
GSP_MUST_CHECK int gsp_file_check_new(const char *path, bool force, struct gsp_err *err);
