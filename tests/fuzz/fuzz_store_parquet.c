/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_store_parquet.c -- a Parquet file of another user's run, which the engine reads. The engine
 * stays open, because opening it takes much longer than reading a file. The store knows the table
 * from a valid file, which the input then replaces.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fuzz_file.h"
#include "model/cells.h"
#include "model/rows.h"
#include "store/batch.h"
#include "store/segment.h"
#include "store/store.h"
#include "wire/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/dev/shm/gsprof-fuzz-XXXXXX";
static char path[80];
static struct gsp_store *store;

/* The store stays open: the engine cannot be closed after the destructors of its threads. */
static void remove_files(void)
{
    unlink(path);
    rmdir(folder);
}

static void open_store(void)
{
    static const char FILE_NAME[] = "process.event.parquet";
    const struct gsp_store_options options = {
        .memory_bytes = 64U << 20, .threads = 1, .timeout_ns = 5000000000};
    const struct gsp_table *table = gsp_wire_table_at(GSP_TABLE_process_event);
    struct gsp_row_process_event row = {0};
    struct gsp_batch *batch = NULL;
    const char *const paths[] = {path};
    if (!mkdtemp(folder) || atexit(remove_files) != 0)
        abort();
    snprintf(path, sizeof(path), "%s/%s", folder, FILE_NAME);
    if (gsp_store_batch_new(table, "here", 1, GSP_NULL_I64, &batch, NULL) != GSP_OK ||
        gsp_store_batch_append(batch, &row, NULL) != GSP_OK ||
        gsp_store__segment_write(batch, folder, FILE_NAME, NULL, NULL) != GSP_OK ||
        gsp_store_open(&options, &store, NULL) != GSP_OK ||
        gsp_store_add_parquet(store, table->schema, table->name, paths, 1, NULL) != GSP_OK ||
        gsp_store_lock(store, NULL) != GSP_OK)
        abort();
}

static void query(const char *sql)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view batch;
    gsp_auto_buf text = {0};
    if (gsp_store_query(store, gsp_sv_of(sql), &rows, NULL, NULL) != GSP_OK)
        return;
    while (gsp_rows_next(rows, &batch, NULL) > 0)
        for (size_t i = 0; i < rows->column_count; i++)
            for (size_t row = 0; row < batch.row_count && row < 64; row++)
                if (!gsp_model_values_is_null(&batch.values[i], row))
                    gsp_model_cell_put(&rows->columns[i], &batch.values[i], row, &text);
    gsp_rows_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!store)
        open_store();
    gsp_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || gsp_fd_write_all(fd, data, size, NULL) != GSP_OK)
        abort();
    query("SELECT * FROM process.event LIMIT 1000");
    return 0;
}
