/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "collect/devices.h"
#include "collect/source.h"

#define SECTOR_BYTES 512.0

struct gsp_collector {
    struct gsp_collect_env env;
    struct gsp_row_system_disk blank;
    int fd;
    struct gsp_buf text;
    int64_t last_mono_ns;
    struct gsp_devices devices;
    struct gsp_trouble trouble;
};

static void close_disk(struct gsp_collector *self)
{
    if (!self)
        return;
    gsp_fd_close(&self->fd);
    gsp_collect__devices_free(&self->devices);
    gsp_buf_free(&self->text);
    free(self);
}

static int open_disk(const struct gsp_collect_env *env, struct gsp_collector **out,
                     struct gsp_err *err)
{
    *out = NULL;
    struct gsp_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a source");
    self->env = *env;
    gsp_collect__blank(GSP_TABLE_system_disk, &self->blank);
    self->fd = gsp_collect__open("%s/diskstats", env->proc_root);
    if (self->fd < 0) {
        close_disk(self);
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s/diskstats cannot be read", env->proc_root);
    }
    *out = self;
    return 0;
}

/* A whole device, not a partition: those have no folder of their own in block/.  The kernel
 * writes a '/' of a name as '!' there. */
static bool is_whole(const struct gsp_collector *self, const char *name)
{
    char path[PATH_MAX];
    char block[GSP_DEVICE_NAME_MAX];
    snprintf(block, sizeof(block), "%s", name);
    for (char *p = strchr(block, '/'); p; p = strchr(p, '/'))
        *p = '!';
    const int n = snprintf(path, sizeof(path), "%s/block/%s", self->env.sys_root, block);
    return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

/* Nothing was ever read or written: loop devices and memory disks that nobody uses. */
static bool is_unused(const struct gsp_device_line *line)
{
    return line->counters[GSP_DISK_READS] == 0 && line->counters[GSP_DISK_WRITES] == 0;
}

static void put_disk(struct gsp_collector *self, const struct gsp_tick *tick,
                     const struct gsp_device_line *line, struct gsp_device *device,
                     struct gsp_sink *sink)
{
    struct gsp_row_system_disk row = self->blank;
    const double seconds = device->has_last ? gsp_collect__seconds(self->last_mono_ns, tick) : 0;
    const uint64_t *now = line->counters;
    const uint64_t *last = device->last;
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.device = sink->intern(sink, GSP_TABLE_system_disk, gsp_sv_of(device->name));
    row.reads_per_s = gsp_collect__rate(now[GSP_DISK_READS], last[GSP_DISK_READS], seconds);
    row.writes_per_s = gsp_collect__rate(now[GSP_DISK_WRITES], last[GSP_DISK_WRITES], seconds);
    row.read_bytes_per_s =
        gsp_collect__rate(now[GSP_DISK_READ_SECTORS], last[GSP_DISK_READ_SECTORS], seconds);
    row.write_bytes_per_s =
        gsp_collect__rate(now[GSP_DISK_WRITE_SECTORS], last[GSP_DISK_WRITE_SECTORS], seconds);
    row.util_percent = gsp_collect__rate(now[GSP_DISK_BUSY_MS], last[GSP_DISK_BUSY_MS], seconds);
    if (!gsp_is_null_f64(row.read_bytes_per_s))
        row.read_bytes_per_s *= SECTOR_BYTES;
    if (!gsp_is_null_f64(row.write_bytes_per_s))
        row.write_bytes_per_s *= SECTOR_BYTES;
    if (!gsp_is_null_f64(row.util_percent)) {
        /* The kernel counts in its own ticks: a short interval can seem longer than it was. */
        row.util_percent /= 10;
        row.util_percent = row.util_percent > 100 ? 100 : row.util_percent;
    }
    sink->row(sink, GSP_TABLE_system_disk, &row);
    memcpy(device->last, now, sizeof(device->last));
    device->has_last = true;
}

static void read_disk(struct gsp_collector *self, const struct gsp_tick *tick,
                      struct gsp_sink *sink)
{
    gsp_collect__trouble_begin(&self->trouble);
    if (gsp_collect__read(self->fd, &self->text) != 0)
        gsp_collect__trouble_add(&self->trouble, "%s/diskstats cannot be read",
                                 self->env.proc_root);
    struct gsp_scan rest = gsp_collect__scan_of(gsp_buf_sv(&self->text));
    struct gsp_scan line;
    gsp_collect__devices_begin(&self->devices);
    while (gsp_collect__scan_line(&rest, &line)) {
        struct gsp_device_line parsed;
        bool is_new = false;
        if (!gsp_collect__parse_disk(line, &parsed) || is_unused(&parsed))
            continue;
        struct gsp_device *device = gsp_collect__devices_get(&self->devices, parsed.name, &is_new);
        if (!device)
            break;
        if (is_new)
            device->wanted = is_whole(self, device->name);
        if (device->wanted)
            put_disk(self, tick, &parsed, device, sink);
    }
    gsp_collect__devices_end(&self->devices);
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

static const char *trouble_disk(const struct gsp_collector *self)
{
    return gsp_collect__trouble_get(&self->trouble);
}

const struct gsp_collector_type gsp_collect__disk = {
    .name = "disk",
    .doc = "block devices in use, from /proc/diskstats",
    .open = open_disk,
    .read = read_disk,
    .trouble = trouble_disk,
    .close = close_disk,
};
