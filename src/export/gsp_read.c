/* SPDX-License-Identifier: Apache-2.0 */
#include "export/gsp_read.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buf.h"
#include "export/format.h"
#include "export/gsp_layout.h"

struct reader {
    struct gsp_profile *profile;
    struct gsp_err *err;
    struct gsp_sv bytes;
    size_t at;          /* offset of the block being read */
    uint64_t raw_bytes; /* of all blocks so far */
    int64_t resolution_ns;
    struct gsp_pace pace;
    uint64_t sample_count;
    bool ended;
    struct gsp_buf unpacked;
    ZSTD_DCtx *zstd;
};

/* The content of a block. */
struct fields {
    struct gsp_cursor cursor;
    bool invalid; /* a field was out of range or passed the end */
};

static int malformed(struct reader *reader, const char *what)
{
    return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "%s in the block at byte %zu", what,
                       reader->at);
}

static uint64_t get_u64(struct fields *fields)
{
    uint64_t v = 0;
    if (!gsp_cursor_varint(&fields->cursor, &v)) {
        fields->invalid = true;
        v = 0;
    }
    return v;
}

static uint32_t get_u32(struct fields *fields)
{
    uint64_t v = get_u64(fields);
    if (v > UINT32_MAX) {
        fields->invalid = true;
        v = 0;
    }
    return (uint32_t)v;
}

static int64_t get_i64(struct fields *fields)
{
    return gsp_unzigzag(get_u64(fields));
}

static int32_t get_i32(struct fields *fields)
{
    int64_t v = get_i64(fields);
    if (v < INT32_MIN || v > INT32_MAX) {
        fields->invalid = true;
        v = 0;
    }
    return (int32_t)v;
}

static bool has_more(const struct fields *fields)
{
    return fields->cursor.p < fields->cursor.end;
}

static struct fields fields_of(struct gsp_sv content)
{
    const unsigned char *p = (const unsigned char *)content.p;
    return (struct fields){.cursor = {p, p + content.len}};
}

static int read_meta(struct reader *reader, struct gsp_sv content)
{
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(reader->profile);
    struct fields fields = fields_of(content);
    while (has_more(&fields) && !fields.invalid) {
        uint64_t tag = get_u64(&fields);
        uint64_t value = get_u64(&fields);
        switch (tag) {
        case GSP_META_START_NS:
            meta->start_ns = gsp_unzigzag(value);
            break;
        case GSP_META_DURATION_NS:
            meta->duration_ns = gsp_unzigzag(value);
            break;
        case GSP_META_PERIOD_NS:
            meta->period_ns = gsp_unzigzag(value);
            break;
        case GSP_META_UNIT:
            if (value > GSP_UNIT_BYTES)
                return malformed(reader, "unknown unit");
            meta->unit = (enum gsp_unit)value;
            break;
        case GSP_META_TICKS:
            meta->ticks = value;
            break;
        case GSP_META_TORN:
            meta->losses.torn = value;
            break;
        case GSP_META_LATE:
            meta->losses.late = value;
            break;
        case GSP_META_FAILED:
            meta->losses.failed = value;
            break;
        case GSP_META_GONE:
            meta->losses.gone = value;
            break;
        case GSP_META_SKIPPED:
            meta->losses.skipped = value;
            break;
        case GSP_META_UNMERGED:
            meta->losses.unmerged = value;
            break;
        default: /* from a later version */
            break;
        }
    }
    return fields.invalid ? malformed(reader, "invalid number") : GSP_OK;
}

/* Ids in the file are positions, so every definition must be new. */
static int check_new(struct reader *reader, int rc, uint32_t id, size_t expected)
{
    if (rc)
        return rc;
    return id == expected ? GSP_OK : malformed(reader, "repeated definition");
}

static int read_string(struct reader *reader, struct fields *fields)
{
    uint64_t len = get_u64(fields);
    struct gsp_sv text = {0};
    if (fields->invalid || len > GSP_STRING_BYTES_MAX ||
        !gsp_cursor_bytes(&fields->cursor, (size_t)len, &text))
        return malformed(reader, "invalid string");
    uint32_t id = GSP_NONE;
    size_t expected = gsp_model_profile_string_count(reader->profile) + 1;
    int rc = gsp_model_profile_string(reader->profile, text, &id, reader->err);
    return check_new(reader, rc, id, expected);
}

