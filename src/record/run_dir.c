/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/time.h"
#include "record/launch.h"
#include "store/drain.h"
#include "wire/table.h"

/* Maximum number of runs of one program that start in the same second. */
#define NUMBERS_MAX 1000
/* Maximum length of the part of a name that comes from the program. */
#define NAME_MAX_   64U
#define RUNS        GSP_RUNS_FOLDER "/"

/* ------------------------------------------------------------------------------------- name */

static bool is_python(struct gsp_sv name)
{
    return gsp_sv_starts(name, "python") || gsp_sv_starts(name, "pypy");
}

/* Options of the interpreter whose value is the next argument. */
static bool has_value(const char *option)
{
    return strcmp(option, "-W") == 0 || strcmp(option, "-X") == 0 ||
           strcmp(option, "--check-hash-based-pycs") == 0;
}

/* Returns the script or module of a Python interpreter, else the name of the program. */
static struct gsp_sv program_name(char *const *argv)
{
    const struct gsp_sv name = gsp_sv_basename(gsp_sv_of(argv[0]));
    if (!is_python(name))
        return name;
    for (size_t i = 1; argv[i]; i++) {
        if (strcmp(argv[i], "-m") == 0 && argv[i + 1])
            return gsp_sv_of(argv[i + 1]);
        if (strcmp(argv[i], "-c") == 0 || strcmp(argv[i], "-") == 0)
            return name;
        if (argv[i][0] != '-')
            return gsp_sv_basename(gsp_sv_of(argv[i]));
        if (has_value(argv[i]) && !argv[++i])
            break;
    }
    return name;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

void gsp_record__run_dir_default_name(char *const *argv, int64_t now_ns, struct gsp_buf *out)
{
    struct gsp_sv name = program_name(argv);
    char when[32] = "";
    if (gsp_sv_ends(name, ".py"))
        name.len -= 3;
    if (name.len > NAME_MAX_)
        name.len = NAME_MAX_;
    for (size_t i = 0; i < name.len; i++) {
        const bool fits = is_plain(name.p[i]) && (i > 0 || name.p[i] != '.');
        gsp_buf_putc(out, fits ? name.p[i] : '_');
    }
    if (name.len)
        gsp_buf_printf(out, "-%s", gsp_fmt_file_time(now_ns, when, sizeof(when)));
    else
        gsp_buf_puts(out, "run");
}

/* ------------------------------------------------------------------------------------ folder */

static int describe(struct gsp_run_dir *dir, const struct gsp_run_dir_opts *opts,
                    struct gsp_err *err)
{
    struct gsp_buf command = {0};
    struct utsname system;
    for (size_t i = 0; opts->argv[i]; i++) {
        gsp_buf_puts(&command, i ? " " : "");
        gsp_buf_shell(&command, gsp_sv_of(opts->argv[i]));
    }
    dir->command = gsp_buf_take(&command);
    if (!dir->command)
        return gsp_err_nomem(err);
    gsp_ignore(gethostname(dir->host, sizeof(dir->host) - 1) < 0);
    if (uname(&system) == 0)
        snprintf(dir->kernel, sizeof(dir->kernel), "%.60s %.80s %.60s", system.sysname,
                 system.release, system.machine);
    const bool has_cwd = getcwd(dir->cwd, sizeof(dir->cwd)) != NULL;
    dir->begin_ns = gsp_now_ns();
    dir->about = (struct gsp_run_meta){.host = dir->host[0] ? dir->host : NULL,
                                       .command = dir->command,
                                       .state = GSP_RUN_RUNNING,
                                       .argv = opts->argv,
                                       .cwd = has_cwd ? dir->cwd : NULL,
                                       .kernel = dir->kernel,
                                       .status = GSP_NULL_I64,
                                       .signal = GSP_NULL_I64,
                                       .start_ns = gsp_realtime_ns(),
                                       .unit = "ns"};
    return GSP_OK;
}

static int make_runs_folder(struct gsp_err *err)
{
    if (mkdir(GSP_RUNS_FOLDER, 0777) < 0 && errno != EEXIST)
        return gsp_err_set(err, GSP_E_NOWRITE, errno,
                           "cannot create the folder " GSP_RUNS_FOLDER ": %s", strerror(errno));
    return GSP_OK;
}

/* Creates the parents of --output. Ignores failures: creating the folder itself then fails, with
 * the reason. */
static void make_parents(char *path)
{
    for (char *at = strchr(path + 1, '/'); at && at[strspn(at, "/")]; at = strchr(at + 1, '/')) {
        *at = '\0';
        gsp_ignore(mkdir(path, 0777) < 0);
        *at = '/';
    }
}

static int no_folder(const char *path, int sys, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_NOWRITE, sys, "cannot create the folder %.160s: %s", path,
                       strerror(sys));
}

