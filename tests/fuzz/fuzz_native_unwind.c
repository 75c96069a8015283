/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_native_unwind.c -- unwinds a hostile stack through a hostile image, and names the frames.
 *
 * The input: registers (struct gsp_regs), a u16 with the length of the stack, the stack, and an ELF
 * image, which is mapped like the vdso: its file does not exist, so it is read from memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "native/unwind.h"

#define BASE       0x400000ULL
#define FRAMES_MAX 64U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void unwind(struct gsp_native *native, const struct gsp_native_copy *copy)
{
    struct gsp_native_frame frames[FRAMES_MAX];
    enum gsp_native_end end;
    gsp_native_prepare(native);
    const size_t count = gsp_native_unwind(native, copy, frames, FRAMES_MAX, &end);
    if (count > FRAMES_MAX)
        abort();
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        struct gsp_native_symbol symbol;
        if (gsp_native_symbol(native, frames[i].pc, &symbol) && symbol.name)
            bytes += strlen(symbol.name);
        bytes += strlen(gsp_native_module_path(native, frames[i].module));
    }
    struct gsp_native_ranges ranges;
    if (gsp_native_range(native, "_PyEval_EvalFrameDefault", &ranges) &&
        (ranges.count > GSP_NATIVE_RANGES_MAX || bytes == SIZE_MAX))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_native_copy copy;
    uint16_t stack_len;
    if (size < sizeof(copy.regs) + sizeof(stack_len) + 64)
        return 0;
    memcpy(&copy.regs, data, sizeof(copy.regs));
    memcpy(&stack_len, data + sizeof(copy.regs), sizeof(stack_len));
    data += sizeof(copy.regs) + sizeof(stack_len);
    size -= sizeof(copy.regs) + sizeof(stack_len);
    if (stack_len > size)
        stack_len = (uint16_t)size;
    copy.stack = data;
    copy.stack_len = stack_len;
    data += stack_len;
    size -= stack_len;
    char line[160];
    const uint64_t end = BASE + (size + 4095) / 4096 * 4096;
    snprintf(line, sizeof(line), "%llx-%llx r-xp 00000000 00:00 0 [vdso]\n",
             (unsigned long long)BASE, (unsigned long long)(end > BASE ? end : BASE + 4096));
    /* Whole pages, as the kernel maps them. */
    const size_t len = (size_t)((end > BASE ? end : BASE + 4096) - BASE);
    unsigned char *bytes = calloc(1, len);
    if (!bytes)
        abort();
    memcpy(bytes, data, size);
    const struct gsp_mem_region region = {BASE, len, bytes};
    struct gsp_mem *mem = NULL;
    struct gsp_maps *maps = NULL;
    struct gsp_native_store *store = NULL;
    struct gsp_native *native = NULL;
    if (gsp_proc__mem_open_regions(&region, 1, &mem, NULL) == GSP_OK &&
        gsp_proc__maps_parse(gsp_sv_of(line), &maps, NULL) == GSP_OK &&
        gsp_native_store_new(&store, NULL) == GSP_OK &&
        gsp_native_open_maps(store, maps, mem, &native, NULL) == GSP_OK)
        unwind(native, &copy);
    gsp_native_close(native);
    gsp_native_store_free(store);
    gsp_proc_maps_free(maps);
    gsp_proc_mem_free(mem);
    free(bytes);
    return 0;
}
