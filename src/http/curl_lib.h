/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curl_lib.h -- libcurl, loaded by the first request.
 *
 * With all that it links it takes 20 ms to load, and most commands ask nobody.
 * Used by: http/client.c.
 * Threads: any.
 */
#pragma once

/* The checks of its macros call the functions by their names, which are not linked. */
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

/* Of each function a pointer, with the type that the header gives it. */
struct gsp_curl {
#define GSP_CURL_MEMBER(name) __typeof__ (&curl_##name)(name);
    GSP_CURL_FUNCTIONS(GSP_CURL_MEMBER)
#undef GSP_CURL_MEMBER
};

/* Borrowed, good for ever.  Fails with NOTSUP when there is no libcurl here. */
GSP_MUST_CHECK int gsp_http__curl(const struct gsp_curl **out, struct gsp_err *err);
