/* SPDX-License-Identifier: Apache-2.0 */
/* Text of users and rows of targets in commands: the prompt, endpoints, patterns, the status line
 * of gsprof run. */
#include "cli/prompt.h"
#include "cli/run_status.h"
#include "fuzz_file.h"
#include "source/endpoint.h"
#include "wire/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_prompt(struct gsp_sv text)
{
    gsp_auto_buf common = {0};
    gsp_auto_buf list = {0};
    const struct gsp_words words = {.all = text};
    const struct gsp_sv start = {text.p, text.len < 3 ? text.len : 3};
    (void)gsp_cli__prompt_is_complete(text);
    if (gsp_cli__prompt_complete(&words, start, &common, &list) == 0 && common.len)
        abort();
}

/* Rows of the collectors hold any bits. */
static void check_status(const uint8_t *data, size_t size)
{
    struct gsp_run_status status = {.fd = -1};
    gsp_auto_buf line = {0};
    union {
        struct gsp_row_process_metrics process;
        struct gsp_row_gpu_metrics gpu;
        struct gsp_ring_drain_counts counts;
    } row;
    for (size_t at = 0; size - at >= sizeof(row); at += sizeof(row)) {
        memcpy(&row, data + at, sizeof(row));
        gsp_cli__run_status_row(&status, GSP_TABLE_process_metrics, &row);
        gsp_cli__run_status_row(&status, GSP_TABLE_gpu_metrics, &row);
        row.counts.failing = data[at] & 1;
        row.counts.looked_ns &= INT64_MAX; /* a time of our own clock */
        gsp_cli__run_status_add_reading(&status, &row.counts);
    }
    gsp_cli__run_status_text(&status, status.begin_ns + 1000, &line);
    for (size_t i = 0; i < line.len; i++)
        if ((unsigned char)line.p[i] < 0x20)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gsp_sv text = {(const char *)data, size};
    char *copy = fuzz_text(data, size);
    check_prompt(text);
    check_status(data, size);
    (void)gsp_source_endpoint_is_address(copy);
    (void)gsp_wire__pattern_check(text);
    free(copy);
    return 0;
}
