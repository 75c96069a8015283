/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/time.h"
#include "frames/log_internal.h"

#define BYTES_PER_GB 1e9
/* The milliseconds in "2026-01-31T12:34:56.789+01:00". */
#define TIME_MS_AT   20U

void gsp_frames__strings_free(struct frames_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++) {
        free(strings->texts[i]);
        free(strings->plain[i]);
    }
    free(strings->texts);
    free(strings->plain);
    gsp_hmap_free(&strings->ids);
    *strings = (struct frames_strings){0};
}

static bool grow_strings(struct frames_strings *strings)
{
    return gsp_array_fit(&strings->texts, &strings->cap, strings->count + 1) &&
           gsp_array_fit(&strings->plain, &strings->plain_cap, strings->count + 1);
}

uint32_t gsp_frames__string_intern(struct frames_strings *strings, struct gsp_sv text)
{
    /* Two hashes of 64 bits identify the text. */
    uint64_t a = gsp_hash_bytes(text.p, text.len, 1);
    uint64_t b = gsp_hash_bytes(text.p, text.len, 2);
    const uint32_t *found = gsp_hmap_get(&strings->ids, a, b);
    if (found)
        return *found;
    if (strings->count >= FRAMES_STRINGS_MAX || !grow_strings(strings)) {
        strings->refused++;
        return GSP_NULL_STR;
    }
    gsp_auto_buf escaped = {0};
    struct gsp_json json;
    gsp_json_init(&json, &escaped);
    gsp_json_sv(&json, text);
    const char *quoted = gsp_buf_cstr(&escaped);
    char *copy = quoted ? strdup(quoted) : NULL;
    /* Names of devices contain no NUL. */
    char *bare = gsp_sv_dup(text);
    uint32_t id = (uint32_t)strings->count + 1;
    if (!copy || !bare || !gsp_hmap_put(&strings->ids, a, b, id)) {
        free(copy);
        free(bare);
        strings->refused++;
        return GSP_NULL_STR;
    }
    strings->texts[strings->count] = copy;
    strings->plain[strings->count] = bare;
    strings->count++;
    return id;
}

void gsp_frames__put_id(char *out, uint64_t id)
{
    for (size_t i = FRAMES_ID_WIDTH; i-- > 0;) {
        out[i] = id || i == FRAMES_ID_WIDTH - 1 ? (char)('0' + id % 10) : ' ';
        id /= 10;
    }
}

/* Local time with its zone. The text is reused within a second. */
static void put_time(struct gsp_frame_log *frames, struct gsp_json *json)
{
    int64_t ns = frames->tick.ts_ns;
    int64_t s = ns / GSP_NS_PER_S - (ns % GSP_NS_PER_S < 0);
    if (s != frames->time_s || !frames->time_text[0]) {
        gsp_fmt_iso_time(s * GSP_NS_PER_S, frames->time_text, sizeof(frames->time_text));
        frames->time_s = s;
    }
    unsigned ms = (unsigned)((ns - s * GSP_NS_PER_S) / GSP_NS_PER_MS);
    for (size_t i = TIME_MS_AT + 3; i-- > TIME_MS_AT; ms /= 10)
        frames->time_text[i] = (char)('0' + ms % 10);
    gsp_json_str(json, frames->time_text);
}

/* Writes a number that gsp_frames__round() returned, with integers: exact, and ten times faster
 * than printf. */
static void put_number(struct gsp_json *json, double v)
{
    double size = fabs(v);
    if (!isfinite(v))
        gsp_json_null(json);
    else if (size >= 1e15)
        gsp_json_f64(json, v);
    else if (size >= 1)
        gsp_json_fixed(json, llround(v * 1e3), 3);
    else if (size >= 1e-3)
        gsp_json_fixed(json, llround(v * 1e6), 6);
    else
        gsp_json_fixed(json, llround(v * 1e12), 12);
}

static bool is_common(const char *name)
{
    return strcmp(name, "ts_ns") == 0 || strcmp(name, "mono_ns") == 0;
}

