/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/sessions_internal.h"
#include "frames/session_format.h"

#define KEEP_NS       (7LL * 24 * 3600 * GSP_NS_PER_S)
#define KEEP_MAX      1000U
#define SHARE_BYTES   (UINT64_C(256) << 20)
#define NAME_MAX_LEN  200U
#define NAME_TRIES    100000U
#define BUSY_TRIES    200U
#define BUSY_PAUSE_NS (10 * GSP_NS_PER_MS)

static const char CUT[] = "stopped early: the sessions of clients without trust have reached their "
                          "share of the disk (anonymous_mb)";

int gsp_daemon__session_name_check(struct gsp_sv name, struct gsp_err *err)
{
    if (!name.len)
        return gsp_err_set(err, GSP_E_USAGE, 0, "the session's name is empty");
    if (name.len > NAME_MAX_LEN)
        return gsp_err_set(err, GSP_E_USAGE, 0, "the session's name has %zu bytes; the limit is %u",
                           name.len, NAME_MAX_LEN);
    if (name.p[0] == '.')
        return gsp_err_set(err, GSP_E_USAGE, 0, "the session's name starts with a dot");
    for (size_t i = 0; i < name.len;) {
        unsigned char c = (unsigned char)name.p[i];
        size_t n = gsp_utf8_len((struct gsp_sv){name.p + i, name.len - i});
        if (!n)
            return gsp_err_set(err, GSP_E_USAGE, 0, "the session's name is not UTF-8");
        /* C2 80 to C2 9F are the control characters past ASCII. */
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)name.p[i + 1] < 0xa0))
            return gsp_err_set(err, GSP_E_USAGE, 0, "the session's name has a control character");
        if (c == '/')
            return gsp_err_set(err, GSP_E_USAGE, 0, "the session's name has a '/'");
        i += n;
    }
    return 0;
}

static int make_folder(const char *path, struct gsp_err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot create the folder %s: %s", path,
                       strerror(errno));
}

static int fill(struct gsp_sessions *sessions, const struct gsp_sessions_options *options,
                struct gsp_err *err) GSP_REQUIRES(&sessions->lock)
{
    gsp_auto_free char *path = NULL;
    sessions->output_folder = strdup(options->output_folder);
    sessions->host = strdup(options->host ? options->host : "localhost");
    if (asprintf(&path, "%s/sessions.journal", options->state_folder) < 0)
        path = NULL;
    if (!path || !sessions->output_folder || !sessions->host)
        return gsp_err_nomem(err);
    sessions->keep_ns = options->keep_ns ? options->keep_ns : KEEP_NS;
    sessions->keep_max = options->keep_max ? options->keep_max : KEEP_MAX;
    sessions->share_bytes = options->share_bytes ? options->share_bytes : SHARE_BYTES;
    int rc = make_folder(options->state_folder, err);
    if (rc == 0)
        rc = gsp_frames_journal_open(path, gsp_daemon__sessions_replay, sessions,
                                     &sessions->journal, err);
    gsp_hmap_free(&sessions->ids);
    return rc;
}

int gsp_daemon__sessions_open(const struct gsp_sessions_options *options,
                              struct gsp_frame_log *frames, struct gsp_sessions **out,
                              struct gsp_err *err)
{
    *out = NULL;
    struct gsp_sessions *sessions = calloc(1, sizeof(*sessions));
    if (!sessions)
        return gsp_err_nomem(err);
    sessions->frames = frames;
    gsp_lock_take(&sessions->lock);
    sessions->next_id = 1;
    int rc = fill(sessions, options, err);
    if (rc == 0)
        gsp_daemon__sessions_update_keep(sessions);
    gsp_lock_release(&sessions->lock);
    if (rc) {
        gsp_daemon__sessions_close(sessions);
        return rc;
    }
    *out = sessions;
    return 0;
}

void gsp_daemon__sessions_close(struct gsp_sessions *sessions)
{
    if (!sessions)
        return;
    gsp_frames_journal_close(sessions->journal);
    for (size_t i = 0; i < sessions->slot_count; i++)
        gsp_daemon__sessions_free_session(sessions->slots[i]);
    free(sessions->slots);
    gsp_hmap_free(&sessions->names);
    gsp_hmap_free(&sessions->files);
    gsp_hmap_free(&sessions->ids);
    free(sessions->output_folder);
    free(sessions->host);
    free(sessions);
}

