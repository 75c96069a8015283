/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of a hostile session file as text, rows and JSON. */
#include "fuzz_output.h"
#include "report/session_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_session_read_options options = {.values = true};
    struct gsp_session_data *session = NULL;
    struct gsp_row_list *rows = NULL;
    struct gsp_sv text = {(const char *)data, size};
    if (gsp_frames_session_read(gsp_json_scan_read_text, &text, &options, &session, NULL) != GSP_OK)
        return 0;
    gsp_auto_buf head = {0};
    gsp_auto_buf json = {0};
    gsp_report_session_put_head(session, &head);
    if (gsp_report_session_rows(session, NULL, &rows, NULL) == GSP_OK)
        gsp_rows_free(gsp_model_row_list_rows(rows));
    gsp_report_session_put_json(session, NULL, &json);
    output_is_json(gsp_buf_sv(&json));
    gsp_frames_session_data_free(session);
    return 0;
}
