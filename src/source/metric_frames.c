/* SPDX-License-Identifier: Apache-2.0 */
#include "source/metric_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "frames/log_segment.h"
#include "wire/table.h"

/* A segment of the frame log. Its rows are ordered by metric frame, then by metric. */
struct part {
    const char *map; /* the whole file */
    size_t map_len;
    uint64_t first_row; /* in the table */
    uint64_t first_id;
    uint64_t frames;
    uint32_t header_bytes;
    uint32_t row_bytes;
    uint32_t metrics;
    uint32_t *names;   /* string ids, one per metric */
    uint32_t *devices; /* likewise; in the same allocation */
};

/* Frames in the same sessions. */
struct stretch {
    uint64_t from;  /* id of the first frame */
    uint32_t names; /* string id of the list of session names */
};

struct rows {
    struct part *parts;
    size_t part_count;
    struct stretch *stretches; /* sorted by from */
    size_t stretch_count;
    uint64_t count;
};

static void free_rows(void *ctx)
{
    struct rows *rows = ctx;
    for (size_t i = 0; i < rows->part_count; i++) {
        struct part *part = &rows->parts[i];
        union {
            const char *kept;
            char *given;
        } map = {.kept = part->map};
        if (part->map)
            munmap(map.given, part->map_len);
        free(part->names);
    }
    free(rows->parts);
    free(rows->stretches);
    free(rows);
}

/* ------------------------------------------------------------------------------------- reading */

static const struct part *part_at(const struct rows *rows, uint64_t row)
{
    size_t low = 0;
    size_t high = rows->part_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (rows->parts[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return &rows->parts[low];
}

static uint32_t sessions_at(const struct rows *rows, uint64_t frame_id)
{
    size_t low = 0;
    size_t high = rows->stretch_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (rows->stretches[middle].from <= frame_id)
            low = middle;
        else
            high = middle;
    }
    return rows->stretches[low].names;
}

/* Metrics [from, from + n) of one frame. */
struct piece {
    const struct part *part;
    uint64_t frame;
    uint32_t from;
    uint32_t n;
};

/* Returns NULL if the frame is damaged: its id is not the expected one. Its columns are NULL. */
static const char *values_of(const struct piece *piece, struct frames_row *head)
{
    const struct part *part = piece->part;
    const char *at = part->map + part->header_bytes + piece->frame * part->row_bytes;
    memcpy(head, at, sizeof(*head));
    return head->frame_id == part->first_id + piece->frame ? at + sizeof(*head) : NULL;
}

static void fill_i64(int64_t *out, uint32_t n, int64_t value)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = value;
}

static void read_values(const struct piece *piece, double *out)
{
    struct frames_row head;
    const char *values = values_of(piece, &head);
    if (values) {
        memcpy(out, values + piece->from * sizeof(double), piece->n * sizeof(double));
        return;
    }
    for (uint32_t i = 0; i < piece->n; i++)
        out[i] = gsp_null_f64();
}

/* In the order of struct gsp_row_session_frame. */
enum column { TS_NS, MONO_NS, FRAME_ID, SESSIONS, METRIC, DEVICE, VALUE };

static size_t read_piece(const struct rows *rows, const struct piece *piece, uint32_t column,
                         char *out)
{
    const uint64_t id = piece->part->first_id + piece->frame;
    struct frames_row head;
    const bool whole = values_of(piece, &head) != NULL;
    switch ((enum column)column) {
    case TS_NS:
        fill_i64((int64_t *)(void *)out, piece->n, whole ? head.ts_ns : GSP_NULL_I64);
        break;
    case MONO_NS:
        fill_i64((int64_t *)(void *)out, piece->n, whole ? head.mono_ns : GSP_NULL_I64);
        break;
    case FRAME_ID:
        fill_i64((int64_t *)(void *)out, piece->n, (int64_t)id);
        break;
    case VALUE:
        read_values(piece, (double *)(void *)out);
        break;
    case SESSIONS: {
        const uint32_t names = sessions_at(rows, id);
        for (uint32_t i = 0; i < piece->n; i++)
            ((uint32_t *)(void *)out)[i] = names;
        return piece->n * sizeof(uint32_t);
    }
    case METRIC:
        memcpy(out, piece->part->names + piece->from, piece->n * sizeof(uint32_t));
        return piece->n * sizeof(uint32_t);
    case DEVICE:
        memcpy(out, piece->part->devices + piece->from, piece->n * sizeof(uint32_t));
        return piece->n * sizeof(uint32_t);
    }
    return piece->n * sizeof(uint64_t);
}

