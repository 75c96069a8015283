/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/state.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/attr.h"

#define TEXT_MAX         512U
#define NO_LIMIT         (UINT32_MAX) /* -1 of an int */
#define OP_MASK          (~(unsigned)(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME))
/* At most as large as the C library's description of a thread. */
#define DESCRIPTOR_BYTES ((size_t)4096)
#define GUARD_UNIT       4096U
/* Where stack_holds() searches: larger than a signal frame and the calls of a handler. */
#define LAST_CALLS_BYTES ((uint64_t)128 << 10U)
#define CHUNK_WORDS      2048U

/* Calls that the kernel restarts after a stop, transparently to the target. Not included:
 * connect, which fails when repeated, and calls that free or map memory. */
static const short RESTARTS[] = {
    SYS_read,    SYS_readv,    SYS_recvfrom,      SYS_recvmsg,         SYS_accept,
    SYS_accept4, SYS_wait4,    SYS_waitid,        SYS_nanosleep,       SYS_clock_nanosleep,
    SYS_ppoll,   SYS_pselect6, SYS_rt_sigsuspend, SYS_restart_syscall, SYS_flock,
#ifdef SYS_poll
    SYS_poll,    SYS_select,   SYS_pause,
#endif
};

/* Calls that end with EINTR after any stop (signal(7)). */
static const short INTERRUPTS[] = {
    SYS_epoll_pwait,  SYS_rt_sigtimedwait, SYS_semop, SYS_semtimedop, SYS_io_getevents,
#ifdef SYS_epoll_pwait2
    SYS_epoll_pwait2,
#endif
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
};

static bool is_in(const short *list, size_t count, long number)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == number)
            return true;
    return false;
}

/* Parses "number six arguments sp pc"; false for any other text. */
static bool parse(struct gsp_sv text, struct gsp_inject_call_at *at)
{
    char copy[TEXT_MAX];
    if (text.len == 0 || text.len >= sizeof(copy) || text.p[0] < '0' || text.p[0] > '9')
        return false;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    char *end;
    errno = 0;
    at->number = strtol(copy, &end, 10);
    uint64_t words[GSP_COUNT(at->args) + 2] = {0};
    for (size_t i = 0; i < GSP_COUNT(words); i++) {
        const char *from = end;
        words[i] = strtoull(from, &end, 16);
        if (end == from)
            return false;
    }
    memcpy(at->args, words, sizeof(at->args));
    at->sp = words[GSP_COUNT(at->args)];
    at->pc = words[GSP_COUNT(at->args) + 1];
    return errno == 0 && at->sp != 0 && at->pc != 0;
}

/* Calls that transfer data until all is done: a stop ends them after the part that is done. */
static bool shortens(const struct gsp_inject_call_at *at)
{
    switch (at->number) {
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
        return true;
    case SYS_recvfrom:
        return (at->args[3] & MSG_WAITALL) != 0;
    case SYS_recvmsg:
        return (at->args[2] & MSG_WAITALL) != 0;
    default:
        return false;
    }
}

/* Locks of the C library use FUTEX_WAIT. Condition variables, semaphores and therefore the GIL
 * use FUTEX_WAIT_BITSET. */
static bool is_condition(const struct gsp_inject_call_at *at)
{
    return ((unsigned)at->args[1] & OP_MASK) == FUTEX_WAIT_BITSET;
}

enum gsp_inject_state gsp_inject__state_parse(struct gsp_sv text, struct gsp_inject_call_at *at)
{
    *at = (struct gsp_inject_call_at){.number = -1};
    if (text.len >= 7 && memcmp(text.p, "running", 7) == 0)
        return GSP_INJECT_RUNS;
    if (!parse(text, at)) {
        *at = (struct gsp_inject_call_at){.number = -1};
        return GSP_INJECT_UNSAFE;
    }
    if (at->number == SYS_futex)
        return is_condition(at) ? GSP_INJECT_RESTARTS : GSP_INJECT_UNSAFE;
    if (shortens(at))
        return GSP_INJECT_SHORTENS;
    if (is_in(RESTARTS, GSP_COUNT(RESTARTS), at->number))
        return GSP_INJECT_RESTARTS;
    return is_in(INTERRUPTS, GSP_COUNT(INTERRUPTS), at->number) ? GSP_INJECT_INTERRUPTS
                                                                : GSP_INJECT_UNSAFE;
}

/* Whether a wait has no time limit; false for calls that are not known. */
static bool is_endless(const struct gsp_inject_call_at *at)
{
    switch (at->number) {
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        return (uint32_t)at->args[3] == NO_LIMIT;
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
        return at->args[3] == 0;
#endif
#ifdef SYS_poll
    case SYS_poll:
        return (int32_t)at->args[2] < 0;
#endif
    case SYS_ppoll:
    case SYS_rt_sigtimedwait:
        return at->args[2] == 0;
    case SYS_semtimedop:
        return at->args[3] == 0;
    case SYS_io_getevents:
        return at->args[4] == 0;
    default:
        return at->number == SYS_semop;
    }
}

/* Socket calls end with EINTR only if the socket has a time limit, which starts again then. */
bool gsp_inject__call_can_repeat(const struct gsp_inject_call_at *at)
{
    static const short SOCKETS[] = {SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4, SYS_sendto,
                                    SYS_sendmsg,  SYS_read,    SYS_readv,  SYS_write,   SYS_writev};
    return is_endless(at) || is_in(SOCKETS, GSP_COUNT(SOCKETS), at->number);
}

