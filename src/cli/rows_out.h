/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_out.h -- writes rows in a format to a file, a pipe, the terminal or a pager.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "model/rows.h"

enum gsp_rows_format {
    GSP_ROWS_TABLE,
    GSP_ROWS_JSON,
    GSP_ROWS_CSV,
    GSP_ROWS_CSV_RAW, /* text that a spreadsheet takes for a formula is not changed */
    GSP_ROWS_ARROW,
    GSP_ROWS_PARQUET, /* written by the SQL engine */
};

struct gsp_rows_dest {
    enum gsp_rows_format format;
    const char *path;  /* NULL or "-": stdout */
    const char *color; /* the value of --color */
    bool force;        /* overwrite the file */
    bool vertical;     /* a table with one value per line */
    unsigned whole;    /* of struct gsp_rows_table_opts */
    unsigned text_min; /* of struct gsp_rows_table_opts */
};

/* "table", "json", ...; NULL past the last. */
const char *gsp_cli__rows_format_choice(size_t i);
/* Finds a format by name, or if name is NULL by the extension of path; without both, a table.
 * Fails with USAGE if the name or extension is unknown. */
GSP_MUST_CHECK int gsp_cli__rows_format_of(const char *name, const char *path,
                                           enum gsp_rows_format *out, struct gsp_err *err);

/* Writes all rows. A table longer than the terminal is shown in the pager. A file is written
 * completely or not at all. Fails with NOMEM, EXISTS, NOWRITE, IO, or the errors of
 * gsp_rows_next(). */
GSP_MUST_CHECK int gsp_cli__put_rows(struct gsp_rows *rows, const struct gsp_rows_dest *dest,
                                     struct gsp_err *err);
