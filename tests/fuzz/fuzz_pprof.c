/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a pprof file. */
#include <stddef.h>
#include <stdint.h>

#include "export/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_profile *profile = NULL;
    struct gsp_err err;
    const struct gsp_format *format = gsp_export_format_find("pprof");
    if (gsp_model_profile_new(true, &profile, &err) == 0 && format->read)
        (void)format->read((struct gsp_sv){(const char *)data, size}, profile, &err);
    gsp_model_profile_free(profile);
    return 0;
}
