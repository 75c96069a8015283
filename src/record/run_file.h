/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_file.h -- the temporary file of a `gsprof run` in which its processes announce themselves.
 *
 * The program knows its path and can put anything in its place, so gsprof reads it only through the
 * descriptor with which it created it. The descriptor holds a lock that the kernel releases if
 * gsprof is killed: the next run then removes the file.
 *
 * Threads: one owner; fd may be read from any thread.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct gsp_run_file {
    char path[PATH_MAX]; /* "": there is no file */
    int fd;              /* -1: there is no file */
};

/* Creates the file in a folder, writable by the program, and removes files of killed runs of the
 * same user there. Returns false with errno; path is "" and fd is -1 then. */
bool gsp_record_run_file_make(struct gsp_run_file *file, const char *folder);
/* Removes and closes the file, if there is one. */
void gsp_record_run_file_remove(struct gsp_run_file *file);
