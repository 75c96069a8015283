/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "compare/write_internal.h"
#include "report/profile.h"

#define FIRST_WIDTH_MIN 12U
#define GAP             2U

void gsp_grid_end(struct gsp_grid *grid)
{
    gsp_buf_putsv(&grid->text, gsp_buf_sv(&grid->cell));
    gsp_buf_put(&grid->ends, &grid->text.len, sizeof(grid->text.len));
    grid->text.failed = grid->text.failed || grid->cell.failed || grid->ends.failed;
    gsp_buf_clear(&grid->cell);
}

void gsp_grid_free(struct gsp_grid *grid)
{
    gsp_buf_free(&grid->cell);
    gsp_buf_free(&grid->text);
    gsp_buf_free(&grid->ends);
}

static size_t cell_count(const struct gsp_grid *grid)
{
    return grid->ends.len / sizeof(size_t);
}

static struct gsp_sv cell_at(const struct gsp_grid *grid, size_t i)
{
    size_t begin = 0;
    size_t end = 0;
    memcpy(&end, grid->ends.p + i * sizeof(end), sizeof(end));
    if (i > 0)
        memcpy(&begin, grid->ends.p + (i - 1) * sizeof(begin), sizeof(begin));
    return (struct gsp_sv){grid->text.p + begin, end - begin};
}

/* Columns on a screen, of text that is well-formed: bytes that begin a character. */
static unsigned columns_of(struct gsp_sv text)
{
    unsigned count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.p[i] & 0xc0) != 0x80;
    return count;
}

/* The end of a name says more than its beginning. */
static void put_cut(struct gsp_buf *out, struct gsp_sv text, unsigned width)
{
    unsigned columns = columns_of(text);
    if (columns > width) {
        while (text.len > 0 && columns >= width) {
            const size_t len = gsp_utf8_len(text);
            text.p += len > 0 ? len : 1;
            text.len -= len > 0 ? len : 1;
            columns--;
        }
        gsp_buf_puts(out, "\xe2\x80\xa6");
    }
    gsp_buf_putsv(out, text);
}

static void pad(struct gsp_buf *out, unsigned used, unsigned width)
{
    for (; used < width; used++)
        gsp_buf_putc(out, ' ');
}

static void put_line(const struct gsp_grid *grid, size_t first, const unsigned *widths,
                     struct gsp_buf *out)
{
    for (size_t k = 0; k < grid->columns; k++) {
        const struct gsp_sv cell =
            first == SIZE_MAX ? gsp_sv_of(grid->heads[k]) : cell_at(grid, first + k);
        const unsigned used = columns_of(cell) < widths[k] ? columns_of(cell) : widths[k];
        const bool is_last = k + 1 == grid->columns;
        if (k > 0)
            pad(out, 0, GAP);
        if (k >= grid->texts)
            pad(out, used, widths[k]);
        put_cut(out, cell, widths[k]);
        if (k < grid->texts && !is_last)
            pad(out, used, widths[k]);
    }
    gsp_buf_putc(out, '\n');
}

static void put_markdown(const struct gsp_grid *grid, struct gsp_buf *out)
{
    for (size_t k = 0; k < grid->columns; k++)
        gsp_buf_printf(out, "| %s ", grid->heads[k]);
    gsp_buf_puts(out, "|\n");
    for (size_t k = 0; k < grid->columns; k++)
        gsp_buf_puts(out, k < grid->texts ? "|---" : "|--:");
    gsp_buf_puts(out, "|\n");
    for (size_t i = 0; i + grid->columns <= cell_count(grid); i += grid->columns) {
        for (size_t k = 0; k < grid->columns; k++) {
            gsp_buf_puts(out, "| ");
            gsp_report_markdown_text(out, cell_at(grid, i + k));
            gsp_buf_putc(out, ' ');
        }
        gsp_buf_puts(out, "|\n");
    }
}

void gsp_grid_write(struct gsp_grid *grid, unsigned width, bool is_markdown, struct gsp_buf *out)
{
    unsigned widths[GSP_GRID_COLUMNS_MAX] = {0};
    out->failed = out->failed || grid->text.failed;
    if (out->failed)
        return;
    if (is_markdown) {
        put_markdown(grid, out);
        return;
    }
    unsigned others = 0;
    for (size_t k = 0; k < grid->columns; k++) {
        widths[k] = columns_of(gsp_sv_of(grid->heads[k]));
        for (size_t i = k; i < cell_count(grid); i += grid->columns) {
            const unsigned used = columns_of(cell_at(grid, i));
            widths[k] = used > widths[k] ? used : widths[k];
        }
        others += k > 0 ? widths[k] + GAP : 0;
    }
    if (width > 0 && widths[0] + others > width)
        widths[0] = width > others + FIRST_WIDTH_MIN ? width - others : FIRST_WIDTH_MIN;
    put_line(grid, SIZE_MAX, widths, out);
    for (size_t i = 0; i + grid->columns <= cell_count(grid); i += grid->columns)
        put_line(grid, i, widths, out);
}
