/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_collect_proc.c -- runs every parser of /proc and /sys over the same hostile text, and checks
 * invariants of the results.
 */
#include <stdint.h>
#include <stdlib.h>

#include "collect/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_inside(struct gsp_sv part, struct gsp_sv text)
{
    require(part.len == 0 || (part.p >= text.p && part.p + part.len <= text.p + text.len));
}

static void parse_lines(struct gsp_sv text)
{
    struct gsp_text_scan rest = gsp_collect__scan_of(text);
    struct gsp_text_scan line;
    while (gsp_collect__scan_line(&rest, &line)) {
        struct gsp_device_line device;
        if (gsp_collect__parse_disk(line, &device))
            require_inside(device.name, text);
        if (gsp_collect__parse_net(line, &device))
            require_inside(device.name, text);
    }
}

static void parse_groups(struct gsp_sv text)
{
    static const char *const names[] = {"", "memory", "cpu"};
    uint64_t a = 0;
    uint64_t b = 0;
    for (size_t i = 0; i < GSP_COUNT(names); i++) {
        struct gsp_sv path;
        if (gsp_collect__parse_cgroup(text, names[i], &path)) {
            require_inside(path, text);
            require(path.len > 0 && path.p[0] == '/');
        }
    }
    if (gsp_collect__parse_cpu_max(text, &a, &b))
        require(b > 0);
    require(gsp_collect__parse_cpu_list(text) <= 65536ULL * (text.len + 1));
}

static void parse_process(struct gsp_sv text)
{
    struct gsp_pid_stat stat;
    uint64_t value = 0;
    bool nested = false;
    require_inside(gsp_collect__parse_selected(text), text);
    if (gsp_collect__parse_pid_stat(text, &stat))
        require_inside(stat.comm, text);
    struct gsp_schedstat sched;
    gsp_ignore(gsp_collect__parse_schedstat(text, &sched));
    gsp_ignore(gsp_collect__parse_nspid(text, &value, &nested));
    gsp_ignore(gsp_collect__parse_env(text, "RANK", &value));
    if (gsp_collect__parse_number(text, &value))
        require(value != GSP_UNKNOWN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"MemTotal", "pgfault", "file", "read_bytes"};
    const struct gsp_sv text = {(const char *)data, size};
    struct gsp_cpu_line lines[4];
    struct gsp_loadavg load;
    struct gsp_pressure pressure;
    uint64_t values[GSP_COUNT(keys)];
    uint64_t ctx = 0;
    const size_t count = gsp_collect__parse_stat(text, lines, GSP_COUNT(lines), &ctx);
    for (size_t i = 0; i < count && i < GSP_COUNT(lines); i++)
        require(lines[i].cpu >= -1 && lines[i].cpu < 65536);
    require(gsp_collect__parse_keys(text, keys, GSP_COUNT(keys), values) <= GSP_COUNT(keys));
    gsp_collect__parse_pressure(text, &pressure);
    if (gsp_collect__parse_loadavg(text, &load))
        require(load.load_1m >= 0);
    parse_lines(text);
    parse_groups(text);
    parse_process(text);
    return 0;
}
