/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_profile("speedscope", data, size);
    return 0;
}
