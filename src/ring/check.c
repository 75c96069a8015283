/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/check.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

/* Largest valid offset or size, so that a sum of two does not overflow. */
#define OFFSET_MAX (UINT64_C(1) << 48)

static int read_at(int fd, uint64_t off, void *out, size_t n, struct gsp_err *err)
{
    const ssize_t done = gsp_fd_read_at(fd, out, n, off);
    if (done < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "cannot read a ring: %s", strerror(errno));
    if ((size_t)done < n)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the file ends at byte %llu, inside its head",
                           (unsigned long long)(off + (size_t)done));
    return 0;
}

static bool is_name(const char name[GSP_NAME_MAX])
{
    const size_t len = strnlen(name, GSP_NAME_MAX);
    return len < GSP_NAME_MAX && gsp_wire_table_name_is_valid((struct gsp_sv){name, len});
}

static int check_kind(const struct gsp_ring_head *head, struct gsp_err *err)
{
    if (memcmp(head->magic, GSP_RING_MAGIC, sizeof(head->magic)) != 0)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a ring");
    if (head->byte_order != GSP_RING_BYTE_ORDER) {
        return gsp_err_set(err, GSP_E_FORMAT, 0, "a ring with another byte order (%08x)",
                           head->byte_order);
    }
    if (head->version != GSP_RING_VERSION) {
        return gsp_err_set(err, GSP_E_VERSION, 0, "a ring of version %u; supported is version %u",
                           head->version, GSP_RING_VERSION);
    }
    return 0;
}

static int check_numbers(const struct gsp_ring_head *head, uint64_t file_bytes, struct gsp_err *err)
{
    const char *wrong = NULL;
    if (!is_name(head->schema) || !is_name(head->table))
        wrong = "name";
    else if (head->scope > GSP_SCOPE_PLAIN)
        wrong = "scope";
    else if (head->column_count == 0 || head->column_count > GSP_COLUMNS_MAX)
        wrong = "number of columns";
    else if (head->row_capacity < 2 || head->row_capacity > GSP_RING_ROWS_MAX)
        wrong = "capacity";
    else if (head->lane_max == 0 || head->lane_max > GSP_RING_LANES_MAX)
        wrong = "number of lanes";
    else if (head->lane_bytes % GSP_RING_ALIGN != 0 || head->lane_bytes < GSP_RING_LANE_HEAD ||
             head->lane_bytes > OFFSET_MAX / GSP_RING_LANES_MAX)
        wrong = "lane size";
    else if (head->columns_off < sizeof(*head) || head->strings_off % GSP_RING_ALIGN != 0 ||
             head->strings_off > OFFSET_MAX || head->strings_bytes > OFFSET_MAX ||
             head->columns_off + head->column_count * sizeof(struct gsp_ring_column) >
                 head->strings_off)
        wrong = "position of the columns";
    else if (head->lanes_off % GSP_RING_ALIGN != 0 || head->lanes_off > OFFSET_MAX ||
             head->strings_off + head->strings_bytes > head->lanes_off)
        wrong = "position of the lanes";
    if (wrong)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "invalid head of a ring: %s", wrong);
    if (head->lanes_off > file_bytes) {
        return gsp_err_set(err, GSP_E_FORMAT, 0,
                           "the file ends at byte %llu; its lanes start at %llu",
                           (unsigned long long)file_bytes, (unsigned long long)head->lanes_off);
    }
    return 0;
}

/* A range of bytes in a lane. */
struct range {
    uint64_t from;
    uint64_t to;
};

static bool has_overlap(const struct range *ranges, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++)
            if (ranges[i].from < ranges[j].to && ranges[j].from < ranges[i].to)
                return true;
    }
    return false;
}

static bool is_duplicate(const struct gsp_ring_column *columns, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (strcmp(columns[j].name, columns[i].name) == 0)
            return true;
    return false;
}

