/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curl_lib.h -- libcurl, loaded by the first request.
 *
 * Loading it and its dependencies takes 20 ms, and most commands send no request.
 * Threads: any.
 */
#pragma once

/* The type checks of curl.h call functions that are not linked. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

#include "base/attr.h"
#include "base/err.h"

#define GSP_CURL_FUNCTIONS(X)                                                                      \
    X(global_init)                                                                                 \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_perform)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_cleanup)                                                                                \
    X(easy_strerror)                                                                               \
    X(slist_append)                                                                                \
    X(slist_free_all)

/* A pointer to each function. */
struct gsp_curl {
#define GSP_CURL_MEMBER(name) __typeof__ (&curl_##name)(name);
    GSP_CURL_FUNCTIONS(GSP_CURL_MEMBER)
#undef GSP_CURL_MEMBER
};

/* *out stays valid until the process ends. Fails with NOTSUP if libcurl is not installed. */
GSP_MUST_CHECK int gsp_http__curl_load(const struct gsp_curl **out, struct gsp_err *err);
