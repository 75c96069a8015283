/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "native/native_internal.h"

#define MODULES_MAX     (1U << 20)
/* Maximum size of an image that is copied from memory because its file is not available. */
#define IMAGE_BYTES_MAX (256U << 20)
#define IMAGE_CHUNK     (64U << 10)
/* Symbols of smaller files are read on demand, in one or two milliseconds. */
#define LARGE_BYTES     (32U << 20)
/* Bytes of headers, at most, that are compared between a file and the memory of a core. */
#define HEAD_BYTES      2048U

/* The number is limited, because a process may load and unload files at ever new addresses. */
static bool push_module(struct gsp_native *native, const struct gsp_map *map)
{
    if (native->module_count == MODULES_MAX ||
        !gsp_array_fit(&native->modules, &native->module_cap, native->module_count + 1))
        return false;
    struct gsp_native_module *module = &native->modules[native->module_count];
    *module = (struct gsp_native_module){.inode = map->inode, .base = map->start};
    module->path = strdup(map->path);
    if (!module->path)
        return false;
    native->module_count++;
    return true;
}

static uint32_t find_module(const struct gsp_native *native, const struct gsp_map *map)
{
    for (size_t i = 0; i < native->module_count; i++) {
        const struct gsp_native_module *module = &native->modules[i];
        if (module->base == map->start && module->inode == map->inode &&
            strcmp(module->path, map->path) == 0)
            return (uint32_t)i;
    }
    return GSP_NATIVE_NO_MODULE;
}

static bool push_text(struct gsp_native *native, const struct gsp_map *map, uint32_t module)
{
    if (!gsp_array_fit(&native->texts, &native->text_cap, native->text_count + 1))
        return false;
    native->texts[native->text_count++] =
        (struct gsp_native_text){map->start, map->end, map->offset, module};
    if (module < native->module_count && native->modules[module].end < map->end)
        native->modules[module].end = map->end;
    return true;
}

static bool has_image(const struct gsp_map *map)
{
    return map->path[0] == '/' || strcmp(map->path, "[vdso]") == 0;
}

/* Consecutive mappings of one file are one module, until the start of the file is mapped again. */
static bool is_continued(const struct gsp_map *first, const struct gsp_map *map)
{
    return first && first->inode == map->inode && strcmp(first->path, map->path) == 0 &&
           map->offset > 0;
}

static int read_modules(struct gsp_native *native, struct gsp_err *err)
{
    const struct gsp_map *first = NULL;
    native->text_count = 0;
    for (size_t i = 0; i < gsp_proc_maps_count(native->maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(native->maps, i);
        bool image = has_image(map);
        if (image && !is_continued(first, map))
            first = map;
        if (!map->exec)
            continue;
        uint32_t module = GSP_NATIVE_NO_MODULE;
        if (image) {
            module = find_module(native, first);
            if (module == GSP_NATIVE_NO_MODULE) {
                if (!push_module(native, first))
                    return gsp_err_nomem(err);
                module = (uint32_t)(native->module_count - 1);
            }
        }
        if (!push_text(native, map, module))
            return gsp_err_nomem(err);
    }
    native->generation++;
    native->is_stale = false;
    return GSP_OK;
}

static int open_same(const char *path, uint64_t inode)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    /* A different inode means that the file was replaced: its tables would be wrong. */
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (!inode || st.st_ino == inode))
        return fd;
    gsp_fd_close(&fd);
    return -1;
}

/* The length of the headers of an image. The rest of the first page may have been relocated. */
static size_t head_len(const unsigned char *image)
{
    Elf64_Ehdr ehdr;
    memcpy(&ehdr, image, sizeof(ehdr));
    uint64_t end = sizeof(ehdr);
    if (ehdr.e_phoff == sizeof(ehdr))
        end += (uint64_t)ehdr.e_phnum * sizeof(Elf64_Phdr);
    return end < HEAD_BYTES ? (size_t)end : HEAD_BYTES;
}

/* A core file does not record inodes, so the headers of the file are compared with those in the
 * core's memory, if it has them. */
