/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/time.h"
#include "export/formats.h"
#include "export/function_names.h"
#include "export/json_read.h"
#include "model/format.h"

/* Totals of a function. A sample counts once, even if the function is on the stack repeatedly. */
struct function {
    struct gsp_sv name;
    uint64_t count, own_count;
    int64_t weight, own_weight;
    size_t seen_in; /* 1 + the row of the total that was counted last */
};

struct writer {
    const struct gsp_profile *profile;
    const struct gsp_model_profile_meta *meta;
    struct gsp_out *out;
    struct gsp_json json;
    struct gsp_function_names names;
    uint32_t frames[GSP_STACK_DEPTH_MAX]; /* of the stack being written */
};

static void put_string(struct writer *writer, const char *key, uint32_t id)
{
    if (gsp_json_key_or_null(&writer->json, key, id != GSP_NONE))
        gsp_json_sv(&writer->json, gsp_model_profile_string_at(writer->profile, id));
}

/* Microseconds, because a double cannot hold an epoch time with more digits. */
static void put_us_as_s(struct writer *writer, const char *key, int64_t us)
{
    gsp_json_put_fixed(&writer->json, key, us, 6);
}

static void put_flag(struct writer *writer, const char *key, bool v)
{
    gsp_json_put_bool(&writer->json, key, v);
}

/* A weight in seconds; null if it is not a time. */
static void put_time(struct writer *writer, const char *key, int64_t weight)
{
    if (gsp_json_key_or_null(&writer->json, key, writer->meta->unit == GSP_UNIT_NS))
        gsp_json_fixed(&writer->json, weight, 9);
}

static int64_t floor_us(int64_t ns)
{
    return ns / GSP_NS_PER_US - (ns % GSP_NS_PER_US < 0);
}

/* Starts a new line. Each element of a long list begins on one. */
static void break_line(struct writer *writer)
{
    gsp_buf_putc(&writer->out->buf, '\n');
    gsp_out_spill(writer->out);
}

static void write_meta(struct writer *writer)
{
    static const char *const units[] = {
        [GSP_UNIT_NS] = "ns", [GSP_UNIT_COUNT] = "count", [GSP_UNIT_BYTES] = "bytes"};
    const struct gsp_model_profile_meta *meta = writer->meta;
    const struct gsp_process *first = gsp_model_profile_process_at(writer->profile, 0);
    put_string(writer, "process_name", first ? first->name : GSP_NONE);
    gsp_json_put_str(&writer->json, "gsprof_version", GSP_VERSION);
    if (first)
        gsp_json_put_i64(&writer->json, "pid", first->pid);
    if (meta->period_ns > 0) {
        gsp_json_put_f64(&writer->json, "rate", round(1e12 / (double)meta->period_ns) / 1e3);
        gsp_json_put_i64(&writer->json, "period_ns", meta->period_ns);
    }
    if (meta->duration_ns > 0)
        gsp_json_put_fixed(&writer->json, "duration", meta->duration_ns, 9);
    if (meta->start_ns)
        put_us_as_s(writer, "start_time", floor_us(meta->start_ns));
    gsp_json_put_str(&writer->json, "unit", units[meta->unit]);
    gsp_json_put_u64(&writer->json, "ticks", meta->ticks);
    gsp_json_put_obj_begin(&writer->json, "losses");
    uint64_t count = 0;
    const char *cause = NULL;
    for (size_t i = 0; (cause = gsp_model_loss_at(&meta->losses, i, &count)); i++)
        gsp_json_put_u64(&writer->json, cause, count);
    gsp_json_obj_end(&writer->json);
    put_flag(writer, "truncated", meta->truncated);
}

static void write_processes(struct writer *writer)
{
    size_t count = gsp_model_profile_process_count(writer->profile);
    gsp_json_put_arr_begin(&writer->json, "processes");
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_process *process = gsp_model_profile_process_at(writer->profile, i);
        break_line(writer);
        gsp_json_obj_begin(&writer->json);
        gsp_json_put_i64(&writer->json, "pid", process->pid);
        if (gsp_json_key_or_null(&writer->json, "ppid", process->ppid >= 0))
            gsp_json_i64(&writer->json, process->ppid);
        if (gsp_json_key_or_null(&writer->json, "ns_pid", process->ns_pid != 0))
            gsp_json_i64(&writer->json, process->ns_pid);
        put_string(writer, "name", process->name);
        put_string(writer, "cmdline", process->cmdline);
        put_string(writer, "version", process->version);
        gsp_json_obj_end(&writer->json);
    }
    gsp_json_arr_end(&writer->json);
}

/* The kernel's id if known, otherwise Python's. */
static uint64_t thread_id(const struct gsp_thread *thread)
{
    return thread->os_id ? thread->os_id : thread->python_id;
}

