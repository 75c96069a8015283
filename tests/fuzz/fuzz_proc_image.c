/* SPDX-License-Identifier: Apache-2.0 */
/* An ELF image of hostile bytes in a target's memory. */
#include <stdint.h>

#include "proc/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t BASE = 0x400000;
    struct gsp_mem_region region = {BASE, size, data};
    struct gsp_mem *mem;
    if (gsp_proc__mem_open_regions(&region, 1, &mem, NULL) != GSP_OK)
        return 0;
    struct gsp_map map = {.start = BASE, .end = BASE + size, .path = "", .readable = true};
    struct gsp_image *image;
    if (gsp_proc_image_open(0, mem, &map, &image, NULL) == GSP_OK) {
        (void)gsp_proc_image_dynsym(image, "_PyRuntime");
        (void)gsp_proc_image_dynsym(image, "Py_Version");
        struct gsp_range range;
        bool writable;
        for (size_t i = 0; gsp_proc_image_segment(image, i, &range, &writable); i++) {
        }
        gsp_proc_image_close(image);
    }
    gsp_proc_mem_free(mem);
    return 0;
}