bool gsp_inject__call_is_relative_sleep(const struct gsp_inject_call_at *at)
{
    return at->number == SYS_nanosleep || (at->number == SYS_clock_nanosleep && at->args[1] == 0);
}

bool gsp_inject__call_waits_until(const struct gsp_inject_call_at *at)
{
    return at->number == SYS_futex && is_condition(at);
}

static bool name_begins(const struct gsp_map *map, const char *const *names, size_t count)
{
    struct gsp_sv name = gsp_sv_basename(gsp_sv_of(map->path));
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(names[i]);
        if (name.len >= len && memcmp(name.p, names[i], len) == 0)
            return true;
    }
    return false;
}

bool gsp_inject__map_is_linker(const struct gsp_map *map)
{
    static const char *const names[] = {"ld-", "ld.so", "ld64."};
    return name_begins(map, names, GSP_COUNT(names));
}

bool gsp_inject__map_is_lock_free(const struct gsp_map *map)
{
    static const char *const names[] = {
        "libc.",     "libc-",        "libpthread",  "libdl",       "libgcc_s",
        "libunwind", "libstdc++",    "libjemalloc", "libtcmalloc", "libmimalloc",
        "libhoard",  "libtbbmalloc", "libasan",     "libtsan",     "liblsan",
        "libubsan",  "libhwasan",    "librt",       "libnss_",
    };
    return map->exec && map->inode != 0 && map->path[0] == '/' && !gsp_inject__map_is_linker(map) &&
           !name_begins(map, names, GSP_COUNT(names));
}

/* The stack of a thread as the C library has allocated it. */
struct block {
    uint64_t start;
    uint64_t size;
    uint64_t guard; /* bytes at the start that cannot be used */
};

/* Whether the words may describe the stack in a mapping that contains sp, and the thread pointer
 * above it. */
static bool is_block(const struct block *block, const struct gsp_map *map, uint64_t sp, uint64_t tp)
{
    return block->start != 0 && block->start <= sp && block->size <= map->end - block->start &&
           tp - block->start < block->size && block->guard < block->size &&
           block->guard % GUARD_UNIT == 0 && block->start + block->guard >= map->start &&
           block->start + block->guard <= sp;
}

/* glibc: searches the thread's struct pthread, which is at or right below the thread pointer, for
 * its members stackblock, stackblock_size and guardsize. Their offset differs by version. */
static bool find_block(struct gsp_mem *mem, const struct gsp_map *map, uint64_t sp, uint64_t tp,
                       struct block *out)
{
    uint64_t words[2 * DESCRIPTOR_BYTES / sizeof(uint64_t)];
    const uint64_t from = tp - map->start < DESCRIPTOR_BYTES ? map->start : tp - DESCRIPTOR_BYTES;
    const uint64_t end = map->end - tp < DESCRIPTOR_BYTES ? map->end : tp + DESCRIPTOR_BYTES;
    const size_t count = (size_t)(end - from) / sizeof(uint64_t);
    if (gsp_proc_mem_read(mem, from, words, count * sizeof(uint64_t)) != GSP_OK)
        return false;
    for (size_t i = 0; i + 2 < count; i++) {
        *out = (struct block){words[i], words[i + 1], words[i + 2]};
        if (is_block(out, map, sp, tp))
            return true;
    }
    return false;
}

size_t gsp_inject__stack_room(const struct gsp_maps *maps, struct gsp_mem *mem, uint64_t sp,
                              uint64_t thread_pointer)
{
    struct block block;
    const struct gsp_map *map = gsp_proc_maps_find(maps, sp);
    if (!map || !map->writable)
        return 0;
    if (strcmp(map->path, "[stack]") == 0)
        return SIZE_MAX;
    /* C libraries put the thread's descriptor above its stack. A coroutine has a stack elsewhere,
     * for example in a heap: what is below it belongs to others. */
    if (thread_pointer % sizeof(uint64_t) != 0 || thread_pointer <= sp ||
        thread_pointer >= map->end)
        return 0;
    return find_block(mem, map, sp, thread_pointer, &block)
               ? (size_t)(sp - block.start - block.guard)
               : 0;
}

/* The address in a word. With pointer authentication, the high bits of a return address sign it. */
static uint64_t address_in(uint64_t word)
{
#if defined(__aarch64__)
    return word & ((UINT64_C(1) << 48U) - 1);
#else
    return word;
#endif
}

bool gsp_inject__stack_holds(const struct gsp_maps *maps, struct gsp_mem *mem, uint64_t sp,
                             uint64_t word)
{
    uint64_t words[CHUNK_WORDS];
    const struct gsp_map *map = gsp_proc_maps_find(maps, sp);
    uint64_t at = (sp + sizeof(word) - 1) & ~(uint64_t)(sizeof(word) - 1);
    if (!map || at >= map->end)
        return false;
    const uint64_t end = map->end - at < LAST_CALLS_BYTES ? map->end : at + LAST_CALLS_BYTES;
    while (end - at >= sizeof(word)) {
        const uint64_t left = (end - at) / sizeof(word);
        const size_t count = left < CHUNK_WORDS ? (size_t)left : CHUNK_WORDS;
        if (gsp_proc_mem_read(mem, at, words, count * sizeof(word)) != GSP_OK)
            return true; /* unknown */
        for (size_t i = 0; i < count; i++)
            if (address_in(words[i]) == word)
                return true;
        at += count * sizeof(word);
    }
    return false;
}
