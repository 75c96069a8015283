/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "base/array.h"
#include "base/time.h"
#include "export/formats.h"
#include "export/gsp_layout.h"
#include "export/gsp_read.h"
#include "export/gsp_stream.h"

/* A block is sealed when it passes these sizes, so that a flush fits between two samples. */
#define DEFS_BYTES     24576U
#define SAMPLES_BYTES  12288U
/* Shorter content is not compressed: the compression header would outweigh the gain. */
#define PACK_MIN_BYTES 48U
#define ZSTD_LEVEL     1

struct range {
    uint32_t first;
    uint32_t end; /* empty unless end > first */
};

struct gsp_stream {
    int fd;              /* borrowed; -1 if out is set */
    struct gsp_out *out; /* borrowed; NULL in a recording */
    int failed;          /* GSP_E_* of the first failure, after which nothing is written */
    const struct gsp_profile *profile;
    struct gsp_model_profile_meta written_meta;
    bool has_written_meta;
    int64_t resolution_ns;
    struct gsp_pace pace;

    /* Definitions already in the file. */
    uint32_t string_count, frame_count, stack_count, process_count, thread_count;
    struct range processes_changed, threads_changed;

    struct gsp_buf columns[GSP_COLUMN_COUNT];
    uint64_t block_samples;
    uint64_t sample_count;
    struct gsp_buf raw;    /* the content of the block being sealed */
    struct gsp_buf sealed; /* blocks not yet written to fd */
    ZSTD_CCtx *zstd;
};

uint32_t gsp_export__block_crc(const unsigned char *header, struct gsp_sv stored)
{
    uLong crc = crc32(0, header, GSP_BLOCK_HEADER_BYTES - 4);
    crc = crc32_z(crc, (const Bytef *)stored.p, stored.len);
    return (uint32_t)crc;
}

bool gsp_export__pace_grow(struct gsp_pace *pace, size_t count)
{
    if (count <= pace->thread_count)
        return true;
    size_t i = pace->thread_count;
    if (!gsp_array_fit(&pace->threads, &pace->thread_count, count))
        return false;
    for (; i < pace->thread_count; i++)
        pace->threads[i] = (struct gsp_pace_thread){.next = (uint32_t)i};
    return true;
}

static int fail(struct gsp_stream *stream, int rc)
{
    stream->failed = rc;
    return rc;
}

/* Appends raw as one block to sink, compressed if that is shorter. Returns false if memory runs
 * out. */
static bool seal_into(struct gsp_stream *stream, enum gsp_block_type type, struct gsp_buf *sink)
{
    size_t raw_len = stream->raw.len;
    size_t bound = ZSTD_compressBound(raw_len);
    char *block = gsp_buf_reserve(sink, GSP_BLOCK_HEADER_BYTES + bound);
    if (!block || stream->raw.failed)
        return false;
    unsigned char *header = (unsigned char *)block;
    char *body = block + GSP_BLOCK_HEADER_BYTES;
    size_t stored = raw_len;
    enum gsp_block_codec codec = GSP_CODEC_RAW;
    if (raw_len >= PACK_MIN_BYTES) {
        size_t packed =
            ZSTD_compressCCtx(stream->zstd, body, bound, stream->raw.p, raw_len, ZSTD_LEVEL);
        if (!ZSTD_isError(packed) && packed < raw_len) {
            stored = packed;
            codec = GSP_CODEC_ZSTD;
        }
    }
    if (codec == GSP_CODEC_RAW && raw_len > 0)
        memcpy(body, stream->raw.p, raw_len);
    header[0] = (unsigned char)type;
    header[1] = (unsigned char)codec;
    header[2] = 0;
    header[3] = 0;
    gsp_store_u32(header + 4, (uint32_t)raw_len);
    gsp_store_u32(header + 8, (uint32_t)stored);
    gsp_store_u32(header + 12, gsp_export__block_crc(header, (struct gsp_sv){body, stored}));
    sink->len += GSP_BLOCK_HEADER_BYTES + stored;
    return true;
}

