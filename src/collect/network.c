/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "collect/devices.h"
#include "collect/source.h"

struct gsp_collector {
    struct gsp_collect_env env;
    struct gsp_row_system_network blank;
    int fd;
    struct gsp_buf text;
    int64_t last_mono_ns;
    struct gsp_devices devices;
    struct gsp_trouble trouble;
};

static void close_network(struct gsp_collector *self)
{
    if (!self)
        return;
    gsp_fd_close(&self->fd);
    gsp_collect__devices_free(&self->devices);
    gsp_buf_free(&self->text);
    free(self);
}

static int open_network(const struct gsp_collect_env *env, struct gsp_collector **out,
                        struct gsp_err *err)
{
    *out = NULL;
    struct gsp_collector *self = calloc(1, sizeof(*self));
    if (!self)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a source");
    self->env = *env;
    gsp_collect__blank(GSP_TABLE_system_network, &self->blank);
    self->fd = gsp_collect__open("%s/net/dev", env->proc_root);
    if (self->fd < 0) {
        close_network(self);
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s/net/dev cannot be read", env->proc_root);
    }
    *out = self;
    return 0;
}

static void put_network(struct gsp_collector *self, const struct gsp_tick *tick,
                        const struct gsp_device_line *line, struct gsp_device *device,
                        struct gsp_sink *sink)
{
    struct gsp_row_system_network row = self->blank;
    const double seconds = device->has_last ? gsp_collect__seconds(self->last_mono_ns, tick) : 0;
    const uint64_t *now = line->counters;
    const uint64_t *last = device->last;
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.device = sink->intern(sink, GSP_TABLE_system_network, gsp_sv_of(device->name));
    row.rx_bytes_per_s = gsp_collect__rate(now[GSP_NET_RX_BYTES], last[GSP_NET_RX_BYTES], seconds);
    row.tx_bytes_per_s = gsp_collect__rate(now[GSP_NET_TX_BYTES], last[GSP_NET_TX_BYTES], seconds);
    row.rx_packets_per_s =
        gsp_collect__rate(now[GSP_NET_RX_PACKETS], last[GSP_NET_RX_PACKETS], seconds);
    row.tx_packets_per_s =
        gsp_collect__rate(now[GSP_NET_TX_PACKETS], last[GSP_NET_TX_PACKETS], seconds);
    row.errors_per_s = gsp_collect__rate(now[GSP_NET_ERRORS], last[GSP_NET_ERRORS], seconds);
    sink->row(sink, GSP_TABLE_system_network, &row);
    memcpy(device->last, now, sizeof(device->last));
    device->has_last = true;
}

static void read_network(struct gsp_collector *self, const struct gsp_tick *tick,
                         struct gsp_sink *sink)
{
    gsp_collect__trouble_begin(&self->trouble);
    if (gsp_collect__read(self->fd, &self->text) != 0)
        gsp_collect__trouble_add(&self->trouble, "%s/net/dev cannot be read", self->env.proc_root);
    struct gsp_scan rest = gsp_collect__scan_of(gsp_buf_sv(&self->text));
    struct gsp_scan line;
    gsp_collect__devices_begin(&self->devices);
    while (gsp_collect__scan_line(&rest, &line)) {
        struct gsp_device_line parsed;
        bool is_new = false;
        /* A device that never had a packet is not worth a row. */
        if (!gsp_collect__parse_net(line, &parsed) ||
            (parsed.counters[GSP_NET_RX_PACKETS] == 0 && parsed.counters[GSP_NET_TX_PACKETS] == 0))
            continue;
        struct gsp_device *device = gsp_collect__devices_get(&self->devices, parsed.name, &is_new);
        if (!device)
            break;
        put_network(self, tick, &parsed, device, sink);
    }
    gsp_collect__devices_end(&self->devices);
    self->last_mono_ns = tick->mono_ns;
    gsp_collect__trouble_end(&self->trouble);
}

static const char *trouble_network(const struct gsp_collector *self)
{
    return gsp_collect__trouble_get(&self->trouble);
}

const struct gsp_collector_type gsp_collect__network = {
    .name = "network",
    .doc = "network devices in use, from /proc/net/dev",
    .open = open_network,
    .read = read_network,
    .trouble = trouble_network,
    .close = close_network,
};