static int open_by_name(const struct gsp_native *native, const struct gsp_native_module *module)
{
    int fd = open_same(module->path, module->inode);
    unsigned char memory[HEAD_BYTES];
    unsigned char bytes[HEAD_BYTES];
    if (fd < 0 || gsp_proc_mem_read(native->mem, module->base, memory, sizeof(memory)) != GSP_OK ||
        (pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
         memcmp(bytes, memory, head_len(bytes)) == 0))
        return fd;
    close(fd);
    return -1;
}

/* Tries the path below the target's root, then the kernel's link to the mapped file (finds deleted
 * files, needs privileges), then the executable's link. */
static int open_module(const struct gsp_native *native, const struct gsp_native_module *module)
{
    if (module->path[0] != '/')
        return -1;
    if (native->pid == 0)
        return open_by_name(native, module);
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "/proc/%d/root%s", (int)native->pid, module->path);
    int fd = open_same(path, module->inode);
    const struct gsp_map *map = gsp_proc_maps_find(native->maps, module->base);
    if (fd < 0 && map) {
        snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)native->pid,
                 (unsigned long long)map->start, (unsigned long long)map->end);
        fd = open_same(path, module->inode);
    }
    if (fd < 0) {
        snprintf(path, sizeof(path), "/proc/%d/exe", (int)native->pid);
        fd = open_same(path, module->inode);
    }
    return fd;
}

static bool is_part(const struct gsp_native_module *module, const struct gsp_map *map)
{
    return map->readable && !map->writable && map->start >= module->base &&
           map->start < module->end && map->inode == module->inode &&
           strcmp(map->path, module->path) == 0;
}

