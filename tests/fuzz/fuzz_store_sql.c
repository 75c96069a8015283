/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/sql_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_table(const void *ctx, struct gsp_sv name)
{
    (void)ctx;
    return name.len == 3 && (name.p[0] | 0x20) == 'c';
}

/* Tokens are ordered and inside the text. Positions in the qualified text map back into it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gsp_sv sql = {(const char *)data, size};
    size_t pos = 0;
    for (struct gsp_sql_token token = gsp_store__sql_token(sql, 0); token.kind != GSP_SQL_END;
         token = gsp_store__sql_token(sql, token.to)) {
        assert(token.from >= pos && token.to > token.from && token.to <= size);
        pos = token.to;
    }
    struct gsp_sv inner;
    struct gsp_sv after_options;
    if (gsp_store__sql_explained(sql, &inner, &after_options))
        assert(inner.len < size && after_options.len < size);
    gsp_auto_buf out = {0};
    gsp_store__sql_qualify(sql, "memory", is_table, NULL, &out);
    const struct gsp_sv qualified = gsp_buf_sv(&out);
    assert(qualified.len >= size);
    assert(gsp_store__sql_origin(sql, qualified, "memory", qualified.len) <= size);
    return 0;
}
