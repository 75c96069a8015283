/* SPDX-License-Identifier: Apache-2.0 */
#include "export/json_read.h"

#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/time.h"

/* Later times (the year 2250, in seconds) are invalid, and would not fit into nanoseconds. */
#define TIME_MAX_S  8.9e9
/* Larger times are epoch times (1973 or later); smaller ones count from the start. */
#define EPOCH_MIN_S 1e8

struct reader {
    struct gsp_profile *profile;
    struct gsp_err *err;
    yyjson_val *root;
    struct gsp_hmap processes; /* pid -> process */
    struct gsp_hmap threads;   /* process, thread id -> thread */
    uint32_t *frames;          /* frame ids, by index in the file's frame table */
    size_t frame_count;
    int64_t start_us;
    int64_t default_weight;
};

int gsp_export__json_parse(struct gsp_sv bytes, yyjson_doc **out, struct gsp_err *err)
{
    yyjson_read_err cause = {0};
    /* yyjson writes to the text only with YYJSON_READ_INSITU; its parameter is not const. */
    union {
        const char *constant;
        char *writable;
    } text = {.constant = bytes.p};
    *out = yyjson_read_opts(text.writable, bytes.len, YYJSON_READ_NOFLAG, NULL, &cause);
    if (*out)
        return GSP_OK;
    if (cause.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return gsp_err_nomem(err);
    return gsp_err_set(err, GSP_E_FORMAT, 0, "not JSON: %s at byte %zu", cause.msg, cause.pos);
}

static struct gsp_sv sv_of(yyjson_val *value)
{
    const char *text = yyjson_get_str(value);
    return text ? (struct gsp_sv){text, yyjson_get_len(value)} : (struct gsp_sv){"", 0};
}

struct gsp_sv gsp_export__json_sv(yyjson_val *obj, const char *key)
{
    return sv_of(yyjson_obj_get(obj, key));
}

double gsp_export__json_num(yyjson_val *obj, const char *key, double otherwise)
{
    yyjson_val *value = yyjson_obj_get(obj, key);
    return yyjson_is_num(value) ? yyjson_get_num(value) : otherwise;
}

int64_t gsp_export__json_i64(yyjson_val *obj, const char *key, int64_t otherwise)
{
    yyjson_val *value = yyjson_obj_get(obj, key);
    if (yyjson_is_uint(value)) {
        uint64_t v = yyjson_get_uint(value);
        return v <= INT64_MAX ? (int64_t)v : otherwise;
    }
    if (yyjson_is_sint(value))
        return yyjson_get_sint(value);
    if (yyjson_is_real(value)) {
        double v = yyjson_get_real(value);
        return v > -9e18 && v < 9e18 ? llround(v) : otherwise;
    }
    return otherwise;
}

uint64_t gsp_export__json_u64(yyjson_val *obj, const char *key)
{
    yyjson_val *value = yyjson_obj_get(obj, key);
    return yyjson_is_uint(value) ? yyjson_get_uint(value) : 0;
}

bool gsp_export__json_flag(yyjson_val *obj, const char *key)
{
    return yyjson_is_true(yyjson_obj_get(obj, key));
}

static int malformed(struct reader *reader, const char *what, size_t i)
{
    return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "%s %zu is malformed", what, i);
}

static uint32_t member_u32(yyjson_val *obj, const char *key)
{
    uint64_t v = gsp_export__json_u64(obj, key);
    return v <= UINT32_MAX ? (uint32_t)v : 0;
}

static int32_t member_pid(yyjson_val *obj, const char *key, int32_t otherwise)
{
    int64_t v = gsp_export__json_i64(obj, key, otherwise);
    return v >= 0 && v <= INT32_MAX ? (int32_t)v : otherwise;
}

static int intern_member(struct reader *reader, yyjson_val *obj, const char *key, uint32_t *out)
{
    return gsp_model_profile_string(reader->profile, gsp_export__json_sv(obj, key), out,
                                    reader->err);
}

static int64_t ns_of_s(double s)
{
    return s > 0 && s < TIME_MAX_S ? llround(s * 1e9) : 0;
}

