/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/map.h"
#include "export/format.h"
#include "export/pprof.h"
#include "profile.pb-c.h"

#define GZIP_WINDOW        (15 + 16)
#define CHUNK_BYTES        65536U

/* A profile compresses by a factor of 10 to 30. A file that expands by more than this ratio, and
 * beyond the size allowed for small repetitive files, is a decompression bomb. */
#define INFLATE_RATIO_MAX  256U
#define INFLATE_ALWAYS_MAX (16U << 20)

/* Limit for the memory of all unpacked messages, which take more than their bytes. */
#define UNPACK_BYTES_MAX   (2ULL << 30)

/* A row with a count is added as that number of samples, up to this total. In a larger file each
 * row is added as one sample. */
#define SAMPLES_MAX        (4U << 20)

static int inflate_some(z_stream *zip, size_t len, struct gsp_buf *out, struct gsp_err *err)
{
    uint64_t limit = (uint64_t)len * INFLATE_RATIO_MAX;
    limit = limit < INFLATE_ALWAYS_MAX ? INFLATE_ALWAYS_MAX : limit;
    limit = limit > GSP_INPUT_BYTES_MAX ? GSP_INPUT_BYTES_MAX : limit;
    for (;;) {
        char *space = gsp_buf_reserve(out, CHUNK_BYTES);
        if (!space)
            return gsp_err_nomem(err);
        zip->next_out = (Bytef *)space;
        zip->avail_out = CHUNK_BYTES;
        int rc = inflate(zip, Z_NO_FLUSH);
        out->len += CHUNK_BYTES - zip->avail_out;
        if (out->len > limit)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "%zu compressed bytes expand to more than %llu",
                               len, (unsigned long long)limit);
        if (rc == Z_STREAM_END)
            return GSP_OK;
        if (rc != Z_OK)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "the compressed data is damaged or truncated");
    }
}

static int unzip(struct gsp_sv bytes, struct gsp_buf *out, struct gsp_err *err)
{
    union { /* zlib does not write through next_in, but declares it without const */
        const char *in;
        Bytef *next;
    } start = {bytes.p};
    z_stream zip = {0};
    if (bytes.len > UINT32_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the file is too large");
    if (inflateInit2(&zip, GZIP_WINDOW) != Z_OK)
        return gsp_err_nomem(err);
    zip.next_in = start.next;
    zip.avail_in = (uInt)bytes.len;
    int rc = inflate_some(&zip, bytes.len, out, err);
    inflateEnd(&zip);
    return rc;
}

/* An allocator with a limit. Freeing memory does not raise what is left. */
struct quota {
    uint64_t left;
    bool exceeded;
};

static void *quota_alloc(void *data, size_t size)
{
    struct quota *quota = data;
    if (size > quota->left) {
        quota->exceeded = true;
        return NULL;
    }
    quota->left -= size;
    return malloc(size ? size : 1);
}

static void quota_free(void *data GSP_UNUSED, void *p)
{
    free(p);
}

struct reader {
    const Gsp__Pprof__Profile *in;
    struct gsp_profile *profile;
    struct gsp_err *err;
    struct gsp_hmap functions; /* id -> index */
    struct gsp_hmap mappings;
    struct gsp_hmap locations;
    uint32_t *strings;   /* 1 + string id, by index in the string table; 0: not yet interned */
    uint32_t *frames;    /* of all locations, the innermost line of each first */
    size_t *first_frame; /* by location: index of its first frame; one more at the end */
    struct gsp_hmap processes; /* pid -> index */
    struct gsp_hmap threads;   /* process and name, thread id -> index */
    uint64_t budget;           /* number of frames that may still be read */
    size_t weight_at;          /* index of the value that is the weight */
    size_t count_at;           /* index of the number of samples; SIZE_MAX: none */
    int64_t scale;             /* from the file's unit to ours */
    bool replicate;            /* add each row as its number of samples */
    int64_t time_ns;
};

static bool string_at(const struct reader *r, int64_t i, struct gsp_sv *out)
{
    *out = (struct gsp_sv){0};
    if (i < 0 || (uint64_t)i >= r->in->n_string_table)
        return false;
    *out = gsp_sv_of(r->in->string_table[i]);
    return true;
}

static bool string_is(const struct reader *r, int64_t i, const char *text)
{
    struct gsp_sv s;
    return string_at(r, i, &s) && gsp_sv_eq(s, gsp_sv_of(text));
}

static int intern(struct reader *r, int64_t i, uint32_t *out)
{
    struct gsp_sv text;
    *out = GSP_NONE;
    if (!string_at(r, i, &text))
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "a string index is out of range");
    if (text.len == 0)
        return GSP_OK;
    if (r->strings[i] == 0) {
        int rc = gsp_model_profile_string(r->profile, text, out, r->err);
        if (rc < 0)
            return rc;
        r->strings[i] = *out + 1;
    }
    *out = r->strings[i] - 1;
    return GSP_OK;
}

