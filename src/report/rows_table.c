/* SPDX-License-Identifier: Apache-2.0 */
#include "report/rows_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/width.h"
#include "model/cells.h"
#include "report/grid.h"

#define GAP               2U
/* Rows and bytes that are read to determine the widths. */
#define SAMPLE_ROWS       1000U
#define SAMPLE_BYTES      ((size_t)8 << 20)
/* Text is not cut to less than this. */
#define TEXT_COLUMNS_MIN  8U
/* Without a width, columns are padded to at most this; longer values overflow. */
#define PIPE_COLUMNS_MAX  60U
#define NAME_COLUMNS_MAX  30U
#define NAME_COLUMNS_MIN  6U
/* A result with more rows is never written with one value per line. */
#define VERTICAL_ROWS_MAX 20U
#define FIGURES           6

/* A value of the first rows, as text. */
struct cell {
    size_t at; /* offset in bytes */
    size_t len;
    bool is_null;
};

struct layout {
    unsigned *widths;    /* of the shown columns */
    size_t shown;        /* number of shown columns, from the first on */
    unsigned name_width; /* of the names in front of values */
    bool vertical;
    bool plain; /* the output of EXPLAIN, printed unchanged */
};

struct gsp_rows_table {
    struct gsp_rows *rows; /* borrowed */
    struct gsp_rows_table_opts opts;
    struct layout layout;
    struct gsp_buf bytes;
    struct cell *cells; /* of the first rows, row by row */
    size_t cell_cap;
    size_t row_count; /* of the first rows */
    bool ended;       /* there are no more rows */
};

static bool is_number(const struct gsp_rows_column *column)
{
    return column->kind == GSP_CELL_I64 || column->kind == GSP_CELL_I128 ||
           column->kind == GSP_CELL_F64;
}

/* Six significant figures, but all digits before the point and at least one after it. */
static void put_f64(double v, struct gsp_buf *out)
{
    double size = fabs(v);
    if (!isfinite(v) || size >= 1e15 || (size > 0 && size < 1e-4)) {
        char text[40];
        snprintf(text, sizeof(text), "%.*g", FIGURES, v);
        gsp_buf_puts(out, text);
        return;
    }
    /* Digits before the point; -2 for 0.00123, whose figures start after two zeros. */
    int before = size > 0 ? (int)floor(log10(size)) + 1 : 0;
    char text[64];
    snprintf(text, sizeof(text), "%.*f", before < FIGURES ? FIGURES - before : 0, v);
    size_t len = strlen(text);
    const char *point = strchr(text, '.');
    while (point && text[len - 1] == '0' && text[len - 2] != '.')
        len--;
    gsp_buf_put(out, text, len);
}

/* Appends text on one line, with control characters escaped. */
static void put_line(struct gsp_sv text, struct gsp_buf *out)
{
    static const char NAMES[] = "\n\\n\t\\t\r\\r"; /* a byte and its replacement */
    size_t start = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char *name = NULL;
        for (size_t k = 0; k + 3 <= sizeof(NAMES) - 1; k += 3)
            name = text.p[i] == NAMES[k] ? NAMES + k + 1 : name;
        if (!name)
            continue;
        gsp_buf_term(out, (struct gsp_sv){text.p + start, i - start});
        gsp_buf_put(out, name, 2);
        start = i + 1;
    }
    gsp_buf_term(out, (struct gsp_sv){text.p + start, text.len - start});
}

/* Appends a value as text. multi: keep line breaks. */
static void put_value(const struct gsp_rows_column *column, const struct gsp_values *values,
                      size_t row, bool multi, struct gsp_buf *out)
{
    if (column->kind == GSP_CELL_F64) {
        put_f64(((const double *)values->data)[row], out);
        return;
    }
    if (is_number(column) || column->kind == GSP_CELL_BOOL) {
        gsp_model_cell_put(column, values, row, out);
        return;
    }
    struct gsp_sv text = gsp_model_cell_text(column, values, row);
    if (!multi) {
        put_line(text, out);
        return;
    }
    struct gsp_sv line;
    const char *sep = "";
    while (gsp_sv_split(&text, '\n', &line)) {
        gsp_buf_puts(out, sep);
        put_line(line, out);
        sep = "\n";
    }
}

