/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/rows.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "tui/rows_internal.h"

const char *gsp_tui_top_column_name(size_t i)
{
    static const char *const NAMES[] = {"own",        "total",    "own-time",
                                        "total-time", "function", "file"};
    return i < GSP_COUNT(NAMES) ? NAMES[i] : NULL;
}

void gsp_tui__top_query_init(struct gsp_top_query *query)
{
    *query = (struct gsp_top_query){.thread = GSP_NO_INDEX, .process = GSP_NO_INDEX};
}

void gsp_tui__top_query_free(struct gsp_top_query *query)
{
    gsp_hmap_free(&query->toggled);
}

void gsp_tui__top_query_toggle(struct gsp_top_query *query, uint64_t path)
{
    const uint32_t *known = gsp_hmap_get(&query->toggled, path, 0);
    gsp_ignore(!gsp_hmap_put(&query->toggled, path, 0, known ? !*known : 1));
}

bool gsp_tui__top_query_is_open(const struct gsp_top_query *query, uint64_t path)
{
    const uint32_t *known = gsp_hmap_get(&query->toggled, path, 0);
    bool toggled = known && *known;
    return query->folded == toggled;
}

struct gsp_top_row *gsp_tui__rows_add(struct gsp_rows_builder *build, enum gsp_top_row_kind kind,
                                      uint32_t id)
{
    if (!gsp_array_fit(&build->rows, &build->cap, build->count + 1))
        return NULL;
    struct gsp_top_row *row = &build->rows[build->count++];
    *row = (struct gsp_top_row){.kind = kind, .id = id, .parent = GSP_NO_INDEX};
    return row;
}

bool gsp_tui__rows_is_selected(const struct gsp_rows_builder *build, const struct gsp_top_sum *sum)
{
    const struct gsp_top_query *query = build->query;
    if (query->thread != GSP_NO_INDEX && sum->thread != query->thread)
        return false;
    const struct gsp_thread *thread = gsp_model_profile_thread_at(build->profile, sum->thread);
    return thread && (query->process == GSP_NO_INDEX || thread->process == query->process);
}

static uint32_t shown_line(const struct gsp_view_options *view, const struct gsp_frame *frame)
{
    if (view->by_function)
        return frame->first_line;
    return view->no_lines ? 0 : frame->line;
}

void gsp_tui__rows_frame_key(const struct gsp_rows_builder *build, uint32_t frame, uint64_t *a,
                             uint64_t *b)
{
    const struct gsp_frame *f = gsp_model_profile_frame_at(build->profile, frame);
    *a = f ? (uint64_t)f->name << 32 | f->file : 0;
    *b = f ? (uint64_t)shown_line(&build->query->view, f) << 8 | (uint64_t)f->kind : 0;
}

void gsp_tui__rows_add_own(struct gsp_rows_builder *build, struct gsp_top_row *row,
                           const struct gsp_top_sum *sum)
{
    row->own_count = gsp_sum_u64(row->own_count, sum->count);
    row->own_weight = gsp_sum_i64(row->own_weight, sum->weight);
    row->own_recent = gsp_sum_i64(row->own_recent, gsp_tui__top_sum_recent(build->top, sum));
}

void gsp_tui__rows_add_total(struct gsp_rows_builder *build, struct gsp_top_row *row,
                             const struct gsp_top_sum *sum)
{
    row->total_count = gsp_sum_u64(row->total_count, sum->count);
    row->total_weight = gsp_sum_i64(row->total_weight, sum->weight);
    row->total_recent = gsp_sum_i64(row->total_recent, gsp_tui__top_sum_recent(build->top, sum));
}

void gsp_tui__rows_set_percent(const struct gsp_rows_builder *build, struct gsp_top_row *row)
{
    bool whole = build->query->whole;
    const struct gsp_top_span *span =
        whole ? gsp_tui__top_all(build->top) : gsp_tui_top_recent(build->top);
    row->own_pct =
        gsp_tui__top_percent(build->top, span, whole ? row->own_weight : row->own_recent);
    row->total_pct =
        gsp_tui__top_percent(build->top, span, whole ? row->total_weight : row->total_recent);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Ignores the case of ASCII letters. */
static bool contains(struct gsp_sv text, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = 0; i + len <= text.len; i++) {
        size_t k = 0;
        while (k < len && lower(text.p[i + k]) == lower(part[k]))
            k++;
        if (k == len)
            return true;
    }
    return false;
}

