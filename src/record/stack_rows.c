/* SPDX-License-Identifier: Apache-2.0 */
#include "record/stack_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/time.h"
#include "model/ids.h"
#include "ring/guard.h"
#include "ring/writer.h"

/* Interval between two rows of an idle thread. */
#define IDLE_NS      GSP_NS_PER_S
#define NO_ENTRY     UINT32_MAX
/* A quarter of the ring is always free, so that make_space() examines four rows on average for one
 * that is written. */
#define USED_SHARE   4U
#define STRINGS_MAX  32768U
#define STRING_BYTES (2U << 20)
/* With little space the sizes are halved this often at most. The smallest rings hold one second of
 * a busy thread, because a run drains its rings every second, and fit into a quarter of 16 MB. */
#define HALVED_MAX   6U

/* A row of python.stack and its entry. */
struct frame_row {
    uint32_t entry;
    uint32_t depth;
    uint32_t func;
    uint32_t file;
    uint32_t line;
    uint32_t type;
};

/* A stack with rows in the ring. */
struct entry {
    int64_t id;
    uint32_t refs;    /* samples in the ring that refer to it */
    uint32_t len;     /* rows of the whole stack; 0: the entry is free */
    uint32_t present; /* rows in the ring; less than len only while refs is 0 */
    uint32_t next_free;
};

/* The last sample of a thread. */
struct last_sample {
    int64_t ts_ns;
    int64_t mono_ns;
    int64_t pending_ns; /* weight that is not in a row yet */
    int64_t written_ns; /* CLOCK_MONOTONIC of the last row */
    uint32_t stack;     /* of the profile; GSP_NONE: no sample yet */
    uint32_t flags;
};

struct gsp_stack_rows {
    struct gsp_ring *samples;
    struct gsp_ring *frames;
    const struct gsp_profile *profile;
    int64_t *ids; /* of the profile's stacks, by index */
    size_t id_count;
    size_t id_cap;
    struct last_sample *last; /* by thread of the profile */
    size_t last_count;
    struct frame_row *mirror; /* row n of the ring is at n % frame_max */
    uint64_t frame_rows;      /* written so far */
    uint32_t frame_max;
    uint32_t *sample_entry; /* sample n is at n % sample_max */
    uint64_t sample_rows;
    uint32_t sample_max;
    unsigned halved; /* how often the sizes were halved */
    struct entry *entries;
    uint32_t entry_count;
    size_t entry_cap;
    uint32_t free_entry;
    struct gsp_hmap index; /* id -> entry; keeps free entries until rebuild_index() */
    uint64_t excess;       /* sum of the rows beyond GSP_STACK_ROWS_FRAMES_EACH of stacks in use */
    uint64_t excess_max;
    int32_t pid;
    int64_t rank;
};

static uint32_t excess_of(const struct entry *entry)
{
    return entry->len > GSP_STACK_ROWS_FRAMES_EACH ? entry->len - GSP_STACK_ROWS_FRAMES_EACH : 0;
}

/* ------------------------------------------------------------------------------------- entries */

static uint32_t find_entry(const struct gsp_stack_rows *rows, int64_t id)
{
    const uint32_t *found = gsp_hmap_get(&rows->index, (uint64_t)id, 0);
    return found && rows->entries[*found].len && rows->entries[*found].id == id ? *found : NO_ENTRY;
}

/* The map does not remove free entries. */
static bool rebuild_index(struct gsp_stack_rows *rows)
{
    if (rows->index.count < 2U * (size_t)rows->entry_count + 1024U)
        return true;
    gsp_hmap_clear(&rows->index);
    for (uint32_t i = 0; i < rows->entry_count; i++)
        if (rows->entries[i].len &&
            !gsp_hmap_put(&rows->index, (uint64_t)rows->entries[i].id, 0, i))
            return false;
    return true;
}

