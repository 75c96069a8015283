/* SPDX-License-Identifier: Apache-2.0 */
#include "http/curl_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct {
    pthread_once_t once;
    bool ready;
    struct gsp_curl curl;
    char why[160];
} loaded = {.once = PTHREAD_ONCE_INIT};

static bool find_functions(void *lib)
{
    static const struct {
        const char *name;
        size_t offset;
    } FUNCTIONS[] = {
#define GSP_CURL_ROW(name) {"curl_" #name, offsetof(struct gsp_curl, name)},
        GSP_CURL_FUNCTIONS(GSP_CURL_ROW)
#undef GSP_CURL_ROW
    };
    for (size_t i = 0; i < GSP_COUNT(FUNCTIONS); i++) {
        void *symbol = dlsym(lib, FUNCTIONS[i].name);
        if (!symbol) {
            snprintf(loaded.why, sizeof(loaded.why), "libcurl lacks %s", FUNCTIONS[i].name);
            return false;
        }
        memcpy((char *)&loaded.curl + FUNCTIONS[i].offset, &symbol, sizeof(symbol));
    }
    return true;
}

static void load(void)
{
    /* Distributions have it with one of several libraries for TLS, which is not used here. */
    static const char *const NAMES[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};
    void *lib = NULL;
    for (size_t i = 0; !lib && i < GSP_COUNT(NAMES); i++)
        lib = dlopen(NAMES[i], RTLD_LAZY | RTLD_LOCAL);
    if (!lib) {
        snprintf(loaded.why, sizeof(loaded.why), "libcurl.so.4 is not installed");
        return;
    }
    loaded.ready = find_functions(lib) && loaded.curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int gsp_http__curl(const struct gsp_curl **out, struct gsp_err *err)
{
    pthread_once(&loaded.once, load);
    if (!loaded.ready)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "no HTTP can be spoken: %s",
                           loaded.why[0] ? loaded.why : "libcurl does not start");
    *out = &loaded.curl;
    return GSP_OK;
}