static bool has_failed(const struct session *s)
{
    return s->state == SESSION_ENDED && s->error;
}

static void describe_stacks(const struct session *s, struct gsp_session *out)
{
    struct stacks_sums sums;
    if (!s->part_count)
        return;
    gsp_daemon__sessions_sum_parts(s, &sums);
    out->stack_files = sums.files;
    out->stack_gaps = sums.gaps;
    if (sums.failed && !out->error[0])
        snprintf(out->error, sizeof(out->error), "the stacks of process %d: %.180s",
                 sums.failed->pid, sums.failed->error);
}

/* Fills what callers see. */
static void describe(const struct gsp_sessions *sessions, const struct session *s,
                     struct gsp_session *out) GSP_REQUIRES(&sessions->lock)
{
    *out = (struct gsp_session){.active = s->state == SESSION_ACTIVE,
                                .stacks = s->stacks,
                                .failed = has_failed(s),
                                .anonymous = s->anonymous,
                                .start_ns = s->start_ns,
                                .end_ns = s->end_ns,
                                .first_frame = s->first_frame,
                                .period_ns = s->period_ns,
                                .id = s->id,
                                .frame_count = s->frame_count};
    snprintf(out->name, sizeof(out->name), "%s", s->name);
    snprintf(out->file, sizeof(out->file), "%s", s->file);
    snprintf(out->error, sizeof(out->error), "%s", s->error ? s->error : s->cut ? CUT : "");
    describe_stacks(s, out);
    if (out->active) {
        out->period_ns = gsp_frames_log_period(sessions->frames);
        out->frame_count = gsp_frames_log_count(sessions->frames, s->first_frame, UINT64_MAX);
        return;
    }
    out->last_frame = s->last_frame >= s->first_frame ? s->last_frame : 0;
    if (s->state == SESSION_ENDED)
        out->frame_count =
            out->last_frame ? gsp_frames_log_count(sessions->frames, s->first_frame, s->last_frame)
                            : 0;
}

/* profiling_<time>, with a number if a session has that name. */
static bool make_name(struct gsp_sessions *sessions, struct gsp_buf *out)
    GSP_REQUIRES(&sessions->lock)
{
    time_t now = (time_t)(gsp_realtime_ns() / GSP_NS_PER_S);
    struct tm tm = {0};
    char text[64] = "profiling";
    if (localtime_r(&now, &tm))
        strftime(text, sizeof(text), "profiling_%Y%m%d_%H%M%S", &tm);
    for (unsigned n = 1; n < NAME_TRIES; n++) {
        gsp_buf_clear(out);
        gsp_buf_puts(out, text);
        if (n > 1)
            gsp_buf_printf(out, "_%u", n);
        const char *name = gsp_buf_cstr(out);
        if (!name || gsp_daemon__sessions_by_name(sessions, name) == SESSION_NONE)
            return name != NULL;
    }
    return false;
}

static struct session *new_session(const struct gsp_session_start *start, const char *name,
                                   const char *file)
{
    struct session *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->name = strdup(name);
    s->file = strdup(file);
    s->labels = start->labels.len ? gsp_sv_dup(start->labels) : NULL;
    s->pids = start->pid_count ? calloc(start->pid_count, sizeof(*s->pids)) : NULL;
    if (!s->name || !s->file || (start->labels.len && !s->labels) ||
        (start->pid_count && !s->pids)) {
        gsp_daemon__sessions_free_session(s);
        return NULL;
    }
    if (start->pid_count)
        memcpy(s->pids, start->pids, start->pid_count * sizeof(*s->pids));
    s->pid_count = (uint32_t)start->pid_count;
    s->stacks = start->stacks;
    s->stack_native = start->stack_native;
    s->stack_rate_hz = start->stack_rate_hz > 0 ? start->stack_rate_hz : GSP_STACK_RATE_HZ;
    s->force = start->force;
    s->anonymous = start->anonymous;
    s->start_ns = gsp_realtime_ns();
    return s;
}

static int check_start(const struct gsp_session_start *start, struct gsp_err *err)
{
    if (start->labels.len > GSP_SESSION_LABELS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the labels have more than %u bytes",
                           GSP_SESSION_LABELS_MAX);
    if (start->pid_count > GSP_SESSION_PIDS_MAX)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "more than %u pids", GSP_SESSION_PIDS_MAX);
    if (start->labels.len && !gsp_frames_session_labels_are_valid(start->labels))
        return gsp_err_set(err, GSP_E_USAGE, 0, "the labels are not a JSON object");
    return start->name ? gsp_daemon__session_name_check(gsp_sv_of(start->name), err) : 0;
}