/* The length of the part of the file that is in memory; 0 if it is not an ELF image. */
static uint64_t image_len(const struct gsp_native *native, const struct gsp_native_module *module)
{
    unsigned char magic[4];
    if (gsp_proc_mem_read(native->mem, module->base, magic, sizeof(magic)) != GSP_OK ||
        memcmp(magic, "\177ELF", sizeof(magic)) != 0)
        return 0;
    uint64_t len = 0;
    for (size_t i = 0; i < gsp_proc_maps_count(native->maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(native->maps, i);
        uint64_t size = map->end - map->start;
        if (is_part(module, map) && size <= IMAGE_BYTES_MAX && map->offset <= IMAGE_BYTES_MAX &&
            map->offset + size > len)
            len = map->offset + size;
    }
    return len <= IMAGE_BYTES_MAX ? len : 0;
}

/* Chunks that are not readable stay zero. */
static void copy_map(const struct gsp_native *native, const struct gsp_map *map, unsigned char *to)
{
    uint64_t size = map->end - map->start;
    for (uint64_t at = 0; at < size; at += IMAGE_CHUNK) {
        size_t n = size - at < IMAGE_CHUNK ? (size_t)(size - at) : IMAGE_CHUNK;
        gsp_ignore(gsp_proc_mem_read(native->mem, map->start + at, to + at, n));
    }
}

/* Copies the parts of the image that are in memory to their file offsets. */
static struct gsp_native_file *copy_image(struct gsp_native *native,
                                          const struct gsp_native_module *module)
{
    uint64_t len = image_len(native, module);
    unsigned char *image = len ? calloc(1, (size_t)len) : NULL;
    if (!image)
        return NULL;
    for (size_t i = 0; i < gsp_proc_maps_count(native->maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(native->maps, i);
        if (is_part(module, map) && map->offset <= len &&
            map->end - map->start <= len - map->offset)
            copy_map(native, map, image + map->offset);
    }
    return gsp_native__file_of_image(native->store, image, (size_t)len, module->path);
}

const struct gsp_native_text *gsp_native__text_find(const struct gsp_native *native, uint64_t pc)
{
    size_t lo = 0;
    size_t hi = native->text_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (native->texts[mid].end <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < native->text_count && native->texts[lo].start <= pc ? &native->texts[lo] : NULL;
}

struct gsp_native_file *gsp_native__module_file(struct gsp_native *native, uint32_t number)
{
    struct gsp_native_module *module = &native->modules[number];
    if (module->tried)
        return module->file;
    module->tried = true;
    int fd = open_module(native, module);
    struct gsp_native_file *file =
        fd >= 0 ? gsp_native__file_open(native->store, fd, module->path, native->pid)
                : copy_image(native, module);
    if (!file)
        return NULL;
    for (size_t i = 0; i < native->text_count; i++) {
        const struct gsp_native_text *text = &native->texts[i];
        if (text->module == number &&
            gsp_native__file_bias(file, text->offset, text->start, &module->bias))
            module->file = file;
        if (module->file)
            break;
    }
    return module->file;
}

void gsp_native_prepare(struct gsp_native *native)
{
    for (size_t i = 0; i < native->text_count; i++) {
        uint32_t number = native->texts[i].module;
        struct gsp_native_file *file =
            number != GSP_NATIVE_NO_MODULE ? gsp_native__module_file(native, number) : NULL;
        if (file)
            gsp_native__index_of(file);
        struct gsp_native_found found;
        if (file && file->len >= LARGE_BYTES)
            gsp_ignore(gsp_native__symbol_find(file, 0, &found));
    }
}

static int open_all(struct gsp_native *native, const struct gsp_maps *maps, struct gsp_err *err)
{
    if (!native->store) {
        int rc = gsp_native_store_new(&native->store, err);
        if (rc != GSP_OK)
            return rc;
        native->owns_store = true;
    }
    if (!maps)
        return gsp_native_refresh(native, err);
    native->maps = maps;
    return read_modules(native, err);
}

/* The process of an unwinder. */
struct source {
    pid_t pid; /* 0: no live process, use maps */
    struct gsp_mem *mem;
    struct gsp_native_store *store; /* NULL: create one */
    const struct gsp_maps *maps;
};

static int open_any(const struct source *source, struct gsp_native **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_native *native = calloc(1, sizeof(*native));
    if (!native)
        return gsp_err_nomem(err);
    native->pid = source->pid;
    native->mem = source->mem;
    native->store = source->store;
    int rc = open_all(native, source->maps, err);
    if (rc != GSP_OK) {
        gsp_native_close(native);
        return rc;
    }
    *out = native;
    return GSP_OK;
}

int gsp_native_open(pid_t pid, struct gsp_mem *mem, struct gsp_native **out, struct gsp_err *err)
{
    return gsp_native_open_in(NULL, pid, mem, out, err);
}

int gsp_native_open_in(struct gsp_native_store *store, pid_t pid, struct gsp_mem *mem,
                       struct gsp_native **out, struct gsp_err *err)
{
    return open_any(&(struct source){pid, mem, store, NULL}, out, err);
}

int gsp_native_open_maps(struct gsp_native_store *store, const struct gsp_maps *maps,
                         struct gsp_mem *mem, struct gsp_native **out, struct gsp_err *err)
{
    return open_any(&(struct source){0, mem, store, maps}, out, err);
}

void gsp_native_close(struct gsp_native *native)
{
    if (!native)
        return;
    for (size_t i = 0; i < native->module_count; i++)
        free(native->modules[i].path);
    free(native->modules);
    free(native->texts);
    gsp_proc_maps_free(native->own_maps);
    if (native->owns_store)
        gsp_native_store_free(native->store);
    free(native);
}

int gsp_native_refresh(struct gsp_native *native, struct gsp_err *err)
{
    native->is_stale = false;
    if (native->pid == 0)
        return GSP_OK;
    struct gsp_maps *maps;
    int rc = gsp_proc_maps_read(native->pid, &maps, err);
    if (rc != GSP_OK)
        return rc;
    gsp_proc_maps_free(native->own_maps);
    native->own_maps = maps;
    native->maps = maps;
    return read_modules(native, err);
}

bool gsp_native_is_stale(const struct gsp_native *native)
{
    return native->is_stale;
}

const char *gsp_native_module_path(const struct gsp_native *native, uint32_t module)
{
    return module < native->module_count ? native->modules[module].path : "";
}
