/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "export/format.h"
#include "fuzz_output.h"
#include "report/document.h"
#include "report/document_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_all(const struct gsp_report *report)
{
    static const enum gsp_report_format FORMATS[] = {GSP_REPORT_JSON, GSP_REPORT_MARKDOWN,
                                                     GSP_REPORT_TEXT};
    for (size_t i = 0; i < GSP_COUNT(FORMATS); i++) {
        gsp_auto_buf text = {0};
        if (gsp_report_write(report, FORMATS[i], NULL, &text, NULL) < 0)
            continue;
        if (FORMATS[i] == GSP_REPORT_JSON)
            output_is_json(gsp_buf_sv(&text));
    }
}

/* A profile with extreme numbers: negative weights, times at the limits of their range. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gsp_format *json = gsp_export_format_find("json");
    struct gsp_profile *profile = NULL;
    struct gsp_report *report = NULL;
    if (!json || gsp_model_profile_new(true, &profile, NULL) < 0)
        return 0;
    if (json->read((struct gsp_sv){(const char *)data, size}, profile, NULL) < 0) {
        gsp_model_profile_free(profile);
        return 0;
    }
    if (gsp_report__open_profile(profile, "fuzz", NULL, &report, NULL) == GSP_OK)
        write_all(report);
    gsp_report_free(report);
    return 0;
}
