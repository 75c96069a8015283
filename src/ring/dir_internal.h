/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir_internal.h -- functions that dir.c, roots.c and sweep.c share.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "ring/dir.h"

/* Opens a folder of this user; root may read the folders of all users. Does not follow links.
 * Returns a descriptor, or fails with NOFILE, PERM, IO or NOWRITE. */
GSP_MUST_CHECK int gsp_ring__dir_open_own(int at_fd, const char *path, bool for_writing,
                                          struct gsp_err *err);
/* Returns the pid namespace in meta.json; 0: unknown. */
uint64_t gsp_ring__dir_pid_ns(int folder_fd);
/* Whether gsprof creates files with this name in ring directories. */
bool gsp_ring__dir_owns_file(const char *name);
/* Whether it is a file of a request of inject, eval or mem record, such as script-12-3f.py, or its
 * claim, which is a folder. A killed command leaves them behind. */
#define GSP_RING__REQUEST "script-"
bool gsp_ring__dir_owns_request(const char *name);
/* Like gsp_ring_dirs_read(), but includes directories without rings. */
GSP_MUST_CHECK int gsp_ring__dirs_read_all(struct gsp_ring_dirs *out, struct gsp_err *err);

/* A folder that holds ring directories. */
#define GSP_RING__ROOT_CHARS 192U
/* $XDG_RUNTIME_DIR, /dev/shm, /tmp, /var/tmp. */
#define GSP_RING__OWN_ROOTS  4U

struct gsp_ring__root {
    char path[GSP_RING__ROOT_CHARS];
};

/* Lists the roots of this user in order of preference, and returns their number. The ones on disk
 * are for containers with little shared memory. Where another user has taken the name of a root,
 * one with a random name is used, and made if will_make. */
size_t gsp_ring__roots_own(struct gsp_ring__root out[GSP_RING__OWN_ROOTS], bool will_make);

struct gsp_ring__listed_root {
    char path[GSP_RING__ROOT_CHARS];
    uint64_t dev;
    uint64_t ino;
    uint32_t uid; /* owner */
};

struct gsp_ring__roots {
    struct gsp_ring__listed_root *at; /* the caller frees it */
    size_t count;
};

/* Lists the existing roots where rings of this user may be, each once, or those of all users if
 * all_users and this is root. A root may belong to another user. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_ring__roots_list(struct gsp_ring__roots *list, bool all_users,
                                        struct gsp_err *err);
