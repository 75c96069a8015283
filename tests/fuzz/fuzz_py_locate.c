/* SPDX-License-Identifier: Apache-2.0 */
/* The search for an interpreter in hostile memory: a memory map and images of ELF files. The map is
 * the region at address 0. */
#include "fuzz_memory.h"
#include "py/locate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void locate(struct gsp_mem *mem, struct gsp_maps *maps)
{
    const struct gsp_py_locate_input input = {.mem = mem, .maps = maps, .exe = "/usr/bin/python3"};
    struct gsp_py_runtime first;
    struct gsp_py_runtime forked;
    struct gsp_err err = {0};
    if (gsp_py__locate_in(&input, &first, &err) != GSP_OK && err.msg[0] == '\0')
        abort(); /* a failure without a message */
    gsp_ignore(gsp_py__locate_forked(mem, mem, &first, &forked, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_image image;
    struct gsp_maps *maps = NULL;
    if (memory_parse(data, size, &image) && image.regions[0].addr == 0) {
        const struct gsp_sv text = {image.regions[0].bytes, image.regions[0].len};
        struct gsp_mem *mem = memory_open(&image);
        if (gsp_proc__maps_parse(text, &maps, NULL) == GSP_OK)
            locate(mem, maps);
        gsp_proc_maps_free(maps);
        gsp_proc_mem_free(mem);
    }
    free(image.regions);
    return 0;
}