/* Writes the columns that have a value, except the one that is the key of the row. */
static void put_columns(const struct gsp_frame_log *frames, struct gsp_json *json,
                        const struct gsp_table *table, const char *row, const char *key)
{
    for (uint32_t i = 0; i < table->column_count; i++) {
        const struct gsp_column *column = &table->columns[i];
        if (is_common(column->name) || (key && strcmp(column->name, key) == 0))
            continue;
        const char *at = row + column->row_offset;
        int64_t whole = 0;
        double real = 0;
        uint32_t text = 0;
        switch (column->type) {
        case GSP_I64:
            memcpy(&whole, at, sizeof(whole));
            if (whole == GSP_NULL_I64)
                break;
            gsp_json_put_i64(json, column->name, whole);
            break;
        case GSP_F64:
            memcpy(&real, at, sizeof(real));
            if (!isfinite(real))
                break;
            gsp_json_key(json, column->name);
            put_number(json, real);
            break;
        case GSP_STR:
            memcpy(&text, at, sizeof(text));
            if (!text || text > frames->strings.count)
                break;
            gsp_json_put_raw(json, column->name, gsp_sv_of(frames->strings.texts[text - 1]));
            break;
        case GSP_BOOL:
        case GSP_TEXT:
        default: /* these tables have none */
            break;
        }
    }
}

/* Rows as an array of objects. */
static void put_list(const struct gsp_frame_log *frames, struct gsp_json *json, const char *name,
                     enum gsp_table_id id)
{
    const struct gsp_table *table = gsp_wire_table_at(id);
    const struct gsp_buf *rows = &frames->rows[id];
    if (!rows->len)
        return;
    gsp_json_put_arr_begin(json, name);
    for (size_t at = 0; at + table->row_bytes <= rows->len; at += table->row_bytes) {
        gsp_json_obj_begin(json);
        put_columns(frames, json, table, rows->p + at, NULL);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

/* Rows as an object with a member for each, named by its text column `key`. */
static void put_named(const struct gsp_frame_log *frames, struct gsp_json *json, const char *name,
                      enum gsp_table_id id, const char *key)
{
    const struct gsp_table *table = gsp_wire_table_at(id);
    const struct gsp_buf *rows = &frames->rows[id];
    size_t key_at = 0;
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, key) == 0)
            key_at = table->columns[i].row_offset;
    gsp_json_put_obj_begin(json, name);
    for (size_t at = 0; at + table->row_bytes <= rows->len; at += table->row_bytes) {
        uint32_t text = 0;
        memcpy(&text, rows->p + at + key_at, sizeof(text));
        bool known = text && text <= frames->strings.count;
        gsp_json_put_obj_begin(json, known ? frames->strings.plain[text - 1] : "");
        put_columns(frames, json, table, rows->p + at, key);
        gsp_json_obj_end(json);
    }
    gsp_json_obj_end(json);
}

static void put_cpu(const struct gsp_frame_log *frames, struct gsp_json *json)
{
    const struct gsp_table *table = gsp_wire_table_at(GSP_TABLE_system_cpu);
    const struct gsp_buf *rows = &frames->rows[GSP_TABLE_system_cpu];
    struct gsp_row_system_cpu row;
    gsp_json_put_obj_begin(json, "cpu");
    for (size_t at = 0; at + sizeof(row) <= rows->len; at += sizeof(row)) {
        memcpy(&row, rows->p + at, sizeof(row));
        if (row.cpu == GSP_NULL_I64)
            put_columns(frames, json, table, rows->p + at, NULL);
    }
    gsp_json_put_arr_begin(json, "cores");
    for (size_t at = 0; at + sizeof(row) <= rows->len; at += sizeof(row)) {
        memcpy(&row, rows->p + at, sizeof(row));
        if (row.cpu != GSP_NULL_I64)
            put_number(json, row.util_percent);
    }
    gsp_json_arr_end(json);
    gsp_json_obj_end(json);
}

static double memory_percent(const struct gsp_frame_log *frames)
{
    const struct gsp_buf *rows = &frames->rows[GSP_TABLE_system_memory];
    struct gsp_row_system_memory row;
    if (rows->len < sizeof(row))
        return gsp_null_f64();
    memcpy(&row, rows->p, sizeof(row));
    return gsp_frames__percent(row.used_bytes, row.total_bytes);
}

static void put_memory(const struct gsp_frame_log *frames, struct gsp_json *json)
{
    const struct gsp_buf *rows = &frames->rows[GSP_TABLE_system_memory];
    const struct gsp_table *table = gsp_wire_table_at(GSP_TABLE_system_memory);
    gsp_json_put_obj_begin(json, "memory");
    if (rows->len >= table->row_bytes) {
        put_columns(frames, json, table, rows->p, NULL);
        double percent = memory_percent(frames);
        if (isfinite(percent)) {
            gsp_json_key(json, "used_percent");
            put_number(json, percent);
        }
    }
    gsp_json_obj_end(json);
}

enum gpu_array { GPU_ID, GPU_UTIL, GPU_MEMORY, GPU_BOTH, GPU_RX, GPU_TX };

static double gigabytes(double bytes)
{
    return isfinite(bytes) ? gsp_frames__round(bytes / BYTES_PER_GB) : bytes;
}

