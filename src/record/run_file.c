/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "record/launch.h"

#define PREFIX    "gsprof-run."
#define SUFFIX    "XXXXXX"
/* Another run may take a new file for that of a killed run, before it is locked. */
#define TRIES_MAX 10

/* ------------------------------------------------------------------------------------- old files
 */

/* Whether a file has a name that mkostemp() makes of PREFIX and SUFFIX. */
static bool is_name(const char *name)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    if (!gsp_sv_starts(gsp_sv_of(name), PREFIX))
        return false;
    const char *rest = name + strlen(PREFIX);
    return strlen(rest) == strlen(SUFFIX) && strspn(rest, LETTERS) == strlen(SUFFIX);
}

static bool is_own(const struct stat *facts)
{
    uid_t uid = 0;
    gid_t gid = 0;
    return S_ISREG(facts->st_mode) &&
           (facts->st_uid == geteuid() ||
            (gsp_record__launch_sudo_caller(&uid, &gid) && facts->st_uid == uid));
}

/* Removes a file that no gsprof holds. */
static void remove_unlocked(int folder, const char *name)
{
    struct stat facts;
    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) < 0 || !is_own(&facts))
        return;
    gsp_auto_fd fd =
        openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &facts) == 0 && is_own(&facts) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        gsp_ignore(unlinkat(folder, name, 0) < 0);
}

static void remove_old(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (is_name(entry->d_name))
            remove_unlocked(dirfd(dir), entry->d_name);
    closedir(dir);
}

/* -------------------------------------------------------------------------------------- new file
 */

/* Returns false if another run has removed the file or is about to. A file system without locks
 * does not matter: there, no run removes files of others. */
static bool lock(int fd)
{
    struct stat facts;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &facts) < 0 || facts.st_nlink > 0;
}

static bool make_locked(struct gsp_run_file *file, const char *folder)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        snprintf(file->path, sizeof(file->path), "%s/" PREFIX SUFFIX, folder);
        file->fd = mkostemp(file->path, O_CLOEXEC);
        if (file->fd < 0 || lock(file->fd))
            return file->fd >= 0;
        close(file->fd);
        gsp_ignore(unlink(file->path) < 0);
        errno = EAGAIN;
    }
    return false;
}

bool gsp_record_run_file_make(struct gsp_run_file *file, const char *folder)
{
    uid_t uid = 0;
    gid_t gid = 0;
    *file = (struct gsp_run_file){.fd = -1};
    if (!folder || !*folder)
        return false;
    /* Absolute, because the program may change its working directory. */
    gsp_auto_free char *real = realpath(folder, NULL);
    if (!real || strlen(real) + sizeof("/" PREFIX SUFFIX) > sizeof(file->path))
        return false;
    remove_old(real);
    if (!make_locked(file, real)) {
        *file = (struct gsp_run_file){.fd = -1};
        return false;
    }
    /* Under sudo the program runs as the calling user, who must be able to write the file. */
    if (gsp_record__launch_sudo_caller(&uid, &gid))
        gsp_ignore(fchown(file->fd, uid, gid) < 0);
    return true;
}

void gsp_record_run_file_remove(struct gsp_run_file *file)
{
    if (!file->path[0])
        return;
    gsp_ignore(unlink(file->path) < 0);
    gsp_fd_close(&file->fd);
    *file = (struct gsp_run_file){.fd = -1};
}