/* Opens the folder that contains a path, which may end with slashes. Returns -1 with errno. */
static int open_parent(const char *path, struct gsp_buf *name)
{
    gsp_auto_buf parent = {0};
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    const struct gsp_sv base = gsp_sv_basename((struct gsp_sv){path, len});
    gsp_buf_putsv(name, base);
    gsp_buf_put(&parent, path, len - base.len);
    const char *text = gsp_buf_cstr(&parent);
    return open(text && *text ? text : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void set_handle(struct gsp_run_dir *dir, int fd)
{
    dir->fd = fd;
    snprintf(dir->handle, sizeof(dir->handle), "/proc/self/fd/%d", fd);
}

/* Holds a folder that was just created. Under sudo another user may own the folder around it, and
 * have replaced it. */
static int hold_new(struct gsp_run_dir *dir, int parent, const char *name, struct gsp_err *err)
{
    uid_t uid = 0;
    gid_t gid = 0;
    struct stat facts;
    gsp_auto_fd fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) < 0)
        return no_folder(dir->path, errno, err);
    if (gsp_record__launch_sudo_caller(&uid, &gid) && facts.st_uid != geteuid())
        return no_folder(dir->path, EPERM, err);
    set_handle(dir, gsp_fd_release(&fd));
    return GSP_OK;
}

/* Holds a folder that the user has named and that exists; it may be a link. */
static int hold_old(struct gsp_run_dir *dir, struct gsp_err *err)
{
    gsp_auto_fd fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write to %.160s: %s", dir->path,
                           strerror(errno));
    set_handle(dir, gsp_fd_release(&fd));
    return GSP_OK;
}

/* Creates and holds the folder dir->path. Returns GSP_E_EXISTS without a message. */
static int make_new(struct gsp_run_dir *dir, struct gsp_err *err)
{
    gsp_auto_buf base = {0};
    gsp_auto_fd parent = open_parent(dir->path, &base);
    const int sys = errno;
    const char *name = gsp_buf_cstr(&base);
    if (!name)
        return gsp_err_nomem(err);
    if (parent < 0)
        return no_folder(dir->path, sys, err);
    if (!*name) /* "/" */
        return GSP_E_EXISTS;
    if (mkdirat(parent, name, 0777) < 0)
        return errno == EEXIST ? GSP_E_EXISTS : no_folder(dir->path, errno, err);
    dir->was_made = true;
    return hold_new(dir, parent, name, err);
}

/* Uses the first default name that is free. */
static int make_unnamed(struct gsp_run_dir *dir, char *const *argv, struct gsp_err *err)
{
    gsp_auto_buf name = {0};
    gsp_record__run_dir_default_name(argv, dir->about.start_ns, &name);
    const char *text = gsp_buf_cstr(&name);
    int rc = text ? make_runs_folder(err) : gsp_err_nomem(err);
    for (int i = 1; rc == GSP_OK && i < NUMBERS_MAX; i++) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof(number), "-%d", i);
        snprintf(dir->path, sizeof(dir->path), RUNS "%s%s", text, number);
        rc = make_new(dir, err);
        if (rc == GSP_OK)
            return GSP_OK;
        rc = rc == GSP_E_EXISTS ? GSP_OK : rc;
    }
    return rc < 0 ? rc
                  : gsp_err_set(err, GSP_E_EXISTS, 0, "no free name for the run: %.160s exists",
                                dir->path);
}

/* Removes the old run, unless a recorder is writing it. */
static int remove_old(const struct gsp_run_dir *dir, struct gsp_err *err)
{
    struct gsp_drain *drain = NULL;
    struct gsp_err cause = {0};
    const int rc = gsp_store_drain_open(dir->handle, NULL, &drain, &cause);
    gsp_store_drain_close(drain);
    gsp_record__run_dir_name_error(dir->handle, dir->path, &cause);
    if (rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE)
        return gsp_err_set(err, rc, cause.sys, "%s", cause.msg);
    gsp_store_run_remove_files(dir->handle);
    return GSP_OK;
}