/* Adds the session to the journal and to the table. */
static int add_session(struct gsp_sessions *sessions, const struct gsp_session_start *start,
                       struct session **out, uint64_t *mark, struct gsp_err *err)
    GSP_REQUIRES(&sessions->lock)
{
    gsp_auto_buf new_name = {0};
    gsp_auto_buf file = {0};
    if (!start->name && !make_name(sessions, &new_name))
        return gsp_err_nomem(err);
    const char *name = start->name ? start->name : gsp_buf_cstr(&new_name);
    uint32_t older = gsp_daemon__sessions_by_name(sessions, name);
    if (older != SESSION_NONE && sessions->slots[older]->state == SESSION_ACTIVE)
        return gsp_err_set(err, GSP_E_EXISTS, 0, "session '%.150s' is already active", name);
    if (sessions->counts[SESSION_ACTIVE] >= GSP_SESSIONS_ACTIVE_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "%u sessions are already active",
                           GSP_SESSIONS_ACTIVE_MAX);
    int rc = start->anonymous ? gsp_daemon__sessions_share_check(sessions, err) : GSP_OK;
    if (rc < 0)
        return rc;
    if (!gsp_daemon__sessions_choose_file(sessions, name, start->force, &file))
        return gsp_err_nomem(err);
    struct session *s = new_session(start, name, gsp_buf_cstr(&file));
    if (!s)
        return gsp_err_nomem(err);
    s->id = sessions->next_id++;
    s->first_frame = gsp_frames_log_next_announced_id(sessions->frames);
    rc = gsp_daemon__sessions_journal_append(sessions, SESSION_STARTS, s, mark, err);
    if (rc) {
        gsp_daemon__sessions_free_session(s);
        return rc;
    }
    /* With force, the new session replaces the one that has the same file. */
    uint32_t replaced = gsp_daemon__sessions_by_file(sessions, s->file);
    uint64_t ignored = 0;
    if (replaced != SESSION_NONE &&
        gsp_daemon__sessions_journal_append(sessions, SESSION_FORGOTTEN, sessions->slots[replaced],
                                            &ignored, NULL) == 0)
        gsp_daemon__sessions_remove(sessions, replaced);
    if (gsp_daemon__sessions_insert(sessions, s) == SESSION_NONE) {
        gsp_ignore(
            gsp_daemon__sessions_journal_append(sessions, SESSION_FORGOTTEN, s, &ignored, NULL));
        gsp_daemon__sessions_free_session(s);
        return gsp_err_nomem(err);
    }
    if (sessions->counts[SESSION_ACTIVE] == 1)
        gsp_daemon__sessions_update_keep(sessions);
    *out = s;
    return 0;
}

int gsp_daemon__sessions_start(struct gsp_sessions *sessions, const struct gsp_session_start *start,
                               struct gsp_session *out, struct gsp_err *err)
{
    *out = (struct gsp_session){0};
    int rc = check_start(start, err);
    if (rc)
        return rc;
    struct session *s = NULL;
    uint64_t mark = 0;
    uint64_t id = 0;
    gsp_lock_take(&sessions->lock);
    rc = add_session(sessions, start, &s, &mark, err);
    if (rc == 0) {
        id = s->id;
        describe(sessions, s, out);
    }
    gsp_lock_release(&sessions->lock);
    if (rc)
        return rc;
    rc = gsp_frames_journal_sync(sessions->journal, mark, err);
    if (rc == 0)
        return 0;
    /* Without the sync the session has not started, and must not come back after a restart. */
    gsp_lock_take(&sessions->lock);
    uint32_t slot = gsp_daemon__sessions_by_name(sessions, out->name);
    if (slot != SESSION_NONE && sessions->slots[slot]->id == id && !sessions->slots[slot]->busy) {
        gsp_ignore(gsp_daemon__sessions_journal_append(sessions, SESSION_FORGOTTEN,
                                                       sessions->slots[slot], &mark, NULL));
        gsp_daemon__sessions_remove(sessions, slot);
    }
    gsp_lock_release(&sessions->lock);
    return rc;
}

