/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_py_repr.c -- objects, dicts, locals and thread names in a target's memory. The first byte
 * selects the version, the rest is the memory at BASE.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "proc/mem.h"
#include "py/layout.h"
#include "py/object.h"

#define BASE      0x100000U
#define BYTES_MAX 200U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void on_local(void *arg, const struct gsp_py_local *local)
{
    gsp_buf_putsv(arg, local->name);
}

static void on_thread(void *arg, uint64_t ident, struct gsp_sv name)
{
    gsp_buf_putu64(arg, ident);
    gsp_buf_putsv(arg, name);
}

static void query(struct gsp_mem *mem, const struct gsp_py_layout *layout)
{
    const struct gsp_py_repr_limits limits = {.bytes_max = BYTES_MAX};
    gsp_auto_buf text = {0};
    gsp_auto_buf rest = {0};
    /* Every failure is allowed, but a text is never longer than its limit. */
    bool ok = gsp_py_repr(mem, layout, BASE, &limits, &text) <= 0 && text.len <= BYTES_MAX;
    ok = gsp_py_locals(mem, layout, BASE, BASE, on_local, &rest) <= 0 && ok;
    ok = gsp_py_thread_names(mem, layout, BASE, on_thread, &rest) <= 0 && ok;
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1)
        return 0;
    uint32_t versions = GSP_PY_MINOR_MAX - GSP_PY_MINOR_MIN + 1;
    const struct gsp_py_layout *layout =
        gsp_py_layout_find(GSP_PY_MINOR_MIN + data[0] % versions, (data[0] & 0x80U) != 0);
    const struct gsp_mem_region region = {BASE, len - 1, data + 1};
    struct gsp_mem *mem = NULL;
    if (layout && gsp_proc__mem_open_regions(&region, 1, &mem, NULL) == 0)
        query(mem, layout);
    gsp_proc_mem_free(mem);
    return 0;
}
