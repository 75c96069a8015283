/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_file.h -- the input as the content of every file that gsp_file_read() reads. The target
 * links with --wrap=gsp_file_read (meson.build), so that no file is needed.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"

int __wrap_gsp_file_read(const char *path, size_t max, struct gsp_buf *out, struct gsp_err *err);

static const uint8_t *fuzz_file_bytes;
static size_t fuzz_file_len;

int __wrap_gsp_file_read(const char *path, size_t max, struct gsp_buf *out, struct gsp_err *err)
{
    (void)path;
    if (fuzz_file_len > max)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "too long");
    gsp_buf_put(out, fuzz_file_bytes, fuzz_file_len);
    return out->failed ? gsp_err_nomem(err) : GSP_OK;
}

static inline void fuzz_file_set(const uint8_t *data, size_t size)
{
    fuzz_file_bytes = data;
    fuzz_file_len = size;
}

/* A descriptor of a file with these bytes. */
static inline int fuzz_file_open(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || gsp_fd_write_all(fd, data, size, NULL) != 0 || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    return fd;
}

/* A copy of the input as a string; the caller frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}