static int add_cell(struct gsp_rows_table *table, size_t index, struct cell cell,
                    struct gsp_err *err)
{
    if (!gsp_array_fit(&table->cells, &table->cell_cap, index + 1))
        return gsp_err_nomem(err);
    table->cells[index] = cell;
    return GSP_OK;
}

static int add_batch(struct gsp_rows_table *table, const struct gsp_batch_view *batch,
                     struct gsp_err *err)
{
    const struct gsp_rows *rows = table->rows;
    for (size_t row = 0; row < batch->row_count; row++, table->row_count++) {
        for (size_t i = 0; i < rows->column_count; i++) {
            struct cell cell = {table->bytes.len, 0,
                                gsp_model_values_is_null(&batch->values[i], row)};
            if (!cell.is_null)
                put_value(&rows->columns[i], &batch->values[i], row, true, &table->bytes);
            cell.len = table->bytes.len - cell.at;
            int rc = add_cell(table, table->row_count * rows->column_count + i, cell, err);
            if (rc < 0)
                return rc;
        }
    }
    if (table->bytes.failed)
        return gsp_err_nomem(err);
    return GSP_OK;
}

static int read_first(struct gsp_rows_table *table, struct gsp_err *err)
{
    while (!table->ended && table->row_count < SAMPLE_ROWS && table->bytes.len < SAMPLE_BYTES) {
        struct gsp_batch_view batch;
        int rc = gsp_rows_next(table->rows, &batch, err);
        if (rc == 1)
            rc = add_batch(table, &batch, err);
        else
            table->ended = rc == 0;
        if (rc < 0)
            return rc;
    }
    return GSP_OK;
}

/* The value of a cell on one line. Cells keep line breaks until the layout is known. */
static struct gsp_sv one_line(const struct gsp_rows_table *table, const struct cell *cell,
                              struct gsp_buf *scratch)
{
    if (cell->is_null)
        return gsp_sv_of("NULL");
    struct gsp_sv text = {table->bytes.p + cell->at, cell->len};
    if (cell->len == 0 || !memchr(text.p, '\n', text.len))
        return text;
    gsp_buf_clear(scratch);
    put_line(text, scratch);
    return gsp_buf_sv(scratch);
}

static unsigned name_columns(const struct gsp_rows_column *column)
{
    gsp_auto_buf name = {0};
    put_line(gsp_sv_of(column->name), &name);
    return gsp_width(gsp_buf_sv(&name));
}

/* The width of the widest value of a column, at least 1. */
static unsigned widest_of(const struct gsp_rows_table *table, size_t i, struct gsp_buf *scratch)
{
    unsigned widest = 1;
    for (size_t row = 0; row < table->row_count; row++) {
        const struct cell *cell = &table->cells[row * table->rows->column_count + i];
        unsigned columns = gsp_width(one_line(table, cell, scratch));
        widest = columns > widest ? columns : widest;
    }
    return widest;
}

/* Computes the widths that the first rows need, and the minimum width of each column. */
static void measure(struct gsp_rows_table *table, unsigned *least)
{
    struct layout *layout = &table->layout;
    unsigned *widths = layout->widths;
    const struct gsp_rows *rows = table->rows;
    gsp_auto_buf scratch = {0};
    unsigned limit = table->opts.width ? table->opts.width : PIPE_COLUMNS_MAX;
    unsigned text_min = table->opts.text_min ? table->opts.text_min : TEXT_COLUMNS_MIN;
    for (size_t i = 0; i < rows->column_count; i++) {
        unsigned widest = widest_of(table, i, &scratch);
        unsigned name = name_columns(&rows->columns[i]);
        layout->name_width = name > layout->name_width ? name : layout->name_width;
        bool keeps = is_number(&rows->columns[i]);
        widths[i] = name > widest ? name : widest;
        /* A number keeps all digits, and part of its name. */
        unsigned known = name < NAME_COLUMNS_MIN ? name : NAME_COLUMNS_MIN;
        unsigned whole = widest > known ? widest : known;
        least[i] = keeps ? whole : text_min;
        least[i] = least[i] < widths[i] ? least[i] : widths[i];
        if (!keeps || !table->opts.width)
            widths[i] = widths[i] < limit ? widths[i] : limit;
    }
    if (layout->name_width > NAME_COLUMNS_MAX)
        layout->name_width = NAME_COLUMNS_MAX;
}

static size_t sum_of(const unsigned *widths, size_t count)
{
    size_t sum = count ? (count - 1) * (size_t)GAP : 0;
    for (size_t i = 0; i < count; i++)
        sum += widths[i];
    return sum;
}

