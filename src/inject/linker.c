/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/linker.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "proc/image.h"

/* A flag that glibc before 2.34 requires from callers other than its own dlopen(). */
#define RTLD_DLOPEN_PRIVATE 0x80000000U

static bool starts_with(struct gsp_sv name, const char *with)
{
    size_t len = strlen(with);
    return name.len >= len && memcmp(name.p, with, len) == 0;
}

enum gsp_inject__file gsp_inject__linker_file_of(const char *path)
{
    struct gsp_sv name = gsp_sv_basename(gsp_sv_of(path));
    if (starts_with(name, "ld-musl") || starts_with(name, "libc.musl"))
        return GSP_LINKER_MUSL;
    if (starts_with(name, "ld-") || starts_with(name, "ld.so") || starts_with(name, "ld64.so"))
        return GSP_LINKER_LD;
    if (starts_with(name, "libc.so") || starts_with(name, "libc-2"))
        return GSP_LINKER_LIBC;
    return starts_with(name, "libdl.so") || starts_with(name, "libdl-2") ? GSP_LINKER_LIBDL
                                                                         : GSP_LINKER_OTHER;
}

static void set_symbol(gsp_raddr *slot, struct gsp_image *image, const char *name)
{
    if (*slot == 0)
        *slot = gsp_proc_image_dynsym(image, name);
}

static void read_libc(struct gsp_inject__linker *out, struct gsp_image *image)
{
    set_symbol(&out->open, image, "dlopen");
    set_symbol(&out->find, image, "dlsym");
    set_symbol(&out->error, image, "dlerror");
    set_symbol(&out->raw_call, image, "syscall");
}

/* glibc before 2.34 has the public functions in libdl, which may not be loaded. */
static void read_private(struct gsp_inject__linker *out, struct gsp_image *image)
{
    if (out->open && out->find)
        return;
    out->open = gsp_proc_image_dynsym(image, "__libc_dlopen_mode");
    out->find = gsp_proc_image_dynsym(image, "__libc_dlsym");
    out->error = 0;
    out->open_flags = (int)((unsigned)RTLD_NOW | RTLD_DLOPEN_PRIVATE);
}

static bool is_library(const char *path, const char *library)
{
    struct gsp_sv a = gsp_sv_basename(gsp_sv_of(path));
    struct gsp_sv b = gsp_sv_basename(gsp_sv_of(library));
    return a.len == b.len && memcmp(a.p, b.p, a.len) == 0;
}

/* Reads the symbols of one mapped file into *out. */
static void read_image(const struct gsp_inject__query *query, enum gsp_inject__file kind,
                       const struct gsp_map *map, struct gsp_image *image,
                       struct gsp_inject__linker *out)
{
    if (kind == GSP_LINKER_LIBC || kind == GSP_LINKER_LIBDL) {
        read_libc(out, image);
    } else if (kind == GSP_LINKER_LD && out->state == 0) {
        gsp_raddr debug = gsp_proc_image_dynsym(image, "_r_debug");
        out->state = debug ? debug + offsetof(struct r_debug, r_state) : 0;
    }
    if (is_library(map->path, query->library))
        set_symbol(&out->loaded, image, query->symbol);
}

int gsp_inject__linker_find(pid_t pid, struct gsp_mem *mem, const struct gsp_maps *maps,
                            const struct gsp_inject__query *query, struct gsp_inject__linker *out,
                            struct gsp_err *err)
{
    *out = (struct gsp_inject__linker){.open_flags = RTLD_NOW};
    bool musl = false;
    for (size_t i = 0; i < gsp_proc_maps_count(maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(maps, i);
        enum gsp_inject__file kind = gsp_inject__linker_file_of(map->path);
        struct gsp_image *image;
        musl = musl || kind == GSP_LINKER_MUSL;
        if (map->offset != 0 || map->inode == 0 ||
            (kind == GSP_LINKER_OTHER && !is_library(map->path, query->library)) ||
            gsp_proc_image_open(pid, mem, map, &image, NULL) != GSP_OK)
            continue;
        read_image(query, kind, map, image, out);
        gsp_proc_image_close(image);
    }
    if (musl)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the C library of the process is musl, but the agent needs glibc");
    for (size_t i = 0; i < gsp_proc_maps_count(maps) && !(out->open && out->find); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(maps, i);
        struct gsp_image *image;
        if (map->offset != 0 || gsp_inject__linker_file_of(map->path) != GSP_LINKER_LIBC ||
            gsp_proc_image_open(pid, mem, map, &image, NULL) != GSP_OK)
            continue;
        read_private(out, image);
        gsp_proc_image_close(image);
    }
    if (!out->open || !out->find)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the process has no dlopen (statically linked)");
    return GSP_OK;
}

bool gsp_inject__linker_is_idle(const struct gsp_inject__linker *linker, struct gsp_mem *mem)
{
    int state;
    if (linker->state == 0)
        return true;
    return gsp_proc_mem_read(mem, linker->state, &state, sizeof(state)) == GSP_OK &&
           state == RT_CONSISTENT;
}
