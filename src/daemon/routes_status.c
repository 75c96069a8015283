/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "daemon/hints.h"
#include "daemon/routes_internal.h"
#include "model/format.h"

/* Active sessions that /status shows; it counts all, and /profiling/sessions lists all. */
#define SESSIONS_SHOWN 100U
#define GPUS_MAX       256U
#define GB_PER_BYTE    1e-9

/* The rows of one GPU, borrowed while the rows are locked. */
struct gpu {
    const struct gsp_row_gpu_device *device;
    const struct gsp_row_gpu_metrics *metrics;
};

/* Finds the GPUs among the newest rows. Returns their number. */
static size_t find_gpus(const struct gsp_daemon_rows *rows, struct gpu gpus[GPUS_MAX])
    GSP_REQUIRES(&rows->lock)
{
    enum gsp_table_id table;
    size_t at = 0;
    size_t count = 0;
    for (const void *row = gsp_daemon__rows_next(rows, &at, &table); row;
         row = gsp_daemon__rows_next(rows, &at, &table)) {
        const struct gsp_row_gpu_metrics *metrics = row;
        if (table != GSP_TABLE_gpu_metrics || metrics->gpu < 0 || metrics->gpu >= (int64_t)GPUS_MAX)
            continue;
        for (; count <= (size_t)metrics->gpu; count++)
            gpus[count] = (struct gpu){.device = gsp_daemon__rows_gpu_device(rows, (int64_t)count)};
        gpus[metrics->gpu].metrics = row;
    }
    return count;
}

static struct gsp_sv gpu_name(const struct gsp_daemon *daemon, const struct gpu *gpu)
    GSP_REQUIRES(&daemon->rows.lock)
{
    return gpu->device ? gsp_daemon__rows_text(&daemon->rows, gpu->device->name)
                       : (struct gsp_sv){NULL, 0};
}

/* "host:index:name", as in metric frames. */
static void put_gpu_id(struct gsp_daemon *daemon, struct gsp_json *json, size_t index,
                       const struct gpu *gpu) GSP_REQUIRES(&daemon->rows.lock)
{
    gsp_auto_buf id = {0};
    const struct gsp_sv name = gpu_name(daemon, gpu);
    gsp_buf_printf(&id, "%s:%zu:", daemon->host, index);
    gsp_buf_putsv(&id, name.p ? name : gsp_sv_of(GSP_GPU_UNNAMED));
    gsp_json_sv(json, gsp_buf_sv(&id));
}

static void put_gpu_name(struct gsp_daemon *daemon, struct gsp_json *json, const struct gpu *gpu)
    GSP_REQUIRES(&daemon->rows.lock)
{
    const struct gsp_sv name = gpu_name(daemon, gpu);
    if (name.p)
        gsp_json_sv(json, name);
    else
        gsp_json_null(json);
}

