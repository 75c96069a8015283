/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "client/json_rows.h"
#include "model/cells.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_rows *rows = NULL;
    struct gsp_err err = {0};
    struct gsp_batch_view batch;
    gsp_auto_buf text = {0};
    if (gsp_client_rows_from_json((struct gsp_sv){(const char *)data, size}, NULL, &rows, &err) !=
        GSP_OK) {
        if (rows || err.msg[0] == '\0')
            abort(); /* a failure must have a message */
        return 0;
    }
    while (gsp_rows_next(rows, &batch, &err) > 0) {
        for (size_t i = 0; i < rows->column_count; i++) {
            for (size_t row = 0; row < batch.row_count; row++)
                if (!gsp_model_values_is_null(&batch.values[i], row))
                    gsp_model_cell_put(&rows->columns[i], &batch.values[i], row, &text);
        }
    }
    gsp_rows_free(rows);
    return 0;
}
