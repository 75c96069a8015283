/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/map.h"
#include "export/formats.h"
#include "export/timeline.h"

struct writer {
    const struct gsp_profile *profile;
    struct gsp_out *out;
    struct gsp_json json;
    struct gsp_timeline timeline;       /* frame_map: the first frame of the same function */
    uint32_t open[GSP_STACK_DEPTH_MAX]; /* functions with an open slice, root first */
    uint32_t next[GSP_STACK_DEPTH_MAX]; /* functions of the span being written */
    size_t open_count;
    int32_t pid;
    uint64_t tid;
};

/* Maps all frames of a function to one, because a slice lasts as long as the function runs,
 * whatever its current line. */
static bool find_functions(struct writer *writer)
{
    size_t count = gsp_model_profile_frame_count(writer->profile);
    struct gsp_hmap known = {0};
    bool ok = true;
    for (uint32_t id = 1; id <= count && ok; id++) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(writer->profile, id);
        uint64_t a = (uint64_t)frame->name << 32 | frame->file;
        uint64_t b = (uint64_t)frame->first_line << 8 | frame->kind;
        const uint32_t *same = gsp_hmap_get(&known, a, b);
        writer->timeline.frame_map[id] = same ? *same : id;
        ok = same || gsp_hmap_put(&known, a, b, id);
    }
    gsp_hmap_free(&known);
    return ok;
}

static void begin_event(struct writer *writer, const char *phase)
{
    gsp_buf_putc(&writer->out->buf, '\n');
    gsp_out_spill(writer->out);
    gsp_json_obj_begin(&writer->json);
    gsp_json_put_str(&writer->json, "ph", phase);
    gsp_json_put_i64(&writer->json, "pid", writer->pid);
    gsp_json_put_u64(&writer->json, "tid", writer->tid);
}

static void put_time(struct writer *writer, int64_t time_ns)
{
    gsp_json_key(&writer->json, "ts");
    gsp_json_fixed(&writer->json, time_ns, 3); /* microseconds */
}

static void open_slice(struct writer *writer, uint32_t function, int64_t time_ns)
{
    static const char *const categories[] = {[GSP_FRAME_PYTHON] = "python",
                                             [GSP_FRAME_NATIVE] = "native",
                                             [GSP_FRAME_KERNEL] = "kernel",
                                             [GSP_FRAME_MARK] = "mark",
                                             [GSP_FRAME_BRIDGED] = "native,bridged"};
    const struct gsp_frame *frame = gsp_model_profile_frame_at(writer->profile, function);
    begin_event(writer, "B");
    put_time(writer, time_ns);
    gsp_json_put_sv(&writer->json, "name",
                    gsp_model_profile_string_at(writer->profile, frame->name));
    gsp_json_put_str(&writer->json, "cat", categories[frame->kind]);
    gsp_json_put_obj_begin(&writer->json, "args");
    if (frame->file != GSP_NONE) {
        gsp_json_put_sv(&writer->json, "file",
                        gsp_model_profile_string_at(writer->profile, frame->file));
    }
    if (frame->first_line)
        gsp_json_put_u64(&writer->json, "line", frame->first_line);
    gsp_json_obj_end(&writer->json);
    gsp_json_obj_end(&writer->json);
    writer->open[writer->open_count++] = function;
}

static void close_slices(struct writer *writer, size_t keep, int64_t time_ns)
{
    while (writer->open_count > keep) {
        begin_event(writer, "E");
        put_time(writer, time_ns);
        gsp_json_obj_end(&writer->json);
        writer->open_count--;
    }
}

static void write_span(struct writer *writer, const struct gsp_timeline_span *span)
{
    size_t depth = gsp_model_profile_stack_frames(writer->profile, span->stack, writer->next,
                                                  GSP_STACK_DEPTH_MAX);
    size_t same = 0;
    for (size_t i = 0; i < depth; i++)
        writer->next[i] = writer->timeline.frame_map[writer->next[i]];
    while (same < depth && same < writer->open_count && writer->next[same] == writer->open[same])
        same++;
    close_slices(writer, same, span->start);
    for (size_t i = same; i < depth; i++)
        open_slice(writer, writer->next[i], span->start);
}

