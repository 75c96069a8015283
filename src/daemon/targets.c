/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/targets.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/time.h"
#include "export/gsp_stream.h"
#include "model/profile.h"
#include "ring/process.h"
#include "sample/record.h"

#define SUFFIX_MAX 1000
#define FLUSH_NS   GSP_NS_PER_S
#define FILE_MAX   300U
/* Recordings that have ended and are still told of. */
#define ENDED_MAX  32U

struct recording {
    struct gsp_targets *owner;
    struct gsp_profile *profile;
    struct gsp_stream *stream;
    struct gsp_record *record;
    struct gsp_record_sink sink; /* the record keeps a pointer to it */
    pthread_t thread;
    volatile sig_atomic_t stop;
    bool joined;  /* the thread is gone; under the lock */
    bool joining; /* someone waits for it; under the lock */
    atomic_bool ended;
    int fd;
    int32_t pid;
    int64_t start_ns;
    _Atomic uint64_t samples;
    double rate_hz;
    struct gsp_stacks_ticket ticket;
    char session[256];
    char file[FILE_MAX];
    char error[240]; /* written before ended is set */
};

struct gsp_targets {
    struct gsp_sessions *sessions;
    char *output_dir;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int32_t *pids; /* attached, sorted */
    size_t pid_count;
    struct recording *recordings[GSP_RECORDINGS_MAX + ENDED_MAX];
    size_t recording_count;
    bool stopping;
};

int gsp_targets_open(const char *output_dir, struct gsp_sessions *sessions,
                     struct gsp_targets **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_targets *targets = calloc(1, sizeof(*targets));
    char *copy = strdup(output_dir);
    int32_t *pids = calloc(GSP_TARGETS_MAX, sizeof(*pids));
    if (!targets || !copy || !pids) {
        free(targets);
        free(copy);
        free(pids);
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for targets");
    }
    targets->sessions = sessions;
    targets->output_dir = copy;
    targets->pids = pids;
    pthread_mutex_init(&targets->lock, NULL);
    pthread_cond_init(&targets->changed, NULL);
    *out = targets;
    return GSP_OK;
}

static void recording_free(struct recording *recording)
{
    gsp_sample_record_free(recording->record);
    gsp_export_stream_free(recording->stream);
    gsp_model_profile_free(recording->profile);
    gsp_fd_close(&recording->fd);
    free(recording);
}

/* Waits for a thread to end; under the lock, which is let go meanwhile. */
static void join(struct gsp_targets *targets, struct recording *recording)
{
    while (recording->joining)
        pthread_cond_wait(&targets->changed, &targets->lock);
    if (recording->joined)
        return;
    recording->joining = true;
    pthread_mutex_unlock(&targets->lock);
    pthread_join(recording->thread, NULL);
    pthread_mutex_lock(&targets->lock);
    recording->joining = false;
    recording->joined = true;
    pthread_cond_broadcast(&targets->changed);
}

void gsp_targets_stop(struct gsp_targets *targets)
{
    if (!targets)
        return;
    pthread_mutex_lock(&targets->lock);
    targets->stopping = true;
    for (size_t i = 0; i < targets->recording_count; i++)
        targets->recordings[i]->stop = 1;
    for (size_t i = 0; i < targets->recording_count; i++)
        join(targets, targets->recordings[i]);
    pthread_mutex_unlock(&targets->lock);
}

void gsp_targets_close(struct gsp_targets *targets)
{
    if (!targets)
        return;
    gsp_targets_stop(targets);
    for (size_t i = 0; i < targets->recording_count; i++)
        recording_free(targets->recordings[i]);
    pthread_cond_destroy(&targets->changed);
    pthread_mutex_destroy(&targets->lock);
    free(targets->output_dir);
    free(targets->pids);
    free(targets);
}

bool gsp_targets_runs(int32_t pid)
{
    return kill(pid, 0) == 0 || errno == EPERM;
}

/* The place of a pid among the sorted ones, or where it belongs. */
static size_t place_of(const int32_t *pids, size_t count, int32_t pid)
{
    size_t i = 0;
    while (i < count && pids[i] < pid)
        i++;
    return i;
}

