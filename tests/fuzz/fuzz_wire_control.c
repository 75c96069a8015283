/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a control page or, depending on the first byte, a value that a user types. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The canonical text of a value is accepted and does not change. */
static void check_value(size_t id, struct gsp_sv text)
{
    char once[GSP_CONTROL_VALUE];
    char twice[GSP_CONTROL_VALUE];
    if (gsp_wire_setting_row_check(id, text, once, NULL) != 0)
        return;
    if (gsp_wire_setting_row_check(id, gsp_sv_of(once), twice, NULL) != 0 ||
        strcmp(once, twice) != 0)
        abort();
}

/* For any page, its texts are terminated, and a writer repairs it. */
static void check_page(struct gsp_control *page)
{
    char value[GSP_CONTROL_VALUE];
    for (unsigned i = 0; i <= GSP_SET_COUNT; i++)
        if (gsp_wire_control_get(page, (enum gsp_setting_id)i, value) &&
            strnlen(value, sizeof(value)) == sizeof(value))
            abort();
    if (gsp_wire_control_set(page, GSP_SET_torch_rate, "0.5") & 1)
        abort();
    if (!gsp_wire_control_get(page, GSP_SET_torch_rate, value) || strcmp(value, "0.5") != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gsp_control page;
    if (size == 0)
        return 0;
    const struct gsp_sv text = {(const char *)data + 1, size - 1};
    if (data[0] < 0x80) {
        check_value(data[0] % (GSP_SET_COUNT + 1), text);
        gsp_wire_setting_row_find(text);
        return 0;
    }
    memset(&page, 0, sizeof(page));
    memcpy(&page, text.p, text.len < sizeof(page) ? text.len : sizeof(page));
    gsp_wire__control_is_valid(&page, text.len);
    check_page(&page);
    return 0;
}
