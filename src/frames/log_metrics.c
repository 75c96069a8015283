/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "frames/log_internal.h"

/* One more column after those of the table: a value that is computed from them. */
#define DERIVED_COLUMNS 1U
#define NO_COLUMNS      UINT32_MAX

/* A table whose rows become metrics, and the metric that is computed from a row. */
struct source {
    enum gsp_table_id table;
    const char *derived; /* NULL: none */
};

static const struct source SOURCES[] = {
    {GSP_TABLE_system_cpu, NULL},      {GSP_TABLE_system_memory, "used_percent"},
    {GSP_TABLE_system_disk, NULL},     {GSP_TABLE_system_network, NULL},
    {GSP_TABLE_system_pressure, NULL}, {GSP_TABLE_gpu_metrics, "memory_used_percent"},
    {GSP_TABLE_gpu_process, NULL},     {GSP_TABLE_energy_metrics, NULL},
    {GSP_TABLE_process_metrics, NULL},
};

double gsp_frames__round(double v)
{
    double size = fabs(v);
    if (!(size < 1e15))
        return v;
    /* The decimals that text.c writes, so that the statistics match the printed numbers. */
    double scale = size >= 1 ? 1e3 : size >= 1e-3 ? 1e6 : 1e12;
    double rounded = round(v * scale) / scale;
    return rounded == 0 ? 0 : rounded; /* no minus zero */
}

double gsp_frames__percent(int64_t part, int64_t whole)
{
    if (part == GSP_NULL_I64 || whole == GSP_NULL_I64 || whole <= 0)
        return gsp_null_f64();
    return gsp_frames__round(100.0 * (double)part / (double)whole);
}

double gsp_frames__disk_busiest(const struct gsp_frame_log *frames)
{
    const struct gsp_buf *rows = &frames->rows[GSP_TABLE_system_disk];
    double most = gsp_null_f64();
    struct gsp_row_system_disk row;
    for (size_t at = 0; at + sizeof(row) <= rows->len; at += sizeof(row)) {
        memcpy(&row, rows->p + at, sizeof(row));
        if (isfinite(row.util_percent) && !(most >= row.util_percent))
            most = row.util_percent;
    }
    return most;
}

void gsp_frames__gpu_id(const struct gsp_frame_log *frames, int64_t gpu, struct gsp_buf *out)
{
    const char *name = GSP_GPU_UNNAMED;
    for (size_t i = 0; i < frames->gpu_count; i++)
        if (frames->gpus[i].index == gpu && frames->gpus[i].name)
            name = frames->strings.plain[frames->gpus[i].name - 1];
    gsp_buf_printf(out, "%s:%lld:%s", frames->host, (long long)gpu, name);
}

static void free_metric(struct frames_metric *metric)
{
    /* The catalog owns these texts, although the struct has them as const. */
    char *owned[3];
    memcpy(&owned[0], &metric->name, sizeof(owned[0]));
    memcpy(&owned[1], &metric->device, sizeof(owned[1]));
    memcpy(&owned[2], &metric->label, sizeof(owned[2]));
    for (size_t i = 0; i < GSP_COUNT(owned); i++)
        free(owned[i]);
    *metric = (struct frames_metric){0};
}

void gsp_frames__metrics_free(struct frames_catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++)
        free_metric(&catalog->metrics[i]);
    free(catalog->metrics);
    free(catalog->values);
    free(catalog->columns);
    gsp_hmap_free(&catalog->groups);
    *catalog = (struct frames_catalog){0};
}

void gsp_frames__metrics_clear(struct frames_catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++)
        catalog->values[i] = gsp_null_f64();
}

void gsp_frames__metrics_prune(struct frames_catalog *catalog, uint64_t since_id)
{
    size_t kept = 0;
    for (size_t i = 0; i < catalog->count; i++)
        kept += catalog->metrics[i].seen_id >= since_id;
    if (kept == catalog->count)
        return;
    kept = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        if (catalog->metrics[i].seen_id < since_id) {
            free_metric(&catalog->metrics[i]);
            continue;
        }
        catalog->values[kept] = catalog->values[i];
        catalog->metrics[kept++] = catalog->metrics[i];
    }
    catalog->count = kept;
    /* The columns are assigned again by name. */
    gsp_hmap_clear(&catalog->groups);
    catalog->column_count = 0;
}

