/* SPDX-License-Identifier: Apache-2.0 */
#include "export/pprof.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/map.h"
#include "export/formats.h"
#include "export/pprof_heap.h"
#include "profile.pb-c.h"

/* Field numbers of Profile, see profile.proto. */
enum field {
    FIELD_SAMPLE_TYPE = 1,
    FIELD_SAMPLE = 2,
    FIELD_MAPPING = 3,
    FIELD_LOCATION = 4,
    FIELD_FUNCTION = 5,
    FIELD_STRING = 6,
};

#define WIRE_BYTES  2U /* wire type: a length and that number of bytes */
#define GZIP_WINDOW (15 + 16)
#define CHUNK_BYTES 65536U
#define KINDS       (GSP_FRAME_BRIDGED + 1)
#define LABELS      3U

/* Our own strings. They follow the profile's strings in the string table. */
enum string {
    STRING_SAMPLES,
    STRING_COUNT,
    STRING_CPU,
    STRING_NANOSECONDS,
    STRING_SPACE,
    STRING_BYTES,
    STRING_THREAD,
    STRING_THREAD_ID,
    STRING_PID,
    STRING_PYTHON,
    STRING_NATIVE,
    STRING_KERNEL,
    STRING_MARK,
    STRING_BRIDGED,
    /* Only in a heap profile. */
    STRINGS_PLAIN,
    STRING_ALLOC_OBJECTS = STRINGS_PLAIN,
    STRING_ALLOC_SPACE,
    STRING_INUSE_OBJECTS,
    STRING_INUSE_SPACE,
    STRINGS,
};

static const char *const STRING_TEXTS[STRINGS] = {
    [STRING_SAMPLES] = "samples",
    [STRING_COUNT] = "count",
    [STRING_CPU] = "cpu",
    [STRING_NANOSECONDS] = "nanoseconds",
    [STRING_SPACE] = "space",
    [STRING_BYTES] = "bytes",
    [STRING_ALLOC_OBJECTS] = "alloc_objects",
    [STRING_ALLOC_SPACE] = "alloc_space",
    [STRING_INUSE_OBJECTS] = "inuse_objects",
    [STRING_INUSE_SPACE] = "inuse_space",
    [STRING_THREAD] = GSP_PPROF_THREAD,
    [STRING_THREAD_ID] = GSP_PPROF_THREAD_ID,
    [STRING_PID] = GSP_PPROF_PID,
    [STRING_PYTHON] = "python",
    [STRING_NATIVE] = GSP_PPROF_NATIVE,
    [STRING_KERNEL] = GSP_PPROF_KERNEL,
    [STRING_MARK] = GSP_PPROF_MARK,
    [STRING_BRIDGED] = GSP_PPROF_BRIDGED,
};

struct writer {
    const struct gsp_profile *profile;
    const struct gsp_total *allocated; /* of a heap profile: parallel to its totals; or NULL */
    struct gsp_view_options view;
    struct gsp_out *out;
    z_stream zip;
    struct gsp_buf plain;      /* bytes not yet compressed */
    struct gsp_buf text;       /* one string, escaped */
    struct gsp_hmap functions; /* name and file, first line -> id */
    uint64_t *locations;       /* of the stack being written */
    bool has_kind[KINDS];
    bool failed;
};

/* The index of one of our strings. The profile's strings keep their ids, which start at 1 after
 * the empty string; ours follow. */
static int64_t string_index(const struct writer *w, enum string which)
{
    return (int64_t)gsp_model_profile_string_count(w->profile) + 1 + (int64_t)which;
}

static void compress_plain(struct writer *w, int flush)
{
    union { /* zlib does not write through next_in, but declares it without const */
        const char *in;
        Bytef *next;
    } bytes = {w->plain.p};
    w->zip.next_in = bytes.next;
    w->zip.avail_in = (uInt)w->plain.len;
    int rc = Z_OK;
    do {
        char *space = gsp_buf_reserve(&w->out->buf, CHUNK_BYTES);
        if (!space) {
            w->failed = true;
            return;
        }
        w->zip.next_out = (Bytef *)space;
        w->zip.avail_out = CHUNK_BYTES;
        rc = deflate(&w->zip, flush);
        w->out->buf.len += CHUNK_BYTES - w->zip.avail_out;
        gsp_out_spill(w->out);
    } while (rc == Z_OK && (w->zip.avail_out == 0 || flush == Z_FINISH));
    w->failed = w->failed || w->plain.failed || (flush == Z_FINISH && rc != Z_STREAM_END);
    gsp_buf_clear(&w->plain);
}

