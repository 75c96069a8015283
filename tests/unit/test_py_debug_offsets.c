/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "py/layout.h"
#include "py/layout_tables.h"
#include "tap.h"

/* Positions in _Py_DebugOffsets that 3.13, 3.14 and 3.15 share. */
#define AT_VERSION       8
#define AT_FREE_THREADED 16
#define AT_RUNTIME_SIZE  24
#define AT_INTERPS_HEAD  40
#define AT_INTERP_ID     56
#define AT_INTERP_NEXT   64

struct image {
    unsigned char bytes[GSP_PY_DEBUG_OFFSETS_MAX];
    size_t len;
};

/* The start of _PyRuntime of a real interpreter, made by data/make_debug_offsets.sh. */
static struct image load(const char *version)
{
    struct image image = {0};
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/debug_offsets_%s.bin", GSP_TEST_DATA, version);
    FILE *file = fopen(path, "re");
    tap_check(file != NULL);
    if (file) {
        image.len = fread(image.bytes, 1, sizeof(image.bytes), file);
        (void)fclose(file);
    }
    return image;
}

static void poke(struct image *image, size_t at, uint64_t value)
{
    memcpy(image->bytes + at, &value, sizeof(value));
}

static int read_layout(const struct image *image, struct gsp_py_layout *out, struct gsp_err *err)
{
    return gsp_py_debug_offsets_read(image->bytes, image->len, out, err);
}

/* An interpreter of the headers' version tells what the headers tell. */
static void agrees_with_table(const char *version, uint32_t minor, bool free_threaded)
{
    struct image image = load(version);
    struct gsp_py_layout layout = {0};
    struct gsp_err err = {0};
    tap_eq_int(read_layout(&image, &layout, &err), 0);
    tap_eq_str(err.msg, "");
    const struct gsp_py_layout *known = gsp_py_layout_find(minor, free_threaded);
    tap_check(known != NULL);
    if (!known) {
        return;
    }
    tap_eq_int(GSP_PY_MINOR(layout.version), minor);
    tap_eq_int(layout.free_threaded, free_threaded);
    tap_eq_int(layout.code_size, known->code_size);
    const struct gsp_py__debug_table *table = &gsp_py__debug_tables[minor - 13];
    for (size_t i = 0; i < table->field_count; i++) {
        const struct gsp_py__debug_field *f = &table->fields[i];
        const char *told = (const char *)&layout + f->member;
        const char *here = (const char *)known + f->member;
        /* Patch releases and build options add to the ends of the largest two. */
        bool grows = f->member == offsetof(struct gsp_py_layout, runtime_size) ||
                     f->member == offsetof(struct gsp_py_layout, interp_size);
        if (!grows && memcmp(told, here, f->width) != 0) {
            tap_eq_int(f->member, -1);
        }
    }
    tap_check(table->field_count > 60);
}

TAP_TEST(real_3_13)
{
    agrees_with_table("3.13", 13, false);
}

TAP_TEST(real_3_14)
{
    agrees_with_table("3.14", 14, false);
}

TAP_TEST(real_3_15)
{
    agrees_with_table("3.15", 15, false);
}

TAP_TEST(real_3_13_free_threaded)
{
    agrees_with_table("3.13t", 13, true);
}

TAP_TEST(headers_3_14_free_threaded)
{
    agrees_with_table("3.14t", 14, true);
}

TAP_TEST(headers_3_15_free_threaded)
{
    agrees_with_table("3.15t", 15, true);
}

TAP_TEST(told_offsets_win_over_the_table)
{
    struct image image = load("3.14");
    struct gsp_py_layout layout = {0};
    const struct gsp_py_layout *known = gsp_py_layout_find(14, false);
    poke(&image, AT_INTERP_NEXT, known->interp_next + 4096);
    poke(&image, AT_RUNTIME_SIZE, known->runtime_size + 64);
    tap_eq_int(read_layout(&image, &layout, NULL), 0);
    tap_eq_int(layout.interp_next, known->interp_next + 4096);
    tap_eq_int(layout.runtime_size, known->runtime_size + 64);
}

TAP_TEST(an_unknown_version_is_named)
{
    struct image image = load("3.14");
    struct gsp_py_layout layout = {0};
    struct gsp_err err = {0};
    poke(&image, AT_VERSION, 0x031000f0);
    tap_eq_int(read_layout(&image, &layout, &err), GSP_E_VERSION);
    tap_check(strstr(err.msg, "3.16") != NULL);
    poke(&image, AT_VERSION, 0x030c00f0);
    tap_eq_int(read_layout(&image, &layout, &err), GSP_E_VERSION);
    poke(&image, AT_VERSION, UINT64_MAX);
    tap_eq_int(read_layout(&image, &layout, &err), GSP_E_VERSION);
}

