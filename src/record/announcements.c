/* SPDX-License-Identifier: Apache-2.0 */
#include "record/announcements.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

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

/* Reads what is at an offset below the limit. */
static ssize_t read_part(int fd, size_t offset, char *text, size_t max)
{
    const size_t left = offset < GSP_ANNOUNCED_BYTES_MAX ? GSP_ANNOUNCED_BYTES_MAX - offset : 0;
    return fd < 0 || left == 0 ? 0 : gsp_fd_read_at(fd, text, left < max ? left : max, offset);
}

int gsp_record__announcements_next(int fd, size_t *offset, gsp_announcement_fn *fn, void *user,
                                   struct gsp_err *err)
{
    char text[4096];
    int rc = GSP_OK;
    ssize_t n = read_part(fd, *offset, text, sizeof(text));
    while (rc == GSP_OK && n > 0) {
        size_t whole = (size_t)n;
        rc = read_lines(text, &whole, fn, user, err);
        /* Skips a line that is longer than the buffer. */
        if (rc == GSP_OK && whole == 0 && (size_t)n == sizeof(text))
            whole = sizeof(text);
        *offset += whole;
        n = whole > 0 ? read_part(fd, *offset, text, sizeof(text)) : 0;
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

/* Appends the file to *text. */
static void read_file(int fd, struct gsp_buf *text)
{
    char part[4096];
    ssize_t n = 0;
    while ((n = read_part(fd, text->len, part, sizeof(part))) > 0 && !text->failed)
        gsp_buf_put(text, part, (size_t)n);
}

void gsp_record_announcements_read(int fd, pid_t program, struct gsp_announcements *out)
{
    *out = (struct gsp_announcements){.cause = GSP_ANNOUNCED_NONE};
    gsp_auto_buf text = {0};
    read_file(fd, &text);
    struct gsp_sv rest = gsp_buf_sv(&text);
    struct gsp_sv line;
    while (rest.p && gsp_sv_split(&rest, '\n', &line))
        parse_line(line, out);
    add_pid(out, program);
}