/* The first columns keep their full width if they fit. */
static void keep_whole(const struct gsp_rows_table *table, unsigned *least)
{
    const unsigned *widths = table->layout.widths;
    size_t whole = table->opts.whole;
    whole = whole < table->rows->column_count ? whole : table->rows->column_count;
    if (sum_of(widths, whole) > table->opts.width)
        return;
    for (size_t i = 0; i < whole; i++)
        least[i] = widths[i];
}

/* Narrows the widest column until all fit. All fit at their minimum widths. */
static void shrink(unsigned *widths, const unsigned *least, size_t count, size_t width)
{
    size_t sum = sum_of(widths, count);
    while (sum > width) {
        size_t widest = count;
        for (size_t i = 0; i < count; i++)
            if (widths[i] > least[i] && (widest == count || widths[i] > widths[widest]))
                widest = i;
        if (widest == count)
            return;
        widths[widest]--;
        sum--;
    }
}

static bool is_explain(const struct gsp_rows *rows)
{
    return rows->column_count == 2 && strcmp(rows->columns[0].name, "explain_key") == 0 &&
           strcmp(rows->columns[1].name, "explain_value") == 0;
}

static int choose_layout(struct gsp_rows_table *table, struct gsp_err *err)
{
    struct layout *layout = &table->layout;
    size_t count = table->rows->column_count;
    size_t width = table->opts.width;
    layout->widths = calloc(count + 1, sizeof(*layout->widths));
    unsigned *least = calloc(count + 1, sizeof(*least));
    if (!layout->widths || !least) {
        free(least);
        return gsp_err_nomem(err);
    }
    measure(table, least);
    keep_whole(table, least);
    layout->shown = count;
    layout->plain = is_explain(table->rows);
    bool fits = width == 0 || sum_of(least, count) <= width;
    size_t few = table->opts.whole ? 1 : VERTICAL_ROWS_MAX;
    bool is_small = table->ended && table->row_count > 0 && table->row_count <= few;
    layout->vertical = table->opts.vertical || (!fits && is_small && count > 1);
    while (!fits && layout->shown > 1 && sum_of(least, layout->shown) > width)
        layout->shown--;
    if (width)
        shrink(layout->widths, least, layout->shown, width);
    free(least);
    return GSP_OK;
}

int gsp_report_rows_table_new(struct gsp_rows *rows, const struct gsp_rows_table_opts *opts,
                              struct gsp_rows_table **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_rows_table *table = calloc(1, sizeof(*table));
    if (!table)
        return gsp_err_nomem(err);
    table->rows = rows;
    table->opts = *opts;
    int rc = read_first(table, err);
    if (rc == GSP_OK)
        rc = choose_layout(table, err);
    if (rc < 0) {
        gsp_report_rows_table_free(table);
        return rc;
    }
    *out = table;
    return GSP_OK;
}

void gsp_report_rows_table_free(struct gsp_rows_table *table)
{
    if (!table)
        return;
    gsp_buf_free(&table->bytes);
    free(table->cells);
    free(table->layout.widths);
    free(table);
}

size_t gsp_report_rows_table_lines(const struct gsp_rows_table *table)
{
    size_t lines = 3 + table->row_count;
    if (table->layout.vertical)
        lines = 1 + table->row_count * (table->rows->column_count + 1);
    for (size_t i = 0; table->layout.plain && i < table->bytes.len; i++)
        lines += table->bytes.p[i] == '\n';
    return lines;
}

bool gsp_report__rows_table_is_empty(const struct gsp_rows_table *table)
{
    return table->row_count == 0;
}

static const char *style(const struct gsp_rows_table *table, const char *code)
{
    return table->opts.color ? code : "";
}

static void put_blanks(struct gsp_buf *out, size_t n)
{
    gsp_buf_printf(out, "%*s", (int)n, "");
}

struct cell_format {
    bool right;
    bool cut;         /* cut text that does not fit */
    bool last;        /* no padding after it */
    const char *code; /* terminal code, or "" */
};

