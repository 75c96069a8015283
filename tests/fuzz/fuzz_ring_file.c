/* SPDX-License-Identifier: Apache-2.0 */
/* Reads arbitrary bytes as a ring file, with every function of the reader. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ring/reader.h"

#define ROWS  64U
#define SPANS 8U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int folder_fd = -1;
static char folder[] = "/dev/shm/gsprof-fuzz-XXXXXX";

static void remove_folder(void)
{
    close(folder_fd);
    rmdir(folder);
}

static void open_folder(void)
{
    if (folder_fd >= 0)
        return;
    if (!mkdtemp(folder))
        abort();
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0 || atexit(remove_folder) != 0)
        abort();
}

static void read_span(struct gsp_ring_view *view, struct gsp_ring_range span)
{
    const struct gsp_ring_info *info = gsp_ring_info(view);
    if (span.from > span.to || span.to - span.from > info->row_capacity)
        abort();
    struct gsp_ring_range narrow = span;
    gsp_ring_range_narrow(view, &narrow, 1000, 2000);
    if (narrow.from < span.from || narrow.to > span.to)
        abort();
    const size_t n = span.to - span.from < ROWS ? span.to - span.from : ROWS;
    for (uint32_t column = 0; column < info->column_count; column++) {
        uint64_t values[ROWS];
        gsp_auto_buf text = {0};
        bool null = false;
        gsp_ring_copy(view, span.lane, column, span.from, n, values);
        for (size_t i = 0; i < n && info->columns[column].type == GSP_TEXT; i++)
            gsp_ring_text_read(view, span.lane, values[i], &text, &null);
    }
    if (gsp_ring_oldest_row(view, span.lane) < span.from)
        abort();
}

static void read_dict(const struct gsp_ring_view *view)
{
    struct gsp_ring_dict dict;
    if (gsp_ring_dict_read(view, &dict, NULL) != 0)
        return;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < dict.count; i++)
        for (size_t k = 0; k < dict.strings[i].len; k += 61)
            sum += (unsigned char)dict.strings[i].p[k];
    if (sum == UINT64_MAX)
        abort();
    gsp_ring_dict_free(&dict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[2 * sizeof(((struct gsp_ring_head *)NULL)->schema) + 16];
    struct gsp_ring_head head = {0};
    open_folder();
    if (size >= sizeof(head))
        memcpy(&head, data, sizeof(head));
    /* The file name must match the head. */
    snprintf(name, sizeof(name), "%.63s.%.63s.ring", head.schema, head.table);
    if (strchr(name, '/') || name[0] == '.')
        snprintf(name, sizeof(name), "x.ring");
    gsp_auto_fd fd = openat(folder_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || gsp_fd_write_all(fd, data, size, NULL) != 0)
        abort();
    struct gsp_ring_view *view = NULL;
    if (gsp_ring_open(folder_fd, name, &view, NULL) == 0) {
        struct gsp_ring_range spans[SPANS];
        struct gsp_ring_state state;
        uint64_t overwritten = 0;
        const size_t count = gsp_ring_ranges(view, spans, SPANS, &overwritten);
        for (size_t i = 0; i < count; i++)
            read_span(view, spans[i]);
        read_dict(view);
        gsp_ring_state(view, &state);
        gsp_ring_view_close(view);
    }
    unlinkat(folder_fd, name, 0);
    return 0;
}
