/* SPDX-License-Identifier: Apache-2.0 */
#include "export/page.h"
#include "tap.h"

static const char open_tag[] = "<script type=\"application/json\" id=\"document\">";

/* The content of the document's element. */
static struct gsp_sv document_of(const char *page)
{
    const char *start = strstr(page, open_tag);
    tap_require(start != NULL);
    start += strlen(open_tag);
    const char *end = strstr(start, "</script>");
    tap_require(end != NULL);
    return (struct gsp_sv){start, (size_t)(end - start)};
}

TAP_TEST(the_page_contains_the_document)
{
    struct gsp_buf out = {0};
    struct gsp_err err = {0};
    tap_eq_int(gsp_export_page_write(gsp_sv_of("{\"title\": \"train.py\"}"), &out, &err), GSP_OK);
    const char *page = gsp_buf_cstr(&out);
    tap_require(page != NULL);
    tap_check(gsp_sv_eq(document_of(page), gsp_sv_of("{\"title\": \"train.py\"}")));
    tap_check(strncmp(page, "<!doctype html>", 15) == 0);
    tap_check(strstr(page, "Content-Security-Policy") != NULL);
    tap_check(strstr(page, "GSPROF_DOCUMENT") == NULL);
    gsp_buf_free(&out);
}

TAP_TEST(no_string_can_end_the_element)
{
    struct gsp_buf out = {0};
    struct gsp_err err = {0};
    struct gsp_sv evil = gsp_sv_of("[\"</script><script>alert(1)</script>\", \"<!--<script>\"]");
    tap_eq_int(gsp_export_page_write(evil, &out, &err), GSP_OK);
    struct gsp_sv document = document_of(gsp_buf_cstr(&out));
    tap_check(memchr(document.p, '<', document.len) == NULL);
    tap_check(
        gsp_sv_eq(document, gsp_sv_of("[\"\\u003c/script>\\u003cscript>alert(1)\\u003c/script>\", "
                                      "\"\\u003c!--\\u003cscript>\"]")));
    gsp_buf_free(&out);
}

TAP_TEST(the_page_loads_nothing_from_the_network)
{
    struct gsp_buf out = {0};
    struct gsp_err err = {0};
    tap_eq_int(gsp_export_page_write((struct gsp_sv){NULL, 0}, &out, &err), GSP_OK);
    const char *page = gsp_buf_cstr(&out);
    tap_check(strstr(page, " src=") == NULL);
    tap_check(strstr(page, "<link") == NULL);
    tap_check(strstr(page, "default-src 'none'") != NULL);
    gsp_buf_free(&out);
}

TAP_MAIN()