static bool grow_metrics(struct frames_catalog *catalog)
{
    return gsp_array_fit(&catalog->metrics, &catalog->cap, catalog->count + 1) &&
           gsp_array_fit(&catalog->values, &catalog->value_cap, catalog->count + 1);
}

static int32_t find_metric(const struct frames_catalog *catalog, const struct frames_metric *wanted)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct frames_metric *m = &catalog->metrics[i];
        if (strcmp(m->name, wanted->name) == 0 && strcmp(m->device, wanted->device) == 0 &&
            strcmp(m->label, wanted->label) == 0)
            return (int32_t)i;
    }
    return -1;
}

static int32_t add_metric(struct frames_catalog *catalog, const struct frames_metric *wanted)
{
    int32_t found = find_metric(catalog, wanted);
    if (found >= 0)
        return found;
    if (catalog->count >= FRAMES_METRICS_MAX || !grow_metrics(catalog)) {
        catalog->refused++;
        return -1;
    }
    struct frames_metric metric = {.name = strdup(wanted->name),
                                   .device = strdup(wanted->device),
                                   .label = strdup(wanted->label),
                                   .unit = wanted->unit,
                                   .kind = wanted->kind};
    if (!metric.name || !metric.device || !metric.label) {
        free_metric(&metric);
        catalog->refused++;
        return -1;
    }
    catalog->metrics[catalog->count] = metric;
    catalog->values[catalog->count] = gsp_null_f64();
    catalog->grown = true;
    return (int32_t)catalog->count++;
}

/* The start of a group of columns in catalog->columns; NO_COLUMNS without memory. */
static uint32_t find_group(struct frames_catalog *catalog, uint64_t table, uint64_t key, size_t n)
{
    const uint32_t *found = gsp_hmap_get(&catalog->groups, table, key);
    if (found)
        return *found;
    if (!gsp_array_fit(&catalog->columns, &catalog->column_cap, catalog->column_count + n))
        return NO_COLUMNS;
    uint32_t start = (uint32_t)catalog->column_count;
    if (!gsp_hmap_put(&catalog->groups, table, key, start))
        return NO_COLUMNS;
    for (size_t i = 0; i < n; i++)
        catalog->columns[start + i] = -1;
    catalog->column_count += n;
    return start;
}

static int64_t i64_at(const char *row, size_t offset)
{
    int64_t v = 0;
    memcpy(&v, row + offset, sizeof(v));
    return v;
}

static const char *plain(const struct gsp_frame_log *frames, uint32_t id)
{
    return id && id <= frames->strings.count ? frames->strings.plain[id - 1] : "";
}

