/* SPDX-License-Identifier: Apache-2.0 */
#include "frames/session_write.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/time.h"
#include "frames/session_format.h"

#define GPU_PREFIX        "gpu.metrics."
/* Of the start of a file with a long name, every byte of which is escaped. */
#define SESSION_START_MAX 2048U

static void put_time(struct gsp_json *json, const char *key, int64_t ns)
{
    char text[64];
    gsp_json_put_str(json, key, gsp_fmt_iso_time(ns, text, sizeof(text)));
}

/* The period of the newest frames of the session; 0: not known. */
static int64_t find_period(const struct gsp_session_file_spec *session,
                           struct gsp_frame_log *frames)
{
    struct gsp_frame_log_stats stats;
    uint64_t from = session->last_frame > 2 ? session->last_frame - 2 : 1;
    if (from < session->first_frame)
        from = session->first_frame;
    if (session->last_frame < from ||
        gsp_frames__log_stats(frames, from, session->last_frame, &stats, NULL) != 0)
        return 0;
    int64_t period = stats.period_ns;
    gsp_frames__log_stats_free(&stats);
    return period;
}

/* The time between the first and the last frame, which are at the start and at the stop. It is
 * right even if the clock was set. After a reboot only the wall clock knows. */
static int64_t find_duration(const struct gsp_session_file_spec *session,
                             struct gsp_frame_log *frames)
{
    const int64_t wall_ns = session->end_ns - session->start_ns;
    const int64_t frames_ns =
        gsp_frames__log_elapsed_ns(frames, session->first_frame, session->last_frame);
    if (frames_ns > 0)
        return frames_ns;
    return wall_ns > 0 ? wall_ns : 0;
}

static void put_metadata(const struct gsp_session_file_spec *session, struct gsp_frame_log *frames,
                         struct gsp_json *json)
{
    bool any = session->last_frame >= session->first_frame;
    int64_t period = find_period(session, frames);
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "name", session->name);
    gsp_json_put_str(json, "host", session->host);
    put_time(json, "start_time", session->start_ns);
    put_time(json, "end_time", session->end_ns);
    gsp_json_put_f64(json, "duration_s",
                     (double)find_duration(session, frames) / (double)GSP_NS_PER_S);
    gsp_json_put_f64(json, "frequency_ms",
                     period > 0 ? (double)period / (double)GSP_NS_PER_MS : (double)NAN);
    gsp_json_put_u64(json, "format", GSP_SESSION_FORMAT);
    gsp_json_put_str(json, "version", GSP_VERSION);
    gsp_json_put_raw(json, "labels", session->labels.len ? session->labels : gsp_sv_of("{}"));
    gsp_json_put_arr_begin(json, "pids");
    for (size_t i = 0; i < session->pid_count; i++)
        gsp_json_i64(json, session->pids[i]);
    gsp_json_arr_end(json);
    gsp_json_put_raw(json, "stacks", session->stacks.len ? session->stacks : gsp_sv_of("[]"));
    gsp_json_key(json, "first_frame");
    any ? gsp_json_u64(json, session->first_frame) : gsp_json_null(json);
    gsp_json_key(json, "last_frame");
    any ? gsp_json_u64(json, session->last_frame) : gsp_json_null(json);
    gsp_json_put_u64(json, "frame_count",
                     any ? gsp_frames_log_count(frames, session->first_frame, session->last_frame)
                         : 0);
    gsp_json_obj_end(json);
}

/* The means of one GPU: of the metrics that have its label. */
static void put_device(struct gsp_json *json, const struct gsp_frame_log_stats *stats, size_t from)
{
    const char *label = stats->metrics[from].label;
    gsp_json_put_obj_begin(json, label);
    for (size_t i = from; i < stats->count; i++) {
        const struct gsp_metric_stats *m = &stats->metrics[i];
        if (strcmp(m->label, label) != 0 || !gsp_sv_starts(gsp_sv_of(m->name), GPU_PREFIX))
            continue;
        const char *column = m->name + strlen(GPU_PREFIX);
        char key[160];
        if (strcmp(column, "util_percent") == 0)
            snprintf(key, sizeof(key), "avg_gpu_util");
        else if (strcmp(column, "memory_used_percent") == 0)
            snprintf(key, sizeof(key), "avg_gpu_memory");
        else
            snprintf(key, sizeof(key), "avg_%s", column);
        gsp_json_put_f64(json, key, m->mean);
    }
    gsp_json_obj_end(json);
}

