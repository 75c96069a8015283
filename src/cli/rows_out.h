/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_out.h -- rows to where they go: a file, a pipe, the terminal or its pager, in a format.
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
    GSP_ROWS_ARROW,
    GSP_ROWS_PARQUET, /* made by the engine, not here */
};

struct gsp_rows_dest {
    enum gsp_rows_format format;
    const char *path;  /* NULL or "-": stdout */
    const char *color; /* as --color has it */
    bool force;        /* replace the file */
    bool vertical;     /* a table with one value a line */
    unsigned whole;    /* of a table, as struct gsp_rows_table_opts has them */
    unsigned text_min;
};

/* "table", "json", ...; NULL past the last. */
const char *gsp_rows_format_choice(size_t i);
/* The format with this name (one of the choices; NULL: by the extension of path, else a table).
 * Fails with USAGE when the path's extension tells nothing. */
GSP_MUST_CHECK int gsp_rows_format_of(const char *name, const char *path, enum gsp_rows_format *out,
                                      struct gsp_err *err);

/* Writes all rows.  A table that is longer than the terminal goes through $PAGER, else less.
 * A file appears whole or not at all.  Fails with what gsp_rows_next() fails with, NOMEM, EXISTS,
 * NOWRITE, IO. */
GSP_MUST_CHECK int gsp_cli_put_rows(struct gsp_rows *rows, const struct gsp_rows_dest *dest,
                                    struct gsp_err *err);