int gsp_targets_attach(struct gsp_targets *targets, int32_t pid, struct gsp_err *err)
{
    if (!gsp_targets_runs(pid))
        return gsp_err_set(err, GSP_E_NOPROC, ESRCH, "no process %d", pid);
    int rc = GSP_OK;
    pthread_mutex_lock(&targets->lock);
    const size_t at = place_of(targets->pids, targets->pid_count, pid);
    const bool known = at < targets->pid_count && targets->pids[at] == pid;
    if (!known && targets->pid_count == GSP_TARGETS_MAX) {
        rc = gsp_err_set(err, GSP_E_LIMIT, 0, "%u processes are attached already", GSP_TARGETS_MAX);
    } else if (!known) {
        memmove(&targets->pids[at + 1], &targets->pids[at],
                (targets->pid_count - at) * sizeof(*targets->pids));
        targets->pids[at] = pid;
        targets->pid_count++;
    }
    pthread_mutex_unlock(&targets->lock);
    return rc;
}

static void remove_at(struct gsp_targets *targets, size_t at)
{
    memmove(&targets->pids[at], &targets->pids[at + 1],
            (targets->pid_count - at - 1) * sizeof(*targets->pids));
    targets->pid_count--;
}

int gsp_targets_detach(struct gsp_targets *targets, int32_t pid, struct gsp_err *err)
{
    pthread_mutex_lock(&targets->lock);
    const size_t at = place_of(targets->pids, targets->pid_count, pid);
    const bool known = at < targets->pid_count && targets->pids[at] == pid;
    if (known)
        remove_at(targets, at);
    pthread_mutex_unlock(&targets->lock);
    return known ? GSP_OK : gsp_err_set(err, GSP_E_NOPROC, 0, "process %d is not attached", pid);
}

