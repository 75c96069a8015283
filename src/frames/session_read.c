/* SPDX-License-Identifier: Apache-2.0 */
#include "frames/session_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "frames/session_read_internal.h"

/* Returns the text member of a row with this name; NULL if none exists. */
static char **row_text(struct gsp_session_row *row, struct gsp_sv name)
{
    const struct {
        const char *name;
        char **at;
    } fields[] = {{"metric", &row->metric},
                  {"device", &row->device},
                  {"unit", &row->unit},
                  {"integral_unit", &row->integral_unit}};
    for (size_t i = 0; i < GSP_COUNT(fields); i++)
        if (gsp_sv_eq(gsp_sv_of(fields[i].name), name))
            return fields[i].at;
    return NULL;
}

static double *row_number(struct gsp_session_row *row, struct gsp_sv name)
{
    const struct {
        const char *name;
        double *at;
    } fields[] = {
#define FIELD(name) {#name, &row->name},
        GSP_SESSION_STATISTICS(FIELD)
#undef FIELD
            {"count", &row->count},
        {"integral", &row->integral},
    };
    for (size_t i = 0; i < GSP_COUNT(fields); i++)
        if (gsp_sv_eq(gsp_sv_of(fields[i].name), name))
            return fields[i].at;
    return NULL;
}

static int read_row(struct gsp_json_scan *scan, struct gsp_session_row *row, struct gsp_err *err)
{
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        char **text = row_text(row, scan->text);
        double *number = row_number(row, scan->text);
        rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK && text && scan->kind == GSP_JSON_SCAN_STRING && !*text) {
            *text = gsp_sv_dup(scan->text);
            if (!*text)
                return gsp_err_nomem(err);
        } else if (rc == GSP_OK && number && scan->kind == GSP_JSON_SCAN_NUMBER) {
            *number = scan->number;
        }
        if (rc == GSP_OK)
            rc = gsp_json_scan_skip(scan, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

/* Reads the rows of the summary. The last token was its [. */
static int read_summary(struct session_reader *reader, struct gsp_err *err)
{
    struct gsp_session_data *data = reader->data;
    struct gsp_json_scan *scan = &reader->scan;
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind != GSP_JSON_SCAN_ARR_END) {
        if (scan->kind != GSP_JSON_SCAN_OBJ_BEGIN)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "a row of the summary is not an object");
        if (data->row_count == GSP_SESSION_ROWS_MAX)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "summary has more than %u rows",
                               GSP_SESSION_ROWS_MAX);
        if (!gsp_array_fit(&data->rows, &reader->row_cap, data->row_count + 1))
            return gsp_err_nomem(err);
        struct gsp_session_row *row = &data->rows[data->row_count++];
        *row = (struct gsp_session_row){.count = (double)NAN, .integral = (double)NAN};
#define CLEAR(name) row->name = (double)NAN;
        GSP_SESSION_STATISTICS(CLEAR)