static void read_rows(const void *ctx, uint32_t column, uint64_t from, size_t n, void *out)
{
    const struct rows *rows = ctx;
    char *to = out;
    while (n) {
        const struct part *part = part_at(rows, from);
        const uint64_t within = from - part->first_row;
        struct piece piece = {part, within / part->metrics, (uint32_t)(within % part->metrics), 0};
        piece.n = part->metrics - piece.from;
        if (piece.n > n)
            piece.n = (uint32_t)n;
        to += read_piece(rows, &piece, column, to);
        from += piece.n;
        n -= piece.n;
    }
}

/* -------------------------------------------------------------------------------------- opening */

static int intern_metrics(struct part *part, const struct frames_head *head,
                          struct gsp_batch *strings, struct gsp_err *err)
{
    part->names = calloc(2 * (size_t)head->metric_count, sizeof(*part->names));
    if (!part->names)
        return gsp_err_nomem(err);
    part->devices = part->names + head->metric_count;
    for (uint32_t i = 0; i < head->metric_count; i++) {
        const struct frames_metric *metric = &head->metrics[i];
        part->names[i] = gsp_store_batch_intern(strings, gsp_sv_of(metric->name));
        if (metric->device[0])
            part->devices[i] = gsp_store_batch_intern(strings, gsp_sv_of(metric->device));
    }
    return GSP_OK;
}

/* Returns 1, or 0 if the segment is empty or was removed. */
static int open_part(int folder_fd, const struct gsp_frame_log_range *stretch, struct part *part,
                     struct gsp_batch *strings, struct gsp_err *err)
{
    struct frames_head head = {0};
    struct stat facts;
    int opened = -1;
    int rc = gsp_frames_segment_open(folder_fd, stretch->first_id, &head, &opened, err);
    gsp_auto_fd fd = opened;
    if (rc < 0)
        return rc == GSP_E_NOFILE ? 0 : rc;
    *part = (struct part){.first_id = head.first_id,
                          .frames = stretch->count,
                          .header_bytes = head.header_bytes,
                          .row_bytes = head.row_bytes,
                          .metrics = head.metric_count};
    part->map_len = (size_t)(head.header_bytes + stretch->count * head.row_bytes);
    if (!head.metric_count || !stretch->count) {
        gsp_frames_head_free(&head);
        return 0;
    }
    if (fstat(fd, &facts) < 0 || (uint64_t)facts.st_size < part->map_len) {
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "a segment of the frame log is truncated");
    } else {
        void *map = mmap(NULL, part->map_len, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            rc = gsp_err_set(err, GSP_E_NOMEM, errno, "cannot map a segment of the frame log");
        else
            part->map = map;
    }
    if (rc == GSP_OK)
        rc = intern_metrics(part, &head, strings, err);
    gsp_frames_head_free(&head);
    return rc < 0 ? rc : 1;
}

