/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/machine.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

#define PROC_BYTES_MAX (1U << 20)
#define FIELDS_MAX     10U
/* Fields of a cpu line: user nice system idle iowait irq softirq steal guest guest_nice. */
#define FIELD_IDLE     3U
#define FIELD_IOWAIT   4U
/* guest and guest_nice are included in user and nice. */
#define FIELDS_SUMMED  8U

/* Skips blanks and reads digits; false if there are none, or the number does not fit. */
static bool next_number(struct gsp_sv *rest, uint64_t *out)
{
    size_t i = 0;
    while (i < rest->len && rest->p[i] == ' ')
        i++;
    size_t start = i;
    uint64_t value = 0;
    for (; i < rest->len && rest->p[i] >= '0' && rest->p[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(rest->p[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (i == start)
        return false;
    *rest = (struct gsp_sv){rest->p + i, rest->len - i};
    *out = value;
    return true;
}

static struct gsp_sv after(struct gsp_sv text, size_t n)
{
    return (struct gsp_sv){text.p + n, text.len - n};
}

static bool sum_cpu(struct gsp_sv rest, struct gsp_machine_times *out)
{
    uint64_t fields[FIELDS_MAX] = {0};
    size_t count = 0;
    while (count < FIELDS_MAX && next_number(&rest, &fields[count]))
        count++;
    if (count <= FIELD_IDLE)
        return false;
    uint64_t all = 0;
    for (size_t i = 0; i < FIELDS_SUMMED; i++)
        if (__builtin_add_overflow(all, fields[i], &all))
            return false;
    out->all = all;
    out->busy = all - fields[FIELD_IDLE] - fields[FIELD_IOWAIT];
    return true;
}

bool gsp_tui__machine_parse_stat(struct gsp_sv text, struct gsp_machine_times *out)
{
    struct gsp_machine_times times = {0};
    struct gsp_sv line;
    bool has_all = false;
    while (gsp_sv_split(&text, '\n', &line))
        if (gsp_sv_starts(line, "cpu "))
            has_all = sum_cpu(after(line, 4), &times);
        else if (gsp_sv_starts(line, "cpu"))
            times.cores++;
    if (has_all)
        *out = times;
    return has_all;
}

bool gsp_tui__machine_parse_meminfo(struct gsp_sv text, uint64_t *used_bytes, uint64_t *total_bytes)
{
    static const char total_key[] = "MemTotal:";
    static const char free_key[] = "MemAvailable:";
    uint64_t total_kb = 0;
    uint64_t free_kb = 0;
    unsigned found = 0;
    struct gsp_sv line;
    while (gsp_sv_split(&text, '\n', &line)) {
        struct gsp_sv rest = {0};
        uint64_t *out = NULL;
        if (gsp_sv_starts(line, total_key)) {
            rest = after(line, sizeof(total_key) - 1);
            out = &total_kb;
        } else if (gsp_sv_starts(line, free_key)) {
            rest = after(line, sizeof(free_key) - 1);
            out = &free_kb;
        }
        if (out && next_number(&rest, out))
            found |= out == &total_kb ? 1U : 2U;
    }
    if (found != 3U || free_kb > total_kb || total_kb > UINT64_MAX / 1024)
        return false;
    *used_bytes = (total_kb - free_kb) * 1024;
    *total_bytes = total_kb * 1024;
    return true;
}

void gsp_tui__machine_load(struct gsp_machine *machine, const struct gsp_machine_times *now)
{
    const struct gsp_machine_times *last = &machine->last;
    /* iowait may decrease (proc(5)): such an interval is ignored. */
    machine->has_cpu = last->all > 0 && now->all > last->all && now->busy >= last->busy &&
                       now->busy - last->busy <= now->all - last->all;
    if (machine->has_cpu)
        machine->cpu_pct = 100 * (double)(now->busy - last->busy) / (double)(now->all - last->all);
    machine->cores = now->cores;
    machine->last = *now;
}

bool gsp_tui__machine_find_gpu(const char *root)
{
    /* Created by the drivers of NVIDIA, AMD, and NVIDIA under WSL. */
    static const char *const marks[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/kfd",
                                        "/dev/dxg"};
    char path[512];
    bool found = false;
    for (size_t i = 0; i < GSP_COUNT(marks) && !found; i++) {
        int len = snprintf(path, sizeof(path), "%s%s", root, marks[i]);
        found = len > 0 && (size_t)len < sizeof(path) && access(path, F_OK) == 0;
    }
    return found;
}

void gsp_tui_machine_read(struct gsp_machine *machine)
{
    gsp_auto_buf text = {0};
    if (!machine->gpu_asked) {
        machine->has_gpu = gsp_tui__machine_find_gpu("");
        machine->gpu_asked = true;
    }
    struct gsp_machine_times now;
    if (gsp_file_read("/proc/stat", PROC_BYTES_MAX, &text, NULL) == GSP_OK &&
        gsp_tui__machine_parse_stat(gsp_buf_sv(&text), &now))
        gsp_tui__machine_load(machine, &now);
    else
        machine->has_cpu = false;
    gsp_buf_clear(&text);
    machine->has_memory =
        gsp_file_read("/proc/meminfo", PROC_BYTES_MAX, &text, NULL) == GSP_OK &&
        gsp_tui__machine_parse_meminfo(gsp_buf_sv(&text), &machine->memory_used_bytes,
                                       &machine->memory_total_bytes);
}
