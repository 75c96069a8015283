/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of gsprof compare --fail-if. */
#include <math.h>

#include "compare/rules.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_compare_rule rule;
    struct gsp_err err = {0};
    char *text = fuzz_text(data, size);
    if (gsp_compare_rule_parse(text, &rule, &err) != GSP_OK && err.msg[0] == '\0')
        abort();
    free(text);
    return 0;
}