static int read_frame(struct reader *reader, struct fields *fields)
{
    struct gsp_frame frame = {.name = get_u32(fields), .file = get_u32(fields)};
    frame.first_line = get_u32(fields);
    int64_t difference = get_i64(fields);
    int64_t line = 0;
    uint64_t kind = get_u64(fields);
    if (fields->invalid || kind > GSP_FRAME_BRIDGED ||
        __builtin_add_overflow((int64_t)frame.first_line, difference, &line) || line < 0 ||
        line > UINT32_MAX)
        return malformed(reader, "invalid frame");
    frame.line = (uint32_t)line;
    frame.kind = (enum gsp_frame_kind)kind;
    uint32_t id = GSP_NONE;
    size_t expected = gsp_model_profile_frame_count(reader->profile) + 1;
    int rc = gsp_model_profile_frame(reader->profile, &frame, &id, reader->err);
    return check_new(reader, rc, id, expected);
}

static int read_stack(struct reader *reader, struct fields *fields)
{
    uint32_t back = get_u32(fields);
    uint32_t frame = get_u32(fields);
    size_t expected = gsp_model_profile_stack_count(reader->profile) + 1;
    if (fields->invalid || back == 0 || back > expected)
        return malformed(reader, "invalid stack");
    uint32_t id = GSP_NONE;
    int rc = gsp_model_profile_stack(reader->profile, (uint32_t)(expected - back), frame, &id,
                                     reader->err);
    return check_new(reader, rc, id, expected);
}

static struct gsp_process get_process(struct fields *fields)
{
    struct gsp_process process = {.pid = get_i32(fields)};
    process.ppid = get_i32(fields);
    process.name = get_u32(fields);
    process.cmdline = get_u32(fields);
    process.version = get_u32(fields);
    return process;
}

static struct gsp_thread get_thread(struct fields *fields)
{
    struct gsp_thread thread = {.process = get_u32(fields)};
    thread.os_id = get_u64(fields);
    thread.python_id = get_u64(fields);
    thread.name = get_u32(fields);
    thread.is_main = get_u64(fields) != 0;
    return thread;
}

static int read_process(struct reader *reader, struct fields *fields)
{
    struct gsp_process process = get_process(fields);
    uint32_t i = GSP_NO_INDEX;
    if (fields->invalid)
        return malformed(reader, "invalid process");
    return gsp_model_profile_process(reader->profile, &process, &i, reader->err);
}

static int read_thread(struct reader *reader, struct fields *fields)
{
    struct gsp_thread thread = get_thread(fields);
    uint32_t i = GSP_NO_INDEX;
    if (fields->invalid)
        return malformed(reader, "invalid thread");
    return gsp_model_profile_thread(reader->profile, &thread, &i, reader->err);
}

static int read_changed_process(struct reader *reader, struct fields *fields)
{
    uint32_t i = get_u32(fields);
    struct gsp_process process = get_process(fields);
    const struct gsp_process *known = gsp_model_profile_process_at(reader->profile, i);
    if (fields->invalid || !known)
        return malformed(reader, "invalid process");
    process.ns_pid = known->ns_pid;
    gsp_model_profile_set_process(reader->profile, i, &process);
    return GSP_OK;
}

static int read_namespace_pid(struct reader *reader, struct fields *fields)
{
    uint32_t i = get_u32(fields);
    int32_t ns_pid = get_i32(fields);
    const struct gsp_process *known = gsp_model_profile_process_at(reader->profile, i);
    if (fields->invalid || !known)
        return malformed(reader, "invalid process");
    struct gsp_process process = *known;
    process.ns_pid = ns_pid;
    gsp_model_profile_set_process(reader->profile, i, &process);
    return GSP_OK;
}

static int read_changed_thread(struct reader *reader, struct fields *fields)
{
    uint32_t i = get_u32(fields);
    struct gsp_thread thread = get_thread(fields);
    if (fields->invalid || !gsp_model_profile_thread_at(reader->profile, i))
        return malformed(reader, "invalid thread");
    gsp_model_profile_set_thread(reader->profile, i, &thread);
    return GSP_OK;
}

