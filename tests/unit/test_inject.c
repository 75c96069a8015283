/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/linker.h"
#include "inject/state.h"
#include "proc/maps.h"
#include "tap.h"

/* The /proc line of a thread that waits in a system call. */
static enum gsp_inject_state state_of(long number, uint64_t second, uint64_t fourth,
                                      struct gsp_inject_call_at *at)
{
    char text[200];
    snprintf(text, sizeof(text),
             "%ld 0x1 0x%llx 0x3 0x%llx 0x5 0x6 0x7ffd00001000 0x7f0000002000\n", number,
             (unsigned long long)second, (unsigned long long)fourth);
    return gsp_inject__state_parse(gsp_sv_of(text), at);
}

TAP_TEST(restartable_calls_come_first)
{
    static const long calls[] = {SYS_read,     SYS_ppoll,  SYS_pselect6, SYS_clock_nanosleep,
                                 SYS_recvfrom, SYS_accept, SYS_wait4,    SYS_restart_syscall};
    struct gsp_inject_call_at at;
    for (size_t i = 0; i < GSP_COUNT(calls); i++)
        tap_eq_int(state_of(calls[i], 2, 4, &at), GSP_INJECT_RESTARTS);
    tap_eq_int(at.number, SYS_restart_syscall);
    tap_check(at.sp == 0x7ffd00001000 && at.pc == 0x7f0000002000);
    tap_check(at.args[0] == 1 && at.args[5] == 6);
}

TAP_TEST(transfers_that_a_stop_would_cut_short_come_last)
{
    struct gsp_inject_call_at at;
    tap_eq_int(state_of(SYS_write, 0, 0, &at), GSP_INJECT_SHORTENS);
    tap_eq_int(state_of(SYS_sendmsg, 0, 0, &at), GSP_INJECT_SHORTENS);
    tap_eq_int(state_of(SYS_recvfrom, 0, MSG_WAITALL, &at), GSP_INJECT_SHORTENS);
    tap_eq_int(state_of(SYS_recvfrom, 0, 0, &at), GSP_INJECT_RESTARTS);
}

TAP_TEST(a_c_library_lock_is_not_a_condition_variable)
{
    struct gsp_inject_call_at at;
    tap_eq_int(state_of(SYS_futex, FUTEX_WAIT_PRIVATE, 0, &at), GSP_INJECT_UNSAFE);
    tap_eq_int(state_of(SYS_futex, FUTEX_LOCK_PI_PRIVATE, 0, &at), GSP_INJECT_UNSAFE);
    tap_eq_int(state_of(SYS_futex, FUTEX_WAIT_BITSET_PRIVATE, 0, &at), GSP_INJECT_RESTARTS);
    tap_eq_int(state_of(SYS_futex, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &at),
               GSP_INJECT_RESTARTS);
}

TAP_TEST(calls_that_map_memory_are_not_safe)
{
    static const long calls[] = {SYS_mmap, SYS_munmap, SYS_brk, SYS_madvise, SYS_openat, SYS_clone};
    struct gsp_inject_call_at at;
    for (size_t i = 0; i < GSP_COUNT(calls); i++)
        tap_eq_int(state_of(calls[i], 2, 4, &at), GSP_INJECT_UNSAFE);
}

/* Whether a call with these arguments may be repeated. */
static bool can_repeat(long number, uint64_t third, uint64_t fourth, uint64_t fifth)
{
    const struct gsp_inject_call_at at = {.number = number, .args = {0, 0, third, fourth, fifth}};
    return gsp_inject__call_can_repeat(&at);
}

TAP_TEST(waits_without_a_limit_can_be_repeated_after_eintr)
{
    tap_check(can_repeat(SYS_epoll_pwait, 0, 0xffffffff, 0));
    tap_check(!can_repeat(SYS_epoll_pwait, 0, 1000, 0));
    tap_check(can_repeat(SYS_rt_sigtimedwait, 0, 8, 0) &&
              !can_repeat(SYS_rt_sigtimedwait, 1, 8, 0));
    tap_check(can_repeat(SYS_semtimedop, 1, 0, 1) && !can_repeat(SYS_semtimedop, 1, 1, 0));
    tap_check(can_repeat(SYS_io_getevents, 1, 1, 0) && !can_repeat(SYS_io_getevents, 0, 0, 1));
    tap_check(can_repeat(SYS_semop, 1, 1, 1) && can_repeat(SYS_recvfrom, 1, 1, 1));
    tap_check(!can_repeat(SYS_nanosleep, 0, 0, 0) && !can_repeat(SYS_futex, 0, 0, 0));
#ifdef SYS_poll
    tap_check(can_repeat(SYS_poll, 0xffffffff, 0, 0) && !can_repeat(SYS_poll, 1000, 0, 0));
#endif
}

