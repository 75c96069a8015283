/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c -- removes the ring directories of ended processes, and what killed commands leave in
 * those of running ones.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"
#include "ring/dir_internal.h"
#include "ring/process.h"

/* A younger directory without rings may belong to a process that is starting. */
#define BARE_NS   (10 * GSP_NS_PER_S)
/* File systems that are counted separately. */
#define ROOTS_MAX 8U

/* Removes a file, or the claim of a request, which is an empty folder. Returns an errno. */
static int remove_name(int folder_fd, const char *name)
{
    if (unlinkat(folder_fd, name, 0) == 0)
        return 0;
    if (errno == EISDIR && gsp_ring__dir_owns_request(name))
        return unlinkat(folder_fd, name, AT_REMOVEDIR) == 0 ? 0 : errno;
    return errno;
}

static int remove_files(int folder_fd, const char *path, struct gsp_err *err)
{
    DIR *dir = gsp_fd_open_dir(folder_fd);
    if (!dir)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", path, strerror(errno));
    int rc = 0;
    for (const struct dirent *e = readdir(dir); e && rc == 0; e = readdir(dir)) {
        const int sys = gsp_ring__dir_owns_file(e->d_name) ? remove_name(folder_fd, e->d_name) : 0;
        /* Another process may be removing the same files. A folder with files of others stays, and
         * so does the ring directory. */
        if (sys != 0 && sys != ENOENT && sys != ENOTEMPTY && sys != EISDIR)
            rc = gsp_err_set(err, GSP_E_NOWRITE, sys, "%s/%s: %s", path, e->d_name, strerror(sys));
    }
    closedir(dir);
    return rc;
}

