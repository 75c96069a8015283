/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/parse.h"

#include <string.h>

/* Fields of a cpu line in their order (proc(5)). */
enum stat_field { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, STAT_FIELDS };

/* CPU numbers above this are malformed. */
#define CPUS_MAX 65536U

/* Saturates below UNKNOWN: the numbers may be hostile. */
static uint64_t add(uint64_t a, uint64_t b)
{
    return a > GSP_UNKNOWN - 1 - b ? GSP_UNKNOWN - 1 : a + b;
}

/* "cpu  1 2 …" or "cpu0 1 2 …"; older kernels have fewer fields, newer ones more. */
static bool parse_cpu_line(struct gsp_text_scan line, struct gsp_cpu_line *out)
{
    uint64_t number = 0;
    uint64_t f[STAT_FIELDS] = {0};
    if (!gsp_collect__scan_text(&line, "cpu") || line.p == line.end)
        return false;
    out->cpu = -1;
    if (*line.p != ' ') {
        if (!gsp_collect__scan_u64(&line, &number) || number >= CPUS_MAX)
            return false;
        out->cpu = (int64_t)number;
    }
    size_t count = 0;
    while (count < STAT_FIELDS && gsp_collect__scan_u64(&line, &f[count]))
        count++;
    if (count <= IDLE)
        return false;
    out->ticks[GSP_CPU_USER] = add(f[USER], f[NICE]);
    out->ticks[GSP_CPU_SYSTEM] = add(f[SYSTEM], add(f[IRQ], f[SOFTIRQ]));
    out->ticks[GSP_CPU_IDLE] = f[IDLE];
    out->ticks[GSP_CPU_IOWAIT] = f[IOWAIT];
    out->ticks[GSP_CPU_STEAL] = f[STEAL];
    return true;
}

size_t gsp_collect__parse_stat(struct gsp_sv text, struct gsp_cpu_line *lines, size_t cap,
                               uint64_t *ctx_switches)
{
    struct gsp_text_scan rest = gsp_collect__scan_of(text);
    struct gsp_text_scan line;
    size_t count = 0;
    bool done = false;
    *ctx_switches = GSP_UNKNOWN;
    while (!done && gsp_collect__scan_line(&rest, &line)) {
        struct gsp_cpu_line cpu;
        if (parse_cpu_line(line, &cpu)) {
            if (count < cap)
                lines[count] = cpu;
            count++;
        } else if (gsp_collect__scan_text(&line, "ctxt ")) {
            done = gsp_collect__scan_u64(&line, ctx_switches);
        }
    }
    return count;
}

static bool is_key(struct gsp_sv word, const char *key, size_t key_len)
{
    if (word.len > 0 && word.p[word.len - 1] == ':')
        word.len--;
    return word.len == key_len && memcmp(word.p, key, key_len) == 0;
}

struct gsp_sv gsp_collect__parse_selected(struct gsp_sv text)
{
    struct gsp_text_scan rest = gsp_collect__scan_of(text);
    struct gsp_sv word;
    while (gsp_collect__scan_word(&rest, &word))
        if (word.len > 2 && word.p[0] == '[' && word.p[word.len - 1] == ']')
            return (struct gsp_sv){word.p + 1, word.len - 2};
    return (struct gsp_sv){0};
}

size_t gsp_collect__parse_keys(struct gsp_sv text, const char *const *keys, size_t count,
                               uint64_t *out)
{
    struct gsp_text_scan rest = gsp_collect__scan_of(text);
    struct gsp_text_scan line;
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = GSP_UNKNOWN;
    while (found < count && gsp_collect__scan_line(&rest, &line)) {
        struct gsp_sv word;
        struct gsp_sv unit;
        size_t i = 0;
        if (!gsp_collect__scan_word(&line, &word))
            continue;
        while (i < count && !is_key(word, keys[i], strlen(keys[i])))
            i++;
        uint64_t value = 0;
        if (i == count || out[i] != GSP_UNKNOWN || !gsp_collect__scan_u64(&line, &value))
            continue;
        const bool is_kb =
            gsp_collect__scan_word(&line, &unit) && unit.len == 2 && memcmp(unit.p, "kB", 2) == 0;
        if (is_kb && value > (GSP_UNKNOWN - 1) / 1024)
            continue;
        out[i] = is_kb ? value * 1024 : value;
        found += out[i] != GSP_UNKNOWN;
    }
    return found;
}

bool gsp_collect__parse_number(struct gsp_sv text, uint64_t *out)
{
    struct gsp_text_scan scan = gsp_collect__scan_of(text);
    uint64_t value = 0;
    if (!gsp_collect__scan_u64(&scan, &value) || value == GSP_UNKNOWN)
        return false;
    *out = value;
    return true;
}

