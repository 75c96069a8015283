/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of a synthetic 3.11 target whose memory changes during the reads.
 *
 * "test_py_walk --write-seed FILE" writes that memory as an input for fuzz_py_walk. */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "py/walk.h"
#include "tap.h"

#define BASE        0x100000ULL /* as in fuzz_py_walk.c */
#define TSTATE      (BASE)
#define CFRAME      (BASE + 0x800)
#define FRAMES      (BASE + 0x1000)
#define CODES       (BASE + 0x4000)
#define FUNC        (BASE + 0x5800) /* + 256 × function */
#define TYPE        (BASE + 0x5f00)
#define BYTES       0x6000U
#define BLOCK       0x100U /* copied atomically; the size of a frame */
/* Size of the value stack with which a frame fills a block. */
#define STACK_WORDS ((BLOCK - lay->iframe_localsplus) / 8U)

/* The functions; their code objects are 1 KB apart. */
enum { MAIN, A, B, C, D, FUNCTIONS };

struct world {
    unsigned char now[BYTES];
    unsigned char other[BYTES];
    unsigned alternate; /* reads after which now and other are swapped; 0: never */
    unsigned reads;
    unsigned period; /* the same in blocks, also in the middle of a read; 0: never */
    unsigned blocks;
};

static struct world world;
static const struct gsp_py_layout *lay;

static void put64(uint64_t addr, uint64_t v)
{
    memcpy(world.now + (addr - BASE), &v, 8);
}

static void put32(uint64_t addr, uint32_t v)
{
    memcpy(world.now + (addr - BASE), &v, 4);
}

/* Copies like the kernel: in order, while the target runs. */
static void copy(struct world *w, uint64_t off, unsigned char *to, size_t len)
{
    const unsigned char *from = w->alternate && (w->reads / w->alternate) % 2 ? w->other : w->now;
    while (len > 0) {
        size_t piece = BLOCK - off % BLOCK < len ? BLOCK - off % BLOCK : len;
        if (w->period)
            from = (w->blocks++ / w->period) % 2 ? w->other : w->now;
        memcpy(to, from + off, piece);
        to += piece;
        off += piece;
        len -= piece;
    }
}

static int gather(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done)
{
    struct world *w = self;
    w->reads++;
    for (*done = 0; *done < count; ++*done) {
        const struct gsp_mem_span *span = &spans[*done];
        if (span->addr < BASE || span->addr - BASE > BYTES ||
            span->len > BYTES - (span->addr - BASE))
            return GSP_E_FAULT;
        copy(w, span->addr - BASE, span->to, span->len);
    }
    return GSP_OK;
}

static void do_not_free(void *self)
{
    (void)self;
}

static const struct gsp_mem_ops OPS = {gather, do_not_free};

static uint64_t code_addr(int f)
{
    return CODES + 0x400ULL * (uint64_t)f;
}

static uint64_t func_addr(int f)
{
    return FUNC + 0x100ULL * (uint64_t)f;
}

static void put_str(uint64_t addr, const char *text)
{
    put64(addr + lay->object_type, TYPE);
    put64(addr + lay->unicode_length, strlen(text));
    put64(addr + lay->unicode_hash, gsp_hash_bytes(text, strlen(text), 1));
    put32(addr + lay->unicode_state, 0xe4); /* ready, ASCII, compact, one byte per character */
    memcpy(world.now + (addr + lay->unicode_ascii_size - BASE), text, strlen(text) + 1);
}

static void put_code(int f, const char *name, uint32_t first_line)
{
    uint64_t code = code_addr(f);
    uint64_t text = code + 0x200;
    uint64_t file = code + 0x280;
    uint64_t table = code + 0x300;
    put64(code + lay->object_type, TYPE);
    put64(code + lay->var_ob_size, 16);
    put64(code + lay->code_name, text);
    put64(code + lay->code_qualname, text);
    put64(code + lay->code_filename, file);
    put64(code + lay->code_linetable, table);
    put32(code + lay->code_firstlineno, first_line);
    put32(code + lay->code_stacksize, STACK_WORDS);
    put_str(text, name);
    put_str(file, "made_up.py");
    /* Two entries of eight units each: form 11 (one line further, columns 0 to 0). */
    put64(table + lay->bytes_size, 6);
    memcpy(world.now + (table + lay->bytes_data - BASE), "\xdf\0\0\xdf\0\0", 6);
}