static void put_devices(struct gsp_json *json, const struct gsp_frame_log_stats *stats)
{
    gsp_json_obj_begin(json);
    for (size_t i = 0; i < stats->count; i++) {
        const char *label = stats->metrics[i].label;
        size_t first = 0;
        while (first < i && strcmp(stats->metrics[first].label, label) != 0)
            first++;
        if (label[0] && first == i)
            put_device(json, stats, i);
    }
    gsp_json_obj_end(json);
}

static void put_client(struct gsp_json *json, const struct gsp_frame_log_stats *stats,
                       const char *host)
{
    static const struct {
        const char *metric;
        const char *key;
    } MEANS[] = {
        {"system.memory.used_percent", "avg_dram_util"},
        {"system.disk.busiest_percent", "avg_disk_util"},
        {"system.cpu.util_percent", "avg_cpu_util"},
    };
    gsp_json_obj_begin(json);
    gsp_json_put_obj_begin(json, host);
    for (size_t k = 0; k < GSP_COUNT(MEANS); k++) {
        for (size_t i = 0; i < stats->count; i++) {
            const struct gsp_metric_stats *m = &stats->metrics[i];
            if (!m->device[0] && strcmp(m->name, MEANS[k].metric) == 0)
                gsp_json_put_f64(json, MEANS[k].key, m->mean);
        }
    }
    gsp_json_obj_end(json);
    gsp_json_obj_end(json);
}

static void put_metric(struct gsp_json *json, const struct gsp_metric_stats *m)
{
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "metric", m->name);
    gsp_json_put_str(json, "device", m->device[0] ? m->device : NULL);
    gsp_json_put_str(json, "unit", m->unit);
    gsp_json_put_u64(json, "count", m->count);
#define PUT(name) gsp_json_put_f64(json, #name, m->name);
    GSP_SESSION_STATISTICS(PUT)
#undef PUT
    if (isfinite(m->integral)) {
        gsp_json_put_f64(json, "integral", m->integral);
        gsp_json_put_str(json, "integral_unit", m->integral_unit);
        gsp_json_put_f64(json, "integral_s", m->integral_s);
    }
    gsp_json_obj_end(json);
}