static uint32_t new_entry(struct gsp_stack_rows *rows, int64_t id, uint32_t len)
{
    uint32_t at = rows->free_entry;
    if (at == NO_ENTRY &&
        !gsp_array_fit(&rows->entries, &rows->entry_cap, (size_t)rows->entry_count + 1))
        return NO_ENTRY;
    const bool is_reused = at != NO_ENTRY;
    if (!is_reused)
        at = rows->entry_count;
    if (!rebuild_index(rows) || !gsp_hmap_put(&rows->index, (uint64_t)id, 0, at))
        return NO_ENTRY;
    if (is_reused)
        rows->free_entry = rows->entries[at].next_free;
    else
        rows->entry_count++;
    rows->entries[at] = (struct entry){.id = id, .len = len};
    return at;
}

static void free_if_unused(struct gsp_stack_rows *rows, uint32_t at)
{
    struct entry *entry = &rows->entries[at];
    if (entry->refs || entry->present)
        return;
    *entry = (struct entry){.next_free = rows->free_entry};
    rows->free_entry = at;
}

static void add_ref(struct gsp_stack_rows *rows, uint32_t at)
{
    if (rows->entries[at].refs++ == 0)
        rows->excess += excess_of(&rows->entries[at]);
}

static void drop_ref(struct gsp_stack_rows *rows, uint32_t at)
{
    gsp_assert(rows->entries[at].refs > 0);
    if (--rows->entries[at].refs == 0)
        rows->excess -= excess_of(&rows->entries[at]);
    free_if_unused(rows, at);
}

/* --------------------------------------------------------------------------------- python.stack */

static void write_frame(struct gsp_stack_rows *rows, struct frame_row frame)
{
    const struct gsp_row_python_stack row = {
        .stack_id = rows->entries[frame.entry].id,
        .depth = frame.depth,
        .func = frame.func,
        .file = frame.file,
        .lineno = frame.line ? (int64_t)frame.line : GSP_NULL_I64,
        .frame_type = frame.type,
    };
    rows->mirror[rows->frame_rows % rows->frame_max] = frame;
    rows->frame_rows++;
    rows->entries[frame.entry].present++;
    gsp_ignore(gsp_ring_append(rows->frames, &row)); /* the ring has a lane: make_ring() */
}

/* Ensures that the next row overwrites one that is not needed: writes the oldest rows of stacks in
 * use again. */
static void make_space(struct gsp_stack_rows *rows)
{
    if (rows->frame_rows < rows->frame_max)
        return;
    for (uint32_t i = 0; i < rows->frame_max; i++) {
        const struct frame_row oldest = rows->mirror[rows->frame_rows % rows->frame_max];
        struct entry *entry = &rows->entries[oldest.entry];
        entry->present--;
        if (entry->refs == 0) {
            free_if_unused(rows, oldest.entry);
            return;
        }
        write_frame(rows, oldest);
    }
}

static uint32_t intern(struct gsp_ring *ring, struct gsp_sv text)
{
    return text.len ? gsp_ring_intern(ring, text) : GSP_NULL_STR;
}

static struct frame_row frame_of(const struct gsp_stack_rows *rows, uint32_t stack)
{
    const struct gsp_profile *profile = rows->profile;
    const struct gsp_frame *frame =
        gsp_model_profile_frame_at(profile, gsp_model_profile_stack_frame(profile, stack));
    if (!frame)
        return (struct frame_row){0};
    return (struct frame_row){
        .func = intern(rows->frames, gsp_model_profile_string_at(profile, frame->name)),
        .file = intern(rows->frames, gsp_model_profile_string_at(profile, frame->file)),
        .line = frame->line,
        .type = gsp_ring_intern(rows->frames, gsp_sv_of(gsp_model_frame_type_name(frame->kind))),
    };
}

/* Finds which frames of a partly overwritten stack are still in the ring. */
static void find_present(const struct gsp_stack_rows *rows, uint32_t at, bool *present)
{
    const uint64_t count = rows->frame_rows < rows->frame_max ? rows->frame_rows : rows->frame_max;
    for (uint64_t i = 0; i < count; i++)
        if (rows->mirror[i].entry == at && rows->mirror[i].depth < rows->entries[at].len)
            present[rows->mirror[i].depth] = true;
}

