/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"

/* A process with more mappings is broken or hostile. */
#define MAPS_BYTES_MAX (128U << 20)
#define MAPS_MAX       (1U << 20)

struct gsp_maps {
    struct gsp_map *items;
    size_t count;
    size_t cap;
    struct gsp_buf text; /* holds the paths, NUL-terminated in place */
};

static bool parse_hex(const char **p, uint64_t *out)
{
    uint64_t v = 0;
    const char *start = *p;
    for (; *p - start < 16; (*p)++) {
        char c = **p;
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (unsigned)(c - 'a') + 10;
        else
            break;
        v = v << 4 | digit;
    }
    *out = v;
    return *p != start;
}

static bool eat(const char **p, char c)
{
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

static bool parse_decimal(const char **p, uint64_t *out)
{
    uint64_t v = 0;
    const char *start = *p;
    for (; **p >= '0' && **p <= '9' && *p - start < 19; (*p)++)
        v = v * 10 + (uint64_t)(**p - '0');
    *out = v;
    return *p != start;
}

/* "start-end perms offset major:minor inode   path", NUL-terminated. */
static bool parse_line(char *line, struct gsp_map *map)
{
    const char *p = line;
    uint64_t major_dev;
    uint64_t minor_dev;
    if (!parse_hex(&p, &map->start) || !eat(&p, '-') || !parse_hex(&p, &map->end) || !eat(&p, ' '))
        return false;
    if (strnlen(p, 5) < 5)
        return false;
    map->readable = p[0] == 'r';
    map->writable = p[1] == 'w';
    map->exec = p[2] == 'x';
    p += 4;
    if (!eat(&p, ' ') || !parse_hex(&p, &map->offset) || !eat(&p, ' ') ||
        !parse_hex(&p, &major_dev) || !eat(&p, ':') || !parse_hex(&p, &minor_dev) ||
        !eat(&p, ' ') || !parse_decimal(&p, &map->inode))
        return false;
    while (*p == ' ')
        p++;
    static const char DELETED[] = " (deleted)";
    size_t len = strlen(p);
    size_t tail = sizeof(DELETED) - 1;
    if (len > tail && strcmp(p + len - tail, DELETED) == 0) {
        map->deleted = true;
        line[(size_t)(p - line) + len - tail] = '\0';
    }
    map->path = p;
    return map->start < map->end;
}

static struct gsp_map *push(struct gsp_maps *maps)
{
    if (!gsp_array_fit(&maps->items, &maps->cap, maps->count + 1))
        return NULL;
    struct gsp_map *map = &maps->items[maps->count++];
    *map = (struct gsp_map){0};
    return map;
}

/* The target can change its mappings while the kernel lists them: a mapping that was merged with
 * the previous one starts before the end of that one. Cuts off the overlap. Returns false if
 * nothing remains. */
static bool clip_start(struct gsp_map *map, uint64_t floor)
{
    if (map->start >= floor)
        return true;
    if (map->inode != 0)
        map->offset += floor - map->start;
    map->start = floor;
    return map->start < map->end;
}

static int parse_all(struct gsp_maps *maps, struct gsp_err *err)
{
    uint64_t floor = 0;
    char *end = maps->text.p + maps->text.len;
    for (char *line = maps->text.p; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end; /* finish() reserved a byte for this NUL */
        *stop = '\0';
        if (maps->count == MAPS_MAX)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u memory mappings", MAPS_MAX);
        struct gsp_map *map = push(maps);
        if (!map)
            return gsp_err_nomem(err);
        if (!parse_line(line, map) || !clip_start(map, floor))
            return gsp_err_set(err, GSP_E_FORMAT, 0, "memory map: line %zu is malformed",
                               maps->count);
        floor = map->end;
        line = stop + 1;
    }
    return GSP_OK;
}

static int finish(struct gsp_maps *maps, struct gsp_maps **out, struct gsp_err *err)
{
    if (!gsp_buf_reserve(&maps->text, 1)) {
        gsp_proc_maps_free(maps);
        return gsp_err_nomem(err);
    }
    int rc = parse_all(maps, err);
    if (rc != GSP_OK) {
        gsp_proc_maps_free(maps);
        return rc;
    }
    *out = maps;
    return GSP_OK;
}

int gsp_proc_maps_read(pid_t pid, struct gsp_maps **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_maps *maps = calloc(1, sizeof(*maps));
    if (!maps)
        return gsp_err_nomem(err);
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    int rc = gsp_file_read(path, MAPS_BYTES_MAX, &maps->text, err);
    if (rc != GSP_OK) {
        gsp_proc_maps_free(maps);
        if (rc == GSP_E_NOFILE || (rc == GSP_E_IO && err && err->sys == 3 /* ESRCH */))
            return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d does not exist", (int)pid);
        return rc;
    }
    return finish(maps, out, err);
}

int gsp_proc__maps_parse(struct gsp_sv text, struct gsp_maps **out, struct gsp_err *err)
{
    *out = NULL;
    if (text.len > MAPS_BYTES_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "memory map of %zu bytes", text.len);
    struct gsp_maps *maps = calloc(1, sizeof(*maps));
    if (!maps)
        return gsp_err_nomem(err);
    gsp_buf_putsv(&maps->text, text);
    return finish(maps, out, err);
}

void gsp_proc_maps_free(struct gsp_maps *maps)
{
    if (!maps)
        return;
    free(maps->items);
    gsp_buf_free(&maps->text);
    free(maps);
}

size_t gsp_proc_maps_count(const struct gsp_maps *maps)
{
    return maps->count;
}

const struct gsp_map *gsp_proc_maps_at(const struct gsp_maps *maps, size_t i)
{
    return i < maps->count ? &maps->items[i] : NULL;
}

const struct gsp_map *gsp_proc_maps_find(const struct gsp_maps *maps, uint64_t addr)
{
    size_t lo = 0;
    size_t hi = maps->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct gsp_map *map = &maps->items[mid];
        if (addr < map->start)
            hi = mid;
        else if (addr >= map->end)
            lo = mid + 1;
        else
            return map;
    }
    return NULL;
}
