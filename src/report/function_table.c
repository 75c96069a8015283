/* SPDX-License-Identifier: Apache-2.0 */
#include "report/function_table.h"

#include <stdlib.h>

#include "model/lines.h"

/* Adds every node to the row of its label. depth_of[label] counts how often the label occurs on the
 * path to the node; only its outermost occurrence adds to the total. */
static void sum_labels(const struct gsp_tree *tree, struct gsp_function_row *rows,
                       uint32_t *depth_of)
{
    uint32_t i = gsp_model_tree_at(tree, 0)->first_child;
    while (i != 0) {
        const struct gsp_node *node = gsp_model_tree_at(tree, i);
        struct gsp_function_row *row = &rows[node->label];
        row->label = node->label;
        row->frame = node->frame;
        row->own_count = gsp_sum_u64(row->own_count, node->self_count);
        row->own_weight = gsp_sum_i64(row->own_weight, node->self_weight);
        if (depth_of[node->label]++ == 0) {
            row->total_count = gsp_sum_u64(row->total_count, node->total_count);
            row->total_weight = gsp_sum_i64(row->total_weight, node->total_weight);
        }
        if (node->first_child != 0) {
            i = node->first_child;
            continue;
        }
        /* Go up to the next node that has a sibling. */
        while (i != 0 && gsp_model_tree_at(tree, i)->next_sibling == 0) {
            depth_of[gsp_model_tree_at(tree, i)->label]--;
            i = gsp_model_tree_at(tree, i)->parent;
        }
        if (i != 0) {
            depth_of[gsp_model_tree_at(tree, i)->label]--;
            i = gsp_model_tree_at(tree, i)->next_sibling;
        }
    }
}

struct order {
    const struct gsp_tree *tree;
    enum gsp_report_sort sort;
};

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

static int compare_i64(int64_t a, int64_t b)
{
    return (a < b) - (a > b);
}

/* The largest first; ties are ordered by the other column, then by label. */
static int compare_rows(const void *a, const void *b, void *arg)
{
    const struct order *order = arg;
    const struct gsp_function_row *x = a;
    const struct gsp_function_row *y = b;
    int own = compare_i64(x->own_weight, y->own_weight);
    own = own ? own : compare_u64(x->own_count, y->own_count);
    int total = compare_i64(x->total_weight, y->total_weight);
    total = total ? total : compare_u64(x->total_count, y->total_count);
    int first = order->sort == GSP_REPORT_SORT_OWN ? own : total;
    int second = order->sort == GSP_REPORT_SORT_OWN ? total : own;
    if (first != 0 || second != 0)
        return first ? first : second;
    struct gsp_sv s = gsp_model_tree_label(order->tree, x->label);
    struct gsp_sv t = gsp_model_tree_label(order->tree, y->label);
    int text = memcmp(s.p, t.p, s.len < t.len ? s.len : t.len);
    return text ? text : (s.len > t.len) - (s.len < t.len);
}

/* The line of a function is its first line or, if that is unknown, its heaviest line. */
static int find_lines(const struct gsp_profile *profile, const struct gsp_view_options *view,
                      struct gsp_function_table *table, struct gsp_err *err)
{
    struct gsp_stack_weights weights = {0};
    uint32_t *hot = NULL;
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < table->count && !view->no_lines; i++) {
        struct gsp_function_row *row = &table->rows[i];
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, row->frame);
        row->line = view->by_function ? frame->first_line : frame->line;
        if (row->line > 0 || !view->by_function)
            continue;
        if (!weights.own)
            rc = gsp_model_stack_weights_new(profile, &weights, err);
        if (rc == GSP_OK && !hot)
            rc = gsp_model_hot_lines(profile, &weights, &hot, err);
        row->line = hot ? hot[row->frame] : 0;
    }
    free(hot);
    gsp_model_stack_weights_free(&weights);
    return rc;
}

/* Sums without threads and processes: a function is one row for all threads. A tree of several
 * processes still has nodes of processes, but rows are identified by label. */
static int fill(const struct gsp_profile *profile, const struct gsp_view_options *view,
                enum gsp_report_sort sort, struct gsp_function_table *out, struct gsp_err *err)
{
    struct gsp_view_options flat = *view;
    flat.threads = false;
    flat.processes = false;
    out->unit = gsp_model_profile_meta_get(profile)->unit;
    int rc = gsp_model_tree_new(profile, &flat, &out->tree, err);
    if (rc < 0)
        return rc;
    size_t labels = gsp_model_tree_label_count(out->tree);
    out->rows = calloc(labels, sizeof(*out->rows));
    uint32_t *depth_of = calloc(labels, sizeof(*depth_of));
    if (!out->rows || !depth_of) {
        free(depth_of);
        return gsp_err_nomem(err);
    }
    sum_labels(out->tree, out->rows, depth_of);
    free(depth_of);
    for (size_t i = 0; i < labels; i++)
        if (out->rows[i].frame != GSP_NONE) /* skips "all" and "process 12: python3" */
            out->rows[out->count++] = out->rows[i];
    struct order order = {out->tree, sort};
    qsort_r(out->rows, out->count, sizeof(*out->rows), compare_rows, &order);
    return find_lines(profile, view, out, err);
}

int gsp_report__function_table_new(const struct gsp_profile *profile,
                                   const struct gsp_view_options *view, enum gsp_report_sort sort,
                                   struct gsp_function_table *out, struct gsp_err *err)
{
    *out = (struct gsp_function_table){0};
    int rc = fill(profile, view, sort, out, err);
    if (rc < 0)
        gsp_report__function_table_free(out);
    return rc;
}

void gsp_report__function_table_free(struct gsp_function_table *table)
{
    gsp_model_tree_free(table->tree);
    free(table->rows);
    *table = (struct gsp_function_table){0};
}

double gsp_report__percent_of(const struct gsp_tree *tree, int64_t weight, uint64_t count)
{
    const struct gsp_node *root = gsp_model_tree_at(tree, 0);
    if (root->total_weight > 0)
        return 100 * (double)weight / (double)root->total_weight;
    return root->total_count > 0 ? 100 * (double)count / (double)root->total_count : 0;
}

void gsp_report__function_put(const struct gsp_profile *profile, const struct gsp_function_row *row,
                              struct gsp_buf *out)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, row->frame);
    struct gsp_sv name = gsp_model_profile_string_at(profile, frame ? frame->name : GSP_NONE);
    gsp_buf_putsv(out, name.len > 0 ? name : gsp_sv_of("(unknown)"));
}

void gsp_report__location_put(const struct gsp_profile *profile,
                              const struct gsp_view_options *view,
                              const struct gsp_function_row *row, struct gsp_buf *out)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, row->frame);
    if (!frame)
        return;
    gsp_buf_putsv(out,
                  gsp_model_frame_file(view, gsp_model_profile_string_at(profile, frame->file)));
    if (row->line > 0 && frame->file != GSP_NONE)
        gsp_buf_printf(out, ":%u", row->line);
}

unsigned gsp_report__table_width(const struct gsp_profile_report_opts *opts)
{
    if (opts->width == 0)
        return GSP_REPORT_WIDTH_DEFAULT;
    return opts->width < GSP_REPORT_WIDTH_MIN ? GSP_REPORT_WIDTH_MIN : opts->width;
}
