/* SPDX-License-Identifier: Apache-2.0 */
#include "py/locate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "proc/image.h"
#include "proc/maps.h"
#include "proc/task.h"

/* An interpreter has about 3 MB of read-only data, which contains the text of its version. */
#define SCAN_BYTES_MAX   (64U << 20)
#define SCAN_STEP        (256U << 10)
#define COOKIE           "xdebugpy"

/* The first bytes identify an ELF image: they contain its segment sizes and its build-id. */
#define IMAGE_HEAD_BYTES 1024U

struct found {
    struct gsp_image *image; /* contains the runtime */
    gsp_raddr start;         /* first byte of the image */
    gsp_raddr runtime;
    uint32_t version; /* 0 while unknown; only major and minor if taken from a file name */
};

/* Parses a number of at most three digits at *p, before end. */
static bool parse_digits(const char **p, const char *end, uint32_t *out)
{
    const char *start = *p;
    uint32_t v = 0;
    for (; *p < end && **p >= '0' && **p <= '9' && *p - start < 3; (*p)++)
        v = v * 10 + (uint32_t)(**p - '0');
    *out = v;
    return *p != start;
}

static bool parse_dot(const char **p, const char *end)
{
    if (*p == end || **p != '.')
        return false;
    (*p)++;
    return true;
}

/* "…python3.11…" in the file name of a path: 0x030b0000; 0 if there is no version. */
static uint32_t version_of_path(const char *path)
{
    struct gsp_sv base = gsp_sv_basename(gsp_sv_of(path));
    const char *end = base.p + base.len;
    for (const char *at = base.p; end - at > 8; at++) {
        const char *p = at + 6;
        uint32_t parts[2];
        if (memcmp(at, "python", 6) == 0 && parse_digits(&p, end, &parts[0]) &&
            parse_dot(&p, end) && parse_digits(&p, end, &parts[1]))
            return parts[0] << 24 | parts[1] << 16;
    }
    return 0;
}

static bool looks_like_python(const char *path)
{
    struct gsp_sv base = gsp_sv_basename(gsp_sv_of(path));
    return gsp_sv_starts(base, "python") || gsp_sv_starts(base, "libpython");
}

/* "3.9.18" "\0": the text of PY_VERSION, a constant of every build. */
static uint32_t match_version(const char *p, size_t len)
{
    const char *end = p + len;
    uint32_t parts[3];
    if (!parse_digits(&p, end, &parts[0]) || !parse_dot(&p, end) ||
        !parse_digits(&p, end, &parts[1]) || !parse_dot(&p, end) ||
        !parse_digits(&p, end, &parts[2]) || p == end || (*p != '\0' && *p != '+') ||
        (parts[0] != 2 && parts[0] != 3) || parts[1] > 255 || parts[2] > 255)
        return 0;
    return parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | 0xf0U;
}

/* hint: the required major and minor version, or 0 for any. */
static uint32_t scan_range(struct gsp_mem *mem, const struct gsp_range *range, uint32_t hint)
{
    char *buf = malloc(SCAN_STEP + 32);
    uint32_t version = 0;
    uint64_t len = range->len < SCAN_BYTES_MAX ? range->len : SCAN_BYTES_MAX;
    for (uint64_t off = 0; buf && !version && off < len; off += SCAN_STEP) {
        size_t chunk = SCAN_STEP + 32;
        if (chunk > len - off)
            chunk = (size_t)(len - off);
        if (gsp_proc_mem_read(mem, range->addr + off, buf, chunk) != GSP_OK)
            break;
        for (size_t i = 0; i + 6 < chunk && !version; i++) {
            /* Linkers merge common tails of strings, so the version may be the end of a longer
             * text. That is accepted only if the file name has the same version. */
            bool tail = hint && buf[i] != '.' && (buf[i] < '0' || buf[i] > '9');
            if ((buf[i] != '\0' && !tail) || (buf[i + 1] != '3' && buf[i + 1] != '2') ||
                buf[i + 2] != '.')
                continue;
            uint32_t v = match_version(buf + i + 1, chunk - i - 1);
            if (v && (hint == 0 || (v & 0xffff0000U) == hint))
                version = v;
        }
    }
    free(buf);
    return version;
}