bool gsp_collect__parse_loadavg(struct gsp_sv text, struct gsp_loadavg *out)
{
    struct gsp_text_scan scan = gsp_collect__scan_of(text);
    struct gsp_loadavg load = {0};
    if (!gsp_collect__scan_f64(&scan, &load.load_1m) || !gsp_collect__scan_skip(&scan, 2) ||
        !gsp_collect__scan_u64(&scan, &load.runnable) || !gsp_collect__scan_text(&scan, "/") ||
        !gsp_collect__scan_u64(&scan, &load.threads))
        return false;
    *out = load;
    return true;
}

static bool scan_numbers(struct gsp_text_scan *scan, uint64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!gsp_collect__scan_u64(scan, &out[i]))
            return false;
    return true;
}

bool gsp_collect__parse_disk(struct gsp_text_scan line, struct gsp_device_line *out)
{
    /* reads merged sectors ms, writes merged sectors ms, in flight, busy ms */
    uint64_t f[10];
    *out = (struct gsp_device_line){0};
    if (!gsp_collect__scan_skip(&line, 2) || !gsp_collect__scan_word(&line, &out->name) ||
        !scan_numbers(&line, f, GSP_COUNT(f)))
        return false;
    out->counters[GSP_DISK_READS] = f[0];
    out->counters[GSP_DISK_READ_SECTORS] = f[2];
    out->counters[GSP_DISK_WRITES] = f[4];
    out->counters[GSP_DISK_WRITE_SECTORS] = f[6];
    out->counters[GSP_DISK_BUSY_MS] = f[9];
    return true;
}

bool gsp_collect__parse_net(struct gsp_text_scan line, struct gsp_device_line *out)
{
    /* received: bytes packets errs drop fifo frame compressed multicast; sent: the same */
    uint64_t f[12];
    *out = (struct gsp_device_line){0};
    while (line.p < line.end && *line.p == ' ')
        line.p++;
    const char *colon = line.p < line.end ? memchr(line.p, ':', (size_t)(line.end - line.p)) : NULL;
    if (!colon || colon == line.p)
        return false;
    out->name = (struct gsp_sv){line.p, (size_t)(colon - line.p)};
    line.p = colon + 1;
    if (!scan_numbers(&line, f, GSP_COUNT(f)))
        return false;
    out->counters[GSP_NET_RX_BYTES] = f[0];
    out->counters[GSP_NET_RX_PACKETS] = f[1];
    out->counters[GSP_NET_TX_BYTES] = f[8];
    out->counters[GSP_NET_TX_PACKETS] = f[9];
    out->counters[GSP_NET_ERRORS] = add(add(f[2], f[3]), add(f[10], f[11]));
    return true;
}

static void parse_stall(struct gsp_text_scan line, struct gsp_stall *out)
{
    struct gsp_sv word;
    bool has_avg = false;
    bool has_total = false;
    while (gsp_collect__scan_word(&line, &word)) {
        struct gsp_text_scan part = gsp_collect__scan_of(word);
        if (gsp_collect__scan_text(&part, "avg10="))
            has_avg = gsp_collect__scan_f64(&part, &out->avg10_pct);
        else if (gsp_collect__scan_text(&part, "total="))
            has_total = gsp_collect__scan_u64(&part, &out->total_us);
    }
    out->known = has_avg && has_total;
}

void gsp_collect__parse_pressure(struct gsp_sv text, struct gsp_pressure *out)
{
    struct gsp_text_scan rest = gsp_collect__scan_of(text);
    struct gsp_text_scan line;
    *out = (struct gsp_pressure){0};
    while (gsp_collect__scan_line(&rest, &line))
        if (gsp_collect__scan_text(&line, "some "))
            parse_stall(line, &out->some);
        else if (gsp_collect__scan_text(&line, "full "))
            parse_stall(line, &out->full);
}

/* "pid (comm) S ppid …": comm may contain anything, even ')'. */
bool gsp_collect__parse_pid_stat(struct gsp_sv text, struct gsp_pid_stat *out)
{
    *out = (struct gsp_pid_stat){0};
    const char *open = text.len ? memchr(text.p, '(', text.len) : NULL;
    const char *close = text.len ? memrchr(text.p, ')', text.len) : NULL;
    if (!open || !close || close < open)
        return false;
    struct gsp_text_scan scan = {close + 1, text.p + text.len};
    struct gsp_sv state;
    out->comm = (struct gsp_sv){open + 1, (size_t)(close - open - 1)};
    if (!gsp_collect__scan_word(&scan, &state))
        return false;
    out->state = state.p[0];
    /* Field numbers of proc(5): fields 4 to 9 are skipped, because some are negative. */
    return gsp_collect__scan_skip(&scan, 6) && gsp_collect__scan_u64(&scan, &out->minor_faults) &&
           gsp_collect__scan_skip(&scan, 1) && gsp_collect__scan_u64(&scan, &out->major_faults) &&
           gsp_collect__scan_skip(&scan, 1) && gsp_collect__scan_u64(&scan, &out->user_ticks) &&
           gsp_collect__scan_u64(&scan, &out->system_ticks) && gsp_collect__scan_skip(&scan, 4) &&
           gsp_collect__scan_u64(&scan, &out->threads) && gsp_collect__scan_skip(&scan, 1) &&
           gsp_collect__scan_u64(&scan, &out->start_ticks) &&
           gsp_collect__scan_u64(&scan, &out->vms_bytes) &&
           gsp_collect__scan_u64(&scan, &out->rss_pages);
}