/* Maps an id to its index. Ids must be unique and not 0. */
static int add_id(struct reader *r, struct gsp_hmap *map, uint64_t id, size_t i)
{
    if (id == 0 || gsp_hmap_get(map, id, 0))
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "id %llu is zero or used twice",
                           (unsigned long long)id);
    if (i >= UINT32_MAX || !gsp_hmap_put(map, id, 0, (uint32_t)i))
        return gsp_err_nomem(r->err);
    return GSP_OK;
}

static int index_ids(struct reader *r)
{
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < r->in->n_function; i++)
        rc = add_id(r, &r->functions, r->in->function[i]->id, i);
    for (size_t i = 0; rc == GSP_OK && i < r->in->n_mapping; i++)
        rc = add_id(r, &r->mappings, r->in->mapping[i]->id, i);
    for (size_t i = 0; rc == GSP_OK && i < r->in->n_location; i++)
        rc = add_id(r, &r->locations, r->in->location[i]->id, i);
    return rc;
}

/* In our own files the mapping gives the kind. In others, a frame without an address is not native
 * code. */
static enum gsp_frame_kind kind_of(const struct reader *r, const Gsp__Pprof__Location *location,
                                   const Gsp__Pprof__Mapping *mapping)
{
    if (mapping && string_is(r, mapping->filename, GSP_PPROF_NATIVE))
        return GSP_FRAME_NATIVE;
    if (mapping && string_is(r, mapping->filename, GSP_PPROF_BRIDGED))
        return GSP_FRAME_BRIDGED;
    if (mapping && (string_is(r, mapping->filename, GSP_PPROF_KERNEL) ||
                    string_is(r, mapping->filename, "[kernel.kallsyms]")))
        return GSP_FRAME_KERNEL;
    if (mapping && string_is(r, mapping->filename, GSP_PPROF_MARK))
        return GSP_FRAME_MARK;
    return location->address != 0 ? GSP_FRAME_NATIVE : GSP_FRAME_PYTHON;
}

/* A location without lines is named by its address. */
static int address_frame(struct reader *r, const Gsp__Pprof__Location *location,
                         struct gsp_frame *frame)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "0x%llx", (unsigned long long)location->address);
    return gsp_model_profile_string(r->profile, (struct gsp_sv){text, (size_t)n}, &frame->name,
                                    r->err);
}

static int line_frame(struct reader *r, const Gsp__Pprof__Line *line, struct gsp_frame *frame)
{
    const uint32_t *at = gsp_hmap_get(&r->functions, line->function_id, 0);
    if (!at)
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "a line refers to an unknown function");
    const Gsp__Pprof__Function *function = r->in->function[*at];
    int rc = intern(r, function->name, &frame->name);
    if (rc == GSP_OK)
        rc = intern(r, function->filename, &frame->file);
    if (line->line > 0 && line->line <= INT32_MAX)
        frame->line = (uint32_t)line->line;
    if (function->start_line > 0 && function->start_line <= INT32_MAX)
        frame->first_line = (uint32_t)function->start_line;
    return rc;
}