static uint32_t scan_version(struct gsp_mem *mem, struct gsp_image *image, uint32_t hint)
{
    struct gsp_range range;
    bool writable;
    for (size_t i = 0; gsp_proc_image_segment(image, i, &range, &writable); i++) {
        uint32_t version = writable ? 0 : scan_range(mem, &range, hint);
        if (version)
            return version;
    }
    return 0;
}

static gsp_raddr find_symbol(struct gsp_image *image, const char *name)
{
    gsp_raddr addr = gsp_proc_image_dynsym(image, name);
    return addr ? addr : gsp_proc_image_filesym(image, name);
}

/* The runtime of 3.13 and later starts with a cookie, which also identifies it in stripped files.
 */
static gsp_raddr scan_cookie(struct gsp_mem *mem, struct gsp_image *image)
{
    struct gsp_range range;
    bool writable;
    char *buf = malloc(SCAN_STEP);
    gsp_raddr found = 0;
    for (size_t i = 0; buf && !found && gsp_proc_image_segment(image, i, &range, &writable); i++) {
        for (uint64_t off = 0; writable && !found && off < range.len; off += SCAN_STEP) {
            size_t chunk = range.len - off < SCAN_STEP ? (size_t)(range.len - off) : SCAN_STEP;
            if (gsp_proc_mem_read(mem, range.addr + off, buf, chunk) != GSP_OK)
                break;
            /* The runtime is aligned, so a cookie never straddles two chunks. */
            for (size_t at = (size_t)(-(range.addr + off) & 7); at + 8 <= chunk && !found; at += 8)
                if (memcmp(buf + at, COOKIE, 8) == 0)
                    found = range.addr + off + at;
        }
    }
    free(buf);
    return found;
}

static gsp_raddr find_runtime(struct gsp_mem *mem, struct gsp_image *image, bool thorough)
{
    gsp_raddr addr = gsp_proc_image_dynsym(image, "_PyRuntime");
    if (addr || !thorough)
        return addr;
    addr = gsp_proc_image_filesym(image, "_PyRuntime");
    struct gsp_range range;
    if (!addr && gsp_proc_image_section(image, ".PyRuntime", &range))
        addr = range.addr;
    return addr ? addr : scan_cookie(mem, image);
}

static uint32_t find_version(struct gsp_mem *mem, struct found *found, const char *path)
{
    uint64_t words[2];
    if (gsp_proc_mem_read(mem, found->runtime, words, sizeof(words)) == GSP_OK &&
        memcmp(words, COOKIE, 8) == 0)
        return (uint32_t)words[1];
    gsp_raddr addr = find_symbol(found->image, "Py_Version"); /* since 3.11 */
    if (addr && gsp_proc_mem_read(mem, addr, words, 8) == GSP_OK && words[0] >> 24 == 3)
        return (uint32_t)words[0];
    uint32_t hint = version_of_path(path);
    uint32_t exact = scan_version(mem, found->image, hint);
    return exact ? exact : hint;
}

/* Fails with VERSION for a Python that is too old to have _PyRuntime (before 3.7). */
static int check_old_python(struct gsp_mem *mem, struct gsp_image *image, const char *path,
                            struct gsp_err *err)
{
    if (!gsp_proc_image_dynsym(image, "Py_Initialize") && !looks_like_python(path))
        return GSP_OK;
    uint32_t version = scan_version(mem, image, version_of_path(path));
    if (version == 0 || (version >> 24 == 3 && GSP_PY_MINOR(version) >= GSP_PY_MINOR_MIN))
        return GSP_OK;
    return gsp_err_set(err, GSP_E_VERSION, 0,
                       "Python %u.%u.%u found in %s, but 3.%u to 3.%u are supported", version >> 24,
                       GSP_PY_MINOR(version), version >> 8 & 0xffU, path, GSP_PY_MINOR_MIN,
                       GSP_PY_MINOR_MAX);
}

/* Opens the image at map and stores it in *found if it contains the runtime. Otherwise returns
 * GSP_OK and leaves found->image NULL. */
