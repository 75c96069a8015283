/* SPDX-License-Identifier: Apache-2.0 */
#include "export/page.h"

#include <string.h>

extern const char gsp_export__page_html[];

/* The document's placeholder in the page, set by web/vite.config.mjs. */
static const char placeholder[] = "@GSPROF_DOCUMENT@";

/* Escapes '<', which in JSON occurs only in strings. Without it, no text can end the element or
 * begin a comment. */
static void put_document(struct gsp_buf *out, struct gsp_sv json)
{
    while (json.len > 0) {
        const char *mark = memchr(json.p, '<', json.len);
        size_t len = mark ? (size_t)(mark - json.p) : json.len;
        gsp_buf_put(out, json.p, len);
        if (!mark)
            return;
        gsp_buf_puts(out, "\\u003c");
        json.p += len + 1;
        json.len -= len + 1;
    }
}

int gsp_export_page_write(struct gsp_sv document_json, struct gsp_buf *out, struct gsp_err *err)
{
    const char *page = gsp_export__page_html;
    const char *at = strstr(page, placeholder);
    if (!at)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the page has no placeholder for the document");
    gsp_buf_put(out, page, (size_t)(at - page));
    put_document(out, document_json);
    gsp_buf_puts(out, at + strlen(placeholder));
    if (out->failed)
        return gsp_err_nomem(err);
    return GSP_OK;
}