static int read_defs(struct reader *reader, struct gsp_sv content)
{
    static int (*const read[GSP_DEF_COUNT])(struct reader *, struct fields *) = {
        [GSP_DEF_STRING] = read_string,
        [GSP_DEF_FRAME] = read_frame,
        [GSP_DEF_STACK] = read_stack,
        [GSP_DEF_PROCESS] = read_process,
        [GSP_DEF_THREAD] = read_thread,
        [GSP_DEF_PROCESS_CHANGED] = read_changed_process,
        [GSP_DEF_THREAD_CHANGED] = read_changed_thread,
        [GSP_DEF_PROCESS_NS] = read_namespace_pid,
    };
    struct fields fields = fields_of(content);
    while (has_more(&fields)) {
        uint64_t tag = get_u64(&fields);
        if (fields.invalid || tag >= GSP_DEF_COUNT || !read[tag])
            return malformed(reader, "unknown definition");
        int rc = read[tag](reader, &fields);
        if (rc == GSP_E_FORMAT)
            return malformed(reader, "invalid definition");
        if (rc)
            return rc;
    }
    return GSP_OK;
}

static int64_t wrapping_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* The time of the next sample, in units of the resolution. */
static int64_t get_time(struct reader *reader, unsigned head, struct fields *column)
{
    struct gsp_pace *pace = &reader->pace;
    unsigned how = head & GSP_HEAD_TIME_MASK;
    if (how == GSP_HEAD_TIME_NEAR) {
        pace->last_time = wrapping_add(pace->last_time, get_i64(column));
    } else if (how != GSP_HEAD_TIME_SAME) {
        uint64_t ticks = how == GSP_HEAD_TIME_FAR ? (uint64_t)get_i64(column) : 1;
        pace->tick_time = wrapping_add(pace->tick_time, (int64_t)(ticks * (uint64_t)pace->period));
        pace->tick_time = wrapping_add(pace->tick_time, get_i64(column));
        pace->last_time = pace->tick_time;
    }
    return pace->last_time;
}

static int64_t get_weight(struct reader *reader, unsigned head, int64_t elapsed,
                          int64_t last_weight, struct fields *column)
{
    int64_t weight = last_weight;
    switch (head & GSP_HEAD_WEIGHT_MASK) {
    case GSP_HEAD_WEIGHT_SAME:
        break;
    case GSP_HEAD_WEIGHT_TIME:
        if (__builtin_mul_overflow(elapsed, reader->resolution_ns, &weight))
            column->invalid = true;
        break;
    case GSP_HEAD_WEIGHT_OTHER:
        weight = wrapping_add(last_weight, get_i64(column));
        break;
    default:
        column->invalid = true;
        break;
    }
    return weight;
}

static int read_sample(struct reader *reader, unsigned head, struct fields *columns)
{
    struct gsp_pace *pace = &reader->pace;
    struct gsp_sample sample = {.flags = head & GSP_HEAD_FLAGS};
    /* pace->threads always has an element 0, which precedes the first sample. */
    struct gsp_pace_thread *before = &pace->threads[pace->last_thread];
    if (head & GSP_HEAD_THREAD)
        before->next = get_u32(&columns[GSP_COLUMN_THREAD]);
    sample.thread = before->next;
    if (sample.thread >= gsp_model_profile_thread_count(reader->profile))
        return malformed(reader, "unknown thread of a sample");
    struct gsp_pace_thread *thread = &pace->threads[sample.thread];

    int64_t time = get_time(reader, head, &columns[GSP_COLUMN_TIME]);
    if (__builtin_mul_overflow(time, reader->resolution_ns, &sample.time_ns))
        return malformed(reader, "time out of range");
    int64_t stack = thread->stack;
    if (head & GSP_HEAD_STACK)
        stack = wrapping_add(stack, get_i64(&columns[GSP_COLUMN_STACK]));
    if (stack < 0 || stack > (int64_t)gsp_model_profile_stack_count(reader->profile))
        return malformed(reader, "unknown stack of a sample");
    sample.stack = (uint32_t)stack;
    int64_t elapsed = (int64_t)((uint64_t)time - (uint64_t)thread->time);
    sample.weight = get_weight(reader, head, elapsed, thread->weight, &columns[GSP_COLUMN_WEIGHT]);
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++)
        if (columns[i].invalid)
            return malformed(reader, "invalid sample");
    thread->time = time;
    thread->stack = sample.stack;
    thread->weight = sample.weight;
    pace->last_thread = sample.thread;
    reader->sample_count++;
    return gsp_model_profile_add(reader->profile, &sample, reader->err);
}

