/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h -- where the rings of a process are, and which processes have some.
 *
 * <root>/<pid>-<start time>/ holds one file <schema>.<table>.ring for each table, and
 * meta.json.  <root> is $XDG_RUNTIME_DIR/gsprof, else /dev/shm/gsprof-<uid>; where there is little
 * room, /tmp/gsprof-<uid>; mode 0700.
 * The start time tells a process from a later one with the same pid.
 *
 * Used by: writers (make), readers (list, open), cli list --clean.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* What a writer says of its process. */
struct gsp_place_about {
    int32_t pid;
    uint64_t start_time; /* 0: found out from /proc */
    int64_t rank;        /* GSP_NULL_I64 when unknown */
    const char *cmdline; /* one line; NULL: found out from /proc */
};

/* Makes the folder of a process and its meta.json; *folder_fd is the caller's.
 * It being there already is no error: a process may load a second writer, or run another program
 * by exec, whose command line meta.json has from then on.
 * Fails with NOWRITE, PERM (the root is another user's), NOMEM. */
GSP_MUST_CHECK int gsp_place_make(const struct gsp_place_about *about, int *folder_fd,
                                  struct gsp_err *err);

/* Whether files of ours may take so many bytes more of the file system that fd is on.  Shared
 * memory is the program's first: it dies by SIGBUS when there is none left.  So a gigabyte stays
 * free, or three quarters of a small file system (64 MB in many containers). */
#define GSP_PLACE_FREE_BYTES (UINT64_C(1) << 30)
bool gsp_place_has_room(int fd, uint64_t bytes);

/* Bytes of a command line, with its NUL; longer ones are cut. */
#define GSP_CMDLINE_MAX 1020U

struct gsp_place_program {
    char cmdline[GSP_CMDLINE_MAX];
};

/* Writes the process's command line into the folder's meta.json if it is no longer *last, and
 * updates *last.  Returns whether it was another: the process has run exec, or renamed itself. */
bool gsp_place_follow_exec(int folder_fd, pid_t pid, struct gsp_place_program *last);

struct gsp_place {
    int32_t pid;
    uint64_t start_time;
    bool live;             /* a process with this pid and start time runs */
    uint32_t rings;        /* files that are named like rings; 0: only what an agent left */
    uint64_t bytes;        /* that all files of ours take */
    int64_t rank;          /* GSP_NULL_I64 when unknown */
    int64_t last_write_ns; /* CLOCK_REALTIME of the newest row, or of the folder */
    uint32_t uid;          /* whose folder it is */
    char path[256];
    char cmdline[256]; /* as the writer said it: not to be trusted, cut */
};

struct gsp_places {
    struct gsp_place *at;
    size_t count;
};

/* All folders with rings of this user (root: of every user, in the roots of /dev/shm and
 * /run/user), the newest first.  No root at all is an empty list. Fails with PERM (the root exists
 * but is another user's), NOMEM, IO. */
GSP_MUST_CHECK int gsp_places_read(struct gsp_places *out, struct gsp_err *err);
void gsp_places_free(struct gsp_places *places);

/* The folder of a pid: the live process's, else the newest dead one's.
 * Fails with NOFILE (no rings of this pid), PERM. */
GSP_MUST_CHECK int gsp_place_find(pid_t pid, struct gsp_place *out, struct gsp_err *err);

/* Opens the folder for reading, and checks whose it is. */
GSP_MUST_CHECK int gsp_place_open(const struct gsp_place *place, int *folder_fd,
                                  struct gsp_err *err);
/* Whether the process has ended, the folder is this user's own, and nobody has written to it for
 * so long: it may be removed. */
bool gsp_place_is_over(const struct gsp_place *place, int64_t age_ns);
/* Time to live of a dead process's rings: whoever lists them (cli list, the daemon) removes them
 * afterwards. */
#define GSP_PLACE_TTL_NS     (INT64_C(86400) * 1000000000)
/* What ended processes' rings may take together, and at most this part of where they are: jobs
 * with many short-lived workers must not fill the memory. */
#define GSP_PLACE_KEEP_BYTES (UINT64_C(1) << 30)
#define GSP_PLACE_KEEP_PART  4U
/* Whether the folder may go: over for the time to live, or too much beside *kept_bytes, which ended
 * processes that are newer take.  One that stays is added to it; the newest always stays. */
bool gsp_place_is_surplus(const struct gsp_place *place, uint64_t *kept_bytes);
/* Removes all that may go, and folders of ended processes that have no rings; how many.  What
 * cannot be removed stays. */
size_t gsp_places_sweep(void);
/* Removes the folder of a dead process; refuses a live one's with EXISTS. */
GSP_MUST_CHECK int gsp_place_remove(const struct gsp_place *place, struct gsp_err *err);
