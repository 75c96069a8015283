/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/time.h"
#include "ring/dir_internal.h"
#include "ring/meta.h"
#include "ring/process.h"
#include "ring/reader.h"
#include "wire/control.h"
#include "wire/memory.h"

#define META_NAME   "meta.json"
#define META_MAX    65536
#define DIRS_MAX    65536U
/* Of one root of another user: one user does not displace the others. */
#define OTHERS_MAX  4096U
/* Rings of one directory that a list opens. */
#define RINGS_MAX   512U
/* Space for the rings of one process and some workers. */
#define ROOM_BYTES  (UINT64_C(128) << 20)

#define LITTLE_ROOM "%.90s has %" PRIu64 " MB of space for tables, %" PRIu64 " MB are needed"

int gsp_ring__dir_open_own(int at_fd, const char *path, bool for_writing, struct gsp_err *err)
{
    struct stat st;
    gsp_auto_fd fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        const int code = errno == ENOENT                     ? GSP_E_NOFILE
                         : errno == EACCES || errno == EPERM ? GSP_E_PERM
                                                             : GSP_E_IO;
        gsp_err_fill(err, code, errno, "%s: %s", path, strerror(errno));
        return code;
    }
    if (fstat(fd, &st) != 0)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", path, strerror(errno));
    if (st.st_uid != geteuid() && (for_writing || geteuid() != 0)) {
        return gsp_err_set(err, GSP_E_PERM, 0, "%s belongs to user %u, this is user %u", path,
                           (unsigned)st.st_uid, (unsigned)geteuid());
    }
    if (for_writing && (st.st_mode & 077) != 0 && fchmod(fd, 0700) != 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: other users have access", path);
    return gsp_fd_release(&fd);
}

static int make_root(const char *path, struct gsp_err *err)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: %s", path, strerror(errno));
    const int fd = gsp_ring__dir_open_own(AT_FDCWD, path, true, err);
    return fd == GSP_E_NOFILE || fd == GSP_E_IO ? GSP_E_NOWRITE : fd;
}

/* ----------------------------------------------------------------------------------- creation */

static void read_cmdline(pid_t pid, char *out, size_t cap)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    out[0] = '\0';
    /* A command line may have megabytes: read only the part that is kept. */
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    const ssize_t got = read(fd, out, cap - 1);
    size_t n = got > 0 ? (size_t)got : 0;
    while (n > 0 && out[n - 1] == '\0')
        n--;
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0' || out[i] == '\n')
            out[i] = ' ';
    out[n] = '\0';
}

uid_t gsp_ring_dir_owner(pid_t pid)
{
    char proc[32];
    struct stat st;
    if (pid == getpid())
        return geteuid();
    snprintf(proc, sizeof(proc), "/proc/%d", (int)pid);
    return stat(proc, &st) == 0 ? st.st_uid : GSP_RING_DIR_NO_OWNER;
}

static void describe(const struct gsp_ring_dir_spec *about, uint64_t start_time,
                     struct gsp_ring__meta *meta)
{
    memset(meta, 0, sizeof(*meta));
    meta->pid = about->pid;
    meta->start_time = start_time;
    meta->pid_ns = gsp_ring__process_pid_ns();
    meta->rank = about->rank;
    meta->owner = about->owner ? *about->owner : gsp_ring_dir_owner(about->pid);
    meta->created_ns = gsp_realtime_ns();
    snprintf(meta->version, sizeof(meta->version), "%s", GSP_VERSION);
    if (gethostname(meta->host, sizeof(meta->host) - 1) != 0)
        meta->host[0] = '\0';
    if (about->cmdline)
        snprintf(meta->cmdline, sizeof(meta->cmdline), "%s", about->cmdline);
    else
        read_cmdline(about->pid, meta->cmdline, sizeof(meta->cmdline));
}

