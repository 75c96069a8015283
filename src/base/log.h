/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h -- log messages of the libraries, passed to a sink that main sets.
 *
 * Without a sink, messages are dropped. A library never writes to stderr.
 * Threads: set the sink once, before other threads start.
 */
#pragma once

#include "base/attr.h"

enum gsp_log_level { GSP_LOG_WARN, GSP_LOG_INFO, GSP_LOG_DEBUG };

typedef void gsp_log_sink(enum gsp_log_level level, const char *domain, const char *line);

void gsp_log_set_sink(gsp_log_sink *sink, enum gsp_log_level max);

/* The domain is the name of the folder: "proc", "py", "sample". */
void gsp_log(enum gsp_log_level level, const char *domain, const char *fmt, ...) GSP_PRINTF(3, 4);

#define gsp_log_warn(domain, ...)  gsp_log(GSP_LOG_WARN, (domain), __VA_ARGS__)
#define gsp_log_info(domain, ...)  gsp_log(GSP_LOG_INFO, (domain), __VA_ARGS__)
#define gsp_log_debug(domain, ...) gsp_log(GSP_LOG_DEBUG, (domain), __VA_ARGS__)
