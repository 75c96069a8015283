/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frames/session_read_internal.h"

/* Larger values do not fit into bins, whose extremes have single precision. */
#define VALUE_MAX 1e30

/* Members that name the device of the others. */
static bool names_device(struct gsp_sv name)
{
    static const char *const NAMES[] = {"gpu", "pid", "domain", "device"};
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        if (gsp_sv_eq(gsp_sv_of(NAMES[i]), name))
            return true;
    return false;
}

/* Members whose numbers are identifiers. */
static bool is_identifier(struct gsp_sv name)
{
    static const char *const NAMES[] = {"frame_id", "container_pid", "gpu_instance", "cpu"};
    for (size_t i = 0; i < GSP_COUNT(NAMES); i++)
        if (gsp_sv_eq(gsp_sv_of(NAMES[i]), name))
            return true;
    return false;
}

/* Whether the last token is a number, or a string that contains one. */
static bool is_number(struct gsp_json_scan *scan, double *out)
{
    char text[64];
    char *end = NULL;
    if (scan->kind == GSP_JSON_SCAN_NUMBER) {
        *out = scan->number;
        return fabs(*out) < VALUE_MAX;
    }
    if (scan->kind != GSP_JSON_SCAN_STRING || !scan->text.len || scan->text.len >= sizeof(text) ||
        !strchr("-.0123456789", scan->text.p[0]))
        return false;
    memcpy(text, scan->text.p, scan->text.len);
    text[scan->text.len] = '\0';
    *out = strtod(text, &end);
    return *end == '\0' && fabs(*out) < VALUE_MAX;
}

static int put_value(struct session_reader *reader, struct gsp_sv device, double v,
                     struct gsp_err *err)
{
    struct session_value value = {.v = v};
    int rc =
        gsp_frames__session_series(reader, gsp_buf_sv(&reader->metric), device, &value.series, err);
    if (rc == GSP_OK && value.series != UINT32_MAX)
        gsp_buf_put(&reader->values, &value, sizeof(value));
    return rc;
}

/* "group.name", or "name" without a group. */
static void set_metric(struct session_reader *reader, struct gsp_sv group, struct gsp_sv name)
{
    gsp_buf_clear(&reader->metric);
    gsp_buf_putsv(&reader->metric, group);
    if (group.len && name.len)
        gsp_buf_putc(&reader->metric, '.');
    gsp_buf_putsv(&reader->metric, name);
}

static struct gsp_sv gpu_name(const struct session_reader *reader, size_t i)
{
    /* Without text there is no buffer. */
    const char *text = reader->gpu_text.p ? reader->gpu_text.p : "";
    return (struct gsp_sv){text + reader->gpu_at[i], reader->gpu_at[i + 1] - reader->gpu_at[i]};
}