static void read_meta(struct reader *reader)
{
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(reader->profile);
    yyjson_val *root = reader->root;
    meta->duration_ns = ns_of_s(gsp_export__json_num(root, "duration", 0));
    double rate_hz = gsp_export__json_num(root, "rate", 0);
    int64_t period_ns = rate_hz > 1e-9 && rate_hz <= 1e9 ? llround(1e9 / rate_hz) : 0;
    period_ns = gsp_export__json_i64(root, "period_ns", period_ns);
    meta->period_ns = period_ns > 0 ? period_ns : 0;
    meta->ticks = gsp_export__json_u64(root, "ticks");
    meta->truncated = gsp_export__json_flag(root, "truncated");
    yyjson_val *losses = yyjson_obj_get(root, "losses");
    meta->losses.torn = gsp_export__json_u64(losses, "torn");
    meta->losses.late = gsp_export__json_u64(losses, "late");
    meta->losses.failed = gsp_export__json_u64(losses, "failed");
    meta->losses.gone = gsp_export__json_u64(losses, "gone");
    meta->losses.skipped = gsp_export__json_u64(losses, "skipped");
    meta->losses.unmerged = gsp_export__json_u64(losses, "unmerged");
}

/* The weight of a sample that has none: from the rate, or from the totals of the function with the
 * most samples. 0 if the file has neither. */
static int64_t guess_weight(struct reader *reader)
{
    int64_t period_ns = gsp_model_profile_meta(reader->profile)->period_ns;
    if (period_ns > 0)
        return period_ns;
    double best_samples = 0;
    double weight_ns = 0;
    yyjson_val *key = NULL;
    yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(reader->root, "functions"));
    while ((key = yyjson_obj_iter_next(&iter)) != NULL) {
        yyjson_val *function = yyjson_obj_iter_get_val(key);
        double samples = gsp_export__json_num(function, "samples", 0);
        double time_s = gsp_export__json_num(function, "time", 0);
        if (samples > best_samples && time_s > 0) {
            best_samples = samples;
            weight_ns = time_s * 1e9 / samples;
        }
    }
    return weight_ns >= 1 && weight_ns < 9e18 ? llround(weight_ns) : 0;
}

static int read_unit(struct reader *reader)
{
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(reader->profile);
    struct gsp_sv unit = gsp_export__json_sv(reader->root, "unit");
    int64_t weight_ns = guess_weight(reader);
    reader->default_weight = 1;
    if (gsp_sv_eq(unit, gsp_sv_of("bytes"))) {
        meta->unit = GSP_UNIT_BYTES;
    } else if (gsp_sv_eq(unit, gsp_sv_of("count")) || (unit.len == 0 && weight_ns == 0)) {
        meta->unit = GSP_UNIT_COUNT;
    } else if (gsp_sv_eq(unit, gsp_sv_of("ns")) || unit.len == 0) {
        meta->unit = GSP_UNIT_NS;
        reader->default_weight = weight_ns;
    } else {
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "unknown unit \"%.*s\"",
                           (int)(unit.len < 40 ? unit.len : 40), unit.p);
    }
    return GSP_OK;
}

static int add_process(struct reader *reader, const struct gsp_process *process, uint32_t *out)
{
    int rc = gsp_model_profile_process(reader->profile, process, out, reader->err);
    if (rc)
        return rc;
    /* If two processes have the same pid, samples refer to the first. */
    if (!gsp_hmap_get(&reader->processes, (uint64_t)process->pid, 0) &&
        !gsp_hmap_put(&reader->processes, (uint64_t)process->pid, 0, *out))
        return gsp_err_nomem(reader->err);
    return GSP_OK;
}

static int read_processes(struct reader *reader)
{
    yyjson_val *item = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(reader->root, "processes"));
    while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
        struct gsp_process process = {.pid = member_pid(item, "pid", 0),
                                      .ppid = member_pid(item, "ppid", -1),
                                      .ns_pid = member_pid(item, "ns_pid", 0)};
        uint32_t index = GSP_NO_INDEX;
        int rc = intern_member(reader, item, "name", &process.name);
        if (rc == GSP_OK)
            rc = intern_member(reader, item, "cmdline", &process.cmdline);
        if (rc == GSP_OK)
            rc = intern_member(reader, item, "version", &process.version);
        if (rc == GSP_OK)
            rc = add_process(reader, &process, &index);
        if (rc)
            return rc;
    }
    return GSP_OK;
}

/* The process of an entry, by default the file's. Adds it if it is new. */
static int find_process(struct reader *reader, yyjson_val *item, uint32_t *out)
{
    int32_t own_pid = member_pid(reader->root, "pid", 0);
    int32_t pid = member_pid(item, "pid", own_pid);
    const uint32_t *known = gsp_hmap_get(&reader->processes, (uint64_t)pid, 0);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    struct gsp_process process = {.pid = pid, .ppid = -1};
    int rc = intern_member(reader, reader->root, "process_name", &process.name);
    return rc ? rc : add_process(reader, &process, out);
}

