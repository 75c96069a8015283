/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h -- descriptors, whole-file reading, and files that appear complete or not at all.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

void gsp_fd_close(const int *fd); /* closes if >= 0 */
void gsp_free_ptr(void *pp);      /* frees what the pointer behind pp points to */

#define gsp_auto_fd   __attribute__((cleanup(gsp_fd_close))) int
#define gsp_auto_free __attribute__((cleanup(gsp_free_ptr)))

/* Reads a whole file (also of /proc) into *out, at most max_bytes, else LIMIT.
 * Fails with NOFILE, PERM, LIMIT, NOMEM or IO. */
GSP_MUST_CHECK int gsp_file_read(const char *path, size_t max_bytes, struct gsp_buf *out,
                                 struct gsp_err *err);
GSP_MUST_CHECK int gsp_fd_read_all(int fd, size_t max_bytes, struct gsp_buf *out,
                                   struct gsp_err *err);
/* Writes all n bytes, however many write() calls it takes. */
GSP_MUST_CHECK int gsp_fd_write_all(int fd, const void *bytes, size_t n, struct gsp_err *err);

/* A file being made: a temporary name in the same folder, renamed by commit. */
struct gsp_newfile {
    int fd;
    bool replace;   /* overwrite an existing file at commit */
    bool lazy;      /* set after open: the caller sees to it that the content reaches the disk */
    char *path;     /* the final name */
    char *tmp_path; /* what exists until commit */
};

/* Fails with EXISTS (unless replace), NOWRITE or NOMEM: before any work is spent on the content.
 * "-" as path writes to a duplicate of stdout. */
GSP_MUST_CHECK int gsp_newfile_open(struct gsp_newfile *file, const char *path, bool replace,
                                    struct gsp_err *err);
/* The file gets its name; afterwards the struct is closed. */
GSP_MUST_CHECK int gsp_newfile_commit(struct gsp_newfile *file, struct gsp_err *err);
/* Forgets the file and removes the temporary; does nothing after commit or on {.fd = -1}. */
void gsp_newfile_abort(struct gsp_newfile *file);

/* A stream of bytes to a descriptor: write into out->buf, call gsp_out_spill() now and then. */
struct gsp_out {
    struct gsp_buf buf;
    int fd;        /* borrowed */
    int failed;    /* GSP_E_* of the first failure; later spills do nothing */
    int sys;       /* the errno behind it, or 0 */
    uint64_t done; /* bytes handed to the descriptor */
};

void gsp_out_init(struct gsp_out *out, int fd);
/* Writes the buffer when it holds more than 64 KB. */
void gsp_out_spill(struct gsp_out *out);
/* Writes all; returns the first failure of the stream's life. Frees the buffer. */
GSP_MUST_CHECK int gsp_out_finish(struct gsp_out *out, struct gsp_err *err);

/* Writes text to a new file; replaces an old one only if `force` is set. NULL or "-" is stdout.
 * A file appears complete or not at all. Fails with EXISTS, NOWRITE, IO, NOMEM. */
GSP_MUST_CHECK int gsp_file_put(const char *path, bool force, const struct gsp_buf *text,
                                struct gsp_err *err);

/* Fails with EXISTS if the path exists and must not be replaced: before work is spent on it. */
GSP_MUST_CHECK int gsp_file_check_new(const char *path, bool force, struct gsp_err *err);
