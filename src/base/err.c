/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct row {
    int code;
    int exit_status;
    int http_status;
    const char *name;
    const char *text;
};

#define ROW(name, code, exit_status, http, text) {(code), (exit_status), (http), #name, (text)},
static const struct row ROWS[] = {{GSP_OK, 0, 200, "OK", "success"}, GSP_ERR_MAP(ROW)};
#undef ROW

static const struct row UNKNOWN = {0, 70, 500, "UNKNOWN", "unknown error"};

static const struct row *find(int code)
{
    for (size_t i = 0; i < GSP_COUNT(ROWS); i++)
        if (ROWS[i].code == code)
            return &ROWS[i];
    return &UNKNOWN;
}

void gsp_err_fill(struct gsp_err *err, int code, int sys, const char *fmt, ...)
{
    if (!err)
        return;
    int saved = errno;
    err->code = code;
    err->sys = sys;
    err->reason = GSP_REASON_NONE;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, args);
    va_end(args);
    errno = saved;
}

const char *gsp_err_name(int code)
{
    return find(code)->name;
}

const char *gsp_err_text(int code)
{
    return find(code)->text;
}

int gsp_err_exit_status(int code)
{
    return find(code)->exit_status;
}

int gsp_err_http_status(int code)
{
    return find(code)->http_status;
}
