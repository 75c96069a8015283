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

/* The debug offsets of an interpreter agree with the table from its headers. */
static void check_against_table(const char *version, uint32_t minor, bool free_threaded)
{
    struct image image = load(version);
    struct gsp_py_layout layout = {0};
    struct gsp_err err = {0};
    tap_eq_int(read_layout(&image, &layout, &err), 0);
    tap_eq_str(err.msg, "");
    const struct gsp_py_layout *known = gsp_py_layout_find(minor, free_threaded);
    tap_check(known != NULL);
    if (!known)
        return;
    tap_eq_int(GSP_PY_MINOR(layout.version), minor);
    tap_eq_int(layout.free_threaded, free_threaded);
    tap_eq_int(layout.code_size, known->code_size);
    const struct gsp_py__debug_table *table = &gsp_py__debug_tables[minor - 13];
    for (size_t i = 0; i < table->field_count; i++) {
        const struct gsp_py__debug_field *f = &table->fields[i];
        const char *actual = (const char *)&layout + f->member;
        const char *expected = (const char *)known + f->member;
        /* Patch releases and build options extend the two largest structs at the end. */
        bool grows = f->member == offsetof(struct gsp_py_layout, runtime_size) ||
                     f->member == offsetof(struct gsp_py_layout, interp_size);
        if (!grows && memcmp(actual, expected, f->width) != 0)
            tap_eq_int(f->member, -1);
    }
    tap_check(table->field_count > 60);
}

TAP_TEST(real_3_13)
{
    check_against_table("3.13", 13, false);
}

TAP_TEST(real_3_14)
{
    check_against_table("3.14", 14, false);
}

TAP_TEST(real_3_15)
{
    check_against_table("3.15", 15, false);
}

TAP_TEST(real_3_13_free_threaded)
{
    check_against_table("3.13t", 13, true);
}

TAP_TEST(headers_3_14_free_threaded)
{
    check_against_table("3.14t", 14, true);
}

TAP_TEST(headers_3_15_free_threaded)
{
    check_against_table("3.15t", 15, true);
}

TAP_TEST(debug_offsets_override_the_table)
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

TAP_TEST(the_message_has_an_unknown_version)
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

TAP_TEST(malformed_offsets_are_rejected)
{
    static const struct {
        size_t at;
        uint64_t value;
    } cases[] = {
        {0, 0},                        /* no cookie */
        {AT_FREE_THREADED, 2},         /* neither 0 nor 1 */
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

TAP_TEST(equal_offsets_of_two_fields_are_rejected)
{
    struct image image = load("3.15");
    struct gsp_py_layout layout = {0};
    uint64_t id = 0;
    memcpy(&id, image.bytes + AT_INTERP_ID, sizeof(id));
    poke(&image, AT_INTERP_NEXT, id);
    tap_eq_int(read_layout(&image, &layout, NULL), GSP_E_FORMAT);
}

TAP_TEST(offsets_of_another_version_are_rejected)
{
    struct image image = load("3.13");
    struct gsp_py_layout layout = {0};
    poke(&image, AT_VERSION, 0x030e00f0);
    tap_eq_int(read_layout(&image, &layout, NULL), GSP_E_FORMAT);
    image = load("3.14");
    poke(&image, AT_FREE_THREADED, 1);
    tap_eq_int(read_layout(&image, &layout, NULL), GSP_E_FORMAT);
}

TAP_TEST(truncated_offsets_are_rejected)
{
    struct image image = load("3.15t");
    struct gsp_py_layout layout = {0};
    size_t full_len = image.len;
    tap_eq_int(full_len, 888);
    for (size_t len = 0; len < full_len; len++)
        tap_check(gsp_py_debug_offsets_read(image.bytes, len, &layout, NULL) < 0);
    tap_eq_int(gsp_py_debug_offsets_read(image.bytes, full_len, &layout, NULL), 0);
}

/* With any byte changed, the read either fails or returns offsets inside their structs. */
TAP_TEST(any_changed_byte)
{
    const struct image good = load("3.14");
    size_t rejected = 0;
    for (size_t at = 0; at < 760; at++) {
        struct image image = good;
        struct gsp_py_layout layout = {0};
        image.bytes[at] ^= 0x85U;
        if (read_layout(&image, &layout, NULL) < 0) {
            rejected++;
        } else {
            tap_check(layout.tstate_next < layout.tstate_size);
            tap_check(layout.interp_next < layout.interp_size);
            tap_check(layout.iframe_previous < layout.iframe_size);
        }
    }
    tap_check(rejected > 500);
}

/* The offsets of remote execution are inside a thread state, or rejected. */
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
