/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "ring/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A parsed object round-trips through the writer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_ring__meta meta;
    struct gsp_ring__meta again;
    gsp_auto_buf text = {0};
    if (gsp_ring__meta_parse((struct gsp_sv){(const char *)data, size}, &meta, NULL) != 0)
        return 0;
    gsp_ring__meta_write(&meta, &text);
    if (gsp_ring__meta_parse(gsp_buf_sv(&text), &again, NULL) != 0 || again.pid != meta.pid ||
        again.start_time != meta.start_time || again.rank != meta.rank ||
        again.created_ns != meta.created_ns)
        abort();
    return 0;
}
