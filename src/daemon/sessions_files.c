/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/sessions_internal.h"
#include "frames/session_write.h"

#define RETRY_NS   (5 * GSP_NS_PER_S)
#define SYNC_NS    (5 * GSP_NS_PER_S)
#define FORGET_NS  (60 * GSP_NS_PER_S) /* between two checks for old sessions */
#define FILE_TRIES 1000000U

void gsp_daemon__sessions_path(const struct gsp_sessions *sessions, const char *file,
                               struct gsp_buf *out)
{
    gsp_buf_clear(out);
    gsp_buf_printf(out, "%s/%s", sessions->output_folder, file);
}

/* Whether a file of that name exists that is not the file of a session of that name. The daemon
 * replaces and removes no other files. */
static bool is_foreign(const struct gsp_sessions *sessions, const char *file, const char *name)
{
    gsp_auto_buf path = {0};
    struct stat st;
    gsp_daemon__sessions_path(sessions, file, &path);
    const char *text = gsp_buf_cstr(&path);
    return text && lstat(text, &st) == 0 && !gsp_frames_session_is(text, name);
}

void gsp_daemon__sessions_unlink(const struct gsp_sessions *sessions, const struct session *s)
{
    gsp_auto_buf path = {0};
    gsp_daemon__sessions_path(sessions, s->file, &path);
    const char *text = gsp_buf_cstr(&path);
    if (text && !is_foreign(sessions, s->file, s->name))
        unlink(text);
}

/* Whether a new session may have the file: it does not exist or, with force, is that of a session
 * of that name that has ended. */
static bool file_free(struct gsp_sessions *sessions, const char *file, const char *name, bool force)
    GSP_REQUIRES(&sessions->lock)
{
    uint32_t owner = gsp_daemon__sessions_by_file(sessions, file);
    if (owner != SESSION_NONE) {
        const struct session *s = sessions->slots[owner];
        if (!force || s->state != SESSION_DONE || s->busy)
            return false;
    }
    gsp_auto_buf path = {0};
    gsp_daemon__sessions_path(sessions, file, &path);
    const char *text = gsp_buf_cstr(&path);
    struct stat st;
    if (!text || lstat(text, &st) != 0)
        return true;
    return force && !is_foreign(sessions, file, name);
}

/* The number after the session's name in a file name; 1 if it has none. */
static unsigned suffix_of(const char *file, const char *name)
{
    const char *p = file + strlen(name);
    if (strncmp(file, name, strlen(name)) != 0 || *p != '_')
        return 1;
    unsigned long n = strtoul(p + 1, NULL, 10);
    return n > 1 && n < FILE_TRIES ? (unsigned)n : 1;
}

bool gsp_daemon__sessions_choose_file(struct gsp_sessions *sessions, const char *name, bool force,
                                      struct gsp_buf *out)
{
    unsigned n = 1;
    uint32_t older = gsp_daemon__sessions_by_name(sessions, name);
    if (older != SESSION_NONE && !force)
        n = suffix_of(sessions->slots[older]->file, name) + 1;
    for (; n < FILE_TRIES; n++) {
        gsp_buf_clear(out);
        if (n == 1)
            gsp_buf_printf(out, "%s.json", name);
        else
            gsp_buf_printf(out, "%s_%u.json", name, n);
        const char *file = gsp_buf_cstr(out);
        if (!file)
            return false;
        if (file_free(sessions, file, name, force))
            return true;
    }
    return false;
}

/* Removes the temporary files of a daemon that was killed while it wrote the session's file. */
static void remove_temporary(const struct gsp_sessions *sessions, const char *file)
{
    DIR *dir = opendir(sessions->output_folder);
    if (!dir)
        return;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        struct gsp_sv name = gsp_sv_of(e->d_name);
        size_t len = strlen(file);
        if (gsp_sv_starts(name, file) && name.p[len] == '.' && gsp_sv_ends(name, ".part") &&
            strspn(name.p + len + 1, "0123456789-") == name.len - len - 1 - strlen(".part"))
            unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
}

static int choose_other_file(struct gsp_sessions *sessions, uint32_t slot, struct gsp_err *err)
    GSP_REQUIRES(&sessions->lock)
{
    gsp_auto_buf file = {0};
    if (gsp_daemon__sessions_choose_file(sessions, sessions->slots[slot]->name, false, &file) &&
        gsp_daemon__sessions_set_file(sessions, slot, gsp_buf_cstr(&file)))
        return 0;
    return gsp_err_nomem(err);
}

int gsp_daemon__sessions_recheck_file(struct gsp_sessions *sessions, uint32_t slot,
                                      struct gsp_err *err)
{
    const struct session *s = sessions->slots[slot];
    gsp_auto_buf path = {0};
    gsp_daemon__sessions_path(sessions, s->file, &path);
    const char *text = gsp_buf_cstr(&path);
    struct stat st;
    if (!text || lstat(text, &st) != 0 || (s->force && !is_foreign(sessions, s->file, s->name)))
        return 0;
    return choose_other_file(sessions, slot, err);
}

