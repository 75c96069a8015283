/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "native/cfi.h"
#include "native/native_internal.h"
#include "native/prologue.h"
#include "tap.h"

#define ADDR 0x10000ULL
#define CODE 0x20000ULL

/* A section under construction. */
static unsigned char section[1024];
static size_t len;

static void put(const void *bytes, size_t n)
{
    memcpy(section + len, bytes, n);
    len += n;
}

static void put_u32(uint32_t v)
{
    put(&v, sizeof(v));
}

/* Adds an entry with a length, an id and these bytes. Returns its offset. */
static size_t put_entry(uint32_t id, const void *bytes, size_t n)
{
    size_t at = len;
    put_u32((uint32_t)(n + 4));
    put_u32(id);
    put(bytes, n);
    return at;
}

static size_t put_cie_x86_64(const char *augmentation)
{
    /* version 1, augmentation, code 1, data -8, ra 16, FDE pointers absolute; CFA = rsp + 8,
     * rip at CFA - 8 */
    char bytes[64] = {1};
    size_t n = 1;
    memcpy(bytes + n, augmentation, strlen(augmentation) + 1);
    n += strlen(augmentation) + 1;
    static const char REST[] = "\x01\x78\x10\x01\x04\x0c\x07\x08\x90\x01";
    memcpy(bytes + n, REST, sizeof(REST) - 1);
    return put_entry(0, bytes, n + sizeof(REST) - 1);
}

static void put_fde(size_t cie, uint64_t start, uint64_t size, const void *program, size_t n)
{
    unsigned char bytes[128];
    memcpy(bytes, &start, 8);
    memcpy(bytes + 8, &size, 8);
    bytes[16] = 0;
    memcpy(bytes + 17, program, n);
    put_entry((uint32_t)(len + 4 - cie), bytes, 17 + n);
}

#define put_program(cie, start, size, text)                                                        \
    put_fde((cie), (start), (size), (text), sizeof(text) - 1)

static struct gsp_cfi_table build(uint16_t machine)
{
    struct gsp_cfi_input in = {gsp_native__arch(machine), section, len, ADDR};
    struct gsp_cfi_table table;
    tap_eq_int(gsp_native__cfi_build(&in, &table, NULL), GSP_OK);
    return table;
}

static gsp_cfi_rule x86_64(enum gsp_cfi_kind kind, int64_t words, uint32_t fp)
{
    return gsp_cfi_pack(kind, words, fp, GSP_CFI_RA_AT(1U));
}

TAP_TEST(rules_are_packed_and_unpacked)
{
    static const int64_t OFFSETS[] = {0, 1, -1, 0x3fff, -0x4000};
    for (size_t i = 0; i < GSP_COUNT(OFFSETS); i++) {
        gsp_cfi_rule rule = gsp_cfi_pack(GSP_CFI_FP_DEREF, OFFSETS[i], 1023, 15);
        tap_eq_int(gsp_cfi_kind_of(rule), GSP_CFI_FP_DEREF);
        tap_eq_int(gsp_cfi_offset_of(rule), OFFSETS[i]);
        tap_eq_int(gsp_cfi_fp_of(rule), 1023);
        tap_eq_int(gsp_cfi_ra_of(rule), 15);
    }
}