static int32_t thread_pid(const struct writer *writer, const struct gsp_thread *thread)
{
    return gsp_model_profile_process_at(writer->profile, thread->process)->pid;
}

static void write_threads(struct writer *writer)
{
    size_t count = gsp_model_profile_thread_count(writer->profile);
    gsp_json_put_arr_begin(&writer->json, "threads");
    for (uint32_t i = 0; i < count; i++) {
        const struct gsp_thread *thread = gsp_model_profile_thread_at(writer->profile, i);
        break_line(writer);
        gsp_json_obj_begin(&writer->json);
        gsp_json_put_i64(&writer->json, "pid", thread_pid(writer, thread));
        gsp_json_put_u64(&writer->json, "thread_id", thread_id(thread));
        if (gsp_json_key_or_null(&writer->json, "python_id", thread->python_id))
            gsp_json_u64(&writer->json, thread->python_id);
        put_string(writer, "name", thread->name);
        put_flag(writer, "main", thread->is_main);
        gsp_json_obj_end(&writer->json);
    }
    gsp_json_arr_end(&writer->json);
}

static void write_frames(struct writer *writer)
{
    static const char *const kinds[] = {[GSP_FRAME_PYTHON] = "python",
                                        [GSP_FRAME_NATIVE] = "native",
                                        [GSP_FRAME_KERNEL] = "kernel",
                                        [GSP_FRAME_MARK] = "mark",
                                        [GSP_FRAME_BRIDGED] = "native"};
    size_t count = gsp_model_profile_frame_count(writer->profile);
    gsp_json_put_arr_begin(&writer->json, "frames");
    for (uint32_t id = 1; id <= count; id++) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(writer->profile, id);
        break_line(writer);
        gsp_json_obj_begin(&writer->json);
        put_string(writer, "name", frame->name);
        put_string(writer, "file", frame->file);
        if (gsp_json_key_or_null(&writer->json, "line", frame->line))
            gsp_json_u64(&writer->json, frame->line);
        if (gsp_json_key_or_null(&writer->json, "first_line", frame->first_line))
            gsp_json_u64(&writer->json, frame->first_line);
        gsp_json_put_str(&writer->json, "kind", kinds[frame->kind]);
        if (frame->kind == GSP_FRAME_BRIDGED)
            gsp_json_put_bool(&writer->json, "bridged", true);
        gsp_json_obj_end(&writer->json);
    }
    gsp_json_arr_end(&writer->json);
}

/* The members that samples and totals share: the thread, and the stack by name and by frame. */
static void write_stack(struct writer *writer, uint32_t thread_index, uint32_t stack)
{
    const struct gsp_thread *thread = gsp_model_profile_thread_at(writer->profile, thread_index);
    size_t depth =
        gsp_model_profile_stack_frames(writer->profile, stack, writer->frames, GSP_STACK_DEPTH_MAX);
    gsp_json_put_u64(&writer->json, "thread_id", thread_id(thread));
    gsp_json_put_arr_begin(&writer->json, "stack");
    for (size_t i = 0; i < depth; i++)
        gsp_json_sv(&writer->json,
                    gsp_model_profile_string_at(writer->names.pool,
                                                writer->names.of_frame[writer->frames[i]]));
    gsp_json_arr_end(&writer->json);
    gsp_json_put_arr_begin(&writer->json, "frames");
    for (size_t i = 0; i < depth; i++)
        gsp_json_u64(&writer->json, writer->frames[i] - 1);
    gsp_json_arr_end(&writer->json);
    gsp_json_put_i64(&writer->json, "pid", thread_pid(writer, thread));
    put_string(writer, "thread_name", thread->name);
}

static void write_samples(struct writer *writer)
{
    int64_t start_us = floor_us(writer->meta->start_ns);
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, writer->profile);
    while (gsp_model_sample_iter_next(&iter, &sample)) {
        break_line(writer);
        gsp_json_obj_begin(&writer->json);
        write_stack(writer, sample.thread, sample.stack);
        put_us_as_s(writer, "timestamp", start_us + floor_us(sample.time_ns));
        put_flag(writer, "on_cpu", (sample.flags & GSP_SAMPLE_ON_CPU) != 0);
        put_flag(writer, "gil", (sample.flags & GSP_SAMPLE_HAS_GIL) != 0);
        gsp_json_put_i64(&writer->json, "weight", sample.weight);
        gsp_json_obj_end(&writer->json);
    }
}

/* Totals are entries with a count and no time. */
static void write_totals(struct writer *writer)
{
    size_t count = gsp_model_profile_total_count(writer->profile);
    for (size_t i = 0; i < count; i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(writer->profile, i);
        break_line(writer);
        gsp_json_obj_begin(&writer->json);
        write_stack(writer, total->thread, total->stack);
        gsp_json_put_null(&writer->json, "timestamp");
        gsp_json_put_u64(&writer->json, "count", total->count);
        gsp_json_put_i64(&writer->json, "weight", total->weight);
        gsp_json_obj_end(&writer->json);
    }
}

