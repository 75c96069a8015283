/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_py_debug_offsets.c -- the start of a target's _PyRuntime, 3.13 and later. */
#include <stdint.h>
#include <stdlib.h>

#include "py/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct gsp_py_layout layout;
    struct gsp_err err;
    if (gsp_py_debug_offsets_read(data, len, &layout, &err) == 0 &&
        (layout.tstate_next >= layout.tstate_size || layout.interp_next >= layout.interp_size))
        abort();
    struct gsp_py_remote_exec exec;
    if (gsp_py_remote_exec_read(data, len, &exec, &err) == 0 &&
        (exec.pending >= exec.path || exec.path_size > 4096))
        abort();
    return 0;
}
