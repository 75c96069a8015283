/* SPDX-License-Identifier: Apache-2.0 */
/* The stack of a thread in a target whose memory is the input: frames, code objects, names,
 * line tables and the pointers between them. The first byte selects the version. */
#include <stdint.h>
#include <stdlib.h>

#include "py/walk.h"

#define BASE 0x100000ULL /* as in the seed, which test_py_walk.c writes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8)
        return 0;
    const struct gsp_py_layout *layout = gsp_py_layout_find(8U + data[0] % 8U, (data[0] & 8) != 0);
    if (!layout)
        return 0;
    static struct gsp_py_runtime run;
    run = (struct gsp_py_runtime){.addr = BASE, .layout = *layout};
    struct gsp_mem_region region = {BASE, size - 8, data + 8};
    struct gsp_mem *mem;
    if (gsp_proc__mem_open_regions(&region, 1, &mem, NULL) != GSP_OK)
        return 0;
    struct gsp_py_walker *walker = malloc(sizeof(*walker));
    if (!walker)
        abort();
    gsp_py__walker_init(walker, mem, &run);
    walker->stopped = (data[1] & 1) != 0;
    struct gsp_snap snap;
    gsp_proc_snap_init(&snap, mem);
    for (int64_t now_ns = 1; now_ns < 4; now_ns++) {
        gsp_proc_snap_refresh(&snap);
        gsp_ignore(gsp_py__walk(walker, &snap, BASE, now_ns));
    }
    gsp_proc_snap_free(&snap);
    gsp_py__walker_free(walker);
    free(walker);
    gsp_proc_mem_free(mem);
    return 0;
}