/* Identifies the device of a row: returns a key for the hash table, and sets its name. */
static uint64_t row_key(const struct gsp_frame_log *frames, enum gsp_table_id table,
                        const char *row, struct gsp_buf *device)
{
#define FIELD(t, f) i64_at(row, offsetof(struct gsp_row_##t, f))
    uint32_t a = 0;
    uint32_t b = 0;
    uint64_t key = 0;
    gsp_buf_clear(device);
    switch ((int)table) {
    case GSP_TABLE_system_cpu:
        key = (uint64_t)FIELD(system_cpu, cpu);
        if (FIELD(system_cpu, cpu) != GSP_NULL_I64)
            gsp_buf_printf(device, "cpu %lld", (long long)FIELD(system_cpu, cpu));
        return key;
    case GSP_TABLE_gpu_metrics:
        gsp_buf_printf(device, "gpu %lld", (long long)FIELD(gpu_metrics, gpu));
        return (uint64_t)FIELD(gpu_metrics, gpu);
    case GSP_TABLE_gpu_process:
        gsp_buf_printf(device, "gpu %lld pid %lld", (long long)FIELD(gpu_process, gpu),
                       (long long)FIELD(gpu_process, pid));
        return ((uint64_t)FIELD(gpu_process, gpu) << 32) ^ (uint64_t)FIELD(gpu_process, pid);
    case GSP_TABLE_process_metrics:
        gsp_buf_printf(device, "pid %lld", (long long)FIELD(process_metrics, pid));
        return (uint64_t)FIELD(process_metrics, pid);
    case GSP_TABLE_energy_metrics:
        memcpy(&a, row + offsetof(struct gsp_row_energy_metrics, domain), sizeof(a));
        memcpy(&b, row + offsetof(struct gsp_row_energy_metrics, device), sizeof(b));
        /* "package-0" contains its domain; otherwise put the domain first, as in "dram package-0".
         */
        if (b && gsp_sv_starts(gsp_sv_of(plain(frames, b)), plain(frames, a)))
            gsp_buf_puts(device, plain(frames, b));
        else
            gsp_buf_printf(device, "%s%s%s", plain(frames, a), a && b ? " " : "", plain(frames, b));
        return ((uint64_t)a << 32) | b;
    case GSP_TABLE_system_disk:
        memcpy(&a, row + offsetof(struct gsp_row_system_disk, device), sizeof(a));
        break;
    case GSP_TABLE_system_network:
        memcpy(&a, row + offsetof(struct gsp_row_system_network, device), sizeof(a));
        break;
    case GSP_TABLE_system_pressure:
        memcpy(&a, row + offsetof(struct gsp_row_system_pressure, resource), sizeof(a));
        break;
    default:
        break;
    }
#undef FIELD
    gsp_buf_puts(device, plain(frames, a));
    return a;
}

/* Whether a column is a value and not part of the row's identity. */
static bool is_value(const struct gsp_column *column)
{
    static const char *const KEYS[] = {"ts_ns", "mono_ns", "pid", "rank", "cpu", "gpu"};
    if (column->type != GSP_I64 && column->type != GSP_F64)
        return false;
    for (size_t i = 0; i < GSP_COUNT(KEYS); i++)
        if (strcmp(column->name, KEYS[i]) == 0)
            return false;
    return true;
}

static enum frames_kind kind_of(enum gsp_table_id table, const char *unit)
{
    if (strcmp(unit, "W") == 0 || strcmp(unit, "bytes/s") == 0 || strcmp(unit, "1/s") == 0)
        return FRAMES_RATE;
    /* In other tables joules are counters. */
    if (table == GSP_TABLE_energy_metrics && (strcmp(unit, "J") == 0 || strcmp(unit, "g") == 0))
        return FRAMES_AMOUNT;
    return FRAMES_PLAIN;
}

/* The row that is being read. */
struct row_context {
    struct gsp_frame_log *frames;
    const struct gsp_table *table;
    enum gsp_table_id id;
    uint32_t group;
    const char *device;
    const char *label;
};

static void set_value(const struct row_context *t, size_t column, const char *name,
                      const char *unit, double v)
{
    if (!isfinite(v))
        return;
    struct frames_catalog *catalog = &t->frames->catalog;
    int32_t index = catalog->columns[t->group + column];
    if (index < 0) {
        char full[3 * GSP_NAME_MAX + 8];
        snprintf(full, sizeof(full), "%s.%s.%s", t->table->schema, t->table->name, name);
        index = add_metric(catalog, &(struct frames_metric){.name = full,
                                                            .device = t->device,
                                                            .label = t->label,
                                                            .unit = unit,
                                                            .kind = kind_of(t->id, unit)});
        catalog->columns[t->group + column] = index;
    }
    if (index < 0)
        return;
    catalog->values[index] = v;
    catalog->metrics[index].seen_id = t->frames->next_id;
}

static void set_columns(const struct row_context *t, char *row)
{
    for (uint32_t i = 0; i < t->table->column_count; i++) {
        const struct gsp_column *column = &t->table->columns[i];
        if (!is_value(column))
            continue;
        char *at = row + column->row_offset;
        if (column->type == GSP_I64) {
            int64_t v = i64_at(row, column->row_offset);
            if (v != GSP_NULL_I64)
                set_value(t, i, column->name, column->unit, (double)v);
            continue;
        }
        double v = 0;
        memcpy(&v, at, sizeof(v));
        if (isfinite(v)) {
            v = gsp_frames__round(v);
            memcpy(at, &v, sizeof(v));
            set_value(t, i, column->name, column->unit, v);
        }
    }
}