/* Changes the name of the session's file, also in the journal, because another program has created
 * a file of that name. */
static int rename_file(struct gsp_sessions *sessions, struct session *s, struct gsp_err *err)
{
    uint64_t mark = 0;
    gsp_lock_take(&sessions->lock);
    int rc = choose_other_file(sessions, gsp_daemon__sessions_slot_of(sessions, s), err);
    if (rc == 0)
        rc = gsp_daemon__sessions_journal_append(sessions, SESSION_ENDS, s, &mark, err);
    gsp_lock_release(&sessions->lock);
    return rc;
}

/* Copies the state of the stack recordings, which may end while the file is written. */
static void copy_stacks(struct gsp_sessions *sessions, const struct session *s,
                        struct gsp_buf *text, struct gsp_session_file_spec *file)
{
    struct gsp_json json;
    struct stacks_sums sums;
    gsp_json_init(&json, text);
    gsp_lock_take(&sessions->lock);
    gsp_daemon__sessions_parts_json(s, &json);
    gsp_daemon__sessions_sum_parts(s, &sums);
    gsp_lock_release(&sessions->lock);
    file->stacks = gsp_buf_sv(text);
    file->stack_gaps = sums.gaps;
    file->stack_gap_ns = sums.gap_ns;
}

static int try_write(struct gsp_sessions *sessions, struct session *s, struct gsp_err *err)
{
    struct gsp_session_file_spec file = {.name = s->name,
                                         .host = sessions->host,
                                         .labels = gsp_sv_of(s->labels),
                                         .pids = s->pids,
                                         .pid_count = s->pid_count,
                                         .start_ns = s->start_ns,
                                         .end_ns = s->end_ns,
                                         .first_frame = s->first_frame,
                                         .last_frame = s->last_frame};
    gsp_auto_buf path = {0};
    gsp_auto_buf stacks = {0};
    copy_stacks(sessions, s, &stacks, &file);
    gsp_daemon__sessions_path(sessions, s->file, &path);
    const char *text = gsp_buf_cstr(&path);
    if (!text || stacks.failed)
        return gsp_err_nomem(err);
    if (is_foreign(sessions, s->file, s->name))
        return gsp_err_set(err, GSP_E_EXISTS, EEXIST, "%s already exists", text);
    uint64_t written = 0;
    int rc = gsp_frames_session_write(&file, sessions->frames, text, s->force || s->claimed,
                                      &written, err);
    if (rc == 0) {
        gsp_lock_take(&sessions->lock);
        s->frame_count = written;
        gsp_lock_release(&sessions->lock);
    }
    return rc;
}

int gsp_daemon__sessions_write(struct gsp_sessions *sessions, struct session *s,
                               struct gsp_err *err)
{
    gsp_assert(s->busy && s->state == SESSION_ENDED);
    if (s->claimed)
        remove_temporary(sessions, s->file);
    struct gsp_err why = {0};
    int rc = try_write(sessions, s, &why);
    if (rc == GSP_E_EXISTS) {
        rc = rename_file(sessions, s, &why);
        if (rc == 0)
            rc = try_write(sessions, s, &why);
    }
    /* All failures are the same to the caller: gsp_daemon__sessions_maintain() tries again. */
    if (rc)
        why.code = rc = GSP_E_NOWRITE;
    gsp_lock_take(&sessions->lock);
    free(s->error);
    s->error = rc ? strdup(why.msg) : NULL;
    gsp_daemon__sessions_set_state(sessions, s, rc ? SESSION_ENDED : SESSION_WRITTEN);
    s->retry_ns = gsp_realtime_ns() + RETRY_NS;
    s->busy = false;
    if (!rc)
        gsp_daemon__sessions_measure(sessions, s);
    gsp_lock_release(&sessions->lock);
    if (rc && err)
        *err = why;
    return rc;
}

void gsp_daemon__sessions_update_keep(struct gsp_sessions *sessions)
{
    uint64_t from = 0;
    if (!sessions->moved)
        return;
    sessions->moved = false;
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        if (s && s->state != SESSION_DONE && (!from || s->first_frame < from))
            from = s->first_frame;
    }
    gsp_frames_log_keep_from(sessions->frames, from);
}

/* Finds the next session in that state that is due, and makes it busy. Returns NULL if none is. */
static struct session *claim_next(struct gsp_sessions *sessions, enum session_state state,
                                  int64_t now_ns)
{
    struct session *found = NULL;
    gsp_lock_take(&sessions->lock);
    size_t n = sessions->counts[state] ? sessions->slot_count : 0;
    for (size_t i = 0; i < n && !found; i++) {
        struct session *s = sessions->slots[i];
        /* If the clock was set back, retry_ns may be far in the future. */
        if (s && !s->busy && s->state == state &&
            (state == SESSION_WRITTEN || s->retry_ns <= now_ns ||
             s->retry_ns > now_ns + RETRY_NS)) {
            s->busy = true;
            found = s;
        }
    }
    gsp_lock_release(&sessions->lock);
    return found;
}