/* A packed profile is the sequence of its packed fields, so each is packed separately. */
static void put_message(struct writer *w, enum field field, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    gsp_buf_varint(&w->plain, (uint64_t)field << 3 | WIRE_BYTES);
    gsp_buf_varint(&w->plain, len);
    char *space = gsp_buf_reserve(&w->plain, len + 1);
    if (space)
        w->plain.len += protobuf_c_message_pack(message, (uint8_t *)space);
    if (w->plain.len >= CHUNK_BYTES)
        compress_plain(w, Z_NO_FLUSH);
}

static void put_string(struct writer *w, struct gsp_sv text)
{
    gsp_buf_clear(&w->text);
    gsp_buf_term(&w->text, text);
    gsp_buf_varint(&w->plain, (uint64_t)FIELD_STRING << 3 | WIRE_BYTES);
    gsp_buf_varint(&w->plain, w->text.len);
    gsp_buf_putsv(&w->plain, gsp_buf_sv(&w->text));
    w->failed = w->failed || w->text.failed;
    if (w->plain.len >= CHUNK_BYTES)
        compress_plain(w, Z_NO_FLUSH);
}

static void put_type(struct writer *w, enum string type, enum string unit)
{
    Gsp__Pprof__ValueType value = GSP__PPROF__VALUE_TYPE__INIT;
    value.type = string_index(w, type);
    value.unit = string_index(w, unit);
    put_message(w, FIELD_SAMPLE_TYPE, &value.base);
}

static void put_types(struct writer *w)
{
    if (w->allocated) {
        put_type(w, STRING_ALLOC_OBJECTS, STRING_COUNT);
        put_type(w, STRING_ALLOC_SPACE, STRING_BYTES);
        put_type(w, STRING_INUSE_OBJECTS, STRING_COUNT);
        put_type(w, STRING_INUSE_SPACE, STRING_BYTES);
        return;
    }
    put_type(w, STRING_SAMPLES, STRING_COUNT);
    enum gsp_unit unit = gsp_model_profile_meta_get(w->profile)->unit;
    if (unit == GSP_UNIT_NS)
        put_type(w, STRING_CPU, STRING_NANOSECONDS);
    else if (unit == GSP_UNIT_BYTES)
        put_type(w, STRING_SPACE, STRING_BYTES);
}

/* Labels of a sample: name and id of the thread and id of the process, as far as known. */
static size_t make_labels(const struct writer *w, uint32_t thread, Gsp__Pprof__Label *labels)
{
    const struct gsp_thread *t = gsp_model_profile_thread_at(w->profile, thread);
    const struct gsp_process *p = t ? gsp_model_profile_process_at(w->profile, t->process) : NULL;
    size_t n = 0;
    for (size_t i = 0; i < LABELS; i++)
        labels[i] = (Gsp__Pprof__Label)GSP__PPROF__LABEL__INIT;
    if (t && t->name != GSP_NONE) {
        labels[n].key = string_index(w, STRING_THREAD);
        labels[n++].str = t->name;
    }
    if (t && (t->os_id || t->python_id)) {
        labels[n].key = string_index(w, STRING_THREAD_ID);
        labels[n++].num = (int64_t)(t->os_id ? t->os_id : t->python_id);
    }
    if (p && p->pid > 0) {
        labels[n].key = string_index(w, STRING_PID);
        labels[n++].num = p->pid;
    }
    return n;
}

static int64_t clamped(uint64_t count)
{
    return count < INT64_MAX ? (int64_t)count : INT64_MAX;
}

