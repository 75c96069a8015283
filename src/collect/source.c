/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* No kernel file that we read is larger. */
#define TEXT_MAX   (4U << 20)
#define TEXT_STEP  8192U
/* The kernel returns lists of lines page by page, whatever the buffer size. No line is as long
 * as this, so a shorter read has reached the end. */
#define TEXT_WHOLE 2048U
#define J_PER_KWH  3.6e6

static int open_path(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

static int open_path(const char *fmt, va_list args)
{
    char path[PATH_MAX];
    const int n = vsnprintf(path, sizeof(path), fmt, args);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    /* A pipe in a made-up tree must not block. */
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

int gsp_collect__open(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int fd = open_path(fmt, args);
    va_end(args);
    return fd;
}

static int code_of(int sys)
{
    switch (sys) {
    case ESRCH:
        return GSP_E_NOPROC;
    case EACCES:
    case EPERM:
        return GSP_E_PERM;
    case ENODEV:
    case ENOENT:
    case ENXIO:
        return GSP_E_NOFILE;
    default:
        return GSP_E_IO;
    }
}

int gsp_collect__read(int fd, struct gsp_buf *text)
{
    gsp_buf_clear(text);
    if (fd < 0)
        return GSP_E_NOFILE;
    while (text->len < TEXT_MAX) {
        char *p = gsp_buf_reserve(text, TEXT_STEP);
        if (!p)
            return GSP_E_NOMEM;
        const size_t room = text->cap - text->len;
        const ssize_t n = pread(fd, p, room, (off_t)text->len);
        if (n < 0)
            return code_of(errno);
        text->len += (size_t)n;
        if ((size_t)n < TEXT_WHOLE)
            return 0;
    }
    return GSP_E_LIMIT;
}

uint64_t gsp_collect__read_number(int fd)
{
    char text[64];
    uint64_t value = GSP_UNKNOWN;
    const ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
    if (n <= 0 || !gsp_collect__parse_number((struct gsp_sv){text, (size_t)n}, &value))
        return GSP_UNKNOWN;
    return value;
}

bool gsp_collect__read_line(char *out, size_t cap, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    gsp_auto_fd fd = open_path(fmt, args);
    va_end(args);
    out[0] = '\0';
    const ssize_t n = fd < 0 ? -1 : pread(fd, out, cap - 1, 0);
    if (n <= 0)
        return false;
    out[n] = '\0';
    size_t len = strcspn(out, "\n");
    while (len > 0 && (out[len - 1] == ' ' || out[len - 1] == '\t'))
        len--;
    out[len] = '\0';
    return len > 0;
}

void gsp_collect__trouble_add(struct gsp_collect_trouble *trouble, const char *fmt, ...)
{
    if (trouble->count++ > 0)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(trouble->first, sizeof(trouble->first), fmt, args);
    va_end(args);
}

const char *gsp_collect__trouble_get(const struct gsp_collect_trouble *trouble)
{
    return trouble->text[0] ? trouble->text : NULL;
}

void gsp_collect__trouble_begin(struct gsp_collect_trouble *trouble)
{
    trouble->count = 0;
}

void gsp_collect__trouble_end(struct gsp_collect_trouble *trouble)
{
    trouble->text[0] = '\0';
    if (trouble->count == 1)
        snprintf(trouble->text, sizeof(trouble->text), "%s", trouble->first);
    else if (trouble->count > 1)
        snprintf(trouble->text, sizeof(trouble->text), "%s; and %u more", trouble->first,
                 trouble->count - 1);
}

void gsp_collect__blank(enum gsp_table_id table, void *row)
{
    const struct gsp_table *def = gsp_wire_table_at(table);
    const int64_t no_i64 = GSP_NULL_I64;
    const double no_f64 = gsp_null_f64();
    memset(row, 0, def->row_bytes);
    for (uint32_t i = 0; i < def->column_count; i++) {
        const struct gsp_column *column = &def->columns[i];
        char *at = (char *)row + column->row_offset;
        if (column->type == GSP_I64)
            memcpy(at, &no_i64, sizeof(no_i64));
        else if (column->type == GSP_F64)
            memcpy(at, &no_f64, sizeof(no_f64));
        else if (column->type == GSP_BOOL)
            *(uint8_t *)at = GSP_NULL_BOOL;
    }
}

double gsp_collect__seconds(int64_t last_mono_ns, const struct gsp_collect_tick *tick)
{
    if (last_mono_ns == 0 || tick->mono_ns <= last_mono_ns)
        return 0;
    return (double)(tick->mono_ns - last_mono_ns) / (double)GSP_NS_PER_S;
}

double gsp_collect__rate(uint64_t now, uint64_t last, double seconds)
{
    if (now == GSP_UNKNOWN || last == GSP_UNKNOWN || now < last || seconds <= 0)
        return gsp_null_f64();
    return (double)(now - last) / seconds;
}

bool gsp_collect__cpu_shares(const struct gsp_cpu_line *now, const struct gsp_cpu_line *last,
                             double pct[GSP_CPU_TIMES])
{
    double delta[GSP_CPU_TIMES];
    double all = 0;
    for (size_t i = 0; i < GSP_CPU_TIMES; i++) {
        /* Idle and iowait may decrease slightly (proc(5)). */
        const bool fell = now->ticks[i] < last->ticks[i];
        delta[i] = fell ? 0 : (double)(now->ticks[i] - last->ticks[i]);
        all += delta[i];
    }
    for (size_t i = 0; i < GSP_CPU_TIMES; i++)
        pct[i] = all > 0 ? 100 * delta[i] / all : gsp_null_f64();
    return all > 0;
}

double gsp_collect__carbon(const struct gsp_collect_env *env, double joules)
{
    if (gsp_is_null_f64(joules) || !(env->carbon_g_per_kwh > 0))
        return gsp_null_f64();
    return joules / J_PER_KWH * env->carbon_g_per_kwh;
}

void gsp_collect__put_energy(const struct gsp_collect_env *env, const struct gsp_collect_tick *tick,
                             const struct gsp_energy *energy, struct gsp_collect_sink *sink)
{
    struct gsp_row_energy_metrics row;
    gsp_collect__blank(GSP_TABLE_energy_metrics, &row);
    row.ts_ns = tick->ts_ns;
    row.mono_ns = tick->mono_ns;
    row.domain = sink->intern(sink, GSP_TABLE_energy_metrics, gsp_sv_of(energy->domain));
    row.device = sink->intern(sink, GSP_TABLE_energy_metrics, gsp_sv_of(energy->device));
    row.source = sink->intern(sink, GSP_TABLE_energy_metrics, gsp_sv_of(energy->source));
    row.joules = energy->joules;
    if (!gsp_is_null_f64(energy->joules) && energy->seconds > 0)
        row.watts = energy->joules / energy->seconds;
    row.carbon_grams = gsp_collect__carbon(env, energy->joules);
    sink->row(sink, GSP_TABLE_energy_metrics, &row);
}
