/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/json.h"
#include "export/rows_csv.h"
#include "model/format.h"
#include "report/function_table.h"
#include "report/profile.h"

/* Suffix of keys and columns with a weight. */
static const char *const UNIT_SUFFIX[] = {
    [GSP_UNIT_NS] = "_ns",
    [GSP_UNIT_COUNT] = "_weight",
    [GSP_UNIT_BYTES] = "_bytes",
};

static void key_of_weight(struct gsp_json *json, const char *what, enum gsp_unit unit)
{
    gsp_auto_buf key = {0};
    gsp_buf_puts(&key, what);
    gsp_buf_puts(&key, UNIT_SUFFIX[unit]);
    gsp_json_keysv(json, gsp_buf_sv(&key));
}

static void json_weight(struct gsp_json *json, const char *what, enum gsp_unit unit, int64_t weight)
{
    key_of_weight(json, what, unit);
    gsp_json_i64(json, weight);
}

/* File and line are null if unknown or not shown. */
static void json_frame(struct gsp_json *json, const struct gsp_profile *profile, uint32_t id,
                       uint32_t line)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
    if (gsp_json_key_or_null(json, "function", frame))
        gsp_json_sv(json, gsp_model_profile_string_at(profile, frame->name));
    if (gsp_json_key_or_null(json, "file", frame && frame->file != GSP_NONE))
        gsp_json_sv(json, gsp_model_profile_string_at(profile, frame->file));
    if (gsp_json_key_or_null(json, "line", line > 0))
        gsp_json_u64(json, line);
}

static void json_losses(struct gsp_json *json, const struct gsp_losses *losses)
{
    gsp_json_put_obj_begin(json, "losses");
    uint64_t count = 0;
    const char *cause = NULL;
    for (size_t i = 0; (cause = gsp_model_loss_at(losses, i, &count)); i++)
        gsp_json_put_u64(json, cause, count);
    gsp_json_obj_end(json);
}

static void json_summary(struct gsp_json *json, const struct gsp_profile *profile)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    const struct gsp_process *process = gsp_model_profile_process_at(profile, 0);
    gsp_auto_buf command = {0};
    gsp_model_command_put(profile, &command);
    gsp_json_put_obj_begin(json, "summary");
    gsp_json_put_sv(json, "command", gsp_buf_sv(&command));
    if (gsp_json_key_or_null(json, "pid", process))
        gsp_json_i64(json, process->pid);
    gsp_json_put_u64(json, "samples", gsp_model_profile_samples(profile));
    gsp_json_put_u64(json, "ticks", meta->ticks);
    gsp_json_put_i64(json, "duration_ns", meta->duration_ns);
    if (gsp_json_key_or_null(json, "rate_hz", meta->period_ns > 0))
        gsp_json_f64(json, 1e9 / (double)meta->period_ns);
    gsp_json_put_u64(json, "processes", gsp_model_profile_process_count(profile));
    gsp_json_put_u64(json, "threads", gsp_model_profile_thread_count(profile));
    json_losses(json, &meta->losses);
    gsp_json_obj_end(json);
}

static int json_top(struct gsp_json *json, const struct gsp_profile *profile,
                    const struct gsp_view_options *view, const struct gsp_profile_report_opts *opts,
                    struct gsp_err *err)
{
    struct gsp_function_table table;
    int rc = gsp_report__function_table_new(profile, view, opts->sort, &table, err);
    if (rc < 0)
        return rc;
    gsp_json_put_arr_begin(json, "top");
    for (size_t i = 0; i < table.count && (opts->limit == 0 || i < opts->limit); i++) {
        const struct gsp_function_row *row = &table.rows[i];
        gsp_json_obj_begin(json);
        json_frame(json, profile, row->frame, row->line);
        gsp_json_put_u64(json, "own_samples", row->own_count);
        gsp_json_put_u64(json, "total_samples", row->total_count);
        json_weight(json, "own", table.unit, row->own_weight);
        json_weight(json, "total", table.unit, row->total_weight);
        gsp_json_put_f64(json, "own_pct",
                         gsp_report__percent_of(table.tree, row->own_weight, row->own_count));
        gsp_json_put_f64(json, "total_pct",
                         gsp_report__percent_of(table.tree, row->total_weight, row->total_count));
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
    gsp_report__function_table_free(&table);
    return GSP_OK;
}

/* The next node in preorder that reaches the threshold; 0 at the end. */
static uint32_t next_shown(const struct gsp_tree *tree, uint32_t i, double min_pct)
{
    uint32_t next = gsp_model_tree_at(tree, i)->first_child;
    for (;;) {
        while (next == 0 && i != 0) {
            next = gsp_model_tree_at(tree, i)->next_sibling;
            i = gsp_model_tree_at(tree, i)->parent;
        }
        if (next == 0)
            return 0;
        const struct gsp_node *node = gsp_model_tree_at(tree, next);
        if (gsp_report__percent_of(tree, node->total_weight, node->total_count) >= min_pct)
            return next;
        i = next;
        next = 0;
    }
}

static void json_node(struct gsp_json *json, const struct gsp_tree *tree, uint32_t i,
                      enum gsp_unit unit)
{
    const struct gsp_node *node = gsp_model_tree_at(tree, i);
    gsp_json_put_u64(json, "id", i);
    if (gsp_json_key_or_null(json, "parent", i != 0))
        gsp_json_u64(json, node->parent);
    gsp_json_put_u64(json, "depth", node->depth);
    gsp_json_put_sv(json, "label", gsp_model_tree_label(tree, node->label));
    gsp_json_put_u64(json, "own_samples", node->self_count);
    gsp_json_put_u64(json, "total_samples", node->total_count);
    json_weight(json, "own", unit, node->self_weight);
    json_weight(json, "total", unit, node->total_weight);
    gsp_json_put_f64(json, "total_pct",
                     gsp_report__percent_of(tree, node->total_weight, node->total_count));
}

static int json_tree(struct gsp_json *json, const struct gsp_profile *profile,
                     const struct gsp_view_options *view,
                     const struct gsp_profile_report_opts *opts, struct gsp_err *err)
{
    struct gsp_tree *tree = NULL;
    int rc = gsp_model_tree_new(profile, view, &tree, err);
    if (rc < 0)
        return rc;
    enum gsp_unit unit = gsp_model_profile_meta_get(profile)->unit;
    gsp_json_put_arr_begin(json, "tree");
    uint32_t i = 0;
    do {
        gsp_json_obj_begin(json);
        json_node(json, tree, i, unit);
        const uint32_t id = gsp_model_tree_at(tree, i)->frame;
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, id);
        const uint32_t line = frame && view->by_function ? frame->first_line
                              : frame                    ? frame->line
                                                         : 0;
        json_frame(json, profile, id, view->no_lines ? 0 : line);
        gsp_json_obj_end(json);
        i = next_shown(tree, i, opts->min_pct);
    } while (i != 0);
    gsp_json_arr_end(json);
    gsp_model_tree_free(tree);
    return GSP_OK;
}

