/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/devices.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 4096U

void gsp_collect__devices_free(struct gsp_devices *devices)
{
    free(devices->at);
    *devices = (struct gsp_devices){0};
}

void gsp_collect__devices_begin(struct gsp_devices *devices)
{
    devices->round++;
    devices->next = 0;
}

static bool is_named(const struct gsp_device *device, struct gsp_sv name)
{
    return strlen(device->name) == name.len && memcmp(device->name, name.p, name.len) == 0;
}

static struct gsp_device *find(struct gsp_devices *devices, struct gsp_sv name)
{
    for (size_t i = 0; i < devices->count; i++) {
        const size_t at = (devices->next + i) % devices->count;
        if (is_named(&devices->at[at], name)) {
            devices->next = at + 1;
            return &devices->at[at];
        }
    }
    return NULL;
}

struct gsp_device *gsp_collect__devices_get(struct gsp_devices *devices, struct gsp_sv name,
                                            bool *is_new)
{
    *is_new = false;
    if (name.len >= GSP_DEVICE_NAME_MAX)
        name.len = GSP_DEVICE_NAME_MAX - 1;
    struct gsp_device *device = find(devices, name);
    if (device) {
        device->round = devices->round;
        return device;
    }
    if (devices->count == devices->cap) {
        const size_t cap = devices->cap ? devices->cap * 2 : 16;
        struct gsp_device *at = cap <= DEVICES_MAX ? realloc(devices->at, cap * sizeof(*at)) : NULL;
        if (!at)
            return NULL;
        devices->at = at;
        devices->cap = cap;
    }
    device = &devices->at[devices->count++];
    *device = (struct gsp_device){.round = devices->round};
    memcpy(device->name, name.p, name.len);
    *is_new = true;
    devices->next = devices->count;
    return device;
}

void gsp_collect__devices_end(struct gsp_devices *devices)
{
    size_t kept = 0;
    for (size_t i = 0; i < devices->count; i++) {
        if (devices->at[i].round == devices->round)
            devices->at[kept++] = devices->at[i];
    }
    devices->count = kept;
}