static int check_columns(const struct gsp_ring_head *head, const struct gsp_ring_column *columns,
                         struct gsp_err *err)
{
    struct range ranges[GSP_COLUMNS_MAX + 1];
    bool has_text = false;
    for (uint32_t i = 0; i < head->column_count; i++) {
        const struct gsp_ring_column *column = &columns[i];
        if (!is_name(column->name) || is_duplicate(columns, i)) {
            return gsp_err_set(err, GSP_E_FORMAT, 0,
                               "column %u of a ring has an invalid or duplicate name", i);
        }
        const uint64_t width = gsp_wire_type_width(column->type);
        const uint64_t bytes = width * head->row_capacity;
        if (width == 0 || width != column->width || column->off < GSP_RING_LANE_HEAD ||
            column->off % GSP_RING_COLUMN_ALIGN != 0 || column->off > head->lane_bytes ||
            bytes > head->lane_bytes - column->off) {
            return gsp_err_set(err, GSP_E_FORMAT, 0, "column %s of a ring does not fit its lane",
                               column->name);
        }
        ranges[i] = (struct range){column->off, column->off + bytes};
        has_text = has_text || column->type == GSP_TEXT;
    }
    uint32_t count = head->column_count;
    if (has_text || head->text_bytes || head->text_off) {
        if (head->text_bytes == 0 || (head->text_bytes & (head->text_bytes - 1)) != 0 ||
            head->text_bytes > GSP_RING_TEXT_MAX || head->text_off < GSP_RING_LANE_HEAD ||
            head->text_off > head->lane_bytes ||
            head->text_bytes > head->lane_bytes - head->text_off)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "invalid head of a ring: text");
        ranges[count++] = (struct range){head->text_off, head->text_off + head->text_bytes};
    }
    if (has_overlap(ranges, count))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "columns of a ring overlap");
    return 0;
}

static int check_strings(const struct gsp_ring_head *head, const struct gsp_ring_strings *strings,
                         struct gsp_ring__shape *shape, struct gsp_err *err)
{
    const uint64_t slots = strings->slot_count;
    const uint64_t tables = GSP_RING_STRINGS_HEAD + 8 * slots + 8 * (uint64_t)strings->string_max;
    if (strings->string_max > GSP_RING_STRINGS_MAX || slots > 4ULL * GSP_RING_STRINGS_MAX ||
        strings->bytes_max > GSP_RING_BYTES_MAX + GSP_RING_BYTES_FIRST ||
        tables + strings->bytes_max > head->strings_bytes)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the dictionary of a ring does not fit its area");
    shape->string_max = strings->string_max;
    shape->bytes_max = strings->bytes_max;
    shape->refs_off = head->strings_off + GSP_RING_STRINGS_HEAD + 8 * slots;
    shape->bytes_off = head->strings_off + tables;
    return 0;
}

static void fill_info(const struct gsp_ring_head *head, struct gsp_ring_info *info,
                      struct gsp_ring__shape *shape)
{
    memcpy(info->schema, head->schema, sizeof(info->schema));
    memcpy(info->table, head->table, sizeof(info->table));
    memcpy(info->host, head->host, sizeof(info->host));
    info->host[sizeof(info->host) - 1] = '\0';
    info->scope = (enum gsp_scope)head->scope;
    info->column_count = head->column_count;
    info->row_capacity = head->row_capacity - 1;
    info->pid = head->pid;
    info->start_time = head->start_time;
    info->rank = head->rank;
    info->created_ns = head->created_ns;
    shape->lanes_off = head->lanes_off;
    shape->lane_bytes = head->lane_bytes;
    shape->text_off = head->text_off;
    shape->text_bytes = head->text_bytes;
    shape->strings_off = head->strings_off;
    shape->row_slots = head->row_capacity;
    shape->lane_max = head->lane_max;
}

int gsp_ring__check(int fd, uint64_t file_bytes, struct gsp_ring_info *info,
                    struct gsp_ring__shape *shape, struct gsp_err *err)
{
    struct gsp_ring_head head;
    struct gsp_ring_strings strings;
    memset(info, 0, sizeof(*info));
    memset(shape, 0, sizeof(*shape));
    int rc = read_at(fd, 0, &head, sizeof(head), err);
    if (rc == 0)
        rc = check_kind(&head, err);
    if (rc == 0)
        rc = check_numbers(&head, file_bytes, err);
    if (rc == 0) {
        rc = read_at(fd, head.columns_off, info->columns,
                     head.column_count * sizeof(info->columns[0]), err);
    }
    if (rc == 0)
        rc = check_columns(&head, info->columns, err);
    if (rc == 0)
        rc = read_at(fd, head.strings_off, &strings, sizeof(strings), err);
    if (rc == 0)
        rc = check_strings(&head, &strings, shape, err);
    if (rc == 0) {
        fill_info(&head, info, shape);
        info->file_bytes = file_bytes;
    }
    return rc;
}