int gsp_report_profile_json(const struct gsp_profile *profile, const struct gsp_view_options *view,
                            const struct gsp_profile_report_opts *opts, struct gsp_buf *out,
                            struct gsp_err *err)
{
    unsigned parts = opts->parts ? opts->parts : GSP_REPORT_PART_TOP | GSP_REPORT_PART_TREE;
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    json_summary(&json, profile);
    int rc = GSP_OK;
    if (parts & GSP_REPORT_PART_TOP)
        rc = json_top(&json, profile, view, opts, err);
    if (rc == GSP_OK && (parts & GSP_REPORT_PART_TREE))
        rc = json_tree(&json, profile, view, opts, err);
    if (rc < 0)
        return rc;
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
    if (out->failed)
        return gsp_err_nomem(err);
    return GSP_OK;
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

void gsp_report__csv_text(struct gsp_buf *out, struct gsp_sv text, bool is_raw)
{
    if (is_raw) {
        gsp_export_csv_text(text, true, out);
        return;
    }
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, text);
    gsp_buf_putc(out, '"');
    if (safe.len > 0 && is_one_of(safe.p[0], "=+-@"))
        gsp_buf_putc(out, '\'');
    for (size_t i = 0; i < safe.len; i++) {
        if (safe.p[i] == '"')
            gsp_buf_putc(out, '"');
        gsp_buf_putc(out, safe.p[i]);
    }
    gsp_buf_putc(out, '"');
    out->failed = out->failed || safe.failed;
}

int gsp_report_profile_csv(const struct gsp_profile *profile, const struct gsp_view_options *view,
                           const struct gsp_profile_report_opts *opts, struct gsp_buf *out,
                           struct gsp_err *err)
{
    struct gsp_function_table table;
    int rc = gsp_report__function_table_new(profile, view, opts->sort, &table, err);
    if (rc < 0)
        return rc;
    const char *unit = UNIT_SUFFIX[table.unit];
    gsp_buf_printf(out,
                   "function,file,line,own_samples,total_samples,own%s,total%s,own_pct,total_pct\n",
                   unit, unit);
    for (size_t i = 0; i < table.count && (opts->limit == 0 || i < opts->limit); i++) {
        const struct gsp_function_row *row = &table.rows[i];
        const struct gsp_frame *frame = gsp_model_profile_frame_at(profile, row->frame);
        gsp_report__csv_text(
            out, gsp_model_profile_string_at(profile, frame ? frame->name : GSP_NONE), opts->raw);
        gsp_buf_putc(out, ',');
        gsp_report__csv_text(
            out, gsp_model_profile_string_at(profile, frame ? frame->file : GSP_NONE), opts->raw);
        gsp_buf_putc(out, ',');
        if (row->line > 0)
            gsp_buf_putu64(out, row->line);
        gsp_buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64 ",%.6f,%.6f\n",
                       row->own_count, row->total_count, row->own_weight, row->total_weight,
                       gsp_report__percent_of(table.tree, row->own_weight, row->own_count),
                       gsp_report__percent_of(table.tree, row->total_weight, row->total_count));
    }
    gsp_report__function_table_free(&table);
    if (out->failed)
        return gsp_err_nomem(err);
    return GSP_OK;
}