/* Writes the sealed blocks to the descriptor. */
static int write_sealed(struct gsp_stream *stream, struct gsp_err *err)
{
    if (stream->out) {
        gsp_out_spill(stream->out);
        return GSP_OK;
    }
    if (stream->sealed.len == 0)
        return GSP_OK;
    int rc = gsp_fd_write_all(stream->fd, stream->sealed.p, stream->sealed.len, err);
    gsp_buf_clear(&stream->sealed);
    return rc ? fail(stream, rc) : GSP_OK;
}

/* Makes a block of stream->raw and clears it. */
static int seal(struct gsp_stream *stream, enum gsp_block_type type, struct gsp_err *err)
{
    struct gsp_buf *sink = stream->out ? &stream->out->buf : &stream->sealed;
    bool sealed = seal_into(stream, type, sink);
    gsp_buf_clear(&stream->raw);
    if (!sealed)
        return fail(stream, gsp_err_nomem(err));
    if (stream->out || sink->len > DEFS_BYTES)
        return write_sealed(stream, err);
    return GSP_OK;
}

static void put_process(struct gsp_stream *stream, uint32_t i)
{
    const struct gsp_process *process = gsp_model_profile_process_at(stream->profile, i);
    gsp_buf_varint(&stream->raw, gsp_zigzag(process->pid));
    gsp_buf_varint(&stream->raw, gsp_zigzag(process->ppid));
    gsp_buf_varint(&stream->raw, process->name);
    gsp_buf_varint(&stream->raw, process->cmdline);
    gsp_buf_varint(&stream->raw, process->version);
}

/* The few processes that run in a PID namespace. */
static void put_namespace_pids(struct gsp_stream *stream, struct range range)
{
    for (uint32_t i = range.first; i < range.end; i++) {
        const struct gsp_process *process = gsp_model_profile_process_at(stream->profile, i);
        if (process->ns_pid == 0)
            continue;
        gsp_buf_varint(&stream->raw, GSP_DEF_PROCESS_NS);
        gsp_buf_varint(&stream->raw, i);
        gsp_buf_varint(&stream->raw, gsp_zigzag(process->ns_pid));
    }
}

static void put_thread(struct gsp_stream *stream, uint32_t i)
{
    const struct gsp_thread *thread = gsp_model_profile_thread_at(stream->profile, i);
    gsp_buf_varint(&stream->raw, thread->process);
    gsp_buf_varint(&stream->raw, thread->os_id);
    gsp_buf_varint(&stream->raw, thread->python_id);
    gsp_buf_varint(&stream->raw, thread->name);
    gsp_buf_varint(&stream->raw, thread->is_main);
}

static void put_changed_process(struct gsp_stream *stream, uint32_t i)
{
    gsp_buf_varint(&stream->raw, i);
    put_process(stream, i);
}

static void put_changed_thread(struct gsp_stream *stream, uint32_t i)
{
    gsp_buf_varint(&stream->raw, i);
    put_thread(stream, i);
}

static void put_string(struct gsp_stream *stream, uint32_t id)
{
    struct gsp_sv text = gsp_model_profile_string_at(stream->profile, id);
    gsp_buf_varint(&stream->raw, text.len);
    gsp_buf_putsv(&stream->raw, text);
}

static void put_frame(struct gsp_stream *stream, uint32_t id)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(stream->profile, id);
    gsp_buf_varint(&stream->raw, frame->name);
    gsp_buf_varint(&stream->raw, frame->file);
    gsp_buf_varint(&stream->raw, frame->first_line);
    gsp_buf_varint(&stream->raw, gsp_zigzag((int64_t)frame->line - frame->first_line));
    gsp_buf_varint(&stream->raw, frame->kind);
}

static void put_stack(struct gsp_stream *stream, uint32_t id)
{
    /* The caller is usually the stack added just before. */
    gsp_buf_varint(&stream->raw, id - gsp_model_profile_stack_caller(stream->profile, id));
    gsp_buf_varint(&stream->raw, gsp_model_profile_stack_frame(stream->profile, id));
}

