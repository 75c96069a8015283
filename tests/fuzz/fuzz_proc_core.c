/* SPDX-License-Identifier: Apache-2.0 */
/* A core file of hostile bytes: headers, notes, segments and mapped files. */
#include <stdint.h>
#include <stdlib.h>

#include "proc/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_core *core;
    if (gsp_proc__core_parse(data, size, &core, NULL) != GSP_OK)
        return 0;
    struct gsp_mem *mem;
    if (gsp_proc_core_mem(core, &mem, NULL) != GSP_OK)
        abort();
    const struct gsp_maps *maps = gsp_proc_core_maps(core);
    unsigned char bytes[600];
    for (size_t i = 0; i < gsp_proc_maps_count(maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(maps, i);
        gsp_ignore(gsp_proc_mem_read(mem, map->start, bytes, 1));
        gsp_ignore(gsp_proc_mem_read(mem, map->end - 1, bytes, sizeof(bytes)));
        gsp_ignore(gsp_proc_mem_read(mem, map->start + (map->end - map->start) / 2, bytes, 64));
    }
    size_t len = 0;
    const unsigned char *regs;
    unsigned sum = 0;
    for (size_t i = 0; (regs = gsp_proc__core_regs(core, i, &len)); i++)
        sum += len ? regs[len - 1] : 0U;
    gsp_proc_mem_free(mem);
    gsp_proc_core_close(core);
    return sum == UINT32_MAX ? -1 : 0;
}
