/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/overheads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ring/dir.h"
#include "ring/reader.h"
#include "wire/table.h"

#define FILE_NAME "gsprof.overhead.ring"
/* Lanes of one process. */
#define SPANS_MAX 64U

/* Reads one value of a row. Returns false if the ring has no such column. */
static bool read_value(const struct gsp_ring_view *view, const struct gsp_ring_range *span,
                       const char *name, void *out, size_t width)
{
    const struct gsp_ring_info *info = gsp_ring_info(view);
    for (uint32_t i = 0; i < info->column_count; i++) {
        if (strcmp(info->columns[i].name, name) == 0 && info->columns[i].width == width) {
            gsp_ring_copy(view, span->lane, i, span->to - 1, 1, out);
            return true;
        }
    }
    return false;
}

/* Reads the newest row of a lane. Returns false if it was overwritten in the meantime. */
static bool read_row(const struct gsp_ring_view *view, const struct gsp_ring_range *span,
                     struct gsp_overhead *out)
{
    uint32_t source = 0;
    if (!read_value(view, span, "ts_ns", &out->ts_ns, sizeof(out->ts_ns)) ||
        !read_value(view, span, "percent", &out->percent, sizeof(out->percent)) ||
        !read_value(view, span, "low_percent", &out->low_percent, sizeof(out->low_percent)) ||
        !read_value(view, span, "high_percent", &out->high_percent, sizeof(out->high_percent)) ||
        !read_value(view, span, "samples", &out->samples, sizeof(out->samples)) ||
        !read_value(view, span, "source", &source, sizeof(source)) ||
        gsp_ring_oldest_row(view, span->lane) > span->to - 1)
        return false;
    (void)gsp_ring_string_read(view, source, out->source, sizeof(out->source));
    return true;
}

static size_t read_process(const struct gsp_ring_dir *dir, struct gsp_overhead *out, size_t cap)
{
    int folder_fd = -1;
    if (gsp_ring_dir_open(dir, &folder_fd, NULL) < 0)
        return 0;
    gsp_auto_fd fd = folder_fd;
    struct gsp_ring_view *view = NULL;
    if (gsp_ring_open(fd, FILE_NAME, &view, NULL) < 0)
        return 0;
    struct gsp_ring_range spans[SPANS_MAX];
    size_t count = 0;
    const size_t span_count = gsp_ring_ranges(view, spans, SPANS_MAX, NULL);
    for (size_t i = 0; i < span_count && count < cap; i++) {
        out[count].pid = dir->pid;
        if (spans[i].to > spans[i].from && read_row(view, &spans[i], &out[count]))
            count++;
    }
    gsp_ring_view_close(view);
    return count;
}

size_t gsp_daemon__overheads_read(bool all_users, struct gsp_overhead *out, size_t cap)
{
    struct gsp_ring_dirs dirs = {0};
    size_t count = 0;
    if (gsp_ring_dirs_read(all_users, &dirs, NULL) < 0)
        return 0;
    for (size_t i = 0; i < dirs.count && count < cap; i++)
        if (dirs.at[i].live)
            count += read_process(&dirs.at[i], out + count, cap - count);
    gsp_ring_dirs_free(&dirs);
    return count;
}

static void put_percent(struct gsp_json *json, const char *key, double percent)
{
    if (gsp_is_null_f64(percent))
        gsp_json_put_null(json, key);
    else
        gsp_json_put_f64(json, key, percent);
}

void gsp_daemon__overheads_json(const struct gsp_overhead *overheads, size_t count,
                                struct gsp_json *json)
{
    gsp_json_arr_begin(json);
    for (size_t i = 0; i < count; i++) {
        const struct gsp_overhead *one = &overheads[i];
        gsp_json_obj_begin(json);
        gsp_json_put_i64(json, "pid", one->pid);
        gsp_json_put_str(json, "source", one->source);
        put_percent(json, "percent", one->percent);
        put_percent(json, "low_percent", one->low_percent);
        put_percent(json, "high_percent", one->high_percent);
        gsp_json_put_i64(json, "samples", one->samples);
        gsp_json_obj_end(json);
    }
    gsp_json_arr_end(json);
}
