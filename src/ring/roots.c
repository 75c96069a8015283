/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roots.c -- the folders that hold ring directories.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/dir_internal.h"

#define ROOTS_MAX  1024U
/* Roots of one user on one file system. */
#define USER_ROOTS 16U
#define MAKE_TRIES 16

/* The path of this root does not name the user, so its parent must belong to the user. */
static bool xdg_root(struct gsp_ring__root *out)
{
    const char *base = secure_getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (!base || base[0] != '/' || stat(base, &st) != 0 || !S_ISDIR(st.st_mode) ||
        st.st_uid != geteuid())
        return false;
    const int n = snprintf(out->path, sizeof(out->path), "%s/gsprof", base);
    return n > 0 && (size_t)n < sizeof(out->path);
}

static const char *const FOLDERS[] = {"/dev/shm", "/tmp", "/var/tmp"};

/* Reads the user in the name of a root: "gsprof-<uid>" or "gsprof-<uid>-<random>". */
static bool parse_root(const char *name, uint32_t *uid, bool *is_random)
{
    char *end = NULL;
    if (strncmp(name, "gsprof-", 7) != 0 || name[7] < '0' || name[7] > '9')
        return false;
    errno = 0;
    const unsigned long long value = strtoull(name + 7, &end, 10);
    *uid = (uint32_t)value;
    *is_random = *end == '-';
    return errno == 0 && value <= UINT32_MAX && (*end == '\0' || (*end == '-' && end[1] != '\0'));
}

/* Whether the path is a folder, not a link, of this user, in which no other user can write. */
static bool is_folder_of(int at_fd, const char *path, uint32_t uid, struct stat *st)
{
    return fstatat(at_fd, path, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st->st_mode) &&
           st->st_uid == uid && (st->st_mode & 022) == 0;
}

/* Finds the root of this user with a random name: the oldest one, so that all processes of the user
 * agree. */
static bool find_random_root(const char *folder, struct gsp_ring__root *out)
{
    DIR *dir = opendir(folder);
    uint64_t oldest = UINT64_MAX;
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        uint32_t uid = 0;
        bool is_random = false;
        struct stat st;
        if (parse_root(e->d_name, &uid, &is_random) && is_random && uid == geteuid() &&
            is_folder_of(dirfd(dir), e->d_name, uid, &st) && st.st_ino < oldest &&
            strlen(e->d_name) < GSP_RING__ROOT_CHARS / 2) {
            oldest = st.st_ino;
            snprintf(out->path, sizeof(out->path), "%.32s/%.100s", folder, e->d_name);
        }
    }
    if (dir)
        closedir(dir);
    return oldest != UINT64_MAX;
}

/* Whether another user has taken the usual name of the root. */
static bool is_taken(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && st.st_uid != geteuid();
}

static void make_random_root(const char *folder, struct gsp_ring__root *out)
{
    for (int i = 0; i < MAKE_TRIES; i++) {
        uint64_t random = 0;
        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
            return;
        snprintf(out->path, sizeof(out->path), "%s/gsprof-%u-%016" PRIx64, folder,
                 (unsigned)geteuid(), random);
        if (mkdir(out->path, 0700) == 0 || errno != EEXIST)
            break;
    }
    /* Another process may have made one at the same time. */
    gsp_ignore(find_random_root(folder, out));
}

size_t gsp_ring__roots_own(struct gsp_ring__root out[GSP_RING__OWN_ROOTS], bool will_make)
{
    size_t count = xdg_root(&out[0]) ? 1 : 0;
    for (size_t i = 0; i < GSP_COUNT(FOLDERS); i++) {
        struct gsp_ring__root *root = &out[count++];
        snprintf(root->path, sizeof(root->path), "%s/gsprof-%u", FOLDERS[i], (unsigned)geteuid());
        if (is_taken(root->path) && !find_random_root(FOLDERS[i], root) && will_make)
            make_random_root(FOLDERS[i], root);
    }
    return count;
}

/* Adds a root once. Returns false if it cannot be read. */
static bool add_root(struct gsp_ring__roots *list, const char *path)
{
    struct stat st;
    if (list->count == ROOTS_MAX || strlen(path) >= GSP_RING__ROOT_CHARS || lstat(path, &st) != 0)
        return false;
    unsigned same = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].dev == st.st_dev && list->at[i].ino == st.st_ino)
            return true;
        same += list->at[i].uid == st.st_uid && list->at[i].dev == st.st_dev;
    }
    if (same >= USER_ROOTS)
        return false;
    struct gsp_ring__listed_root *added = &list->at[list->count++];
    *added = (struct gsp_ring__listed_root){.dev = st.st_dev, .ino = st.st_ino, .uid = st.st_uid};
    snprintf(added->path, sizeof(added->path), "%s", path);
    return true;
}

/* Adds the roots of this user with a random name or, with all_users, those of all users. */
static void add_roots_in(struct gsp_ring__roots *list, const char *folder, bool all_users)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        char path[GSP_RING__ROOT_CHARS + sizeof(e->d_name)];
        uint32_t uid = 0;
        bool is_random = false;
        struct stat st;
        if (!parse_root(e->d_name, &uid, &is_random) || (uid != geteuid() && !all_users) ||
            !is_folder_of(dirfd(dir), e->d_name, uid, &st))
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        gsp_ignore(add_root(list, path));
    }
    if (dir)
        closedir(dir);
}

/* Adds /run/user/<uid>/gsprof of all users. */
static void add_logins(struct gsp_ring__roots *list)
{
    DIR *dir = opendir("/run/user");
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        char path[GSP_RING__ROOT_CHARS + sizeof(e->d_name)];
        snprintf(path, sizeof(path), "/run/user/%s/gsprof", e->d_name);
        if (e->d_name[0] != '.')
            gsp_ignore(add_root(list, path));
    }
    if (dir)
        closedir(dir);
}

int gsp_ring__roots_list(struct gsp_ring__roots *list, bool all_users, struct gsp_err *err)
{
    list->count = 0;
    list->at = calloc(ROOTS_MAX, sizeof(*list->at));
    if (!list->at)
        return gsp_err_nomem(err);
    struct gsp_ring__root own[GSP_RING__OWN_ROOTS];
    char login[GSP_RING__ROOT_CHARS];
    const size_t count = gsp_ring__roots_own(own, false);
    for (size_t i = 0; i < count; i++)
        gsp_ignore(add_root(list, own[i].path));
    /* XDG_RUNTIME_DIR may be set in the target but not in this process. */
    snprintf(login, sizeof(login), "/run/user/%u/gsprof", (unsigned)geteuid());
    gsp_ignore(add_root(list, login));
    for (size_t i = 0; i < GSP_COUNT(FOLDERS); i++)
        add_roots_in(list, FOLDERS[i], all_users && geteuid() == 0);
    if (all_users && geteuid() == 0)
        add_logins(list);
    return 0;
}
