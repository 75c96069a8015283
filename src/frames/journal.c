/* SPDX-License-Identifier: Apache-2.0 */
#include "frames/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"

#define FIRST_LINE    "gsprof-journal 1\n"
#define FIRST_LEN     (sizeof(FIRST_LINE) - 1)
#define CHECK_DIGITS  8U
#define JOURNAL_BYTES (1U << 30)

struct gsp_journal {
    char *path;
    int fd;
    int lock_fd; /* of a separate file, because rename replaces the journal */
    uint64_t size;
    size_t lines;

    struct gsp_lock lock;
    pthread_cond_t changed;                /* syncing is false again */
    uint64_t written GSP_GUARDED_BY(lock); /* bytes since it was opened; rewrites do not reset it */
    uint64_t synced GSP_GUARDED_BY(lock);
    bool syncing GSP_GUARDED_BY(lock); /* a thread is in fdatasync() */
};

/* Fields. */

static void put_field(struct gsp_buf *out, struct gsp_sv field)
{
    for (size_t i = 0; i < field.len; i++) {
        switch (field.p[i]) {
        case '\\':
            gsp_buf_puts(out, "\\\\");
            break;
        case '\t':
            gsp_buf_puts(out, "\\t");
            break;
        case '\n':
            gsp_buf_puts(out, "\\n");
            break;
        default:
            gsp_buf_putc(out, field.p[i]);
        }
    }
}

/* In place: the text does not grow. */
static size_t unescape(char *p, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] != '\\' || i + 1 == len) {
            p[n++] = p[i];
            continue;
        }
        i++;
        p[n++] = (char)(p[i] == 't' ? '\t' : p[i] == 'n' ? '\n' : p[i]);
    }
    return n;
}

static void check_text(char out[CHECK_DIGITS + 1], struct gsp_sv line)
{
    snprintf(out, CHECK_DIGITS + 1, "%08x", (unsigned)gsp_hash_bytes(line.p, line.len, 0));
}

void gsp_frames_journal_line(struct gsp_buf *out, const struct gsp_sv *fields, size_t count)
{
    size_t at = out->len;
    gsp_buf_puts(out, "00000000 ");
    for (size_t i = 0; i < count; i++) {
        if (i)
            gsp_buf_putc(out, '\t');
        put_field(out, fields[i]);
    }
    gsp_buf_putc(out, '\n');
    if (out->failed)
        return;
    char check[CHECK_DIGITS + 1];
    size_t body = at + CHECK_DIGITS + 1;
    check_text(check, (struct gsp_sv){out->p + body, out->len - 1 - body});
    memcpy(out->p + at, check, CHECK_DIGITS);
}

/* Parses one line without its line break. Returns false if it is damaged. */
static bool parse_line(char *p, size_t len, gsp_journal_reader *reader, void *ctx)
{
    char check[CHECK_DIGITS + 1];
    if (len < CHECK_DIGITS + 1 || p[CHECK_DIGITS] != ' ')
        return false;
    struct gsp_sv rest = {p + CHECK_DIGITS + 1, len - CHECK_DIGITS - 1};
    check_text(check, rest);
    if (memcmp(check, p, CHECK_DIGITS) != 0)
        return false;
    struct gsp_sv fields[GSP_JOURNAL_FIELDS_MAX];
    struct gsp_sv field;
    size_t count = 0;
    while (gsp_sv_split(&rest, '\t', &field)) {
        if (count == GSP_JOURNAL_FIELDS_MAX)
            return false;
        fields[count++] = (struct gsp_sv){field.p, unescape(p + (field.p - p), field.len)};
    }
    reader(ctx, fields, count);
    return true;
}