static int make_named(struct gsp_run_dir *dir, const struct gsp_run_dir_opts *opts,
                      struct gsp_err *err)
{
    const char *name = opts->name;
    int rc = GSP_OK;
    if (name && (strchr(name, '/') || name[0] == '.' || !name[0]))
        return gsp_err_set(err, GSP_E_USAGE, 0, "--name must be a name, not a path: %.100s", name);
    if (opts->output)
        snprintf(dir->path, sizeof(dir->path), "%s", opts->output);
    else
        snprintf(dir->path, sizeof(dir->path), RUNS "%s", name);
    if (opts->output)
        make_parents(dir->path);
    else
        rc = make_runs_folder(err);
    if (rc == GSP_OK)
        rc = make_new(dir, err);
    if (rc != GSP_E_EXISTS)
        return rc;
    rc = gsp_store_run_create(dir->path, opts->force, err);
    if (rc == GSP_OK)
        rc = hold_old(dir, err);
    return rc == GSP_OK && opts->force ? remove_old(dir, err) : rc;
}

/* Only one process can create meta.json. */
static int claim(const struct gsp_run_dir *dir, struct gsp_err *err)
{
    struct gsp_err cause = {0};
    const int rc = gsp_store_run_write_meta(dir->handle, &dir->about, false, &cause);
    gsp_record__run_dir_name_error(dir->handle, dir->path, &cause);
    if (rc == GSP_E_EXISTS)
        return gsp_err_set(err, rc, 0, "%.180s already has a recording", dir->path);
    /* On a full disk, closing the file fails with IO. */
    return rc < 0
               ? gsp_err_set(err, rc == GSP_E_IO ? GSP_E_NOWRITE : rc, cause.sys, "%s", cause.msg)
               : GSP_OK;
}

/* The handle has no name to show. */
static int set_name(struct gsp_run_dir *dir, struct gsp_err *err)
{
    const struct gsp_sv name = gsp_store_run_name(dir->path);
    dir->name = strndup(name.p, name.len);
    dir->about.name = dir->name;
    return dir->name ? GSP_OK : gsp_err_nomem(err);
}

static void release(struct gsp_run_dir *dir)
{
    if (dir->handle[0])
        close(dir->fd);
    dir->handle[0] = '\0';
}

int gsp_record_run_dir_create(struct gsp_run_dir *dir, const struct gsp_run_dir_opts *opts,
                              struct gsp_err *err)
{
    *dir = (struct gsp_run_dir){.path = ""};
    int rc = describe(dir, opts, err);
    if (rc == GSP_OK)
        rc = opts->name || opts->output ? make_named(dir, opts, err)
                                        : make_unnamed(dir, opts->argv, err);
    if (rc == GSP_OK)
        rc = set_name(dir, err);
    if (rc == GSP_OK)
        rc = claim(dir, err);
    if (rc < 0)
        release(dir);
    if (rc < 0 && rc != GSP_E_EXISTS && dir->was_made)
        rmdir(dir->path);
    if (rc < 0)
        dir->path[0] = '\0';
    return rc;
}

void gsp_record_run_dir_discard(struct gsp_run_dir *dir)
{
    if (!dir->path[0])
        return;
    gsp_store_run_remove_files(dir->handle);
    release(dir);
    if (dir->was_made && rmdir(dir->path) == 0 && gsp_sv_starts(gsp_sv_of(dir->path), RUNS))
        rmdir(GSP_RUNS_FOLDER); /* fails if it has other runs */
    dir->path[0] = '\0';
}

void gsp_record_run_dir_free(struct gsp_run_dir *dir)
{
    release(dir);
    free(dir->command);
    free(dir->name);
    *dir = (struct gsp_run_dir){.path = ""};
}

void gsp_record__run_dir_name_error(const char *handle, const char *path, struct gsp_err *err)
{
    char msg[sizeof(err->msg)];
    const bool differs = path && handle[0] && strcmp(path, handle) != 0;
    const char *at = err && differs ? strstr(err->msg, handle) : NULL;
    if (!at)
        return;
    snprintf(msg, sizeof(msg), "%.*s%.160s%s", (int)(at - err->msg), err->msg, path,
             at + strlen(handle));
    memcpy(err->msg, msg, sizeof(msg));
}