static int open_parts(const struct gsp_source_frame_log *log, struct rows *rows,
                      struct gsp_batch *strings, struct gsp_err *err)
{
    gsp_auto_buf path = {0};
    gsp_buf_printf(&path, "%s/frames", log->folder);
    rows->parts = calloc(log->stretch_count + 1, sizeof(*rows->parts));
    const char *text = gsp_buf_cstr(&path);
    if (!rows->parts || !text)
        return gsp_err_nomem(err);
    gsp_auto_fd fd = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read the frame log: %.150s", text);
    for (size_t i = 0; i < log->stretch_count; i++) {
        struct part *part = &rows->parts[rows->part_count];
        int rc = open_part(fd, &log->stretches[i], part, strings, err);
        rows->part_count += rc != 0; /* also on failure: free_rows() frees the part */
        if (rc < 0)
            return rc;
        part->first_row = rows->count;
        if (rc)
            rows->count += part->frames * part->metrics;
    }
    return GSP_OK;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = 0;
    uint64_t y = 0;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

/* Returns the string id of the names of the sessions that include a frame. */
static uint32_t intern_sessions(const struct gsp_source_frame_log *log, uint64_t frame_id,
                                struct gsp_batch *strings, struct gsp_buf *text)
{
    struct gsp_json json;
    size_t shown = 0;
    gsp_buf_clear(text);
    gsp_json_init(&json, text);
    gsp_json_arr_begin(&json);
    for (size_t i = 0; i < log->session_count && shown < GSP_SOURCE_SESSION_NAMES_MAX; i++) {
        const struct gsp_source_frame_session *session = &log->sessions[i];
        if (frame_id < session->first || frame_id > session->last)
            continue;
        gsp_json_sv(&json, session->name);
        shown++;
    }
    gsp_json_arr_end(&json);
    return shown ? gsp_store_batch_intern(strings, gsp_buf_sv(text)) : GSP_NULL_STR;
}

/* Finds the frame ids at which sessions begin and end, sorted. Returns their number. */
static size_t find_borders(const struct gsp_source_frame_log *log, const struct rows *rows,
                           uint64_t *borders)
{
    const struct part *last = &rows->parts[rows->part_count - 1];
    const uint64_t low = rows->parts[0].first_id;
    const uint64_t high = last->first_id + last->frames;
    size_t n = 0;
    borders[n++] = low;
    for (size_t i = 0; i < log->session_count; i++) {
        const uint64_t ends[] = {log->sessions[i].first, log->sessions[i].last};
        if (ends[0] > low && ends[0] < high)
            borders[n++] = ends[0];
        if (ends[1] >= low && ends[1] < high)
            borders[n++] = ends[1] + 1;
    }
    qsort(borders, n, sizeof(*borders), by_number);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!kept || borders[kept - 1] != borders[i])
            borders[kept++] = borders[i];
    return kept;
}

static int find_sessions(const struct gsp_source_frame_log *log, struct rows *rows,
                         struct gsp_batch *strings, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    const size_t most = 2 * log->session_count + 1;
    uint64_t *borders = calloc(most, sizeof(*borders));
    rows->stretches = calloc(most, sizeof(*rows->stretches));
    const bool has_memory = borders && rows->stretches;
    if (has_memory)
        rows->stretch_count = find_borders(log, rows, borders);
    for (size_t i = 0; i < rows->stretch_count; i++)
        rows->stretches[i] =
            (struct stretch){borders[i], intern_sessions(log, borders[i], strings, &text)};
    free(borders);
    return has_memory && !text.failed ? GSP_OK : gsp_err_nomem(err);
}

int gsp_source_metric_frames_add(const struct gsp_source_frame_log *log, struct gsp_store *store,
                                 struct gsp_err *err)
{
    struct gsp_batch *strings = NULL;
    struct rows *rows = calloc(1, sizeof(*rows));
    if (!rows)
        return gsp_err_nomem(err);
    int rc = gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_session_frame), log->host,
                                 GSP_NULL_I64, GSP_NULL_I64, &strings, err);
    if (rc == GSP_OK)
        rc = open_parts(log, rows, strings, err);
    if (rc == GSP_OK && rows->part_count)
        rc = find_sessions(log, rows, strings, err);
    if (rc < 0 || !rows->part_count) {
        free_rows(rows);
        gsp_store_batch_free(strings);
        return rc;
    }
    const struct gsp_computed computed = {rows->count, read_rows, free_rows, rows};
    return gsp_store_add_computed(store, strings, &computed, err);
}
