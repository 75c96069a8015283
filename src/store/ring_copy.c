/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ring_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/time.h"

/* Rows copied between two checks for overwritten rows. */
#define CHUNK_ROWS  ((size_t)1024)
/* For one column. */
#define CHUNK_BYTES (CHUNK_ROWS * 8)

struct lane_state {
    uint64_t copied;  /* rows before this number are in the batch, on disk, or lost */
    uint64_t written; /* rows before this number are on disk, or counted as lost there */
    bool known;
};

/* Losses that the ring counts itself, and whether its file was truncated. */
struct counted {
    uint64_t rows_lost;
    uint64_t rows_no_file;
    uint64_t strings_lost;
    uint64_t files_cut; /* 0 or 1 */
};

struct lost {
    uint64_t rows;
    uint64_t texts;
    struct counted counted;
};

struct gsp_ring_copier {
    struct gsp_ring_view *view;
    const struct gsp_ring_info *info;
    struct gsp_batch *batch;
    struct lane_state *lanes; /* GSP_RING_LANES_MAX */
    bool is_new;              /* an unknown lane was created after draining began */
    struct lost lost;         /* since the last write */
    struct counted noted;     /* in the manifest */
    int64_t since_ns;
    uint32_t *ids; /* by the ring's string id: the batch's; 0: not interned yet */
    size_t id_count;
    char *row;
    char *chunk; /* CHUNK_ROWS values of each column */
    struct gsp_ring_range *spans;
    struct gsp_buf *texts; /* by column: the texts of the row, until the append */
    struct gsp_table table;
    struct gsp_column columns[GSP_COLUMNS_MAX];
};

/* Uses the columns of the ring, so that tables of other versions are drained too. */
static void describe(struct gsp_ring_copier *taker)
{
    const struct gsp_ring_info *info = taker->info;
    uint32_t offset = 0;
    for (uint32_t i = 0; i < info->column_count; i++) {
        taker->columns[i] = (struct gsp_column){.name = info->columns[i].name,
                                                .unit = "",
                                                .doc = "",
                                                .type = (enum gsp_type)info->columns[i].type,
                                                .row_offset = offset};
        offset += (uint32_t)sizeof(struct gsp_sv);
    }
    taker->table = (struct gsp_table){.schema = info->schema,
                                      .name = info->table,
                                      .doc = "",
                                      .columns = taker->columns,
                                      .scope = info->scope,
                                      .column_count = info->column_count,
                                      .row_bytes = offset};
}

static void restore_cursor(struct gsp_ring_copier *taker, const struct gsp_drain_cursor *cursor)
{
    for (uint32_t i = 0; cursor && i < cursor->lane_count; i++) {
        const struct gsp_cursor_lane *lane = &cursor->lanes[i];
        if (lane->lane >= GSP_RING_LANES_MAX)
            continue;
        taker->lanes[lane->lane] =
            (struct lane_state){.copied = lane->row, .written = lane->row, .known = true};
    }
}

int gsp_store__copier_new(struct gsp_ring_view *view, const struct gsp_drain_cursor *cursor,
                          bool is_new, struct gsp_ring_copier **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_ring_copier *taker = calloc(1, sizeof(*taker));
    if (!taker) {
        gsp_ring_view_close(view);
        return gsp_err_nomem(err);
    }
    taker->view = view;
    taker->info = gsp_ring_info(view);
    taker->is_new = is_new;
    describe(taker);
    taker->lanes = calloc(GSP_RING_LANES_MAX, sizeof(*taker->lanes));
    taker->spans = calloc(GSP_RING_LANES_MAX, sizeof(*taker->spans));
    taker->texts = calloc(GSP_COLUMNS_MAX, sizeof(*taker->texts));
    taker->row = calloc(1, taker->table.row_bytes + 1);
    taker->chunk = calloc(taker->table.column_count + 1, CHUNK_BYTES);
    if (!taker->lanes || !taker->spans || !taker->texts || !taker->row || !taker->chunk) {
        gsp_store__copier_free(taker);
        return gsp_err_nomem(err);
    }
    restore_cursor(taker, cursor);
    *out = taker;
    return GSP_OK;
}