/* Writes the missing rows of a stack in use. */
static int write_stack(struct gsp_stack_rows *rows, uint32_t at, uint32_t stack,
                       struct gsp_err *err)
{
    const uint32_t len = rows->entries[at].len;
    const bool is_cut = len < gsp_model_profile_stack_depth(rows->profile, stack);
    bool *present = rows->entries[at].present ? calloc(len, sizeof(*present)) : NULL;
    if (rows->entries[at].present && !present)
        return gsp_err_nomem(err);
    if (present)
        find_present(rows, at, present);
    for (uint32_t depth = 0; depth < len; depth++) {
        if (!present || !present[depth]) {
            struct frame_row frame = {0};
            if (is_cut && depth == len - 1) {
                frame.func = gsp_ring_intern(rows->frames, gsp_sv_of(GSP_STACK_ROWS_CUT_NAME));
                frame.type = gsp_ring_intern(rows->frames,
                                             gsp_sv_of(gsp_model_frame_type_name(GSP_FRAME_MARK)));
            } else {
                frame = frame_of(rows, stack);
            }
            frame.entry = at;
            frame.depth = depth;
            make_space(rows);
            write_frame(rows, frame);
        }
        stack = gsp_model_profile_stack_caller(rows->profile, stack);
    }
    free(present);
    return GSP_OK;
}

/* Computes the ids of the new stacks of the profile. */
static int update_ids(struct gsp_stack_rows *rows, struct gsp_err *err)
{
    const size_t count = gsp_model_profile_stack_count(rows->profile) + 1;
    if (!gsp_array_fit(&rows->ids, &rows->id_cap, count))
        return gsp_err_nomem(err);
    for (; rows->id_count < count; rows->id_count++) {
        const uint32_t stack = (uint32_t)rows->id_count;
        const uint32_t caller = gsp_model_profile_stack_caller(rows->profile, stack);
        rows->ids[stack] =
            stack == GSP_NONE
                ? GSP_NULL_I64
                : gsp_model_stack_id(rows->profile, stack, caller < stack ? rows->ids[caller] : 0);
    }
    return GSP_OK;
}

/* Finds or creates the entry of a stack, adds a reference and writes its missing rows. */
static int use_stack(struct gsp_stack_rows *rows, uint32_t stack, uint32_t *out,
                     struct gsp_err *err)
{
    int rc = update_ids(rows, err);
    if (rc < 0)
        return rc;
    int64_t id = rows->ids[stack];
    uint32_t len = gsp_model_profile_stack_depth(rows->profile, stack);
    uint32_t at = find_entry(rows, id);
    const bool is_used = at != NO_ENTRY && rows->entries[at].refs > 0;
    if (!is_used && len > GSP_STACK_ROWS_FRAMES_EACH &&
        rows->excess + (len - GSP_STACK_ROWS_FRAMES_EACH) > rows->excess_max) {
        len = GSP_STACK_ROWS_FRAMES_EACH;
        id = (int64_t)(gsp_mix64((uint64_t)id) >> 1 | 1);
        at = find_entry(rows, id);
    }
    if (at == NO_ENTRY)
        at = new_entry(rows, id, len);
    if (at == NO_ENTRY)
        return gsp_err_nomem(err);
    add_ref(rows, at);
    if (rows->entries[at].present < rows->entries[at].len)
        rc = write_stack(rows, at, stack, err);
    if (rc < 0)
        drop_ref(rows, at);
    *out = at;
    return rc;
}

/* -------------------------------------------------------------------------- python.stack_sample */

