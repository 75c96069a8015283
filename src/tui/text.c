/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/text.h"

#include "base/json.h"

static void put_line(struct gsp_buf *out, struct gsp_buf *line, unsigned width)
{
    size_t begin = out->len;
    gsp_tui__text_fit(out, gsp_buf_sv(line), width, false);
    while (out->len > begin && out->p[out->len - 1] == ' ')
        out->len--;
    gsp_buf_putc(out, '\n');
    gsp_buf_clear(line);
}

int gsp_tui_top_text(const struct gsp_top *top, const struct gsp_top_query *query,
                     const struct gsp_top_facts *facts, unsigned width, size_t limit,
                     struct gsp_buf *out)
{
    struct gsp_top_rows rows = {0};
    struct gsp_top_layout layout;
    gsp_auto_buf line = {0};
    int rc = gsp_tui_rows_build(top, query, &rows, NULL);
    if (rc < 0)
        return rc;
    if (width < GSP_TOP_WIDTH_MIN)
        width = GSP_TOP_WIDTH_MIN;
    gsp_tui__layout_init(width, &layout);
    gsp_tui__line_title(facts, &line);
    put_line(out, &line, width);
    gsp_tui__line_facts(facts, &line);
    put_line(out, &line, width);
    if (!facts->is_replay) {
        gsp_tui__line_machine(facts, &line);
        gsp_tui__line_gpu(facts, &line);
        put_line(out, &line, width);
    }
    gsp_tui__line_query(top, query, &line);
    put_line(out, &line, width);
    gsp_tui__line_columns(&layout, query->sort, &line);
    put_line(out, &line, width);
    for (size_t i = 0; i < rows.count && (limit == 0 || i < limit); i++) {
        gsp_tui__line_row(&layout, gsp_tui__top_profile(top), query, &rows.rows[i], &line);
        put_line(out, &line, width);
    }
    gsp_tui_rows_free(&rows);
    return out->failed || line.failed ? GSP_E_NOMEM : GSP_OK;
}

static void put_known(struct gsp_json *json, const char *key, bool known, uint64_t value)
{
    if (gsp_json_key_or_null(json, key, known))
        gsp_json_u64(json, value);
}

static void put_machine(struct gsp_json *json, const struct gsp_top_facts *facts)
{
    const struct gsp_machine *machine = &facts->machine;
    bool memory = machine->has_memory && !facts->is_replay;
    gsp_json_put_obj_begin(json, "machine");
    if (gsp_json_key_or_null(json, "cpu_pct", machine->has_cpu && !facts->is_replay))
        gsp_json_f64(json, machine->cpu_pct);
    put_known(json, "cores", machine->cores > 0 && !facts->is_replay, machine->cores);
    put_known(json, "memory_used_bytes", memory, machine->memory_used_bytes);
    put_known(json, "memory_total_bytes", memory, machine->memory_total_bytes);
    gsp_json_put_null(json, "gpu_pct");
    gsp_json_obj_end(json);
}

static void put_losses(struct gsp_json *json, const struct gsp_losses *losses)
{
    gsp_json_put_obj_begin(json, "losses");
    gsp_json_put_u64(json, "torn", losses->torn);
    gsp_json_put_u64(json, "late", losses->late);
    gsp_json_put_u64(json, "failed", losses->failed);
    gsp_json_put_u64(json, "gone", losses->gone);
    gsp_json_put_u64(json, "skipped", losses->skipped);
    gsp_json_obj_end(json);
}