/* The end of one or several sessions. */
struct end {
    uint64_t last_frame;
    int64_t ns;
    int64_t period_ns;
};

static struct end end_now(const struct gsp_sessions *sessions)
{
    return (struct end){.last_frame = gsp_frames_log_next_id(sessions->frames) - 1,
                        .ns = gsp_realtime_ns(),
                        .period_ns = gsp_frames_log_period(sessions->frames)};
}

/* Ends an active session and makes it busy. */
static int end_session(struct gsp_sessions *sessions, uint32_t slot, struct end end, uint64_t *mark,
                       struct gsp_err *err) GSP_REQUIRES(&sessions->lock)
{
    struct session *s = sessions->slots[slot];
    gsp_assert(s->state == SESSION_ACTIVE && !s->busy);
    int rc = gsp_daemon__sessions_recheck_file(sessions, slot, err);
    if (rc)
        return rc;
    s->last_frame = end.last_frame < s->first_frame ? s->first_frame - 1 : end.last_frame;
    s->end_ns = end.ns;
    s->period_ns = end.period_ns;
    rc = gsp_daemon__sessions_journal_append(sessions, SESSION_ENDS, s, mark, err);
    if (rc) {
        s->last_frame = 0;
        s->end_ns = 0;
        return rc;
    }
    gsp_daemon__sessions_set_state(sessions, s, SESSION_ENDED);
    s->busy = true;
    return 0;
}

/* Makes a session active again whose end could not be synced. */
static void undo_end(struct gsp_sessions *sessions, struct session *s)
{
    uint64_t mark = 0;
    gsp_lock_take(&sessions->lock);
    gsp_assert(s->state == SESSION_ENDED && s->busy);
    gsp_ignore(gsp_daemon__sessions_journal_append(sessions, SESSION_GOES_ON, s, &mark, NULL));
    gsp_daemon__sessions_set_state(sessions, s, SESSION_ACTIVE);
    s->busy = false;
    s->cut = false;
    s->end_ns = 0;
    s->last_frame = 0;
    gsp_lock_release(&sessions->lock);
}

int gsp_daemon__sessions_stop(struct gsp_sessions *sessions, const char *name,
                              struct gsp_session *out, struct gsp_err *err)
{
    *out = (struct gsp_session){0};
    uint64_t mark = 0;
    gsp_lock_take(&sessions->lock);
    uint32_t slot = gsp_daemon__sessions_by_name(sessions, name);
    struct session *s = slot == SESSION_NONE ? NULL : sessions->slots[slot];
    int rc = 0;
    if (!s || s->state != SESSION_ACTIVE)
        rc = gsp_err_set(err, GSP_E_NOFILE, 0, "no active session '%.150s'", name);
    else
        rc = end_session(sessions, slot, end_now(sessions), &mark, err);
    gsp_lock_release(&sessions->lock);
    if (rc)
        return rc;
    rc = gsp_frames_journal_sync(sessions->journal, mark, err);
    if (rc) {
        undo_end(sessions, s);
        return rc;
    }
    uint64_t id = s->id; /* s may be freed once it is not busy */
    rc = gsp_daemon__sessions_write(sessions, s, err);
    gsp_lock_take(&sessions->lock);
    for (size_t i = 0; i < sessions->slot_count; i++)
        if (sessions->slots[i] && sessions->slots[i]->id == id)
            describe(sessions, sessions->slots[i], out);
    gsp_lock_release(&sessions->lock);
    return rc;
}

/* Finds a session. If its file is being written or synced, which usually takes milliseconds, waits
 * for that without the lock. */
static uint32_t find_idle(struct gsp_sessions *sessions, const char *name)
    GSP_REQUIRES(&sessions->lock)
{
    const struct timespec pause = {.tv_nsec = BUSY_PAUSE_NS};
    uint32_t slot = gsp_daemon__sessions_by_name(sessions, name);
    for (unsigned i = 0; i < BUSY_TRIES && slot != SESSION_NONE && sessions->slots[slot]->busy;
         i++) {
        gsp_lock_release(&sessions->lock);
        nanosleep(&pause, NULL);
        gsp_lock_take(&sessions->lock);
        slot = gsp_daemon__sessions_by_name(sessions, name);
    }
    return slot;
}