static void put_gpu_value(const struct gsp_frame_log *frames, struct gsp_json *json,
                          const struct gsp_row_gpu_metrics *row, enum gpu_array what)
{
    gsp_auto_buf id = {0};
    switch (what) {
    case GPU_ID:
        gsp_frames__gpu_id(frames, row->gpu, &id);
        gsp_json_sv(json, gsp_buf_sv(&id));
        break;
    case GPU_UTIL:
        put_number(json, row->util_percent);
        break;
    case GPU_MEMORY:
        put_number(json, gsp_frames__percent(row->memory_used_bytes, row->memory_total_bytes));
        break;
    case GPU_BOTH:
        put_number(json, gigabytes(row->pcie_rx_bytes_per_s + row->pcie_tx_bytes_per_s));
        break;
    case GPU_RX:
        put_number(json, gigabytes(row->pcie_rx_bytes_per_s));
        break;
    case GPU_TX:
    default:
        put_number(json, gigabytes(row->pcie_tx_bytes_per_s));
        break;
    }
}

/* One array over the GPUs. */
static void put_gpus(const struct gsp_frame_log *frames, struct gsp_json *json, const char *name,
                     enum gpu_array what)
{
    const struct gsp_buf *rows = &frames->rows[GSP_TABLE_gpu_metrics];
    struct gsp_row_gpu_metrics row;
    gsp_json_put_arr_begin(json, name);
    for (size_t at = 0; at + sizeof(row) <= rows->len; at += sizeof(row)) {
        memcpy(&row, rows->p + at, sizeof(row));
        put_gpu_value(frames, json, &row, what);
    }
    gsp_json_arr_end(json);
}

static bool pcie_known(const struct gsp_frame_log *frames)
{
    const struct gsp_buf *rows = &frames->rows[GSP_TABLE_gpu_metrics];
    struct gsp_row_gpu_metrics row;
    for (size_t at = 0; at + sizeof(row) <= rows->len; at += sizeof(row)) {
        memcpy(&row, rows->p + at, sizeof(row));
        if (isfinite(row.pcie_rx_bytes_per_s) || isfinite(row.pcie_tx_bytes_per_s))
            return true;
    }
    return false;
}

static void put_one(struct gsp_json *json, const char *name, double v)
{
    gsp_json_put_arr_begin(json, name);
    put_number(json, v);
    gsp_json_arr_end(json);
}

void gsp_frames__text_write(struct gsp_frame_log *frames, uint64_t frame_id)
{
    struct gsp_buf *line = &frames->line;
    gsp_buf_clear(line);
    struct gsp_json writer;
    struct gsp_json *json = &writer;
    gsp_json_init(json, line);
    gsp_json_obj_begin(json);
    gsp_json_key(json, "frame_id");
    char id[FRAMES_ID_WIDTH];
    gsp_frames__put_id(id, frame_id);
    gsp_json_raw(json, (struct gsp_sv){id, sizeof(id)});
    gsp_json_key(json, "time");
    put_time(frames, json);
    put_gpus(frames, json, "gpu_id", GPU_ID);
    put_gpus(frames, json, "gpu_util", GPU_UTIL);
    put_gpus(frames, json, "gpu_memory", GPU_MEMORY);
    put_one(json, "dram_util", memory_percent(frames));
    put_one(json, "disk_util", gsp_frames__disk_busiest(frames));
    if (pcie_known(frames)) {
        put_gpus(frames, json, "dram_bandwidth", GPU_BOTH);
        put_gpus(frames, json, "dram_bandwidth_rx", GPU_RX);
        put_gpus(frames, json, "dram_bandwidth_tx", GPU_TX);
        /* Bandwidth between pairs of GPUs: readers expect the list, but no driver provides it. */
        gsp_json_put_arr_begin(json, "gpu_bandwidth");
        gsp_json_arr_end(json);
    }
    put_cpu(frames, json);
    put_memory(frames, json);
    put_named(frames, json, "disk", GSP_TABLE_system_disk, "device");
    put_named(frames, json, "network", GSP_TABLE_system_network, "device");
    put_named(frames, json, "pressure", GSP_TABLE_system_pressure, "resource");
    put_list(frames, json, "gpu", GSP_TABLE_gpu_metrics);
    put_list(frames, json, "gpu_processes", GSP_TABLE_gpu_process);
    put_list(frames, json, "energy", GSP_TABLE_energy_metrics);
    put_list(frames, json, "processes", GSP_TABLE_process_metrics);
    gsp_json_obj_end(json);
    gsp_buf_puts(line, FRAMES_LINE_END);
}
