/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sql_guard.h"

#include <string.h>
#include <strings.h>

#include "store/sql_text.h"

static bool is_char(struct gsp_sv sql, struct gsp_sql_token token, char c)
{
    return token.kind == GSP_SQL_OTHER && sql.p[token.from] == c;
}

/* Returns the first token that is not a semicolon. */
static struct gsp_sql_token first(struct gsp_sv sql)
{
    struct gsp_sql_token token = gsp_store__sql_token(sql, 0);
    while (is_char(sql, token, ';'))
        token = gsp_store__sql_token(sql, token.to);
    return token;
}

bool gsp_store__sql_is_pragma(struct gsp_sv sql)
{
    return gsp_store__sql_word_is(sql, first(sql), "pragma");
}

bool gsp_store__sql_may_read(struct gsp_sv sql)
{
    static const char *const STARTS[] = {"select",    "with",    "from",     "values",
                                         "table",     "show",    "describe", "desc",
                                         "summarize", "explain", "pivot",    "unpivot"};
    const struct gsp_sql_token token = first(sql);
    bool found = token.kind == GSP_SQL_END || is_char(sql, token, '(');
    for (size_t i = 0; i < GSP_COUNT(STARTS); i++)
        found = found || gsp_store__sql_word_is(sql, token, STARTS[i]);
    return found;
}

bool gsp_store__sql_is_one(struct gsp_sv sql)
{
    bool ended = false;
    struct gsp_sql_token token = first(sql);
    for (; token.kind != GSP_SQL_END; token = gsp_store__sql_token(sql, token.to)) {
        const bool is_end = is_char(sql, token, ';');
        if (ended && !is_end)
            return false;
        ended = ended || is_end;
    }
    return true;
}

static bool is_refused(struct gsp_sv sql, struct gsp_sql_token token)
{
    static const char *const PREFIXES[] = {"enable_", "disable_", "arrow_scan"};
    static const char *const NAMES[] = {
        "checkpoint", "force_checkpoint",           "truncate_duckdb_logs", "write_log",
        "query",      "json_execute_serialized_sql"};
    const struct gsp_sv name = gsp_store__sql_name(sql, token);
    bool refused = false;
    for (size_t i = 0; i < GSP_COUNT(PREFIXES); i++) {
        const size_t len = strlen(PREFIXES[i]);
        refused = refused || (name.len >= len && strncasecmp(name.p, PREFIXES[i], len) == 0);
    }
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        refused = refused || gsp_store__sql_word_is(sql, token, NAMES[i]);
    return refused;
}

int gsp_store__sql_check_calls(struct gsp_sv sql, struct gsp_err *err)
{
    struct gsp_sql_token token = gsp_store__sql_token(sql, 0);
    while (token.kind != GSP_SQL_END) {
        const struct gsp_sql_token next = gsp_store__sql_token(sql, token.to);
        if (token.kind == GSP_SQL_WORD && is_char(sql, next, '(') && is_refused(sql, token)) {
            const struct gsp_sv name = gsp_store__sql_name(sql, token);
            return gsp_err_set(err, GSP_E_PERM, 0, "the function %.*s is not allowed here",
                               (int)(name.len < 60 ? name.len : 60), name.p);
        }
        token = next;
    }
    return GSP_OK;
}
