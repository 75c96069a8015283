/* SPDX-License-Identifier: Apache-2.0 */
#include "store/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "wire/ring.h"

/* Limit for each list. Cursors are found by linear search. */
#define ENTRIES_MAX 10000U

void gsp_store__manifest_free(struct gsp_manifest *manifest)
{
    for (size_t i = 0; i < manifest->cursor_count; i++)
        free(manifest->cursors[i].lanes);
    free(manifest->segments);
    free(manifest->cursors);
    free(manifest->losses);
    *manifest = (struct gsp_manifest){0};
}

int gsp_store__manifest_add_segment(struct gsp_manifest *manifest,
                                    const struct gsp_segment *segment, struct gsp_err *err)
{
    if (!gsp_array_fit(&manifest->segments, &manifest->segment_cap, manifest->segment_count + 1))
        return gsp_err_nomem(err);
    manifest->segments[manifest->segment_count++] = *segment;
    return GSP_OK;
}

void gsp_store__manifest_remove_segment(struct gsp_manifest *manifest, size_t i)
{
    manifest->segment_count--;
    memmove(&manifest->segments[i], &manifest->segments[i + 1],
            (manifest->segment_count - i) * sizeof(*manifest->segments));
}

struct gsp_drain_cursor *gsp_store__manifest_cursor(const struct gsp_manifest *manifest,
                                                    const struct gsp_drain_cursor *key)
{
    for (size_t i = 0; i < manifest->cursor_count; i++) {
        struct gsp_drain_cursor *cursor = &manifest->cursors[i];
        if (cursor->pid == key->pid && cursor->start_time == key->start_time &&
            cursor->created_ns == key->created_ns && strcmp(cursor->schema, key->schema) == 0 &&
            strcmp(cursor->table, key->table) == 0)
            return cursor;
    }
    return NULL;
}