void gsp_store__copier_free(struct gsp_ring_copier *taker)
{
    if (!taker)
        return;
    for (size_t i = 0; taker->texts && i < GSP_COLUMNS_MAX; i++)
        gsp_buf_free(&taker->texts[i]);
    gsp_store_batch_free(taker->batch);
    gsp_ring_view_close(taker->view);
    free(taker->lanes);
    free(taker->spans);
    free(taker->texts);
    free(taker->row);
    free(taker->chunk);
    free(taker->ids);
    free(taker);
}

const struct gsp_ring_info *gsp_store__copier_info(const struct gsp_ring_copier *taker)
{
    return taker->info;
}

size_t gsp_store__copier_rows(const struct gsp_ring_copier *taker)
{
    return taker->batch ? gsp_store__batch_rows(taker->batch) : 0;
}

int64_t gsp_store__copier_since_ns(const struct gsp_ring_copier *taker)
{
    return taker->since_ns;
}

uint64_t gsp_store__copier_published(const struct gsp_ring_copier *taker)
{
    struct gsp_ring_state state;
    gsp_ring_state(taker->view, &state);
    return state.rows;
}

uint64_t gsp_store__copier_lost(const struct gsp_ring_copier *taker)
{
    return taker->lost.rows + taker->lost.texts;
}

bool gsp_store__copier_has_losses(const struct gsp_ring_copier *taker)
{
    const struct counted *counted = &taker->lost.counted;
    return taker->lost.rows || taker->lost.texts || counted->rows_lost || counted->rows_no_file ||
           counted->strings_lost || counted->files_cut;
}

/* Returns the batch's id of a string of the ring. */
static uint32_t map_string(struct gsp_ring_copier *taker, const struct gsp_ring_dict *dict,
                           uint32_t id)
{
    if (id == GSP_NULL_STR || id >= dict->count || id >= taker->id_count || !dict->strings[id].p)
        return GSP_NULL_STR;
    if (!taker->ids[id])
        taker->ids[id] = gsp_store_batch_intern(taker->batch, dict->strings[id]);
    return taker->ids[id];
}

static struct gsp_sv read_text(struct gsp_ring_copier *taker, uint32_t lane, uint32_t column,
                               uint64_t ref)
{
    struct gsp_buf *text = &taker->texts[column];
    bool is_null = false;
    gsp_buf_clear(text);
    if (gsp_ring_text_read(taker->view, lane, ref, text, &is_null) && !text->failed) {
        const char *p = gsp_buf_cstr(text);
        return (struct gsp_sv){p, p ? text->len : 0};
    }
    if (!is_null)
        taker->lost.texts++;
    return (struct gsp_sv){NULL, 0};
}

/* Appends row i of the chunk to the batch. */
static int put_row(struct gsp_ring_copier *taker, const struct gsp_ring_dict *dict, uint32_t lane,
                   size_t i, struct gsp_err *err)
{
    for (uint32_t c = 0; c < taker->table.column_count; c++) {
        const size_t width = gsp_wire_type_width(taker->columns[c].type);
        const char *value = taker->chunk + c * CHUNK_BYTES + i * width;
        char *member = taker->row + taker->columns[c].row_offset;
        uint32_t id = 0;
        uint64_t ref = 0;
        struct gsp_sv text;
        switch (taker->columns[c].type) {
        case GSP_I64:
        case GSP_F64:
        case GSP_BOOL:
            memcpy(member, value, width);
            break;
        case GSP_STR:
            memcpy(&id, value, sizeof(id));
            id = map_string(taker, dict, id);
            memcpy(member, &id, sizeof(id));
            break;
        case GSP_TEXT:
            memcpy(&ref, value, sizeof(ref));
            text = read_text(taker, lane, c, ref);
            memcpy(member, &text, sizeof(text));
            break;
        }
    }
    return gsp_store_batch_append(taker->batch, taker->row, err);
}