static bool load_meta(int folder_fd, struct gsp_ring__meta *out)
{
    gsp_auto_buf text = {0};
    gsp_auto_fd fd = openat(folder_fd, META_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && gsp_fd_read_all(fd, META_MAX, &text, NULL) == 0 &&
           gsp_ring__meta_parse(gsp_buf_sv(&text), out, NULL) == 0;
}

static int write_meta(int folder_fd, const struct gsp_ring__meta *meta, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    gsp_ring__meta_write(meta, &text);
    if (text.failed)
        return gsp_err_nomem(err);
    char tmp[64];
    snprintf(tmp, sizeof(tmp), ".%s.%d.tmp", META_NAME, (int)getpid());
    gsp_auto_fd fd =
        openat(folder_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s: %s", META_NAME, strerror(errno));
    if (gsp_fd_write_all(fd, text.p, text.len, err) != 0 ||
        renameat(folder_fd, tmp, folder_fd, META_NAME) != 0) {
        const int sys = errno;
        unlinkat(folder_fd, tmp, 0);
        return gsp_err_set(err, GSP_E_NOWRITE, sys, "%s: %s", META_NAME, strerror(sys));
    }
    return 0;
}

/* Creates meta.json, or updates it if another writer or an earlier program of this process created
 * it: exec keeps the pid and the start time, but changes the command line. */
static int update_meta(int folder_fd, const struct gsp_ring__meta *meta, struct gsp_err *err)
{
    struct gsp_ring__meta known;
    if (faccessat(folder_fd, META_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return write_meta(folder_fd, meta, err);
    if (meta->cmdline[0] == '\0' || !load_meta(folder_fd, &known) ||
        strcmp(known.cmdline, meta->cmdline) == 0)
        return 0;
    memcpy(known.cmdline, meta->cmdline, sizeof(known.cmdline));
    known.owner = meta->owner; /* exec may change it */
    if (meta->rank != GSP_NULL_I64)
        known.rank = meta->rank;
    /* Rings are useful even with the old command line. */
    gsp_ignore(write_meta(folder_fd, &known, NULL));
    return 0;
}

bool gsp_ring_dir_update_cmdline(int folder_fd, pid_t pid, struct gsp_ring_dir_program *last)
{
    struct gsp_ring__meta meta = {.rank = GSP_NULL_I64, .owner = gsp_ring_dir_owner(pid)};
    read_cmdline(pid, meta.cmdline, sizeof(meta.cmdline));
    if (meta.cmdline[0] == '\0' || strcmp(meta.cmdline, last->cmdline) == 0)
        return false;
    memcpy(last->cmdline, meta.cmdline, sizeof(last->cmdline));
    gsp_ignore(update_meta(folder_fd, &meta, NULL));
    return true;
}

static int name_folder(const struct gsp_ring_dir_spec *about, uint64_t *start_time, char name[64],
                       struct gsp_err *err)
{
    char state = 0;
    *start_time = about->start_time;
    if (*start_time == 0 && !gsp_ring_process_start_time(about->pid, start_time, &state))
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d does not exist", (int)about->pid);
    snprintf(name, 64, "%d-%" PRIu64, (int)about->pid, *start_time);
    return 0;
}

static int open_folder(int root_fd, const char *name)
{
    return openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens the directory if another writer of the process has created it in this root. */
static int find_folder(const char *root, const char *name)
{
    gsp_auto_fd root_fd = gsp_ring__dir_open_own(AT_FDCWD, root, true, NULL);
    return root_fd < 0 ? -1 : open_folder(root_fd, name);
}

/* Creates the directory in a root; with needs_room, only if the root has enough space. */
static int make_folder(const char *root, const char *name, bool needs_room, int *folder_fd,
                       struct gsp_err *err)
{
    gsp_auto_fd root_fd = make_root(root, err);
    if (root_fd < 0)
        return root_fd;
    const uint64_t room = gsp_ring__dir_space(root_fd);
    if (needs_room && room < ROOM_BYTES) {
        return gsp_err_set(err, GSP_E_NOWRITE, ENOSPC, LITTLE_ROOM, root, room >> 20,
                           (uint64_t)ROOM_BYTES >> 20);
    }
    if (mkdirat(root_fd, name, 0700) == 0 || errno == EEXIST)
        *folder_fd = open_folder(root_fd, name);
    if (*folder_fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "%s/%s: %s", root, name, strerror(errno));
    return 0;
}

/* Returns the root with the most space, or count if none is writable. */
static size_t find_most_space(const struct gsp_ring__root *roots, size_t count)
{
    size_t best = count;
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        gsp_auto_fd fd = make_root(roots[i].path, NULL);
        const uint64_t room = fd < 0 ? 0 : gsp_ring__dir_space(fd);
        if (fd >= 0 && (best == count || room > most)) {
            best = i;
            most = room;
        }
    }
    return best;
}

/* Opens an existing directory; else creates it in the first root with enough space, or in the one
 * with the most space. `note` says why it is not in the first root. */
static int open_or_make(const char *name, int *folder_fd, char note[GSP_RING_DIR_NOTE],
                        struct gsp_err *err)
{
    struct gsp_ring__root roots[GSP_RING__OWN_ROOTS];
    struct gsp_err why = {0};
    const size_t count = gsp_ring__roots_own(roots, true);
    note[0] = '\0';
    for (size_t i = 0; i < count && *folder_fd < 0; i++)
        *folder_fd = find_folder(roots[i].path, name);
    for (size_t i = 0; i < count && *folder_fd < 0; i++) {
        gsp_ignore(make_folder(roots[i].path, name, true, folder_fd, i == 0 ? &why : NULL));
        snprintf(note, GSP_RING_DIR_NOTE, "%.159s", why.msg);
    }
    const size_t last = *folder_fd < 0 ? find_most_space(roots, count) : count;
    if (*folder_fd >= 0)
        return 0;
    if (last == count)
        return gsp_err_set(err, why.code, why.sys, "%s", why.msg);
    return make_folder(roots[last].path, name, false, folder_fd, err);
}

int gsp_ring_dir_create(const struct gsp_ring_dir_spec *about, int *folder_fd, struct gsp_err *err)
{
    char name[64];
    uint64_t start_time = 0;
    struct gsp_ring__meta meta;
    char note[GSP_RING_DIR_NOTE];
    *folder_fd = -1;
    int rc = name_folder(about, &start_time, name, err);
    int new_fd = -1;
    if (rc == 0)
        rc = open_or_make(name, &new_fd, note, err);
    gsp_auto_fd fd = new_fd;
    if (rc != 0)
        return rc;
    describe(about, start_time, &meta);
    memcpy(meta.note, note, sizeof(meta.note));
    rc = update_meta(fd, &meta, err);
    if (rc == 0)
        *folder_fd = gsp_fd_release(&fd);
    return rc;
}

/* -------------------------------------------------------------------------------------- space */

uint64_t gsp_ring__dir_space(int fd)
{
    struct statvfs fs;
    struct statfs kind;
    /* A file system without a size has no limit. If the size is unknown, fallocate() will fail. */
    if (fstatvfs(fd, &fs) != 0 || fs.f_blocks == 0)
        return UINT64_MAX;
    const uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize;
    const uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t stays = all / 4 * 3 < GSP_RING_DIR_FREE_BYTES ? all / 4 * 3 : GSP_RING_DIR_FREE_BYTES;
    if (all / 2 > stays && fstatfs(fd, &kind) == 0 && kind.f_type == TMPFS_MAGIC)
        stays = all / 2;
    return left > stays ? left - stays : 0;
}

bool gsp_ring_dir_has_space(int fd, uint64_t bytes)
{
    return gsp_ring__dir_space(fd) >= bytes;
}

/* Returns the space in a root without creating it; 0 if it cannot be used. */
static uint64_t inspect_root(const char *root, char note[GSP_RING_DIR_NOTE])
{
    char parent[GSP_RING__ROOT_CHARS];
    snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(root, '/') - root), root);
    gsp_auto_fd fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || faccessat(fd, ".", W_OK, AT_EACCESS) != 0) {
        snprintf(note, GSP_RING_DIR_NOTE, "%.100s: %.40s", parent, strerror(errno));
        return 0;
    }
    const uint64_t room = gsp_ring__dir_space(fd);
    if (room < ROOM_BYTES) {
        snprintf(note, GSP_RING_DIR_NOTE, LITTLE_ROOM, root, room >> 20,
                 (uint64_t)ROOM_BYTES >> 20);
    }
    return room;
}

bool gsp_ring_dir_choose(struct gsp_ring_dir_choice *out)
{
    struct gsp_ring__root roots[GSP_RING__OWN_ROOTS];
    const size_t count = gsp_ring__roots_own(roots, false);
    *out = (struct gsp_ring_dir_choice){0};
    for (size_t i = 0; i < count; i++) {
        char note[GSP_RING_DIR_NOTE] = "";
        const uint64_t room = inspect_root(roots[i].path, note);
        if (i == 0)
            memcpy(out->note, note, sizeof(note));
        if (room > out->room && out->room < ROOM_BYTES) {
            out->room = room;
            memcpy(out->root, roots[i].path, sizeof(out->root));
        }
    }
    return out->room > 0;
}

/* ------------------------------------------------------------------------------------ listing */

/* Parses "<pid>-<start time>". */
static bool parse_name(const char *name, int32_t *pid, uint64_t *start_time)
{
    char *end = NULL;
    if (name[0] < '1' || name[0] > '9')
        return false;
    errno = 0;
    const long first = strtol(name, &end, 10);
    if (errno || first > INT32_MAX || *end != '-' || end[1] < '0' || end[1] > '9')
        return false;
    *start_time = strtoull(end + 1, &end, 10);
    *pid = (int32_t)first;
    return errno == 0 && *end == '\0';
}

static bool is_ring_name(const char *name)
{
    return name[0] != '.' && gsp_sv_ends(gsp_sv_of(name), ".ring");
}

bool gsp_ring__dir_owns_request(const char *name)
{
    static const char *const ENDS[] = {".py", ".claim", ".answer", ".answer.new", ".outcome"};
    if (strncmp(name, GSP_RING__REQUEST, sizeof(GSP_RING__REQUEST) - 1) != 0)
        return false;
    const char *pid = name + sizeof(GSP_RING__REQUEST) - 1;
    const char *dash = pid + strspn(pid, "0123456789");
    if (dash == pid || *dash != '-')
        return false;
    const char *dot = dash + 1 + strspn(dash + 1, "0123456789abcdef");
    for (size_t i = 0; dot > dash + 1 && i < GSP_COUNT(ENDS); i++)
        if (strcmp(dot, ENDS[i]) == 0)
            return true;
    return false;
}

bool gsp_ring__dir_owns_file(const char *name)
{
    return is_ring_name(name) || gsp_ring__dir_owns_request(name) || strcmp(name, META_NAME) == 0 ||
           strcmp(name, GSP_CONTROL_FILE) == 0 || strcmp(name, GSP_MEMORY_FILE) == 0 ||
           (name[0] == '.' && gsp_sv_ends(gsp_sv_of(name), ".tmp"));
}

static void read_ring(int folder_fd, const char *name, struct gsp_ring_dir *ring_dir)
{
    struct gsp_ring_view *view = NULL;
    struct gsp_ring_state state;
    if (gsp_ring_open(folder_fd, name, &view, NULL) != 0)
        return;
    gsp_ring_state(view, &state);
    if (state.newest_ns > ring_dir->last_write_ns)
        ring_dir->last_write_ns = state.newest_ns;
    if (ring_dir->rank == GSP_NULL_I64)
        ring_dir->rank = gsp_ring_info(view)->rank;
    ring_dir->small_rings += (state.status & GSP_RING_SMALL) != 0;
    gsp_ring_view_close(view);
}

static void read_files(int folder_fd, struct gsp_ring_dir *ring_dir)
{
    DIR *dir = gsp_fd_open_dir(folder_fd);
    if (!dir)
        return;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        struct stat st;
        if (!gsp_ring__dir_owns_file(e->d_name) ||
            fstatat(folder_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        ring_dir->bytes += (uint64_t)st.st_blocks * 512;
        if (is_ring_name(e->d_name) && ring_dir->rings++ < RINGS_MAX)
            read_ring(folder_fd, e->d_name, ring_dir);
    }
    closedir(dir);
}

uint64_t gsp_ring__dir_pid_ns(int folder_fd)
{
    struct gsp_ring__meta meta;
    return load_meta(folder_fd, &meta) ? meta.pid_ns : 0;
}

static void read_meta(int folder_fd, struct gsp_ring_dir *ring_dir, uint64_t *pid_ns)
{
    struct gsp_ring__meta meta;
    *pid_ns = 0;
    if (!load_meta(folder_fd, &meta))
        return;
    *pid_ns = meta.pid_ns;
    ring_dir->owner = meta.owner;
    ring_dir->rank = meta.rank;
    snprintf(ring_dir->cmdline, sizeof(ring_dir->cmdline), "%.255s", meta.cmdline);
    memcpy(ring_dir->note, meta.note, sizeof(ring_dir->note));
}

/* Returns false if the directory cannot be read, or belongs to another user than its root. */
static bool read_dir(int root_fd, const struct gsp_ring__listed_root *root, const char *name,
                     struct gsp_ring_dir *ring_dir)
{
    struct stat st;
    const int n = snprintf(ring_dir->path, sizeof(ring_dir->path), "%s/%s", root->path, name);
    if (n < 0 || (size_t)n >= sizeof(ring_dir->path))
        return false;
    gsp_auto_fd fd = gsp_ring__dir_open_own(root_fd, name, false, NULL);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_uid != root->uid)
        return false;
    uint64_t pid_ns = 0;
    ring_dir->uid = st.st_uid;
    ring_dir->dev = st.st_dev;
    ring_dir->owner = GSP_RING_DIR_NO_OWNER;
    ring_dir->rank = GSP_NULL_I64;
    ring_dir->last_write_ns = GSP_NULL_I64;
    read_meta(fd, ring_dir, &pid_ns);
    read_files(fd, ring_dir);
    ring_dir->live = gsp_ring_process_is_live(ring_dir->pid, ring_dir->start_time, pid_ns);
    if (ring_dir->last_write_ns == GSP_NULL_I64)
        ring_dir->last_write_ns = st.st_mtim.tv_sec * GSP_NS_PER_S + st.st_mtim.tv_nsec;
    return true;
}

/* Adds a directory, or counts it if there are too many. */
static int add_dir(struct gsp_ring_dirs *dirs, const struct gsp_ring_dir *ring_dir, size_t limit,
                   struct gsp_err *err)
{
    if (dirs->count >= limit) {
        dirs->left_out++;
        return 0;
    }
    if (!gsp_array_fit(&dirs->at, &dirs->capacity, dirs->count + 1))
        return gsp_err_nomem(err);
    dirs->at[dirs->count++] = *ring_dir;
    return 0;
}

/* Selects ring directories. */
struct filter {
    pid_t pid;      /* 0: all processes */
    bool bare;      /* include directories without rings */
    bool all_users; /* for root */
};

static int open_listed(const struct gsp_ring__listed_root *root, bool all_users, DIR **out,
                       struct gsp_err *err)
{
    struct stat st;
    if (root->uid != geteuid() && !all_users) {
        return gsp_err_set(err, GSP_E_PERM, 0, "%s belongs to user %u, this is user %u", root->path,
                           (unsigned)root->uid, (unsigned)geteuid());
    }
    gsp_auto_fd fd = gsp_ring__dir_open_own(AT_FDCWD, root->path, false, err);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) != 0 || st.st_uid != root->uid)
        return gsp_err_set(err, GSP_E_PERM, 0, "%s has another owner now", root->path);
    *out = fdopendir(fd);
    if (!*out)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", root->path, strerror(errno));
    (void)gsp_fd_release(&fd);
    return 0;
}