static int read_samples(struct reader *reader, struct gsp_sv content)
{
    struct fields fields = fields_of(content);
    uint64_t count = get_u64(&fields);
    uint64_t lengths[GSP_COLUMN_COUNT] = {0};
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++)
        lengths[i] = get_u64(&fields);
    struct fields columns[GSP_COLUMN_COUNT] = {0};
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++) {
        struct gsp_sv column = {0};
        if (fields.invalid || lengths[i] > content.len ||
            !gsp_cursor_bytes(&fields.cursor, (size_t)lengths[i], &column))
            return malformed(reader, "column past the end");
        columns[i] = fields_of(column);
    }
    if (count != lengths[GSP_COLUMN_HEAD] || has_more(&fields))
        return malformed(reader, "wrong length of a column");
    size_t threads = gsp_model_profile_thread_count(reader->profile);
    if (!gsp_export__pace_grow(&reader->pace, threads ? threads : 1))
        return gsp_err_nomem(reader->err);
    const unsigned char *heads = columns[GSP_COLUMN_HEAD].cursor.p;
    columns[GSP_COLUMN_HEAD].cursor.p = columns[GSP_COLUMN_HEAD].cursor.end;
    for (uint64_t i = 0; i < count; i++) {
        int rc = read_sample(reader, heads[i], columns);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++)
        if (has_more(&columns[i]))
            return malformed(reader, "unused bytes of a column");
    return GSP_OK;
}

static int read_totals(struct reader *reader, struct gsp_sv content)
{
    struct fields fields = fields_of(content);
    while (has_more(&fields)) {
        struct gsp_total total = {.thread = get_u32(&fields)};
        total.stack = get_u32(&fields);
        total.count = get_u64(&fields);
        total.weight = get_i64(&fields);
        if (fields.invalid)
            return malformed(reader, "invalid total");
        int rc = gsp_model_profile_add_total(reader->profile, &total, reader->err);
        if (rc == GSP_E_FORMAT)
            return malformed(reader, "unknown thread or stack of a total");
        if (rc)
            return rc;
    }
    return GSP_OK;
}

static int read_end(struct reader *reader, struct gsp_sv content)
{
    struct fields fields = fields_of(content);
    uint64_t count = get_u64(&fields);
    if (fields.invalid || count != reader->sample_count)
        return malformed(reader, "wrong number of samples");
    reader->ended = true;
    return GSP_OK;
}

/* Decompresses the content of a block. *out is borrowed until the next block. */
static int unpack(struct reader *reader, unsigned codec, size_t raw_len, struct gsp_sv stored,
                  struct gsp_sv *out)
{
    if (codec == GSP_CODEC_RAW) {
        *out = stored;
        return raw_len == stored.len ? GSP_OK : malformed(reader, "two different lengths");
    }
    if (codec != GSP_CODEC_ZSTD)
        return malformed(reader, "unknown compression");
    gsp_buf_clear(&reader->unpacked);
    char *raw = gsp_buf_reserve(&reader->unpacked, raw_len);
    if (!reader->zstd)
        reader->zstd = ZSTD_createDCtx();
    if (!raw || !reader->zstd)
        return gsp_err_nomem(reader->err);
    size_t len = ZSTD_decompressDCtx(reader->zstd, raw, raw_len, stored.p, stored.len);
    if (ZSTD_isError(len) || len != raw_len)
        return malformed(reader, "invalid compressed data");
    *out = (struct gsp_sv){raw, len};
    return GSP_OK;
}