static int put_defs(struct gsp_stream *stream, enum gsp_def_tag tag, struct range range,
                    struct gsp_err *err)
{
    static void (*const put[GSP_DEF_COUNT])(struct gsp_stream *, uint32_t) = {
        [GSP_DEF_STRING] = put_string,
        [GSP_DEF_FRAME] = put_frame,
        [GSP_DEF_STACK] = put_stack,
        [GSP_DEF_PROCESS] = put_process,
        [GSP_DEF_THREAD] = put_thread,
        [GSP_DEF_PROCESS_CHANGED] = put_changed_process,
        [GSP_DEF_THREAD_CHANGED] = put_changed_thread,
    };
    for (uint32_t i = range.first; i < range.end; i++) {
        gsp_buf_varint(&stream->raw, tag);
        put[tag](stream, i);
        if (stream->raw.len > DEFS_BYTES) {
            int rc = seal(stream, GSP_BLOCK_DEFS, err);
            if (rc)
                return rc;
        }
    }
    return GSP_OK;
}

/* Writes definitions that are not yet in the file, each after those it refers to. */
static int write_defs(struct gsp_stream *stream, struct gsp_err *err)
{
    const struct gsp_profile *profile = stream->profile;
    uint32_t strings = (uint32_t)gsp_model_profile_string_count(profile);
    uint32_t frames = (uint32_t)gsp_model_profile_frame_count(profile);
    uint32_t stacks = (uint32_t)gsp_model_profile_stack_count(profile);
    uint32_t processes = (uint32_t)gsp_model_profile_process_count(profile);
    uint32_t threads = (uint32_t)gsp_model_profile_thread_count(profile);
    const struct {
        enum gsp_def_tag tag;
        struct range range;
    } parts[] = {
        {GSP_DEF_STRING, {stream->string_count + 1, strings + 1}},
        {GSP_DEF_FRAME, {stream->frame_count + 1, frames + 1}},
        {GSP_DEF_STACK, {stream->stack_count + 1, stacks + 1}},
        {GSP_DEF_PROCESS_CHANGED, stream->processes_changed},
        {GSP_DEF_PROCESS, {stream->process_count, processes}},
        {GSP_DEF_THREAD_CHANGED, stream->threads_changed},
        {GSP_DEF_THREAD, {stream->thread_count, threads}},
    };
    for (size_t i = 0; i < GSP_COUNT(parts); i++) {
        int rc = put_defs(stream, parts[i].tag, parts[i].range, err);
        if (rc)
            return rc;
    }
    put_namespace_pids(stream, (struct range){stream->process_count, processes});
    stream->string_count = strings;
    stream->frame_count = frames;
    stream->stack_count = stacks;
    stream->process_count = processes;
    stream->thread_count = threads;
    stream->processes_changed = (struct range){0};
    stream->threads_changed = (struct range){0};
    return stream->raw.len ? seal(stream, GSP_BLOCK_DEFS, err) : GSP_OK;
}

static int write_samples(struct gsp_stream *stream, struct gsp_err *err)
{
    if (stream->block_samples == 0)
        return GSP_OK;
    gsp_buf_varint(&stream->raw, stream->block_samples);
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++)
        gsp_buf_varint(&stream->raw, stream->columns[i].len);
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++) {
        if (stream->columns[i].failed)
            return fail(stream, gsp_err_nomem(err));
        gsp_buf_putsv(&stream->raw, gsp_buf_sv(&stream->columns[i]));
        gsp_buf_clear(&stream->columns[i]);
    }
    stream->block_samples = 0;
    return seal(stream, GSP_BLOCK_SAMPLES, err);
}

static bool same_meta(const struct gsp_model_profile_meta *a,
                      const struct gsp_model_profile_meta *b)
{
    const struct gsp_losses *x = &a->losses;
    const struct gsp_losses *y = &b->losses;
    return a->start_ns == b->start_ns && a->duration_ns == b->duration_ns &&
           a->period_ns == b->period_ns && a->unit == b->unit && a->ticks == b->ticks &&
           x->torn == y->torn && x->late == y->late && x->failed == y->failed &&
           x->gone == y->gone && x->skipped == y->skipped && x->unmerged == y->unmerged;
}

