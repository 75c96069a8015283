/* SPDX-License-Identifier: Apache-2.0 */
#include "http/curl_lib.h"

#include <pthread.h>
#include <stdbool.h>

#include "http/load_library.h"

static struct {
    pthread_once_t once;
    bool ready;
    struct gsp_curl curl;
    char why[160];
} loaded = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    /* Distributions build libcurl with different TLS libraries; gsprof does not use TLS. */
    static const char *const NAMES[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4",
                                        NULL};
    static const struct gsp_library_function FUNCTIONS[] = {
#define GSP_CURL_ROW(name) {"curl_" #name, offsetof(struct gsp_curl, name)},
        GSP_CURL_FUNCTIONS(GSP_CURL_ROW)
#undef GSP_CURL_ROW
    };
    loaded.ready =
        gsp_http__library_load(NAMES, FUNCTIONS, GSP_COUNT(FUNCTIONS), &loaded.curl, loaded.why) &&
        loaded.curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int gsp_http__curl_load(const struct gsp_curl **out, struct gsp_err *err)
{
    pthread_once(&loaded.once, load);
    if (!loaded.ready)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "cannot load libcurl: %s",
                           loaded.why[0] ? loaded.why : "initialization failed");
    *out = &loaded.curl;
    return GSP_OK;
}
