/* SPDX-License-Identifier: Apache-2.0 */
/* A record of a perf event: registers and a copy of a stack. */
#include <stdint.h>
#include <stdlib.h>

#include "proc/perf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_perf_sample sample;
    if (!gsp_proc__perf_parse(data, size, &sample))
        return 0;
    const uint8_t *stack = sample.stack;
    if (stack < data || (size_t)(stack - data) > size ||
        sample.stack_len > size - (size_t)(stack - data))
        abort();
    unsigned sum = 0;
    for (size_t i = 0; i < sample.stack_len; i++)
        sum += stack[i];
    return sum == UINT32_MAX ? -1 : 0;
}
