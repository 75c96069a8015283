/* SPDX-License-Identifier: Apache-2.0 */
#include "record/announcements.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

#define FILE_MAX ((size_t)1 << 20)

static const struct {
    const char *word;
    enum gsp_run_cause cause;
} causes[] = {
    {"load", GSP_RUN_NOT_LOADED},
    {"old", GSP_RUN_TOO_OLD},
    {"rings", GSP_RUN_NO_RINGS},
    {"torch", GSP_RUN_NO_TORCH},
};

static void add_pid(struct gsp_run_told *told, pid_t pid)
{
    for (size_t i = 0; i < told->count; i++)
        if (told->pids[i] == pid)
            return;
    if (told->count < GSP_RUN_PIDS_MAX)
        told->pids[told->count++] = pid;
}

static enum gsp_run_cause cause_of(struct gsp_sv word)
{
    for (size_t i = 0; i < GSP_COUNT(causes); i++)
        if (gsp_sv_eq(word, gsp_sv_of(causes[i].word)))
            return causes[i].cause;
    return GSP_RUN_FINE;
}

pid_t gsp_run_told_pid(struct gsp_sv line)
{
    struct gsp_sv part;
    char word[16] = "";
    int64_t pid = 0;
    if (!gsp_sv_split(&line, ' ', &part) || part.len == 0 || part.len >= sizeof(word))
        return 0;
    memcpy(word, part.p, part.len);
    return gsp_parse_i64(word, 1, INT32_MAX, &pid, NULL) < 0 ? 0 : (pid_t)pid;
}

/* Takes the lines that are whole; *len becomes how many bytes they have. */
static int take_lines(const char *text, size_t *len, gsp_run_told_take *take, void *user,
                      struct gsp_err *err)
{
    struct gsp_sv rest = {text, *len};
    const char *end = NULL;
    int rc = GSP_OK;
    while (rc == GSP_OK && rest.len > 0 && (end = memchr(rest.p, '\n', rest.len))) {
        const struct gsp_sv line = {rest.p, (size_t)(end - rest.p)};
        const pid_t pid = gsp_run_told_pid(line);
        rc = pid ? take(user, pid, !memchr(line.p, ' ', line.len), err) : GSP_OK;
        rest = (struct gsp_sv){end + 1, rest.len - line.len - 1};
    }
    *len -= rest.len;
    return rc;
}

int gsp_run_told_next(const char *path, size_t *taken, gsp_run_told_take *take, void *user,
                      struct gsp_err *err)
{
    char text[4096];
    int rc = GSP_OK;
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text), (off_t)*taken);
    while (rc == GSP_OK && n > 0) {
        size_t whole = (size_t)n;
        rc = take_lines(text, &whole, take, user, err);
        /* A line that is longer than any of ours is passed over, a piece at a time. */
        if (rc == GSP_OK && whole == 0 && (size_t)n == sizeof(text))
            whole = sizeof(text);
        *taken += whole;
        n = whole > 0 ? pread(fd, text, sizeof(text), (off_t)*taken) : 0;
    }
    return rc;
}

static void take_line(struct gsp_sv line, struct gsp_run_told *told)
{
    struct gsp_sv part;
    const pid_t pid = gsp_run_told_pid(line);
    if (!pid)
        return;
    told->inside = true;
    add_pid(told, pid);
    if (told->cause != GSP_RUN_FINE || !gsp_sv_split(&line, ' ', &part) ||
        !gsp_sv_split(&line, ' ', &part))
        return;
    gsp_auto_buf why = {0};
    told->cause = cause_of(part);
    told->faulty = pid;
    gsp_buf_term(&why, line);
    const char *text = gsp_buf_cstr(&why);
    snprintf(told->why, sizeof(told->why), "%s", text ? text : "");
}

void gsp_run_told_read(const char *path, pid_t program, struct gsp_run_told *out)
{
    *out = (struct gsp_run_told){.cause = GSP_RUN_FINE};
    gsp_auto_buf text = {0};
    if (gsp_file_read(path, FILE_MAX, &text, NULL) < 0)
        gsp_buf_clear(&text);
    struct gsp_sv rest = gsp_buf_sv(&text);
    struct gsp_sv line;
    while (rest.p && gsp_sv_split(&rest, '\n', &line))
        take_line(line, out);
    add_pid(out, program);
}