static int read_location(struct reader *r, const Gsp__Pprof__Location *location, size_t first)
{
    const uint32_t *at = gsp_hmap_get(&r->mappings, location->mapping_id, 0);
    if (location->mapping_id != 0 && !at)
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "a location refers to an unknown mapping");
    struct gsp_frame base = {0};
    base.kind = kind_of(r, location, at ? r->in->mapping[*at] : NULL);
    int rc = GSP_OK;
    if (location->n_line == 0) {
        struct gsp_frame frame = base;
        rc = address_frame(r, location, &frame);
        if (rc == GSP_OK)
            rc = gsp_model_profile_frame(r->profile, &frame, &r->frames[first], r->err);
    }
    for (size_t i = 0; rc == GSP_OK && i < location->n_line; i++) {
        struct gsp_frame frame = base;
        rc = line_frame(r, location->line[i], &frame);
        if (rc == GSP_OK)
            rc = gsp_model_profile_frame(r->profile, &frame, &r->frames[first + i], r->err);
    }
    return rc;
}

static int read_locations(struct reader *r)
{
    size_t count = 0;
    r->first_frame = calloc(r->in->n_location + 1, sizeof(*r->first_frame));
    if (!r->first_frame)
        return gsp_err_nomem(r->err);
    for (size_t i = 0; i < r->in->n_location; i++) {
        r->first_frame[i] = count;
        count += r->in->location[i]->n_line > 0 ? r->in->location[i]->n_line : 1;
    }
    r->first_frame[r->in->n_location] = count;
    r->frames = calloc(count + 1, sizeof(*r->frames));
    if (!r->frames)
        return gsp_err_nomem(r->err);
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < r->in->n_location; i++)
        rc = read_location(r, r->in->location[i], r->first_frame[i]);
    return rc;
}

/* Finds the weight among the values: the default type, otherwise the last, as pprof does. */
static int read_types(struct reader *r)
{
    static const struct {
        const char *name;
        enum gsp_unit unit;
        int64_t scale;
    } UNITS[] = {
        {"nanoseconds", GSP_UNIT_NS, 1},        {"ns", GSP_UNIT_NS, 1},
        {"microseconds", GSP_UNIT_NS, 1000},    {"us", GSP_UNIT_NS, 1000},
        {"milliseconds", GSP_UNIT_NS, 1000000}, {"ms", GSP_UNIT_NS, 1000000},
        {"seconds", GSP_UNIT_NS, 1000000000},   {"s", GSP_UNIT_NS, 1000000000},
        {"bytes", GSP_UNIT_BYTES, 1},           {"kilobytes", GSP_UNIT_BYTES, 1024},
        {"megabytes", GSP_UNIT_BYTES, 1048576},
    };
    const Gsp__Pprof__Profile *in = r->in;
    if (in->n_sample_type == 0)
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "the profile has no value types");
    r->weight_at = in->n_sample_type - 1;
    r->count_at = SIZE_MAX;
    for (size_t i = 0; i < in->n_sample_type; i++) {
        if (in->default_sample_type > 0 && in->sample_type[i]->type == in->default_sample_type)
            r->weight_at = i;
        if (string_is(r, in->sample_type[i]->type, "samples") &&
            string_is(r, in->sample_type[i]->unit, "count"))
            r->count_at = i;
    }
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(r->profile);
    meta->unit = GSP_UNIT_COUNT;
    r->scale = 1;
    for (size_t i = 0; i < GSP_COUNT(UNITS); i++) {
        if (string_is(r, in->sample_type[r->weight_at]->unit, UNITS[i].name)) {
            meta->unit = UNITS[i].unit;
            r->scale = UNITS[i].scale;
        }
    }
    return GSP_OK;
}

