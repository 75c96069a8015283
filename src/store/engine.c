/* SPDX-License-Identifier: Apache-2.0 */
#include "store/engine.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/lock.h"

#define LIBRARY           "libduckdb.so"
/* Older versions lack functions of engine.h or the setting allowed_paths. */
#define OLDEST_MAJOR      1
#define OLDEST_MINOR      4
/* With less address space DuckDB's threads crash on a failed allocation instead of reporting it. */
#define ADDRESS_SPACE_MIN (512ULL << 20)

static struct {
    struct gsp_lock lock;
    bool ready GSP_GUARDED_BY(lock);
    struct gsp_duckdb duck;
} engine;

/* Folders that may have the library, relative to the folder of the program. */
static const char *const folders[] = {
    "",                          /* beside the program */
    "../lib/gsprof/",            /* installed */
    "../../subprojects/duckdb/", /* in a build folder */
};

static void *open_near_program(void)
{
    char folder[3072];
    const ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    if (n <= 0)
        return NULL;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return NULL;
    slash[1] = '\0';
    for (size_t i = 0; i < GSP_COUNT(folders); i++) {
        char path[4096];
        const int len = snprintf(path, sizeof(path), "%s%s%s", folder, folders[i], LIBRARY);
        if (len > 0 && (size_t)len < sizeof(path) && access(path, R_OK) == 0) {
            void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
            if (lib)
                return lib;
        }
    }
    return NULL;
}

static int find_functions(void *lib, struct gsp_duckdb *duck, struct gsp_err *err)
{
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define GSP_DUCK_ROW(name) {"duckdb_" #name, offsetof(struct gsp_duckdb, name)},
        GSP_DUCK_FUNCTIONS(GSP_DUCK_ROW)
#undef GSP_DUCK_ROW
    };
    for (size_t i = 0; i < GSP_COUNT(functions); i++) {
        void *symbol = dlsym(lib, functions[i].name);
        if (!symbol) {
            return gsp_err_set(err, GSP_E_VERSION, 0, "the SQL engine (%s) lacks %s", LIBRARY,
                               functions[i].name);
        }
        memcpy((char *)duck + functions[i].offset, &symbol, sizeof(symbol));
    }
    return GSP_OK;
}

static int check_version(const struct gsp_duckdb *duck, struct gsp_err *err)
{
    const char *text = duck->library_version();
    const char *number = text && text[0] == 'v' ? text + 1 : "";
    int major = 0;
    int minor = 0;
    /* A development build has no number: assume that it is new enough. */
    if (sscanf(number, "%d.%d", &major, &minor) == 2 && /* NOLINT(cert-err34-c): checked below */
        (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR))) {
        return gsp_err_set(err, GSP_E_VERSION, 0,
                           "the SQL engine is DuckDB %s; %d.%d or newer is needed", text,
                           OLDEST_MAJOR, OLDEST_MINOR);
    }
    return GSP_OK;
}

static int check_address_space(struct gsp_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= ADDRESS_SPACE_MIN)
        return GSP_OK;
    return gsp_err_set(err, GSP_E_LIMIT, 0,
                       "the SQL engine needs %llu MiB of address space; the limit (ulimit -v) is "
                       "%llu",
                       ADDRESS_SPACE_MIN >> 20, (unsigned long long)limit.rlim_cur >> 20);
}

static int load(const char *path, struct gsp_duckdb *duck, struct gsp_err *err)
{
    const int space = check_address_space(err);
    if (space != GSP_OK)
        return space;
    void *lib = path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : open_near_program();
    if (!lib && !path)
        lib = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (!lib && path)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the SQL engine cannot be loaded: %s", dlerror());
    if (!lib) {
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the SQL engine (DuckDB) is not installed: no %s beside the program, in "
                           "../lib/gsprof or in the system's libraries",
                           LIBRARY);
    }
    int rc = find_functions(lib, duck, err);
    if (rc == GSP_OK)
        rc = check_version(duck, err);
    if (rc != GSP_OK)
        dlclose(lib);
    /* A usable library is never unloaded: its threads may still run. */
    return rc;
}

int gsp_store__engine_load(const char *path, const struct gsp_duckdb **out, struct gsp_err *err)
{
    *out = NULL;
    int rc = GSP_OK;
    gsp_lock_take(&engine.lock);
    if (!engine.ready) {
        rc = load(path, &engine.duck, err);
        engine.ready = rc == GSP_OK;
    }
    gsp_lock_release(&engine.lock);
    if (rc == GSP_OK)
        *out = &engine.duck;
    return rc;
}
