/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_store_manifest.c -- untrusted manifests are rejected, or read without paths in file names.
 */
#include <stdint.h>
#include <stdlib.h>

#include "store/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_manifest manifest;
    struct gsp_manifest copy;
    const struct gsp_sv text = {(const char *)data, size};
    if (gsp_store__manifest_parse(text, &manifest, NULL) != GSP_OK) {
        require(manifest.segment_count + manifest.cursor_count + manifest.loss_count == 0);
        return 0;
    }
    for (size_t i = 0; i < manifest.segment_count; i++)
        require(gsp_store__segment_name_is_valid(manifest.segments[i].file, NULL, NULL));
    for (size_t i = 0; i < manifest.cursor_count; i++) {
        const struct gsp_drain_cursor *cursor = &manifest.cursors[i];
        require(gsp_store__manifest_cursor(&manifest, cursor) == cursor);
        for (uint32_t k = 0; k < cursor->lane_count; k++)
            require(gsp_store__cursor_row(cursor, cursor->lanes[k].lane) == cursor->lanes[k].row);
    }
    if (gsp_store__manifest_copy(&manifest, &copy, NULL) == GSP_OK) {
        require(copy.segment_count == manifest.segment_count);
        gsp_store__manifest_free(&copy);
    }
    gsp_store__manifest_free(&manifest);
    return 0;
}