static int read_gpu_ids(struct session_reader *reader, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    reader->gpu_count = 0;
    gsp_buf_clear(&reader->gpu_text);
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind != GSP_JSON_SCAN_ARR_END) {
        if (reader->gpu_count < SESSION_GPUS_MAX) {
            if (scan->kind == GSP_JSON_SCAN_STRING)
                gsp_buf_putsv(&reader->gpu_text, scan->text);
            reader->gpu_at[++reader->gpu_count] = reader->gpu_text.len;
        }
        rc = gsp_json_scan_skip(scan, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

/* The device of the i-th item of an array of numbers. */
static struct gsp_sv item_device(struct session_reader *reader, size_t i, bool of_gpus)
{
    if (of_gpus && i < reader->gpu_count)
        return gpu_name(reader, i);
    gsp_buf_clear(&reader->device);
    gsp_buf_putu64(&reader->device, i);
    return gsp_buf_sv(&reader->device);
}

/* Appends an identifying member to the device name of its object. */
static void add_identity(struct session_reader *reader, struct gsp_sv name)
{
    const struct gsp_json_scan *scan = &reader->scan;
    bool is_gpu = gsp_sv_eq(name, gsp_sv_of("gpu"));
    double v = scan->number;
    if (scan->kind != GSP_JSON_SCAN_STRING && scan->kind != GSP_JSON_SCAN_NUMBER)
        return;
    if (reader->device.len)
        gsp_buf_putc(&reader->device, ' ');
    if (scan->kind == GSP_JSON_SCAN_STRING)
        gsp_buf_putsv(&reader->device, scan->text);
    else if (is_gpu && v >= 0 && v < (double)reader->gpu_count)
        gsp_buf_putsv(&reader->device, gpu_name(reader, (size_t)v));
    else
        gsp_buf_printf(&reader->device, "%.15g", v);
}

static struct gsp_sv member_name(const struct session_reader *reader,
                                 const struct session_member *member)
{
    if (!member->name_len) /* the buffer may have no memory yet */
        return gsp_sv_of("");
    return (struct gsp_sv){reader->member_names.p + member->name_at, member->name_len};
}

/* Reads an object of an array. The last token was its {. */
static int read_element(struct session_reader *reader, struct gsp_sv group, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    gsp_buf_clear(&reader->members);
    gsp_buf_clear(&reader->member_names);
    gsp_buf_clear(&reader->device);
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        struct session_member member = {.name_at = reader->member_names.len,
                                        .name_len = scan->text.len};
        gsp_buf_putsv(&reader->member_names, scan->text);
        rc = gsp_json_scan_next(scan, err);
        if (rc < 0)
            return rc;
        if (reader->member_names.failed)
            return gsp_err_nomem(err);
        struct gsp_sv name = member_name(reader, &member);
        if (names_device(name))
            add_identity(reader, name);
        else if (!is_identifier(name) && is_number(scan, &member.v))
            gsp_buf_put(&reader->members, &member, sizeof(member));
        rc = gsp_json_scan_skip(scan, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    struct session_member member;
    for (size_t at = 0; rc == GSP_OK && at < reader->members.len; at += sizeof(member)) {
        memcpy(&member, reader->members.p + at, sizeof(member));
        set_metric(reader, group, member_name(reader, &member));
        rc = put_value(reader, gsp_buf_sv(&reader->device), member.v, err);
    }
    return rc;
}

/* Reads an array. The last token was its [. */
static int read_array(struct session_reader *reader, struct gsp_sv name, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    bool of_gpus = gsp_sv_starts(name, "gpu_") || gsp_sv_starts(name, "dram_bandwidth");
    bool of_machine =
        gsp_sv_eq(name, gsp_sv_of("dram_util")) || gsp_sv_eq(name, gsp_sv_of("disk_util"));
    int rc = gsp_json_scan_next(scan, err);
    for (size_t i = 0; rc == GSP_OK && scan->kind != GSP_JSON_SCAN_ARR_END; i++) {
        double v = 0;
        if (scan->kind == GSP_JSON_SCAN_OBJ_BEGIN) {
            rc = read_element(reader, name, err);
        } else if (is_number(scan, &v)) {
            set_metric(reader, name, (struct gsp_sv){0});
            struct gsp_sv device = item_device(reader, i, of_gpus);
            /* A file of one machine has only the first item. */
            rc = put_value(reader, of_machine && i == 0 ? (struct gsp_sv){0} : device, v, err);
        } else {
            rc = gsp_json_scan_skip(scan, err);
        }
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

/* Reads the object of a device, whose name is in reader->device. The last token was its {. */
static int read_device(struct session_reader *reader, struct gsp_sv group, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        double v = 0;
        bool is_value = !is_identifier(scan->text);
        set_metric(reader, group, scan->text);
        rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK && is_value && is_number(scan, &v))
            rc = put_value(reader, gsp_buf_sv(&reader->device), v, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_skip(scan, err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

/* Reads an object of the metric frame ("cpu", "disk"). The last token was its {. */
static int read_group(struct session_reader *reader, struct gsp_sv group, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    gsp_auto_buf name = {0};
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        double v = 0;
        gsp_buf_clear(&reader->device);
        gsp_buf_putsv(&reader->device, scan->text);
        bool is_value = !is_identifier(scan->text);
        set_metric(reader, group, scan->text);
        rc = gsp_json_scan_next(scan, err);
        if (rc < 0)
            break;
        if (scan->kind == GSP_JSON_SCAN_OBJ_BEGIN) {
            rc = read_device(reader, group, err);
        } else if (scan->kind == GSP_JSON_SCAN_ARR_BEGIN) {
            gsp_buf_clear(&name);
            gsp_buf_putsv(&name, gsp_buf_sv(&reader->metric));
            rc = read_array(reader, gsp_buf_sv(&name), err);
        } else if (is_value && is_number(scan, &v)) {
            rc = put_value(reader, (struct gsp_sv){0}, v, err);
        }
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc;
}

static void read_time(struct session_reader *reader)
{
    int32_t zone_s = 0;
    bool has_zone = false;
    if (reader->scan.kind != GSP_JSON_SCAN_STRING ||
        !gsp_frames__session_time_parse(reader->scan.text, &reader->time_ns, &zone_s, &has_zone))
        return;
    reader->has_time = true;
    if (!reader->data->bin_ns) {
        reader->data->zone_s = zone_s;
        reader->data->has_zone = has_zone;
    }
}

/* Reads a member of the metric frame. The last token began its value. */
static int read_member(struct session_reader *reader, struct gsp_sv name, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    double v = 0;
    if (gsp_sv_eq(name, gsp_sv_of("time"))) {
        read_time(reader);
        return gsp_json_scan_skip(scan, err);
    }
    if (scan->kind == GSP_JSON_SCAN_OBJ_BEGIN)
        return read_group(reader, name, err);
    if (scan->kind == GSP_JSON_SCAN_ARR_BEGIN && gsp_sv_eq(name, gsp_sv_of("gpu_id")))
        return read_gpu_ids(reader, err);
    if (scan->kind == GSP_JSON_SCAN_ARR_BEGIN)
        return read_array(reader, name, err);
    if (is_identifier(name) || !is_number(scan, &v))
        return GSP_OK;
    set_metric(reader, name, (struct gsp_sv){0});
    return put_value(reader, (struct gsp_sv){0}, v, err);
}

int gsp_frames__session_frame(struct session_reader *reader, struct gsp_err *err)
{
    struct gsp_json_scan *scan = &reader->scan;
    gsp_auto_buf name = {0};
    reader->has_time = false;
    int rc = gsp_json_scan_next(scan, err);
    while (rc == GSP_OK && scan->kind == GSP_JSON_SCAN_KEY) {
        gsp_buf_clear(&name);
        gsp_buf_putsv(&name, scan->text);
        rc = gsp_json_scan_next(scan, err);
        if (rc == GSP_OK)
            rc = read_member(reader, gsp_buf_sv(&name), err);
        if (rc == GSP_OK)
            rc = gsp_json_scan_next(scan, err);
    }
    return rc < 0 ? rc : gsp_frames__session_add(reader, err);
}
