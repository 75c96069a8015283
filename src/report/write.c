/* SPDX-License-Identifier: Apache-2.0 */
#include "report/write.h"

#include "export/page.h"
#include "report/write_internal.h"

static int write_page(const struct gsp_digest *digest, struct gsp_buf *out, struct gsp_err *err)
{
    gsp_auto_buf json = {0};
    gsp_digest__json(digest, &json);
    if (json.failed)
        return gsp_err_nomem(err);
    return gsp_export_page_write(gsp_buf_sv(&json), out, err);
}

int gsp_digest_write(const struct gsp_digest *digest, enum gsp_digest_format format,
                     const struct gsp_report_write_opts *opts, struct gsp_buf *out,
                     struct gsp_err *err)
{
    static const struct gsp_report_write_opts DEFAULTS = {0};
    int rc = GSP_OK;
    opts = opts ? opts : &DEFAULTS;
    switch (format) {
    case GSP_DIGEST_HTML:
        rc = write_page(digest, out, err);
        break;
    case GSP_DIGEST_JSON:
        gsp_digest__json(digest, out);
        gsp_buf_putc(out, '\n');
        break;
    case GSP_DIGEST_CSV:
        rc = gsp_digest__csv(digest, opts, out, err);
        break;
    case GSP_DIGEST_MARKDOWN:
        rc = gsp_digest__markdown(digest, opts, out, err);
        break;
    case GSP_DIGEST_TEXT:
        rc = gsp_digest__text(digest, opts, out, err);
        break;
    }
    if (rc == GSP_OK && out->failed)
        rc = gsp_err_nomem(err);
    return rc;
}