/* Returns the index of the first lane >= lane; lanes are sorted. */
static uint32_t find_lane(const struct gsp_drain_cursor *cursor, uint32_t lane)
{
    uint32_t from = 0;
    uint32_t to = cursor->lane_count;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (cursor->lanes[middle].lane < lane)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

uint64_t gsp_store__cursor_row(const struct gsp_drain_cursor *cursor, uint32_t lane)
{
    const uint32_t i = cursor ? find_lane(cursor, lane) : 0;
    return cursor && i < cursor->lane_count && cursor->lanes[i].lane == lane ? cursor->lanes[i].row
                                                                             : 0;
}

int gsp_store__manifest_set_cursor(struct gsp_manifest *manifest,
                                   const struct gsp_drain_cursor *key, uint32_t lane, uint64_t row,
                                   struct gsp_err *err)
{
    struct gsp_drain_cursor *cursor = gsp_store__manifest_cursor(manifest, key);
    if (!cursor) {
        if (!gsp_array_fit(&manifest->cursors, &manifest->cursor_cap, manifest->cursor_count + 1))
            return gsp_err_nomem(err);
        cursor = &manifest->cursors[manifest->cursor_count++];
        *cursor = *key;
        cursor->lanes = NULL;
        cursor->lane_count = 0;
        cursor->lane_cap = 0;
    }
    const uint32_t i = find_lane(cursor, lane);
    if (!cursor->lanes || i == cursor->lane_count || cursor->lanes[i].lane != lane) {
        if (!gsp_array_fit(&cursor->lanes, &cursor->lane_cap, (size_t)cursor->lane_count + 1))
            return gsp_err_nomem(err);
        memmove(&cursor->lanes[i + 1], &cursor->lanes[i],
                (cursor->lane_count - i) * sizeof(*cursor->lanes));
        cursor->lane_count++;
        gsp_assert(i == 0 || cursor->lanes[i - 1].lane < lane);
    }
    cursor->lanes[i] = (struct gsp_cursor_lane){lane, row};
    return GSP_OK;
}

static struct gsp_segment_loss *find_loss(const struct gsp_manifest *manifest,
                                          const struct gsp_segment_loss *loss)
{
    for (size_t i = 0; i < manifest->loss_count; i++) {
        struct gsp_segment_loss *old = &manifest->losses[i];
        if (old->pid == loss->pid && strcmp(old->schema, loss->schema) == 0 &&
            strcmp(old->table, loss->table) == 0 && strcmp(old->cause, loss->cause) == 0)
            return old;
    }
    return NULL;
}

uint64_t gsp_store__manifest_loss(const struct gsp_manifest *manifest,
                                  const struct gsp_segment_loss *loss)
{
    const struct gsp_segment_loss *found = find_loss(manifest, loss);
    return found ? found->count : 0;
}

int gsp_store__manifest_add_loss(struct gsp_manifest *manifest, const struct gsp_segment_loss *loss,
                                 struct gsp_err *err)
{
    struct gsp_segment_loss *old = find_loss(manifest, loss);
    if (old) {
        old->count += loss->count;
        return GSP_OK;
    }
    if (!gsp_array_fit(&manifest->losses, &manifest->loss_cap, manifest->loss_count + 1))
        return gsp_err_nomem(err);
    manifest->losses[manifest->loss_count++] = *loss;
    return GSP_OK;
}

int gsp_store__manifest_copy(const struct gsp_manifest *from, struct gsp_manifest *out,
                             struct gsp_err *err)
{
    int rc = GSP_OK;
    *out = (struct gsp_manifest){.next = from->next};
    for (size_t i = 0; rc == GSP_OK && i < from->segment_count; i++)
        rc = gsp_store__manifest_add_segment(out, &from->segments[i], err);
    for (size_t i = 0; rc == GSP_OK && i < from->cursor_count; i++) {
        const struct gsp_drain_cursor *cursor = &from->cursors[i];
        for (uint32_t k = 0; rc == GSP_OK && k < cursor->lane_count; k++)
            rc = gsp_store__manifest_set_cursor(out, cursor, cursor->lanes[k].lane,
                                                cursor->lanes[k].row, err);
    }
    for (size_t i = 0; rc == GSP_OK && i < from->loss_count; i++)
        rc = gsp_store__manifest_add_loss(out, &from->losses[i], err);
    if (rc < 0)
        gsp_store__manifest_free(out);
    return rc;
}

/* Copies the name of a schema or table. Returns false if it is invalid. */
static bool copy_name(char out[GSP_NAME_MAX], struct gsp_sv name)
{
    if (!gsp_wire_table_name_is_valid(name))
        return false;
    memcpy(out, name.p, name.len);
    out[name.len] = '\0';
    return true;
}

bool gsp_store__segment_name_is_valid(const char *file, char schema[GSP_NAME_MAX],
                                      char table[GSP_NAME_MAX])
{
    static const char END[] = ".parquet";
    char unused[GSP_NAME_MAX];
    struct gsp_sv rest = gsp_sv_of(file);
    struct gsp_sv part;
    if (rest.len >= GSP_SEGMENT_NAME_MAX || !gsp_sv_ends(rest, END))
        return false;
    rest.len -= sizeof(END) - 1;
    if (!gsp_sv_split(&rest, '.', &part) || !copy_name(schema ? schema : unused, part) ||
        !gsp_sv_split(&rest, '.', &part) || !copy_name(table ? table : unused, part))
        return false;
    if (!gsp_sv_split(&rest, '.', &part))
        return true;
    for (size_t i = 0; i < part.len; i++)
        if (part.p[i] < '0' || part.p[i] > '9')
            return false;
    return part.len > 0 && part.len < 20 && !gsp_sv_split(&rest, '.', &part);
}

static bool get_text(yyjson_val *object, const char *key, char *out, size_t cap)
{
    yyjson_val *value = yyjson_obj_get(object, key);
    const char *text = yyjson_get_str(value);
    const size_t len = yyjson_get_len(value);
    if (!text || len >= cap || strlen(text) != len)
        return false;
    memcpy(out, text, len + 1);
    return true;
}

static bool get_name(yyjson_val *object, const char *key, char out[GSP_NAME_MAX])
{
    return get_text(object, key, out, GSP_NAME_MAX) && gsp_wire_table_name_is_valid(gsp_sv_of(out));
}

static bool get_u64(yyjson_val *object, const char *key, uint64_t *out)
{
    yyjson_val *value = yyjson_obj_get(object, key);
    *out = yyjson_get_uint(value);
    return yyjson_is_uint(value) && *out <= INT64_MAX;
}

static int read_segment(yyjson_val *object, struct gsp_manifest *out, struct gsp_err *err)
{
    struct gsp_segment segment = {0};
    uint64_t written = 0;
    if (!get_text(object, "file", segment.file, sizeof(segment.file)) ||
        !gsp_store__segment_name_is_valid(segment.file, segment.schema, segment.table) ||
        !get_u64(object, "rows", &segment.rows) || !get_u64(object, "bytes", &segment.bytes) ||
        !get_u64(object, "written_ns", &written))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "segment %zu is malformed", out->segment_count);
    segment.written_ns = (int64_t)written;
    return gsp_store__manifest_add_segment(out, &segment, err);
}

