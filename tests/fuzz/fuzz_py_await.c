/* SPDX-License-Identifier: Apache-2.0 */
/* An await chain in a target whose memory is the input: coroutines, their types, frames and code
 * objects. The first byte selects the version. */
#include <stdint.h>
#include <stdlib.h>

#include "py/await.h"

#define BASE 0x10000ULL

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8)
        return 0;
    const struct gsp_py_layout *layout = gsp_py_layout_find(8U + data[0] % 8U, (data[0] & 8) != 0);
    if (!layout)
        return 0;
    static struct gsp_py_runtime run;
    static struct gsp_py_awaits chain;
    run = (struct gsp_py_runtime){.addr = BASE, .layout = *layout};
    struct gsp_mem_region region = {BASE, size - 8, data + 8};
    struct gsp_mem *mem;
    if (gsp_proc__mem_open_regions(&region, 1, &mem, NULL) != GSP_OK)
        return 0;
    struct gsp_py_codes codes;
    gsp_py__codes_init(&codes, mem, &run);
    for (int64_t now_ns = 1; now_ns < 3; now_ns++)
        if (gsp_py__awaits_read(&codes, BASE, now_ns, &chain) == GSP_OK &&
            chain.depth > GSP_PY_AWAITS_MAX)
            abort();
    gsp_py__codes_free(&codes);
    gsp_proc_mem_free(mem);
    return 0;
}
