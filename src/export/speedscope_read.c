/* SPDX-License-Identifier: Apache-2.0 */
#include "export/speedscope_read.h"

#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "export/json_read.h"

/* Larger values do not fit into nanoseconds. */
#define VALUE_MAX 4e18

struct reader {
    struct gsp_profile *profile;
    struct gsp_err *err;
    yyjson_val *root;
    uint32_t *frames; /* frame ids, by index in shared.frames */
    size_t frame_count;
    struct gsp_hmap processes; /* pid -> process */
    double scale;              /* from the file's unit to ours */
    double origin;             /* the earliest startValue, in the file's unit */
    size_t index;              /* of the profile being read */
};

static int malformed(struct reader *reader, const char *what)
{
    return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "profile %zu: %s", reader->index, what);
}

struct unit {
    const char *name;
    enum gsp_unit unit;
    double scale;
};

static const struct unit *find_unit(struct gsp_sv name)
{
    static const struct unit units[] = {
        {"none", GSP_UNIT_COUNT, 1},        {"nanoseconds", GSP_UNIT_NS, 1},
        {"microseconds", GSP_UNIT_NS, 1e3}, {"milliseconds", GSP_UNIT_NS, 1e6},
        {"seconds", GSP_UNIT_NS, 1e9},      {"bytes", GSP_UNIT_BYTES, 1},
    };
    for (size_t i = 0; i < GSP_COUNT(units); i++)
        if (gsp_sv_eq(name, gsp_sv_of(units[i].name)))
            return &units[i];
    return NULL;
}

static int read_frames(struct reader *reader)
{
    yyjson_val *table = yyjson_obj_get(yyjson_obj_get(reader->root, "shared"), "frames");
    if (!yyjson_is_arr(table))
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "no list of shared frames");
    reader->frames = calloc(yyjson_arr_size(table) + 1, sizeof(*reader->frames));
    if (!reader->frames)
        return gsp_err_nomem(reader->err);
    yyjson_val *item = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(table);
    for (size_t i = 0; (item = yyjson_arr_iter_next(&iter)) != NULL; i++) {
        int64_t line = gsp_export__json_i64(item, "line", 0);
        struct gsp_frame frame = {.line = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0};
        int rc = gsp_model_profile_string(reader->profile, gsp_export__json_sv(item, "name"),
                                          &frame.name, reader->err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_string(reader->profile, gsp_export__json_sv(item, "file"),
                                          &frame.file, reader->err);
        if (rc == GSP_OK)
            rc = gsp_model_profile_frame(reader->profile, &frame, &reader->frames[i], reader->err);
        if (rc)
            return rc;
    }
    reader->frame_count = yyjson_arr_size(table);
    return GSP_OK;
}

/* Removes a number and the mark before it from the end of text: the mark of 7 in "loader (pid 7" is
 * "(pid ". Returns false if text does not end so. */
static bool cut_number(struct gsp_sv *text, const char *mark, uint64_t *out)
{
    size_t digits = 0;
    while (digits < text->len && text->p[text->len - 1 - digits] >= '0' &&
           text->p[text->len - 1 - digits] <= '9')
        digits++;
    struct gsp_sv before = {text->p, text->len - digits};
    if (digits == 0 || digits > 19 || !gsp_sv_ends(before, mark))
        return false;
    uint64_t v = 0;
    for (size_t i = 0; i < digits; i++)
        v = v * 10 + (uint64_t)(text->p[before.len + i] - '0');
    text->len = before.len - strlen(mark);
    *out = v;
    return true;
}

