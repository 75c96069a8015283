/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic linker of a hostile target: symbols of the images in its memory. The memory map is
 * the region at address 0. */
#include "fuzz_memory.h"
#include "inject/linker.h"
#include "inject/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_image image;
    struct gsp_maps *maps = NULL;
    if (memory_parse(data, size, &image) && image.regions[0].addr == 0) {
        const struct gsp_sv text = {image.regions[0].bytes, image.regions[0].len};
        const struct gsp_inject__query query = {"libgsprof_agent.so", "gsp_agent_enter"};
        struct gsp_inject__linker linker;
        struct gsp_mem *mem = memory_open(&image);
        if (gsp_proc__maps_parse(text, &maps, NULL) == GSP_OK) {
            if (gsp_inject__linker_find(0, mem, maps, &query, &linker, NULL) == GSP_OK)
                (void)gsp_inject__linker_is_idle(&linker, mem);
            const uint64_t sp = image.head.runtime;
            (void)gsp_inject__stack_room(maps, mem, sp, (sp & ~UINT64_C(7)) + 64);
        }
        gsp_proc_maps_free(maps);
        gsp_proc_mem_free(mem);
    }
    free(image.regions);
    return 0;
}