static int add_thread(struct reader *reader, const struct gsp_thread *thread, uint64_t id,
                      uint32_t *out)
{
    int rc = gsp_model_profile_thread(reader->profile, thread, out, reader->err);
    if (rc)
        return rc;
    if (!gsp_hmap_get(&reader->threads, thread->process, id) &&
        !gsp_hmap_put(&reader->threads, thread->process, id, *out))
        return gsp_err_nomem(reader->err);
    return GSP_OK;
}

static int read_threads(struct reader *reader)
{
    yyjson_val *item = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(reader->root, "threads"));
    while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
        uint64_t id = gsp_export__json_u64(item, "thread_id");
        struct gsp_thread thread = {.python_id = gsp_export__json_u64(item, "python_id"),
                                    .is_main = gsp_export__json_flag(item, "main")};
        /* The writer falls back to Python's id. */
        thread.os_id = id == thread.python_id ? 0 : id;
        uint32_t index = GSP_NO_INDEX;
        int rc = find_process(reader, item, &thread.process);
        if (rc == GSP_OK)
            rc = intern_member(reader, item, "name", &thread.name);
        if (rc == GSP_OK)
            rc = add_thread(reader, &thread, id, &index);
        if (rc)
            return rc;
    }
    return GSP_OK;
}

static int find_thread(struct reader *reader, yyjson_val *item, uint32_t *out)
{
    struct gsp_thread thread = {.os_id = gsp_export__json_u64(item, "thread_id")};
    int rc = find_process(reader, item, &thread.process);
    if (rc)
        return rc;
    const uint32_t *known = gsp_hmap_get(&reader->threads, thread.process, thread.os_id);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    rc = intern_member(reader, item, "thread_name", &thread.name);
    return rc ? rc : add_thread(reader, &thread, thread.os_id, out);
}

static enum gsp_frame_kind kind_of(yyjson_val *item)
{
    struct gsp_sv text = gsp_export__json_sv(item, "kind");
    if (gsp_sv_eq(text, gsp_sv_of("native")))
        return yyjson_is_true(yyjson_obj_get(item, "bridged")) ? GSP_FRAME_BRIDGED
                                                               : GSP_FRAME_NATIVE;
    if (gsp_sv_eq(text, gsp_sv_of("kernel")))
        return GSP_FRAME_KERNEL;
    return gsp_sv_eq(text, gsp_sv_of("mark")) ? GSP_FRAME_MARK : GSP_FRAME_PYTHON;
}

static int read_frames(struct reader *reader)
{
    yyjson_val *table = yyjson_obj_get(reader->root, "frames");
    reader->frames = calloc(yyjson_arr_size(table) + 1, sizeof(*reader->frames));
    if (!reader->frames)
        return gsp_err_nomem(reader->err);
    yyjson_val *item = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(table);
    for (size_t i = 0; (item = yyjson_arr_iter_next(&iter)) != NULL; i++) {
        struct gsp_frame frame = {.line = member_u32(item, "line"),
                                  .first_line = member_u32(item, "first_line"),
                                  .kind = kind_of(item)};
        int rc = intern_member(reader, item, "name", &frame.name);
        if (rc == GSP_OK)
            rc = intern_member(reader, item, "file", &frame.file);
        if (rc == GSP_OK)
            rc = gsp_model_profile_frame(reader->profile, &frame, &reader->frames[i], reader->err);
        if (rc)
            return rc;
    }
    reader->frame_count = yyjson_arr_size(table);
    return GSP_OK;
}

/* One element of "frames" (an index) or of "stack" (a name). */
static int find_frame(void *ctx, yyjson_val *item, uint32_t *out)
{
    struct reader *reader = ctx;
    if (yyjson_is_uint(item) && yyjson_get_uint(item) < reader->frame_count) {
        *out = reader->frames[yyjson_get_uint(item)];
        return GSP_OK;
    }
    if (!yyjson_is_str(item))
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "a frame is neither a name nor an index");
    struct gsp_frame frame = {.kind = GSP_FRAME_PYTHON};
    int rc = gsp_model_profile_string(reader->profile, sv_of(item), &frame.name, reader->err);
    return rc ? rc : gsp_model_profile_frame(reader->profile, &frame, out, reader->err);
}