static void put_facts(struct gsp_json *json, const struct gsp_top *top,
                      const struct gsp_top_query *query, const struct gsp_top_facts *facts)
{
    const struct gsp_top_span *span =
        query->whole ? gsp_tui__top_all(top) : gsp_tui_top_recent(top);
    gsp_json_put_sv(json, "command", gsp_sv_of(facts->title));
    put_known(json, "pid", facts->pid > 0, (uint64_t)facts->pid);
    gsp_json_put_i64(json, "time_ns", facts->time_ns);
    gsp_json_key(json, "interval_ns"); /* the time that the percentages cover */
    gsp_json_i64(json, span->length_ns);
    gsp_json_put_f64(json, "gil_pct", facts->gil_pct);
    gsp_json_put_f64(json, "active_pct", facts->active_pct);
    gsp_json_put_u64(json, "threads", facts->threads);
    gsp_json_put_u64(json, "processes", facts->processes);
    gsp_json_put_u64(json, "samples", facts->samples);
    if (gsp_json_key_or_null(json, "rate_hz", facts->rate_hz > 0))
        gsp_json_f64(json, facts->rate_hz);
    put_losses(json, &facts->losses);
    put_machine(json, facts);
    gsp_json_put_str(json, "sort", gsp_tui_top_column_name(query->sort));
}

static void put_weight(struct gsp_json *json, const char *what, enum gsp_unit unit, int64_t weight)
{
    static const char *const SUFFIX[] = {
        [GSP_UNIT_NS] = "_ns", [GSP_UNIT_COUNT] = "_weight", [GSP_UNIT_BYTES] = "_bytes"};
    gsp_auto_buf key = {0};
    gsp_buf_puts(&key, what);
    gsp_buf_puts(&key, SUFFIX[unit]);
    gsp_json_keysv(json, gsp_buf_sv(&key));
    gsp_json_i64(json, weight);
}

static void put_row(struct gsp_json *json, const struct gsp_profile *profile,
                    const struct gsp_top_query *query, const struct gsp_top_row *row)
{
    static const char *const KINDS[] = {[GSP_TOP_ROW_FRAME] = "function",
                                        [GSP_TOP_ROW_THREAD] = "thread",
                                        [GSP_TOP_ROW_PROCESS] = "process"};
    enum gsp_unit unit = gsp_model_profile_meta_get(profile)->unit;
    const struct gsp_frame *frame =
        row->kind == GSP_TOP_ROW_FRAME ? gsp_model_profile_frame_at(profile, row->id) : NULL;
    gsp_auto_buf name = {0};
    gsp_tui__top_row_name(profile, row, &name);
    gsp_json_obj_begin(json);
    if (query->tree) {
        gsp_json_put_str(json, "kind", KINDS[row->kind]);
        gsp_json_put_u64(json, "depth", row->depth);
        put_known(json, "parent", row->parent != GSP_NO_INDEX, row->parent);
    }
    gsp_json_put_sv(json, "function", gsp_buf_sv(&name));
    if (gsp_json_key_or_null(json, "file", frame && frame->file != GSP_NONE))
        gsp_json_sv(json, gsp_model_profile_string_at(profile, frame->file));
    uint32_t line = gsp_tui__top_row_line(profile, &query->view, row);
    put_known(json, "line", line > 0, line);
    gsp_json_put_f64(json, "own_pct", row->own_pct);
    gsp_json_put_f64(json, "total_pct", row->total_pct);
    put_weight(json, "own", unit, row->own_weight);
    put_weight(json, "total", unit, row->total_weight);
    gsp_json_put_u64(json, "own_samples", row->own_count);
    gsp_json_put_u64(json, "total_samples", row->total_count);
    gsp_json_obj_end(json);
}

int gsp_tui_top_json(const struct gsp_top *top, const struct gsp_top_query *query,
                     const struct gsp_top_facts *facts, size_t limit, struct gsp_buf *out)
{
    struct gsp_top_rows rows = {0};
    struct gsp_json json;
    int rc = gsp_tui_rows_build(top, query, &rows, NULL);
    if (rc < 0)
        return rc;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    put_facts(&json, top, query, facts);
    gsp_json_put_arr_begin(&json, "rows");
    for (size_t i = 0; i < rows.count && (limit == 0 || i < limit); i++)
        put_row(&json, gsp_tui__top_profile(top), query, &rows.rows[i]);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
    gsp_tui_rows_free(&rows);
    return out->failed ? GSP_E_NOMEM : GSP_OK;
}