static int read_root(const struct gsp_ring__listed_root *root, struct filter filter,
                     struct gsp_ring_dirs *dirs, struct gsp_err *err)
{
    DIR *dir = NULL;
    int rc = open_listed(root, filter.all_users, &dir, err);
    if (rc != 0)
        return rc;
    size_t limit = root->uid == geteuid() ? DIRS_MAX : dirs->count + OTHERS_MAX;
    limit = limit < DIRS_MAX ? limit : DIRS_MAX;
    for (const struct dirent *e = readdir(dir); e && rc == 0; e = readdir(dir)) {
        struct gsp_ring_dir ring_dir;
        memset(&ring_dir, 0, sizeof(ring_dir));
        if (!parse_name(e->d_name, &ring_dir.pid, &ring_dir.start_time) ||
            (filter.pid != 0 && filter.pid != ring_dir.pid))
            continue;
        /* What is left out is not read either. */
        if (dirs->count >= limit || (read_dir(dirfd(dir), root, e->d_name, &ring_dir) &&
                                     (filter.bare || ring_dir.rings > 0)))
            rc = add_dir(dirs, &ring_dir, limit, err);
    }
    closedir(dir);
    return rc;
}

static int by_start(const void *a, const void *b)
{
    const struct gsp_ring_dir *left = a;
    const struct gsp_ring_dir *right = b;
    if (left->start_time != right->start_time)
        return left->start_time > right->start_time ? -1 : 1;
    return left->pid > right->pid ? -1 : left->pid < right->pid;
}

