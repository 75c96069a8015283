/* SPDX-License-Identifier: Apache-2.0 */
/* Parses command lines whose words are separated by NUL bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char program[] = "gsprof";
    char *argv[WORDS_MAX + 1] = {program};
    int argc = 1;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < size && argc < WORDS_MAX; i += strlen(text + i) + 1)
        argv[argc++] = text + i;
    struct gsp_parsed parsed;
    struct gsp_err err;
    int rc = gsp_cli__parse(argc, argv, &parsed, &err);
    if (rc == GSP_OK && parsed.arg_count > (size_t)argc)
        abort();
    gsp_cli__parsed_free(&parsed);
    free(text);
    return 0;
}
