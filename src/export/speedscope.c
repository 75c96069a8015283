/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/map.h"
#include "export/formats.h"
#include "export/speedscope_read.h"
#include "export/timeline.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

struct writer {
    const struct gsp_profile *profile;
    const struct gsp_view_options *view;
    struct gsp_out *out;
    struct gsp_json json;
    struct gsp_timeline timeline;         /* frame_map: index into shared.frames */
    uint32_t frames[GSP_STACK_DEPTH_MAX]; /* of the stack being written */
};

/* The line that identifies the frame in this view; 0: none. */
static uint32_t line_of(const struct writer *writer, const struct gsp_frame *frame)
{
    if (writer->view && writer->view->no_lines)
        return 0;
    return writer->view && writer->view->by_function ? frame->first_line : frame->line;
}

static void write_frame(struct writer *writer, const struct gsp_frame *frame)
{
    gsp_buf_putc(&writer->out->buf, '\n');
    gsp_json_obj_begin(&writer->json);
    gsp_json_put_sv(&writer->json, "name",
                    gsp_model_profile_string_at(writer->profile, frame->name));
    if (frame->file != GSP_NONE) {
        gsp_json_put_sv(&writer->json, "file",
                        gsp_model_profile_string_at(writer->profile, frame->file));
    }
    if (line_of(writer, frame))
        gsp_json_put_i64(&writer->json, "line", line_of(writer, frame));
    gsp_json_obj_end(&writer->json);
    gsp_out_spill(writer->out);
}

/* Frames that the view does not distinguish share an entry. */
static int write_frames(struct writer *writer, struct gsp_err *err)
{
    size_t count = gsp_model_profile_frame_count(writer->profile);
    struct gsp_hmap known = {0};
    uint32_t next = 0;
    int rc = GSP_OK;
    gsp_json_put_obj_begin(&writer->json, "shared");
    gsp_json_put_arr_begin(&writer->json, "frames");
    for (uint32_t id = 1; id <= count && rc == GSP_OK; id++) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(writer->profile, id);
        uint64_t a = (uint64_t)frame->name << 32 | frame->file;
        const uint32_t *same = gsp_hmap_get(&known, a, line_of(writer, frame));
        if (same) {
            writer->timeline.frame_map[id] = *same;
        } else if (gsp_hmap_put(&known, a, line_of(writer, frame), next)) {
            writer->timeline.frame_map[id] = next++;
            write_frame(writer, frame);
        } else {
            rc = gsp_err_nomem(err);
        }
    }
    gsp_json_arr_end(&writer->json);
    gsp_json_obj_end(&writer->json);
    gsp_hmap_free(&known);
    return rc;
}

/* "NAME (pid 1, tid 2)". Our reader parses it. */
static void write_thread_name(struct writer *writer, const struct gsp_thread *thread)
{
    gsp_auto_buf name = {0};
    const struct gsp_process *process =
        gsp_model_profile_process_at(writer->profile, thread->process);
    gsp_buf_putsv(&name, gsp_model_profile_string_at(writer->profile, thread->name));
    gsp_buf_printf(&name, "%s(pid %" PRId32 ", tid %" PRIu64 ")", name.len ? " " : "", process->pid,
                   thread->os_id ? thread->os_id : thread->python_id);
    gsp_json_put_sv(&writer->json, "name", gsp_buf_sv(&name));
}

static void write_stack(struct writer *writer, uint32_t stack)
{
    size_t depth =
        gsp_model_profile_stack_frames(writer->profile, stack, writer->frames, GSP_STACK_DEPTH_MAX);
    gsp_json_arr_begin(&writer->json);
    for (size_t i = 0; i < depth; i++)
        gsp_json_u64(&writer->json, writer->timeline.frame_map[writer->frames[i]]);
    gsp_json_arr_end(&writer->json);
    gsp_out_spill(writer->out);
}

