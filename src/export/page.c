/* SPDX-License-Identifier: Apache-2.0 */
#include "export/page.h"

#include <string.h>

extern const char gsp_export__page_html[];

/* Stands in the page where the document goes: web/vite.config.mjs. */
static const char place[] = "@GSPROF_DOCUMENT@";

/* JSON has '<' in strings only, where it may be written as an escape.  Without it nothing can
 * look like the end of the element, or like a comment. */
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

int gsp_page_write(struct gsp_sv document_json, struct gsp_buf *out, struct gsp_err *err)
{
    const char *page = gsp_export__page_html;
    const char *at = strstr(page, place);
    if (!at)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the page has no place for the document");
    gsp_buf_put(out, page, (size_t)(at - page));
    put_document(out, document_json);
    gsp_buf_puts(out, at + strlen(place));
    if (out->failed)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for the page");
    return GSP_OK;
}