/* Skips a root that cannot be read, and stores the reason in out->refused. */
static int read_dirs(struct filter filter, struct gsp_ring_dirs *out, struct gsp_err *err)
{
    *out = (struct gsp_ring_dirs){0};
    struct gsp_ring__roots roots;
    int rc = gsp_ring__roots_list(&roots, filter.all_users, err);
    for (size_t i = 0; i < roots.count && rc == 0; i++) {
        struct gsp_err why = {0};
        rc = read_root(&roots.at[i], filter, out, &why);
        if (rc == GSP_E_NOMEM) {
            gsp_err_fill(err, rc, why.sys, "%s", why.msg);
        } else if (rc != 0) {
            if (rc != GSP_E_NOFILE && out->refused[0] == '\0')
                snprintf(out->refused, sizeof(out->refused), "%.*s", (int)sizeof(out->refused) - 1,
                         why.msg);
            rc = 0;
        }
    }
    free(roots.at);
    if (rc != 0) {
        gsp_ring_dirs_free(out);
        return rc;
    }
    if (out->count > 1)
        qsort(out->at, out->count, sizeof(*out->at), by_start);
    return 0;
}

int gsp_ring_dirs_read(bool all_users, struct gsp_ring_dirs *out, struct gsp_err *err)
{
    return read_dirs((struct filter){.all_users = all_users}, out, err);
}

