/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_fixture.h -- query results in memory, and a writer that formats them in memory.
 */
#pragma once

#include <math.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/file.h"
#include "model/rows.h"
#include "tap.h"

/* A result in memory that returns the same batch batch_count times. */
struct fix_rows {
    struct gsp_rows rows; /* must be the first member */
    struct gsp_batch_view batch;
    size_t batch_count;
    size_t given;
    int fail_at; /* the batch at which next() fails; 0: none */
    bool is_cut;
};

static inline int fix_rows_next(struct gsp_rows *rows, struct gsp_batch_view *out,
                                struct gsp_err *err)
{
    struct fix_rows *fix = (struct fix_rows *)(void *)rows;
    if (fix->fail_at && fix->given + 1 == (size_t)fix->fail_at)
        return gsp_err_set(err, GSP_E_TIMEOUT, 0, "the query took too long");
    if (fix->given == fix->batch_count) {
        rows->truncated = fix->is_cut;
        return 0;
    }
    fix->given++;
    *out = fix->batch;
    return 1;
}

static inline void fix_rows_free(struct gsp_rows *rows)
{
    (void)rows;
}

static const struct gsp_rows_ops FIX_ROWS_OPS = {fix_rows_next, fix_rows_free};

static inline struct fix_rows fix_rows_of(const struct gsp_rows_column *columns,
                                          size_t column_count, const struct gsp_values *values,
                                          size_t row_count)
{
    return (struct fix_rows){
        .rows = {.ops = &FIX_ROWS_OPS, .columns = columns, .column_count = column_count},
        .batch = {row_count, values},
        .batch_count = 1,
    };
}

/* All kinds of columns in four rows: ordinary values, NULLs, values that need escaping, and large
 * values (the largest decimal of 38 digits). */
#define FIX_SV(text)                                                                               \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }
static const struct gsp_sv FIX_DICT[] = {FIX_SV("forward"), FIX_SV("back,ward"),
                                         FIX_SV("\xc3\xbc")};
static const struct gsp_rows_column FIX_COLUMNS[] = {
    {"i", "BIGINT", NULL, 0, GSP_CELL_I64},    {"sum", "HUGEINT", NULL, 0, GSP_CELL_I128},
    {"f", "DOUBLE", NULL, 0, GSP_CELL_F64},    {"b", "BOOLEAN", NULL, 0, GSP_CELL_BOOL},
    {"t", "VARCHAR", NULL, 0, GSP_CELL_TEXT},  {"j", "INTEGER[]", NULL, 0, GSP_CELL_JSON},
    {"d", "ENUM", FIX_DICT, 3, GSP_CELL_DICT},
};
static const int64_t FIX_I64[] = {1, 0, -7, INT64_MAX};
static const struct gsp_i128 FIX_I128[] = {
    {42, 0}, {0, 0}, {UINT64_MAX, -1}, {UINT64_C(0x98a223fffffffff), INT64_C(0x4b3b4ca85a86c47a)}};
static const double FIX_F64[] = {0.5, 0, (double)NAN, 1e300};
static const uint8_t FIX_BOOL[] = {1, 0, 0, 1};
static const struct gsp_sv FIX_TEXT[] = {FIX_SV("plain"), FIX_SV(""), FIX_SV("a \"b\",\nc\x1b["),
                                         FIX_SV("\xe6\x97\xa5\xe6\x9c\xac \xff")};
static const struct gsp_sv FIX_JSON[] = {FIX_SV("[1,2]"), FIX_SV("null"), FIX_SV("{\"a\": null}"),
                                         FIX_SV("[]")};
static const uint32_t FIX_IDS[] = {0, 0, 1, 2};
static const uint64_t FIX_VALID[] = {0xd}; /* row 1 is NULL */
static const struct gsp_values FIX_VALUES[] = {
    {FIX_I64, FIX_VALID},  {FIX_I128, FIX_VALID}, {FIX_F64, FIX_VALID}, {FIX_BOOL, FIX_VALID},
    {FIX_TEXT, FIX_VALID}, {FIX_JSON, FIX_VALID}, {FIX_IDS, FIX_VALID},
};

static inline struct fix_rows fix_rows_all(void)
{
    return fix_rows_of(FIX_COLUMNS, GSP_COUNT(FIX_COLUMNS), FIX_VALUES, 4);
}

/* Runs a formatter and stores its output in *text, which the caller frees. Returns the formatter's
 * result. */
static inline int fix_rows_write(int (*write_rows)(struct gsp_rows *rows, struct gsp_out *out,
                                                   struct gsp_err *err),
                                 struct fix_rows *fix, struct gsp_buf *text, struct gsp_err *err)
{
    struct gsp_out out;
    int fd = memfd_create("rows", MFD_CLOEXEC);
    tap_require(fd >= 0);
    gsp_out_init(&out, fd);
    int rc = write_rows(&fix->rows, &out, err);
    tap_require(gsp_out_finish(&out, NULL) == GSP_OK);
    tap_require(lseek(fd, 0, SEEK_SET) == 0);
    tap_require(gsp_fd_read_all(fd, (size_t)1 << 30, text, NULL) == GSP_OK);
    close(fd);
    return rc;
}