TAP_TEST(a_function_with_a_frame_pointer)
{
    size_t cie = put_cie_x86_64("zR");
    /* push rbp; mov rsp, rbp; …; leave */
    put_program(cie, CODE, 0x40, "\x41\x0e\x10\x86\x02\x43\x0d\x06\x70\x0c\x07\x08");
    struct gsp_cfi_table table = build(EM_X86_64);
    tap_eq_int(gsp_native__cfi_find(&table, CODE), x86_64(GSP_CFI_SP, 1, 0));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 1), x86_64(GSP_CFI_SP, 2, 2));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 4), x86_64(GSP_CFI_FP, 2, 2));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 0x33), x86_64(GSP_CFI_FP, 2, 2));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 0x34), x86_64(GSP_CFI_SP, 1, 2));
    tap_eq_int(gsp_cfi_kind_of(gsp_native__cfi_find(&table, CODE + 0x40)), GSP_CFI_NONE);
    tap_eq_int(gsp_cfi_kind_of(gsp_native__cfi_find(&table, CODE - 1)), GSP_CFI_NONE);
    struct gsp_cfi_input in = {gsp_native__arch(EM_X86_64), section, len, ADDR};
    struct gsp_cfi_span span;
    tap_check(gsp_native__cfi_span(&in, CODE + 5, &span));
    tap_eq_int(span.start, CODE);
    tap_eq_int(span.len, 0x40);
    tap_check(!gsp_native__cfi_span(&in, CODE + 0x40, &span));
    gsp_native__cfi_free(&table);
}

TAP_TEST(states_are_remembered)
{
    size_t cie = put_cie_x86_64("zR");
    put_program(cie, CODE, 0x40, "\x41\x0e\x20\x44\x0a\x0e\x08\x41\x0b");
    struct gsp_cfi_table table = build(EM_X86_64);
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 1), x86_64(GSP_CFI_SP, 4, 0));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 5), x86_64(GSP_CFI_SP, 1, 0));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 6), x86_64(GSP_CFI_SP, 4, 0));
    gsp_native__cfi_free(&table);
}

TAP_TEST(special_rules)
{
    size_t cie = put_cie_x86_64("zR");
    /* the procedure linkage table */
    put_program(cie, CODE, 0x10, "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22");
    /* rip is undefined: the first function */
    put_program(cie, CODE + 0x10, 0x10, "\x07\x10");
    /* a realigned stack: CFA = *(rbp - 8), rbp at *rbp */
    put_program(cie, CODE + 0x20, 0x10, "\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00");
    /* CFA from an unsupported register; a huge offset; an unknown instruction */
    put_program(cie, CODE + 0x30, 0x10, "\x0c\x0a\x00");
    put_program(cie, CODE + 0x40, 0x10, "\x0e\xff\xff\xff\xff\x0f");
    put_program(cie, CODE + 0x50, 0x10, "\x41\x3e");
    size_t signal = put_cie_x86_64("zRS");
    put_program(signal, CODE + 0x60, 0x10, "");
    struct gsp_cfi_table table = build(EM_X86_64);
    gsp_cfi_rule plt = gsp_native__cfi_find(&table, CODE);
    tap_eq_int(gsp_cfi_kind_of(plt), GSP_CFI_PLT);
    tap_eq_int(gsp_cfi_offset_of(plt), 11);
    tap_eq_int(gsp_cfi_kind_of(gsp_native__cfi_find(&table, CODE + 0x10)), GSP_CFI_END);
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 0x20),
               x86_64(GSP_CFI_FP_DEREF, -1, GSP_CFI_FP_AT_FP));
    for (uint64_t at = 0x31; at < 0x60; at += 0x10)
        tap_eq_int(gsp_cfi_kind_of(gsp_native__cfi_find(&table, CODE + at)), GSP_CFI_NONE);
    tap_eq_int(gsp_cfi_kind_of(gsp_native__cfi_find(&table, CODE + 0x60)), GSP_CFI_SIGNAL);
    gsp_native__cfi_free(&table);
}

