/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mhd_lib.h -- libmicrohttpd, loaded by the first server.
 *
 * Threads: any, once gsp_http__mhd_load() has succeeded.
 */
#pragma once

#include <microhttpd.h>

#include "base/attr.h"
#include "base/err.h"

#define GSP_MHD_FUNCTIONS(X)                                                                       \
    X(add_response_header)                                                                         \
    X(create_response_from_buffer)                                                                 \
    X(create_response_from_callback)                                                               \
    X(create_response_from_fd64)                                                                   \
    X(destroy_response)                                                                            \
    X(get_connection_info)                                                                         \
    X(get_connection_values)                                                                       \
    X(get_version)                                                                                 \
    X(lookup_connection_value)                                                                     \
    X(queue_response)                                                                              \
    X(quiesce_daemon)                                                                              \
    X(resume_connection)                                                                           \
    X(start_daemon)                                                                                \
    X(stop_daemon)                                                                                 \
    X(suspend_connection)

/* A pointer to each function. */
struct gsp_mhd {
#define GSP_MHD_MEMBER(name) __typeof__ (&MHD_##name)(name);
    GSP_MHD_FUNCTIONS(GSP_MHD_MEMBER)
#undef GSP_MHD_MEMBER
};

extern struct gsp_mhd gsp_http__mhd;

/* Fails with NOTSUP if libmicrohttpd is not installed. */
GSP_MUST_CHECK int gsp_http__mhd_load(struct gsp_err *err);
