/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/devices.h"

#define SECTOR_BYTES 512.0

/* A whole device, not a partition: partitions have no folder in block/. The kernel replaces a
 * '/' in the name by '!' there. */
static bool is_whole(const struct gsp_device_file *file, const char *name)
{
    char path[PATH_MAX];
    char block[GSP_DEVICE_NAME_MAX];
    snprintf(block, sizeof(block), "%s", name);
    for (char *p = strchr(block, '/'); p; p = strchr(p, '/'))
        *p = '!';
    const int n = snprintf(path, sizeof(path), "%s/block/%s", file->env.sys_root, block);
    return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

/* Nothing was ever read or written: unused loop devices and RAM disks. */
static bool is_unused(const struct gsp_device_line *line)
{
    return line->counters[GSP_DISK_READS] == 0 && line->counters[GSP_DISK_WRITES] == 0;
}

static void put_disk(struct gsp_device_file *file, const struct gsp_collect_tick *tick,
                     const struct gsp_device_line *line, const struct gsp_device *device,
                     double seconds, struct gsp_collect_sink *sink)
{
    (void)file;
    struct gsp_row_system_disk row;
    const uint64_t *now = line->counters;
    const uint64_t *last = device->last;
    gsp_collect__blank(GSP_TABLE_system_disk, &row);
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
        /* The kernel counts in ticks: a short interval can seem longer than it was. */
        row.util_percent /= 10;
        row.util_percent = row.util_percent > 100 ? 100 : row.util_percent;
    }
    sink->row(sink, GSP_TABLE_system_disk, &row);
}

static const struct gsp_device_kind KIND = {
    .name = "diskstats",
    .parse = gsp_collect__parse_disk,
    .is_unused = is_unused,
    .is_relevant = is_whole,
    .put = put_disk,
};

static int open_disk(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    return gsp_collect__devices_open(&KIND, env, out, err);
}

const struct gsp_collector_type gsp_collect__disk = {
    .name = "disk",
    .doc = "block devices in use, from /proc/diskstats",
    .open = open_disk,
    .read = gsp_collect__devices_read,
    .trouble = offsetof(struct gsp_device_file, trouble),
    .close = gsp_collect__devices_close,
};
