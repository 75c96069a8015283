/* SPDX-License-Identifier: Apache-2.0 */
/* Reads arbitrary bytes as a memory recording or, depending on the first byte, as the memory
 * counters of a process. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memlog/layout.h"
#include "memlog/log.h"
#include "memlog/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Corrects the checksums, so that the records are parsed. */
static void fix_checksums(uint8_t *bytes, size_t size)
{
    size_t at = GSP_MEMLOG_HEADER_BYTES;
    for (uint32_t number = 0; at < size && size - at >= GSP_MEMLOG_BLOCK_BYTES; number++) {
        const size_t len = (size_t)gsp_memlog__get_number(bytes + at, 4);
        if (len > size - at - GSP_MEMLOG_BLOCK_BYTES)
            return;
        const struct gsp_sv records = {(const char *)bytes + at + GSP_MEMLOG_BLOCK_BYTES, len};
        gsp_memlog__put_number(bytes + at + 4, number, 4);
        gsp_memlog__put_number(bytes + at + 8, gsp_memlog__checksum(records, number), 8);
        at += GSP_MEMLOG_BLOCK_BYTES + len;
    }
}

static void make_view(const struct gsp_memlog *log, enum gsp_memlog_view view,
                      enum gsp_memlog_group_by by)
{
    const struct gsp_memlog_view_spec question = {
        .view = view, .from_ns = 0, .to_ns = gsp_memlog_end_ns(log)};
    struct gsp_memlog_groups groups;
    struct gsp_memlog_values values;
    struct gsp_memlog_rows rows;
    gsp_auto_buf name = {0};
    if (gsp_memlog_groups_create(&groups, log, by, NULL) < 0)
        return;
    if (gsp_memlog_values_create(&values, log, &question, &groups, NULL) == GSP_OK) {
        if (gsp_memlog_rows_create(&rows, log, &values, &groups, NULL) == GSP_OK && rows.count)
            gsp_memlog_group_name(&groups, log, rows.at[0].group, &name);
        gsp_memlog_rows_free(&rows);
        gsp_memlog_values_free(&values);
    }
    gsp_memlog_groups_free(&groups);
}

static void check_log(const uint8_t *data, size_t size)
{
    struct gsp_memlog *log = NULL;
    if (gsp_memlog__parse((struct gsp_sv){(const char *)data, size}, &log, NULL) < 0)
        return;
    for (int view = GSP_MEMVIEW_PEAK; view <= GSP_MEMVIEW_TEMPORARY; view++)
        make_view(log, (enum gsp_memlog_view)view, (enum gsp_memlog_group_by)(view % GSP_MEMBYS));
    gsp_memlog_close(log);
}

static void check_table(const uint8_t *data, size_t size)
{
    static char folder[] = "/tmp/gsprof-fuzz-XXXXXX";
    static int folder_fd = -1;
    struct gsp_memlog_table *table = NULL;
    struct gsp_memlog_stacks stacks = GSP_MEMSTACKS_NONE;
    struct gsp_profile *profile = NULL;
    const struct gsp_process process = {.pid = 1};
    if (folder_fd < 0 && (!mkdtemp(folder) || (folder_fd = open(folder, O_RDONLY)) < 0))
        return;
    const int fd = openat(folder_fd, GSP_MEMORY_FILE, O_RDWR | O_CREAT | O_TRUNC, 0600);
    const bool whole = fd >= 0 && write(fd, data, size) == (ssize_t)size;
    close(fd);
    if (whole && gsp_memlog_table_open(folder_fd, &table, NULL) == GSP_OK &&
        gsp_memlog_table_copy(table, NULL) == GSP_OK &&
        gsp_model_profile_new(false, &profile, NULL) == GSP_OK &&
        gsp_model_profile_process(profile, &process, &stacks.process, NULL) == GSP_OK &&
        gsp_memlog_stacks_grow(&stacks, table, profile, NULL) == GSP_OK) {
        for (size_t i = 0; i < gsp_memlog_table_site_count(table); i++) {
            uint32_t thread = 0;
            uint32_t stack = 0;
            gsp_memlog_stacks_at(&stacks, gsp_memlog_table_site(table, i)->node, &thread, &stack);
            if (stack > gsp_model_profile_stack_count(profile))
                abort();
        }
    }
    gsp_memlog_stacks_free(&stacks);
    gsp_model_profile_free(profile);
    gsp_memlog_table_close(table);
    unlinkat(folder_fd, GSP_MEMORY_FILE, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] != gsp_memlog__magic[0]) {
        check_table(data, size);
        return 0;
    }
    uint8_t *copy = malloc(size);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    check_log(copy, size);
    fix_checksums(copy, size);
    check_log(copy, size);
    free(copy);
    return 0;
}