bool gsp_collect__parse_schedstat(struct gsp_sv text, struct gsp_schedstat *out)
{
    struct gsp_text_scan scan = gsp_collect__scan_of(text);
    return gsp_collect__scan_u64(&scan, &out->cpu_ns) &&
           gsp_collect__scan_u64(&scan, &out->wait_ns) &&
           gsp_collect__scan_u64(&scan, &out->slices);
}

bool gsp_collect__parse_nspid(struct gsp_sv status, uint64_t *inner, bool *nested)
{
    struct gsp_text_scan rest = gsp_collect__scan_of(status);
    struct gsp_text_scan line;
    while (gsp_collect__scan_line(&rest, &line)) {
        if (!gsp_collect__scan_text(&line, "NSpid:"))
            continue;
        size_t count = 0;
        while (gsp_collect__scan_u64(&line, inner))
            count++;
        *nested = count > 1;
        return count > 0;
    }
    return false;
}

bool gsp_collect__parse_cpu_max(struct gsp_sv text, uint64_t *quota_us, uint64_t *period_us)
{
    struct gsp_text_scan scan = gsp_collect__scan_of(text);
    *quota_us = GSP_UNKNOWN;
    if (!gsp_collect__scan_text(&scan, "max") && !gsp_collect__scan_u64(&scan, quota_us))
        return false;
    return gsp_collect__scan_u64(&scan, period_us) && *period_us > 0;
}

uint64_t gsp_collect__parse_cpu_list(struct gsp_sv text)
{
    struct gsp_text_scan scan = gsp_collect__scan_of(text);
    uint64_t count = 0;
    uint64_t first = 0;
    while (gsp_collect__scan_u64(&scan, &first)) {
        uint64_t last = first;
        if (gsp_collect__scan_text(&scan, "-") && !gsp_collect__scan_u64(&scan, &last))
            return 0;
        if (last < first || last >= CPUS_MAX)
            return 0;
        count += last - first + 1;
        if (!gsp_collect__scan_text(&scan, ","))
            break;
    }
    return count;
}

/* Returns whether the comma-separated list contains the controller. */
static bool has_controller(struct gsp_sv list, const char *controller)
{
    struct gsp_sv part;
    while (gsp_sv_split(&list, ',', &part))
        if (gsp_sv_eq(part, gsp_sv_of(controller)))
            return true;
    return false;
}

static bool leads_out(struct gsp_sv path)
{
    struct gsp_sv part;
    while (gsp_sv_split(&path, '/', &part))
        if (gsp_sv_eq(part, gsp_sv_of("..")))
            return true;
    return false;
}

bool gsp_collect__parse_cgroup(struct gsp_sv text, const char *controller, struct gsp_sv *path)
{
    struct gsp_text_scan rest = gsp_collect__scan_of(text);
    struct gsp_text_scan line;
    while (gsp_collect__scan_line(&rest, &line)) {
        struct gsp_sv all = {line.p, (size_t)(line.end - line.p)};
        struct gsp_sv number;
        struct gsp_sv list;
        if (!gsp_sv_split(&all, ':', &number) || !gsp_sv_split(&all, ':', &list) || !all.p ||
            all.len == 0 || all.p[0] != '/')
            continue;
        const bool unified = gsp_sv_eq(number, gsp_sv_of("0")) && list.len == 0;
        if (controller[0] == '\0' ? !unified : !has_controller(list, controller))
            continue;
        *path = all;
        return !leads_out(all) && memchr(all.p, '\0', all.len) == NULL;
    }
    return false;
}

bool gsp_collect__parse_env(struct gsp_sv environ_text, const char *name, uint64_t *out)
{
    const size_t len = strlen(name);
    struct gsp_sv part;
    while (gsp_sv_split(&environ_text, '\0', &part)) {
        if (part.len > len && part.p[len] == '=' && memcmp(part.p, name, len) == 0)
            return gsp_collect__parse_number((struct gsp_sv){part.p + len + 1, part.len - len - 1},
                                             out);
    }
    return false;
}
