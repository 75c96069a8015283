/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/mem_table.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "model/format.h"
#include "tui/lines.h"

#define COLUMN 11

static double value_of(const struct gsp_memtop_row *row, enum gsp_memtop_column column)
{
    switch (column) {
    case GSP_MEMTOP_GROWTH:
        return row->growth;
    case GSP_MEMTOP_RATE:
        return row->rate;
    case GSP_MEMTOP_HELD:
    case GSP_MEMTOP_COLUMNS:
        break;
    }
    return (double)row->held_bytes;
}

static int compare(const void *a, const void *b, void *column)
{
    const struct gsp_memtop_row *x = a;
    const struct gsp_memtop_row *y = b;
    const enum gsp_memtop_column by = *(const enum gsp_memtop_column *)column;
    const double p = value_of(x, by);
    const double q = value_of(y, by);
    if (p < q || p > q)
        return p < q ? 1 : -1;
    return (x->held_bytes < y->held_bytes) - (x->held_bytes > y->held_bytes);
}

void gsp_tui_memtop_sort(struct gsp_memtop *top)
{
    if (top->count)
        qsort_r(top->rows, top->count, sizeof(*top->rows), compare, &top->sort);
}

static void put_bytes(int64_t bytes, const char *unit, struct gsp_buf *out)
{
    gsp_auto_buf cell = {0};
    gsp_model_amount_put(GSP_UNIT_BYTES, bytes, &cell);
    gsp_buf_puts(&cell, unit);
    const char *text = gsp_buf_cstr(&cell);
    gsp_buf_printf(out, "%*s", COLUMN, text ? text : "");
}

static void put_facts(const struct gsp_memtop *top, struct gsp_buf *out)
{
    char elapsed[32];
    gsp_fmt_duration(top->elapsed_ns, elapsed, sizeof(elapsed));
    gsp_buf_printf(out, "%s%s, %zu process%s, %s; held ", top->is_paused ? "paused, " : "", elapsed,
                   top->processes, top->processes == 1 ? "" : "es", top->mode);
    gsp_model_amount_put(GSP_UNIT_BYTES, top->held_bytes, out);
    gsp_buf_puts(out, ", peak ");
    gsp_model_amount_put(GSP_UNIT_BYTES, top->peak_bytes, out);
    if (top->rss_bytes >= 0) {
        gsp_buf_puts(out, ", resident ");
        gsp_model_amount_put(GSP_UNIT_BYTES, top->rss_bytes, out);
    }
}

void gsp_tui_memtop_head_line(const struct gsp_memtop *top, size_t i, struct gsp_buf *out)
{
    static const char *const TITLES[GSP_MEMTOP_COLUMNS] = {"held", "growth", "allocated"};
    if (i == 0) {
        gsp_buf_printf(out, "memory of %d: ", top->pid);
        gsp_buf_term(out, top->title);
    } else if (i == 1) {
        put_facts(top, out);
    } else {
        for (size_t k = 0; k < GSP_MEMTOP_COLUMNS; k++) {
            const bool is_sort = k == (size_t)top->sort;
            gsp_buf_printf(out, "%*s%s", COLUMN - 1, TITLES[k], is_sort ? "*" : " ");
        }
        gsp_buf_puts(out, "  blocks  line");
    }
}

void gsp_tui_memtop_row_line(const struct gsp_memtop_row *row, struct gsp_buf *out)
{
    put_bytes(row->held_bytes, "", out);
    put_bytes((int64_t)row->growth, "/s", out);
    put_bytes((int64_t)row->rate, "/s", out);
    gsp_buf_printf(out, "%8lld  ", (long long)row->blocks);
    gsp_buf_term(out, row->name);
}

void gsp_tui_memtop_text(const struct gsp_memtop *top, unsigned width, size_t limit,
                         struct gsp_buf *out)
{
    const size_t rows = limit && limit < top->count ? limit : top->count;
    for (size_t i = 0; i < GSP_MEMTOP_HEAD_LINES + rows; i++) {
        gsp_auto_buf line = {0};
        if (i < GSP_MEMTOP_HEAD_LINES)
            gsp_tui_memtop_head_line(top, i, &line);
        else
            gsp_tui_memtop_row_line(&top->rows[i - GSP_MEMTOP_HEAD_LINES], &line);
        gsp_tui__text_fit(out, gsp_buf_sv(&line), width, false);
        gsp_buf_putc(out, '\n');
    }
}

void gsp_tui_memtop_json(const struct gsp_memtop *top, size_t limit, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "pid", top->pid);
    gsp_json_put_u64(&json, "processes", top->processes);
    gsp_json_put_str(&json, "mode", top->mode);
    gsp_json_put_f64(&json, "elapsed_s", (double)top->elapsed_ns / 1e9);
    if (gsp_json_key_or_null(&json, "rss_bytes", top->rss_bytes >= 0))
        gsp_json_i64(&json, top->rss_bytes);
    gsp_json_put_i64(&json, "held_bytes", top->held_bytes);
    gsp_json_put_i64(&json, "peak_bytes", top->peak_bytes);
    gsp_json_put_arr_begin(&json, "rows");
    for (size_t i = 0; i < top->count && (!limit || i < limit); i++) {
        const struct gsp_memtop_row *row = &top->rows[i];
        gsp_json_obj_begin(&json);
        gsp_json_put_sv(&json, "name", row->name);
        gsp_json_put_i64(&json, "held_bytes", row->held_bytes);
        gsp_json_put_i64(&json, "blocks", row->blocks);
        gsp_json_put_f64(&json, "growth_bytes_per_s", row->growth);
        gsp_json_put_f64(&json, "allocated_bytes_per_s", row->rate);
        gsp_json_obj_end(&json);
    }
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
    gsp_buf_putc(out, '\n');
}