#undef CLEAR
        rc = read_row(scan, row, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

static int read_frames(struct session_reader *reader, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    bool values = reader->options->values;
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind != GSP_JSON_SCAN_ARR_END) {
        if (scan->kind != GSP_JSON_SCAN_OBJ_BEGIN)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "frame %llu is not an object",
                               (unsigned long long)reader->data->frames + 1);
        if (values) {
            rc = gsp_frames__session_frame(reader, err);
        } else {
            rc = gsp_json_scan_skip(scan, err);
            reader->data->frames++;
        }
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

static int copy_value(struct session_reader *reader, struct gsp_buf *out, struct gsp_err *err)
{
    struct gsp_json json;
    gsp_buf_clear(out);
    gsp_json_init(&json, out);
    int rc = gsp_json_scan_copy(&reader->scan, &json, err);
    if (rc == GSP_OK && out->failed)
        rc = gsp_err_nomem(err);
    return rc;
}

struct text_field {
    const char *name;
    char *out;
    size_t cap;
};

static void copy_text(struct gsp_sv text, const struct text_field *field)
{
    snprintf(field->out, field->cap, "%.*s", (int)(text.len < field->cap ? text.len : field->cap),
             text.p ? text.p : "");
}

static void read_metadata_member(struct session_reader *reader, struct gsp_sv name)
{
    struct gsp_session_data *data = reader->data;
    const struct gsp_json_scan *scan = &reader->scan;
    const struct text_field fields[] = {
        {"name", data->name, sizeof(data->name)},
        {"host", data->host, sizeof(data->host)},
        {"start_time", data->start_time, sizeof(data->start_time)},
        {"end_time", data->end_time, sizeof(data->end_time)},
    };
    for (size_t i = 0; i < GSP_COUNT(fields); i++)
        if (scan->kind == GSP_JSON_SCAN_STRING && gsp_sv_eq(gsp_sv_of(fields[i].name), name))
            copy_text(scan->text, &fields[i]);
    if (scan->kind != GSP_JSON_SCAN_NUMBER)
        return;
    if (gsp_sv_eq(name, gsp_sv_of("duration_s")))
        data->duration_s = scan->number;
    else if (gsp_sv_eq(name, gsp_sv_of("frequency_ms")))
        data->frequency_ms = scan->number;
    else if (gsp_sv_eq(name, gsp_sv_of("format")))
        data->has_format = true;
}

/* Copies "metadata" as JSON and extracts the members that are displayed. The last token was its
 * {. */
static int read_metadata(struct session_reader *reader, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    struct gsp_json json;
    gsp_auto_buf name = {0};
    gsp_buf_clear(&reader->data->metadata);
    gsp_json_init(&json, &reader->data->metadata);
    gsp_json_obj_begin(&json);
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        gsp_buf_clear(&name);
        gsp_buf_putsv(&name, scan->text);
        gsp_json_keysv(&json, scan->text);
        rc = gsp_json_scan_next(scan, err);
        if (rc < 0)
            break;
        read_metadata_member(reader, gsp_buf_sv(&name));
        rc = gsp_json_scan_copy(scan, &json, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    if (rc == GSP_OK)
        gsp_json_obj_end(&json);
    return rc;
}

/* Reads a member of the file. The last token began its value. */
static int read_part(struct session_reader *reader, struct gsp_sv name, bool *has_frames,
                     struct gsp_err *err)
{
    struct gsp_session_data *data = reader->data;
    const struct gsp_json_scan *scan = &reader->scan;
    const struct {
        const char *name;
        struct gsp_buf *out;
    } copies[] = {{GSP_SESSION_BY_DEVICE, &data->by_device},
                  {GSP_SESSION_BY_CLIENT, &data->by_client},
                  {GSP_SESSION_LOSSES, &data->losses},
                  {GSP_SESSION_GAPS, &data->gaps}};
    if (scan->kind == GSP_JSON_SCAN_ARR_BEGIN && gsp_sv_eq(name, gsp_sv_of(GSP_SESSION_FRAMES))) {
        *has_frames = true;
        return read_frames(reader, err);
    }
    if (scan->kind == GSP_JSON_SCAN_ARR_BEGIN && gsp_sv_eq(name, gsp_sv_of(GSP_SESSION_SUMMARY)))
        return read_summary(reader, err);
    if (scan->kind == GSP_JSON_SCAN_OBJ_BEGIN && gsp_sv_eq(name, gsp_sv_of(GSP_SESSION_METADATA)))
        return read_metadata(reader, err);
    for (size_t i = 0; i < GSP_COUNT(copies); i++)
        if (gsp_sv_eq(gsp_sv_of(copies[i].name), name))
            return copy_value(reader, copies[i].out, err);
    return gsp_json_scan_skip(&reader->scan, err);
}

static int read_all(struct session_reader *reader, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    gsp_auto_buf name = {0};
    bool has_frames = false;
    int rc = gsp_json_scan_next(scan, err);
    if (rc == GSP_OK && scan->kind != GSP_JSON_SCAN_OBJ_BEGIN)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a session: the file is not a JSON object");
    if (rc == GSP_OK)
        rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        gsp_buf_clear(&name);
        gsp_buf_putsv(&name, scan->text);
        rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK)
            rc = read_part(reader, gsp_buf_sv(&name), &has_frames, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    if (rc == GSP_OK)
        rc = gsp_json_scan_next(scan, err); /* nothing may follow */
    if (rc == GSP_OK && !has_frames)
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "not a session: the file has no frames");
    return rc;
}

int gsp_frames_session_read(gsp_json_scan_reader read, void *ctx,
                            const struct gsp_session_read_options *options,
                            struct gsp_session_data **out, struct gsp_err *err)
{
    *out = NULL;
    struct session_reader *reader = calloc(1, sizeof(*reader));
    struct gsp_session_data *data = calloc(1, sizeof(*data));
    if (!reader || !data) {
        free(reader);
        free(data);
        return gsp_err_nomem(err);
    }
    data->duration_s = (double)NAN;
    data->frequency_ms = (double)NAN;
    reader->data = data;
    reader->options = options;
    int rc = gsp_json_scan_open(&reader->scan, read, ctx, err);
    if (rc == GSP_OK)
        rc = read_all(reader, err);
    gsp_json_scan_close(&reader->scan);
    gsp_hmap_free(&reader->series);
    struct gsp_buf *const bufs[] = {&reader->values, &reader->members, &reader->member_names,
                                    &reader->metric, &reader->device,  &reader->gpu_text};
    for (size_t i = 0; i < GSP_COUNT(bufs); i++)
        gsp_buf_free(bufs[i]);
    free(reader);
    if (rc < 0) {
        gsp_frames_session_data_free(data);
        return rc;
    }
    *out = data;
    return GSP_OK;
}

void gsp_frames_session_data_free(struct gsp_session_data *data)
{
    if (!data)
        return;
    struct gsp_buf *const bufs[] = {&data->metadata, &data->by_device, &data->by_client,
                                    &data->losses, &data->gaps};
    for (size_t i = 0; i < GSP_COUNT(bufs); i++)
        gsp_buf_free(bufs[i]);
    for (size_t i = 0; i < data->series_count; i++) {
        free(data->series[i].metric);
        free(data->series[i].device);
        free(data->series[i].bins);
    }
    for (size_t i = 0; i < data->row_count; i++) {
        free(data->rows[i].metric);
        free(data->rows[i].device);
        free(data->rows[i].unit);
        free(data->rows[i].integral_unit);
    }
    free(data->series);
    free(data->rows);
    free(data);
}