static void put_padded(const struct gsp_rows_table *table, struct gsp_sv text, unsigned width,
                       const struct cell_format *format, struct gsp_buf *out)
{
    gsp_auto_buf shown = {0};
    unsigned columns = format->cut ? gsp_report__text_cut(text, width, false, &shown) : 0;
    if (!format->cut) {
        gsp_buf_putsv(&shown, text);
        columns = gsp_width(text);
    }
    size_t blanks = columns < width ? width - columns : 0;
    if (format->right)
        put_blanks(out, blanks);
    const char *code = style(table, format->code);
    gsp_buf_puts(out, code);
    gsp_buf_putsv(out, gsp_buf_sv(&shown));
    gsp_buf_puts(out, code[0] ? GSP_STYLE_OFF : "");
    if (!format->right && !format->last)
        put_blanks(out, blanks);
    out->failed = out->failed || shown.failed;
}

static void put_gap(struct gsp_buf *out, size_t column)
{
    if (column)
        put_blanks(out, GAP);
}

static void put_head(const struct gsp_rows_table *table, struct gsp_buf *out)
{
    const struct layout *layout = &table->layout;
    for (size_t i = 0; i < layout->shown; i++) {
        const struct gsp_rows_column *column = &table->rows->columns[i];
        gsp_auto_buf name = {0};
        put_line(gsp_sv_of(column->name), &name);
        put_gap(out, i);
        struct cell_format format = {.right = is_number(column),
                                     .cut = table->opts.width > 0,
                                     .last = i + 1 == layout->shown,
                                     .code = GSP_STYLE_BOLD};
        put_padded(table, gsp_buf_sv(&name), layout->widths[i], &format, out);
    }
    gsp_buf_putc(out, '\n');
    gsp_buf_puts(out, style(table, GSP_STYLE_DIM));
    for (size_t i = 0; i < layout->shown; i++) {
        put_gap(out, i);
        for (unsigned k = 0; k < layout->widths[i]; k++)
            gsp_buf_puts(out, "\xe2\x94\x80"); /* U+2500 */
    }
    gsp_buf_puts(out, style(table, GSP_STYLE_OFF));
    gsp_buf_putc(out, '\n');
}

static void put_cell(const struct gsp_rows_table *table, size_t i, struct gsp_sv text, bool is_null,
                     struct gsp_buf *out)
{
    const struct layout *layout = &table->layout;
    bool number = is_number(&table->rows->columns[i]);
    struct cell_format format = {.right = number,
                                 .cut = table->opts.width > 0 && !number,
                                 .last = i + 1 == layout->shown,
                                 .code = is_null ? GSP_STYLE_DIM : ""};
    put_gap(out, i);
    put_padded(table, text, layout->widths[i], &format, out);
}

/* One value per line, with its line breaks. */
static void put_member(const struct gsp_rows_table *table, size_t i, struct gsp_sv text,
                       bool is_null, struct gsp_buf *out)
{
    unsigned width = table->layout.name_width;
    gsp_auto_buf name = {0};
    put_line(gsp_sv_of(table->rows->columns[i].name), &name);
    struct cell_format format = {.cut = table->opts.width > 0, .code = GSP_STYLE_BOLD};
    put_padded(table, gsp_buf_sv(&name), width, &format, out);
    put_blanks(out, GAP);
    gsp_buf_puts(out, style(table, is_null ? GSP_STYLE_DIM : ""));
    struct gsp_sv line;
    for (bool more = gsp_sv_split(&text, '\n', &line); more;) {
        gsp_buf_putsv(out, line);
        more = gsp_sv_split(&text, '\n', &line);
        if (more) {
            gsp_buf_putc(out, '\n');
            put_blanks(out, width + GAP);
        }
    }
    gsp_buf_puts(out, style(table, is_null ? GSP_STYLE_OFF : ""));
    gsp_buf_putc(out, '\n');
}

static void put_row_head(const struct gsp_rows_table *table, uint64_t number, struct gsp_buf *out)
{
    gsp_buf_printf(out, "%s\xe2\x94\x80\xe2\x94\x80 row %" PRIu64 " \xe2\x94\x80\xe2\x94\x80%s\n",
                   style(table, GSP_STYLE_DIM), number, style(table, GSP_STYLE_OFF));
}

/* Writes value i of a row; the text has its line breaks. */
static void put_shown(const struct gsp_rows_table *table, size_t i, struct gsp_sv text,
                      bool is_null, struct gsp_buf *out)
{
    if (table->layout.plain) {
        if (i == 1 && !is_null) {
            gsp_buf_putsv(out, text);
            if (!gsp_sv_ends(text, "\n"))
                gsp_buf_putc(out, '\n');
        }
    } else if (table->layout.vertical) {
        put_member(table, i, text, is_null, out);
    } else if (i < table->layout.shown) {
        put_cell(table, i, text, is_null, out);
    }
}