static int copy_span(struct gsp_ring_copier *taker, const struct gsp_ring_dict *dict,
                     const struct gsp_ring_range *span, size_t rows_max, struct gsp_err *err)
{
    struct lane_state *lane = &taker->lanes[span->lane];
    while (lane->copied < span->to && gsp_store__copier_rows(taker) < rows_max) {
        const uint64_t from = lane->copied;
        const uint64_t left = span->to - from;
        const size_t n = left < CHUNK_ROWS ? (size_t)left : CHUNK_ROWS;
        for (uint32_t c = 0; c < taker->table.column_count; c++)
            gsp_ring_copy(taker->view, span->lane, c, from, n, taker->chunk + c * CHUNK_BYTES);
        /* Rows that were overwritten during the copy are lost; their bytes are arbitrary. */
        const uint64_t oldest = gsp_ring_oldest_row(taker->view, span->lane);
        const uint64_t gone = oldest <= from ? 0 : oldest - from < n ? oldest - from : n;
        for (size_t i = (size_t)gone; i < n; i++) {
            int rc = put_row(taker, dict, span->lane, i, err);
            if (rc < 0)
                return rc;
            lane->copied = from + i + 1;
        }
        lane->copied = from + n;
        taker->lost.rows += gone;
    }
    return GSP_OK;
}

/* Finds the first row to copy, and counts the overwritten rows before it. Returns whether the lane
 * has new rows. */
static bool begin_lane(struct gsp_ring_copier *taker, const struct gsp_ring_range *span)
{
    if (span->lane >= GSP_RING_LANES_MAX)
        return false;
    struct lane_state *lane = &taker->lanes[span->lane];
    if (!lane->known) {
        lane->known = true;
        lane->copied = lane->written = taker->is_new ? 0 : span->from;
    }
    if (lane->copied < span->from) {
        taker->lost.rows += span->from - lane->copied;
        lane->copied = span->from;
    }
    return lane->copied < span->to;
}

static int prepare_batch(struct gsp_ring_copier *taker, const struct gsp_ring_dict *dict,
                         struct gsp_err *err)
{
    if (!taker->batch) {
        int rc = gsp_store_batch_new(&taker->table, taker->info->host, taker->info->pid,
                                     taker->info->rank, &taker->batch, err);
        if (rc < 0)
            return rc;
        taker->since_ns = gsp_now_ns();
        if (taker->ids)
            memset(taker->ids, 0, taker->id_count * sizeof(*taker->ids));
    }
    return gsp_array_fit_zeroed(&taker->ids, &taker->id_count, dict->count) ? GSP_OK
                                                                            : gsp_err_nomem(err);
}

static uint64_t subtract(uint64_t all, uint64_t noted)
{
    return all > noted ? all - noted : 0;
}

/* Copies the ring's own counts, for the manifest: the ring may be removed later. */
static void count_losses(struct gsp_ring_copier *taker)
{
    struct gsp_ring_state state;
    gsp_ring_state(taker->view, &state);
    taker->lost.counted =
        (struct counted){.rows_lost = subtract(state.rows_lost, taker->noted.rows_lost),
                         .rows_no_file = subtract(state.rows_no_file, taker->noted.rows_no_file),
                         .strings_lost = subtract(state.strings_lost, taker->noted.strings_lost),
                         .files_cut = subtract(state.damaged, taker->noted.files_cut)};
}

int gsp_store__copier_copy(struct gsp_ring_copier *taker, size_t rows_max, struct gsp_err *err)
{
    count_losses(taker);
    const size_t count = gsp_ring_ranges(taker->view, taker->spans, GSP_RING_LANES_MAX, NULL);
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        /* Not "||": begin_lane() must be called for every lane. */
        if (begin_lane(taker, &taker->spans[i]))
            any = true;
    }
    taker->is_new = true;
    if (!any)
        return GSP_OK;
    /* Read after the spans, so that it has all strings of their rows. */
    struct gsp_ring_dict dict = {0};
    int rc = gsp_ring_dict_read(taker->view, &dict, err);
    if (rc == GSP_OK)
        rc = prepare_batch(taker, &dict, err);
    for (size_t i = 0; rc == GSP_OK && i < count; i++)
        if (taker->spans[i].lane < GSP_RING_LANES_MAX)
            rc = copy_span(taker, &dict, &taker->spans[i], rows_max, err);
    gsp_ring_dict_free(&dict);
    return rc;
}