int gsp_daemon__sessions_delete(struct gsp_sessions *sessions, const char *name,
                                struct gsp_err *err)
{
    uint64_t mark = 0;
    int rc = 0;
    gsp_lock_take(&sessions->lock);
    uint32_t slot = find_idle(sessions, name);
    struct session *s = slot == SESSION_NONE ? NULL : sessions->slots[slot];
    if (!s)
        rc = gsp_err_set(err, GSP_E_NOFILE, 0, "no session '%.150s'", name);
    else if (s->busy)
        rc = gsp_err_set(err, GSP_E_EXISTS, 0, "the file of session '%.150s' is being written",
                         name);
    else
        rc = gsp_daemon__sessions_journal_append(sessions, SESSION_FORGOTTEN, s, &mark, err);
    if (rc == 0) {
        if (s->state == SESSION_WRITTEN || s->state == SESSION_DONE)
            gsp_daemon__sessions_unlink(sessions, s);
        gsp_daemon__sessions_remove(sessions, slot);
        gsp_daemon__sessions_update_keep(sessions);
    }
    gsp_lock_release(&sessions->lock);
    return rc ? rc : gsp_frames_journal_sync(sessions->journal, mark, err);
}

uint64_t gsp_daemon__sessions_first_frame(struct gsp_sessions *sessions, const char *name)
{
    uint64_t first = 0;
    gsp_lock_take(&sessions->lock);
    const uint32_t slot = name ? gsp_daemon__sessions_by_name(sessions, name) : SESSION_NONE;
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        if (s && s->state == SESSION_ACTIVE && (!name || i == slot) && s->first_frame > first)
            first = s->first_frame;
    }
    gsp_lock_release(&sessions->lock);
    return first;
}

static int by_rank(const void *a, const void *b)
{
    const struct session *x = NULL;
    const struct session *y = NULL;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    bool x_active = x->state == SESSION_ACTIVE;
    bool y_active = y->state == SESSION_ACTIVE;
    if (x_active != y_active)
        return x_active ? -1 : 1;
    return x->id > y->id ? -1 : x->id < y->id;
}

static size_t label_bytes(const struct session *s)
{
    return s->labels ? strlen(s->labels) : 0;
}

/* Memory for all sessions, followed by their labels. */
static struct gsp_session *new_list(const struct gsp_sessions *sessions)
    GSP_REQUIRES(&sessions->lock)
{
    size_t bytes = (sessions->live + 1) * sizeof(struct gsp_session);
    for (size_t i = 0; i < sessions->slot_count; i++)
        if (sessions->slots[i])
            bytes += label_bytes(sessions->slots[i]);
    return malloc(bytes);
}

static void describe_all(const struct gsp_sessions *sessions, struct session *const *all, size_t n,
                         struct gsp_session *out) GSP_REQUIRES(&sessions->lock)
{
    char *labels = (char *)(out + n);
    for (size_t i = 0; i < n; i++) {
        const size_t len = label_bytes(all[i]);
        describe(sessions, all[i], &out[i]);
        if (!len)
            continue;
        memcpy(labels, all[i]->labels, len);
        out[i].labels = (struct gsp_sv){labels, len};
        labels += len;
    }
}

int gsp_daemon__sessions_list(struct gsp_sessions *sessions, struct gsp_session **out,
                              size_t *count, struct gsp_err *err)
{
    *out = NULL;
    *count = 0;
    gsp_lock_take(&sessions->lock);
    struct gsp_session *list = new_list(sessions);
    struct session **sorted = calloc(sessions->live + 1, sizeof(*sorted));
    size_t n = 0;
    for (size_t i = 0; i < sessions->slot_count && list && sorted; i++)
        if (sessions->slots[i])
            sorted[n++] = sessions->slots[i];
    if (n > 1)
        qsort(sorted, n, sizeof(*sorted), by_rank);
    if (n)
        describe_all(sessions, sorted, n, list);
    gsp_lock_release(&sessions->lock);
    bool enough = list && sorted;
    free(sorted);
    if (!enough) {
        free(list);
        return gsp_err_nomem(err);
    }
    *out = list;
    *count = n;
    return 0;
}

/* Notes that a session ended because of its share of the disk. */
static void cut(struct gsp_sessions *sessions, struct session *s, uint64_t *mark)
    GSP_REQUIRES(&sessions->lock)
{
    s->cut = true;
    /* Without the line only the reason is lost. */
    gsp_ignore(gsp_daemon__sessions_journal_append(sessions, SESSION_IS_CUT, s, mark, NULL));
    gsp_log_warn("daemon", "session %s: %s", s->name, CUT);
}