static void begin_row(const struct gsp_rows_table *table, uint64_t number, struct gsp_buf *out)
{
    if (table->layout.vertical && !table->layout.plain)
        put_row_head(table, number, out);
}

static void end_row(const struct gsp_rows_table *table, struct gsp_out *out)
{
    if (!table->layout.vertical && !table->layout.plain)
        gsp_buf_putc(&out->buf, '\n');
    gsp_out_spill(out);
}

static void put_first(const struct gsp_rows_table *table, struct gsp_out *out)
{
    size_t count = table->rows->column_count;
    bool multi = table->layout.vertical || table->layout.plain;
    gsp_auto_buf scratch = {0};
    for (size_t row = 0; row < table->row_count; row++) {
        begin_row(table, row + 1, &out->buf);
        for (size_t i = 0; i < count; i++) {
            const struct cell *cell = &table->cells[row * count + i];
            struct gsp_sv text = multi && !cell->is_null
                                     ? (struct gsp_sv){table->bytes.p + cell->at, cell->len}
                                     : one_line(table, cell, &scratch);
            put_shown(table, i, text, cell->is_null, &out->buf);
        }
        end_row(table, out);
    }
}

/* Writes the rows after the first ones; *count counts them. */
static int put_rest(struct gsp_rows_table *table, uint64_t *count, struct gsp_out *out,
                    struct gsp_err *err)
{
    const struct gsp_rows *rows = table->rows;
    bool multi = table->layout.vertical || table->layout.plain;
    gsp_auto_buf text = {0};
    struct gsp_batch_view batch;
    int rc = table->ended ? 0 : 1;
    while (rc == 1 && !out->failed && (rc = gsp_rows_next(table->rows, &batch, err)) == 1) {
        for (size_t row = 0; row < batch.row_count; row++) {
            begin_row(table, ++*count, &out->buf);
            for (size_t i = 0; i < rows->column_count; i++) {
                bool is_null = gsp_model_values_is_null(&batch.values[i], row);
                gsp_buf_clear(&text);
                if (is_null)
                    gsp_buf_puts(&text, "NULL");
                else
                    put_value(&rows->columns[i], &batch.values[i], row, multi, &text);
                put_shown(table, i, gsp_buf_sv(&text), is_null, &out->buf);
            }
            end_row(table, out);
        }
    }
    return rc < 0 ? rc : GSP_OK;
}

/* Writes the row count, whether the result was cut, and the hidden columns. */
static void put_foot(const struct gsp_rows_table *table, uint64_t count, struct gsp_buf *out)
{
    const struct gsp_rows *rows = table->rows;
    gsp_auto_buf line = {0};
    gsp_buf_printf(out, "%s(%" PRIu64 " row%s%s)", style(table, GSP_STYLE_DIM), count,
                   count == 1 ? "" : "s", rows->truncated ? "; the limit cut the result" : "");
    size_t missing = rows->column_count - table->layout.shown;
    if (missing && !table->layout.vertical) {
        gsp_buf_printf(&line, "(%zu column%s not shown:", missing, missing == 1 ? "" : "s");
        for (size_t i = table->layout.shown; i < rows->column_count; i++) {
            gsp_buf_puts(&line, i == table->layout.shown ? " " : ", ");
            put_line(gsp_sv_of(rows->columns[i].name), &line);
        }
        gsp_buf_putc(&line, ')');
        gsp_buf_putc(out, '\n');
        gsp_report__text_cut(gsp_buf_sv(&line), table->opts.width, false, out);
    }
    gsp_buf_printf(out, "%s\n", style(table, GSP_STYLE_OFF));
    out->failed = out->failed || line.failed;
}

int gsp_report_rows_table_write(struct gsp_rows_table *table, struct gsp_out *out,
                                struct gsp_err *err)
{
    uint64_t count = table->row_count;
    if (!table->layout.vertical && !table->layout.plain)
        put_head(table, &out->buf);
    put_first(table, out);
    int rc = put_rest(table, &count, out, err);
    if (rc == GSP_OK && !table->layout.plain)
        put_foot(table, count, &out->buf);
    return rc;
}
