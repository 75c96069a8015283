/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir.h -- ring directories: the folders that hold the rings of a process.
 *
 * <root>/<pid>-<start time>/ holds one file <schema>.<table>.ring for each table, and meta.json.
 * <root> is $XDG_RUNTIME_DIR/gsprof, else /dev/shm/gsprof-<uid>. If space is short there, it is
 * /tmp/gsprof-<uid> or /var/tmp/gsprof-<uid>. Its mode is 0700. If another user has taken such a
 * name, the root is gsprof-<uid>-<random>. Readers find it by its owner, and skip roots that belong
 * to other users.
 * The start time distinguishes a process from a later one with the same pid.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* The process that a writer creates a directory for. */
struct gsp_ring_dir_spec {
    int32_t pid;
    uint64_t start_time; /* 0: read from /proc */
    int64_t rank;        /* GSP_NULL_I64: unknown */
    const uid_t *owner;  /* user who runs the process; NULL: read from /proc */
    const char *cmdline; /* one line; NULL: read from /proc */
};

/* Creates the ring directory of a process and its meta.json. The caller closes *folder_fd.
 * The directory may already exist: a process may load a second writer, or run another program with
 * exec. In that case meta.json gets the new command line.
 * Fails with NOWRITE, PERM (the root belongs to another user), NOPROC or NOMEM. */
GSP_MUST_CHECK int gsp_ring_dir_create(const struct gsp_ring_dir_spec *about, int *folder_fd,
                                       struct gsp_err *err);

/* Returns the bytes that rings may still use on the file system of fd; UINT64_MAX: no limit.
 * The program has priority, because it dies of SIGBUS if shared memory runs out. So a gigabyte
 * stays free, or three quarters of a small file system (64 MB in many containers), and at least
 * half of a file system in memory. */
#define GSP_RING_DIR_FREE_BYTES (UINT64_C(1) << 30)
uint64_t gsp_ring__dir_space(int fd);
bool gsp_ring_dir_has_space(int fd, uint64_t bytes);
/* One ring may use this fraction of it, because more rings follow. */
#define GSP_RING_DIR_RING_PART 16U
/* Bytes of a note, with its NUL. */
#define GSP_RING_DIR_NOTE      160U

/* Bytes of a command line, with its NUL; longer ones are truncated. */
#define GSP_CMDLINE_MAX        1020U

struct gsp_ring_dir_program {
    char cmdline[GSP_CMDLINE_MAX];
};

/* If the command line of the process differs from *last, writes it to meta.json and to *last.
 * Returns whether it differed: the process has called exec or has renamed itself. */
bool gsp_ring_dir_update_cmdline(int folder_fd, pid_t pid, struct gsp_ring_dir_program *last);

/* Finds out where the rings of a new process would be, without creating anything. Returns false if
 * no root is usable. */
struct gsp_ring_dir_choice {
    char root[192];
    uint64_t room;                /* gsp_ring__dir_space() */
    char note[GSP_RING_DIR_NOTE]; /* why it is not the first root; "" if it is */
};
bool gsp_ring_dir_choose(struct gsp_ring_dir_choice *out);

struct gsp_ring_dir {
    int32_t pid;
    uint64_t start_time;
    bool live;             /* a process with this pid and start time runs */
    uint32_t rings;        /* files with the name of a ring; 0: only other files of an agent */
    uint64_t bytes;        /* disk usage of all files of gsprof */
    int64_t rank;          /* GSP_NULL_I64: unknown */
    int64_t last_write_ns; /* CLOCK_REALTIME of the newest row, or of the directory */
    uint32_t uid;          /* owner of the directory */
    uid_t owner;           /* user who runs the process, according to the writer */
    uint64_t dev;          /* file system of the directory */
    char path[256];
    char cmdline[256];            /* written by the target: not trusted, truncated */
    char note[GSP_RING_DIR_NOTE]; /* why it is not in the first root; "" if it is. Not trusted */
    uint32_t small_rings;         /* rings with fewer rows than requested, because space is short */
};

struct gsp_ring_dirs {
    struct gsp_ring_dir *at;
    size_t count;
    size_t capacity;
    size_t left_out;   /* directories beyond the limits */
    char refused[200]; /* why a root was skipped; "": none was */
};