TAP_TEST(damage_is_refused)
{
    static const struct {
        size_t at;
        uint64_t value;
    } cases[] = {
        {0, 0},                        /* no cookie */
        {AT_FREE_THREADED, 2},         /* neither */
        {AT_RUNTIME_SIZE, 64},         /* far too small */
        {AT_RUNTIME_SIZE, UINT64_MAX}, /* far too large */
        {AT_INTERPS_HEAD, 1 << 30},    /* outside its struct */
        {AT_INTERPS_HEAD, UINT64_MAX},
        {AT_INTERP_NEXT, 7265}, /* not aligned */
        {AT_INTERP_NEXT, 0x100000000ULL},
    };
    for (size_t i = 0; i < GSP_COUNT(cases); i++) {
        struct image image = load("3.14");
        struct gsp_py_layout layout = {.version = 77};
        poke(&image, cases[i].at, cases[i].value);
        tap_eq_int(read_layout(&image, &layout, NULL), GSP_E_FORMAT);
        tap_eq_int(layout.version, 77); /* written only on success */
    }
}

TAP_TEST(two_fields_at_one_place_are_refused)
{
    struct image image = load("3.15");
    struct gsp_py_layout layout = {0};
    uint64_t id = 0;
    memcpy(&id, image.bytes + AT_INTERP_ID, sizeof(id));
    poke(&image, AT_INTERP_NEXT, id);
    tap_eq_int(read_layout(&image, &layout, NULL), GSP_E_FORMAT);
}

TAP_TEST(one_version_read_as_another_is_refused)
{
    struct image image = load("3.13");
    struct gsp_py_layout layout = {0};
    poke(&image, AT_VERSION, 0x030e00f0);
    tap_eq_int(read_layout(&image, &layout, NULL), GSP_E_FORMAT);
    image = load("3.14");
    poke(&image, AT_FREE_THREADED, 1);
    tap_eq_int(read_layout(&image, &layout, NULL), GSP_E_FORMAT);
}

TAP_TEST(every_cut_is_refused)
{
    struct image image = load("3.15t");
    struct gsp_py_layout layout = {0};
    size_t whole = image.len;
    tap_eq_int(whole, 888);
    for (size_t len = 0; len < whole; len++) {
        tap_check(gsp_py_debug_offsets_read(image.bytes, len, &layout, NULL) < 0);
    }
    tap_eq_int(gsp_py_debug_offsets_read(image.bytes, whole, &layout, NULL), 0);
}

/* One byte changed anywhere either fails or gives a layout whose offsets are inside structs. */
TAP_TEST(any_byte_may_change)
{
    const struct image good = load("3.14");
    size_t refused = 0;
    for (size_t at = 0; at < 760; at++) {
        struct image image = good;
        struct gsp_py_layout layout = {0};
        image.bytes[at] ^= 0x85U;
        if (read_layout(&image, &layout, NULL) < 0) {
            refused++;
        } else {
            tap_check(layout.tstate_next < layout.tstate_size);
            tap_check(layout.interp_next < layout.interp_size);
            tap_check(layout.iframe_previous < layout.iframe_size);
        }
    }
    tap_check(refused > 500);
}

/* Where a file to run is told: inside of a thread state, or refused. */
TAP_TEST(remote_execution_from_3_14_on)
{
    static const char *const versions[] = {"3.14", "3.14t", "3.15", "3.15t"};
    struct gsp_py_remote_exec exec;
    const struct image old = load("3.13");
    tap_eq_int(gsp_py_remote_exec_read(old.bytes, old.len, &exec, NULL), GSP_E_VERSION);
    for (size_t i = 0; i < GSP_COUNT(versions); i++) {
        const struct image good = load(versions[i]);
        tap_eq_int(gsp_py_remote_exec_read(good.bytes, good.len, &exec, NULL), GSP_OK);
        tap_eq_int(exec.path_size, 512);
        tap_eq_int(exec.path - exec.pending, 4);
        size_t end = i < 2 ? 760 : 888;
        for (size_t at = end - 48; at < end; at += 8) {
            struct image image = good;
            poke(&image, at, UINT64_C(1) << 40U);
            tap_eq_int(gsp_py_remote_exec_read(image.bytes, image.len, &exec, NULL), GSP_E_FORMAT);
        }
    }
}

TAP_MAIN()