static void put_gpu_list(struct gsp_daemon *daemon, struct gsp_json *json, const struct gpu *gpus,
                         size_t count) GSP_REQUIRES(&daemon->rows.lock)
{
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < count; i++) {
        gsp_json_obj_begin(json);
        gsp_json_key(json, "id");
        put_gpu_id(daemon, json, i, &gpus[i]);
        gsp_json_key(json, "name");
        put_gpu_name(daemon, json, &gpus[i]);
        gsp_json_put_u64(json, "physical_idx", i);
        gsp_json_put_str(json, "hostname", daemon->host);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_gpus(struct gsp_daemon *daemon, struct gsp_json *json)
{
    struct gpu gpus[GPUS_MAX];
    bool pcie = false;
    bool nvlink = false;
    gsp_daemon__rows_lock(&daemon->rows);
    const size_t count = find_gpus(&daemon->rows, gpus);
    for (size_t i = 0; i < count; i++) {
        const struct gsp_row_gpu_metrics *row = gpus[i].metrics;
        pcie = pcie || (row && !gsp_is_null_f64(row->pcie_rx_bytes_per_s));
        nvlink = nvlink || (row && !gsp_is_null_f64(row->nvlink_rx_bytes_per_s));
    }
    gsp_json_put_bool(json, "enable_bandwidth_profiling", pcie);
    gsp_json_put_bool(json, "enable_nvlink_profiling", nvlink);
    gsp_json_put_u64(json, "total_gpus", count);
    gsp_json_put_obj_begin(json, "gpu_info");
    gsp_json_key(json, daemon->host);
    put_gpu_list(daemon, json, gpus, count);
    gsp_json_obj_end(json);
    gsp_daemon__rows_unlock(&daemon->rows);
}

static void put_sources(struct gsp_daemon *daemon, struct gsp_json *json)
    GSP_REQUIRES(&daemon->lock)
{
    gsp_json_put_arr_begin(json, "sources");
    for (size_t i = 0; i < daemon->source_count; i++) {
        const struct gsp_source_state *source = &daemon->sources[i];
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "name", source->name);
        gsp_json_put_bool(json, "open", source->open);
        gsp_json_put_str(json, "trouble", source->trouble[0] ? source->trouble : NULL);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_losses(struct gsp_daemon *daemon, struct gsp_json *json)
{
    struct gsp_frame_log_status log;
    gsp_frames_log_status(daemon->frames, &log);
    gsp_json_put_obj_begin(json, "losses");
    gsp_json_put_u64(json, "late_ticks", atomic_load(&daemon->late_ticks));
    gsp_json_put_u64(json, "frames_lost", log.frames_lost);
    gsp_json_put_u64(json, "values_lost", log.values_lost + atomic_load(&daemon->rows.words_lost));
    gsp_json_put_u64(json, "rows_lost", atomic_load(&daemon->rows.rows_lost));
    gsp_json_obj_end(json);
    gsp_json_put_obj_begin(json, "storage");
    gsp_json_put_u64(json, "bytes", log.bytes);
    gsp_json_put_u64(json, "segments", log.segments);
    gsp_json_put_str(json, "error", log.error[0] ? log.error : NULL);
    gsp_json_obj_end(json);
}

/* The sessions that an answer shows. */
struct shown {
    struct gsp_session *first;
    size_t first_count;
    struct gsp_session *failed;
    size_t failed_count;
    struct gsp_buf labels[2]; /* of both lists */
    struct gsp_sessions_counts counts;
};

static void shown_fill(struct gsp_sessions *sessions, struct shown *out)
{
    *out = (struct shown){.first = calloc(SESSIONS_SHOWN, sizeof(*out->first))};
    /* Without memory the answer has the counts but no list. */
    out->first_count =
        gsp_daemon__sessions_first(sessions, false, out->first, out->first ? SESSIONS_SHOWN : 0,
                                   &out->counts, &out->labels[0]);
    if (out->counts.failed)
        out->failed = calloc(SESSIONS_SHOWN, sizeof(*out->failed));
    if (out->failed)
        out->failed_count = gsp_daemon__sessions_first(sessions, true, out->failed, SESSIONS_SHOWN,
                                                       &out->counts, &out->labels[1]);
}

static void shown_free(struct shown *shown)
{
    free(shown->first);
    free(shown->failed);
    gsp_buf_free(&shown->labels[0]);
    gsp_buf_free(&shown->labels[1]);
}

static void put_sessions(struct gsp_json *json, const struct shown *shown)
{
    const struct gsp_sessions_counts *counts = &shown->counts;
    const bool any = shown->first_count && shown->first[0].active;
    gsp_json_put_bool(json, "is_profiling", counts->active > 0);
    gsp_json_put_str(json, "output_filename", any ? shown->first[0].file : "");
    gsp_json_put_u64(json, "total_sessions", counts->total);
    gsp_json_put_u64(json, "active_session_count", counts->active);
    gsp_json_put_arr_begin(json, "active_sessions");
    for (size_t i = 0; i < shown->first_count && shown->first[i].active; i++)
        gsp_daemon__routes_session(json, &shown->first[i]);
    gsp_json_arr_end(json);
    gsp_json_put_arr_begin(json, "failed_sessions");
    for (size_t i = 0; i < shown->failed_count; i++)
        gsp_daemon__routes_session(json, &shown->failed[i]);
    gsp_json_arr_end(json);
}

static void put_self(struct gsp_daemon *daemon, struct gsp_json *json) GSP_REQUIRES(&daemon->lock)
{
    const int64_t uptime_ns = gsp_now_ns() - daemon->start_mono_ns;
    gsp_json_put_str(json, "version", GSP_VERSION);
    gsp_json_put_i64(json, "pid", getpid());
    gsp_json_put_str(json, "hostname", daemon->host);
    gsp_json_key(json, "start_time");
    gsp_daemon__routes_time(json, daemon->start_ns);
    gsp_json_put_fixed(json, "uptime_s", uptime_ns / GSP_NS_PER_MS, 3);
    gsp_json_put_i64(json, "freq", daemon->live.period_ns / GSP_NS_PER_MS);
    gsp_json_put_fixed(json, "sample_rate", daemon->live.period_ns, 9);
    gsp_json_put_u64(json, "frame_id_counter", gsp_frames_log_next_id(daemon->frames) - 1);
    gsp_json_put_u64(json, "ticks", atomic_load(&daemon->ticks));
    gsp_json_put_fixed(json, "collect_cpu_s", atomic_load(&daemon->collect_ns), 9);
    gsp_json_put_str(json, "output_dir", daemon->fixed->output_dir);
    gsp_json_put_bool(json, "allow_control", daemon->fixed->allow_control);
    gsp_json_put_str(json, "settings_error",
                     daemon->settings_error[0] ? daemon->settings_error : NULL);
    gsp_json_key(json, "ring_error");
    gsp_daemon__rows_lock(&daemon->rows);
    gsp_json_str(json, daemon->rows.ring_error[0] ? daemon->rows.ring_error : NULL);
    gsp_daemon__rows_unlock(&daemon->rows);
    gsp_json_put_arr_begin(json, "connected_clients");
    gsp_json_str(json, daemon->host);
    gsp_json_arr_end(json);
}

static void make_status(struct gsp_daemon *daemon, const struct shown *shown)
    GSP_REQUIRES(&daemon->lock)
{
    struct gsp_json json;
    gsp_buf_clear(&daemon->status);
    gsp_json_init(&json, &daemon->status);
    gsp_json_obj_begin(&json);
    put_self(daemon, &json);
    put_gpus(daemon, &json);
    put_sessions(&json, shown);
    put_sources(daemon, &json);
    put_losses(daemon, &json);
}

/* Adds the last member. It comes from the rings of other processes, so only a trusted client sees
 * them. */
static void put_overheads(const struct gsp_daemon *daemon, enum gsp_http_trust trust,
                          struct gsp_buf *out) GSP_REQUIRES(&daemon->lock)
{
    struct gsp_json json;
    gsp_buf_puts(out, ",\"overheads\":");
    gsp_json_init(&json, out);
    gsp_daemon__overheads_json(daemon->overheads,
                               trust == GSP_HTTP_ANONYMOUS ? 0 : daemon->overhead_count, &json);
    gsp_buf_puts(out, "}\n");
}

/* Makes the answer, except its last member, once for each change, and copies it for each request.
 */
void gsp_daemon__route_status(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    const uint64_t serial = atomic_load(&daemon->serial) + 1;
    struct shown shown = {.first = NULL};
    atomic_store_explicit(&daemon->status_was_read, true, memory_order_relaxed);
    gsp_lock_take(&daemon->lock);
    if (daemon->status_serial != serial) {
        gsp_lock_release(&daemon->lock);
        shown_fill(daemon->sessions, &shown);
        gsp_lock_take(&daemon->lock);
        make_status(daemon, &shown);
        daemon->status_serial = serial;
    }
    gsp_buf_put(&answer->body, daemon->status.p, daemon->status.len);
    put_overheads(daemon, call->request->trust, &answer->body);
    gsp_lock_release(&daemon->lock);
    shown_free(&shown);
}

void gsp_daemon__route_clients(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    struct gpu gpus[GPUS_MAX];
    struct gsp_json json;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_u64(&json, "total_clients", 1);
    gsp_json_put_arr_begin(&json, "clients");
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "client_id", daemon->host);
    gsp_json_put_str(&json, "hostname", daemon->host);
    gsp_daemon__rows_lock(&daemon->rows);
    const size_t count = find_gpus(&daemon->rows, gpus);
    gsp_json_put_u64(&json, "gpu_count", count);
    gsp_json_key(&json, "gpus");
    put_gpu_list(daemon, &json, gpus, count);
    gsp_daemon__rows_unlock(&daemon->rows);
    gsp_json_obj_end(&json);
    gsp_json_arr_end(&json);
    gsp_json_obj_end(&json);
}

/* A scaled value; null if it could not be read. */
static void put_value(struct gsp_json *json, const char *key, const double *value, double scale)
{
    if (gsp_json_key_or_null(json, key, !(!value || gsp_is_null_f64(*value))))
        gsp_json_f64(json, *value * scale);
}

static void put_gpu_metrics(struct gsp_daemon *daemon, struct gsp_json *json, size_t index,
                            const struct gpu *gpu) GSP_REQUIRES(&daemon->rows.lock)
{
    const struct gsp_row_gpu_metrics *row = gpu->metrics;
    double used = gsp_null_f64();
    if (row && row->memory_used_bytes != GSP_NULL_I64 && row->memory_total_bytes > 0)
        used = (double)row->memory_used_bytes / (double)row->memory_total_bytes;
    gsp_json_obj_begin(json);
    gsp_json_put_u64(json, "physical_idx", index);
    gsp_json_key(json, "name");
    put_gpu_name(daemon, json, gpu);
    put_value(json, "gpu_util", row ? &row->util_percent : NULL, 1);
    put_value(json, "mem_util", &used, 100);
    put_value(json, "dram_bw_gbps_rx", row ? &row->pcie_rx_bytes_per_s : NULL, GB_PER_BYTE);
    put_value(json, "dram_bw_gbps_tx", row ? &row->pcie_tx_bytes_per_s : NULL, GB_PER_BYTE);
    put_value(json, "nvlink_bw_gbps_rx", row ? &row->nvlink_rx_bytes_per_s : NULL, GB_PER_BYTE);
    put_value(json, "nvlink_bw_gbps_tx", row ? &row->nvlink_tx_bytes_per_s : NULL, GB_PER_BYTE);
    gsp_json_obj_end(json);
}

static void put_system(struct gsp_daemon *daemon, struct gsp_json *json)
    GSP_REQUIRES(&daemon->rows.lock)
{
    enum gsp_table_id table;
    size_t at = 0;
    gsp_json_obj_begin(json);
    for (const void *row = gsp_daemon__rows_next(&daemon->rows, &at, &table); row;
         row = gsp_daemon__rows_next(&daemon->rows, &at, &table)) {
        if (table == GSP_TABLE_system_memory) {
            const struct gsp_row_system_memory *memory = row;
            double used = gsp_null_f64();
            if (memory->used_bytes != GSP_NULL_I64 && memory->total_bytes > 0)
                used = (double)memory->used_bytes / (double)memory->total_bytes;
            put_value(json, "dram_util", &used, 100);
        } else if (table == GSP_TABLE_system_cpu) {
            const struct gsp_row_system_cpu *cpu = row;
            if (cpu->cpu == GSP_NULL_I64)
                put_value(json, "cpu_util", &cpu->util_percent, 1);
        }
    }
    gsp_json_obj_end(json);
}

void gsp_daemon__route_latest(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    struct gsp_daemon *daemon = call->daemon;
    struct gpu gpus[GPUS_MAX];
    gsp_auto_buf frame = {0};
    struct gsp_json json;
    if (gsp_frames_log_latest(daemon->frames, &frame) == 0 || frame.failed) {
        gsp_http_answer_error(answer, 503, "STARTING", "no metric frame has been collected yet",
                              gsp_daemon__hint(GSP_HINT_RETRY));
        return;
    }
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_key(&json, "timestamp");
    gsp_daemon__rows_lock(&daemon->rows);
    gsp_daemon__routes_time(&json, daemon->rows.newest.tick.ts_ns);
    const size_t count = find_gpus(&daemon->rows, gpus);
    gsp_json_put_obj_begin(&json, "client_data");
    gsp_json_put_obj_begin(&json, daemon->host);
    gsp_json_put_arr_begin(&json, "gpus_metrics");
    for (size_t i = 0; i < count; i++)
        put_gpu_metrics(daemon, &json, i, &gpus[i]);
    gsp_json_arr_end(&json);
    gsp_json_put_arr_begin(&json, "p2p_links");
    gsp_json_arr_end(&json);
    gsp_json_key(&json, "system_metrics");
    put_system(daemon, &json);
    gsp_json_obj_end(&json);
    gsp_json_obj_end(&json);
    gsp_daemon__rows_unlock(&daemon->rows);
    gsp_json_put_raw(&json, "frame", gsp_buf_sv(&frame));
    gsp_json_obj_end(&json);
}

static void put_state(struct gsp_http_answer *answer, const char *state)
{
    struct gsp_json json;
    gsp_json_init(&json, &answer->body);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "status", state);
    gsp_json_put_str(&json, "version", GSP_VERSION);
    gsp_json_obj_end(&json);
}

void gsp_daemon__route_health(struct gsp_route_call *call GSP_UNUSED,
                              struct gsp_http_answer *answer)
{
    put_state(answer, "ok");
}

void gsp_daemon__route_ready(struct gsp_route_call *call, struct gsp_http_answer *answer)
{
    if (atomic_load(&call->daemon->ticks))
        put_state(answer, "ready");
    else
        gsp_http_answer_error(answer, 503, "STARTING", "no metric frame has been collected yet",
                              gsp_daemon__hint(GSP_HINT_RETRY));
}
