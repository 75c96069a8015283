/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/targets.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/time.h"
#include "record/stream_sink.h"
#include "ring/process.h"
#include "sample/record.h"

#define SUFFIX_MAX 1000
#define FLUSH_NS   GSP_NS_PER_S
#define FILE_MAX   300U
/* Ended recordings that are still listed. */
#define ENDED_MAX  32U

struct recording {
    struct gsp_targets *owner;
    struct gsp_stream_sink sink;
    struct gsp_record *record;
    pthread_t thread;
    volatile sig_atomic_t stop;
    bool joined;  /* protected by owner->lock */
    bool joining; /* a thread is in pthread_join(); protected by owner->lock */
    atomic_bool ended;
    bool is_named; /* the file has its name */
    int fd;
    int32_t pid;
    int64_t start_ns;
    double rate_hz;
    struct gsp_stacks_id ticket;
    char session[256];
    char file[FILE_MAX];
    char error[240]; /* written before ended is set */
};

struct gsp_targets {
    struct gsp_sessions *sessions;
    char *output_dir;
    struct gsp_lock lock;
    pthread_cond_t changed;             /* a recording was joined */
    int32_t *pids GSP_GUARDED_BY(lock); /* attached, sorted */
    size_t pid_count GSP_GUARDED_BY(lock);
    struct recording *recordings[GSP_RECORDINGS_MAX + ENDED_MAX] GSP_GUARDED_BY(lock);
    size_t recording_count GSP_GUARDED_BY(lock);
    bool stopping GSP_GUARDED_BY(lock);
};

int gsp_daemon__targets_open(const char *output_dir, struct gsp_sessions *sessions,
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
        return gsp_err_nomem(err);
    }
    targets->sessions = sessions;
    targets->output_dir = copy;
    targets->pids = pids;
    pthread_cond_init(&targets->changed, NULL);
    *out = targets;
    return GSP_OK;
}

/* Frees what only a running recording needs. */
static void release(struct recording *recording)
{
    gsp_sample_record_free(recording->record);
    recording->record = NULL;
    gsp_record_stream_sink_free(&recording->sink);
    gsp_fd_close(&recording->fd);
}

static void recording_free(struct recording *recording)
{
    release(recording);
    free(recording);
}

/* Waits for the thread to end. Releases the lock while it waits. */
static void join(struct gsp_targets *targets, struct recording *recording)
    GSP_REQUIRES(&targets->lock)
{
    while (recording->joining)
        gsp_lock_wait(&targets->lock, &targets->changed);
    if (recording->joined)
        return;
    recording->joining = true;
    gsp_lock_release(&targets->lock);
    pthread_join(recording->thread, NULL);
    gsp_lock_take(&targets->lock);
    recording->joining = false;
    recording->joined = true;
    pthread_cond_broadcast(&targets->changed);
}

void gsp_daemon__targets_stop(struct gsp_targets *targets)
{
    if (!targets)
        return;
    gsp_lock_take(&targets->lock);
    targets->stopping = true;
    for (size_t i = 0; i < targets->recording_count; i++)
        targets->recordings[i]->stop = 1;
    for (size_t i = 0; i < targets->recording_count; i++)
        join(targets, targets->recordings[i]);
    gsp_lock_release(&targets->lock);
}

void gsp_daemon__targets_close(struct gsp_targets *targets)
{
    if (!targets)
        return;
    gsp_daemon__targets_stop(targets);
    for (size_t i = 0; i < targets->recording_count; i++)
        recording_free(targets->recordings[i]);
    pthread_cond_destroy(&targets->changed);
    free(targets->output_dir);
    free(targets->pids);
    free(targets);
}

bool gsp_daemon__process_exists(int32_t pid)
{
    return kill(pid, 0) == 0 || errno == EPERM;
}

/* The index of a pid among the sorted ones, or the index where it belongs. */
static size_t index_of(const int32_t *pids, size_t count, int32_t pid)
{
    size_t i = 0;
    while (i < count && pids[i] < pid)
        i++;
    return i;
}