static int read_content(struct reader *reader, unsigned type, struct gsp_sv content)
{
    static int (*const read[])(struct reader *, struct gsp_sv) = {
        [GSP_BLOCK_META] = read_meta,       [GSP_BLOCK_DEFS] = read_defs,
        [GSP_BLOCK_SAMPLES] = read_samples, [GSP_BLOCK_TOTALS] = read_totals,
        [GSP_BLOCK_END] = read_end,
    };
    if (type < GSP_COUNT(read) && read[type])
        return read[type](reader, content);
    return type >= GSP_BLOCK_OPTIONAL ? GSP_OK : malformed(reader, "unknown type");
}

/* Reads the block at reader->at and advances past it. Sets *cut if the file ends inside it. */
static int read_block(struct reader *reader, bool *cut)
{
    size_t left = reader->bytes.len - reader->at;
    const unsigned char *header = (const unsigned char *)reader->bytes.p + reader->at;
    *cut = left < GSP_BLOCK_HEADER_BYTES;
    if (*cut)
        return GSP_OK;
    size_t raw_len = gsp_load_u32(header + 4);
    size_t stored_len = gsp_load_u32(header + 8);
    if (raw_len > GSP_BLOCK_RAW_MAX || stored_len > raw_len || header[2] || header[3])
        return malformed(reader, "invalid header");
    *cut = stored_len > left - GSP_BLOCK_HEADER_BYTES;
    if (*cut)
        return GSP_OK;
    struct gsp_sv stored = {reader->bytes.p + reader->at + GSP_BLOCK_HEADER_BYTES, stored_len};
    if (gsp_load_u32(header + 12) != gsp_export__block_crc(header, stored))
        return malformed(reader, "wrong checksum");
    reader->raw_bytes += raw_len;
    if (reader->raw_bytes > GSP_INPUT_BYTES_MAX)
        return gsp_err_set(reader->err, GSP_E_LIMIT, 0, "more than %llu bytes after decompression",
                           GSP_INPUT_BYTES_MAX);
    struct gsp_sv content = {0};
    int rc = unpack(reader, header[1], raw_len, stored, &content);
    if (rc == GSP_OK)
        rc = read_content(reader, header[0], content);
    reader->at += GSP_BLOCK_HEADER_BYTES + stored_len;
    return rc;
}

static int read_blocks(struct reader *reader)
{
    bool cut = false;
    reader->at = GSP_FILE_HEADER_BYTES;
    while (reader->at < reader->bytes.len && !reader->ended && !cut) {
        int rc = read_block(reader, &cut);
        if (rc)
            return rc;
    }
    if (reader->ended && reader->at < reader->bytes.len)
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "data after the end, at byte %zu",
                           reader->at);
    gsp_model_profile_meta(reader->profile)->truncated = !reader->ended;
    return GSP_OK;
}

static int read_header(struct reader *reader)
{
    const unsigned char *header = (const unsigned char *)reader->bytes.p;
    if (reader->bytes.len < GSP_FILE_HEADER_BYTES ||
        memcmp(header, gsp_file_magic, GSP_FILE_MAGIC_BYTES) != 0)
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "not a .gsp file");
    uint32_t version = gsp_load_u32(header + 8);
    if (version != GSP_FILE_VERSION)
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "unknown .gsp version %u", version);
    uint32_t resolution_ns = gsp_load_u32(header + 12);
    uint64_t period = gsp_load_u64(header + 16);
    if (gsp_load_u32(header + 28) != (uint32_t)crc32(0, header, 28) || resolution_ns == 0 ||
        period > INT64_MAX)
        return gsp_err_set(reader->err, GSP_E_FORMAT, 0, "invalid file header");
    reader->resolution_ns = resolution_ns;
    reader->pace.period = (int64_t)period;
    return GSP_OK;
}

int gsp_export__gsp_read(struct gsp_sv bytes, struct gsp_profile *profile, struct gsp_err *err)
{
    struct reader reader = {.profile = profile, .err = err, .bytes = bytes};
    int rc = read_header(&reader);
    if (rc == GSP_OK)
        rc = read_blocks(&reader);
    gsp_buf_free(&reader.unpacked);
    free(reader.pace.threads);
    ZSTD_freeDCtx(reader.zstd);
    return rc;
}
