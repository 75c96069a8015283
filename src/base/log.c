/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static gsp_log_sink *the_sink;
static enum gsp_log_level max_level = GSP_LOG_WARN;

void gsp_log_set_sink(gsp_log_sink *sink, enum gsp_log_level max)
{
    the_sink = sink;
    max_level = max;
}

void gsp_log(enum gsp_log_level level, const char *domain, const char *fmt, ...)
{
    if (!the_sink || level > max_level)
        return;
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    the_sink(level, domain, line);
}
