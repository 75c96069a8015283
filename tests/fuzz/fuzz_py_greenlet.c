/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of the garbage collector and the greenlets on them, in hostile memory. */
#include "fuzz_memory.h"
#include "py/greenlet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_greenlet(void *arg, const struct gsp_py_greenlet *greenlet)
{
    size_t *bytes = arg;
    *bytes += greenlet->label.len + greenlet->parent.len;
    if (greenlet->chain && greenlet->chain->depth > GSP_PY_AWAITS_MAX)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_image image;
    struct gsp_py_target *target = NULL;
    size_t bytes = 0;
    if (memory_parse(data, size, &image) && (target = memory_target(&image)))
        gsp_ignore(gsp_py_greenlets(target, on_greenlet, NULL, &bytes));
    gsp_py_target_close(target);
    free(image.regions);
    return 0;
}