static void put_sample(struct writer *w, size_t index)
{
    const struct gsp_total *total = gsp_model_profile_total_at(w->profile, index);
    Gsp__Pprof__Label labels[LABELS];
    Gsp__Pprof__Label *label_refs[LABELS] = {&labels[0], &labels[1], &labels[2]};
    Gsp__Pprof__Sample sample = GSP__PPROF__SAMPLE__INIT;
    bool counts = gsp_model_profile_meta_get(w->profile)->unit == GSP_UNIT_COUNT;
    int64_t values[4] = {counts ? total->weight : clamped(total->count), total->weight};
    if (w->allocated) {
        values[2] = clamped(total->count);
        values[3] = total->weight;
        values[0] = clamped(w->allocated[index].count);
        values[1] = w->allocated[index].weight;
    }
    for (uint32_t s = total->stack; s != GSP_NONE && sample.n_location_id < GSP_STACK_DEPTH_MAX;
         s = gsp_model_profile_stack_caller(w->profile, s))
        w->locations[sample.n_location_id++] = gsp_model_profile_stack_frame(w->profile, s);
    sample.location_id = w->locations;
    sample.value = values;
    sample.n_value = counts ? 1 : 2;
    if (w->allocated)
        sample.n_value = 4;
    sample.label = label_refs;
    sample.n_label = make_labels(w, total->thread, labels);
    put_message(w, FIELD_SAMPLE, &sample.base);
}

static uint64_t function_of(struct writer *w, const struct gsp_frame *frame)
{
    uint64_t name_and_file = (uint64_t)frame->name << 32 | frame->file;
    const uint32_t *known = gsp_hmap_get(&w->functions, name_and_file, frame->first_line);
    if (known)
        return *known;
    Gsp__Pprof__Function function = GSP__PPROF__FUNCTION__INIT;
    uint32_t id = (uint32_t)w->functions.count + 1;
    function.id = id;
    function.name = frame->name;
    /* No system_name: if it equals the name, pprof treats it as a mangled C++ name and removes
     * "<module>" and "<lambda>" from it. */
    function.filename = frame->file;
    function.start_line = frame->first_line;
    put_message(w, FIELD_FUNCTION, &function.base);
    if (!gsp_hmap_put(&w->functions, name_and_file, frame->first_line, id))
        w->failed = true;
    return id;
}

/* One location per frame, with the frame's id. */
static void put_location(struct writer *w, uint32_t id)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(w->profile, id);
    Gsp__Pprof__Line line = GSP__PPROF__LINE__INIT;
    Gsp__Pprof__Line *lines[] = {&line};
    Gsp__Pprof__Location location = GSP__PPROF__LOCATION__INIT;
    if (!w->view.no_lines)
        line.line = w->view.by_function ? frame->first_line : frame->line;
    line.function_id = function_of(w, frame);
    location.id = id;
    location.mapping_id = (uint64_t)frame->kind + 1;
    location.line = lines;
    location.n_line = 1;
    w->has_kind[frame->kind] = true;
    put_message(w, FIELD_LOCATION, &location.base);
}

/* Tools display the file name of the first mapping as the program. */
static void put_mappings(struct writer *w)
{
    static const enum string NAMES[KINDS] = {
        [GSP_FRAME_PYTHON] = STRING_PYTHON,   [GSP_FRAME_NATIVE] = STRING_NATIVE,
        [GSP_FRAME_KERNEL] = STRING_KERNEL,   [GSP_FRAME_MARK] = STRING_MARK,
        [GSP_FRAME_BRIDGED] = STRING_BRIDGED,
    };
    const struct gsp_process *process = gsp_model_profile_process_at(w->profile, 0);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        if (!w->has_kind[kind] && kind != GSP_FRAME_PYTHON)
            continue;
        Gsp__Pprof__Mapping mapping = GSP__PPROF__MAPPING__INIT;
        mapping.id = kind + 1;
        mapping.filename = string_index(w, NAMES[kind]);
        if (kind == GSP_FRAME_PYTHON && process && process->name != GSP_NONE)
            mapping.filename = process->name;
        mapping.has_functions = true;
        mapping.has_filenames = true;
        mapping.has_line_numbers = true;
        put_message(w, FIELD_MAPPING, &mapping.base);
    }
}

