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
    enum gsp_announced_cause cause;
} causes[] = {
    {"load", GSP_ANNOUNCED_NOT_LOADED},
    {"old", GSP_ANNOUNCED_TOO_OLD},
    {"rings", GSP_ANNOUNCED_NO_RINGS},
    {"torch", GSP_ANNOUNCED_NO_TORCH},
};

static void add_pid(struct gsp_announcements *all, pid_t pid)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->pids[i] == pid)
            return;
    if (all->count < GSP_ANNOUNCED_PIDS_MAX)
        all->pids[all->count++] = pid;
}

static enum gsp_announced_cause cause_of(struct gsp_sv word)
{
    for (size_t i = 0; i < GSP_COUNT(causes); i++)
        if (gsp_sv_eq(word, gsp_sv_of(causes[i].word)))
            return causes[i].cause;
    return GSP_ANNOUNCED_NONE;
}

pid_t gsp_record__announcement_pid(struct gsp_sv line)
{
    struct gsp_sv part;
    char word[16] = "";
    int64_t pid = 0;
    if (!gsp_sv_split(&line, ' ', &part) || part.len == 0 || part.len >= sizeof(word))
        return 0;
    memcpy(word, part.p, part.len);
    return gsp_parse_i64(word, 1, INT32_MAX, &pid, NULL) < 0 ? 0 : (pid_t)pid;
}

/* Calls fn for each complete line; sets *len to their bytes. */
static int read_lines(const char *text, size_t *len, gsp_announcement_fn *fn, void *user,
                      struct gsp_err *err)
{
    struct gsp_sv rest = {text, *len};
    const char *end = NULL;
    int rc = GSP_OK;
    while (rc == GSP_OK && rest.len > 0 && (end = memchr(rest.p, '\n', rest.len))) {
        const struct gsp_sv line = {rest.p, (size_t)(end - rest.p)};
        const pid_t pid = gsp_record__announcement_pid(line);
        rc = pid ? fn(user, pid, !memchr(line.p, ' ', line.len), err) : GSP_OK;
        rest = (struct gsp_sv){end + 1, rest.len - line.len - 1};
    }
    *len -= rest.len;
    return rc;
}

int gsp_record__announcements_next(const char *path, size_t *offset, gsp_announcement_fn *fn,
                                   void *user, struct gsp_err *err)
{
    char text[4096];
    int rc = GSP_OK;
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text), (off_t)*offset);
    while (rc == GSP_OK && n > 0) {
        size_t whole = (size_t)n;
        rc = read_lines(text, &whole, fn, user, err);
        /* Skips a line that is longer than the buffer. */
        if (rc == GSP_OK && whole == 0 && (size_t)n == sizeof(text))
            whole = sizeof(text);
        *offset += whole;
        n = whole > 0 ? pread(fd, text, sizeof(text), (off_t)*offset) : 0;
    }
    return rc;
}

static void parse_line(struct gsp_sv line, struct gsp_announcements *all)
{
    struct gsp_sv part;
    const pid_t pid = gsp_record__announcement_pid(line);
    if (!pid)
        return;
    all->inside = true;
    add_pid(all, pid);
    if (all->cause != GSP_ANNOUNCED_NONE || !gsp_sv_split(&line, ' ', &part) ||
        !gsp_sv_split(&line, ' ', &part))
        return;
    gsp_auto_buf why = {0};
    all->cause = cause_of(part);
    all->faulty = pid;
    gsp_buf_term(&why, line);
    const char *text = gsp_buf_cstr(&why);
    snprintf(all->why, sizeof(all->why), "%s", text ? text : "");
}

void gsp_record_announcements_read(const char *path, pid_t program, struct gsp_announcements *out)
{
    *out = (struct gsp_announcements){.cause = GSP_ANNOUNCED_NONE};
    gsp_auto_buf text = {0};
    if (gsp_file_read(path, FILE_MAX, &text, NULL) < 0)
        gsp_buf_clear(&text);
    struct gsp_sv rest = gsp_buf_sv(&text);
    struct gsp_sv line;
    while (rest.p && gsp_sv_split(&rest, '\n', &line))
        parse_line(line, out);
    add_pid(out, program);
}
