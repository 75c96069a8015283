/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h -- the list of all errors, and the struct that describes one.
 *
 * Gives:   GSP_E_* codes, their exit status, HTTP status and text.
 * Threads: a struct gsp_err belongs to its caller.
 *
 * A function that can fail returns 0 or a negative GSP_E_* and fills an optional
 * struct gsp_err. The message is a fact; advice is in cli/hint*.c and
 * daemon/hints.c only.
 */
#pragma once

#include "base/attr.h"

/* name, code, exit status (sysexits), HTTP status, text */
#define GSP_ERR_MAP(X)                                                                             \
    X(NOMEM, -1, 70, 503, "out of memory")                                                         \
    X(IO, -2, 74, 500, "input or output failed")                                                   \
    X(USAGE, -3, 64, 400, "invalid usage")                                                         \
    X(PERM, -4, 77, 403, "not permitted to read the target process")                               \
    X(NOPROC, -5, 69, 404, "no such process")                                                      \
    X(NOTPY, -6, 69, 422, "not a Python process")                                                  \
    X(VERSION, -7, 69, 422, "unsupported Python version")                                          \
    X(FORMAT, -8, 65, 422, "malformed data")                                                       \
    X(TORN, -9, 75, 409, "the target changed during the read")                                     \
    X(LIMIT, -10, 65, 413, "limit exceeded")                                                       \
    X(EXISTS, -11, 73, 409, "already exists")                                                      \
    X(NOFILE, -12, 66, 404, "no such file")                                                        \
    X(NOWRITE, -13, 73, 403, "cannot write")                                                       \
    X(FAULT, -14, 75, 409, "cannot read an address in the target")                                 \
    X(TIMEOUT, -15, 75, 504, "timed out")                                                          \
    X(NOTSUP, -16, 69, 501, "not supported on this system")                                        \
    X(EMPTY, -17, 1, 422, "nothing was recorded")                                                  \
    X(NOEXEC, -18, 127, 422, "cannot start the program")                                           \
    X(INTR, -19, 130, 499, "interrupted")                                                          \
    X(STARTING, -20, 75, 409, "the interpreter has not started yet")

enum gsp_err_code {
    GSP_OK = 0,
#define GSP_ERR_ENUM(name, code, exit_status, http, text) GSP_E_##name = (code),
    GSP_ERR_MAP(GSP_ERR_ENUM)
#undef GSP_ERR_ENUM
};

/* The cause of an error, where a code has several and the advice depends on it. */
enum gsp_err_reason {
    GSP_REASON_NONE,
    GSP_REASON_SECCOMP,   /* the target has a seccomp filter */
    GSP_REASON_TRANSFER,  /* the target sends or receives data, and a stop would cut that short */
    GSP_REASON_NAMESPACE, /* the target sees other files than this process */
    GSP_REASON_TOKEN,     /* the server's token is missing or unusable */
    GSP_REASON_FOLDER,    /* a folder of the server cannot be used */
    GSP_REASON_CONTROL,   /* the daemon runs without --allow-control */
    GSP_REASON_SHARE,     /* clients without trust have used their share */
    GSP_REASON_LISTENER,  /* another user listens on the port */
};

struct gsp_err {
    int code;                   /* GSP_E_*; GSP_OK on success */
    int sys;                    /* the errno behind it, or 0 */
    enum gsp_err_reason reason; /* GSP_REASON_NONE unless set after gsp_err_fill() */
    char msg[240];              /* one line, no full stop, no command names */
};

/* Fills *err, which may be NULL. Preserves errno. */
void gsp_err_fill(struct gsp_err *err, int code, int sys, const char *fmt, ...) GSP_PRINTF(4, 5);

/* Returns code: return gsp_err_set(...). This is a macro so that compilers and analyzers see
 * that the value is negative. */
#define gsp_err_set(err, code, sys, ...) (gsp_err_fill((err), (code), (sys), __VA_ARGS__), (code))

/* Sets the reason of *err, which may be NULL. */
static inline void gsp_err_set_reason(struct gsp_err *err, enum gsp_err_reason reason)
{
    if (err)
        err->reason = reason;
}

/* Reports that memory ran out: return gsp_err_nomem(err). */
#define gsp_err_nomem(err) gsp_err_set((err), GSP_E_NOMEM, 0, "out of memory")

/* Properties of a code. The texts are borrowed and never NULL. */
const char *gsp_err_name(int code); /* "PERM" */
const char *gsp_err_text(int code); /* "not permitted to read the target process" */
int gsp_err_exit_status(int code);  /* 77; 0 for GSP_OK, 70 for an unknown code */
int gsp_err_http_status(int code);  /* 403 */