static int write_meta(struct gsp_stream *stream, struct gsp_err *err)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(stream->profile);
    if (stream->has_written_meta && same_meta(meta, &stream->written_meta))
        return GSP_OK;
    const struct {
        enum gsp_meta_tag tag;
        uint64_t value;
    } fields[] = {
        {GSP_META_START_NS, gsp_zigzag(meta->start_ns)},
        {GSP_META_DURATION_NS, gsp_zigzag(meta->duration_ns)},
        {GSP_META_PERIOD_NS, gsp_zigzag(meta->period_ns)},
        {GSP_META_UNIT, meta->unit},
        {GSP_META_TICKS, meta->ticks},
        {GSP_META_TORN, meta->losses.torn},
        {GSP_META_LATE, meta->losses.late},
        {GSP_META_FAILED, meta->losses.failed},
        {GSP_META_GONE, meta->losses.gone},
        {GSP_META_SKIPPED, meta->losses.skipped},
        {GSP_META_UNMERGED, meta->losses.unmerged},
    };
    for (size_t i = 0; i < GSP_COUNT(fields); i++) {
        gsp_buf_varint(&stream->raw, fields[i].tag);
        gsp_buf_varint(&stream->raw, fields[i].value);
    }
    stream->written_meta = *meta;
    stream->has_written_meta = true;
    return seal(stream, GSP_BLOCK_META, err);
}

static int failed_before(const struct gsp_stream *stream, struct gsp_err *err)
{
    return gsp_err_set(err, stream->failed, 0, "an earlier write to the .gsp file failed");
}

static int write_blocks(struct gsp_stream *stream, struct gsp_err *err)
{
    if (stream->failed)
        return failed_before(stream, err);
    int rc = write_defs(stream, err);
    if (rc == GSP_OK)
        rc = write_samples(stream, err);
    return rc;
}

/* Creates a stream and writes the file header. */
static int start(const struct gsp_profile *profile, struct gsp_out *sink, int64_t resolution_ns,
                 struct gsp_stream **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return gsp_err_nomem(err);
    stream->fd = -1;
    stream->out = sink;
    stream->profile = profile;
    stream->resolution_ns = resolution_ns;
    int64_t period_ns = gsp_model_profile_meta_get(profile)->period_ns;
    stream->pace.period = period_ns > 0 ? period_ns / resolution_ns : 0;
    stream->zstd = ZSTD_createCCtx();

    unsigned char header[GSP_FILE_HEADER_BYTES] = {0};
    memcpy(header, gsp_file_magic, sizeof(gsp_file_magic));
    gsp_store_u32(header + 8, GSP_FILE_VERSION);
    gsp_store_u32(header + 12, (uint32_t)resolution_ns);
    gsp_store_u64(header + 16, (uint64_t)stream->pace.period);
    gsp_store_u32(header + 28, (uint32_t)crc32(0, header, 28));
    struct gsp_buf *buf = sink ? &sink->buf : &stream->sealed;
    gsp_buf_put(buf, header, sizeof(header));
    if (!stream->zstd || buf->failed) {
        gsp_export_stream_free(stream);
        return gsp_err_nomem(err);
    }
    *out = stream;
    return GSP_OK;
}

int gsp_export_stream_new(int fd, struct gsp_profile *profile, struct gsp_stream **out,
                          struct gsp_err *err)
{
    int rc = start(profile, NULL, GSP_NS_PER_US, out, err);
    if (rc)
        return rc;
    (*out)->fd = fd;
    rc = write_meta(*out, err);
    if (rc == GSP_OK)
        rc = write_sealed(*out, err);
    if (rc) {
        gsp_export_stream_free(*out);
        *out = NULL;
    }
    return rc;
}

static int64_t wrapping_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* Encodes a time as a number of ticks and a small difference. Returns the bits of the head byte. */
static unsigned encode_time(struct gsp_stream *stream, int64_t time)
{
    struct gsp_pace *pace = &stream->pace;
    struct gsp_buf *column = &stream->columns[GSP_COLUMN_TIME];
    int64_t near = wrapping_sub(time, pace->last_time);
    pace->last_time = time;
    if (near == 0)
        return GSP_HEAD_TIME_SAME;
    int64_t half = pace->period / 2;
    if (pace->period == 0 || (near < half && near > -half)) {
        gsp_buf_varint(column, gsp_zigzag(near));
        return GSP_HEAD_TIME_NEAR;
    }
    int64_t far = wrapping_sub(time, pace->tick_time);
    int64_t ticks = far / pace->period;
    int64_t rest = far % pace->period;
    if (rest > half) {
        ticks++;
        rest -= pace->period;
    } else if (rest < -half) {
        ticks--;
        rest += pace->period;
    }
    pace->tick_time = time;
    if (ticks != 1)
        gsp_buf_varint(column, gsp_zigzag(ticks));
    gsp_buf_varint(column, gsp_zigzag(rest));
    return ticks == 1 ? GSP_HEAD_TIME_NEXT : GSP_HEAD_TIME_FAR;
}

