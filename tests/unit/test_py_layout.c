/* SPDX-License-Identifier: Apache-2.0 */
#include "py/layout.h"
#include "tap.h"

TAP_TEST(every_supported_version_has_a_table)
{
    for (uint32_t minor = GSP_PY_MINOR_MIN; minor <= GSP_PY_MINOR_MAX; minor++) {
        const struct gsp_py_layout *layout = gsp_py_layout_find(minor, false);
        tap_check(layout != NULL);
        tap_eq_int(layout ? GSP_PY_MINOR(layout->version) : 0, minor);
        tap_eq_int(gsp_py_layout_find(minor, true) != NULL, minor >= 13);
    }
    tap_check(gsp_py_layout_find(GSP_PY_MINOR_MIN - 1, false) == NULL);
    tap_check(gsp_py_layout_find(GSP_PY_MINOR_MAX + 1, false) == NULL);
}

/* Every version has the common members and those of its way to find frames. */
TAP_TEST(tables_are_complete)
{
    for (uint32_t minor = GSP_PY_MINOR_MIN; minor <= GSP_PY_MINOR_MAX; minor++) {
        for (int ft = 0; ft <= (minor >= 13 ? 1 : 0); ft++) {
            const struct gsp_py_layout *layout = gsp_py_layout_find(minor, ft != 0);
            if (!layout) {
                tap_check(layout != NULL);
                continue;
            }
            tap_check(layout->runtime_interpreters_head < layout->runtime_size);
            tap_check(layout->interp_tstate_head < layout->interp_size);
            tap_check(layout->tstate_thread_id < layout->tstate_size);
            tap_check(layout->code_filename < layout->code_size);
            tap_eq_int(layout->tstate_frame != GSP_NO_OFFSET, minor <= 10);
            tap_eq_int(layout->tstate_cframe != GSP_NO_OFFSET, minor == 11 || minor == 12);
            tap_eq_int(layout->tstate_current_frame != GSP_NO_OFFSET, minor >= 13);
            tap_eq_int(layout->code_qualname != GSP_NO_OFFSET, minor >= 11);
            tap_eq_int(layout->code_tlbc != GSP_NO_OFFSET, minor >= 14 && ft != 0);
            tap_eq_int(layout->object_size, ft != 0 ? 32 : 16);
            tap_eq_int(layout->interp_gil != UINT32_MAX, minor >= 12);
            tap_eq_int(layout->runtime_gil != UINT32_MAX, minor <= 11);
        }
    }
}

TAP_MAIN()
