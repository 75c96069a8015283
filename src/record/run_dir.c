/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "base/time.h"
#include "store/drain.h"
#include "wire/table.h"

/* Runs of one program that begin in one second. */
#define NUMBERS_MAX 1000
/* Of a name that is taken from the program. */
#define NAME_MAX_   64U
#define RUNS        GSP_RUNS_FOLDER "/"

/* ------------------------------------------------------------------------------------- name */

static bool is_python(struct gsp_sv name)
{
    return gsp_sv_starts(name, "python") || gsp_sv_starts(name, "pypy");
}

/* Options of the interpreter whose value is a word of its own. */
static bool takes_word(const char *option)
{
    return strcmp(option, "-W") == 0 || strcmp(option, "-X") == 0 ||
           strcmp(option, "--check-hash-based-pycs") == 0;
}

/* What the user calls the program: an interpreter's script or module, else the program itself. */
static struct gsp_sv program_of(char *const *argv)
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
        if (takes_word(argv[i]) && !argv[++i])
            break;
    }
    return name;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

void gsp_run_place_name(char *const *argv, int64_t now_ns, struct gsp_buf *out)
{
    struct gsp_sv name = program_of(argv);
    const time_t seconds = (time_t)(now_ns / GSP_NS_PER_S);
    struct tm local = {0};
    char when[32] = "";
    if (gsp_sv_ends(name, ".py"))
        name.len -= 3;
    if (name.len > NAME_MAX_)
        name.len = NAME_MAX_;
    for (size_t i = 0; i < name.len; i++) {
        const bool fits = is_plain(name.p[i]) && (i > 0 || name.p[i] != '.');
        gsp_buf_putc(out, fits ? name.p[i] : '_');
    }
    if (localtime_r(&seconds, &local))
        strftime(when, sizeof(when), "-%Y%m%d-%H%M%S", &local);
    gsp_buf_puts(out, name.len ? when : "run");
}

/* ------------------------------------------------------------------------------------ folder */

static int describe(struct gsp_run_place *place, const struct gsp_run_place_opts *opts,
                    struct gsp_err *err)
{
    struct gsp_buf command = {0};
    struct utsname system;
    for (size_t i = 0; opts->argv[i]; i++) {
        gsp_buf_puts(&command, i ? " " : "");
        gsp_buf_shell(&command, gsp_sv_of(opts->argv[i]));
    }
    if (!gsp_buf_cstr(&command))
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    place->command = command.p;
    gsp_ignore(gethostname(place->host, sizeof(place->host) - 1) < 0);
    if (uname(&system) == 0)
        snprintf(place->kernel, sizeof(place->kernel), "%.60s %.80s %.60s", system.sysname,
                 system.release, system.machine);
    const bool has_cwd = getcwd(place->cwd, sizeof(place->cwd)) != NULL;
    place->about = (struct gsp_run_meta){.host = place->host[0] ? place->host : NULL,
                                         .command = place->command,
                                         .state = GSP_RUN_RUNNING,
                                         .argv = opts->argv,
                                         .cwd = has_cwd ? place->cwd : NULL,
                                         .kernel = place->kernel,
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
                           "cannot make the folder " GSP_RUNS_FOLDER ": %s", strerror(errno));
    return GSP_OK;
}

/* The folders above an output that was asked for.  What fails here fails again at the folder
 * itself, which says why. */
static void make_parents(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        gsp_ignore(mkdir(path, 0777) < 0);
        *at = '/';
    }
}

/* The first of its names that is free. */
static int make_unnamed(struct gsp_run_place *place, char *const *argv, struct gsp_err *err)
{
    gsp_auto_buf name = {0};
    gsp_run_place_name(argv, place->about.start_ns, &name);
    const char *text = gsp_buf_cstr(&name);
    int rc = text ? make_runs_folder(err) : gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    for (int i = 1; rc == GSP_OK && i < NUMBERS_MAX; i++) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof(number), "-%d", i);
        snprintf(place->path, sizeof(place->path), RUNS "%s%s", text, number);
        if (mkdir(place->path, 0777) == 0) {
            place->was_made = true;
            return GSP_OK;
        }
        if (errno != EEXIST)
            rc = gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot make the folder %.160s: %s",
                             place->path, strerror(errno));
    }
    return rc < 0 ? rc
                  : gsp_err_set(err, GSP_E_EXISTS, 0, "every name for the run is taken: %.160s",
                                place->path);
}

/* What was there goes, unless somebody is writing it. */
static int clear(const char *path, struct gsp_err *err)
{
    struct gsp_drain *drain = NULL;
    struct gsp_err cause = {0};
    const int rc = gsp_store_drain_open(path, NULL, &drain, &cause);
    gsp_store_drain_close(drain);
    if (rc == GSP_E_EXISTS || rc == GSP_E_NOWRITE)
        return gsp_err_set(err, rc, cause.sys, "%s", cause.msg);
    gsp_store_run_remove_files(path);
    return GSP_OK;
}

static int make_named(struct gsp_run_place *place, const struct gsp_run_place_opts *opts,
                      struct gsp_err *err)
{
    const char *name = opts->name;
    int rc = GSP_OK;
    if (name && (strchr(name, '/') || name[0] == '.' || !name[0]))
        return gsp_err_set(err, GSP_E_USAGE, 0, "--name: a name, not a path: %.100s", name);
    if (opts->output)
        snprintf(place->path, sizeof(place->path), "%s", opts->output);
    else
        snprintf(place->path, sizeof(place->path), RUNS "%s", name);
    if (opts->output)
        make_parents(place->path);
    else
        rc = make_runs_folder(err);
    place->was_made = access(place->path, F_OK) != 0;
    if (rc == GSP_OK)
        rc = gsp_store_run_create(place->path, opts->force, err);
    return rc == GSP_OK && opts->force ? clear(place->path, err) : rc;
}

/* Whose meta.json is there first has the folder. */
static int claim(const struct gsp_run_place *place, struct gsp_err *err)
{
    struct gsp_err cause = {0};
    const int rc = gsp_store_run_write_meta(place->path, &place->about, false, &cause);
    if (rc == GSP_E_EXISTS)
        return gsp_err_set(err, rc, 0, "there is a recording in %.180s already", place->path);
    /* A full disk fails when the file is closed. */
    return rc < 0
               ? gsp_err_set(err, rc == GSP_E_IO ? GSP_E_NOWRITE : rc, cause.sys, "%s", cause.msg)
               : GSP_OK;
}

int gsp_run_place_make(struct gsp_run_place *place, const struct gsp_run_place_opts *opts,
                       struct gsp_err *err)
{
    *place = (struct gsp_run_place){.path = ""};
    int rc = describe(place, opts, err);
    if (rc == GSP_OK)
        rc = opts->name || opts->output ? make_named(place, opts, err)
                                        : make_unnamed(place, opts->argv, err);
    if (rc == GSP_OK)
        rc = claim(place, err);
    if (rc < 0 && rc != GSP_E_EXISTS && place->was_made)
        rmdir(place->path);
    if (rc < 0)
        place->path[0] = '\0';
    return rc;
}

void gsp_run_place_discard(struct gsp_run_place *place)
{
    if (!place->path[0])
        return;
    gsp_store_run_remove_files(place->path);
    if (place->was_made && rmdir(place->path) == 0 && gsp_sv_starts(gsp_sv_of(place->path), RUNS))
        rmdir(GSP_RUNS_FOLDER); /* stays if other runs are in it */
    place->path[0] = '\0';
}

void gsp_run_place_free(struct gsp_run_place *place)
{
    free(place->command);
    *place = (struct gsp_run_place){.path = ""};
}
