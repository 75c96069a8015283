/* SPDX-License-Identifier: Apache-2.0 */
#include "compare/compare_write.h"

#include "compare/compare_write_internal.h"
#include "export/page.h"

int gsp_compare_write(const struct gsp_compare *compare, enum gsp_compare_format format,
                      const struct gsp_compare_write_opts *opts, struct gsp_out *out,
                      struct gsp_err *err)
{
    static const struct gsp_compare_write_opts usual = {0};
    int rc = GSP_OK;
    opts = opts ? opts : &usual;
    switch (format) {
    case GSP_COMPARE_TEXT:
    case GSP_COMPARE_MARKDOWN:
        gsp_compare__write_text(compare, opts, format == GSP_COMPARE_MARKDOWN, &out->buf);
        break;
    case GSP_COMPARE_JSON:
        gsp_compare__write_json(compare, opts, &out->buf);
        break;
    case GSP_COMPARE_HTML: {
        gsp_auto_buf document = {0};
        gsp_compare__write_json(compare, opts, &document);
        out->buf.failed = out->buf.failed || document.failed;
        rc = gsp_export_page_write(gsp_buf_sv(&document), &out->buf, err);
        break;
    }
    case GSP_COMPARE_SVG:
        rc = gsp_compare__write_svg(compare, out, err);
        break;
    }
    if (rc == GSP_OK && out->buf.failed)
        rc = gsp_err_nomem(err);
    return rc;
}
