/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/maps.h"
#include "tap.h"

#define CHANGED_READS 5000

static const char TEXT[] =
    "55d0a0000000-55d0a0001000 r--p 00000000 fd:01 131 /usr/bin/python3.11\n"
    "55d0a0001000-55d0a0002000 r-xp 00001000 fd:01 131 /usr/bin/python3.11\n"
    "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
    "7f1000000000-7f1000001000 r--p 00000000 fd:01 99   /opt/a b/lib.so (deleted)\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

TAP_TEST(reads_every_column)
{
    struct gsp_maps *maps;
    tap_eq_int(gsp_proc__maps_parse(gsp_sv_of(TEXT), &maps, NULL), GSP_OK);
    tap_eq_int(gsp_proc_maps_count(maps), 5);
    const struct gsp_map *map = gsp_proc_maps_at(maps, 1);
    tap_check(map->start == 0x55d0a0001000 && map->end == 0x55d0a0002000);
    tap_check(map->offset == 0x1000 && map->inode == 131);
    tap_check(map->readable && map->exec && !map->writable && !map->deleted);
    tap_eq_str(map->path, "/usr/bin/python3.11");
    tap_eq_str(gsp_proc_maps_at(maps, 2)->path, "");
    tap_check(gsp_proc_maps_at(maps, 3)->deleted);
    tap_eq_str(gsp_proc_maps_at(maps, 3)->path, "/opt/a b/lib.so");
    tap_check(gsp_proc_maps_at(maps, 5) == NULL);
    gsp_proc_maps_free(maps);
}

TAP_TEST(finds_by_address)
{
    struct gsp_maps *maps;
    tap_eq_int(gsp_proc__maps_parse(gsp_sv_of(TEXT), &maps, NULL), GSP_OK);
    tap_check(gsp_proc_maps_find(maps, 0x55d0a0000000) == gsp_proc_maps_at(maps, 0));
    tap_check(gsp_proc_maps_find(maps, 0x55d0a0001fff) == gsp_proc_maps_at(maps, 1));
    tap_check(gsp_proc_maps_find(maps, 0x55d0a0002000) == NULL);
    tap_check(gsp_proc_maps_find(maps, 0) == NULL);
    gsp_proc_maps_free(maps);
}

TAP_TEST(rejects_malformed_maps)
{
    static const char *const BAD[] = {
        "hello\n",
        "2000-1000 r--p 00000000 00:00 0 \n",
        "1000-2000 r-",
        "1000-2000 r--p 00000000 00:00\n",
        "3000-4000 r--p 0 00:00 0 \n1000-2000 r--p 0 00:00 0 \n",
    };
    for (size_t i = 0; i < GSP_COUNT(BAD); i++) {
        struct gsp_maps *maps;
        struct gsp_err err = {0};
        tap_eq_int(gsp_proc__maps_parse(gsp_sv_of(BAD[i]), &maps, &err), GSP_E_FORMAT);
        tap_check(maps == NULL && err.msg[0] != '\0');
    }
}

TAP_TEST(reads_its_own_process)
{
    struct gsp_maps *maps;
    tap_eq_int(gsp_proc_maps_read(getpid(), &maps, NULL), GSP_OK);
    const struct gsp_map *map = gsp_proc_maps_find(maps, (uint64_t)(uintptr_t)TEXT);
    tap_check(map && map->readable && !map->writable);
    gsp_proc_maps_free(maps);
}

/* Splits one mapping into many and joins them again, forever. */
static void split_and_join(void)
{
    enum { PAGES = 400 }; /* more lines than one read() returns */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *area = mmap(NULL, PAGES * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (area != MAP_FAILED) {
        for (size_t i = 0; i < PAGES; i += 2)
            mprotect(area + i * page, page, PROT_READ | PROT_WRITE);
        mprotect(area, PAGES * page, PROT_READ);
    }
    _exit(1);
}

TAP_TEST(a_map_that_changes_while_it_is_read)
{
    const pid_t child = fork();
    tap_require(child >= 0);
    if (child == 0)
        split_and_join();
    for (int i = 0; i < CHANGED_READS; i++) {
        struct gsp_maps *maps;
        struct gsp_err err = {0};
        tap_eq_int(gsp_proc_maps_read(child, &maps, &err), GSP_OK);
        uint64_t floor = 0;
        for (size_t k = 0; k < gsp_proc_maps_count(maps); k++) {
            const struct gsp_map *map = gsp_proc_maps_at(maps, k);
            tap_require(map->start >= floor && map->start < map->end);
            floor = map->end;
        }
        gsp_proc_maps_free(maps);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TAP_TEST(a_process_that_does_not_exist)
{
    struct gsp_maps *maps;
    struct gsp_err err = {0};
    tap_eq_int(gsp_proc_maps_read(0x7ffffff0, &maps, &err), GSP_E_NOPROC);
    tap_check(maps == NULL);
}

TAP_MAIN()
