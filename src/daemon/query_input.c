/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/query_input.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "base/time.h"
#include "source/metric_frames.h"
#include "store/batch.h"

/* Parameters of a statement. */
#define PARAMS_MAX 1000U

/* Writing. */

static void put_session(struct gsp_json *json, const struct gsp_session *session)
{
    const char *ended = session->failed ? "failed" : "done";
    gsp_json_obj_begin(json);
    gsp_json_put_str(json, "name", session->name);
    gsp_json_put_str(json, "status", session->active ? "active" : ended);
    gsp_json_put_i64(json, "start_ns", session->start_ns);
    gsp_json_put_i64(json, "end_ns", session->end_ns);
    gsp_json_put_i64(json, "period_ns", session->period_ns);
    gsp_json_put_u64(json, "frames", session->frame_count);
    gsp_json_put_u64(json, "first_frame", session->first_frame);
    gsp_json_put_u64(json, "last_frame", session->last_frame);
    gsp_json_put_str(json, "file", session->file);
    /* As a string, so that its depth does not count. */
    if (session->labels.len)
        gsp_json_put_sv(json, "labels", session->labels);
    gsp_json_obj_end(json);
}

void gsp_daemon__query_input_write(const struct gsp_query_input *facts, struct gsp_buf *out)
{
    struct gsp_json json;
    gsp_json_init(&json, out);
    gsp_json_obj_begin(&json);
    gsp_json_put_str(&json, "host", facts->host);
    gsp_json_put_str(&json, "state_dir", facts->state_dir);
    gsp_json_put_arr_begin(&json, "sessions");
    for (size_t i = 0; i < facts->session_count; i++)
        put_session(&json, &facts->sessions[i]);
    gsp_json_arr_end(&json);
    gsp_json_put_arr_begin(&json, "stretches");
    for (size_t i = 0; i < facts->stretch_count; i++) {
        gsp_json_obj_begin(&json);
        gsp_json_put_u64(&json, "first_id", facts->stretches[i].first_id);
        gsp_json_put_u64(&json, "count", facts->stretches[i].count);
        gsp_json_obj_end(&json);
    }
    gsp_json_arr_end(&json);
    if (facts->params.len)
        gsp_json_put_raw(&json, "params", facts->params);
    gsp_json_obj_end(&json);
}

/* Reading. */

struct reading {
    struct gsp_param *params;
    size_t param_count;
    struct gsp_batch *list;
    struct gsp_source_frame_session *sessions;
    size_t session_count;
    size_t session_cap;
    struct gsp_frame_log_range *stretches;
    size_t stretch_count;
    size_t stretch_cap;
    struct gsp_err *err;
};

static int add_param(void *ctx, const struct gsp_body_scalar *value)
{
    static const enum gsp_param_kind KINDS[] = {
        [GSP_SCALAR_NULL] = GSP_PARAM_NULL, [GSP_SCALAR_BOOL] = GSP_PARAM_BOOL,
        [GSP_SCALAR_I64] = GSP_PARAM_I64,   [GSP_SCALAR_F64] = GSP_PARAM_F64,
        [GSP_SCALAR_TEXT] = GSP_PARAM_TEXT,
    };
    struct reading *reading = ctx;
    if (reading->param_count == PARAMS_MAX)
        return gsp_err_set(reading->err, GSP_E_USAGE, 0, "params has more than %u values",
                           PARAMS_MAX);
    reading->params[reading->param_count++] = (struct gsp_param){.name = value->name,
                                                                 .text = value->text,
                                                                 .whole = value->whole,
                                                                 .number = value->number,
                                                                 .kind = KINDS[value->kind],
                                                                 .truth = value->truth};
    return GSP_OK;
}

int gsp_daemon__query_params_read(const struct gsp_body *body, struct gsp_param **out,
                                  size_t *count, struct gsp_err *err)
{
    struct reading reading = {.err = err};
    *out = NULL;
    *count = 0;
    if (!gsp_http_body_has(body, "params"))
        return GSP_OK;
    reading.params = calloc(PARAMS_MAX, sizeof(*reading.params));
    if (!reading.params)
        return gsp_err_nomem(err);
    int rc = gsp_http_body_scalars(body, "params", add_param, &reading, err);
    if (rc < 0) {
        free(reading.params);
        return rc;
    }
    *out = reading.params;
    *count = reading.param_count;
    return GSP_OK;
}

/* A number of the facts; 0 if it is missing. */
static int64_t number(const struct gsp_body *item, const char *name)
{
    int64_t v = 0;
    gsp_ignore(gsp_http_body_i64(item, name, &v, NULL));
    return v;
}

static struct gsp_sv text(const struct gsp_body *item, const char *name)
{
    struct gsp_sv v = {NULL, 0};
    gsp_ignore(gsp_http_body_text(item, name, &v, NULL));
    return v;
}

