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
    set_symbol(&out->error, image, "dlerror");
    set_symbol(&out->raw_call, image, "syscall");
    set_symbol(&out->errno_at, image, "__errno_location");
}

/* glibc before 2.34 has the public functions in libdl, which may not be loaded. */
static void read_private(struct gsp_inject__linker *out, struct gsp_image *image)
{
    if (out->open)
        return;
    out->open = gsp_proc_image_dynsym(image, "__libc_dlopen_mode");
    out->error = 0;
    out->open_flags = (int)((unsigned)RTLD_NOW | RTLD_DLOPEN_PRIVATE);
}

/* A library that is not visible in the target was loaded from a memfd with its name. */
static bool is_library(const char *path, const char *library)
{
    static const char memfd[] = "memfd:";
    struct gsp_sv a = gsp_sv_basename(gsp_sv_of(path));
    struct gsp_sv b = gsp_sv_basename(gsp_sv_of(library));
    if (starts_with(a, memfd))
        a = (struct gsp_sv){a.p + sizeof(memfd) - 1, a.len - (sizeof(memfd) - 1)};
    return gsp_sv_eq(a, b);
}

/* Reads the symbols of one mapped file into *out. */
static void read_image(enum gsp_inject__file kind, struct gsp_image *image,
                       struct gsp_inject__linker *out)
{
    if (kind == GSP_LINKER_LIBC || kind == GSP_LINKER_LIBDL) {
        read_libc(out, image);
    } else if (kind == GSP_LINKER_LD && out->state == 0) {
        gsp_raddr debug = gsp_proc_image_dynsym(image, "_r_debug");
        out->state = debug ? debug + offsetof(struct r_debug, r_state) : 0;
    }
}

gsp_raddr gsp_inject__linker_find_loaded(pid_t pid, struct gsp_mem *mem,
                                         const struct gsp_maps *maps,
                                         const struct gsp_inject__query *query)
{
    gsp_raddr found = 0;
    for (size_t i = 0; !found && i < gsp_proc_maps_count(maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(maps, i);
        struct gsp_image *image;
        if (map->offset != 0 || map->inode == 0 || !is_library(map->path, query->library) ||
            gsp_proc_image_open(pid, mem, map, &image, NULL) != GSP_OK)
            continue;
        found = gsp_proc_image_dynsym(image, query->symbol);
        gsp_proc_image_close(image);
    }
    return found;
}

#define CHUNK   65536U
#define OVERLAP 16U

#if defined(__x86_64__)

/* "mov $15, %rax; syscall": the C library registers it with every handler */
static const unsigned char SIGRETURN[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};

/* Finds "mov %rax, (%rbx)", pops, "ret": the end of a function. The return from a call overwrites
 * rax, so its value must be stored first. */
static void find_store(const unsigned char *bytes, size_t len, gsp_raddr addr,
                       struct gsp_inject__landing *out)
{
    static const unsigned char STORE[] = {0x48, 0x89, 0x03};
    enum { POP = 0x58, POP_RSP = 0x5c, POP_LAST = 0x5f, PREFIX = 0x41, RET = 0xc3 };
    const unsigned char *end = bytes + len;
    const unsigned char *at = bytes;
    while (!out->store && (at = memmem(at, (size_t)(end - at), STORE, sizeof(STORE)))) {
        const unsigned char *code = at + sizeof(STORE);
        unsigned pops = 0;
        for (; code + 1 < end; pops++) {
            const bool has_prefix = *code == PREFIX;
            const unsigned char pop = code[has_prefix];
            if (pop < POP || pop > POP_LAST || (pop == POP_RSP && !has_prefix))
                break;
            code += has_prefix ? 2 : 1;
        }
        if (code < end && *code == RET) {
            out->store = addr + (gsp_raddr)(at - bytes);
            out->pops = pops;
        }
        at += sizeof(STORE);
    }
}

static bool has_landing(const struct gsp_map *map)
{
    return map->exec && gsp_inject__linker_file_of(map->path) == GSP_LINKER_LIBC;
}

#else

/* "mov x8, #139; svc #0" */
static const unsigned char SIGRETURN[] = {0x68, 0x11, 0x80, 0xd2, 1, 0, 0, 0xd4};

static void find_store(const unsigned char *bytes, size_t len, gsp_raddr addr,
                       struct gsp_inject__landing *out)
{
    (void)bytes; /* the return preserves the value */
    (void)len;
    (void)addr;
    (void)out;
}

static bool has_landing(const struct gsp_map *map)
{
    return strcmp(map->path, "[vdso]") == 0;
}

#endif

/* Finds the code by its bytes: it has no symbols. Consecutive chunks overlap. */
static void find_landing(struct gsp_mem *mem, const struct gsp_maps *maps,
                         struct gsp_inject__landing *out)
{
    unsigned char bytes[CHUNK];
    for (size_t i = 0; i < gsp_proc_maps_count(maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(maps, i);
        for (gsp_raddr at = map->start; has_landing(map) && at < map->end; at += CHUNK - OVERLAP) {
            const size_t len = map->end - at < CHUNK ? (size_t)(map->end - at) : CHUNK;
            if (gsp_proc_mem_read(mem, at, bytes, len) != GSP_OK)
                continue;
            const unsigned char *found =
                out->sigreturn ? NULL : memmem(bytes, len, SIGRETURN, sizeof(SIGRETURN));
            if (found)
                out->sigreturn = at + (gsp_raddr)(found - bytes);
            find_store(bytes, len, at, out);
        }
    }
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
        if (map->offset != 0 || map->inode == 0 || kind == GSP_LINKER_OTHER ||
            gsp_proc_image_open(pid, mem, map, &image, NULL) != GSP_OK)
            continue;
        read_image(kind, image, out);
        gsp_proc_image_close(image);
    }
    if (musl)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the C library of the process is musl, but the agent needs glibc");
    for (size_t i = 0; i < gsp_proc_maps_count(maps) && !out->open; i++) {
        const struct gsp_map *map = gsp_proc_maps_at(maps, i);
        struct gsp_image *image;
        if (map->offset != 0 || gsp_inject__linker_file_of(map->path) != GSP_LINKER_LIBC ||
            gsp_proc_image_open(pid, mem, map, &image, NULL) != GSP_OK)
            continue;
        read_private(out, image);
        gsp_proc_image_close(image);
    }
    if (!out->open)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the process has no dlopen (statically linked)");
    find_landing(mem, maps, &out->landing);
    if (!out->landing.sigreturn)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the C library of the process has no code that ends a signal handler");
    out->loaded = gsp_inject__linker_find_loaded(pid, mem, maps, query);
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