static void add_weight(int64_t *sum, int64_t weight)
{
    if (__builtin_add_overflow(*sum, weight, sum))
        *sum = weight > 0 ? INT64_MAX : INT64_MIN;
}

/* functions is indexed by the string ids of the names. */
static void sum_functions(struct writer *writer, struct function *functions)
{
    const struct gsp_profile *profile = writer->profile;
    size_t count = gsp_model_profile_total_count(profile);
    for (size_t row = 0; row < count; row++) {
        const struct gsp_total *total = gsp_model_profile_total_at(profile, row);
        uint32_t leaf = total->stack;
        for (uint32_t stack = leaf; stack != GSP_NONE;
             stack = gsp_model_profile_stack_caller(profile, stack)) {
            uint32_t frame = gsp_model_profile_stack_frame(profile, stack);
            struct function *function = &functions[writer->names.of_frame[frame]];
            if (stack == leaf) {
                function->own_count += total->count;
                add_weight(&function->own_weight, total->weight);
            }
            if (function->seen_in != row + 1) {
                function->seen_in = row + 1;
                function->count += total->count;
                add_weight(&function->weight, total->weight);
            }
        }
    }
}

/* Descending by samples, then by name, so that the same profile gives the same file. */
static int compare(const void *a, const void *b)
{
    const struct function *x = a;
    const struct function *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.p, y->name.p, len);
    if (order == 0 && x->name.len != y->name.len)
        order = x->name.len < y->name.len ? -1 : 1;
    return order;
}

static int write_functions(struct writer *writer, struct gsp_err *err)
{
    size_t count = gsp_model_profile_string_count(writer->names.pool) + 1;
    gsp_auto_free struct function *functions = calloc(count, sizeof(*functions));
    if (!functions)
        return gsp_err_nomem(err);
    for (uint32_t i = 0; i < count; i++)
        functions[i].name = gsp_model_profile_string_at(writer->names.pool, i);
    sum_functions(writer, functions);
    qsort(functions, count, sizeof(*functions), compare);

    gsp_json_put_obj_begin(&writer->json, "functions");
    for (size_t i = 0; i < count && functions[i].count; i++) {
        const struct function *function = &functions[i];
        break_line(writer);
        gsp_json_keysv(&writer->json, function->name);
        gsp_json_obj_begin(&writer->json);
        gsp_json_put_u64(&writer->json, "samples", function->count);
        put_time(writer, "time", function->weight);
        gsp_json_put_u64(&writer->json, "own_samples", function->own_count);
        put_time(writer, "own_time", function->own_weight);
        gsp_json_obj_end(&writer->json);
    }
    gsp_json_obj_end(&writer->json);
    return GSP_OK;
}

static int write_all(struct writer *writer, struct gsp_err *err)
{
    gsp_json_init(&writer->json, &writer->out->buf);
    gsp_json_obj_begin(&writer->json);
    write_meta(writer);
    write_processes(writer);
    write_threads(writer);
    write_frames(writer);
    gsp_json_put_arr_begin(&writer->json, "samples");
    if (gsp_model_profile_has_samples(writer->profile))
        write_samples(writer);
    else
        write_totals(writer);
    gsp_json_arr_end(&writer->json);
    int rc = write_functions(writer, err);
    gsp_json_obj_end(&writer->json);
    gsp_buf_putc(&writer->out->buf, '\n');
    return rc;
}

static int write_json(const struct gsp_profile *profile, const struct gsp_view_options *view,
                      struct gsp_out *out, struct gsp_err *err)
{
    (void)view; /* the file keeps everything; its reader chooses the view */
    struct writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return gsp_err_nomem(err);
    writer->profile = profile;
    writer->meta = gsp_model_profile_meta_get(profile);
    writer->out = out;
    int rc = gsp_export__function_names_fill(profile, &writer->names, err);
    if (rc == GSP_OK)
        rc = write_all(writer, err);
    gsp_export__function_names_free(&writer->names);
    free(writer);
    return rc;
}

static bool sniff_json(struct gsp_sv head)
{
    while (head.len && *head.p && strchr(" \t\r\n", *head.p)) {
        head.p++;
        head.len--;
    }
    if (!gsp_sv_starts(head, "{") || gsp_export__head_has(head, "\"$schema\"") ||
        gsp_export__head_has(head, "\"traceEvents\""))
        return false;
    return gsp_export__head_has(head, "\"process_name\"") ||
           gsp_export__head_has(head, "\"samples\"");
}

const struct gsp_format gsp_format_json = {
    .name = "json",
    .extensions = {".json"},
    .summary = "profile JSON: samples and functions, for scripts",
    .needs_samples = true,
    .write = write_json,
    .read = gsp_export__json_read,
    .sniff = sniff_json,
};
