/* SPDX-License-Identifier: Apache-2.0 */
/* A cached unwind table that somebody else has written; what is accepted is written again. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char ID[8] = "build-id";
    struct gsp_native_cache_key key = {ID, sizeof(ID), 100, EM_X86_64};
    struct gsp_cfi_table table;
    if (!gsp_native__cache_parse((struct gsp_sv){(const char *)data, size}, &key, &table))
        return 0;
    for (uint64_t i = 0; i < 64; i++)
        (void)gsp_native__cfi_find(&table, table.base + i);
    gsp_auto_buf again = {0};
    gsp_native__cache_format(&table, &key, &again);
    struct gsp_cfi_table same;
    if (!gsp_native__cache_parse(gsp_buf_sv(&again), &key, &same) || same.count != table.count)
        abort();
    gsp_native__cfi_free(&same);
    gsp_native__cfi_free(&table);
    return 0;
}