/* Writes frame number `at`, which runs function f and was called by the frame below. */
static void put_frame(int at, int f, bool executing)
{
    uint64_t frame = FRAMES + 0x100ULL * (uint64_t)at;
    put64(frame + lay->iframe_previous, at ? frame - 0x100 : 0);
    put64(frame + lay->iframe_executable, code_addr(f));
    put64(frame + lay->iframe_funcobj, func_addr(f));
    put64(frame + lay->iframe_instr_ptr, code_addr(f) + lay->code_code_adaptive + 4);
    put32(frame + lay->iframe_stacktop, executing ? UINT32_MAX : 0);
}

/* Writes function f to the slot of the value stack from which frame `at` calls. */
static void put_called(int at, int f)
{
    put64(FRAMES + 0x100ULL * (uint64_t)at + lay->iframe_localsplus, func_addr(f));
}

/* Specializes the caller's bytecode for this callee: its cache has the function's version. */
static void put_site(int caller, int callee)
{
    put64(func_addr(callee) + lay->function_code, code_addr(callee));
    put32(func_addr(callee) + lay->function_version, 100U + (uint32_t)callee);
    put32(code_addr(caller) + lay->code_code_adaptive, 100U + (uint32_t)callee);
}

static void put_stack(const int *functions, int count)
{
    for (int i = 0; i < count; i++) {
        put_frame(i, functions[i], i == count - 1);
        put_called(i, MAIN); /* verifies nothing */
    }
    put64(CFRAME + lay->cframe_current_frame, FRAMES + 0x100ULL * (uint64_t)(count - 1));
}

static struct gsp_py_walker *start(struct gsp_snap *snap)
{
    static struct gsp_py_runtime run;
    static struct gsp_mem *mem;
    static struct gsp_py_walker walker;
    lay = gsp_py_layout_find(11, false);
    tap_require(lay != NULL);
    run = (struct gsp_py_runtime){.addr = BASE, .code_type = TYPE, .layout = *lay};
    memset(&world, 0, sizeof(world));
    put64(TSTATE + lay->tstate_cframe, CFRAME);
    static const char *const NAMES[FUNCTIONS] = {"main", "a", "b", "c", "d"};
    for (int f = 0; f < FUNCTIONS; f++)
        put_code(f, NAMES[f], 10U * (uint32_t)(f + 1));
    tap_eq_int(gsp_proc__mem_open_ops(&OPS, &world, &mem, NULL), GSP_OK);
    gsp_py__walker_init(&walker, mem, &run);
    gsp_proc_snap_init(snap, mem);
    return &walker;
}

static void finish(struct gsp_py_walker *walker, struct gsp_snap *snap)
{
    gsp_proc_snap_free(snap);
    gsp_proc_mem_free(walker->mem);
    gsp_py__walker_free(walker);
}

static int walk(struct gsp_py_walker *walker, struct gsp_snap *snap, int64_t now_ns)
{
    gsp_proc_snap_refresh(snap);
    return gsp_py__walk(walker, snap, TSTATE, now_ns);
}

static const char *name_at(const struct gsp_py_walker *walker, size_t i)
{
    return i < walker->chain.depth
               ? gsp_py_codes_at(&walker->codes, walker->chain.frames[i].code)->name
               : "(none)";
}

TAP_TEST(a_quiet_stack)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    tap_eq_int(walk(walker, &snap, 1), GSP_OK);
    tap_eq_int(walker->chain.depth, 3);
    tap_eq_str(name_at(walker, 0), "b");
    tap_eq_str(name_at(walker, 2), "main");
    tap_eq_int(walker->codes.locs[walker->chain.frames[0].loc].line, 31);
    /* All edges are verified now: one refresh is enough. */
    walker->retries = 0;
    for (int i = 0; i < 200; i++)
        tap_eq_int(walk(walker, &snap, 2 + i), GSP_OK);
    tap_eq_int(walker->retries, 0);
    finish(walker, &snap);
}

/* Returns whether the stack is possible while a calls b and c calls d, in turn. */
static bool is_legal(const struct gsp_py_walker *walker)
{
    const char *leaf = name_at(walker, 0);
    const char *caller = name_at(walker, 1);
    if (walker->chain.depth != 3 || strcmp(name_at(walker, 2), "main") != 0)
        return false;
    return (strcmp(caller, "a") == 0 && strcmp(leaf, "b") == 0) ||
           (strcmp(caller, "c") == 0 && strcmp(leaf, "d") == 0);
}

/* Walks while the memory alternates, also in the middle of reads, between a calling b and c calling
 * d. Returns the number of successful walks. */