TAP_TEST(relative_and_absolute_sleeps_differ)
{
    struct gsp_inject_call_at at;
    tap_eq_int(state_of(SYS_clock_nanosleep, 0, 0, &at), GSP_INJECT_RESTARTS);
    tap_check(gsp_inject__call_is_relative_sleep(&at));
    tap_eq_int(state_of(SYS_clock_nanosleep, 1, 0, &at), GSP_INJECT_RESTARTS);
    tap_check(!gsp_inject__call_is_relative_sleep(&at));
}

TAP_TEST(unreadable_states_are_not_safe)
{
    static const char *const texts[] = {"",
                                        "-1 0x7ffd 0x7f00\n",
                                        "0 0x1 0x2\n",
                                        "0 0x1 0x2 0x3 0x4 0x5 0x6 0x0 0x0\n",
                                        "0 a b c d e f g h\n",
                                        "0 0x1 0x2 0x3 0x4 0x5 0x6 0xfffffffffffffffffff 0x1\n",
                                        "\n"};
    struct gsp_inject_call_at at;
    for (size_t i = 0; i < GSP_COUNT(texts); i++) {
        tap_eq_int(gsp_inject__state_parse(gsp_sv_of(texts[i]), &at), GSP_INJECT_UNSAFE);
        tap_eq_int(at.number, -1);
    }
    tap_eq_int(gsp_inject__state_parse(gsp_sv_of("running\n"), &at), GSP_INJECT_RUNS);
    tap_eq_int(at.number, -1);
}

static const char MAPS[] =
    "555500000000-555500001000 r-xp 00000000 08:01 11 /usr/bin/python3.11\n"
    "555600000000-555600021000 rw-p 00000000 00:00 0 [heap]\n"
    "7f0000000000-7f0000100000 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n"
    "7f0000200000-7f0000300000 r-xp 00000000 08:01 13 /usr/lib/ld-linux-x86-64.so.2\n"
    "7f0000400000-7f0000500000 r-xp 00000000 08:01 14 /usr/lib/libz.so.1\n"
    "7f0000600000-7f0000700000 r-xp 00000000 08:01 15 /usr/lib/libjemalloc.so.2\n"
    "7f0000800000-7f0000900000 r-xp 00000000 00:00 0\n"
    "7f0000a00000-7f0000b00000 rw-p 00000000 00:00 0\n"
    "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\n";

static struct gsp_maps *read_maps(void)
{
    struct gsp_maps *maps;
    tap_eq_int(gsp_proc__maps_parse(gsp_sv_of(MAPS), &maps, NULL), GSP_OK);
    return maps;
}

TAP_TEST(lock_free_code_is_identified_by_its_file)
{
    static const struct {
        uint64_t addr;
        bool plain;
    } rows[] = {{0x555500000000, true},  {0x555600000000, false}, {0x7f0000000000, false},
                {0x7f0000200000, false}, {0x7f0000400000, true},  {0x7f0000600000, false},
                {0x7f0000800000, false}};
    struct gsp_maps *maps = read_maps();
    for (size_t i = 0; i < GSP_COUNT(rows); i++) {
        const struct gsp_map *map = gsp_proc_maps_find(maps, rows[i].addr);
        tap_check(map && gsp_inject__map_is_lock_free(map) == rows[i].plain);
        tap_check(map && gsp_inject__map_is_linker(map) == (rows[i].addr == 0x7f0000200000));
    }
    gsp_proc_maps_free(maps);
}

/* A thread that says where its stack is. */
struct place {
    uint64_t sp;
    uint64_t tp;
    size_t room;  /* below sp, on its own stack */
    size_t other; /* the same for a buffer in another mapping */
};

static uint64_t thread_pointer(void)
{
    return (uint64_t)(uintptr_t)__builtin_thread_pointer();
}

static void *find_place(void *arg)
{
    struct place *place = arg;
    struct gsp_maps *maps = NULL;
    struct gsp_mem *mem = NULL;
    /* Not the address of a variable: with ASan, that may be in a heap. */
    place->sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    place->tp = thread_pointer();
    tap_require(gsp_proc_maps_read(getpid(), &maps, NULL) == GSP_OK);
    tap_require(gsp_proc_mem_open_pid(getpid(), &mem, NULL) == GSP_OK);
    place->room = gsp_inject__stack_room(maps, mem, place->sp, place->tp);
    void *buffer = malloc(8U << 20);
    tap_require(buffer != NULL);
    const uint64_t other = (uint64_t)(uintptr_t)buffer + (4U << 20);
    place->other = gsp_inject__stack_room(maps, mem, other & ~UINT64_C(15), place->tp);
    free(buffer);
    gsp_proc_mem_free(mem);
    gsp_proc_maps_free(maps);
    return NULL;
}