static void read_scalars(struct reader *r)
{
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(r->profile);
    meta->start_ns = r->in->time_nanos > 0 ? r->in->time_nanos : 0;
    meta->duration_ns = r->in->duration_nanos > 0 ? r->in->duration_nanos : 0;
    const Gsp__Pprof__ValueType *type = r->in->period_type;
    if (type && string_is(r, type->unit, "nanoseconds") && r->in->period > 0)
        meta->period_ns = r->in->period;
}

/* Checks the number of values, and decides whether rows are replicated by their count. */
static int check_values(struct reader *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->in->n_sample; i++) {
        const Gsp__Pprof__Sample *sample = r->in->sample[i];
        if (sample->n_value != r->in->n_sample_type)
            return gsp_err_set(r->err, GSP_E_FORMAT, 0, "sample %zu has %zu values instead of %zu",
                               i, sample->n_value, r->in->n_sample_type);
        if (r->count_at != SIZE_MAX && sample->value[r->count_at] > 0)
            sum = gsp_sum_u64(sum, (uint64_t)sample->value[r->count_at]);
    }
    r->replicate = r->count_at != SIZE_MAX && r->count_at != r->weight_at && sum <= SAMPLES_MAX;
    return GSP_OK;
}

static int process_of(struct reader *r, int64_t pid, uint32_t *out)
{
    const uint32_t *known = gsp_hmap_get(&r->processes, (uint64_t)pid, 0);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    struct gsp_process process = {.pid = (int32_t)pid, .ppid = -1};
    int rc = GSP_OK;
    if (r->in->n_comment > 0 && r->processes.count == 0)
        rc = intern(r, r->in->comment[0], &process.cmdline);
    if (rc == GSP_OK && r->in->n_mapping > 0)
        rc = intern(r, r->in->mapping[0]->filename, &process.name);
    if (rc == GSP_OK)
        rc = gsp_model_profile_process(r->profile, &process, out, r->err);
    if (rc == GSP_OK && !gsp_hmap_put(&r->processes, (uint64_t)pid, 0, *out))
        rc = gsp_err_nomem(r->err);
    return rc;
}

static int thread_of(struct reader *r, const Gsp__Pprof__Sample *sample, uint32_t *out)
{
    int64_t pid = 0;
    struct gsp_thread thread = {0};
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < sample->n_label; i++) {
        const Gsp__Pprof__Label *label = sample->label[i];
        if (string_is(r, label->key, GSP_PPROF_PID) && label->num > 0 && label->num <= INT32_MAX)
            pid = label->num;
        else if (string_is(r, label->key, GSP_PPROF_THREAD_ID))
            thread.os_id = (uint64_t)label->num;
        else if (string_is(r, label->key, GSP_PPROF_THREAD))
            rc = intern(r, label->str, &thread.name);
    }
    if (rc == GSP_OK)
        rc = process_of(r, pid, &thread.process);
    if (rc < 0)
        return rc;
    uint64_t process_and_name = (uint64_t)thread.process << 32 | thread.name;
    const uint32_t *known = gsp_hmap_get(&r->threads, process_and_name, thread.os_id);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    thread.is_main = pid > 0 && thread.os_id == (uint64_t)pid;
    rc = gsp_model_profile_thread(r->profile, &thread, out, r->err);
    if (rc == GSP_OK && !gsp_hmap_put(&r->threads, process_and_name, thread.os_id, *out))
        rc = gsp_err_nomem(r->err);
    return rc;
}