static void put_strings(struct writer *w)
{
    put_string(w, gsp_sv_of(""));
    for (uint32_t i = 1; i <= gsp_model_profile_string_count(w->profile); i++)
        put_string(w, gsp_model_profile_string_at(w->profile, i));
    for (size_t i = 0; i < (w->allocated ? STRINGS : STRINGS_PLAIN); i++)
        put_string(w, gsp_sv_of(STRING_TEXTS[i]));
}

/* Writes the scalar fields, as a Profile without any others. */
static void put_scalars(struct writer *w)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(w->profile);
    const struct gsp_process *process = gsp_model_profile_process_at(w->profile, 0);
    Gsp__Pprof__Profile scalars = GSP__PPROF__PROFILE__INIT;
    Gsp__Pprof__ValueType period_type = GSP__PPROF__VALUE_TYPE__INIT;
    int64_t comment = process ? process->cmdline : GSP_NONE;
    scalars.time_nanos = meta->start_ns;
    scalars.duration_nanos = meta->duration_ns;
    if (meta->period_ns > 0) {
        period_type.type = string_index(w, STRING_CPU);
        period_type.unit = string_index(w, STRING_NANOSECONDS);
        scalars.period_type = &period_type;
        scalars.period = meta->period_ns;
    }
    if (comment != GSP_NONE) {
        scalars.comment = &comment;
        scalars.n_comment = 1;
    }
    scalars.default_sample_type = string_index(w, meta->unit == GSP_UNIT_NS      ? STRING_CPU
                                                  : meta->unit == GSP_UNIT_BYTES ? STRING_SPACE
                                                                                 : STRING_SAMPLES);
    if (w->allocated)
        scalars.default_sample_type = string_index(w, STRING_INUSE_SPACE);
    char *space = gsp_buf_reserve(&w->plain, gsp__pprof__profile__get_packed_size(&scalars) + 1);
    if (space)
        w->plain.len += gsp__pprof__profile__pack(&scalars, (uint8_t *)space);
}

static void put_profile(struct writer *w)
{
    put_types(w);
    for (size_t i = 0; i < gsp_model_profile_total_count(w->profile); i++)
        put_sample(w, i);
    for (uint32_t i = 1; i <= gsp_model_profile_frame_count(w->profile); i++)
        put_location(w, i);
    put_mappings(w);
    put_strings(w);
    put_scalars(w);
    compress_plain(w, Z_FINISH);
}

int gsp_export_pprof_write_heap(const struct gsp_profile *profile,
                                const struct gsp_total *allocated,
                                const struct gsp_view_options *view, struct gsp_out *out,
                                struct gsp_err *err)
{
    struct writer w = {.profile = profile, .allocated = allocated, .out = out};
    if (view)
        w.view = *view;
    w.locations = calloc(GSP_STACK_DEPTH_MAX, sizeof(*w.locations));
    int rc =
        deflateInit2(&w.zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY);
    bool ok = w.locations && rc == Z_OK;
    if (ok)
        put_profile(&w);
    ok = ok && !w.failed && !out->buf.failed;
    if (rc == Z_OK)
        deflateEnd(&w.zip);
    gsp_buf_free(&w.plain);
    gsp_buf_free(&w.text);
    gsp_hmap_free(&w.functions);
    free(w.locations);
    if (!ok)
        return gsp_err_nomem(err);
    return GSP_OK;
}

static int write_pprof(const struct gsp_profile *profile, const struct gsp_view_options *view,
                       struct gsp_out *out, struct gsp_err *err)
{
    return gsp_export_pprof_write_heap(profile, NULL, view, out, err);
}

/* Any gzip file may be pprof, because no other format is compressed with gzip. */
static bool sniff_pprof(struct gsp_sv head)
{
    return head.len > 2 && memcmp(head.p, "\x1f\x8b\x08", 3) == 0;
}

const struct gsp_format gsp_format_pprof = {
    .name = "pprof",
    .extensions = {".pb.gz", ".pprof"},
    .summary = "for go tool pprof and compatible services",
    .write = write_pprof,
    .read = gsp_export__pprof_read,
    .sniff = sniff_pprof,
};
