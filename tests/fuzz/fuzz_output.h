/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what a target writes. */
#pragma once

#include <stdlib.h>

#include "base/json_scan.h"

/* Whatever the input is, the output is valid JSON. */
static inline void output_is_json(struct gsp_sv text)
{
    struct gsp_json_scan scan;
    if (gsp_json_scan_open(&scan, gsp_json_scan_read_text, &text, NULL) == GSP_OK) {
        do {
            if (gsp_json_scan_next(&scan, NULL) < 0)
                abort();
        } while (scan.kind != GSP_JSON_SCAN_END);
    }
    gsp_json_scan_close(&scan);
}