/* Builds the stack root first: from the last location, and from the outermost line of each. */
static int stack_of(struct reader *r, const Gsp__Pprof__Sample *sample, uint32_t *out)
{
    *out = GSP_NONE;
    for (size_t i = sample->n_location_id; i-- > 0;) {
        const uint32_t *at = gsp_hmap_get(&r->locations, sample->location_id[i], 0);
        if (!at)
            return gsp_err_set(r->err, GSP_E_FORMAT, 0, "a sample refers to an unknown location");
        for (size_t k = r->first_frame[*at + 1UL]; k-- > r->first_frame[*at];) {
            if (r->budget-- == 0)
                return gsp_err_set(r->err, GSP_E_LIMIT, 0,
                                   "more frames than the size of the file allows");
            int rc = gsp_model_profile_stack(r->profile, *out, r->frames[k], out, r->err);
            if (rc < 0)
                return rc;
        }
    }
    return GSP_OK;
}

static int read_sample(struct reader *r, const Gsp__Pprof__Sample *in)
{
    struct gsp_sample sample = {0};
    int rc = thread_of(r, in, &sample.thread);
    if (rc == GSP_OK)
        rc = stack_of(r, in, &sample.stack);
    int64_t weight = 0;
    if (in->value[r->weight_at] > 0 &&
        __builtin_mul_overflow(in->value[r->weight_at], r->scale, &weight))
        weight = INT64_MAX;
    int64_t times = r->replicate ? in->value[r->count_at] : 1;
    times = times > 0 ? times : 1;
    /* Distribute the weight evenly; the first sample gets the remainder. */
    for (int64_t i = 0; rc == GSP_OK && i < times; i++) {
        sample.weight = weight / times + (i == 0 ? weight % times : 0);
        if (gsp_model_profile_meta_get(r->profile)->unit == GSP_UNIT_NS)
            r->time_ns = gsp_sum_i64(r->time_ns, sample.weight);
        sample.time_ns = r->time_ns;
        rc = gsp_model_profile_add(r->profile, &sample, r->err);
    }
    return rc;
}

static int read_all(struct reader *r)
{
    r->strings = calloc(r->in->n_string_table + 1, sizeof(*r->strings));
    if (!r->strings)
        return gsp_err_nomem(r->err);
    int rc = read_types(r);
    if (rc == GSP_OK)
        rc = check_values(r);
    if (rc == GSP_OK)
        rc = index_ids(r);
    if (rc == GSP_OK)
        rc = read_locations(r);
    for (size_t i = 0; rc == GSP_OK && i < r->in->n_sample; i++)
        rc = read_sample(r, r->in->sample[i]);
    read_scalars(r);
    return rc;
}

int gsp_export__pprof_read(struct gsp_sv bytes, struct gsp_profile *profile, struct gsp_err *err)
{
    gsp_auto_buf plain = {0};
    bool zipped = bytes.len > 2 && memcmp(bytes.p, "\x1f\x8b", 2) == 0;
    int rc = zipped ? unzip(bytes, &plain, err) : GSP_OK;
    if (rc < 0)
        return rc;
    struct gsp_sv message = zipped ? gsp_buf_sv(&plain) : bytes;
    struct quota quota = {.left = UNPACK_BYTES_MAX};
    ProtobufCAllocator allocator = {quota_alloc, quota_free, &quota};
    Gsp__Pprof__Profile *in =
        gsp__pprof__profile__unpack(&allocator, message.len, (const uint8_t *)message.p);
    if (!in && quota.exceeded)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the profile needs more than %llu bytes of memory",
                           UNPACK_BYTES_MAX);
    if (!in)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a pprof message");
    struct reader r = {.in = in, .profile = profile, .err = err};
    r.budget = (uint64_t)message.len * 16 + (1U << 20);
    rc = read_all(&r);
    gsp_hmap_free(&r.functions);
    gsp_hmap_free(&r.mappings);
    gsp_hmap_free(&r.locations);
    gsp_hmap_free(&r.processes);
    gsp_hmap_free(&r.threads);
    free(r.strings);
    free(r.frames);
    free(r.first_frame);
    gsp__pprof__profile__free_unpacked(in, &allocator);
    return rc;
}