/* Runs find_place() in a thread. A buffer is its stack; without one, it gets a new stack. */
static struct place place_of_thread(void *buffer, size_t bytes)
{
    struct place place = {0};
    pthread_attr_t attr;
    pthread_t thread;
    tap_require(pthread_attr_init(&attr) == 0);
    tap_require((buffer ? pthread_attr_setstack(&attr, buffer, bytes)
                        : pthread_attr_setstacksize(&attr, bytes)) == 0);
    tap_require(pthread_create(&thread, &attr, find_place, &place) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    return place;
}

TAP_TEST(the_room_on_a_stack_ends_where_the_stack_does)
{
    static const size_t bytes = 1U << 20;
    struct place place = place_of_thread(NULL, bytes);
    tap_check(place.room > bytes / 2 && place.room <= bytes);
    tap_eq_int(place.other, 0);
    /* A stack in the middle of a larger mapping. */
    char *all = mmap(NULL, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tap_require(all != MAP_FAILED);
    place = place_of_thread(all + bytes, bytes);
    tap_eq_int(place.room, place.sp - (uint64_t)(uintptr_t)(all + bytes));
    munmap(all, 3 * bytes);
    /* The first thread. */
    struct place main_place = {0};
    find_place(&main_place);
    tap_check(main_place.room == SIZE_MAX);
    tap_eq_int(main_place.other, 0);
}

TAP_TEST(words_of_the_last_calls_are_found)
{
    struct gsp_maps *maps = NULL;
    struct gsp_mem *mem = NULL;
    static const uint64_t word = 0x3141592653;
    volatile uint64_t words[4] = {0};
    const uint64_t sp = (uint64_t)(uintptr_t)words;
    tap_require(gsp_proc_maps_read(getpid(), &maps, NULL) == GSP_OK);
    tap_require(gsp_proc_mem_open_pid(getpid(), &mem, NULL) == GSP_OK);
    tap_check(!gsp_inject__stack_holds(maps, mem, 0x1000, word));
    words[3] = word;
    tap_check(gsp_inject__stack_holds(maps, mem, sp, word));
    tap_check(gsp_inject__stack_holds(maps, mem, sp + 1, word));
    gsp_proc_mem_free(mem);
    gsp_proc_maps_free(maps);
}

TAP_TEST(addresses_outside_of_a_stack_have_no_room)
{
    struct gsp_maps *maps = read_maps();
    struct gsp_mem *mem = NULL;
    tap_require(gsp_proc_mem_open_pid(getpid(), &mem, NULL) == GSP_OK);
    tap_eq_int(gsp_inject__stack_room(maps, mem, 0x7f0000a10000, 0), 0);
    tap_eq_int(gsp_inject__stack_room(maps, mem, 0x7f0000a10000, 0x7f0000b00000), 0);
    tap_eq_int(gsp_inject__stack_room(maps, mem, 0x7f0000000000, 0x7f0000000100), 0);
    tap_eq_int(gsp_inject__stack_room(maps, mem, 0x1000, 0x2000), 0);
    tap_check(gsp_inject__stack_room(maps, mem, 0x7ffd00010000, 0) == SIZE_MAX);
    gsp_proc_mem_free(mem);
    gsp_proc_maps_free(maps);
}

TAP_TEST(c_libraries_are_identified_by_name)
{
    tap_eq_int(gsp_inject__linker_file_of("/lib/x86_64-linux-gnu/libc.so.6"), GSP_LINKER_LIBC);
    tap_eq_int(gsp_inject__linker_file_of("/lib/x86_64-linux-gnu/libc-2.31.so"), GSP_LINKER_LIBC);
    tap_eq_int(gsp_inject__linker_file_of("/lib/libdl-2.31.so"), GSP_LINKER_LIBDL);
    tap_eq_int(gsp_inject__linker_file_of("/lib64/ld-linux-x86-64.so.2"), GSP_LINKER_LD);
    tap_eq_int(gsp_inject__linker_file_of("/lib/ld-musl-x86_64.so.1"), GSP_LINKER_MUSL);
    tap_eq_int(gsp_inject__linker_file_of("/usr/lib/libcrypt.so.1"), GSP_LINKER_OTHER);
    tap_eq_int(gsp_inject__linker_file_of(""), GSP_LINKER_OTHER);
}

TAP_MAIN()