int gsp_ring__dirs_read_all(struct gsp_ring_dirs *out, struct gsp_err *err)
{
    return read_dirs((struct filter){.bare = true}, out, err);
}

void gsp_ring_dirs_free(struct gsp_ring_dirs *dirs)
{
    if (dirs) {
        free(dirs->at);
        *dirs = (struct gsp_ring_dirs){0};
    }
}

bool gsp_ring_dir_is_same_process(const struct gsp_ring_dir *a, const struct gsp_ring_dir *b)
{
    return a->pid == b->pid && a->start_time == b->start_time;
}

/* Who may have written the rings of a process. */
struct owners {
    uid_t live; /* runs the process now */
    uid_t dead; /* ran it */
};

static bool is_user(const struct gsp_ring_dir *dir, uid_t user)
{
    return user == GSP_RING_DIR_ANY_OWNER || (user != GSP_RING_DIR_NO_OWNER && dir->uid == user);
}

/* Whether gsprof has noted in its own directory of the process that this user runs it. */
static bool is_noted(const struct gsp_ring_dirs *dirs, const struct gsp_ring_dir *dir)
{
    for (size_t i = 0; i < dirs->count; i++)
        if (dirs->at[i].uid == geteuid() && gsp_ring_dir_is_same_process(&dirs->at[i], dir) &&
            is_user(dir, dirs->at[i].owner))
            return true;
    return false;
}