/* The name of a process or a thread. */
static void write_name(struct writer *writer, const char *what, struct gsp_sv name)
{
    begin_event(writer, "M");
    gsp_json_put_str(&writer->json, "name", what);
    gsp_json_put_obj_begin(&writer->json, "args");
    gsp_json_put_sv(&writer->json, "name", name);
    gsp_json_obj_end(&writer->json);
    gsp_json_obj_end(&writer->json);
}

static void write_thread(struct writer *writer, uint32_t i)
{
    const struct gsp_thread *thread = gsp_model_profile_thread_at(writer->profile, i);
    const struct gsp_process *process =
        gsp_model_profile_process_at(writer->profile, thread->process);
    writer->pid = process->pid;
    /* Viewers keep only 32 bits, in which two Python thread ids could be equal. */
    writer->tid = thread->os_id ? thread->os_id : i + 1;
    if (process->name != GSP_NONE)
        write_name(writer, "process_name",
                   gsp_model_profile_string_at(writer->profile, process->name));
    if (thread->name != GSP_NONE)
        write_name(writer, "thread_name",
                   gsp_model_profile_string_at(writer->profile, thread->name));
    struct gsp_timeline_iter iter;
    struct gsp_timeline_span span;
    int64_t end = 0;
    gsp_export__timeline_iter_init(&iter, &writer->timeline, i);
    while (gsp_export__timeline_iter_next(&iter, &span)) {
        if (span.start > end)
            close_slices(writer, 0, end);
        write_span(writer, &span);
        end = span.start + span.len;
    }
    close_slices(writer, 0, end);
}

static int write_all(struct writer *writer, struct gsp_err *err)
{
    if (!find_functions(writer))
        return gsp_err_nomem(err);
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(writer->profile);
    gsp_json_init(&writer->json, &writer->out->buf);
    gsp_json_obj_begin(&writer->json);
    gsp_json_put_str(&writer->json, "displayTimeUnit", "ms");
    gsp_json_put_obj_begin(&writer->json, "otherData");
    gsp_json_put_str(&writer->json, "exporter", "gsprof " GSP_VERSION);
    if (meta->start_ns)
        gsp_json_put_fixed(&writer->json, "start_time", meta->start_ns, 9);
    gsp_json_obj_end(&writer->json);
    gsp_json_put_arr_begin(&writer->json, "traceEvents");
    for (uint32_t i = 0; i < writer->timeline.thread_count; i++)
        if (writer->timeline.threads[i].len)
            write_thread(writer, i);
    gsp_json_arr_end(&writer->json);
    gsp_json_obj_end(&writer->json);
    gsp_buf_putc(&writer->out->buf, '\n');
    return GSP_OK;
}

static int write_chrome(const struct gsp_profile *profile, const struct gsp_view_options *view,
                        struct gsp_out *out, struct gsp_err *err)
{
    (void)view; /* slices are always functions, grouped by thread */
    if (gsp_model_profile_meta_get(profile)->unit != GSP_UNIT_NS)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the profile has no times, which a trace needs");
    struct writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return gsp_err_nomem(err);
    writer->profile = profile;
    writer->out = out;
    int rc = gsp_export__timeline_fill(profile, &writer->timeline, err);
    if (rc == GSP_OK)
        rc = write_all(writer, err);
    gsp_export__timeline_free(&writer->timeline);
    free(writer);
    return rc;
}

static bool sniff_chrome(struct gsp_sv head)
{
    return gsp_export__head_has(head, "\"traceEvents\"");
}

const struct gsp_format gsp_format_chrome = {
    .name = "chrome",
    .aliases = {"chrometrace", "perfetto"},
    .extensions = {".trace.json", ".trace"},
    .summary = "trace for Perfetto and Chrome: functions over time",
    .needs_samples = true,
    .write = write_chrome,
    .sniff = sniff_chrome,
};