static int try_map(const struct gsp_py_locate_input *input, const struct gsp_map *map,
                   bool thorough, struct found *found, struct gsp_err *err)
{
    struct gsp_image *image;
    struct gsp_mem *mem = input->mem;
    int rc = gsp_proc_image_open(input->pid, mem, map, &image, err);
    if (rc == GSP_E_FORMAT || rc == GSP_E_FAULT)
        return GSP_OK;
    if (rc != GSP_OK)
        return rc;
    found->runtime = find_runtime(mem, image, thorough);
    if (found->runtime == 0) {
        rc = thorough ? check_old_python(mem, image, map->path, err) : GSP_OK;
        gsp_proc_image_close(image);
        return rc;
    }
    found->image = image;
    found->start = map->start;
    found->version = find_version(mem, found, map->path);
    return GSP_OK;
}

/* The pass in which an image is searched: first files named like Python, then the executable, then
 * all others. */
static int pass_of(const struct gsp_map *map, const char *exe_path)
{
    if (looks_like_python(map->path))
        return 0;
    return exe_path && strcmp(exe_path, map->path) == 0 ? 1 : 2;
}

static int search(const struct gsp_py_locate_input *input, struct found *found, struct gsp_err *err)
{
    struct gsp_err old = {0};
    size_t count = gsp_proc_maps_count(input->maps);
    for (size_t i = 0; i < 3 * count; i++) {
        int pass = (int)(i / count);
        const struct gsp_map *map = gsp_proc_maps_at(input->maps, i % count);
        if (map->offset != 0 || map->inode == 0 || !map->readable ||
            pass_of(map, input->exe) != pass)
            continue;
        struct gsp_err here = {0};
        int rc = try_map(input, map, pass < 2, found, &here);
        if (found->image)
            return GSP_OK;
        if (rc == GSP_E_VERSION)
            old = here;
        else if (rc != GSP_OK)
            return gsp_err_set(err, rc, here.sys, "%s", here.msg);
    }
    if (old.code)
        return gsp_err_set(err, GSP_E_VERSION, 0, "%s", old.msg);
    if (input->pid == 0)
        return gsp_err_set(err, GSP_E_NOTPY, 0, "no Python interpreter in this core file");
    return gsp_err_set(err, GSP_E_NOTPY, 0, "no Python interpreter in process %d", (int)input->pid);
}

static int choose_layout(struct gsp_mem *mem, const struct found *found, const char *path,
                         struct gsp_py_runtime *out, struct gsp_err *err)
{
    uint32_t version = found->version;
    if (version == 0)
        return gsp_err_set(err, GSP_E_VERSION, 0, "Python of unknown version in %s", path);
    unsigned minor_no = GSP_PY_MINOR(version);
    snprintf(out->version, sizeof(out->version), "%u.%u.%u", version >> 24, minor_no,
             version >> 8 & 0xffU);
    if (version >> 24 != 3 || minor_no < GSP_PY_MINOR_MIN || minor_no > GSP_PY_MINOR_MAX)
        return gsp_err_set(err, GSP_E_VERSION, 0,
                           "Python %s found in %s, but 3.%u to 3.%u are supported", out->version,
                           path, GSP_PY_MINOR_MIN, GSP_PY_MINOR_MAX);
    if (minor_no >= 13) {
        unsigned char bytes[GSP_PY_DEBUG_OFFSETS_MAX];
        int rc = gsp_proc_mem_read(mem, out->addr, bytes, sizeof(bytes));
        if (rc != GSP_OK)
            return gsp_err_set(err, rc, 0, "debug offsets: %s", gsp_err_text(rc));
        return gsp_py_debug_offsets_read(bytes, sizeof(bytes), &out->layout, err);
    }
    const struct gsp_py_layout *layout = gsp_py_layout_find(minor_no, false);
    if (!layout)
        return gsp_err_set(err, GSP_E_VERSION, 0, "no layout for Python %s", out->version);
    out->layout = *layout;
    out->layout.version = version;
    return GSP_OK;
}

/* Checks that the runtime leads to an interpreter with a thread that points back at it. */
static int validate(struct gsp_mem *mem, const struct gsp_py_runtime *rt, struct gsp_err *err)
{
    const struct gsp_py_layout *lay = &rt->layout;
    uint64_t interp = 0;
    uint64_t tstate = 0;
    uint64_t back = 0;
    int rc = gsp_proc_mem_read_u64(mem, rt->addr + lay->runtime_interpreters_head, &interp);
    if (rc == GSP_OK && interp)
        rc = gsp_proc_mem_read_u64(mem, interp + lay->interp_tstate_head, &tstate);
    if (rc == GSP_OK && tstate)
        rc = gsp_proc_mem_read_u64(mem, tstate + lay->tstate_interp, &back);
    if (rc == GSP_E_NOPROC || rc == GSP_E_PERM)
        return gsp_err_set(err, rc, 0, "%s", gsp_err_text(rc));
    if (rc == GSP_OK && (!interp || !tstate))
        return gsp_err_set(err, GSP_E_STARTING, 0, "Python %s has not started yet", rt->version);
    if (rc != GSP_OK || back != interp)
        return gsp_err_set(err, GSP_E_FORMAT, 0,
                           "the runtime of Python %s has an unexpected layout", rt->version);
    return GSP_OK;
}

