/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/events.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"

static int events_fd = -1;

void gsp_cli__events_set_fd(int fd)
{
    /* A started program must not inherit the descriptor: the reader would not see its end. */
    events_fd = fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
}

static void begin(struct gsp_json *json, struct gsp_buf *line, const char *event)
{
    gsp_json_init(json, line);
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "event", event);
}

/* A closed reader is not an error, and SIGPIPE must not kill the command. */
static void write_line(const struct gsp_buf *line)
{
    const struct timespec now = {0};
    sigset_t pipe_signal;
    sigset_t old;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &old);
    if (gsp_fd_write_all(events_fd, line->p, line->len, NULL) < 0)
        sigtimedwait(&pipe_signal, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void end(struct gsp_json *json, struct gsp_buf *line)
{
    gsp_json_obj_end(json);
    gsp_buf_putc(line, '\n');
    if (events_fd >= 0 && !line->failed)
        write_line(line);
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

void gsp_cli__events_done(uint64_t samples, const char *output)
{
    gsp_auto_buf line = {0};
    struct gsp_json json;
    begin(&json, &line, "done");
    gsp_json_put_u64(&json, "samples", samples);
    gsp_json_put_str(&json, "output", output);
    end(&json, &line);
}