struct gsp_batch *gsp_store__copier_batch(struct gsp_ring_copier *taker)
{
    struct gsp_batch *batch = taker->batch;
    if (!batch || gsp_store__batch_rows(batch) == 0)
        return NULL;
    taker->batch = NULL;
    return batch;
}

static struct gsp_segment_loss loss_of(const struct gsp_ring_copier *taker, const char *cause,
                                       uint64_t count)
{
    struct gsp_segment_loss loss = {.pid = taker->info->pid, .count = count};
    snprintf(loss.schema, sizeof(loss.schema), "%s", taker->info->schema);
    snprintf(loss.table, sizeof(loss.table), "%s", taker->info->table);
    snprintf(loss.cause, sizeof(loss.cause), "%s", cause);
    return loss;
}

void gsp_store__copier_resume(struct gsp_ring_copier *taker, const struct gsp_manifest *manifest)
{
    const struct gsp_segment_loss lane = loss_of(taker, GSP_LOSS_NO_LANE, 0);
    const struct gsp_segment_loss file = loss_of(taker, GSP_LOSS_NO_FILE, 0);
    const struct gsp_segment_loss strings = loss_of(taker, GSP_LOSS_STRINGS, 0);
    const struct gsp_segment_loss cut = loss_of(taker, GSP_LOSS_CUT, 0);
    taker->noted = (struct counted){.rows_lost = gsp_store__manifest_loss(manifest, &lane),
                                    .rows_no_file = gsp_store__manifest_loss(manifest, &file),
                                    .strings_lost = gsp_store__manifest_loss(manifest, &strings),
                                    .files_cut = gsp_store__manifest_loss(manifest, &cut)};
}

static int note_losses(const struct gsp_ring_copier *taker, struct gsp_manifest *manifest,
                       struct gsp_err *err)
{
    const struct lost *lost = &taker->lost;
    const struct {
        const char *cause;
        uint64_t count;
    } causes[] = {{"overwritten", lost->rows},
                  {"text overwritten", lost->texts},
                  {GSP_LOSS_NO_LANE, lost->counted.rows_lost},
                  {GSP_LOSS_NO_FILE, lost->counted.rows_no_file},
                  {GSP_LOSS_STRINGS, lost->counted.strings_lost},
                  {GSP_LOSS_CUT, lost->counted.files_cut}};
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < GSP_COUNT(causes); i++) {
        const struct gsp_segment_loss loss = loss_of(taker, causes[i].cause, causes[i].count);
        if (loss.count > 0)
            rc = gsp_store__manifest_add_loss(manifest, &loss, err);
    }
    return rc;
}

int gsp_store__copier_put_manifest(const struct gsp_ring_copier *taker,
                                   struct gsp_manifest *manifest, struct gsp_err *err)
{
    struct gsp_drain_cursor key = {.pid = taker->info->pid,
                                   .start_time = taker->info->start_time,
                                   .created_ns = taker->info->created_ns};
    snprintf(key.schema, sizeof(key.schema), "%s", taker->info->schema);
    snprintf(key.table, sizeof(key.table), "%s", taker->info->table);
    int rc = GSP_OK;
    for (uint32_t i = 0; rc == GSP_OK && i < GSP_RING_LANES_MAX; i++)
        if (taker->lanes[i].known)
            rc = gsp_store__manifest_set_cursor(manifest, &key, i, taker->lanes[i].copied, err);
    return rc == GSP_OK ? note_losses(taker, manifest, err) : rc;
}

void gsp_store__copier_finish(struct gsp_ring_copier *taker, bool is_written)
{
    for (uint32_t i = 0; i < GSP_RING_LANES_MAX; i++) {
        struct lane_state *lane = &taker->lanes[i];
        gsp_assert(lane->written <= lane->copied);
        if (is_written)
            lane->written = lane->copied;
        else
            lane->copied = lane->written;
    }
    if (is_written) {
        taker->noted.rows_lost += taker->lost.counted.rows_lost;
        taker->noted.rows_no_file += taker->lost.counted.rows_no_file;
        taker->noted.strings_lost += taker->lost.counted.strings_lost;
        taker->noted.files_cut += taker->lost.counted.files_cut;
    }
    taker->lost = (struct lost){0};
    gsp_store_batch_free(taker->batch);
    taker->batch = NULL;
}
