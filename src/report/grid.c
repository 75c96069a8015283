/* SPDX-License-Identifier: Apache-2.0 */
#include "report/grid.h"

#include <string.h>

#include "base/assert.h"
#include "base/width.h"

#define GAP            2U
#define TEXT_WIDTH_MIN 8U
#define ELLIPSIS       "\xe2\x80\xa6" /* U+2026 */

unsigned gsp_report__text_cut(struct gsp_sv text, unsigned width, bool from_left,
                              struct gsp_buf *out)
{
    unsigned columns = gsp_width(text);
    if (columns <= width) {
        gsp_buf_putsv(out, text);
        return columns;
    }
    if (width == 0)
        return 0;
    if (from_left) {
        while (columns > width - 1)
            columns -= gsp_width_step(&text);
        gsp_buf_puts(out, ELLIPSIS);
        gsp_buf_putsv(out, text);
        return columns + 1;
    }
    struct gsp_sv rest = text;
    unsigned used = 0;
    for (;;) {
        struct gsp_sv next = rest;
        const unsigned step = gsp_width_step(&next);
        if (used + step > width - 1)
            break;
        used += step;
        rest = next;
    }
    gsp_buf_put(out, text.p, text.len - rest.len);
    gsp_buf_puts(out, ELLIPSIS);
    return used + 1;
}

void gsp_report_grid_cell(struct gsp_report_grid *grid)
{
    gsp_buf_putsv(&grid->bytes, gsp_buf_sv(&grid->cell));
    gsp_buf_put(&grid->ends, &grid->bytes.len, sizeof(grid->bytes.len));
    grid->bytes.failed = grid->bytes.failed || grid->cell.failed || grid->ends.failed;
    gsp_buf_clear(&grid->cell);
}

/* Cells of a row, and its note. */
static size_t stride_of(const struct gsp_report_grid *grid)
{
    return grid->column_count + 1;
}

void gsp_report_grid_row(struct gsp_report_grid *grid)
{
    gsp_report_grid_cell(grid);
    gsp_assert(grid->bytes.failed || grid->ends.len / sizeof(size_t) % stride_of(grid) == 0);
}

void gsp_report_grid_free(struct gsp_report_grid *grid)
{
    gsp_buf_free(&grid->cell);
    gsp_buf_free(&grid->bytes);
    gsp_buf_free(&grid->ends);
}

static size_t row_count(const struct gsp_report_grid *grid)
{
    return grid->ends.len / sizeof(size_t) / stride_of(grid);
}

/* The note of the row if `column` is the column count. */
static struct gsp_sv cell_at(const struct gsp_report_grid *grid, size_t row, size_t column)
{
    const size_t i = row * stride_of(grid) + column;
    size_t begin = 0;
    size_t end = 0;
    memcpy(&end, grid->ends.p + i * sizeof(end), sizeof(end));
    if (i > 0)
        memcpy(&begin, grid->ends.p + (i - 1) * sizeof(begin), sizeof(begin));
    return (struct gsp_sv){grid->bytes.p + begin, end - begin};
}

/* --------------------------------------------------------------------------------------- text */

struct layout {
    const struct gsp_report_grid *grid;
    unsigned widths[GSP_REPORT_GRID_COLUMNS_MAX];
    struct gsp_buf safe; /* the escaped cell */
};

/* Borrowed until the next call. */
static struct gsp_sv escape(struct layout *layout, struct gsp_sv text)
{
    gsp_buf_clear(&layout->safe);
    gsp_buf_term(&layout->safe, text);
    return gsp_buf_sv(&layout->safe);
}

static unsigned total_width(const struct layout *layout)
{
    unsigned sum = 0;
    for (size_t i = 0; i < layout->grid->column_count; i++)
        sum += layout->widths[i] + (i ? GAP : 0);
    return sum;
}

/* Narrows the widest column of text until the table fits. */
static void shrink(struct layout *layout, unsigned width)
{
    const struct gsp_report_grid *grid = layout->grid;
    for (unsigned total = total_width(layout); total > width; total--) {
        unsigned *widest = NULL;
        for (size_t i = 0; i < grid->column_count; i++) {
            unsigned *at = &layout->widths[i];
            if (grid->columns[i].kind != GSP_REPORT_GRID_NUMBER && *at > TEXT_WIDTH_MIN &&
                (!widest || *at >= *widest))
                widest = at;
        }
        if (!widest)
            return;
        (*widest)--;
    }
}