TAP_TEST(rules_of_aarch64)
{
    /* version 1, "zR", code 4, data -8, ra 30; CFA = sp + 0 */
    static const char CIE[] = "\x01zR\x00\x04\x78\x1e\x01\x04\x0c\x1f\x00";
    size_t cie = put_entry(0, CIE, sizeof(CIE) - 1);
    /* stp x29, x30, [sp, -32]!; mov x29, sp */
    put_program(cie, CODE, 0x40, "\x41\x0e\x20\x9d\x04\x9e\x03\x41\x0d\x1d");
    /* str x30, [sp, -16]! */
    put_program(cie, CODE + 0x40, 0x40, "\x2d\x41\x0e\x10\x9e\x02");
    struct gsp_cfi_table table = build(EM_AARCH64);
    tap_eq_int(gsp_native__cfi_find(&table, CODE),
               gsp_cfi_pack(GSP_CFI_SP, 0, 0, GSP_CFI_RA_IN_LR));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 4),
               gsp_cfi_pack(GSP_CFI_SP, 4, 4, GSP_CFI_RA_ABOVE));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 8),
               gsp_cfi_pack(GSP_CFI_FP, 4, 4, GSP_CFI_RA_ABOVE));
    tap_eq_int(gsp_native__cfi_find(&table, CODE + 0x44),
               gsp_cfi_pack(GSP_CFI_SP, 2, 0, GSP_CFI_RA_AT(2U)));
    gsp_native__cfi_free(&table);
}

TAP_TEST(truncated_at_any_length)
{
    size_t cie = put_cie_x86_64("zR");
    put_program(cie, CODE, 0x40, "\x41\x0e\x10\x86\x02\x43\x0d\x06\x70\x0c\x07\x08");
    put_program(cie, CODE + 0x20, 0x40, "\x41\x0e\x10"); /* overlaps */
    size_t full_len = len;
    for (len = 0; len <= full_len; len++) {
        struct gsp_cfi_table table = build(EM_X86_64);
        tap_check(len < full_len || table.count > 0);
        gsp_native__cfi_free(&table);
    }
}

TAP_TEST(calls_are_recognized)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool is_call;
    } CASES[] = {
        {"\x90\x90\xe8\x01\x02\x03\x04", 7, true},  /* call rel32 */
        {"\x90\x90\x90\x90\x90\xff\xd0", 7, true},  /* call rax */
        {"\x90\x90\x90\x90\x41\xff\xd4", 7, true},  /* call r12 */
        {"\x90\xff\x15\x01\x02\x03\x04", 7, true},  /* call [rip + n] */
        {"\x90\x90\x90\x90\xff\x50\x18", 7, true},  /* call [rax + 24] */
        {"\xff\x94\xc3\x01\x02\x03\x04", 7, true},  /* call [rbx + rax * 8 + n] */
        {"\x90\x90\x90\x90\xff\x14\xc3", 7, true},  /* call [rbx + rax * 8] */
        {"\x90\x90\x90\x90\x90\xff\xe0", 7, false}, /* jmp rax */
        {"\x90\x90\xe9\x01\x02\x03\x04", 7, false}, /* jmp rel32 */
        {"\x90\x90\x90\x90\x90\x90\x90", 7, false}, {"", 0, false},
    };
    const struct gsp_cfi_arch *arch = gsp_native__arch(EM_X86_64);
    for (size_t i = 0; i < GSP_COUNT(CASES); i++)
        tap_eq_int(
            gsp_native__after_call(arch, (const unsigned char *)CASES[i].bytes, CASES[i].len),
            CASES[i].is_call);
    arch = gsp_native__arch(EM_AARCH64);
    tap_check(gsp_native__after_call(arch, (const unsigned char *)"\x01\x00\x00\x94", 4));
    tap_check(gsp_native__after_call(arch, (const unsigned char *)"\x60\x02\x3f\xd6", 4));
    tap_check(!gsp_native__after_call(arch, (const unsigned char *)"\xc0\x03\x5f\xd6", 4));
    tap_check(gsp_native__arch(EM_386) == NULL);
}