/* Ends all active sessions, or with cuts the anonymous ones, at the same frame. Returns how many it
 * could end; *err has the first failure. */
static size_t end_all(struct gsp_sessions *sessions, bool cuts, struct session **ended,
                      uint64_t *mark, struct gsp_err *err) GSP_REQUIRES(&sessions->lock)
{
    const struct end end = end_now(sessions);
    size_t n = 0;
    for (uint32_t i = 0; i < sessions->slot_count; i++) {
        struct session *s = sessions->slots[i];
        struct gsp_err why = {0};
        if (!s || s->state != SESSION_ACTIVE || (cuts && !s->anonymous))
            continue;
        const int rc = end_session(sessions, i, end, mark, &why);
        if (rc == 0)
            ended[n++] = s;
        else if (!err->code)
            *err = why;
        if (rc == 0 && cuts)
            cut(sessions, s, mark);
    }
    if (n > 1)
        qsort(ended, n, sizeof(*ended), by_rank);
    return n;
}

/* Writes the files of busy sessions. Moves the written ones to the front of list, and returns their
 * number. */
static size_t write_all(struct gsp_sessions *sessions, struct session *const *ended, size_t n,
                        struct gsp_session *list, struct gsp_err *err)
{
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        struct gsp_err why = {0};
        const struct gsp_session before = list[i];
        if (gsp_daemon__sessions_write(sessions, ended[i], &why) != 0) {
            if (!err->code)
                *err = why;
            continue;
        }
        list[written] = before;
        gsp_lock_take(&sessions->lock);
        const uint32_t slot = gsp_daemon__sessions_by_name(sessions, before.name);
        if (slot != SESSION_NONE && sessions->slots[slot]->id == before.id)
            describe(sessions, sessions->slots[slot], &list[written]);
        gsp_lock_release(&sessions->lock);
        list[written++].labels = before.labels;
    }
    return written;
}

static int stop_many(struct gsp_sessions *sessions, bool cuts,
                     const struct gsp_sessions_ended *ended, struct gsp_session **out,
                     size_t *count, struct gsp_err *err)
{
    struct gsp_err first = {0};
    uint64_t mark = 0;
    *out = NULL;
    *count = 0;
    gsp_lock_take(&sessions->lock);
    struct gsp_session *list = new_list(sessions);
    struct session **all = list ? calloc(sessions->live + 1, sizeof(*all)) : NULL;
    const size_t n = all ? end_all(sessions, cuts, all, &mark, &first) : 0;
    if (n)
        describe_all(sessions, all, n, list);
    gsp_lock_release(&sessions->lock);
    if (!all) {
        free(list);
        return gsp_err_nomem(err);
    }
    const int rc = n ? gsp_frames_journal_sync(sessions->journal, mark, err) : 0;
    if (rc) {
        for (size_t i = 0; i < n; i++)
            undo_end(sessions, all[i]);
        free(all);
        free(list);
        return rc;
    }
    if (n && ended)
        ended->call(ended->ctx, list, n);
    *count = write_all(sessions, all, n, list, &first);
    free(all);
    *out = list;
    if (first.code && err)
        *err = first;
    return first.code;
}

int gsp_daemon__sessions_stop_all(struct gsp_sessions *sessions,
                                  const struct gsp_sessions_ended *ended, struct gsp_session **out,
                                  size_t *count, struct gsp_err *err)
{
    return stop_many(sessions, false, ended, out, count, err);
}

void gsp_daemon__sessions_enforce_share(struct gsp_sessions *sessions)
{
    struct gsp_session *list = NULL;
    size_t count = 0;
    gsp_lock_take(&sessions->lock);
    const bool is_used = gsp_daemon__sessions_share_is_used(sessions);
    gsp_lock_release(&sessions->lock);
    if (is_used) /* what could not be written is tried again later, as after every stop */
        gsp_ignore(stop_many(sessions, true, NULL, &list, &count, NULL));
    free(list);
}

