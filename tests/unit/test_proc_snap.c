/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proc/mem.h"
#include "proc/snap.h"
#include "tap.h"

#define BASE 0x10000ULL

static unsigned char memory[32768];

static struct gsp_mem *open_memory(void)
{
    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (unsigned char)(i * 7 + (i >> 8));
    struct gsp_mem_region region = {BASE, sizeof(memory), memory};
    struct gsp_mem *mem;
    tap_eq_int(gsp_proc__mem_open_regions(&region, 1, &mem, NULL), GSP_OK);
    return mem;
}

static void expect(struct gsp_snap *snap, size_t at, size_t len)
{
    unsigned char got[4096];
    tap_eq_int(gsp_proc_snap_read(snap, BASE + at, got, len), GSP_OK);
    tap_check(memcmp(got, memory + at, len) == 0);
}

TAP_TEST(a_repeated_walk_costs_one_gather)
{
    struct gsp_mem *mem = open_memory();
    struct gsp_snap snap;
    gsp_proc_snap_init(&snap, mem);
    static const size_t AT[] = {0, 8192, 100, 16384, 20000, 8200};
    for (int pass = 0; pass < 5; pass++) {
        uint64_t before = gsp_proc__mem_calls(mem);
        gsp_proc_snap_refresh(&snap);
        for (size_t i = 0; i < GSP_COUNT(AT); i++)
            expect(&snap, AT[i], 48);
        if (pass > 0)
            tap_eq_int(gsp_proc__mem_calls(mem) - before, 1);
    }
    gsp_proc_snap_free(&snap);
    gsp_proc_mem_free(mem);
}

TAP_TEST(a_refresh_reads_new_bytes)
{
    struct gsp_mem *mem = open_memory();
    struct gsp_snap snap;
    gsp_proc_snap_init(&snap, mem);
    expect(&snap, 512, 16);
    memory[512] ^= 0xff;
    unsigned char old;
    tap_eq_int(gsp_proc_snap_read(&snap, BASE + 512, &old, 1), GSP_OK);
    tap_check(old != memory[512]);
    gsp_proc_snap_refresh(&snap);
    expect(&snap, 512, 16);
    gsp_proc_snap_free(&snap);
    gsp_proc_mem_free(mem);
}

/* Memory with different contents at every read. */
static int gather_counting(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done)
{
    unsigned char *number = self;
    for (*done = 0; *done < count; ++*done) {
        if (spans[*done].addr >= BASE + sizeof(memory))
            return GSP_E_FAULT;
        memset(spans[*done].to, ++*number, spans[*done].len);
    }
    return GSP_OK;
}

static void do_not_free(void *self)
{
    (void)self;
}

TAP_TEST(a_second_copy_follows_the_first)
{
    static const struct gsp_mem_ops OPS = {gather_counting, do_not_free};
    unsigned char number = 0;
    struct gsp_mem *mem;
    struct gsp_snap snap;
    const unsigned char *first;
    tap_eq_int(gsp_proc__mem_open_ops(&OPS, &number, &mem, NULL), GSP_OK);
    gsp_proc_snap_init(&snap, mem);
    tap_eq_int(gsp_proc_snap_view(&snap, BASE, 64, &first), GSP_OK);
    tap_eq_int(gsp_proc_snap_view(&snap, BASE + 16384, 64, &first), GSP_OK);
    tap_check(gsp_proc_snap_twin(&snap, BASE, 64) == NULL);
    for (unsigned i = 0; i < 3; i++) {
        number = 10;
        gsp_proc_snap_refresh_twice(&snap);
        tap_eq_int(number, 14);
        for (unsigned k = 0; k < 2; k++) {
            const gsp_raddr at = BASE + 16384 * (gsp_raddr)k + 8;
            tap_eq_int(gsp_proc_snap_view(&snap, at, 8, &first), GSP_OK);
            const unsigned char *second = gsp_proc_snap_twin(&snap, at, 8);
            tap_require(second != NULL);
            tap_eq_int(first[7], 11 + 2 * k);
            tap_eq_int(second[7], 12 + 2 * k);
        }
        tap_check(gsp_proc_snap_twin(&snap, BASE + 4096, 8) == NULL);
    }
    gsp_proc_snap_refresh(&snap);
    tap_check(gsp_proc_snap_twin(&snap, BASE, 8) == NULL);
    gsp_proc_snap_free(&snap);
    gsp_proc_mem_free(mem);
}

TAP_TEST(unused_windows_are_dropped)
{
    struct gsp_mem *mem = open_memory();
    struct gsp_snap snap;
    gsp_proc_snap_init(&snap, mem);
    for (size_t at = 0; at < 30000; at += 2500)
        expect(&snap, at, 8);
    tap_check(snap.count > 5);
    for (int i = 0; i < 200; i++) {
        gsp_proc_snap_refresh(&snap);
        expect(&snap, 5000, 8);
    }
    tap_eq_int(snap.count, 1);
    gsp_proc_snap_free(&snap);
    gsp_proc_mem_free(mem);
}

TAP_TEST(an_unmapped_address)
{
    struct gsp_mem *mem = open_memory();
    struct gsp_snap snap;
    gsp_proc_snap_init(&snap, mem);
    char byte;
    tap_eq_int(gsp_proc_snap_read(&snap, 8, &byte, 1), GSP_E_FAULT);
    tap_eq_int(gsp_proc_snap_read(&snap, UINT64_MAX, &byte, 1), GSP_E_FAULT);
    tap_eq_int(gsp_proc_snap_read(&snap, BASE + sizeof(memory) - 4, &byte, 8), GSP_E_FAULT);
    expect(&snap, sizeof(memory) - 8, 8);
    gsp_proc_snap_free(&snap);
    gsp_proc_mem_free(mem);
}

/* A window whose page was unmapped is dropped, and the other windows are read again. */
TAP_TEST(an_unmapped_window)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages =
        mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tap_check(pages != MAP_FAILED);
    memset(pages, 0x5a, 3 * page);
    struct gsp_mem *mem;
    tap_eq_int(gsp_proc_mem_open_pid(getpid(), &mem, NULL), GSP_OK);
    struct gsp_snap snap;
    gsp_proc_snap_init(&snap, mem);
    unsigned char byte = 0;
    for (size_t i = 0; i < 3; i++)
        tap_eq_int(gsp_proc_snap_read(&snap, (uintptr_t)pages + i * page + 2000, &byte, 1), GSP_OK);
    munmap(pages + page, page);
    for (int pass = 0; pass < 3; pass++) {
        gsp_proc_snap_refresh(&snap);
        tap_eq_int(gsp_proc_snap_read(&snap, (uintptr_t)pages + page + 2000, &byte, 1),
                   GSP_E_FAULT);
        tap_eq_int(gsp_proc_snap_read(&snap, (uintptr_t)pages + 2 * page + 2000, &byte, 1), GSP_OK);
        tap_eq_int(byte, 0x5a);
    }
    gsp_proc_snap_free(&snap);
    gsp_proc_mem_free(mem);
}

TAP_TEST(more_addresses_than_windows)
{
    struct gsp_mem *mem = open_memory();
    struct gsp_snap snap;
    gsp_proc_snap_init(&snap, mem);
    for (int pass = 0; pass < 3; pass++) {
        gsp_proc_snap_refresh(&snap);
        for (size_t at = 0; at < sizeof(memory) - 8; at += 200)
            expect(&snap, at, 8);
    }
    tap_check(snap.count <= GSP_SNAP_WINDOWS_MAX);
    gsp_proc_snap_free(&snap);
    gsp_proc_mem_free(mem);
}

TAP_MAIN()