static int find_process(struct reader *reader, uint64_t pid, uint32_t *out)
{
    const uint32_t *known = gsp_hmap_get(&reader->processes, pid, 0);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    struct gsp_process process = {.pid = pid <= INT32_MAX ? (int32_t)pid : 0, .ppid = -1};
    int rc = gsp_model_profile_string(reader->profile, gsp_export__json_sv(reader->root, "name"),
                                      &process.name, reader->err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_process(reader->profile, &process, out, reader->err);
    if (rc == GSP_OK && !gsp_hmap_put(&reader->processes, pid, 0, *out))
        rc = gsp_err_nomem(reader->err);
    return rc;
}

/* Adds the thread of a profile. Our own writer puts pid and tid into the profile's name. */
static int add_thread(struct reader *reader, yyjson_val *item, uint32_t *out)
{
    struct gsp_sv name = gsp_export__json_sv(item, "name");
    struct gsp_sv rest = {name.p, name.len ? name.len - 1 : 0};
    uint64_t pid = 0;
    struct gsp_thread thread = {0};
    if (gsp_sv_ends(name, ")") && cut_number(&rest, ", tid ", &thread.os_id) &&
        cut_number(&rest, "(pid ", &pid))
        name = gsp_sv_ends(rest, " ") ? (struct gsp_sv){rest.p, rest.len - 1} : rest;
    else
        thread.os_id = 0;
    int rc = gsp_model_profile_string(reader->profile, name, &thread.name, reader->err);
    if (rc == GSP_OK)
        rc = find_process(reader, pid, &thread.process);
    return rc ? rc : gsp_model_profile_thread(reader->profile, &thread, out, reader->err);
}

/* Converts from the file's unit to ours. Returns false if value is NaN or out of range. */
static bool to_our_unit(const struct reader *reader, double value, int64_t *out)
{
    double v = value * reader->scale;
    if (!(v > -VALUE_MAX && v < VALUE_MAX))
        return false;
    *out = llround(v);
    return true;
}

/* Adds a sample, or a total if the unit is not a time. An empty stack is a gap. */
static int add_span(struct reader *reader, uint32_t thread, uint32_t stack, double start,
                    double len)
{
    struct gsp_sample sample = {.thread = thread, .stack = stack};
    if (!to_our_unit(reader, start + len - reader->origin, &sample.time_ns) ||
        !to_our_unit(reader, len, &sample.weight) || len < 0)
        return malformed(reader, "a value is out of range");
    if (stack == GSP_NONE)
        return GSP_OK;
    enum gsp_unit unit = gsp_model_profile_meta(reader->profile)->unit;
    if (unit == GSP_UNIT_NS)
        return gsp_model_profile_add(reader->profile, &sample, reader->err);
    struct gsp_total total = {
        .thread = thread,
        .stack = stack,
        .count = unit == GSP_UNIT_COUNT ? (uint64_t)sample.weight : 1,
        .weight = sample.weight,
    };
    return gsp_model_profile_add_total(reader->profile, &total, reader->err);
}

static int find_frame(void *ctx, yyjson_val *index, uint32_t *out)
{
    struct reader *reader = ctx;
    if (!yyjson_is_uint(index) || yyjson_get_uint(index) >= reader->frame_count)
        return malformed(reader, "a frame is not in the list");
    *out = reader->frames[yyjson_get_uint(index)];
    return GSP_OK;
}

static int read_stack(struct reader *reader, yyjson_val *list, uint32_t *out)
{
    if (!yyjson_is_arr(list))
        return malformed(reader, "a sample is not a list");
    return gsp_export__json_stack(reader->profile, list, find_frame, reader, out, reader->err);
}

static int read_sampled(struct reader *reader, yyjson_val *item, uint32_t thread, double start)
{
    yyjson_val *samples = yyjson_obj_get(item, "samples");
    yyjson_val *weights = yyjson_obj_get(item, "weights");
    if (!yyjson_is_arr(samples) || !yyjson_is_arr(weights) ||
        yyjson_arr_size(samples) != yyjson_arr_size(weights))
        return malformed(reader, "samples and weights are not two lists of the same length");
    yyjson_arr_iter weight_iter = yyjson_arr_iter_with(weights);
    yyjson_val *sample = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(samples);
    while ((sample = yyjson_arr_iter_next(&iter)) != NULL) {
        yyjson_val *weight = yyjson_arr_iter_next(&weight_iter);
        uint32_t stack = GSP_NONE;
        if (!yyjson_is_num(weight))
            return malformed(reader, "a weight is not a number");
        int rc = read_stack(reader, sample, &stack);
        if (rc == GSP_OK)
            rc = add_span(reader, thread, stack, start, yyjson_get_num(weight));
        if (rc)
            return rc;
        start += yyjson_get_num(weight);
    }
    return GSP_OK;
}

/* Opens or closes a frame on top of *stack. */
static int apply_event(struct reader *reader, yyjson_val *event, uint32_t *stack)
{
    struct gsp_sv type = gsp_export__json_sv(event, "type");
    uint32_t frame = GSP_NONE;
    int rc = find_frame(reader, yyjson_obj_get(event, "frame"), &frame);
    if (rc)
        return rc;
    if (gsp_sv_eq(type, gsp_sv_of("O")))
        return gsp_model_profile_stack(reader->profile, *stack, frame, stack, reader->err);
    if (!gsp_sv_eq(type, gsp_sv_of("C")) || *stack == GSP_NONE ||
        gsp_model_profile_stack_frame(reader->profile, *stack) != frame)
        return malformed(reader, "an event closes a frame that is not on top");
    *stack = gsp_model_profile_stack_caller(reader->profile, *stack);
    return GSP_OK;
}

static int read_evented(struct reader *reader, yyjson_val *item, uint32_t thread, double start)
{
    yyjson_val *events = yyjson_obj_get(item, "events");
    if (!yyjson_is_arr(events))
        return malformed(reader, "no list of events");
    uint32_t stack = GSP_NONE;
    yyjson_val *event = NULL;
    yyjson_arr_iter iter = yyjson_arr_iter_with(events);
    while ((event = yyjson_arr_iter_next(&iter)) != NULL) {
        double at = gsp_export__json_num(event, "at", (double)NAN);
        if (!(at >= start))
            return malformed(reader, "the events are not in time order");
        int rc = at > start ? add_span(reader, thread, stack, start, at - start) : GSP_OK;
        if (rc == GSP_OK)
            rc = apply_event(reader, event, &stack);
        if (rc)
            return rc;
        start = at;
    }
    double end = gsp_export__json_num(item, "endValue", start);
    return end > start ? add_span(reader, thread, stack, start, end - start) : GSP_OK;
}

static int read_profile(struct reader *reader, yyjson_val *item)
{
    const struct unit *unit = find_unit(gsp_export__json_sv(item, "unit"));
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(reader->profile);
    if (!unit)
        return malformed(reader, "unknown unit");
    if (reader->index == 0)
        meta->unit = unit->unit;
    if (meta->unit != unit->unit)
        return malformed(reader, "the unit differs from that of the first profile");
    reader->scale = unit->scale;
    double start = gsp_export__json_num(item, "startValue", 0);
    uint32_t thread = GSP_NO_INDEX;
    int rc = add_thread(reader, item, &thread);
    if (rc)
        return rc;
    struct gsp_sv type = gsp_export__json_sv(item, "type");
    if (gsp_sv_eq(type, gsp_sv_of("sampled")))
        return read_sampled(reader, item, thread, start);
    if (gsp_sv_eq(type, gsp_sv_of("evented")))
        return read_evented(reader, item, thread, start);
    return malformed(reader, "the type is neither sampled nor evented");
}

static int read_profiles(struct reader *reader)
{
    yyjson_val *profiles = yyjson_obj_get(reader->root, "profiles");
    if (!yyjson_is_arr(profiles))
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "no list of profiles");
    yyjson_val *item = NULL;
    reader->origin = (double)INFINITY;
    yyjson_arr_iter iter = yyjson_arr_iter_with(profiles);
    while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
        double start = gsp_export__json_num(item, "startValue", 0);
        reader->origin = start < reader->origin ? start : reader->origin;
    }
    iter = yyjson_arr_iter_with(profiles);
    for (size_t i = 0; (item = yyjson_arr_iter_next(&iter)) != NULL; i++) {
        reader->index = i;
        int rc = read_profile(reader, item);
        if (rc)
            return rc;
    }
    return GSP_OK;
}

int gsp_export__speedscope_read(struct gsp_sv bytes, struct gsp_profile *profile,
                                struct gsp_err *err)
{
    yyjson_doc *doc = NULL;
    int rc = gsp_export__json_parse(bytes, &doc, err);
    if (rc)
        return rc;
    struct reader reader = {.profile = profile, .err = err, .root = yyjson_doc_get_root(doc)};
    rc = read_frames(&reader);
    if (rc == GSP_OK)
        rc = read_profiles(&reader);
    gsp_hmap_free(&reader.processes);
    free(reader.frames);
    yyjson_doc_free(doc);
    return rc;
}