static double derived_value(enum gsp_table_id table, const char *row)
{
    if (table == GSP_TABLE_system_memory)
        return gsp_frames__percent(
            i64_at(row, offsetof(struct gsp_row_system_memory, used_bytes)),
            i64_at(row, offsetof(struct gsp_row_system_memory, total_bytes)));
    return gsp_frames__percent(
        i64_at(row, offsetof(struct gsp_row_gpu_metrics, memory_used_bytes)),
        i64_at(row, offsetof(struct gsp_row_gpu_metrics, memory_total_bytes)));
}

static void add_row(struct gsp_frame_log *frames, const struct source *source, char *row,
                    struct gsp_buf words[2])
{
    struct row_context t = {
        .frames = frames, .table = gsp_wire_table_at(source->table), .id = source->table};
    uint64_t key = row_key(frames, source->table, row, &words[0]);
    gsp_buf_clear(&words[1]);
    uint64_t table = (uint64_t)source->table + 1;
    if (source->table == GSP_TABLE_gpu_metrics) {
        gsp_frames__gpu_id(frames, (int64_t)key, &words[1]);
        table |= (uint64_t)frames->gpu_generation << 32;
    }
    t.group = find_group(&frames->catalog, table, key, t.table->column_count + DERIVED_COLUMNS);
    t.device = gsp_buf_cstr(&words[0]);
    t.label = gsp_buf_cstr(&words[1]);
    if (t.group == NO_COLUMNS || !t.device || !t.label) {
        frames->catalog.refused++;
        return;
    }
    set_columns(&t, row);
    if (source->derived)
        set_value(&t, t.table->column_count, source->derived, "%",
                  derived_value(source->table, row));
}

static void set_busiest(struct gsp_frame_log *frames)
{
    struct row_context t = {.frames = frames,
                            .table = gsp_wire_table_at(GSP_TABLE_system_disk),
                            .id = GSP_TABLE_system_disk,
                            .device = "",
                            .label = ""};
    /* A key that no table has. */
    t.group = find_group(&frames->catalog, GSP_TABLE_COUNT + 1, 0, 1);
    if (t.group != NO_COLUMNS)
        set_value(&t, 0, "busiest_percent", "%", gsp_frames__disk_busiest(frames));
}

/* Sources write the name of a GPU once, and again after a change. */
static void update_gpu_names(struct gsp_frame_log *frames)
{
    const struct gsp_buf *rows = &frames->rows[GSP_TABLE_gpu_device];
    struct gsp_row_gpu_device row;
    for (size_t at = 0; at + sizeof(row) <= rows->len; at += sizeof(row)) {
        memcpy(&row, rows->p + at, sizeof(row));
        size_t i = 0;
        while (i < frames->gpu_count && frames->gpus[i].index != row.gpu)
            i++;
        if (i == FRAMES_GPUS_MAX)
            continue;
        if (i < frames->gpu_count && frames->gpus[i].name == row.name)
            continue;
        frames->gpus[i] = (struct frames_gpu){row.gpu, row.name};
        frames->gpu_count += i == frames->gpu_count;
        frames->gpu_generation++;
    }
}

void gsp_frames__numbers_set(struct gsp_frame_log *frames)
{
    struct gsp_buf words[2] = {{0}, {0}};
    update_gpu_names(frames);
    for (size_t s = 0; s < GSP_COUNT(SOURCES); s++) {
        const struct gsp_buf *rows = &frames->rows[SOURCES[s].table];
        size_t size = gsp_wire_table_at(SOURCES[s].table)->row_bytes;
        for (size_t at = 0; at + size <= rows->len; at += size)
            add_row(frames, &SOURCES[s], rows->p + at, words);
    }
    set_busiest(frames);
    gsp_buf_free(&words[0]);
    gsp_buf_free(&words[1]);
}