/* Whether the process that made a request, whose number is in the name, has ended. */
static bool is_maker_gone(const char *name)
{
    char *end;
    const long pid = strtol(name + sizeof(GSP_RING__REQUEST) - 1, &end, 10);
    return pid > 0 && pid <= INT32_MAX && *end == '-' && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static bool is_older(int folder_fd, const char *name, int64_t age_ns)
{
    struct stat st;
    return fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           gsp_realtime_ns() - (st.st_mtim.tv_sec * GSP_NS_PER_S + st.st_mtim.tv_nsec) >= age_ns;
}

/* Whether the target has completed the request of this file. */
static bool is_answered(int folder_fd, const char *name)
{
    static const char *const ENDS[] = {"answer", "outcome"};
    const int stem = (int)strcspn(name, ".");
    for (size_t i = 0; i < GSP_COUNT(ENDS); i++) {
        char path[NAME_MAX + 16];
        struct stat st;
        snprintf(path, sizeof(path), "%.*s.%s", stem, name, ENDS[i]);
        if (fstatat(folder_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    }
    return false;
}

/* The claim of an unanswered request stays: the target may still be waiting to run the script. */
static bool is_left_over(int folder_fd, const char *name, int64_t age_ns)
{
    return gsp_ring__dir_owns_request(name) && is_maker_gone(name) &&
           is_older(folder_fd, name, age_ns) &&
           (!gsp_sv_ends(gsp_sv_of(name), ".claim") || is_answered(folder_fd, name));
}

/* Claims go first, because the answers decide about them. */
void gsp_ring_dir_remove_requests(int folder_fd, int64_t age_ns)
{
    for (int turn = 0; turn < 2; turn++) {
        DIR *dir = gsp_fd_open_dir(folder_fd);
        for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
            const bool is_claim = gsp_sv_ends(gsp_sv_of(e->d_name), ".claim");
            if (is_claim == (turn == 0) && is_left_over(folder_fd, e->d_name, age_ns))
                remove_name(folder_fd, e->d_name);
        }
        if (dir)
            closedir(dir);
    }
}

bool gsp_ring_dir_is_expired(const struct gsp_ring_dir *dir, int64_t age_ns)
{
    return !dir->live && dir->uid == geteuid() && gsp_realtime_ns() - dir->last_write_ns >= age_ns;
}

/* Bytes of the ended processes whose rings stay. */
struct kept {
    uint64_t bytes;
    struct {
        uint64_t dev;
        uint64_t bytes;
    } on[ROOTS_MAX];
};

static uint64_t *kept_on(struct kept *kept, uint64_t dev)
{
    size_t i = 0;
    while (i < ROOTS_MAX - 1 && kept->on[i].bytes > 0 && kept->on[i].dev != dev)
        i++;
    kept->on[i].dev = dev;
    return &kept->on[i].bytes;
}

static bool exceeds_bytes(const struct gsp_ring_dir *dir, const struct gsp_ring_dir_limits *limits,
                          const struct kept *kept, uint64_t on_it)
{
    struct statvfs fs;
    const uint64_t part = statvfs(dir->path, &fs) == 0
                              ? (uint64_t)fs.f_blocks * fs.f_frsize / GSP_RING_DIR_KEEP_PART
                              : UINT64_MAX;
    return kept->bytes > 0 &&
           (kept->bytes + dir->bytes > limits->keep_bytes || on_it + dir->bytes > part);
}

/* Whether the directory exceeds the limits. Adds one that stays to *kept. */
static bool is_surplus(const struct gsp_ring_dir *dir, const struct gsp_ring_dir_limits *limits,
                       struct kept *kept)
{
    if (dir->live || dir->uid != geteuid())
        return false;
    if (dir->rings == 0)
        return gsp_ring_dir_is_expired(dir, BARE_NS);
    uint64_t *on_it = kept_on(kept, dir->dev);
    if (gsp_ring_dir_is_expired(dir, limits->keep_ns) ||
        (gsp_ring_dir_is_expired(dir, GSP_RING_DIR_GRACE_NS) &&
         exceeds_bytes(dir, limits, kept, *on_it)))
        return true;
    kept->bytes += dir->bytes;
    *on_it += dir->bytes;
    return false;
}

static int by_last_write(const void *a, const void *b)
{
    const int64_t left = ((const struct gsp_ring_dir *)a)->last_write_ns;
    const int64_t right = ((const struct gsp_ring_dir *)b)->last_write_ns;
    return left > right ? -1 : left < right;
}

struct gsp_ring_dirs_swept gsp_ring_dirs_sweep(const struct gsp_ring_dir_limits *limits)
{
    static const struct gsp_ring_dir_limits defaults = {GSP_RING_DIR_KEEP_NS,
                                                        GSP_RING_DIR_KEEP_BYTES};
    struct gsp_ring_dirs_swept swept = {0};
    struct gsp_ring_dirs dirs = {0};
    struct kept kept = {0};
    if (gsp_ring__dirs_read_all(&dirs, NULL) != 0)
        return swept;
    if (dirs.count > 1)
        qsort(dirs.at, dirs.count, sizeof(*dirs.at), by_last_write);
    for (size_t i = 0; i < dirs.count; i++) {
        const struct gsp_ring_dir *dir = &dirs.at[i];
        if (is_surplus(dir, limits ? limits : &defaults, &kept) &&
            gsp_ring_dir_remove(dir, NULL) == 0 && dir->rings > 0) {
            swept.count++;
            swept.bytes += dir->bytes;
        }
    }
    gsp_ring_dirs_free(&dirs);
    return swept;
}

/* Opens the parent of a ring directory. *name is the directory's name in it. */
static int open_root(const struct gsp_ring_dir *dir, const char **name, struct gsp_err *err)
{
    char root[sizeof(dir->path)];
    const char *slash = strrchr(dir->path, '/');
    if (!slash || slash == dir->path)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%s is not a ring directory", dir->path);
    *name = slash + 1;
    snprintf(root, sizeof(root), "%.*s", (int)(slash - dir->path), dir->path);
    return gsp_ring__dir_open_own(AT_FDCWD, root, false, err);
}

/* Whether another process writes, reads or removes the directory. Takes a lock that lasts until the
 * descriptor is closed. */
static bool is_held(int folder_fd)
{
    struct flock reader = {.l_type = F_WRLCK};
    /* Partners: the lock of record/follow.c; gsp_ring_dir_open(). */
    return (flock(folder_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
           (fcntl(folder_fd, F_OFD_GETLK, &reader) == 0 && reader.l_type != F_UNLCK);
}

static int remove_folder(const struct gsp_ring_dir *dir, int folder_fd, struct gsp_err *err)
{
    if (gsp_ring_process_is_live(dir->pid, dir->start_time, gsp_ring__dir_pid_ns(folder_fd)))
        return gsp_err_set(err, GSP_E_EXISTS, 0, "process %d still runs", (int)dir->pid);
    if (is_held(folder_fd))
        return gsp_err_set(err, GSP_E_EXISTS, EBUSY, "another process uses the ring directory");
    return remove_files(folder_fd, dir->path, err);
}

int gsp_ring_dir_remove(const struct gsp_ring_dir *dir, struct gsp_err *err)
{
    const char *name = NULL;
    gsp_auto_fd root_fd = open_root(dir, &name, err);
    gsp_auto_fd fd = root_fd < 0 ? root_fd : gsp_ring__dir_open_own(root_fd, name, false, err);
    /* Another process has already removed it. */
    if (fd == GSP_E_NOFILE)
        return 0;
    const int rc = fd < 0 ? fd : remove_folder(dir, fd, err);
    if (rc != 0)
        return rc;
    if (unlinkat(root_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: %s", dir->path, strerror(errno));
    return 0;
}