static unsigned encode_weight(struct gsp_stream *stream, const struct gsp_pace_thread *thread,
                              int64_t time, int64_t *weight)
{
    if (*weight == thread->weight)
        return GSP_HEAD_WEIGHT_SAME;
    /* The time since the last sample, computed from the rounded times, so that the sum over a
     * thread stays correct. */
    int64_t elapsed_ns = 0;
    if (!__builtin_mul_overflow(wrapping_sub(time, thread->time), stream->resolution_ns,
                                &elapsed_ns)) {
        int64_t off_ns = wrapping_sub(*weight, elapsed_ns);
        if (off_ns < stream->resolution_ns && off_ns > -stream->resolution_ns) {
            *weight = elapsed_ns;
            return GSP_HEAD_WEIGHT_TIME;
        }
    }
    gsp_buf_varint(&stream->columns[GSP_COLUMN_WEIGHT],
                   gsp_zigzag(wrapping_sub(*weight, thread->weight)));
    return GSP_HEAD_WEIGHT_OTHER;
}

int gsp_export_stream_add(struct gsp_stream *stream, const struct gsp_sample *sample,
                          struct gsp_err *err)
{
    if (stream->failed)
        return failed_before(stream, err);
    if (sample->thread >= gsp_model_profile_thread_count(stream->profile) ||
        sample->stack > gsp_model_profile_stack_count(stream->profile))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "a sample refers to unknown thread %u or stack %u",
                           sample->thread, sample->stack);
    struct gsp_pace *pace = &stream->pace;
    if (!gsp_export__pace_grow(pace, (size_t)sample->thread + 1))
        return fail(stream, gsp_err_nomem(err));
    struct gsp_pace_thread *before = &pace->threads[pace->last_thread];
    struct gsp_pace_thread *thread = &pace->threads[sample->thread];
    /* Rounded down, also below zero. */
    int64_t time = sample->time_ns / stream->resolution_ns;
    if (sample->time_ns % stream->resolution_ns < 0)
        time--;

    unsigned head = sample->flags & GSP_HEAD_FLAGS;
    if (before->next != sample->thread) {
        head |= GSP_HEAD_THREAD;
        gsp_buf_varint(&stream->columns[GSP_COLUMN_THREAD], sample->thread);
        before->next = sample->thread;
    }
    head |= encode_time(stream, time);
    if (sample->stack != thread->stack) {
        head |= GSP_HEAD_STACK;
        gsp_buf_varint(&stream->columns[GSP_COLUMN_STACK],
                       gsp_zigzag((int64_t)sample->stack - (int64_t)thread->stack));
        thread->stack = sample->stack;
    }
    int64_t weight = sample->weight;
    head |= encode_weight(stream, thread, time, &weight);
    gsp_buf_putc(&stream->columns[GSP_COLUMN_HEAD], (char)head);
    thread->time = time;
    thread->weight = weight;
    pace->last_thread = sample->thread;
    stream->block_samples++;
    stream->sample_count++;

    size_t bytes = 0;
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++)
        bytes += stream->columns[i].len;
    return bytes >= SAMPLES_BYTES ? write_blocks(stream, err) : GSP_OK;
}

static void widen(struct range *range, uint32_t i)
{
    if (range->end <= range->first) {
        *range = (struct range){i, i + 1};
    } else {
        range->first = i < range->first ? i : range->first;
        range->end = i >= range->end ? i + 1 : range->end;
    }
}

void gsp_export_stream_thread_changed(struct gsp_stream *stream, uint32_t thread)
{
    /* A thread that is not yet in the file will be written with the change. */
    if (thread < stream->thread_count)
        widen(&stream->threads_changed, thread);
}