/* Syncs a written file to disk and notes that in the journal. Returns false if that failed. */
static bool sync_file(struct gsp_sessions *sessions, struct session *s)
{
    gsp_assert(s->busy && s->state == SESSION_WRITTEN);
    gsp_auto_buf path = {0};
    gsp_daemon__sessions_path(sessions, s->file, &path);
    const char *text = gsp_buf_cstr(&path);
    gsp_auto_fd fd = text ? gsp_file_open_regular(text) : -1;
    /* A file that the user has removed or replaced needs no sync. */
    bool ok = fd >= 0 ? fdatasync(fd) == 0
                      : text && (errno == ENOENT || errno == ELOOP || errno == EINVAL);
    gsp_auto_fd folder = open(sessions->output_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok = ok && (folder < 0 || fsync(folder) == 0);
    uint64_t mark = 0;
    gsp_lock_take(&sessions->lock);
    ok = ok && gsp_daemon__sessions_journal_append(sessions, SESSION_IS_SAFE, s, &mark, NULL) == 0;
    if (ok)
        gsp_daemon__sessions_set_state(sessions, s, SESSION_DONE);
    s->busy = false;
    gsp_lock_release(&sessions->lock);
    return ok;
}

static int by_end(const void *a, const void *b)
{
    const struct session *x = NULL;
    const struct session *y = NULL;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

/* Removes a finished session from the list. Its file stays. */
static bool forget(struct gsp_sessions *sessions, struct session *s) GSP_REQUIRES(&sessions->lock)
{
    uint64_t mark = 0;
    if (gsp_daemon__sessions_journal_append(sessions, SESSION_FORGOTTEN, s, &mark, NULL) != 0)
        return false;
    gsp_daemon__sessions_remove(sessions, gsp_daemon__sessions_slot_of(sessions, s));
    return true;
}

/* Removes finished sessions beyond the limits of age and number. Anonymous ones only by age: while
 * they have their half of the places, no other one starts (sessions_share.c). */
static void forget_old(struct gsp_sessions *sessions, int64_t now_ns) GSP_REQUIRES(&sessions->lock)
{
    size_t finished = sessions->counts[SESSION_DONE];
    /* The clock may have been set back. */
    const bool early = now_ns < sessions->forget_ns && sessions->forget_ns <= now_ns + FORGET_NS;
    const size_t half = sessions->keep_max / 2;
    if (!finished || (finished <= half && early))
        return;
    sessions->forget_ns = now_ns + FORGET_NS;
    struct session **done = calloc(sessions->live + 1, sizeof(*done));
    size_t n = 0;
    size_t anonymous = 0;
    for (size_t i = 0; i < sessions->slot_count && done; i++) {
        struct session *s = sessions->slots[i];
        if (!s || s->state != SESSION_DONE || s->busy)
            continue;
        done[n++] = s;
        anonymous += s->anonymous;
    }
    if (n > 1)
        qsort(done, n, sizeof(*done), by_end);
    const size_t places = sessions->keep_max - (anonymous < half ? anonymous : half);
    size_t others = n - anonymous;
    for (size_t i = 0; i < n; i++) {
        const bool is_other = !done[i]->anonymous;
        if ((!is_other || others <= places) && now_ns - done[i]->end_ns <= sessions->keep_ns)
            continue;
        if (!forget(sessions, done[i]))
            break;
        others -= is_other;
    }
    free(done);
}

void gsp_daemon__sessions_maintain(struct gsp_sessions *sessions, int64_t now_ns)
{
    struct session *s = NULL;
    gsp_daemon__sessions_enforce_share(sessions);
    while ((s = claim_next(sessions, SESSION_ENDED, now_ns)) != NULL)
        if (gsp_daemon__sessions_write(sessions, s, NULL) != 0)
            break; /* the same cause would stop the others; they are tried next time */
    while ((s = claim_next(sessions, SESSION_WRITTEN, now_ns)) != NULL)
        if (!sync_file(sessions, s))
            break;
    gsp_lock_take(&sessions->lock);
    forget_old(sessions, now_ns);
    gsp_daemon__sessions_update_keep(sessions);
    gsp_daemon__sessions_compact(sessions);
    int64_t since = now_ns - sessions->synced_ns;
    bool sync = since > SYNC_NS || since < 0;
    sessions->synced_ns = sync ? now_ns : sessions->synced_ns;
    gsp_lock_release(&sessions->lock);
    struct gsp_err err = {0};
    if (sync && gsp_frames_log_sync(sessions->frames, &err) != 0)
        gsp_log_warn("daemon", "%s", err.msg);
}