static int write_sample(struct gsp_stack_rows *rows, uint32_t thread,
                        const struct last_sample *last, struct gsp_err *err)
{
    const struct gsp_thread *info = gsp_model_profile_thread_at(rows->profile, thread);
    uint32_t at = NO_ENTRY;
    int rc = info ? use_stack(rows, last->stack, &at, err) : GSP_OK;
    if (rc < 0 || !info)
        return rc;
    const uint64_t id = info->os_id ? info->os_id : info->python_id;
    const struct gsp_row_python_stack_sample row = {
        .ts_ns = last->ts_ns,
        .mono_ns = last->mono_ns,
        .pid = rows->pid,
        .rank = rows->rank,
        .thread_id = id ? (int64_t)(id & INT64_MAX) : GSP_NULL_I64,
        .thread_name =
            intern(rows->samples, gsp_model_profile_string_at(rows->profile, info->name)),
        .on_cpu = (last->flags & GSP_SAMPLE_ON_CPU) != 0,
        .has_gil = (last->flags & GSP_SAMPLE_HAS_GIL) != 0,
        .stack_id = rows->entries[at].id,
        .weight_ns = last->pending_ns,
    };
    gsp_ignore(gsp_ring_append(rows->samples, &row)); /* the ring has a lane: make_ring() */
    uint32_t *slot = &rows->sample_entry[rows->sample_rows % rows->sample_max];
    const uint32_t oldest = *slot;
    *slot = at;
    if (rows->sample_rows++ >= rows->sample_max)
        drop_ref(rows, oldest);
    return GSP_OK;
}

static struct last_sample *last_of(struct gsp_stack_rows *rows, uint32_t thread)
{
    if (thread >= rows->last_count) {
        size_t count = rows->last_count;
        if (!gsp_array_fit(&rows->last, &count, (size_t)thread + 1))
            return NULL;
        memset(rows->last + rows->last_count, 0, (count - rows->last_count) * sizeof(*rows->last));
        rows->last_count = count;
    }
    return &rows->last[thread];
}

static int write_pending(struct gsp_stack_rows *rows, uint32_t thread, struct last_sample *last,
                         struct gsp_err *err)
{
    if (last->stack == GSP_NONE || last->pending_ns == 0)
        return GSP_OK;
    const int rc = write_sample(rows, thread, last, err);
    last->pending_ns = 0;
    last->written_ns = last->mono_ns;
    return rc;
}

int gsp_record__stack_rows_add(struct gsp_stack_rows *rows, const struct gsp_sample *sample,
                               struct gsp_err *err)
{
    struct last_sample *last = last_of(rows, sample->thread);
    if (!last)
        return gsp_err_nomem(err);
    if (sample->stack == GSP_NONE)
        return GSP_OK;
    const bool is_idle = last->stack == sample->stack && last->flags == sample->flags &&
                         !(sample->flags & GSP_SAMPLE_ON_CPU);
    int rc = is_idle ? GSP_OK : write_pending(rows, sample->thread, last, err);
    last->stack = sample->stack;
    last->flags = sample->flags;
    last->ts_ns = gsp_realtime_ns();
    last->mono_ns = gsp_now_ns();
    last->pending_ns += sample->weight;
    if (rc == GSP_OK && (!is_idle || last->mono_ns - last->written_ns >= IDLE_NS))
        rc = write_pending(rows, sample->thread, last, err);
    return rc;
}

/* ------------------------------------------------------------------------------- open and close */

void gsp_record__stack_rows_set_profile(struct gsp_stack_rows *rows,
                                        const struct gsp_profile *profile)
{
    for (size_t i = 0; rows->profile && i < rows->last_count; i++)
        gsp_ignore(write_pending(rows, (uint32_t)i, &rows->last[i], NULL));
    if (rows->last_count)
        memset(rows->last, 0, rows->last_count * sizeof(*rows->last));
    rows->id_count = 0;
    rows->profile = profile;
}