int gsp_export__json_stack(struct gsp_profile *profile, yyjson_val *list,
                           gsp_export__json_frame_fn frame_of, void *ctx, uint32_t *out,
                           struct gsp_err *err)
{
    yyjson_val *item = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    *out = GSP_NONE;
    while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
        uint32_t frame = GSP_NONE;
        int rc = frame_of(ctx, item, &frame);
        if (rc == GSP_OK)
            rc = gsp_model_profile_stack(profile, *out, frame, out, err);
        if (rc)
            return rc;
    }
    return GSP_OK;
}

static int read_stack(struct reader *reader, yyjson_val *sample, uint32_t *out)
{
    yyjson_val *list = yyjson_obj_get(sample, "frames");
    if (!yyjson_is_arr(list))
        list = yyjson_obj_get(sample, "stack");
    if (!yyjson_is_arr(list))
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "no stack");
    return gsp_export__json_stack(reader->profile, list, find_frame, reader, out, reader->err);
}

static int read_sample(struct reader *reader, yyjson_val *item)
{
    struct gsp_sample sample = {0};
    int rc = find_thread(reader, item, &sample.thread);
    if (rc == GSP_OK)
        rc = read_stack(reader, item, &sample.stack);
    if (rc)
        return rc;
    sample.weight = gsp_export__json_i64(item, "weight", reader->default_weight);
    double time_s = gsp_export__json_num(item, "timestamp", (double)NAN);
    if (isnan(time_s)) {
        uint64_t count = gsp_export__json_u64(item, "count");
        struct gsp_total total = {.thread = sample.thread,
                                  .stack = sample.stack,
                                  .count = count ? count : 1,
                                  .weight = sample.weight};
        return gsp_model_profile_add_total(reader->profile, &total, reader->err);
    }
    if (!(time_s >= 0 && time_s < TIME_MAX_S))
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "a timestamp is out of range");
    sample.time_ns = (llround(time_s * 1e6) - reader->start_us) * GSP_NS_PER_US;
    if (gsp_export__json_flag(item, "on_cpu"))
        sample.flags |= GSP_SAMPLE_ON_CPU;
    if (gsp_export__json_flag(item, "gil"))
        sample.flags |= GSP_SAMPLE_HAS_GIL;
    return gsp_model_profile_add(reader->profile, &sample, reader->err);
}

/* Sets the start time: the file's, or the earliest sample's if those are epoch times. */
static void find_start(struct reader *reader, yyjson_val *samples)
{
    double start_s = gsp_export__json_num(reader->root, "start_time", (double)NAN);
    if (isnan(start_s)) {
        yyjson_val *item = NULL;
        yyjson_arr_iter iter = yyjson_arr_iter_with(samples);
        while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
            double time_s = gsp_export__json_num(item, "timestamp", (double)NAN);
            if (isnan(start_s) || time_s < start_s)
                start_s = time_s;
        }
    }
    if (start_s >= EPOCH_MIN_S && start_s < TIME_MAX_S) {
        reader->start_us = llround(start_s * 1e6);
        gsp_model_profile_meta(reader->profile)->start_ns = reader->start_us * GSP_NS_PER_US;
    }
}

static int read_samples(struct reader *reader)
{
    yyjson_val *samples = yyjson_obj_get(reader->root, "samples");
    if (!yyjson_is_arr(samples))
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "no list of samples");
    find_start(reader, samples);
    yyjson_val *item = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(samples);
    for (size_t i = 0; (item = yyjson_arr_iter_next(&iter)) != NULL; i++) {
        int rc = yyjson_is_obj(item) ? read_sample(reader, item) : GSP_E_FORMAT;
        if (rc == GSP_E_FORMAT)
            return malformed(reader, "sample", i);
        if (rc)
            return rc;
    }
    return GSP_OK;
}

static int read_all(struct reader *reader)
{
    if (!yyjson_is_obj(reader->root))
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "not a JSON object");
    read_meta(reader);
    int rc = read_unit(reader);
    if (rc == GSP_OK)
        rc = read_processes(reader);
    if (rc == GSP_OK)
        rc = read_threads(reader);
    if (rc == GSP_OK)
        rc = read_frames(reader);
    return rc ? rc : read_samples(reader);
}

int gsp_export__json_read(struct gsp_sv bytes, struct gsp_profile *profile, struct gsp_err *err)
{
    yyjson_doc *doc = NULL;
    int rc = gsp_export__json_parse(bytes, &doc, err);
    if (rc)
        return rc;
    struct reader reader = {.profile = profile, .err = err, .root = yyjson_doc_get_root(doc)};
    rc = read_all(&reader);
    gsp_hmap_free(&reader.processes);
    gsp_hmap_free(&reader.threads);
    free(reader.frames);
    yyjson_doc_free(doc);
    return rc;
}