bool gsp_tui__rows_matches(const struct gsp_rows_builder *build, const struct gsp_top_row *row)
{
    const char *filter = build->query->filter;
    if (filter[0] == '\0')
        return true;
    if (row->kind == GSP_TOP_ROW_FRAME) {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(build->profile, row->id);
        return frame &&
               (contains(gsp_model_profile_string_at(build->profile, frame->name), filter) ||
                contains(gsp_model_profile_string_at(build->profile, frame->file), filter));
    }
    gsp_auto_buf name = {0};
    gsp_tui__top_row_name(build->profile, row, &name);
    return contains(gsp_buf_sv(&name), filter);
}

static int compare_f64(double a, double b)
{
    return (a < b) - (a > b);
}

static int compare_i64(int64_t a, int64_t b)
{
    return (a < b) - (a > b);
}

static int compare_sv(struct gsp_sv a, struct gsp_sv b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.p, b.p, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Threads and processes come before frames, in the order of their index. */
static int compare_names(const struct gsp_profile *profile, const struct gsp_top_row *x,
                         const struct gsp_top_row *y, bool file)
{
    if (x->kind != y->kind)
        return x->kind > y->kind ? -1 : 1;
    const struct gsp_frame *f = gsp_model_profile_frame_at(profile, x->id);
    const struct gsp_frame *g = gsp_model_profile_frame_at(profile, y->id);
    if (x->kind != GSP_TOP_ROW_FRAME || !f || !g)
        return (x->id > y->id) - (x->id < y->id);
    int order = 0;
    if (file) {
        order = compare_sv(gsp_model_profile_string_at(profile, f->file),
                           gsp_model_profile_string_at(profile, g->file));
        order = order ? order : (f->line > g->line) - (f->line < g->line);
    }
    if (order == 0)
        order = compare_sv(gsp_model_profile_string_at(profile, f->name),
                           gsp_model_profile_string_at(profile, g->name));
    return order;
}

int gsp_tui__rows_compare(const struct gsp_rows_builder *build, const struct gsp_top_row *x,
                          const struct gsp_top_row *y)
{
    int order = 0;
    switch (build->query->sort) {
    case GSP_TOP_OWN_PCT:
        order = compare_f64(x->own_pct, y->own_pct);
        break;
    case GSP_TOP_TOTAL_PCT:
        order = compare_f64(x->total_pct, y->total_pct);
        break;
    case GSP_TOP_TOTAL:
        order = compare_i64(x->total_weight, y->total_weight);
        break;
    case GSP_TOP_FUNCTION:
    case GSP_TOP_FILE:
        order = compare_names(build->profile, x, y, build->query->sort == GSP_TOP_FILE);
        break;
    case GSP_TOP_OWN:
    case GSP_TOP_COLUMNS:
        break;
    }
    order = order ? order : compare_i64(x->own_weight, y->own_weight);
    order = order ? order : compare_i64(x->total_weight, y->total_weight);
    order = order ? order : compare_names(build->profile, x, y, false);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static int compare_list(const void *a, const void *b, void *arg)
{
    return gsp_tui__rows_compare(arg, a, b);
}

/* The row of a frame: row_of[frame] if it is known, otherwise by its key. */
static struct gsp_top_row *row_of_frame(struct gsp_rows_builder *build, struct gsp_hmap *keys,
                                        uint32_t *row_of, uint32_t frame)
{
    if (row_of[frame])
        return &build->rows[row_of[frame] - 1];
    uint64_t a;
    uint64_t b;
    gsp_tui__rows_frame_key(build, frame, &a, &b);
    const uint32_t *known = gsp_hmap_get(keys, a, b);
    if (known) {
        row_of[frame] = *known;
        return &build->rows[*known - 1];
    }
    struct gsp_top_row *row = gsp_tui__rows_add(build, GSP_TOP_ROW_FRAME, frame);
    row_of[frame] = (uint32_t)build->count;
    if (!row || !gsp_hmap_put(keys, a, b, row_of[frame]))
        return NULL;
    return row;
}

/* Adds up the sums. A function that occurs several times in a stack counts once in its total:
 * row->path is the number of the last sum that the row has counted. */
static bool add_list(struct gsp_rows_builder *build, struct gsp_hmap *keys, uint32_t *row_of)
{
    for (size_t i = 0; i < gsp_tui__top_sum_count(build->top); i++) {
        const struct gsp_top_sum *sum = gsp_tui__top_sum_at(build->top, i);
        if (!gsp_tui__rows_is_selected(build, sum))
            continue;
        for (uint32_t s = sum->stack; s != GSP_NONE;
             s = gsp_model_profile_stack_caller(build->profile, s)) {
            uint32_t frame = gsp_model_profile_stack_frame(build->profile, s);
            struct gsp_top_row *row = row_of_frame(build, keys, row_of, frame);
            if (!row)
                return false;
            if (s == sum->stack)
                gsp_tui__rows_add_own(build, row, sum);
            if (row->path != i + 1)
                gsp_tui__rows_add_total(build, row, sum);
            row->path = i + 1;
        }
    }
    return true;
}

static bool make_list(struct gsp_rows_builder *build)
{
    struct gsp_hmap keys = {0};
    uint32_t *row_of = calloc(gsp_model_profile_frame_count(build->profile) + 1, sizeof(*row_of));
    bool ok = row_of && add_list(build, &keys, row_of);
    gsp_hmap_free(&keys);
    free(row_of);
    if (!ok)
        return false;
    size_t kept = 0;
    for (size_t i = 0; i < build->count; i++) {
        build->rows[i].path = 0;
        gsp_tui__rows_set_percent(build, &build->rows[i]);
        if (gsp_tui__rows_matches(build, &build->rows[i]))
            build->rows[kept++] = build->rows[i];
    }
    build->count = kept;
    if (kept)
        qsort_r(build->rows, kept, sizeof(*build->rows), compare_list, build);
    return true;
}

int gsp_tui_rows_build(const struct gsp_top *top, const struct gsp_top_query *query,
                       struct gsp_top_rows *out, struct gsp_err *err)
{
    gsp_tui_rows_free(out);
    struct gsp_rows_builder build = {
        .top = top, .profile = gsp_tui__top_profile(top), .query = query};
    if (!(query->tree ? gsp_tui__rows_build_tree(&build) : make_list(&build))) {
        free(build.rows);
        return gsp_err_nomem(err);
    }
    *out = (struct gsp_top_rows){build.rows, build.count};
    return GSP_OK;
}

void gsp_tui_rows_free(struct gsp_top_rows *rows)
{
    free(rows->rows);
    *rows = (struct gsp_top_rows){0};
}

void gsp_tui__top_thread_name(const struct gsp_profile *profile, uint32_t thread,
                              struct gsp_buf *out)
{
    const struct gsp_thread *t = gsp_model_profile_thread_at(profile, thread);
    if (!t)
        return;
    struct gsp_sv name = gsp_model_profile_string_at(profile, t->name);
    gsp_buf_putsv(out, name.len ? name : gsp_sv_of(t->is_main ? "MainThread" : "thread"));
    gsp_buf_printf(out, " (%" PRIu64 ")", t->os_id ? t->os_id : t->python_id);
}

void gsp_tui__top_process_name(const struct gsp_profile *profile, uint32_t process,
                               struct gsp_buf *out)
{
    const struct gsp_process *p = gsp_model_profile_process_at(profile, process);
    if (!p)
        return;
    struct gsp_sv text = gsp_model_profile_string_at(profile, p->cmdline);
    gsp_buf_printf(out, "%" PRId32 ": ", p->pid);
    gsp_buf_putsv(out, text.len ? text : gsp_model_profile_string_at(profile, p->name));
}

void gsp_tui__top_row_name(const struct gsp_profile *profile, const struct gsp_top_row *row,
                           struct gsp_buf *out)
{
    switch (row->kind) {
    case GSP_TOP_ROW_FRAME: {
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, row->id);
        gsp_buf_putsv(out, gsp_model_profile_string_at(profile, frame ? frame->name : GSP_NONE));
        break;
    }
    case GSP_TOP_ROW_THREAD:
        gsp_buf_puts(out, "thread ");
        gsp_tui__top_thread_name(profile, row->id, out);
        break;
    case GSP_TOP_ROW_PROCESS:
        gsp_buf_puts(out, "process ");
        gsp_tui__top_process_name(profile, row->id, out);
        break;
    }
}

uint32_t gsp_tui__top_row_line(const struct gsp_profile *profile,
                               const struct gsp_view_options *view, const struct gsp_top_row *row)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, row->id);
    if (row->kind != GSP_TOP_ROW_FRAME || !frame || view->no_lines)
        return 0;
    return shown_line(view, frame);
}

void gsp_tui__row_location(const struct gsp_profile *profile, const struct gsp_view_options *view,
                           const struct gsp_top_row *row, struct gsp_buf *out)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, row->id);
    if (row->kind != GSP_TOP_ROW_FRAME || !frame || frame->file == GSP_NONE)
        return;
    gsp_buf_putsv(out,
                  gsp_model_frame_file(view, gsp_model_profile_string_at(profile, frame->file)));
    uint32_t line = gsp_tui__top_row_line(profile, view, row);
    if (line)
        gsp_buf_printf(out, ":%" PRIu32, line);
}