static int walk_in_turns(unsigned period, bool with_sites)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    if (with_sites) {
        put_site(A, B);
        put_site(C, D);
        /* Verify the calls of main first. */
        for (int f = A; f <= C; f += C - A) {
            put_stack((const int[]){MAIN, f}, 2);
            tap_eq_int(walk(walker, &snap, 1), GSP_OK);
        }
    }
    put_stack((const int[]){MAIN, A, B}, 3);
    memcpy(world.other, world.now, BYTES);
    put_stack((const int[]){MAIN, C, D}, 3);
    world.period = period;
    int good = 0;
    for (int i = 0; i < 200; i++) {
        int rc = walk(walker, &snap, 1 + i * GSP_NS_PER_MS);
        tap_check(rc == GSP_OK || rc == GSP_E_TORN);
        /* Sampling times are irregular, so they are not in step with the target. */
        world.blocks += (unsigned)(gsp_mix64((uint64_t)i) % 1000);
        if (rc != GSP_OK)
            continue;
        good++;
        tap_check(is_legal(walker));
    }
    finish(walker, &snap);
    return good;
}

/* Caller and callee are from different times: a never calls d, even if consecutive reads in step
 * with the program show it repeatedly. */
TAP_TEST(a_torn_stack_is_rejected)
{
    for (unsigned period = 1; period <= 24; period++)
        walk_in_turns(period, false);
}

TAP_TEST(bytecode_verifies_a_call)
{
    int good = 0;
    for (unsigned period = 5; period <= 24; period++)
        good += walk_in_turns(period, true);
    tap_check(good > 20 * 200 * 9 / 10);
}

/* The memory does not change during a read, so every read is consistent. */
TAP_TEST(a_probe_verifies_a_call)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    memcpy(world.other, world.now, BYTES);
    put_stack((const int[]){MAIN, C, D}, 3);
    world.alternate = 200;
    for (int i = 0; i < 100; i++) {
        tap_eq_int(walk(walker, &snap, 1 + i), GSP_OK);
        tap_check(is_legal(walker));
    }
    finish(walker, &snap);
}

/* A frame that has no caller for a moment is not an outermost frame. */
TAP_TEST(an_outermost_frame_is_verified)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    tap_eq_int(walk(walker, &snap, 1), GSP_OK);
    memcpy(world.other, world.now, BYTES);
    put64(FRAMES + 0x100 + lay->iframe_previous, 0);
    world.alternate = 1;
    for (int i = 0; i < 20; i++) {
        tap_eq_int(walk(walker, &snap, 2 + i), GSP_OK);
        tap_eq_int(walker->chain.depth, 3);
    }
    finish(walker, &snap);
}

static void expect_a_on_top(struct gsp_py_walker *walker, struct gsp_snap *snap, int64_t now_ns)
{
    tap_eq_int(walk(walker, snap, now_ns), GSP_OK);
    tap_eq_int(walker->chain.depth, 2);
    tap_eq_str(name_at(walker, 0), "a");
    tap_eq_str(name_at(walker, 1), "main");
}

/* A frame that executes, has not started, or returns has made no call: the frame above it is
 * stale. */
TAP_TEST(a_frame_without_a_callee)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    tap_eq_int(walk(walker, &snap, 1), GSP_OK);
    put_frame(1, A, true);
    expect_a_on_top(walker, &snap, 2);
    put_frame(1, A, false);
    put64(FRAMES + 0x100 + lay->iframe_instr_ptr, code_addr(A) + lay->code_code_adaptive - 2);
    expect_a_on_top(walker, &snap, 3);
    put_frame(1, A, false);
    put64(FRAMES + 0x100 + lay->iframe_instr_ptr, code_addr(A) + lay->code_code_adaptive + 8);
    put32(code_addr(A) + lay->code_code_adaptive + 8, 83); /* RETURN_VALUE */
    expect_a_on_top(walker, &snap, 4);
    put_frame(1, A, false);
    tap_eq_int(walk(walker, &snap, 5), GSP_OK);
    tap_eq_int(walker->chain.depth, 3);
    finish(walker, &snap);
}

/* A frame that does not begin where its caller's frame ends. */
TAP_TEST(a_frame_that_is_not_adjacent)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    tap_eq_int(walk(walker, &snap, 1), GSP_OK);
    put32(code_addr(A) + lay->code_stacksize, STACK_WORDS - 1);
    tap_eq_int(walk(walker, &snap, 2), GSP_E_TORN);
    finish(walker, &snap);
}

/* The frame above a caller may be stale from an earlier call: it does not execute. */
TAP_TEST(an_ended_callee_is_not_reported)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    for (int i = 0; i < 8; i++)
        tap_eq_int(walk(walker, &snap, 1 + i), GSP_OK);
    put_frame(2, B, false);
    put64(CFRAME + lay->cframe_current_frame, FRAMES + 0x100ULL); /* the pointer refers to a */
    tap_eq_int(walk(walker, &snap, 9), GSP_OK);
    tap_eq_str(name_at(walker, 0), "a");
    put_called(1, B);
    tap_eq_int(walk(walker, &snap, 10), GSP_OK);
    tap_eq_int(walker->chain.depth, 2);
    tap_eq_str(name_at(walker, 0), "a");
    finish(walker, &snap);
}

