/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/linker.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "proc/image.h"

/* What glibc before 2.34 wants of calls that do not come from its own dlopen(). */
#define RTLD_DLOPEN_PRIVATE 0x80000000U

static bool begins(struct gsp_sv name, const char *with)
{
    size_t len = strlen(with);
    return name.len >= len && memcmp(name.p, with, len) == 0;
}

enum gsp_inject__file gsp_inject__linker_file_of(const char *path)
{
    struct gsp_sv name = gsp_sv_basename(gsp_sv_of(path));
    if (begins(name, "ld-musl") || begins(name, "libc.musl"))
        return GSP_LINKER_MUSL;
    if (begins(name, "ld-") || begins(name, "ld.so") || begins(name, "ld64.so"))
        return GSP_LINKER_LD;
    if (begins(name, "libc.so") || begins(name, "libc-2"))
        return GSP_LINKER_LIBC;
    return begins(name, "libdl.so") || begins(name, "libdl-2") ? GSP_LINKER_LIBDL
                                                               : GSP_LINKER_OTHER;
}

static void take(gsp_raddr *slot, struct gsp_image *image, const char *name)
{
    if (*slot == 0)
        *slot = gsp_image_dynsym(image, name);
}

static void take_libc(struct gsp_inject__linker *out, struct gsp_image *image)
{
    take(&out->open, image, "dlopen");
    take(&out->find, image, "dlsym");
    take(&out->error, image, "dlerror");
    take(&out->raw_call, image, "syscall");
}

/* glibc before 2.34 has the public functions in a library that need not be there. */
static void take_private(struct gsp_inject__linker *out, struct gsp_image *image)
{
    if (out->open && out->find)
        return;
    out->open = gsp_image_dynsym(image, "__libc_dlopen_mode");
    out->find = gsp_image_dynsym(image, "__libc_dlsym");
    out->error = 0;
    out->open_flags = (int)((unsigned)RTLD_NOW | RTLD_DLOPEN_PRIVATE);
}

static bool is_library(const char *path, const char *library)
{
    struct gsp_sv a = gsp_sv_basename(gsp_sv_of(path));
    struct gsp_sv b = gsp_sv_basename(gsp_sv_of(library));
    return a.len == b.len && memcmp(a.p, b.p, a.len) == 0;
}

/* One file of the target; what it has goes to *out. */
static void look_at(const struct gsp_inject__want *want, enum gsp_inject__file kind,
                    const struct gsp_map *map, struct gsp_image *image,
                    struct gsp_inject__linker *out)
{
    if (kind == GSP_LINKER_LIBC || kind == GSP_LINKER_LIBDL) {
        take_libc(out, image);
    } else if (kind == GSP_LINKER_LD && out->state == 0) {
        gsp_raddr debug = gsp_image_dynsym(image, "_r_debug");
        out->state = debug ? debug + offsetof(struct r_debug, r_state) : 0;
    }
    if (is_library(map->path, want->library))
        take(&out->loaded, image, want->symbol);
}

int gsp_inject__linker_find(pid_t pid, struct gsp_mem *mem, const struct gsp_maps *maps,
                            const struct gsp_inject__want *want, struct gsp_inject__linker *out,
                            struct gsp_err *err)
{
    *out = (struct gsp_inject__linker){.open_flags = RTLD_NOW};
    bool musl = false;
    for (size_t i = 0; i < gsp_maps_count(maps); i++) {
        const struct gsp_map *map = gsp_maps_at(maps, i);
        enum gsp_inject__file kind = gsp_inject__linker_file_of(map->path);
        struct gsp_image *image;
        musl = musl || kind == GSP_LINKER_MUSL;
        if (map->offset != 0 || map->inode == 0 ||
            (kind == GSP_LINKER_OTHER && !is_library(map->path, want->library)) ||
            gsp_image_open(pid, mem, map, &image, NULL) != GSP_OK)
            continue;
        look_at(want, kind, map, image, out);
        gsp_image_close(image);
    }
    if (musl)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "its C library is musl, and the agent is built for glibc");
    for (size_t i = 0; i < gsp_maps_count(maps) && !(out->open && out->find); i++) {
        const struct gsp_map *map = gsp_maps_at(maps, i);
        struct gsp_image *image;
        if (map->offset != 0 || gsp_inject__linker_file_of(map->path) != GSP_LINKER_LIBC ||
            gsp_image_open(pid, mem, map, &image, NULL) != GSP_OK)
            continue;
        take_private(out, image);
        gsp_image_close(image);
    }
    if (!out->open || !out->find)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "it has no dlopen: a statically linked program loads no libraries");
    return GSP_OK;
}

bool gsp_inject__linker_is_calm(const struct gsp_inject__linker *linker, struct gsp_mem *mem)
{
    int state;
    if (linker->state == 0)
        return true;
    return gsp_mem_read(mem, linker->state, &state, sizeof(state)) == GSP_OK &&
           state == RT_CONSISTENT;
}
