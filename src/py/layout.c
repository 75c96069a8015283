/* SPDX-License-Identifier: Apache-2.0 */
#include "py/layout.h"

#include "py/layout_tables.h"

const struct gsp_py_layout *gsp_py_layout_find(uint32_t minor, bool free_threaded)
{
    for (size_t i = 0; i < gsp_py__layout_count; i++) {
        const struct gsp_py_layout *layout = &gsp_py__layouts[i];
        if (GSP_PY_MINOR(layout->version) == minor && layout->free_threaded == free_threaded)
            return layout;
    }
    return NULL;
}