static int by_number(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a;
    const int32_t right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

int gsp_targets_add_pids(struct gsp_targets *targets, int32_t **pids, size_t *count)
{
    pthread_mutex_lock(&targets->lock);
    const size_t all = *count + targets->pid_count;
    int32_t *more = realloc(*pids, (all ? all : 1) * sizeof(*more));
    if (more) {
        memcpy(more + *count, targets->pids, targets->pid_count * sizeof(*more));
        *pids = more;
    }
    pthread_mutex_unlock(&targets->lock);
    if (!more)
        return GSP_E_NOMEM;
    qsort(more, all, sizeof(*more), by_number);
    *count = 0;
    for (size_t i = 0; i < all; i++)
        if (i == 0 || more[i] != more[i - 1])
            more[(*count)++] = more[i];
    return GSP_OK;
}

static int take_sample(void *user, const struct gsp_sample *sample, struct gsp_err *err)
{
    struct recording *recording = user;
    atomic_fetch_add_explicit(&recording->samples, 1, memory_order_relaxed);
    return gsp_export_stream_add(recording->stream, sample, err);
}

static void thread_changed(void *user, uint32_t thread)
{
    struct recording *recording = user;
    gsp_export_stream_thread_changed(recording->stream, thread);
}

static void process_changed(void *user, uint32_t process)
{
    struct recording *recording = user;
    gsp_export_stream_process_changed(recording->stream, process);
}

static int beat(void *user, const struct gsp_sample_record_stats *stats GSP_UNUSED,
                struct gsp_err *err)
{
    struct recording *recording = user;
    return gsp_export_stream_flush(recording->stream, err);
}

/* A session's file has come to its end.  One that ends because the daemon does is gone on with. */
static void tell_session(struct recording *recording, enum gsp_record_end why)
{
    struct gsp_targets *targets = recording->owner;
    pthread_mutex_lock(&targets->lock);
    const bool stopping = targets->stopping;
    pthread_mutex_unlock(&targets->lock);
    const struct gsp_stacks_end end = {
        .how = stopping && why == GSP_RECORD_STOPPED ? GSP_STACKS_STOPPED : GSP_STACKS_ENDED,
        .end_ns = gsp_realtime_ns(),
        .samples = (int64_t)atomic_load(&recording->samples),
        .error = recording->error};
    gsp_sessions_stacks_end(targets->sessions, &recording->ticket, &end);
}

static void *run(void *arg)
{
    struct recording *recording = arg;
    struct gsp_err err = {0};
    prctl(PR_SET_NAME, "gsprof-record");
    enum gsp_record_end end = GSP_RECORD_STOPPED;
    int rc = gsp_sample_record_run(recording->record, &recording->stop, &end, &err);
    int finished = gsp_export_stream_finish(recording->stream, rc < 0 ? NULL : &err);
    recording->stream = NULL;
    if (rc < 0 || finished < 0)
        memcpy(recording->error, err.msg, sizeof(recording->error));
    tell_session(recording, rc < 0 ? GSP_RECORD_EXITED : end);
    atomic_store(&recording->ended, true);
    return NULL;
}

/* Makes <stem>.gsp, or with a number when there is one of that name. */
static int open_file(const struct gsp_targets *targets, const char *stem,
                     struct recording *recording, struct gsp_err *err)
{
    gsp_auto_buf path = {0};
    for (int i = 1; i < SUFFIX_MAX; i++) {
        int n = i == 1 ? snprintf(recording->file, FILE_MAX, "%s.gsp", stem)
                       : snprintf(recording->file, FILE_MAX, "%s_%d.gsp", stem, i);
        if (n < 0 || (size_t)n >= FILE_MAX)
            return gsp_err_set(err, GSP_E_USAGE, 0, "the name is too long");
        gsp_buf_clear(&path);
        gsp_buf_printf(&path, "%s/%s", targets->output_dir, recording->file);
        const char *text = gsp_buf_cstr(&path);
        if (!text)
            return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a name");
        recording->fd = open(text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (recording->fd >= 0)
            return GSP_OK;
        if (errno != EEXIST)
            break;
    }
    return gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write %.180s", path.p);
}

static void remove_file(const struct gsp_targets *targets, const struct recording *recording)
{
    gsp_auto_buf path = {0};
    gsp_buf_printf(&path, "%s/%s", targets->output_dir, recording->file);
    if (recording->fd >= 0 && gsp_buf_cstr(&path))
        unlink(path.p);
}

static int prepare(const struct gsp_targets *targets, const struct gsp_recording_order *order,
                   struct recording *recording, struct gsp_err *err)
{
    const struct gsp_record_opts opts = {.pid = order->pid,
                                         .rate_hz = order->rate_hz,
                                         .duration_ns = order->duration_ns,
                                         .subprocesses = order->subprocesses,
                                         .idle = true,
                                         .native = order->native,
                                         .beat_ns = FLUSH_NS};
    recording->sink = (struct gsp_record_sink){.user = recording,
                                               .sample = take_sample,
                                               .thread_changed = thread_changed,
                                               .process_changed = process_changed,
                                               .beat = beat};
    int rc = gsp_model_profile_new(false, &recording->profile, err);
    if (rc == GSP_OK)
        rc = gsp_sample_record_new(&opts, recording->profile, &recording->sink, &recording->record,
                                   err);
    if (rc == GSP_OK)
        rc = open_file(targets, order->stem, recording, err);
    if (rc == GSP_OK)
        rc = gsp_export_stream_new(recording->fd, recording->profile, &recording->stream, err);
    return rc;
}

/* Makes room by forgetting the oldest that has ended; under the lock. */
static bool make_room(struct gsp_targets *targets)
{
    size_t running = 0;
    for (size_t i = 0; i < targets->recording_count; i++)
        running += !atomic_load(&targets->recordings[i]->ended);
    if (running >= GSP_RECORDINGS_MAX)
        return false;
    if (targets->recording_count < GSP_COUNT(targets->recordings))
        return true;
    for (size_t i = 0; i < targets->recording_count; i++) {
        struct recording *old = targets->recordings[i];
        if (!old->joined)
            continue;
        recording_free(old);
        targets->recording_count--;
        memmove(&targets->recordings[i], &targets->recordings[i + 1],
                (targets->recording_count - i) * sizeof(struct recording *));
        return true;
    }
    return false;
}

static int begin(struct gsp_targets *targets, struct recording *recording, struct gsp_err *err)
{
    int rc = GSP_OK;
    pthread_mutex_lock(&targets->lock);
    if (targets->stopping || !make_room(targets))
        rc = gsp_err_set(err, GSP_E_LIMIT, 0, "%u recordings are being made", GSP_RECORDINGS_MAX);
    else if (pthread_create(&recording->thread, NULL, run, recording) != 0)
        rc = gsp_err_set(err, GSP_E_NOMEM, 0, "no thread to record with");
    else
        targets->recordings[targets->recording_count++] = recording;
    pthread_mutex_unlock(&targets->lock);
    return rc;
}

/* Where the session keeps it: before the thread is there, whose end may come at once. */
static int note(struct gsp_targets *targets, const struct gsp_recording_order *order,
                struct recording *recording, struct gsp_err *err)
{
    const struct gsp_stacks_begin begin = {.session = order->session,
                                           .file = recording->file,
                                           .pid = order->pid,
                                           .kept = order->duration_ns == 0};
    if (!order->session[0])
        return GSP_OK;
    return gsp_sessions_stacks_begin(targets->sessions, &begin, &recording->ticket, err);
}

int gsp_targets_record(struct gsp_targets *targets, const struct gsp_recording_order *order,
                       char file[300], struct gsp_err *err)
{
    struct recording *recording = calloc(1, sizeof(*recording));
    if (!recording)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a recording");
    recording->owner = targets;
    recording->fd = -1;
    recording->pid = order->pid;
    recording->rate_hz = order->rate_hz;
    recording->start_ns = gsp_realtime_ns();
    snprintf(recording->session, sizeof(recording->session), "%s", order->session);
    int rc = prepare(targets, order, recording, err);
    if (rc == GSP_OK)
        rc = note(targets, order, recording, err);
    if (rc == GSP_OK) {
        memcpy(file, recording->file, FILE_MAX);
        rc = begin(targets, recording, err);
    }
    if (rc < 0) {
        const struct gsp_stacks_end end = {.how = GSP_STACKS_ENDED,
                                           .end_ns = recording->start_ns,
                                           .error = "it could not be begun"};
        gsp_sessions_stacks_end(targets->sessions, &recording->ticket, &end);
        remove_file(targets, recording);
        recording_free(recording);
    }
    return rc;
}

/* The pid can be another process's by now, which nobody asked us to look into. */
static int resume(struct gsp_targets *targets, const struct gsp_stacks_wanted *wanted,
                  bool allow_control, struct gsp_err *err)
{
    char file[FILE_MAX];
    const struct gsp_recording_order order = {.pid = wanted->pid,
                                              .rate_hz = wanted->rate_hz,
                                              .session = wanted->session,
                                              .stem = wanted->stem,
                                              .native = wanted->native};
    if (!allow_control)
        return gsp_err_set(err, GSP_E_PERM, 0, "this daemon does not look into processes");
    if (wanted->process_start && !gsp_ring_process_is_live(wanted->pid, wanted->process_start, 0))
        return gsp_err_set(err, GSP_E_NOPROC, ESRCH, "it ended while no daemon ran");
    return gsp_targets_record(targets, &order, file, err);
}

void gsp_targets_resume(struct gsp_targets *targets, bool allow_control)
{
    struct gsp_stacks_wanted *wanted = NULL;
    size_t count = 0;
    struct gsp_err err = {0};
    if (gsp_sessions_stacks_wanted(targets->sessions, &wanted, &count, &err) < 0)
        gsp_log_warn("daemon", "%s", err.msg);
    for (size_t i = 0; i < count; i++) {
        struct gsp_stacks_ticket ticket;
        const struct gsp_stacks_begin begin = {
            .session = wanted[i].session, .file = "", .pid = wanted[i].pid, .kept = true};
        if (resume(targets, &wanted[i], allow_control, &err) == GSP_OK)
            continue;
        /* That no stacks come any more is part of what the session tells. */
        const struct gsp_stacks_end end = {
            .how = GSP_STACKS_ENDED, .end_ns = gsp_realtime_ns(), .error = err.msg};
        if (gsp_sessions_stacks_begin(targets->sessions, &begin, &ticket, NULL) == GSP_OK)
            gsp_sessions_stacks_end(targets->sessions, &ticket, &end);
        gsp_log_warn("daemon", "no more stacks of process %d: %s", wanted[i].pid, err.msg);
    }
    free(wanted);
}

void gsp_targets_stop_session(struct gsp_targets *targets, const char *session)
{
    pthread_mutex_lock(&targets->lock);
    for (size_t i = 0; i < targets->recording_count; i++)
        if (strcmp(targets->recordings[i]->session, session) == 0)
            targets->recordings[i]->stop = 1;
    pthread_mutex_unlock(&targets->lock);
}

void gsp_targets_end_session(struct gsp_targets *targets, const char *session)
{
    gsp_targets_stop_session(targets, session);
    pthread_mutex_lock(&targets->lock);
    /* While one is waited for the others may move: from the start again. */
    for (size_t i = 0; i < targets->recording_count; i++) {
        struct recording *recording = targets->recordings[i];
        if (strcmp(recording->session, session) != 0 || recording->joined)
            continue;
        join(targets, recording);
        i = (size_t)-1;
    }
    pthread_mutex_unlock(&targets->lock);
}

bool gsp_targets_tend(struct gsp_targets *targets)
{
    pthread_mutex_lock(&targets->lock);
    const size_t before = targets->pid_count;
    for (size_t i = 0; i < targets->pid_count;)
        if (gsp_targets_runs(targets->pids[i]))
            i++;
        else
            remove_at(targets, i);
    const bool forgotten = targets->pid_count != before;
    for (size_t i = 0; i < targets->recording_count; i++) {
        struct recording *recording = targets->recordings[i];
        if (atomic_load(&recording->ended) && !recording->joined && !recording->joining) {
            join(targets, recording);
            break; /* the list may have changed meanwhile; the rest has its turn next time */
        }
    }
    pthread_mutex_unlock(&targets->lock);
    return forgotten;
}

static void recording_json(const struct recording *recording, struct gsp_json *json)
{
    const bool ended = atomic_load(&recording->ended);
    gsp_json_obj_begin(json);
    gsp_json_put_i64(json, "pid", recording->pid);
    gsp_json_put_str(json, "session", recording->session[0] ? recording->session : NULL);
    gsp_json_put_str(json, "file", recording->file);
    gsp_json_put_bool(json, "is_active", !ended);
    gsp_json_put_f64(json, "rate_hz", recording->rate_hz);
    gsp_json_put_u64(json, "samples", atomic_load(&recording->samples));
    gsp_json_put_str(json, "error", ended && recording->error[0] ? recording->error : NULL);
    gsp_json_obj_end(json);
}

void gsp_targets_json(struct gsp_targets *targets, struct gsp_json *json)
{
    pthread_mutex_lock(&targets->lock);
    gsp_json_key(json, "attached");
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < targets->pid_count; i++)
        gsp_json_i64(json, targets->pids[i]);
    gsp_json_arr_end(json);
    gsp_json_key(json, "recordings");
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < targets->recording_count; i++)
        recording_json(targets->recordings[i], json);
    gsp_json_arr_end(json);
    pthread_mutex_unlock(&targets->lock);
}

bool gsp_targets_file(struct gsp_targets *targets, int32_t pid, char file[300])
{
    bool found = false;
    pthread_mutex_lock(&targets->lock);
    for (size_t i = targets->recording_count; i-- > 0 && !found;) {
        const struct recording *recording = targets->recordings[i];
        found = !pid || recording->pid == pid;
        if (found)
            memcpy(file, recording->file, FILE_MAX);
    }
    pthread_mutex_unlock(&targets->lock);
    return found;
}