static int add_session(void *ctx, const struct gsp_body *item)
{
    struct reading *reading = ctx;
    struct gsp_batch *batch = reading->list;
    const int64_t end_ns = number(item, "end_ns");
    const int64_t period_ns = number(item, "period_ns");
    const int64_t first = number(item, "first_frame");
    /* A session that ended without a frame ends before its first frame. */
    const int64_t last = number(item, "last_frame") ? number(item, "last_frame") : first - 1;
    if (!gsp_array_fit(&reading->sessions, &reading->session_cap, reading->session_count + 1))
        return gsp_err_nomem(reading->err);
    reading->sessions[reading->session_count++] =
        (struct gsp_source_frame_session){text(item, "name"), number(item, "start_ns"),
                                          (uint64_t)first, end_ns ? (uint64_t)last : UINT64_MAX};
    const struct gsp_row_session_list row = {
        .ts_ns = number(item, "start_ns"),
        .mono_ns = GSP_NULL_I64,
        .name = gsp_store_batch_intern(batch, text(item, "name")),
        .status = gsp_store_batch_intern(batch, text(item, "status")),
        .end_ns = end_ns ? end_ns : GSP_NULL_I64,
        .frames = number(item, "frames"),
        .freq_ms = period_ns ? (double)period_ns / (double)GSP_NS_PER_MS : gsp_null_f64(),
        .file = gsp_store_batch_intern(batch, text(item, "file")),
        .labels = text(item, "labels"),
        .first_frame = first,
        .last_frame = end_ns ? last : GSP_NULL_I64,
    };
    return gsp_store_batch_append(batch, &row, reading->err);
}

static int add_stretch(void *ctx, const struct gsp_body *item)
{
    struct reading *reading = ctx;
    if (!gsp_array_fit(&reading->stretches, &reading->stretch_cap, reading->stretch_count + 1))
        return gsp_err_nomem(reading->err);
    reading->stretches[reading->stretch_count++] = (struct gsp_frame_log_range){
        (uint64_t)number(item, "first_id"), (uint64_t)number(item, "count")};
    return GSP_OK;
}

static int by_newest(const void *a, const void *b)
{
    const struct gsp_source_frame_session *x = a;
    const struct gsp_source_frame_session *y = b;
    return x->start_ns > y->start_ns ? -1 : x->start_ns < y->start_ns;
}

static int fail_with_trouble(void *ctx, struct gsp_batch *batch, struct gsp_err *err)
{
    const struct gsp_err *trouble = ctx;
    (void)batch;
    return gsp_err_set(err, trouble->code, trouble->sys, "%s", trouble->msg);
}

static int add_frames(const struct gsp_body *facts, const struct reading *reading, const char *host,
                      struct gsp_store *store, struct gsp_err *trouble)
{
    gsp_auto_buf folder = {0};
    gsp_buf_putsv(&folder, text(facts, "state_dir"));
    if (reading->session_count)
        qsort(reading->sessions, reading->session_count, sizeof(*reading->sessions), by_newest);
    const struct gsp_source_frame_log log = {.folder = gsp_buf_cstr(&folder),
                                             .host = host,
                                             .stretches = reading->stretches,
                                             .stretch_count = reading->stretch_count,
                                             .sessions = reading->sessions,
                                             .session_count = reading->session_count};
    if (!log.folder)
        return gsp_err_nomem(trouble);
    return gsp_source_metric_frames_add(&log, store, trouble);
}

int gsp_daemon__query_input_add(const struct gsp_body *facts, struct gsp_store *store,
                                struct gsp_err *trouble, struct gsp_err *err)
{
    struct reading reading = {.err = err};
    gsp_auto_buf host = {0};
    gsp_buf_putsv(&host, text(facts, "host"));
    const char *name = gsp_buf_cstr(&host);
    int rc = gsp_store_batch_new(gsp_wire_table_at(GSP_TABLE_session_list), name, GSP_NULL_I64,
                                 GSP_NULL_I64, &reading.list, err);
    if (rc == GSP_OK)
        rc = gsp_http_body_each(facts, "sessions", add_session, &reading, err);
    if (rc >= 0)
        rc = gsp_http_body_each(facts, "stretches", add_stretch, &reading, err);
    if (rc >= 0) {
        rc = gsp_store_add_batch(store, reading.list, err);
        reading.list = NULL;
    }
    if (rc == GSP_OK && add_frames(facts, &reading, name, store, trouble) < 0)
        rc = gsp_store_add_live(store, gsp_wire_table_at(GSP_TABLE_session_frame),
                                fail_with_trouble, trouble, err);
    gsp_store_batch_free(reading.list);
    free(reading.sessions);
    free(reading.stretches);
    return rc < 0 ? rc : GSP_OK;
}
