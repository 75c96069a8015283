/* SPDX-License-Identifier: Apache-2.0 */
#include "digest/verdict.h"

#include "digest/digest_internal.h"

int gsp_digest_judge(struct gsp_digest *digest, struct gsp_err *err)
{
    digest->verdict_count = 0;
    digest->card_count = 0;
    return digest->no_memory ? gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a report") : GSP_OK;
}

void gsp_digest_verdict_text(const struct gsp_digest *digest, struct gsp_buf *out)
{
    for (size_t i = 0; i < digest->verdict_count; i++) {
        gsp_buf_term(out, digest->verdict[i]);
        gsp_buf_putc(out, '\n');
    }
}
