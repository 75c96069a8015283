/* SPDX-License-Identifier: Apache-2.0 */
#include "report/document_write.h"

#include "export/page.h"
#include "report/document_write_internal.h"

static int write_page(const struct gsp_report *report, struct gsp_buf *out, struct gsp_err *err)
{
    gsp_auto_buf json = {0};
    gsp_report__write_json(report, &json);
    if (json.failed)
        return gsp_err_nomem(err);
    return gsp_export_page_write(gsp_buf_sv(&json), out, err);
}

int gsp_report_write(const struct gsp_report *report, enum gsp_report_format format,
                     const struct gsp_report_write_opts *opts, struct gsp_buf *out,
                     struct gsp_err *err)
{
    static const struct gsp_report_write_opts DEFAULTS = {0};
    int rc = GSP_OK;
    opts = opts ? opts : &DEFAULTS;
    switch (format) {
    case GSP_REPORT_HTML:
        rc = write_page(report, out, err);
        break;
    case GSP_REPORT_JSON:
        gsp_report__write_json(report, out);
        gsp_buf_putc(out, '\n');
        break;
    case GSP_REPORT_CSV:
        rc = gsp_report__write_csv(report, opts, out, err);
        break;
    case GSP_REPORT_MARKDOWN:
        rc = gsp_report__write_markdown(report, opts, out, err);
        break;
    case GSP_REPORT_TEXT:
        rc = gsp_report__write_text(report, opts, out, err);
        break;
    }
    if (rc == GSP_OK && out->failed)
        rc = gsp_err_nomem(err);
    return rc;
}
