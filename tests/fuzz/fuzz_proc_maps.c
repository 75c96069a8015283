/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "proc/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_maps *maps;
    if (gsp_proc__maps_parse((struct gsp_sv){(const char *)data, size}, &maps, NULL) != GSP_OK)
        return 0;
    for (size_t i = 0; i < gsp_proc_maps_count(maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(maps, i);
        if (gsp_proc_maps_find(maps, map->start) != map ||
            gsp_proc_maps_find(maps, map->end - 1) != map)
            abort();
    }
    gsp_proc_maps_free(maps);
    return 0;
}