int gsp_daemon__targets_attach(struct gsp_targets *targets, int32_t pid, struct gsp_err *err)
{
    if (!gsp_daemon__process_exists(pid))
        return gsp_err_set(err, GSP_E_NOPROC, ESRCH, "process %d does not exist", pid);
    int rc = GSP_OK;
    gsp_lock_take(&targets->lock);
    const size_t at = index_of(targets->pids, targets->pid_count, pid);
    const bool known = at < targets->pid_count && targets->pids[at] == pid;
    if (!known && targets->pid_count == GSP_TARGETS_MAX) {
        rc = gsp_err_set(err, GSP_E_LIMIT, 0, "%u processes are attached already", GSP_TARGETS_MAX);
    } else if (!known) {
        memmove(&targets->pids[at + 1], &targets->pids[at],
                (targets->pid_count - at) * sizeof(*targets->pids));
        targets->pids[at] = pid;
        targets->pid_count++;
    }
    gsp_lock_release(&targets->lock);
    return rc;
}

static void remove_at(struct gsp_targets *targets, size_t at) GSP_REQUIRES(&targets->lock)
{
    memmove(&targets->pids[at], &targets->pids[at + 1],
            (targets->pid_count - at - 1) * sizeof(*targets->pids));
    targets->pid_count--;
}

int gsp_daemon__targets_detach(struct gsp_targets *targets, int32_t pid, struct gsp_err *err)
{
    gsp_lock_take(&targets->lock);
    const size_t at = index_of(targets->pids, targets->pid_count, pid);
    const bool known = at < targets->pid_count && targets->pids[at] == pid;
    if (known)
        remove_at(targets, at);
    gsp_lock_release(&targets->lock);
    return known ? GSP_OK : gsp_err_set(err, GSP_E_NOPROC, 0, "process %d is not attached", pid);
}

