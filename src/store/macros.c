/* SPDX-License-Identifier: Apache-2.0 */
#include "store/macros.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "store/store_internal.h"

extern const char gsp_store__macros_sql[]; /* generated from macros.sql */

static const char BEGIN[] = "CREATE OR REPLACE MACRO gsprof.";

bool gsp_store__macro_at(size_t i, struct gsp_macro *out)
{
    const char *at = strstr(gsp_store__macros_sql, BEGIN);
    while (at && i-- > 0)
        at = strstr(at + 1, BEGIN);
    const char *end = at ? strstr(at, ";\n") : NULL;
    if (!end)
        return false;
    const char *name = at + sizeof(BEGIN) - 1;
    out->name = (struct gsp_sv){name, strcspn(name, "(")};
    out->sql = (struct gsp_sv){at, (size_t)(end - at) + 1};
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool gsp_store__macro_is_used(struct gsp_sv text, struct gsp_sv name)
{
    for (size_t i = 0; i + name.len <= text.len; i++)
        if ((i == 0 || !is_word(text.p[i - 1])) &&
            (i + name.len == text.len || !is_word(text.p[i + name.len])) &&
            strncasecmp(text.p + i, name.p, name.len) == 0)
            return true;
    return false;
}

/* Returns the bits of the macros that text uses, directly or through other macros. */
static uint64_t find_named(struct gsp_sv text, uint64_t known)
{
    struct gsp_macro macro;
    uint64_t found = known;
    for (size_t i = 0; i < GSP_MACROS_MAX && gsp_store__macro_at(i, &macro); i++) {
        const uint64_t bit = UINT64_C(1) << i;
        if (!(found & bit) && gsp_store__macro_is_used(text, macro.name))
            found |= find_named(macro.sql, found | bit);
    }
    return found;
}

int gsp_store__macros_create(struct gsp_store *store, struct gsp_sv sql, uint64_t *created,
                             struct gsp_err *err)
{
    const bool all = gsp_store__macro_is_used(sql, gsp_sv_of("duckdb_functions")) ||
                     gsp_store__macro_is_used(sql, gsp_sv_of("pragma_functions"));
    const uint64_t missing = (all ? UINT64_MAX : find_named(sql, 0)) & ~*created;
    gsp_auto_buf text = {0};
    struct gsp_macro macro;
    for (size_t i = 0; missing && i < GSP_MACROS_MAX && gsp_store__macro_at(i, &macro); i++) {
        if (!((missing >> i) & 1))
            continue;
        gsp_buf_putsv(&text, macro.sql);
        gsp_buf_putc(&text, '\n');
    }
    if (text.len == 0 && !text.failed)
        return GSP_OK;
    const char *statements = gsp_buf_cstr(&text);
    int rc = statements ? gsp_store__sql_run(store, statements, err) : gsp_err_nomem(err);
    if (rc == GSP_OK)
        *created |= missing;
    return rc;
}
