/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/devices.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"

#define DEVICES_MAX 4096U

static void begin_round(struct gsp_devices *devices)
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

/* The device of that name, added with *is_new if it was not in the previous round. NULL if there
 * are too many, or memory runs out. Borrowed until the next call. */
static struct gsp_device *find_or_add(struct gsp_devices *devices, struct gsp_sv name, bool *is_new)
{
    *is_new = false;
    if (name.len >= GSP_DEVICE_NAME_MAX)
        name.len = GSP_DEVICE_NAME_MAX - 1;
    struct gsp_device *device = find(devices, name);
    if (device) {
        device->round = devices->round;
        return device;
    }
    if (devices->count == DEVICES_MAX ||
        !gsp_array_fit(&devices->at, &devices->cap, devices->count + 1))
        return NULL;
    device = &devices->at[devices->count++];
    *device = (struct gsp_device){.round = devices->round};
    memcpy(device->name, name.p, name.len);
    *is_new = true;
    devices->next = devices->count;
    return device;
}

/* Removes the devices that were not listed in this round. */
static void end_round(struct gsp_devices *devices)
{
    size_t kept = 0;
    for (size_t i = 0; i < devices->count; i++)
        if (devices->at[i].round == devices->round)
            devices->at[kept++] = devices->at[i];
    devices->count = kept;
}

int gsp_collect__devices_open(const struct gsp_device_kind *kind, const struct gsp_collect_env *env,
                              void **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_device_file *file = calloc(1, sizeof(*file));
    if (!file)
        return gsp_err_nomem(err);
    *file = (struct gsp_device_file){
        .kind = kind,
        .env = *env,
        .fd = gsp_collect__open("%s/%s", env->proc_root, kind->name),
    };
    if (file->fd < 0) {
        free(file);
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s/%s cannot be read", env->proc_root,
                           kind->name);
    }
    *out = file;
    return GSP_OK;
}

void gsp_collect__devices_close(void *collector)
{
    struct gsp_device_file *file = collector;
    if (!file)
        return;
    gsp_fd_close(&file->fd);
    free(file->devices.at);
    gsp_buf_free(&file->text);
    free(file);
}

static void read_line(struct gsp_device_file *file, const struct gsp_device_line *line,
                      const struct gsp_collect_tick *tick, struct gsp_collect_sink *sink)
{
    bool is_new = false;
    struct gsp_device *device = find_or_add(&file->devices, line->name, &is_new);
    if (!device)
        return;
    if (is_new)
        device->is_used = !file->kind->is_relevant || file->kind->is_relevant(file, device->name);
    if (!device->is_used)
        return;
    const double seconds = device->has_last ? gsp_collect__seconds(file->last_mono_ns, tick) : 0;
    file->kind->put(file, tick, line, device, seconds, sink);
    memcpy(device->last, line->counters, sizeof(device->last));
    device->has_last = true;
}

void gsp_collect__devices_read(void *collector, const struct gsp_collect_tick *tick,
                               struct gsp_collect_sink *sink)
{
    struct gsp_device_file *file = collector;
    gsp_collect__trouble_begin(&file->trouble);
    if (gsp_collect__read(file->fd, &file->text) != 0)
        gsp_collect__trouble_add(&file->trouble, "%s/%s cannot be read", file->env.proc_root,
                                 file->kind->name);
    struct gsp_text_scan rest = gsp_collect__scan_of(gsp_buf_sv(&file->text));
    struct gsp_text_scan line;
    begin_round(&file->devices);
    while (gsp_collect__scan_line(&rest, &line)) {
        struct gsp_device_line parsed;
        if (file->kind->parse(line, &parsed) && !file->kind->is_unused(&parsed))
            read_line(file, &parsed, tick, sink);
    }
    end_round(&file->devices);
    file->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&file->trouble);
}
