/* SPDX-License-Identifier: Apache-2.0 */
/* An ELF file of hostile bytes: symbols (also packed), lines, inlined calls, unwind rules. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/native_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUNCTIONS_MAX 4U

/* What is known about the functions of the file. */
struct functions {
    uint64_t starts[FUNCTIONS_MAX]; /* of the first ones */
    size_t count;
    size_t bytes; /* in their names */
};

static bool add_function(void *user, const struct gsp_native_found *found)
{
    struct functions *functions = user;
    if (functions->count < FUNCTIONS_MAX)
        functions->starts[functions->count++] = found->start;
    functions->bytes += strlen(found->name);
    return functions->bytes < 10000;
}

static void query(struct gsp_native_store *store, struct gsp_native_file *file, uint64_t vaddr)
{
    struct gsp_native_found found;
    struct gsp_native_symbol symbol = {.module = ""};
    struct gsp_cfi_span span;
    unsigned char text[16];
    uint64_t bias;
    (void)gsp_native__file_rule(file, vaddr);
    (void)gsp_native__file_span(file, vaddr, &span);
    if (gsp_native__symbol_find(file, vaddr, &found))
        (void)gsp_native__intern_name(store, found.name);
    gsp_native__lines_find(store, file, vaddr, &symbol);
    if (symbol.inlined_count > GSP_NATIVE_INLINED_MAX)
        abort();
    (void)gsp_native__file_text(file, vaddr, text, sizeof(text));
    (void)gsp_native__file_bias(file, vaddr, vaddr, &bias);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_native_store *store;
    unsigned char *image = malloc(size + 1);
    if (!image || gsp_native_store_new(&store, NULL) != GSP_OK) {
        free(image);
        return 0;
    }
    memcpy(image, data, size);
    struct gsp_native_file *file = gsp_native__file_of_image(store, image, size, "/fuzz");
    if (file && file->elf) {
        struct functions functions = {0};
        (void)gsp_native__file_table(file);
        gsp_native__symbol_each(file, add_function, &functions);
        for (size_t i = 0; i < functions.count; i++)
            query(store, file, functions.starts[i]);
        for (size_t i = 0; i < file->load_count; i++) {
            query(store, file, file->loads[i].vaddr);
            query(store, file, file->loads[i].vaddr + file->loads[i].file_len / 2);
        }
        query(store, file, UINT64_MAX);
        (void)gsp_native__section(file->elf, ".text");
    }
    gsp_native_store_free(store);
    return 0;
}
