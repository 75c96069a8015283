/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "http/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void visit(const struct gsp_body *body)
{
    struct gsp_sv text = {0};
    struct gsp_http_body_ints ints = {0};
    bool flag = false;
    double number = 0;
    struct gsp_buf object = {0};
    gsp_ignore(gsp_http_body_text(body, "name", &text, NULL));
    gsp_ignore(gsp_http_body_bool(body, "force", &flag, NULL));
    gsp_ignore(gsp_http_body_f64(body, "rate", &number, NULL));
    gsp_ignore(gsp_http_body_ints(body, "pids", 1, INT32_MAX, &ints, NULL));
    gsp_ignore(gsp_http_body_object(body, "labels", &object, NULL));
    for (size_t i = 0; i < 64 && gsp_http_body_member(body, i, &text, &object); i++)
        gsp_buf_clear(&object);
    free(ints.at);
    gsp_buf_free(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gsp_body *body = NULL;
    const struct gsp_sv text = {(const char *)data, size};
    if (gsp_http_body_read(text, &body, NULL) == GSP_OK)
        visit(body);
    gsp_http_body_free(body);
    return 0;
}