static int read_cursor(yyjson_val *object, struct gsp_manifest *out, struct gsp_err *err)
{
    struct gsp_drain_cursor key = {0};
    uint64_t pid = 0;
    uint64_t created = 0;
    yyjson_val *lanes = yyjson_obj_get(object, "lanes");
    if (!get_name(object, "schema", key.schema) || !get_name(object, "table", key.table) ||
        !get_u64(object, "pid", &pid) || pid > INT32_MAX ||
        !get_u64(object, "start_time", &key.start_time) ||
        !get_u64(object, "created_ns", &created) || !yyjson_is_arr(lanes) ||
        yyjson_arr_size(lanes) > GSP_RING_LANES_MAX)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "cursor %zu is malformed", out->cursor_count);
    key.pid = (int32_t)pid;
    key.created_ns = (int64_t)created;
    yyjson_arr_iter iter = yyjson_arr_iter_with(lanes);
    for (yyjson_val *pair; (pair = yyjson_arr_iter_next(&iter));) {
        yyjson_val *lane = yyjson_arr_get(pair, 0);
        yyjson_val *row = yyjson_arr_get(pair, 1);
        if (!yyjson_is_uint(lane) || !yyjson_is_uint(row) ||
            yyjson_get_uint(lane) >= GSP_RING_LANES_MAX)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "a lane of %s.%s is malformed", key.schema,
                               key.table);
        int rc = gsp_store__manifest_set_cursor(out, &key, (uint32_t)yyjson_get_uint(lane),
                                                yyjson_get_uint(row), err);
        if (rc < 0)
            return rc;
    }
    return GSP_OK;
}

static int read_loss(yyjson_val *object, struct gsp_manifest *out, struct gsp_err *err)
{
    struct gsp_segment_loss loss = {.pid = GSP_NULL_I64};
    yyjson_val *pid = yyjson_obj_get(object, "pid");
    if (!get_name(object, "schema", loss.schema) || !get_name(object, "table", loss.table) ||
        !get_text(object, "cause", loss.cause, sizeof(loss.cause)) ||
        !get_u64(object, "count", &loss.count))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "loss %zu is malformed", out->loss_count);
    if (yyjson_is_uint(pid))
        loss.pid = (int64_t)(yyjson_get_uint(pid) & INT32_MAX);
    return gsp_store__manifest_add_loss(out, &loss, err);
}

static int read_list(yyjson_val *root, const char *key,
                     int (*read)(yyjson_val *, struct gsp_manifest *, struct gsp_err *),
                     struct gsp_manifest *out, struct gsp_err *err)
{
    yyjson_val *list = yyjson_obj_get(root, key);
    int rc = GSP_OK;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > ENTRIES_MAX)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the list of %s is missing or too long", key);
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    for (yyjson_val *object; rc == GSP_OK && (object = yyjson_arr_iter_next(&iter));)
        rc = read(object, out, err);
    return rc;
}

static int read_root(yyjson_val *root, struct gsp_manifest *out, struct gsp_err *err)
{
    uint64_t version = 0;
    if (!get_u64(root, "version", &version) || !get_u64(root, "next", &out->next))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a manifest");
    if (version != GSP_MANIFEST_VERSION)
        return gsp_err_set(err, GSP_E_VERSION, 0,
                           "manifest version %" PRIu64 "; only version %d is supported", version,
                           GSP_MANIFEST_VERSION);
    int rc = read_list(root, "segments", read_segment, out, err);
    if (rc == GSP_OK)
        rc = read_list(root, "cursors", read_cursor, out, err);
    if (rc == GSP_OK)
        rc = read_list(root, "losses", read_loss, out, err);
    return rc;
}

static int file_path(const char *folder, const char *name, char *out, size_t cap,
                     struct gsp_err *err)
{
    const int n = snprintf(out, cap, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= cap)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "the path %.160s... is too long", folder);
    return GSP_OK;
}

int gsp_store__manifest_parse(struct gsp_sv text, struct gsp_manifest *out, struct gsp_err *err)
{
    *out = (struct gsp_manifest){.next = 1};
    yyjson_doc *doc = text.len ? yyjson_read(text.p, text.len, 0) : NULL;
    int rc = doc ? read_root(yyjson_doc_get_root(doc), out, err)
                 : gsp_err_set(err, GSP_E_FORMAT, 0, "not JSON");
    yyjson_doc_free(doc);
    if (rc < 0) {
        gsp_store__manifest_free(out);
        out->next = 1;
    }
    return rc;
}