/* Stacks and weights are two lists of the same length. A gap is an empty stack. */
static void write_lists(struct writer *writer, uint32_t thread)
{
    struct gsp_timeline_iter iter;
    struct gsp_timeline_span span;
    int64_t end = 0;
    gsp_json_put_arr_begin(&writer->json, "samples");
    gsp_export__timeline_iter_init(&iter, &writer->timeline, thread);
    while (gsp_export__timeline_iter_next(&iter, &span)) {
        if (span.start > end)
            write_stack(writer, GSP_NONE);
        write_stack(writer, span.stack);
        end = span.start + span.len;
    }
    gsp_json_arr_end(&writer->json);
    gsp_json_put_arr_begin(&writer->json, "weights");
    end = 0;
    gsp_export__timeline_iter_init(&iter, &writer->timeline, thread);
    while (gsp_export__timeline_iter_next(&iter, &span)) {
        if (span.start > end)
            gsp_json_i64(&writer->json, span.start - end);
        gsp_json_i64(&writer->json, span.len);
        end = span.start + span.len;
        gsp_out_spill(writer->out);
    }
    gsp_json_arr_end(&writer->json);
}

static void write_thread(struct writer *writer, uint32_t i)
{
    static const char *const units[] = {
        [GSP_UNIT_NS] = "nanoseconds", [GSP_UNIT_COUNT] = "none", [GSP_UNIT_BYTES] = "bytes"};
    gsp_buf_putc(&writer->out->buf, '\n');
    gsp_json_obj_begin(&writer->json);
    gsp_json_put_str(&writer->json, "type", "sampled");
    write_thread_name(writer, gsp_model_profile_thread_at(writer->profile, i));
    gsp_json_put_str(&writer->json, "unit",
                     units[gsp_model_profile_meta_get(writer->profile)->unit]);
    /* The same for all threads, so that they stay aligned. */
    gsp_json_put_i64(&writer->json, "startValue", 0);
    gsp_json_put_i64(&writer->json, "endValue", writer->timeline.end);
    write_lists(writer, i);
    gsp_json_obj_end(&writer->json);
}

static int write_all(struct writer *writer, struct gsp_err *err)
{
    gsp_json_init(&writer->json, &writer->out->buf);
    gsp_json_obj_begin(&writer->json);
    gsp_json_put_str(&writer->json, "$schema", SCHEMA);
    gsp_json_put_str(&writer->json, "exporter", "gsprof " GSP_VERSION);
    const struct gsp_process *process = gsp_model_profile_process_at(writer->profile, 0);
    if (process && process->name != GSP_NONE) {
        gsp_json_put_sv(&writer->json, "name",
                        gsp_model_profile_string_at(writer->profile, process->name));
    }
    gsp_json_put_i64(&writer->json, "activeProfileIndex", 0);
    int rc = write_frames(writer, err);
    if (rc)
        return rc;
    gsp_json_put_arr_begin(&writer->json, "profiles");
    for (uint32_t i = 0; i < writer->timeline.thread_count; i++)
        if (writer->timeline.threads[i].len)
            write_thread(writer, i);
    gsp_json_arr_end(&writer->json);
    gsp_json_obj_end(&writer->json);
    gsp_buf_putc(&writer->out->buf, '\n');
    return GSP_OK;
}

static int write_speedscope(const struct gsp_profile *profile, const struct gsp_view_options *view,
                            struct gsp_out *out, struct gsp_err *err)
{
    struct writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return gsp_err_nomem(err);
    writer->profile = profile;
    writer->view = view;
    writer->out = out;
    int rc = gsp_export__timeline_fill(profile, &writer->timeline, err);
    if (rc == GSP_OK)
        rc = write_all(writer, err);
    gsp_export__timeline_free(&writer->timeline);
    free(writer);
    return rc;
}

static bool sniff_speedscope(struct gsp_sv head)
{
    return gsp_export__head_has(head, "speedscope.app/file-format-schema");
}

const struct gsp_format gsp_format_speedscope = {
    .name = "speedscope",
    .extensions = {".speedscope.json", ".speedscope"},
    .summary = "for speedscope.app: threads over time",
    .needs_samples = true,
    .write = write_speedscope,
    .read = gsp_export__speedscope_read,
    .sniff = sniff_speedscope,
};