TAP_TEST(stack_size_of_prologues)
{
    /* push rbp; push r12; mov rsp, rbp; sub 0x18, rsp; sub 0x1000, rsp; ret */
    static const unsigned char CODE_BYTES[] = {0x55, 0x41, 0x54, 0x48, 0x89, 0xe5,
                                               0x48, 0x83, 0xec, 0x18, 0x48, 0x81,
                                               0xec, 0,    0x10, 0,    0,    0xc3};
    const struct gsp_cfi_arch *arch = gsp_native__arch(EM_X86_64);
    tap_eq_int(gsp_native__prologue_decode(arch, CODE_BYTES, sizeof(CODE_BYTES)).bytes,
               16 + 0x18 + 0x1000);
    tap_eq_int(gsp_native__prologue_decode(arch, CODE_BYTES, 10).bytes, 16 + 0x18);
    tap_eq_int(gsp_native__prologue_decode(arch, CODE_BYTES, 1).bytes, 8);
    tap_eq_int(gsp_native__prologue_decode(arch, CODE_BYTES, 0).bytes, 0);
    tap_check(!gsp_native__prologue_decode(gsp_native__arch(EM_AARCH64), CODE_BYTES, 4).is_known);
}

TAP_TEST(an_aligned_stack_is_found_by_a_saved_register)
{
    /* vzeroupper; sub 0x60, rsp; mov rbx, (rsp); movups xmm1, 8(rsp); mov rsp, rbx;
     * sub 0x7080, rsp; and -4096, rsp; vmovups 16(rdi), ymm2; jmp */
    static const unsigned char CODE_BYTES[] = {
        0xc5, 0xf8, 0x77, 0x48, 0x83, 0xec, 0x60, 0x48, 0x89, 0x1c, 0x24, 0x0f, 0x11,
        0x4c, 0x24, 0x08, 0x48, 0x89, 0xe3, 0x48, 0x81, 0xec, 0x80, 0x70, 0,    0,
        0x48, 0x81, 0xe4, 0,    0xf0, 0xff, 0xff, 0xc5, 0xfc, 0x10, 0x57, 0x10, 0xeb};
    struct gsp_prologue got =
        gsp_native__prologue_decode(gsp_native__arch(EM_X86_64), CODE_BYTES, sizeof(CODE_BYTES));
    tap_check(got.is_known);
    tap_eq_int(got.base, 3);
    tap_eq_int(got.bytes, 0x60);
    got = gsp_native__prologue_decode(gsp_native__arch(EM_X86_64), CODE_BYTES, 16);
    tap_eq_int(got.base, GSP_PROLOGUE_SP);
    tap_eq_int(got.bytes, 0x60);
}

/* Entries found with the linker's table have the same rules as the table of all entries. */
static void compare_rules(const char *path)
{
    struct gsp_native_store *store;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    tap_eq_int(gsp_native_store_new(&store, NULL), GSP_OK);
    struct gsp_native_file *file = gsp_native__file_open(store, fd, path, 0);
    tap_require(file && gsp_native__index_of(file));
    const struct gsp_cfi_table *table = gsp_native__file_table(file);
    tap_require(table->count > 100);
    size_t differ = 0;
    size_t with_rule = 0;
    /* Around the addresses where one rule ends and another begins. */
    for (size_t i = 0; i < table->count; i += 1 + table->count / 4000) {
        for (uint64_t near = 0; near < 3; near++) {
            uint64_t addr = table->base + table->rows[i].pc + near - 1;
            gsp_cfi_rule expected = gsp_native__cfi_find(table, addr);
            differ += gsp_native__file_rule(file, addr) != expected;
            with_rule += gsp_cfi_kind_of(expected) != GSP_CFI_NONE;
        }
    }
    tap_eq_int(differ, 0);
    tap_check(with_rule > 100);
    gsp_native_store_free(store);
}

TAP_TEST(single_entries_agree_with_the_whole_table)
{
    compare_rules("/proc/self/exe");
    compare_rules("/lib/x86_64-linux-gnu/libc.so.6");
    compare_rules("/lib/x86_64-linux-gnu/libstdc++.so.6");
}

TAP_MAIN()