/* Lists the ring directories of this user that have rings, the newest process first; with
 * all_users, root gets those of every user. The list is empty if no root exists. Omits a root or
 * directory that cannot be read or disappears meanwhile. Lists at most 65,536 directories, and
 * 4,096 of one root of another user. Fails with NOMEM. */
GSP_MUST_CHECK int gsp_ring_dirs_read(bool all_users, struct gsp_ring_dirs *out,
                                      struct gsp_err *err);
void gsp_ring_dirs_free(struct gsp_ring_dirs *dirs);

/* Finds the ring directory of a pid: that of the live process, else that of the newest dead one. It
 * belongs to this user; root also finds and prefers that of the user who runs the process, or ran
 * it according to gsprof's own directory of the process. Any user can make a directory for any
 * process, so others are ignored. Fails with NOFILE (no rings for this pid). */
GSP_MUST_CHECK int gsp_ring_dir_find(pid_t pid, struct gsp_ring_dir *out, struct gsp_err *err);

/* The directories of one process. There are two if root profiles the process of another user: the
 * process writes to one, and gsprof to its own. */
struct gsp_ring_dir_pair {
    struct gsp_ring_dir at[2];
    size_t count;
};

/* Finds that of gsp_ring_dir_find(), and the other one of the same process. If the process has
 * ended, directories of the user `owner` are accepted, too. Fails with NOFILE. */
#define GSP_RING_DIR_NO_OWNER  ((uid_t)-1) /* unknown */
#define GSP_RING_DIR_ANY_OWNER ((uid_t)-2) /* root has named the process */
GSP_MUST_CHECK int gsp_ring_dir_find_pair(pid_t pid, uid_t owner, struct gsp_ring_dir_pair *out,
                                          struct gsp_err *err);
/* Returns the user who runs a process, or GSP_RING_DIR_NO_OWNER. */
uid_t gsp_ring_dir_owner(pid_t pid);
bool gsp_ring_dir_is_same_process(const struct gsp_ring_dir *a, const struct gsp_ring_dir *b);

/* Opens the directory for reading and checks its owner. While the descriptor is open, no sweep
 * removes the directory. */
GSP_MUST_CHECK int gsp_ring_dir_open(const struct gsp_ring_dir *dir, int *folder_fd,
                                     struct gsp_err *err);
/* Whether the directory may be removed: the process has ended, the directory belongs to this user,
 * and its last row is at least age_ns old. */
bool gsp_ring_dir_is_expired(const struct gsp_ring_dir *dir, int64_t age_ns);

/* Limits for the rings of ended processes. A process that creates or lists rings removes the rest.
 * Jobs with many short-lived workers must not fill the memory, so the rings of ended processes also
 * use at most 1 / GSP_RING_DIR_KEEP_PART of each file system. */
struct gsp_ring_dir_limits {
    int64_t keep_ns;     /* after the last row */
    uint64_t keep_bytes; /* in total */
};
#define GSP_RING_DIR_KEEP_NS    (INT64_C(86400) * 1000000000)
#define GSP_RING_DIR_KEEP_BYTES (UINT64_C(1) << 30)
#define GSP_RING_DIR_KEEP_PART  4U
/* Rings stay this long after their last row whatever they use: a run may not have read them yet. */
#define GSP_RING_DIR_GRACE_NS   (INT64_C(10) * 1000000000)

struct gsp_ring_dirs_swept {
    size_t count;
    uint64_t bytes;
};

/* Removes ring directories of ended processes that exceed the limits (NULL: the defaults above),
 * the least recently written first, and those without rings. Keeps the newest, and those that
 * another process reads or writes. Ignores errors. */
struct gsp_ring_dirs_swept gsp_ring_dirs_sweep(const struct gsp_ring_dir_limits *limits);
/* Removes the ring directory of a dead process; succeeds if it no longer exists. Fails with EXISTS
 * (the process runs, or another process uses the directory), NOWRITE (sys ENOTEMPTY: the directory
 * contains files that gsprof did not create, which stay), PERM or IO. */
GSP_MUST_CHECK int gsp_ring_dir_remove(const struct gsp_ring_dir *dir, struct gsp_err *err);
/* Removes what commands that were killed have left in the ring directory of a running process: the
 * files of their requests. A file stays if it is younger than age_ns, if its command still runs, or
 * if the process may need it. Ignores errors. */
void gsp_ring_dir_remove_requests(int folder_fd, int64_t age_ns);
