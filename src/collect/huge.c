/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/huge.h"

#include <stdio.h>

#include "base/file.h"
#include "collect/parse.h"

#define TEXT_MAX 4096U

int64_t gsp_collect_huge_bytes(pid_t pid)
{
    static const char *const key = "AnonHugePages";
    char path[64];
    uint64_t bytes = GSP_UNKNOWN;
    gsp_auto_buf text = {0};
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    if (gsp_file_read(path, TEXT_MAX, &text, NULL) == GSP_OK)
        gsp_collect__parse_keys(gsp_buf_sv(&text), &key, 1, &bytes);
    return bytes <= INT64_MAX ? (int64_t)bytes : -1;
}

void gsp_collect_huge_setting(char out[GSP_HUGE_SETTING_BYTES])
{
    gsp_auto_buf text = {0};
    struct gsp_sv setting = {0};
    if (gsp_file_read("/sys/kernel/mm/transparent_hugepage/enabled", TEXT_MAX, &text, NULL) ==
        GSP_OK)
        setting = gsp_collect__parse_selected(gsp_buf_sv(&text));
    snprintf(out, GSP_HUGE_SETTING_BYTES, "%.*s", (int)setting.len, setting.p ? setting.p : "");
}
