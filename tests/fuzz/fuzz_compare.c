/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two hostile profiles: the first byte is the share of the input that is the first one. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "compare/compare.h"
#include "compare/compare_write.h"
#include "export/format.h"
#include "report/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gsp_report *open_report(const uint8_t *data, size_t size)
{
    const struct gsp_format *json = gsp_export_format_find("json");
    struct gsp_profile *profile = NULL;
    struct gsp_report *report = NULL;
    if (gsp_model_profile_new(true, &profile, NULL) < 0)
        return NULL;
    if (json->read((struct gsp_sv){(const char *)data, size}, profile, NULL) < 0) {
        gsp_model_profile_free(profile);
        return NULL;
    }
    gsp_ignore(gsp_report__open_profile(profile, "fuzz", NULL, &report, NULL));
    return report;
}

static void write_as(struct gsp_compare *compare, int format)
{
    gsp_auto_fd fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct gsp_out out;
    gsp_out_init(&out, fd);
    gsp_ignore(gsp_compare_write(compare, (enum gsp_compare_format)format, NULL, &out, NULL));
    gsp_ignore(gsp_out_finish(&out, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const size_t first = (size - 1) * data[0] / 255;
    struct gsp_report *a = open_report(data + 1, first);
    struct gsp_report *b = a ? open_report(data + 1 + first, size - 1 - first) : NULL;
    struct gsp_compare *compare = NULL;
    if (a && b && gsp_compare__new(a, b, NULL, &compare, NULL) == GSP_OK)
        for (int format = GSP_COMPARE_TEXT; format <= GSP_COMPARE_SVG; format++)
            write_as(compare, format);
    gsp_compare_free(compare);
    gsp_report_free(a);
    gsp_report_free(b);
    return 0;
}
