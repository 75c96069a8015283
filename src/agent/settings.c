/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/time.h"

#define ROWS       1000U
#define STRINGS    256U
#define TEXT_BYTES (1U << 18)

static _Atomic uint32_t busy; /* lock: 1 while a thread compares and writes */
/* Guarded by busy. */
static char known[GSP_SET_COUNT][GSP_CONTROL_VALUE];
static bool is_known[GSP_SET_COUNT];
static uint32_t known_generation;

static const char *type_name(enum gsp_setting_type type)
{
    switch (type) {
    case GSP_SETTING_BOOL:
        return "on or off";
    case GSP_SETTING_NUMBER:
        return "number";
    case GSP_SETTING_TEXT:
        break;
    }
    return "text";
}

static bool put_row(size_t i, const char *value)
{
    const enum gsp_table_id table = GSP_TABLE_gsprof_setting;
    const struct gsp_wire_setting_row *about = gsp_wire_setting_row(i);
    char name[GSP_NAME_MAX];
    snprintf(name, sizeof(name), "gsprof.%s", about->name);
    const struct gsp_row_gsprof_setting row = {
        .ts_ns = gsp_realtime_ns(),
        .mono_ns = gsp_now_ns(),
        .pid = getpid(),
        .rank = GSP_NULL_I64,
        .name = gsp_agent_intern(table, gsp_sv_of(name)),
        .value = gsp_sv_of(value),
        .type = gsp_agent_intern(table, gsp_sv_of(type_name(about->type))),
        .default_value = gsp_sv_of(about->fallback),
        .description = gsp_sv_of(about->doc),
    };
    return gsp_agent_put(table, &row);
}

void gsp_agent__settings_write(void)
{
    if (!gsp_agent_is_on() || atomic_exchange_explicit(&busy, 1, memory_order_acquire) != 0)
        return;
    const uint32_t generation = atomic_load_explicit(gsp_agent_generation(), memory_order_relaxed);
    if (generation != known_generation) {
        memset(is_known, 0, sizeof(is_known));
        known_generation = generation;
    }
    for (unsigned i = 0; i < GSP_SET_COUNT; i++) {
        char value[GSP_CONTROL_VALUE];
        if (gsp_agent_setting((enum gsp_setting_id)i, value) &&
            !(is_known[i] && strcmp(value, known[i]) == 0) && put_row(i, value)) {
            memcpy(known[i], value, sizeof(value));
            is_known[i] = true;
        }
    }
    /* Partner: the exchange above. */
    atomic_store_explicit(&busy, 0, memory_order_release);
}

void gsp_agent__settings_reset(void)
{
    atomic_store_explicit(&busy, 0, memory_order_release);
}

void gsp_agent__settings_spec(struct gsp_ring_spec *spec)
{
    spec->row_capacity = ROWS;
    spec->string_max = STRINGS;
    spec->string_bytes = TEXT_BYTES;
    spec->text_bytes = TEXT_BYTES;
}
