/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes.h -- callbacks for the HTTP server: answer a request by its method and path.
 *
 * ctx is the struct gsp_daemon.
 *
 * Threads: any, concurrently.
 */
#pragma once

#include <stdbool.h>

#include "http/server.h"

void gsp_daemon__routes_handle(void *ctx, const struct gsp_http_request *request,
                               struct gsp_http_answer *answer);
bool gsp_daemon__routes_is_slow(void *ctx, const char *method, const char *path);
bool gsp_daemon__routes_is_vital(void *ctx, const char *path);
void gsp_daemon__routes_admit(void *ctx, const struct gsp_http_request *request,
                              struct gsp_http_refusal *why);
