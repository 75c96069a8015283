/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/package_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

#define PROBE "gsprof/__init__.py"

/* Relative to the folder of the program. */
static const char *const FOLDERS[] = {
    "../lib/gsprof/python", /* installed */
    "../../python",         /* in a build folder */
};

static bool has_package(const char *folder)
{
    char probe[GSP_PACKAGE_DIR_MAX + sizeof(PROBE) + 1];
    const int len = snprintf(probe, sizeof(probe), "%s/" PROBE, folder);
    return len > 0 && (size_t)len < sizeof(probe) && access(probe, R_OK) == 0;
}

static bool find_program(char out[GSP_PACKAGE_DIR_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", out, GSP_PACKAGE_DIR_MAX - 1);
    if (n <= 0)
        return false;
    out[n] = '\0';
    return true;
}

static bool find_relative(char *program, char out[GSP_PACKAGE_DIR_MAX])
{
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < GSP_COUNT(FOLDERS); i++) {
        char folder[GSP_PACKAGE_DIR_MAX];
        const int len = snprintf(folder, sizeof(folder), "%s/%s", program, FOLDERS[i]);
        if (len <= 0 || (size_t)len >= sizeof(folder) || !has_package(folder))
            continue;
        /* Without "..": the path is visible in tracebacks. */
        char *real = realpath(folder, NULL);
        const bool fits = real && strlen(real) < GSP_PACKAGE_DIR_MAX;
        if (fits)
            memcpy(out, real, strlen(real) + 1);
        free(real);
        return fits;
    }
    return false;
}

int gsp_inject__package_dir_find(char out[GSP_PACKAGE_DIR_MAX], struct gsp_err *err)
{
    const char *given = getenv("GSPROF_PYTHON_DIR");
    if (given && *given) {
        if (strlen(given) >= GSP_PACKAGE_DIR_MAX || !has_package(given))
            return gsp_err_set(err, GSP_E_NOFILE, 0, "GSPROF_PYTHON_DIR=%.150s has no " PROBE,
                               given);
        memcpy(out, given, strlen(given) + 1);
        return GSP_OK;
    }
    char program[GSP_PACKAGE_DIR_MAX];
    if (!find_program(program))
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read /proc/self/exe: %s", strerror(errno));
    if (find_relative(program, out))
        return GSP_OK;
    return gsp_err_set(err, GSP_E_NOFILE, 0,
                       "cannot find the Python package: no " PROBE
                       " in ../lib/gsprof/python relative to the program");
}

static void set_env(const char *name, const char *value, bool replace)
{
    gsp_ignore(setenv(name, value, replace) < 0);
}

int gsp_inject_package_set_env(char out[GSP_PACKAGE_DIR_MAX], struct gsp_err *err)
{
    gsp_auto_buf path = {0};
    const char *old = getenv("PYTHONPATH");
    int rc = gsp_inject__package_dir_find(out, err);
    if (rc < 0)
        return rc;
    gsp_buf_printf(&path, "%s/start", out);
    if (old && *old)
        gsp_buf_printf(&path, ":%s", old);
    const char *text = gsp_buf_cstr(&path);
    if (!text)
        return gsp_err_nomem(err);
    char pid[16];
    char program[GSP_PACKAGE_DIR_MAX];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    set_env("PYTHONPATH", text, true);
    set_env("GSPROF", "nested", false);
    set_env("GSPROF_FOLLOWED", pid, true);
    if (find_program(program))
        set_env("GSPROF_PROGRAM", program, false);
    return GSP_OK;
}