size_t gsp_frames__journal_parse(struct gsp_sv text, gsp_journal_reader *reader, void *ctx,
                                 size_t *lines, size_t *damaged)
{
    size_t at = 0;
    gsp_auto_buf line = {0};
    while (at < text.len) {
        const char *nl = memchr(text.p + at, '\n', text.len - at);
        if (!nl)
            break;
        size_t len = (size_t)(nl - (text.p + at));
        gsp_buf_clear(&line);
        gsp_buf_put(&line, text.p + at, len);
        gsp_buf_putc(&line, 0);
        if (!line.failed && parse_line(line.p, len, reader, ctx))
            ++*lines;
        else
            ++*damaged;
        at += len + 1;
    }
    return at;
}

/* The file. */

static int write_failed(const struct gsp_journal *journal, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write %s: %s", journal->path,
                       strerror(errno));
}

static int hold_lock(struct gsp_journal *journal, struct gsp_err *err)
{
    gsp_auto_free char *path = NULL;
    if (asprintf(&path, "%s.lock", journal->path) < 0) {
        path = NULL;
        return gsp_err_nomem(err);
    }
    journal->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (journal->lock_fd < 0)
        return write_failed(journal, err);
    if (flock(journal->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return gsp_err_set(err, GSP_E_EXISTS, errno, "%s is in use by another process",
                           journal->path);
    return 0;
}

static int sync_folder(const char *path)
{
    char *copy = strdup(path);
    char *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        slash[1] = '\0';
    gsp_auto_fd fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    return fd < 0 ? -1 : fsync(fd);
}

/* Reads all lines and cuts off an incomplete end, or writes the first line of a new journal. */
static int load(struct gsp_journal *journal, gsp_journal_reader *reader, void *ctx,
                struct gsp_err *err)
{
    journal->fd = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (journal->fd < 0)
        return write_failed(journal, err);
    gsp_auto_buf text = {0};
    int rc = gsp_fd_read_all(journal->fd, JOURNAL_BYTES, &text, err);
    if (rc)
        return rc;
    size_t known = text.len < FIRST_LEN ? text.len : FIRST_LEN;
    if (known && memcmp(text.p, FIRST_LINE, known) != 0)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s is not a journal of this version",
                           journal->path);
    if (known < FIRST_LEN) { /* new, or the daemon was killed while it created the file */
        if (ftruncate(journal->fd, 0) != 0)
            return write_failed(journal, err);
        rc = gsp_fd_write_all(journal->fd, FIRST_LINE, FIRST_LEN, err);
        journal->size = FIRST_LEN;
        if (rc == 0 && (fdatasync(journal->fd) != 0 || sync_folder(journal->path) != 0))
            rc = write_failed(journal, err);
        return rc;
    }
    struct gsp_sv rest = {text.p + FIRST_LEN, text.len - FIRST_LEN};
    size_t damaged = 0;
    journal->size =
        FIRST_LEN + gsp_frames__journal_parse(rest, reader, ctx, &journal->lines, &damaged);
    if (damaged)
        gsp_log_warn("daemon", "%s: %zu damaged lines are skipped", journal->path, damaged);
    if (journal->size < text.len && ftruncate(journal->fd, (off_t)journal->size) != 0)
        return write_failed(journal, err);
    return 0;
}

int gsp_frames_journal_open(const char *path, gsp_journal_reader *reader, void *ctx,
                            struct gsp_journal **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_journal *journal = calloc(1, sizeof(*journal));
    if (!journal)
        return gsp_err_nomem(err);
    journal->fd = journal->lock_fd = -1;
    pthread_cond_init(&journal->changed, NULL);
    journal->path = strdup(path);
    int rc = journal->path ? hold_lock(journal, err) : gsp_err_nomem(err);
    if (rc == 0)
        rc = load(journal, reader, ctx, err);
    if (rc)
        gsp_frames_journal_close(journal);
    else
        *out = journal;
    return rc;
}

void gsp_frames_journal_close(struct gsp_journal *journal)
{
    if (!journal)
        return;
    gsp_fd_close(&journal->fd);
    gsp_fd_close(&journal->lock_fd);
    pthread_cond_destroy(&journal->changed);
    free(journal->path);
    free(journal);
}

int gsp_frames_journal_append(struct gsp_journal *journal, const struct gsp_sv *fields,
                              size_t count, uint64_t *mark, struct gsp_err *err)
{
    *mark = 0;
    gsp_auto_buf line = {0};
    gsp_frames_journal_line(&line, fields, count);
    if (line.failed)
        return gsp_err_nomem(err);
    int rc = gsp_fd_write_all(journal->fd, line.p, line.len, err);
    if (rc) {
        int sys = errno;
        /* Otherwise the next line would follow the incomplete one. If this fails too, opening the
         * journal skips that line. */
        gsp_ignore(ftruncate(journal->fd, (off_t)journal->size));
        return gsp_err_set(err, GSP_E_NOWRITE, sys, "cannot write %s: %s", journal->path,
                           strerror(sys));
    }
    journal->size += line.len;
    journal->lines++;
    gsp_lock_take(&journal->lock);
    journal->written += line.len;
    *mark = journal->written;
    gsp_lock_release(&journal->lock);
    return 0;
}

int gsp_frames_journal_sync(struct gsp_journal *journal, uint64_t mark, struct gsp_err *err)
{
    int rc = 0;
    gsp_lock_take(&journal->lock);
    while (journal->synced < mark && rc == 0) {
        if (journal->syncing) {
            gsp_lock_wait(&journal->lock, &journal->changed);
            continue;
        }
        /* This thread syncs what all threads have written so far. */
        journal->syncing = true;
        uint64_t target = journal->written;
        int fd = journal->fd;
        gsp_lock_release(&journal->lock);
        bool ok = fdatasync(fd) == 0;
        int sys = errno;
        gsp_lock_take(&journal->lock);
        journal->syncing = false;
        if (ok && target > journal->synced)
            journal->synced = target;
        if (!ok)
            rc = gsp_err_set(err, GSP_E_NOWRITE, sys, "cannot write %s: %s", journal->path,
                             strerror(sys));
        pthread_cond_broadcast(&journal->changed);
    }
    gsp_lock_release(&journal->lock);
    return rc;
}

int gsp_frames_journal_rewrite(struct gsp_journal *journal, struct gsp_sv lines, size_t line_count,
                               struct gsp_err *err)
{
    struct gsp_newfile file;
    int rc = gsp_newfile_open(&file, journal->path, true, err);
    if (rc)
        return rc;
    rc = gsp_fd_write_all(file.fd, FIRST_LINE, FIRST_LEN, err);
    if (rc == 0)
        rc = gsp_fd_write_all(file.fd, lines.p, lines.len, err);
    /* Before the rename, which cannot be undone. */
    int fresh = fcntl(file.fd, F_DUPFD_CLOEXEC, 3);
    if (rc == 0 && (fresh < 0 || fcntl(fresh, F_SETFL, O_APPEND) != 0))
        rc = write_failed(journal, err);
    if (rc)
        gsp_newfile_abort(&file);
    else
        rc = gsp_newfile_commit(&file, err);
    if (rc) {
        gsp_fd_close(&fresh);
        return rc;
    }
    /* If this fails, a power cut may bring back the old journal, which has the same state. */
    gsp_ignore(sync_folder(journal->path));
    gsp_lock_take(&journal->lock);
    while (journal->syncing)
        gsp_lock_wait(&journal->lock, &journal->changed);
    int old = journal->fd;
    journal->fd = fresh;
    journal->size = FIRST_LEN + lines.len;
    journal->lines = line_count;
    journal->synced = journal->written; /* the new file has everything */
    gsp_lock_release(&journal->lock);
    gsp_fd_close(&old);
    return 0;
}

size_t gsp_frames_journal_lines(const struct gsp_journal *journal)
{
    return journal->lines;
}
