/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <zlib.h>

#include "export/gsp_layout.h"
#include "fuzz_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Corrects the checksums, so that changed bytes reach the parsers. */
static void mend(uint8_t *bytes, size_t size)
{
    if (size < GSP_FILE_HEADER_BYTES)
        return;
    gsp_store_u32(bytes + 28, (uint32_t)crc32(0, bytes, 28));
    size_t at = GSP_FILE_HEADER_BYTES;
    while (size - at >= GSP_BLOCK_HEADER_BYTES) {
        uint8_t *header = bytes + at;
        size_t stored = gsp_load_u32(header + 8);
        at += GSP_BLOCK_HEADER_BYTES;
        if (stored > size - at)
            return;
        struct gsp_sv body = {(const char *)bytes + at, stored};
        gsp_store_u32(header + 12, gsp_export__block_crc(header, body));
        at += stored;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_profile("gsp", data, size);
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        return 0;
    if (size)
        memcpy(copy, data, size);
    mend(copy, size);
    fuzz_profile("gsp", copy, size);
    free(copy);
    return 0;
}
