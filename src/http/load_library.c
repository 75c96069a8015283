/* SPDX-License-Identifier: Apache-2.0 */
#include "http/load_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool gsp_http__library_load(const char *const *names, const struct gsp_library_function *functions,
                            size_t count, void *table, char why[160])
{
    void *lib = NULL;
    for (size_t i = 0; !lib && names[i]; i++)
        lib = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    if (!lib) {
        snprintf(why, 160, "%s is not installed", names[0]);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(lib, functions[i].name);
        if (!symbol) {
            snprintf(why, 160, "%s lacks %s", names[0], functions[i].name);
            return false;
        }
        memcpy((char *)table + functions[i].offset, &symbol, sizeof(symbol));
    }
    return true;
}
