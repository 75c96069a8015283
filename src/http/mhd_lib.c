/* SPDX-License-Identifier: Apache-2.0 */
#include "http/mhd_lib.h"

#include <pthread.h>
#include <stdbool.h>

#include "http/load_library.h"

struct gsp_mhd gsp_http__mhd;

static struct {
    pthread_once_t once;
    bool ready;
    char why[160];
} loaded = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    static const char *const NAMES[] = {"libmicrohttpd.so.12", "libmicrohttpd.so", NULL};
    static const struct gsp_library_function FUNCTIONS[] = {
#define GSP_MHD_ROW(name) {"MHD_" #name, offsetof(struct gsp_mhd, name)},
        GSP_MHD_FUNCTIONS(GSP_MHD_ROW)
#undef GSP_MHD_ROW
    };
    loaded.ready =
        gsp_http__library_load(NAMES, FUNCTIONS, GSP_COUNT(FUNCTIONS), &gsp_http__mhd, loaded.why);
}

int gsp_http__mhd_load(struct gsp_err *err)
{
    pthread_once(&loaded.once, load);
    return loaded.ready
               ? GSP_OK
               : gsp_err_set(err, GSP_E_NOTSUP, 0, "cannot load libmicrohttpd: %s", loaded.why);
}