/* Finds asyncio's debug section: in its module, or in an interpreter that has it built in. */
static gsp_raddr find_asyncio(const struct gsp_py_locate_input *input, struct gsp_image *python)
{
    struct gsp_range range;
    if (gsp_proc_image_section(python, ".AsyncioDebug", &range))
        return range.addr;
    for (size_t i = 0; i < gsp_proc_maps_count(input->maps); i++) {
        const struct gsp_map *map = gsp_proc_maps_at(input->maps, i);
        struct gsp_sv base = gsp_sv_basename(gsp_sv_of(map->path));
        struct gsp_image *image;
        if (map->offset != 0 || !gsp_sv_starts(base, "_asyncio.") ||
            gsp_proc_image_open(input->pid, input->mem, map, &image, NULL) != GSP_OK)
            continue;
        bool found = gsp_proc_image_section(image, ".AsyncioDebug", &range);
        gsp_proc_image_close(image);
        if (found)
            return range.addr;
    }
    return 0;
}

int gsp_py__locate_in(const struct gsp_py_locate_input *input, struct gsp_py_runtime *out,
                      struct gsp_err *err)
{
    *out = (struct gsp_py_runtime){0};
    struct found found = {0};
    int rc = search(input, &found, err);
    if (rc != GSP_OK)
        return rc;
    out->addr = found.runtime;
    out->image = found.start;
    out->code_type = find_symbol(found.image, "PyCode_Type");
    const struct gsp_map *map = gsp_proc_maps_find(input->maps, found.runtime);
    rc = choose_layout(input->mem, &found, map ? map->path : "?", out, err);
    if (rc == GSP_OK && GSP_PY_MINOR(out->layout.version) >= 14)
        out->asyncio_debug = find_asyncio(input, found.image);
    gsp_proc_image_close(found.image);
    return rc == GSP_OK ? validate(input->mem, out, err) : rc;
}

int gsp_py__locate_forked(struct gsp_mem *mem, struct gsp_mem *parent_mem,
                          const struct gsp_py_runtime *parent, struct gsp_py_runtime *out,
                          struct gsp_err *err)
{
    unsigned char here[IMAGE_HEAD_BYTES];
    unsigned char there[IMAGE_HEAD_BYTES];
    *out = (struct gsp_py_runtime){0};
    int rc = gsp_proc_mem_read(mem, parent->image, here, sizeof(here));
    if (rc == GSP_OK)
        rc = gsp_proc_mem_read(parent_mem, parent->image, there, sizeof(there));
    if (rc != GSP_OK || memcmp(here, there, sizeof(here)) != 0)
        return gsp_err_set(err, GSP_E_NOTPY, 0, "the process does not run its parent's program");
    *out = *parent;
    rc = validate(mem, out, err);
    return rc == GSP_OK
               ? rc
               : gsp_err_set(err, GSP_E_NOTPY, 0, "the process does not run its parent's program");
}

int gsp_py_locate(pid_t pid, struct gsp_mem *mem, struct gsp_py_runtime *out, struct gsp_err *err)
{
    *out = (struct gsp_py_runtime){0};
    struct gsp_maps *maps;
    int rc = gsp_proc_maps_read(pid, &maps, err);
    if (rc != GSP_OK)
        return rc;
    if (gsp_proc_maps_count(maps) == 0) {
        gsp_proc_maps_free(maps);
        return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has no memory (a zombie?)", (int)pid);
    }
    gsp_auto_buf exe = {0};
    gsp_proc_exe(pid, &exe);
    rc = gsp_py__locate_in(&(struct gsp_py_locate_input){pid, mem, maps, gsp_buf_cstr(&exe)}, out,
                           err);
    gsp_proc_maps_free(maps);
    return rc;
}
