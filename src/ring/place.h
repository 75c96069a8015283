/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h -- where the rings of a process are, and which processes have some.
 *
 * <root>/<pid>-<start time>/ holds one file <schema>.<table>.ring for each table, and
 * meta.json.  <root> is $XDG_RUNTIME_DIR/gsprof, else /dev/shm/gsprof-<uid>; where there is little
 * room, /tmp/gsprof-<uid> or /var/tmp/gsprof-<uid>; mode 0700.
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

/* What files of ours may take of the file system that fd is on, beside what it holds already.
 * Shared memory is the program's first: it dies by SIGBUS when there is none left.  So a gigabyte
 * stays free, or three quarters of a small file system (64 MB in many containers); of one in memory
 * at least half.  UINT64_MAX: there is no limit. */
#define GSP_PLACE_FREE_BYTES (UINT64_C(1) << 30)
uint64_t gsp_place_room(int fd);
bool gsp_place_has_room(int fd, uint64_t bytes);
/* One ring may have this part of it: the next ones need some too. */
#define GSP_PLACE_RING_PART 16U
/* Bytes of a note, with its NUL. */
#define GSP_PLACE_NOTE      160U

/* Bytes of a command line, with its NUL; longer ones are cut. */
#define GSP_CMDLINE_MAX     1020U

struct gsp_place_program {
    char cmdline[GSP_CMDLINE_MAX];
};

/* Writes the process's command line into the folder's meta.json if it is no longer *last, and
 * updates *last.  Returns whether it was another: the process has run exec, or renamed itself. */
bool gsp_place_follow_exec(int folder_fd, pid_t pid, struct gsp_place_program *last);

/* Where the rings of a process that comes now would be; nothing is made.  False: nowhere. */
struct gsp_place_choice {
    char root[192];
    uint64_t room;             /* gsp_place_room() */
    char note[GSP_PLACE_NOTE]; /* why it is not the first root; "" if it is */
};
bool gsp_place_choose(struct gsp_place_choice *out);

struct gsp_place {
    int32_t pid;
    uint64_t start_time;
    bool live;             /* a process with this pid and start time runs */
    uint32_t rings;        /* files that are named like rings; 0: only what an agent left */
    uint64_t bytes;        /* that all files of ours take */
    int64_t rank;          /* GSP_NULL_I64 when unknown */
    int64_t last_write_ns; /* CLOCK_REALTIME of the newest row, or of the folder */
    uint32_t uid;          /* whose folder it is */
    uint64_t dev;          /* file system that it is on */
    char path[256];
    char cmdline[256];         /* as the writer said it: not to be trusted, cut */
    char note[GSP_PLACE_NOTE]; /* why it is not in the first root; "" if it is.  As above */
    uint32_t small_rings;      /* that have fewer rows than usual, for want of room */
};

struct gsp_places {
    struct gsp_place *at;
    size_t count;
};

/* All folders with rings of this user (root: of every user, in the roots of /dev/shm and
 * /run/user), the newest first.  No root at all is an empty list; a root or a folder that cannot be
 * read, or goes away meanwhile, is left out.  Fails with NOMEM, LIMIT. */
GSP_MUST_CHECK int gsp_places_read(struct gsp_places *out, struct gsp_err *err);
void gsp_places_free(struct gsp_places *places);

/* The folder of a pid: the live process's, else the newest dead one's.
 * Fails with NOFILE (no rings of this pid), PERM (and a root is another user's). */
GSP_MUST_CHECK int gsp_place_find(pid_t pid, struct gsp_place *out, struct gsp_err *err);

/* Opens the folder for reading, and checks whose it is.  While the descriptor is open no cleaner
 * removes the folder. */
GSP_MUST_CHECK int gsp_place_open(const struct gsp_place *place, int *folder_fd,
                                  struct gsp_err *err);
/* Whether the process has ended, the folder is this user's own, and nobody has written to it for
 * so long: it may be removed. */
bool gsp_place_is_over(const struct gsp_place *place, int64_t age_ns);

/* What ended processes may keep: whoever makes rings or lists them removes the rest. */
struct gsp_place_limits {
    int64_t keep_ns;     /* after the last row */
    uint64_t keep_bytes; /* together; and at most GSP_PLACE_KEEP_PART of each file system: jobs with
                          * many short-lived workers must not fill the memory */
};
#define GSP_PLACE_KEEP_NS    (INT64_C(86400) * 1000000000)
#define GSP_PLACE_KEEP_BYTES (UINT64_C(1) << 30)
#define GSP_PLACE_KEEP_PART  4U
/* Rings that were written to so lately stay whatever they take: a run may not have read them. */
#define GSP_PLACE_GRACE_NS   (INT64_C(10) * 1000000000)

struct gsp_places_swept {
    size_t count;
    uint64_t bytes;
};

/* Removes what is over the limits (NULL: the ones above), the longest unwritten first, and folders
 * of ended processes that have no rings.  The newest always stays, and so does what another process
 * reads or writes.  What cannot be removed stays. */
struct gsp_places_swept gsp_places_sweep(const struct gsp_place_limits *limits);
/* Removes the folder of a dead process; one that is gone already is no error.  Fails with EXISTS
 * (the process runs), NOWRITE (sys ENOTEMPTY: there are files that are not ours, or another process
 * puts some there; they and the folder stay), PERM, IO. */
GSP_MUST_CHECK int gsp_place_remove(const struct gsp_place *place, struct gsp_err *err);