void gsp_export_stream_process_changed(struct gsp_stream *stream, uint32_t process)
{
    if (process < stream->process_count)
        widen(&stream->processes_changed, process);
}

int gsp_export_stream_flush(struct gsp_stream *stream, struct gsp_err *err)
{
    int rc = write_blocks(stream, err);
    if (rc == GSP_OK)
        rc = write_meta(stream, err);
    return rc ? rc : write_sealed(stream, err);
}

static int write_end(struct gsp_stream *stream, struct gsp_err *err)
{
    gsp_buf_varint(&stream->raw, stream->sample_count);
    int rc = seal(stream, GSP_BLOCK_END, err);
    return rc ? rc : write_sealed(stream, err);
}

int gsp_export_stream_finish(struct gsp_stream *stream, struct gsp_err *err)
{
    int rc = gsp_export_stream_flush(stream, err);
    if (rc == GSP_OK)
        rc = write_end(stream, err);
    gsp_export_stream_free(stream);
    return rc;
}

void gsp_export_stream_free(struct gsp_stream *stream)
{
    if (!stream)
        return;
    for (size_t i = 0; i < GSP_COLUMN_COUNT; i++)
        gsp_buf_free(&stream->columns[i]);
    gsp_buf_free(&stream->raw);
    gsp_buf_free(&stream->sealed);
    free(stream->pace.threads);
    ZSTD_freeCCtx(stream->zstd);
    free(stream);
}

static int write_all_samples(struct gsp_stream *stream, struct gsp_err *err)
{
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, stream->profile);
    while (gsp_model_sample_iter_next(&iter, &sample)) {
        int rc = gsp_export_stream_add(stream, &sample, err);
        if (rc)
            return rc;
    }
    return GSP_OK;
}

static int write_totals(struct gsp_stream *stream, struct gsp_err *err)
{
    /* Totals refer to definitions; this also leaves stream->raw empty. */
    int rc = write_defs(stream, err);
    size_t count = gsp_model_profile_total_count(stream->profile);
    for (size_t i = 0; rc == GSP_OK && i < count; i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(stream->profile, i);
        gsp_buf_varint(&stream->raw, total->thread);
        gsp_buf_varint(&stream->raw, total->stack);
        gsp_buf_varint(&stream->raw, total->count);
        gsp_buf_varint(&stream->raw, gsp_zigzag(total->weight));
        if (stream->raw.len > DEFS_BYTES)
            rc = seal(stream, GSP_BLOCK_TOTALS, err);
    }
    if (rc == GSP_OK && stream->raw.len)
        rc = seal(stream, GSP_BLOCK_TOTALS, err);
    return rc;
}

/* Microseconds take fewer bytes. They are used if no time needs nanoseconds. */
static int64_t choose_resolution(const struct gsp_profile *profile)
{
    struct gsp_sample_iter iter;
    struct gsp_sample sample;
    gsp_model_sample_iter_init(&iter, profile);
    while (gsp_model_sample_iter_next(&iter, &sample))
        if (sample.time_ns % GSP_NS_PER_US != 0)
            return 1;
    return GSP_NS_PER_US;
}

static int write_gsp(const struct gsp_profile *profile, const struct gsp_view_options *view,
                     struct gsp_out *out, struct gsp_err *err)
{
    (void)view; /* the file keeps everything; its reader chooses the view */
    struct gsp_stream *stream = NULL;
    int rc = start(profile, out, choose_resolution(profile), &stream, err);
    if (rc)
        return rc;
    rc = write_meta(stream, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_has_samples(profile) ? write_all_samples(stream, err)
                                                    : write_totals(stream, err);
    if (rc) {
        gsp_export_stream_free(stream);
        return rc;
    }
    return gsp_export_stream_finish(stream, err);
}

static bool sniff_gsp(struct gsp_sv head)
{
    return head.len >= GSP_FILE_MAGIC_BYTES &&
           memcmp(head.p, gsp_file_magic, GSP_FILE_MAGIC_BYTES) == 0;
}

const struct gsp_format gsp_format_gsp = {
    .name = "gsp",
    .extensions = {".gsp"},
    .summary = "compact, complete recording",
    .needs_samples = true,
    .write = write_gsp,
    .read = gsp_export__gsp_read,
    .sniff = sniff_gsp,
};
