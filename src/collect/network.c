/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "collect/devices.h"

static void put_network(struct gsp_device_file *file, const struct gsp_collect_tick *tick,
                        const struct gsp_device_line *line, const struct gsp_device *device,
                        double seconds, struct gsp_collect_sink *sink)
{
    (void)file;
    struct gsp_row_system_network row;
    const uint64_t *now = line->counters;
    const uint64_t *last = device->last;
    gsp_collect__blank(GSP_TABLE_system_network, &row);
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
}

static bool is_unused(const struct gsp_device_line *line)
{
    return line->counters[GSP_NET_RX_PACKETS] == 0 && line->counters[GSP_NET_TX_PACKETS] == 0;
}

static const struct gsp_device_kind KIND = {
    .name = "net/dev",
    .parse = gsp_collect__parse_net,
    .is_unused = is_unused,
    .put = put_network,
};

static int open_network(const struct gsp_collect_env *env, void **out, struct gsp_err *err)
{
    return gsp_collect__devices_open(&KIND, env, out, err);
}

const struct gsp_collector_type gsp_collect__network = {
    .name = "network",
    .doc = "network devices in use, from /proc/net/dev",
    .open = open_network,
    .read = gsp_collect__devices_read,
    .trouble = offsetof(struct gsp_device_file, trouble),
    .close = gsp_collect__devices_close,
};