static int by_number(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a;
    const int32_t right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

int gsp_daemon__targets_add_pids(struct gsp_targets *targets, int32_t **pids, size_t *count)
{
    gsp_lock_take(&targets->lock);
    const size_t all = *count + targets->pid_count;
    int32_t *more = realloc(*pids, (all ? all : 1) * sizeof(*more));
    if (more) {
        memcpy(more + *count, targets->pids, targets->pid_count * sizeof(*more));
        *pids = more;
    }
    gsp_lock_release(&targets->lock);
    if (!more)
        return GSP_E_NOMEM;
    qsort(more, all, sizeof(*more), by_number);
    *count = 0;
    for (size_t i = 0; i < all; i++)
        if (i == 0 || more[i] != more[i - 1])
            more[(*count)++] = more[i];
    return GSP_OK;
}

/* Notes the end of the recording in its session. If the daemon stops, the next daemon continues. */
static void note_end(struct recording *recording, enum gsp_record_end why)
{
    struct gsp_targets *targets = recording->owner;
    gsp_lock_take(&targets->lock);
    const bool stopping = targets->stopping;
    gsp_lock_release(&targets->lock);
    const struct gsp_stacks_end end = {
        .how = stopping && why == GSP_RECORD_STOPPED ? GSP_STACKS_STOPPED : GSP_STACKS_ENDED,
        .end_ns = gsp_realtime_ns(),
        .samples = (int64_t)atomic_load(&recording->sink.samples),
        .error = recording->error};
    gsp_daemon__sessions_stacks_end(targets->sessions, &recording->ticket, &end);
}

static void *run(void *arg)
{
    struct recording *recording = arg;
    struct gsp_err err = {0};
    prctl(PR_SET_NAME, "gsprof-record");
    enum gsp_record_end end = GSP_RECORD_STOPPED;
    int rc = gsp_sample_record_run(recording->record, &recording->stop, &end, &err);
    int finished = gsp_record_stream_sink_finish(&recording->sink, rc < 0 ? NULL : &err);
    if (rc < 0 || finished < 0)
        memcpy(recording->error, err.msg, sizeof(recording->error));
    note_end(recording, rc < 0 ? GSP_RECORD_EXITED : end);
    release(recording);
    malloc_trim(0); /* a target can make a recording use hundreds of megabytes */
    atomic_store(&recording->ended, true);
    return NULL;
}

/* Gives the file a name, or creates it if it is not open. Returns false if that fails. */
static bool claim_name(struct recording *recording, const char *path)
{
    if (recording->fd < 0) {
        recording->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        recording->is_named = recording->fd >= 0;
    } else {
        char self[32];
        snprintf(self, sizeof(self), "/proc/self/fd/%d", recording->fd);
        recording->is_named = linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
    }
    return recording->is_named;
}

/* Names the file <stem>.gsp, or <stem>_<number>.gsp if that exists. */
static int name_file(const struct gsp_targets *targets, const char *stem,
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
            return gsp_err_nomem(err);
        if (claim_name(recording, text))
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
    if (recording->is_named && gsp_buf_cstr(&path))
        unlink(path.p);
}

/* Opens the file and writes its header. The file gets its name after that, so that a killed daemon
 * leaves no file without a header, unless the file system has no files without names. */
static int open_file(const struct gsp_targets *targets, const char *stem,
                     struct recording *recording, struct gsp_err *err)
{
    recording->fd = open(targets->output_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    int rc = recording->fd < 0 ? name_file(targets, stem, recording, err) : GSP_OK;
    if (rc == GSP_OK)
        rc = gsp_record_stream_sink_open(&recording->sink, recording->fd, err);
    if (rc == GSP_OK && !recording->is_named)
        rc = name_file(targets, stem, recording, err);
    return rc;
}

static int prepare(const struct gsp_targets *targets, const struct gsp_recording_request *order,
                   struct recording *recording, struct gsp_err *err)
{
    const struct gsp_record_opts opts = {.pid = order->pid,
                                         .rate_hz = order->rate_hz,
                                         .duration_ns = order->duration_ns,
                                         .subprocesses = order->subprocesses,
                                         .idle = true,
                                         .native = order->native,
                                         .poll_ns = FLUSH_NS};
    struct gsp_stream_sink *sink = &recording->sink;
    int rc = gsp_record_stream_sink_init(sink, err);
    if (rc == GSP_OK)
        rc = gsp_sample_record_new(&opts, sink->profile, &sink->sink, &recording->record, err);
    if (rc == GSP_OK)
        rc = open_file(targets, order->stem, recording, err);
    return rc;
}

/* Makes sure that another recording fits in the list; removes the oldest that has ended if
 * necessary. */
static bool make_space(struct gsp_targets *targets) GSP_REQUIRES(&targets->lock)
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
    gsp_lock_take(&targets->lock);
    if (targets->stopping || !make_space(targets))
        rc = gsp_err_set(err, GSP_E_LIMIT, 0,
                         "%u recordings are already running: wait until one ends",
                         GSP_RECORDINGS_MAX);
    else if (pthread_create(&recording->thread, NULL, run, recording) != 0)
        rc = gsp_err_nomem(err);
    else
        targets->recordings[targets->recording_count++] = recording;
    gsp_lock_release(&targets->lock);
    return rc;
}

/* Notes the start of the recording in its session. Call it before the thread starts, because the
 * thread may end at once. */
static int note_begin(struct gsp_targets *targets, const struct gsp_recording_request *order,
                      struct recording *recording, struct gsp_err *err)
{
    const struct gsp_stacks_begin begin = {.session = order->session,
                                           .file = recording->file,
                                           .pid = order->pid,
                                           .kept = order->duration_ns == 0};
    if (!order->session[0])
        return GSP_OK;
    return gsp_daemon__sessions_stacks_begin(targets->sessions, &begin, &recording->ticket, err);
}

int gsp_daemon__targets_record(struct gsp_targets *targets,
                               const struct gsp_recording_request *order, char file[300],
                               struct gsp_err *err)
{
    struct recording *recording = calloc(1, sizeof(*recording));
    if (!recording)
        return gsp_err_nomem(err);
    recording->owner = targets;
    recording->fd = -1;
    recording->pid = order->pid;
    recording->rate_hz = order->rate_hz;
    recording->start_ns = gsp_realtime_ns();
    snprintf(recording->session, sizeof(recording->session), "%s", order->session);
    int rc = prepare(targets, order, recording, err);
    if (rc == GSP_OK)
        rc = note_begin(targets, order, recording, err);
    if (rc == GSP_OK) {
        memcpy(file, recording->file, FILE_MAX);
        rc = begin(targets, recording, err);
    }
    if (rc < 0) {
        const struct gsp_stacks_end end = {.how = GSP_STACKS_ENDED,
                                           .end_ns = recording->start_ns,
                                           .error = "the recording could not start"};
        gsp_daemon__sessions_stacks_end(targets->sessions, &recording->ticket, &end);
        remove_file(targets, recording);
        recording_free(recording);
    }
    return rc;
}

/* Compares start times, because another process may have the pid by now. */
static int resume(struct gsp_targets *targets, const struct gsp_stacks_unfinished *wanted,
                  struct gsp_err *err)
{
    char file[FILE_MAX];
    const struct gsp_recording_request order = {.pid = wanted->pid,
                                                .rate_hz = wanted->rate_hz,
                                                .session = wanted->session,
                                                .stem = wanted->stem,
                                                .native = wanted->native};
    if (wanted->process_start && !gsp_ring_process_is_live(wanted->pid, wanted->process_start, 0))
        return gsp_err_set(err, GSP_E_NOPROC, ESRCH, "the process ended while no daemon ran");
    return gsp_daemon__targets_record(targets, &order, file, err);
}

void gsp_daemon__targets_resume(struct gsp_targets *targets)
{
    struct gsp_stacks_unfinished *wanted = NULL;
    size_t count = 0;
    struct gsp_err err = {0};
    if (gsp_daemon__sessions_stacks_unfinished(targets->sessions, &wanted, &count, &err) < 0)
        gsp_log_warn("daemon", "%s", err.msg);
    for (size_t i = 0; i < count; i++) {
        struct gsp_stacks_id ticket;
        const struct gsp_stacks_begin begin = {
            .session = wanted[i].session, .file = "", .pid = wanted[i].pid, .kept = true};
        if (resume(targets, &wanted[i], &err) == GSP_OK)
            continue;
        /* An empty recording with an error, so that the session reports it. */
        const struct gsp_stacks_end end = {
            .how = GSP_STACKS_ENDED, .end_ns = gsp_realtime_ns(), .error = err.msg};
        if (gsp_daemon__sessions_stacks_begin(targets->sessions, &begin, &ticket, NULL) == GSP_OK)
            gsp_daemon__sessions_stacks_end(targets->sessions, &ticket, &end);
        gsp_log_warn("daemon", "cannot continue to record process %d: %s", wanted[i].pid, err.msg);
    }
    free(wanted);
}

void gsp_daemon__targets_stop_session(struct gsp_targets *targets, const char *session)
{
    gsp_lock_take(&targets->lock);
    for (size_t i = 0; i < targets->recording_count; i++)
        if (strcmp(targets->recordings[i]->session, session) == 0)
            targets->recordings[i]->stop = 1;
    gsp_lock_release(&targets->lock);
}

void gsp_daemon__targets_end_session(struct gsp_targets *targets, const char *session)
{
    gsp_daemon__targets_stop_session(targets, session);
    gsp_lock_take(&targets->lock);
    /* Restart after each join, because the list may have changed in the meantime. */
    for (size_t i = 0; i < targets->recording_count; i++) {
        struct recording *recording = targets->recordings[i];
        if (strcmp(recording->session, session) != 0 || recording->joined)
            continue;
        join(targets, recording);
        i = (size_t)-1;
    }
    gsp_lock_release(&targets->lock);
}

bool gsp_daemon__targets_maintain(struct gsp_targets *targets)
{
    gsp_lock_take(&targets->lock);
    const size_t before = targets->pid_count;
    for (size_t i = 0; i < targets->pid_count;)
        if (gsp_daemon__process_exists(targets->pids[i]))
            i++;
        else
            remove_at(targets, i);
    const bool forgotten = targets->pid_count != before;
    for (size_t i = 0; i < targets->recording_count; i++) {
        struct recording *recording = targets->recordings[i];
        if (atomic_load(&recording->ended) && !recording->joined && !recording->joining) {
            join(targets, recording);
            break; /* the list may have changed; the others are joined next time */
        }
    }
    gsp_lock_release(&targets->lock);
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
    gsp_json_put_u64(json, "samples", atomic_load(&recording->sink.samples));
    gsp_json_put_str(json, "error", ended && recording->error[0] ? recording->error : NULL);
    gsp_json_obj_end(json);
}

void gsp_daemon__targets_json(struct gsp_targets *targets, struct gsp_json *json)
{
    gsp_lock_take(&targets->lock);
    gsp_json_put_arr_begin(json, "attached");
    for (size_t i = 0; i < targets->pid_count; i++)
        gsp_json_i64(json, targets->pids[i]);
    gsp_json_arr_end(json);
    gsp_json_put_arr_begin(json, "recordings");
    for (size_t i = 0; i < targets->recording_count; i++)
        recording_json(targets->recordings[i], json);
    gsp_json_arr_end(json);
    gsp_lock_release(&targets->lock);
}

bool gsp_daemon__targets_file(struct gsp_targets *targets, int32_t pid, char file[300])
{
    bool found = false;
    gsp_lock_take(&targets->lock);
    for (size_t i = targets->recording_count; i-- > 0 && !found;) {
        const struct recording *recording = targets->recordings[i];
        found = !pid || recording->pid == pid;
        if (found)
            memcpy(file, recording->file, FILE_MAX);
    }
    gsp_lock_release(&targets->lock);
    return found;
}
