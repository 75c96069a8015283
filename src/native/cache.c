/* SPDX-License-Identifier: Apache-2.0 */
#include "native/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"

#define FILE_BYTES_MAX (1U << 30)
#define BUILD_ID_MIN   8U
#define BUILD_ID_MAX   64U

static const char MAGIC[8] = "GSPUNW1";

/* In the order of the machine: the file never leaves it. */
struct header {
    char magic[8];
    uint16_t machine;
    uint16_t build_id_len;
    uint32_t row_size;
    uint64_t row_count;
    uint64_t base;
    uint64_t eh_len;
    uint64_t rows_hash;
    unsigned char build_id[BUILD_ID_MAX];
};

static bool is_key(const struct gsp_native_cache_key *key)
{
    return key->build_id_len >= BUILD_ID_MIN && key->build_id_len <= BUILD_ID_MAX;
}

static uint64_t hash_rows(const void *rows, size_t count, uint64_t base)
{
    return gsp_hash_bytes(rows, count * sizeof(struct gsp_cfi_row), base);
}

/* A damaged file can carry the right hash: the unwinder stands on the order of the rows. */
static bool rows_are_sound(const struct gsp_cfi_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((i > 0 && rows[i].pc <= rows[i - 1].pc) || (rows[i].rule & 7U) > GSP_CFI_END)
            return false;
    }
    return true;
}

bool gsp_native__cache_parse(struct gsp_sv bytes, const struct gsp_native_cache_key *key,
                             struct gsp_cfi_table *out)
{
    struct header head;
    *out = (struct gsp_cfi_table){0};
    if (!is_key(key) || bytes.len < sizeof(head))
        return false;
    memcpy(&head, bytes.p, sizeof(head));
    if (memcmp(head.magic, MAGIC, sizeof(MAGIC)) != 0 || head.machine != key->machine ||
        head.build_id_len != key->build_id_len || head.row_size != sizeof(struct gsp_cfi_row) ||
        head.eh_len != key->eh_len || memcmp(head.build_id, key->build_id, key->build_id_len) != 0)
        return false;
    size_t room = bytes.len - sizeof(head);
    if (head.row_count == 0 || head.row_count > room / sizeof(struct gsp_cfi_row) ||
        head.row_count * sizeof(struct gsp_cfi_row) != room)
        return false;
    struct gsp_cfi_row *rows = malloc(room);
    if (!rows)
        return false;
    memcpy(rows, bytes.p + sizeof(head), room);
    size_t count = (size_t)head.row_count;
    if (hash_rows(rows, count, head.base) != head.rows_hash || !rows_are_sound(rows, count)) {
        free(rows);
        return false;
    }
    *out = (struct gsp_cfi_table){.base = head.base, .count = count, .rows = rows};
    return true;
}

void gsp_native__cache_format(const struct gsp_cfi_table *table,
                              const struct gsp_native_cache_key *key, struct gsp_buf *out)
{
    if (!is_key(key))
        return;
    struct header head;
    memset(&head, 0, sizeof(head));
    memcpy(head.magic, MAGIC, sizeof(MAGIC));
    head.machine = key->machine;
    head.build_id_len = (uint16_t)key->build_id_len;
    head.row_size = sizeof(struct gsp_cfi_row);
    head.row_count = table->count;
    head.base = table->base;
    head.eh_len = key->eh_len;
    head.rows_hash = hash_rows(table->rows, table->count, table->base);
    memcpy(head.build_id, key->build_id, key->build_id_len);
    gsp_buf_put(out, &head, sizeof(head));
    gsp_buf_put(out, table->rows, table->count * sizeof(*table->rows));
}

/* The folder's path, each part of it made if make; false when there is none. */
static bool put_folder(struct gsp_buf *path, bool make)
{
    const char *root = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    struct stat st;
    /* Relative paths are to be ignored, as the XDG base directory specification says. */
    if (root && root[0] == '/')
        gsp_buf_puts(path, root);
    else if (home && home[0] == '/')
        gsp_buf_printf(path, "%s/.cache", home);
    else
        return false;
    /* Root with a user's HOME must not leave its files there. */
    if (make && home && stat(home, &st) == 0 && st.st_uid != geteuid())
        return false;
    static const char *const PARTS[] = {"", "/gsprof", "/unwind"};
    for (size_t i = 0; i < GSP_COUNT(PARTS); i++) {
        gsp_buf_puts(path, PARTS[i]);
        const char *text = gsp_buf_cstr(path);
        if (!text || (make && mkdir(text, 0700) != 0 && errno != EEXIST))
            return false;
    }
    return true;
}

static const char *put_path(struct gsp_buf *path, const struct gsp_native_cache_key *key, bool make)
{
    if (!is_key(key) || !put_folder(path, make))
        return NULL;
    gsp_buf_putc(path, '/');
    for (size_t i = 0; i < key->build_id_len; i++)
        gsp_buf_printf(path, "%02x", key->build_id[i]);
    return gsp_buf_cstr(path);
}

bool gsp_native__cache_load(const struct gsp_native_cache_key *key, struct gsp_cfi_table *out)
{
    *out = (struct gsp_cfi_table){0};
    gsp_auto_buf path = {0};
    const char *text = put_path(&path, key, false);
    if (!text)
        return false;
    gsp_auto_fd fd = open(text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    /* Somebody else's file could say anything, such as the user's when root runs with his HOME. */
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return false;
    gsp_auto_buf bytes = {0};
    if (gsp_fd_read_all(fd, FILE_BYTES_MAX, &bytes, NULL) != GSP_OK)
        return false;
    return gsp_native__cache_parse(gsp_buf_sv(&bytes), key, out);
}

void gsp_native__cache_save(const struct gsp_native_cache_key *key,
                            const struct gsp_cfi_table *table)
{
    gsp_auto_buf path = {0};
    gsp_auto_buf bytes = {0};
    if (table->count == 0 || table->count > FILE_BYTES_MAX / sizeof(*table->rows) / 2)
        return;
    const char *text = put_path(&path, key, true);
    gsp_native__cache_format(table, key, &bytes);
    struct gsp_newfile file;
    if (!text || bytes.failed || gsp_newfile_open(&file, text, true, NULL) != GSP_OK)
        return;
    if (fchmod(file.fd, 0600) != 0 ||
        gsp_fd_write_all(file.fd, bytes.p, bytes.len, NULL) != GSP_OK) {
        gsp_newfile_abort(&file);
        return;
    }
    gsp_ignore(gsp_newfile_commit(&file, NULL) != GSP_OK); /* the next start builds it again */
}