static void put_gaps(struct gsp_json *json, const struct gsp_frame_log_stats *stats)
{
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < stats->gap_count; i++) {
        const struct gsp_frame_log_gap *gap = &stats->gaps[i];
        gsp_json_obj_begin(json);
        gsp_json_put_u64(json, "after_frame", gap->after_count);
        put_time(json, "from", gap->from_ns);
        put_time(json, "to", gap->to_ns);
        gsp_json_put_str(json, "cause", gap->cause);
        gsp_json_put_u64(json, "frames_lost", gap->lost);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

/* Writes everything after the frames. */
static void put_tail(const struct gsp_session_file_spec *session,
                     const struct gsp_frame_log_stats *stats, struct gsp_out *out)
{
    struct gsp_json json;
    gsp_buf_puts(&out->buf, "\n],\n\"" GSP_SESSION_BY_DEVICE "\":");
    gsp_json_init(&json, &out->buf);
    put_devices(&json, stats);
    gsp_buf_puts(&out->buf, ",\n\"" GSP_SESSION_BY_CLIENT "\":");
    gsp_json_init(&json, &out->buf);
    put_client(&json, stats, session->host);
    gsp_buf_puts(&out->buf, ",\n\"" GSP_SESSION_SUMMARY "\":[");
    for (size_t i = 0; i < stats->count; i++) {
        gsp_buf_puts(&out->buf, i ? ",\n" : "\n");
        gsp_json_init(&json, &out->buf);
        put_metric(&json, &stats->metrics[i]);
        gsp_out_spill(out);
    }
    gsp_buf_puts(&out->buf, "\n],\n\"" GSP_SESSION_LOSSES "\":");
    gsp_json_init(&json, &out->buf);
    gsp_json_obj_begin(&json);
    gsp_json_put_u64(&json, "frames_lost", stats->lost);
    gsp_json_put_u64(&json, "frames_damaged", stats->damaged);
    gsp_json_put_u64(&json, "gaps", stats->gaps_total);
    gsp_json_put_u64(&json, "clock_steps_back", stats->clock_steps);
    gsp_json_put_u64(&json, "stack_gaps", session->stack_gaps);
    gsp_json_put_fixed(&json, "stack_gap_s", session->stack_gap_ns / GSP_NS_PER_MS, 3);
    gsp_json_obj_end(&json);
    gsp_buf_puts(&out->buf, ",\n\"" GSP_SESSION_GAPS "\":");
    gsp_json_init(&json, &out->buf);
    put_gaps(&json, stats);
    gsp_buf_puts(&out->buf, "}\n");
}

/* A second thread computes the statistics while the frames are copied: it reads, and the copy
 * mostly writes. */
struct counting {
    const struct gsp_session_file_spec *session;
    struct gsp_frame_log *frames;
    struct gsp_frame_log_stats stats;
    struct gsp_err err;
    int rc;
};

static void *count_all(void *ctx)
{
    struct counting *c = ctx;
    c->rc = gsp_frames__log_stats(c->frames, c->session->first_frame, c->session->last_frame,
                                  &c->stats, &c->err);
    return NULL;
}

/* The start of the file: what gsp_frames_session_fd_is() compares. */
static void put_start(const char *name, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_buf_puts(out, "{\"" GSP_SESSION_METADATA "\":{\"name\":");
    gsp_json_init(&json, out);
    gsp_json_str(&json, name);
    gsp_buf_putc(out, ',');
}

bool gsp_frames_session_is(const char *path, const char *name)
{
    gsp_auto_fd fd = gsp_file_open_regular(path);
    return fd >= 0 && gsp_frames_session_fd_is(fd, name);
}

bool gsp_frames_session_fd_is(int fd, const char *name)
{
    gsp_auto_buf start = {0};
    char found[SESSION_START_MAX];
    put_start(name, &start);
    return !start.failed && start.len <= sizeof(found) &&
           gsp_fd_read_at(fd, found, start.len, 0) == (ssize_t)start.len &&
           memcmp(found, start.p, start.len) == 0;
}

static int write_head(const struct gsp_session_file_spec *session, struct gsp_frame_log *frames,
                      int fd, struct gsp_err *err)
{
    struct gsp_out out;
    struct gsp_json json;
    gsp_out_init(&out, fd);
    gsp_buf_puts(&out.buf, "{\"" GSP_SESSION_METADATA "\":");
    gsp_json_init(&json, &out.buf);
    put_metadata(session, frames, &json);
    gsp_buf_puts(&out.buf, ",\n\"" GSP_SESSION_FRAMES "\":[\n");
    return gsp_out_finish(&out, err);
}

static int write_all(const struct gsp_session_file_spec *session, struct gsp_frame_log *frames,
                     int fd, uint64_t *frames_written, struct gsp_err *err)
{
    int rc = write_head(session, frames, fd, err);
    if (rc)
        return rc;
    struct counting counting = {.session = session, .frames = frames};
    pthread_t thread;
    bool has_thread = pthread_create(&thread, NULL, count_all, &counting) == 0;
    if (session->last_frame >= session->first_frame)
        rc = gsp_frames__log_copy(frames, session->first_frame, session->last_frame, fd,
                                  frames_written, err);
    if (has_thread)
        pthread_join(thread, NULL);
    else
        count_all(&counting);
    if (rc == 0 && counting.rc) {
        rc = counting.rc;
        if (err)
            *err = counting.err;
    }
    if (rc == 0) {
        struct gsp_out out;
        gsp_out_init(&out, fd);
        put_tail(session, &counting.stats, &out);
        rc = gsp_out_finish(&out, err);
    }
    gsp_frames__log_stats_free(&counting.stats);
    return rc;
}

int gsp_frames_session_write(const struct gsp_session_file_spec *session,
                             struct gsp_frame_log *frames, const char *path, bool replace,
                             uint64_t *frames_written, struct gsp_err *err)
{
    *frames_written = 0;
    struct gsp_newfile file;
    int rc = gsp_newfile_open(&file, path, replace, err);
    if (rc)
        return rc;
    file.lazy = true;
    rc = write_all(session, frames, file.fd, frames_written, err);
    if (rc == 0)
        return gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}