int gsp_store__manifest_read(const char *folder, struct gsp_manifest *out, struct gsp_err *err)
{
    char path[4096];
    gsp_auto_buf text = {0};
    struct gsp_err cause = {0};
    *out = (struct gsp_manifest){.next = 1};
    int rc = file_path(folder, GSP_MANIFEST_NAME, path, sizeof(path), err);
    if (rc < 0)
        return rc;
    rc = gsp_file_read_member(path, GSP_MANIFEST_MAX, &text, &cause);
    if (rc == GSP_E_NOFILE)
        return GSP_OK;
    if (rc < 0) {
        if (err)
            *err = cause;
        return rc;
    }
    rc = gsp_store__manifest_parse(gsp_buf_sv(&text), out, &cause);
    if (rc < 0)
        gsp_err_fill(err, rc, 0, "%.140s: %.80s", path, cause.msg);
    return rc;
}

static void put_segments(struct gsp_json *json, const struct gsp_manifest *manifest)
{
    gsp_json_put_arr_begin(json, "segments");
    for (size_t i = 0; i < manifest->segment_count; i++) {
        const struct gsp_segment *segment = &manifest->segments[i];
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "file", segment->file);
        gsp_json_put_u64(json, "rows", segment->rows);
        gsp_json_put_u64(json, "bytes", segment->bytes);
        gsp_json_put_i64(json, "written_ns", segment->written_ns);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_cursors(struct gsp_json *json, const struct gsp_manifest *manifest)
{
    gsp_json_put_arr_begin(json, "cursors");
    for (size_t i = 0; i < manifest->cursor_count; i++) {
        const struct gsp_drain_cursor *cursor = &manifest->cursors[i];
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "schema", cursor->schema);
        gsp_json_put_str(json, "table", cursor->table);
        gsp_json_put_i64(json, "pid", cursor->pid);
        gsp_json_put_u64(json, "start_time", cursor->start_time);
        gsp_json_put_i64(json, "created_ns", cursor->created_ns);
        gsp_json_put_arr_begin(json, "lanes");
        for (uint32_t k = 0; k < cursor->lane_count; k++) {
            gsp_json_arr_begin(json);
            gsp_json_u64(json, cursor->lanes[k].lane);
            gsp_json_u64(json, cursor->lanes[k].row);
            gsp_json_arr_end(json);
        }
        gsp_json_arr_end(json);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

static void put_losses(struct gsp_json *json, const struct gsp_manifest *manifest)
{
    gsp_json_put_arr_begin(json, "losses");
    for (size_t i = 0; i < manifest->loss_count; i++) {
        const struct gsp_segment_loss *loss = &manifest->losses[i];
        gsp_json_obj_begin(json);
        gsp_json_put_str(json, "schema", loss->schema);
        gsp_json_put_str(json, "table", loss->table);
        gsp_json_put_str(json, "cause", loss->cause);
        if (gsp_json_key_or_null(json, "pid", loss->pid != GSP_NULL_I64))
            gsp_json_i64(json, loss->pid);
        gsp_json_put_u64(json, "count", loss->count);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}

int gsp_store__manifest_write(const char *folder, const struct gsp_manifest *manifest,
                              struct gsp_err *err)
{
    char path[4096];
    gsp_auto_buf text = {0};
    struct gsp_json json;
    struct gsp_newfile file = {.fd = -1};
    int rc = file_path(folder, GSP_MANIFEST_NAME, path, sizeof(path), err);
    if (rc < 0)
        return rc;
    gsp_json_init(&json, &text);
    gsp_json_obj_begin(&json);
    gsp_json_put_i64(&json, "version", GSP_MANIFEST_VERSION);
    gsp_json_put_u64(&json, "next", manifest->next);
    put_segments(&json, manifest);
    put_cursors(&json, manifest);
    put_losses(&json, manifest);
    gsp_json_obj_end(&json);
    gsp_buf_putc(&text, '\n');
    if (text.failed)
        return gsp_err_nomem(err);
    rc = gsp_newfile_open(&file, path, true, err);
    if (rc < 0)
        return rc;
    rc = gsp_fd_write_all(file.fd, text.p, text.len, err);
    if (rc == GSP_OK && fsync(file.fd) < 0)
        rc = gsp_err_set(err, GSP_E_NOWRITE, errno, "cannot write %.180s: %s", path,
                         strerror(errno));
    if (rc < 0) {
        gsp_newfile_abort(&file);
        return rc;
    }
    rc = gsp_newfile_commit(&file, err);
    /* Sync the folder as well: afterwards the caller removes files that only the old manifest
     * lists. */
    gsp_auto_fd dir = rc == GSP_OK ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir >= 0)
        (void)fsync(dir);
    return rc;
}