/* The interpreter's internal frame between the call of a class and its __init__ (here with the
 * offsets of 3.11). */
TAP_TEST(the_frame_below_an_init_is_skipped)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_code(A, "__init__", 0);
    put_str(code_addr(A) + 0x280, "__init__");
    put_stack((const int[]){MAIN, A, B}, 3);
    put64(FRAMES + 0x100 + lay->iframe_instr_ptr, code_addr(A) + lay->code_code_adaptive);
    tap_eq_int(walk(walker, &snap, 1), GSP_OK);
    tap_eq_int(walker->chain.depth, 2);
    tap_eq_str(name_at(walker, 0), "b");
    tap_eq_str(name_at(walker, 1), "main");
    tap_check(!walker->chain.frames[0].is_entry);
    finish(walker, &snap);
}

/* The thread's pointer is older than the frames: the innermost frame is the one that executes. */
TAP_TEST(the_executing_frame_is_innermost)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    tap_eq_int(walk(walker, &snap, 1), GSP_OK);
    put_frame(2, B, false); /* b has returned, the pointer still refers to it */
    put_frame(1, A, true);
    tap_eq_int(walk(walker, &snap, 2), GSP_OK);
    tap_eq_int(walker->chain.depth, 2);
    tap_eq_str(name_at(walker, 0), "a");
    finish(walker, &snap);
}

TAP_TEST(another_code_object_at_the_same_address)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A}, 2);
    tap_eq_int(walk(walker, &snap, 1), GSP_OK);
    tap_eq_str(name_at(walker, 0), "a");
    /* All pointers stay the same, because allocators reuse addresses. */
    put_code(A, "z", 20);
    tap_eq_int(walk(walker, &snap, 2), GSP_OK);
    tap_eq_str(name_at(walker, 0), "z");
    finish(walker, &snap);
}

TAP_TEST(a_chain_with_a_loop)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    put64(FRAMES + lay->iframe_previous, FRAMES + 0x100);
    tap_eq_int(walk(walker, &snap, 1), GSP_E_TORN);
    /* In a stopped target the loop is real. */
    walker->stopped = true;
    tap_eq_int(walk(walker, &snap, 2), GSP_OK);
    tap_check(walker->chain.cut);
    tap_eq_int(walker->chain.depth, GSP_PY_DEPTH_MAX);
    finish(walker, &snap);
}

TAP_TEST(invalid_pointers)
{
    static const uint64_t BAD[] = {0x10, BASE - 8, BASE + BYTES - 4, UINT64_MAX - 7, 3};
    for (size_t i = 0; i < GSP_COUNT(BAD); i++) {
        struct gsp_snap snap;
        struct gsp_py_walker *walker = start(&snap);
        put_stack((const int[]){MAIN, A, B}, 3);
        put64(FRAMES + 0x100 + lay->iframe_previous, BAD[i]);
        tap_check(walk(walker, &snap, 1) != GSP_OK);
        put_stack((const int[]){MAIN, A, B}, 3);
        put64(FRAMES + 0x100 + lay->iframe_executable, BAD[i]);
        tap_check(walk(walker, &snap, 2) != GSP_OK);
        finish(walker, &snap);
    }
}

TAP_TEST(an_instruction_of_another_function)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A}, 2);
    put64(FRAMES + 0x100 + lay->iframe_instr_ptr, code_addr(B) + lay->code_code_adaptive);
    tap_eq_int(walk(walker, &snap, 1), GSP_E_TORN);
    finish(walker, &snap);
}

static int write_seed(const char *path)
{
    struct gsp_snap snap;
    struct gsp_py_walker *walker = start(&snap);
    put_stack((const int[]){MAIN, A, B}, 3);
    put_site(MAIN, A);
    put_site(A, B);
    FILE *file = fopen(path, "wb");
    tap_require(file != NULL);
    tap_check(fwrite("\3\0\0\0\0\0\0\0", 1, 8, file) == 8);
    tap_check(fwrite(world.now, 1, BYTES, file) == BYTES);
    tap_check(fclose(file) == 0);
    finish(walker, &snap);
    return tap_failures ? TAP_EXIT_FAILED : 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write-seed") == 0)
        return write_seed(argv[2]);
    return tap_main(argc, argv);
}