static void measure(struct layout *layout, unsigned width)
{
    const struct gsp_report_grid *grid = layout->grid;
    const size_t rows = row_count(grid);
    for (size_t i = 0; i < grid->column_count; i++) {
        const struct gsp_report_grid_column *column = &grid->columns[i];
        const unsigned name = gsp_width(gsp_sv_of(column->name));
        unsigned widest = name > column->width_min ? name : column->width_min;
        for (size_t row = 0; row < rows; row++) {
            const unsigned used = gsp_width(escape(layout, cell_at(grid, row, i)));
            widest = used > widest ? used : widest;
        }
        layout->widths[i] = widest;
    }
    if (width > 0)
        shrink(layout, width);
}

static void pad(struct gsp_buf *out, unsigned used, unsigned width)
{
    for (; used < width; used++)
        gsp_buf_putc(out, ' ');
}

static void put_cell(const struct layout *layout, size_t column, struct gsp_sv text,
                     struct gsp_buf *out)
{
    const enum gsp_report_grid_kind kind = layout->grid->columns[column].kind;
    const unsigned width = layout->widths[column];
    if (kind == GSP_REPORT_GRID_NUMBER) {
        pad(out, gsp_width(text), width);
        gsp_buf_putsv(out, text);
        return;
    }
    const unsigned used = gsp_report__text_cut(text, width, kind == GSP_REPORT_GRID_PATH, out);
    if (column + 1 < layout->grid->column_count)
        pad(out, used, width);
}

/* The heading if row is SIZE_MAX. */
static void put_line(struct layout *layout, size_t row, struct gsp_buf *out)
{
    const struct gsp_report_grid *grid = layout->grid;
    for (size_t i = 0; i < grid->column_count; i++) {
        const struct gsp_sv text =
            row == SIZE_MAX ? gsp_sv_of(grid->columns[i].name) : cell_at(grid, row, i);
        if (i > 0)
            pad(out, 0, GAP);
        put_cell(layout, i, escape(layout, text), out);
    }
    gsp_buf_putc(out, '\n');
}

static void put_note(struct layout *layout, size_t row, struct gsp_buf *out)
{
    const size_t last = layout->grid->column_count - 1;
    const struct gsp_sv note = cell_at(layout->grid, row, layout->grid->column_count);
    if (note.len == 0)
        return;
    pad(out, layout->widths[last], total_width(layout));
    gsp_report__text_cut(escape(layout, note), layout->widths[last], false, out);
    gsp_buf_putc(out, '\n');
}

void gsp_report_grid_text(const struct gsp_report_grid *grid, unsigned width, struct gsp_buf *out)
{
    struct layout layout = {.grid = grid};
    out->failed = out->failed || grid->bytes.failed;
    if (out->failed)
        return;
    measure(&layout, width);
    put_line(&layout, SIZE_MAX, out);
    for (size_t row = 0; row < row_count(grid); row++) {
        put_line(&layout, row, out);
        put_note(&layout, row, out);
    }
    out->failed = out->failed || layout.safe.failed;
    gsp_buf_free(&layout.safe);
}

/* ----------------------------------------------------------------------------------- Markdown */

void gsp_report_markdown_text(struct gsp_buf *out, struct gsp_sv text)
{
    gsp_auto_buf safe = {0};
    gsp_buf_term(&safe, text);
    for (size_t i = 0; i < safe.len; i++) {
        if (safe.p[i] && strchr("<>&", safe.p[i])) {
            gsp_buf_printf(out, "&#%d;", safe.p[i]);
            continue;
        }
        if (safe.p[i] && strchr("\\`*_{}[]()#!|~$", safe.p[i]))
            gsp_buf_putc(out, '\\');
        gsp_buf_putc(out, safe.p[i]);
    }
    out->failed = out->failed || safe.failed;
}

void gsp_report_grid_markdown(const struct gsp_report_grid *grid, struct gsp_buf *out)
{
    out->failed = out->failed || grid->bytes.failed;
    if (out->failed)
        return;
    for (size_t i = 0; i < grid->column_count; i++)
        gsp_buf_printf(out, "| %s ", grid->columns[i].name);
    gsp_buf_puts(out, "|\n");
    for (size_t i = 0; i < grid->column_count; i++)
        gsp_buf_puts(out, grid->columns[i].kind == GSP_REPORT_GRID_NUMBER ? "|---:" : "|:---");
    gsp_buf_puts(out, "|\n");
    for (size_t row = 0; row < row_count(grid); row++) {
        for (size_t i = 0; i < grid->column_count; i++) {
            gsp_buf_puts(out, "| ");
            gsp_report_markdown_text(out, cell_at(grid, row, i));
            gsp_buf_putc(out, ' ');
        }
        gsp_buf_puts(out, "|\n");
    }
}
