/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "daemon/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *ctx, struct gsp_sv key, struct gsp_sv value, unsigned line GSP_UNUSED,
                struct gsp_err *err)
{
    int i = gsp_daemon_setting_find(key);
    gsp_ignore(gsp_daemon__setting_nearest(key) != NULL);
    /* Continues after an invalid value, to parse the lines after it. */
    if (i >= 0)
        gsp_ignore(gsp_daemon_setting_set(ctx, (size_t)i, value, GSP_FROM_FILE, err));
    return GSP_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gsp_settings settings;
    struct gsp_err err = {0};
    const struct gsp_sv text = {(const char *)data, size};
    gsp_ignore(gsp_daemon__settings_parse(text, take, &settings, &err));
    return 0;
}
