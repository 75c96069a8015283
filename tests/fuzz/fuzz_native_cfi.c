/* SPDX-License-Identifier: Apache-2.0 */
/* A .eh_frame section of hostile bytes, for both machines: rows ascend, rules are valid. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>

#include "native/cfi.h"
#include "native/prologue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gsp_cfi_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        if ((i && table->rows[i].pc <= table->rows[i - 1].pc) ||
            gsp_cfi_kind_of(table->rows[i].rule) > GSP_CFI_END)
            abort();
        uint64_t addr = table->base + table->rows[i].pc;
        if (addr >= table->base && gsp_native__cfi_find(table, addr) != table->rows[i].rule)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint16_t MACHINES[] = {EM_X86_64, EM_AARCH64};
    for (size_t i = 0; i < GSP_COUNT(MACHINES); i++) {
        struct gsp_cfi_input in = {gsp_native__arch(MACHINES[i]), data, size, 0x2000};
        struct gsp_cfi_table table;
        if (gsp_native__cfi_build(&in, &table, NULL) != GSP_OK)
            continue;
        check(&table);
        struct gsp_cfi_span span;
        (void)gsp_native__cfi_span(&in, table.base, &span);
        gsp_native__cfi_free(&table);
        (void)gsp_native__after_call(in.arch, data, size);
        (void)gsp_native__prologue_decode(in.arch, data, size);
    }
    return 0;
}