/* Inserts a session into the sorted list of the first ones. Returns the new length of the list. */
static size_t rank_in(const struct session **first, size_t count, size_t max,
                      const struct session *s)
{
    size_t at = count;
    while (at > 0 && by_rank(&s, &first[at - 1]) < 0)
        at--;
    if (at == max)
        return count;
    count += count < max;
    memmove(&first[at + 1], &first[at], (count - at - 1) * sizeof(const struct session *));
    first[at] = s;
    return count;
}

static void add_labels(const struct session *const *all, size_t n, struct gsp_session *out,
                       struct gsp_buf *labels)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        gsp_buf_put(labels, all[i]->labels ? all[i]->labels : "", label_bytes(all[i]));
    for (size_t i = 0; i < n && labels->len && !labels->failed; i++) {
        out[i].labels = (struct gsp_sv){labels->p + at, label_bytes(all[i])};
        at += label_bytes(all[i]);
    }
}

size_t gsp_daemon__sessions_first(struct gsp_sessions *sessions, bool failed,
                                  struct gsp_session *out, size_t max,
                                  struct gsp_sessions_counts *counts, struct gsp_buf *labels)
{
    const struct session **first = calloc(max + 1, sizeof(const struct session *));
    size_t n = 0;
    gsp_lock_take(&sessions->lock);
    *counts = (struct gsp_sessions_counts){.total = sessions->live,
                                           .active = sessions->counts[SESSION_ACTIVE]};
    /* New sessions are mostly at the end, so most of the others need only one comparison. */
    for (size_t i = sessions->slot_count; i-- > 0 && first;) {
        const struct session *s = sessions->slots[i];
        if (!s)
            continue;
        counts->failed += has_failed(s);
        if (!failed || has_failed(s))
            n = rank_in(first, n, max, s);
    }
    for (size_t i = 0; i < n; i++)
        describe(sessions, first[i], &out[i]);
    if (labels)
        add_labels(first, n, out, labels);
    gsp_lock_release(&sessions->lock);
    free(first);
    return n;
}

int gsp_daemon__sessions_find(struct gsp_sessions *sessions, const char *name,
                              struct gsp_session *out, struct gsp_err *err)
{
    *out = (struct gsp_session){0};
    gsp_lock_take(&sessions->lock);
    uint32_t slot = gsp_daemon__sessions_by_name(sessions, name);
    if (slot != SESSION_NONE)
        describe(sessions, sessions->slots[slot], out);
    gsp_lock_release(&sessions->lock);
    return slot == SESSION_NONE ? gsp_err_set(err, GSP_E_NOFILE, 0, "no session '%.150s'", name)
                                : 0;
}

void gsp_daemon__sessions_labels(struct gsp_sessions *sessions, uint64_t id, struct gsp_buf *out)
{
    gsp_lock_take(&sessions->lock);
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        if (s && s->id == id && s->labels)
            gsp_buf_puts(out, s->labels);
    }
    gsp_lock_release(&sessions->lock);
}

size_t gsp_daemon__sessions_active_count(struct gsp_sessions *sessions)
{
    gsp_lock_take(&sessions->lock);
    size_t n = sessions->counts[SESSION_ACTIVE];
    gsp_lock_release(&sessions->lock);
    return n;
}

uint64_t gsp_daemon__sessions_changes(struct gsp_sessions *sessions)
{
    gsp_lock_take(&sessions->lock);
    const uint64_t n = sessions->changes;
    gsp_lock_release(&sessions->lock);
    return n;
}

static int by_pid(const void *a, const void *b)
{
    int32_t x = 0;
    int32_t y = 0;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

int gsp_daemon__sessions_pids(struct gsp_sessions *sessions, int32_t **out, size_t *count,
                              struct gsp_err *err)
{
    *out = NULL;
    *count = 0;
    struct gsp_buf all = {0};
    gsp_lock_take(&sessions->lock);
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        if (s && s->state == SESSION_ACTIVE && s->pid_count)
            gsp_buf_put(&all, s->pids, s->pid_count * sizeof(*s->pids));
    }
    gsp_lock_release(&sessions->lock);
    if (all.failed) {
        gsp_buf_free(&all);
        return gsp_err_nomem(err);
    }
    int32_t *pids = (int32_t *)(void *)all.p;
    size_t n = all.len / sizeof(*pids);
    if (n > 1)
        qsort(pids, n, sizeof(*pids), by_pid);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!kept || pids[kept - 1] != pids[i])
            pids[kept++] = pids[i];
    *out = pids;
    *count = kept;
    return 0;
}
