/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/events.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/lock.h"

/* How long a reader may keep a pipe full before gsprof stops reporting. */
#define PATIENCE_MS 100

static struct gsp_lock lock; /* keeps lines apart */
static int events_fd = -1;

int gsp_cli__events_open(int fd, struct gsp_err *err)
{
    if (fd < 0)
        return GSP_OK;
    if (fd <= STDERR_FILENO)
        return gsp_err_set(err, GSP_E_USAGE, 0,
                           "--ready-fd must be at least 3: 0 to 2 are the standard streams");
    /* A started program must not inherit the descriptor: the reader would not see its end. */
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return gsp_err_set(err, GSP_E_USAGE, errno, "--ready-fd %d is not an open descriptor", fd);
    events_fd = fd;
    return GSP_OK;
}

void gsp_cli__events_close(void)
{
    gsp_lock_take(&lock);
    gsp_fd_close(&events_fd);
    events_fd = -1;
    gsp_lock_release(&lock);
}

static void begin(struct gsp_json *json, struct gsp_buf *line, const char *event)
{
    gsp_json_init(json, line);
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "event", event);
}

/* Writes a line without blocking for long: a pipe that polls as writable has room for PIPE_BUF
 * bytes. */
static bool write_parts(const char *p, size_t len)
{
    struct pollfd ready = {.fd = events_fd, .events = POLLOUT};
    while (len > 0) {
        const size_t part = len < PIPE_BUF ? len : PIPE_BUF;
        const int found = poll(&ready, 1, PATIENCE_MS);
        if (found < 0 && errno == EINTR)
            continue;
        if (found <= 0 || gsp_fd_write_all(events_fd, p, part, NULL) < 0)
            return false;
        p += part;
        len -= part;
    }
    return true;
}

/* A reader that is gone or does not read is not an error, and SIGPIPE must not kill the command. */
static void write_line(const struct gsp_buf *line)
{
    const struct timespec now = {0};
    sigset_t pipe_signal;
    sigset_t old;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &old);
    if (!write_parts(line->p, line->len)) {
        sigtimedwait(&pipe_signal, NULL, &now);
        events_fd = -1;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void end(struct gsp_json *json, struct gsp_buf *line)
{
    gsp_json_obj_end(json);
    gsp_buf_putc(line, '\n');
    gsp_lock_take(&lock);
    if (events_fd >= 0 && !line->failed)
        write_line(line);
    gsp_lock_release(&lock);
}

void gsp_cli__events_ready_pid(pid_t pid)
{
    gsp_auto_buf line = {0};
    struct gsp_json json;
    begin(&json, &line, "ready");
    gsp_json_put_i64(&json, "pid", pid);
    end(&json, &line);
}

void gsp_cli__events_ready_address(const char *address)
{
    gsp_auto_buf line = {0};
    struct gsp_json json;
    begin(&json, &line, "ready");
    gsp_json_put_str(&json, "address", address);
    end(&json, &line);
}

void gsp_cli__events_warning(struct gsp_sv message)
{
    gsp_auto_buf line = {0};
    struct gsp_json json;
    begin(&json, &line, "warning");
    gsp_json_put_sv(&json, "message", message);
    end(&json, &line);
}

void gsp_cli__events_error(const struct gsp_err *err, struct gsp_sv message)
{
    gsp_auto_buf line = {0};
    struct gsp_json json;
    begin(&json, &line, "error");
    gsp_json_put_str(&json, "code", gsp_err_name(err->code));
    gsp_json_put_sv(&json, "message", message);
    end(&json, &line);
}

void gsp_cli__events_done(int64_t samples, const char *output)
{
    gsp_auto_buf line = {0};
    struct gsp_json json;
    begin(&json, &line, "done");
    if (samples >= 0)
        gsp_json_put_i64(&json, "samples", samples);
    if (output)
        gsp_json_put_str(&json, "output", output);
    end(&json, &line);
}