static int make_ring(const struct gsp_stack_rows_spec *spec, enum gsp_table_id table,
                     const struct gsp_stack_rows *rows, struct gsp_ring **out, struct gsp_err *err)
{
    const bool is_stack = table == GSP_TABLE_python_stack;
    const struct gsp_ring_spec ring = {
        .table = gsp_wire_table_at(table),
        .row_capacity = is_stack ? rows->frame_max : rows->sample_max,
        .lane_max = 1,
        .string_max = (is_stack ? STRINGS_MAX : 1024U) >> rows->halved,
        .string_bytes = (is_stack ? STRING_BYTES : 64U << 10) >> rows->halved,
        .pid = spec->pid,
        .start_time = spec->start_time,
        .rank = spec->rank,
        .keeps_size = true,
        .is_small = rows->halved > 0,
        .guard = &gsp_ring_guard,
    };
    int rc = gsp_ring_create(spec->folder_fd, &ring, out, err);
    if (rc == GSP_OK && !gsp_ring_lane(*out))
        rc = gsp_err_set(err, GSP_E_NOWRITE, 0, "no space for %s.%s", ring.table->schema,
                         ring.table->name);
    return rc;
}

static int create_rings(struct gsp_stack_rows *rows, const struct gsp_stack_rows_spec *spec,
                        struct gsp_err *err)
{
    rows->mirror = calloc(rows->frame_max, sizeof(*rows->mirror));
    rows->sample_entry = calloc(rows->sample_max, sizeof(*rows->sample_entry));
    if (!rows->mirror || !rows->sample_entry)
        return gsp_err_nomem(err);
    /* Stacks first: a reader that finds samples also finds their stacks. */
    int rc = make_ring(spec, GSP_TABLE_python_stack, rows, &rows->frames, err);
    if (rc == GSP_OK)
        rc = make_ring(spec, GSP_TABLE_python_stack_sample, rows, &rows->samples, err);
    return rc;
}

/* Opens rings of the sizes of the spec, halved `halved` times. */
static int open_halved(const struct gsp_stack_rows_spec *spec, unsigned halved,
                       struct gsp_stack_rows **out, struct gsp_err *err)
{
    const uint32_t samples =
        (spec->samples ? spec->samples : GSP_STACK_ROWS_SAMPLES_DEFAULT) >> halved;
    const uint32_t frames = (spec->frames ? spec->frames : GSP_STACK_ROWS_FRAMES_DEFAULT) >> halved;
    const uint64_t used_max = frames - frames / USED_SHARE;
    /* One more than samples: the stack of the newest sample is written before that of the oldest is
     * released. */
    const uint64_t each = (uint64_t)GSP_STACK_ROWS_FRAMES_EACH * (samples + 1U);
    if (each > used_max)
        return gsp_err_set(err, GSP_E_USAGE, 0, "%u rows are too few for the stacks of %u samples",
                           frames, samples);
    struct gsp_stack_rows *rows = calloc(1, sizeof(*rows));
    if (!rows)
        return gsp_err_nomem(err);
    rows->sample_max = samples;
    rows->frame_max = frames;
    rows->excess_max = used_max - each;
    rows->free_entry = NO_ENTRY;
    rows->pid = spec->pid;
    rows->rank = spec->rank;
    rows->halved = halved;
    const int rc = create_rings(rows, spec, err);
    if (rc < 0) {
        gsp_record__stack_rows_close(rows);
        return rc;
    }
    *out = rows;
    return GSP_OK;
}

int gsp_record__stack_rows_open(const struct gsp_stack_rows_spec *spec, struct gsp_stack_rows **out,
                                struct gsp_err *err)
{
    *out = NULL;
    int rc = open_halved(spec, 0, out, err);
    for (unsigned halved = 1; rc == GSP_E_NOWRITE && halved <= HALVED_MAX; halved++)
        rc = open_halved(spec, halved, out, err);
    return rc;
}

void gsp_record__stack_rows_close(struct gsp_stack_rows *rows)
{
    if (!rows)
        return;
    gsp_record__stack_rows_set_profile(rows, NULL);
    gsp_ring_close(rows->samples);
    gsp_ring_close(rows->frames);
    gsp_hmap_free(&rows->index);
    free(rows->entries);
    free(rows->sample_entry);
    free(rows->mirror);
    free(rows->last);
    free(rows->ids);
    free(rows);
}