/* How well a directory fits the process; 0: not at all, another user may have made it. */
static int rate(const struct gsp_ring_dirs *dirs, const struct gsp_ring_dir *dir,
                struct owners owners)
{
    const bool is_of_owner =
        dir->live ? is_user(dir, owners.live) : is_user(dir, owners.dead) || is_noted(dirs, dir);
    if (dir->uid != geteuid() && !is_of_owner)
        return 0;
    return 1 + (dir->live ? 4 : 0) + (is_of_owner ? 2 : 0);
}

int gsp_ring_dir_find_pair(pid_t pid, uid_t owner, struct gsp_ring_dir_pair *out,
                           struct gsp_err *err)
{
    struct gsp_ring_dirs dirs;
    out->count = 0;
    const int rc = read_dirs((struct filter){.pid = pid, .all_users = true}, &dirs, err);
    if (rc != 0)
        return rc;
    const struct owners owners = {gsp_ring_dir_owner(pid), owner};
    int best = 0;
    for (size_t i = 0; i < dirs.count; i++) {
        const int rating = rate(&dirs, &dirs.at[i], owners);
        if (rating > best)
            out->at[0] = dirs.at[i];
        best = rating > best ? rating : best;
    }
    out->count = best > 0;
    for (size_t i = 0; i < dirs.count && out->count == 1; i++)
        if (dirs.at[i].uid != out->at[0].uid && rate(&dirs, &dirs.at[i], owners) > 0 &&
            gsp_ring_dir_is_same_process(&dirs.at[i], &out->at[0]))
            out->at[out->count++] = dirs.at[i];
    gsp_ring_dirs_free(&dirs);
    return out->count ? 0 : gsp_err_set(err, GSP_E_NOFILE, 0, "process %d has no rings", (int)pid);
}

int gsp_ring_dir_find(pid_t pid, struct gsp_ring_dir *out, struct gsp_err *err)
{
    struct gsp_ring_dir_pair pair;
    const int rc = gsp_ring_dir_find_pair(pid, GSP_RING_DIR_NO_OWNER, &pair, err);
    if (rc == 0)
        *out = pair.at[0];
    return rc;
}

int gsp_ring_dir_open(const struct gsp_ring_dir *ring_dir, int *folder_fd, struct gsp_err *err)
{
    struct stat st;
    gsp_auto_fd fd = gsp_ring__dir_open_own(AT_FDCWD, ring_dir->path, false, err);
    *folder_fd = -1;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) != 0 || st.st_uid != ring_dir->uid)
        return gsp_err_set(err, GSP_E_PERM, 0, "%s has another owner now", ring_dir->path);
    *folder_fd = gsp_fd_release(&fd);
    /* Partner: is_held() in sweep.c. If the file system has no locks, a sweep may remove the files;
     * files that are already mapped stay readable. */
    struct flock hold = {.l_type = F_RDLCK};
    gsp_ignore(fcntl(*folder_fd, F_OFD_SETLK, &hold) != 0);
    return 0;
}
