/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rows_out.h"

#include <errno.h>
#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/pager.h"
#include "cli/term.h"
#include "export/rows_arrow.h"
#include "export/rows_csv.h"
#include "export/rows_json.h"
#include "report/rows_table.h"

static const char *const NAMES[] = {
    [GSP_ROWS_TABLE] = "table",     [GSP_ROWS_JSON] = "json",   [GSP_ROWS_CSV] = "csv",
    [GSP_ROWS_CSV_RAW] = "csv-raw", [GSP_ROWS_ARROW] = "arrow", [GSP_ROWS_PARQUET] = "parquet",
};

static const struct {
    const char *extension;
    enum gsp_rows_format format;
} EXTENSIONS[] = {
    {".txt", GSP_ROWS_TABLE},    {".json", GSP_ROWS_JSON},   {".csv", GSP_ROWS_CSV},
    {".arrows", GSP_ROWS_ARROW}, {".arrow", GSP_ROWS_ARROW}, {".parquet", GSP_ROWS_PARQUET},
};

const char *gsp_cli__rows_format_choice(size_t i)
{
    return i < GSP_COUNT(NAMES) ? NAMES[i] : NULL;
}

int gsp_cli__rows_format_of(const char *name, const char *path, enum gsp_rows_format *out,
                            struct gsp_err *err)
{
    *out = GSP_ROWS_TABLE;
    for (size_t i = 0; name && i < GSP_COUNT(NAMES); i++) {
        if (strcmp(NAMES[i], name) == 0) {
            *out = (enum gsp_rows_format)i;
            return GSP_OK;
        }
    }
    if (name)
        return gsp_err_set(err, GSP_E_USAGE, 0, "unknown format '%.40s'", name);
    if (!path || strcmp(path, "-") == 0)
        return GSP_OK;
    for (size_t i = 0; i < GSP_COUNT(EXTENSIONS); i++) {
        if (gsp_sv_ends(gsp_sv_of(path), EXTENSIONS[i].extension)) {
            *out = EXTENSIONS[i].format;
            return GSP_OK;
        }
    }
    return gsp_err_set(err, GSP_E_USAGE, 0, "unknown extension of %.120s: use --format", path);
}

/* The height of the terminal; 0 if stdout is not a terminal. */
static unsigned screen_lines(const struct gsp_term *term)
{
    struct winsize size;
    return term->is_tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

/* Prints a table as wide as the terminal, in the pager if it is longer. */
static int show_table(struct gsp_rows *rows, const struct gsp_rows_dest *dest, struct gsp_err *err)
{
    struct gsp_term term;
    struct gsp_rows_table *table = NULL;
    gsp_cli__term_init(&term, STDOUT_FILENO, dest->color);
    struct gsp_rows_table_opts opts = {.width = term.is_tty ? term.width : 0,
                                       .color = term.color,
                                       .vertical = dest->vertical,
                                       .whole = dest->whole,
                                       .text_min = dest->text_min};
    int rc = gsp_report_rows_table_new(rows, &opts, &table, err);
    if (rc < 0)
        return rc;
    struct gsp_pager pager = GSP_PAGER_NONE;
    unsigned lines = screen_lines(&term);
    if (lines && gsp_report_rows_table_lines(table) >= lines)
        gsp_cli__pager_start(&pager);
    struct gsp_out out;
    gsp_out_init(&out, pager.fd >= 0 ? pager.fd : STDOUT_FILENO);
    out.colors = true;
    rc = gsp_report_rows_table_write(table, &out, err);
    int written = gsp_out_finish(&out, rc < 0 ? NULL : err);
    if (written < 0 && out.sys == EPIPE && pager.fd >= 0)
        written = GSP_OK; /* the user quit the pager */
    gsp_cli__pager_end(&pager);
    gsp_report_rows_table_free(table);
    return rc < 0 ? rc : written;
}

static int plain_table(struct gsp_rows *rows, struct gsp_out *out, struct gsp_err *err)
{
    struct gsp_rows_table *table = NULL;
    int rc = gsp_report_rows_table_new(rows, &(struct gsp_rows_table_opts){0}, &table, err);
    if (rc == GSP_OK)
        rc = gsp_report_rows_table_write(table, out, err);
    gsp_report_rows_table_free(table);
    return rc;
}

static int write_to(int fd, struct gsp_rows *rows, enum gsp_rows_format format, struct gsp_err *err)
{
    static int (*const WRITERS[])(struct gsp_rows * rows, struct gsp_out * out,
                                  struct gsp_err * err) = {
        [GSP_ROWS_TABLE] = plain_table,
        [GSP_ROWS_JSON] = gsp_export_rows_write_json,
        [GSP_ROWS_CSV] = gsp_export_rows_write_csv,
        [GSP_ROWS_CSV_RAW] = gsp_export_rows_write_csv_raw,
        [GSP_ROWS_ARROW] = gsp_export_rows_write_arrow,
        [GSP_ROWS_PARQUET] = NULL,
    };
    if (!WRITERS[format])
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "cannot write %s here", NAMES[format]);
    struct gsp_out out;
    gsp_out_init(&out, fd);
    int rc = WRITERS[format](rows, &out, err);
    int written = gsp_out_finish(&out, rc < 0 ? NULL : err);
    return rc < 0 ? rc : written;
}

int gsp_cli__put_rows(struct gsp_rows *rows, const struct gsp_rows_dest *dest, struct gsp_err *err)
{
    setlocale(LC_CTYPE, "C.UTF-8"); /* the output is always UTF-8 */
    if (!dest->path || strcmp(dest->path, "-") == 0) {
        if (dest->format == GSP_ROWS_TABLE)
            return show_table(rows, dest, err);
        if (dest->format == GSP_ROWS_ARROW && isatty(STDOUT_FILENO))
            return gsp_err_set(err, GSP_E_USAGE, 0, "cannot write an Arrow stream to a terminal");
        return write_to(STDOUT_FILENO, rows, dest->format, err);
    }
    struct gsp_newfile file = {.fd = -1};
    int rc = gsp_newfile_open(&file, dest->path, dest->force, err);
    if (rc < 0)
        return rc;
    rc = write_to(file.fd, rows, dest->format, err);
    if (rc == GSP_OK)
        return gsp_newfile_commit(&file, err);
    gsp_newfile_abort(&file);
    return rc;
}
