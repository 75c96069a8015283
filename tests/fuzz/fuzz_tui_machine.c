/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "tui/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_sv text = {(const char *)data, size};
    struct gsp_machine_times times;
    struct gsp_machine machine = {0};
    uint64_t used = 0;
    uint64_t total = 0;
    if (gsp_tui__machine_parse_stat(text, &times)) {
        gsp_tui__machine_load(&machine, &times);
        gsp_tui__machine_load(&machine, &times);
        if (times.busy > times.all || machine.has_cpu)
            abort();
    }
    if (gsp_tui__machine_parse_meminfo(text, &used, &total) && used > total)
        abort();
    return 0;
}
