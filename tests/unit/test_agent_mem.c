/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the memory engine that need no hooks: weights, tracked blocks, tables, counting. */
#include "agent/mem_count.h"
#include "agent/mem_live.h"
#include "agent/mem_tables.h"
#include "agent/mem_weight.h"
#include "tap.h"

#define MEAN ((size_t)65536)

/* An address that is never dereferenced. */
static const void *address(uint64_t i)
{
    return (const void *)(uintptr_t)(0x7f0000000000 + i * 16); // NOLINT(performance-no-int-to-ptr)
}

static uint64_t state = UINT64_C(0x123456789abcdef);

static struct gsp_memory_head *counters_of(enum gsp_memory_mode mode,
                                           const struct gsp_agent_python *python)
{
    const struct gsp_memory_capacity *room = &gsp_agent__mem_capacity[mode];
    struct gsp_memory_head *head = mmap(NULL, gsp_wire_memory_bytes(room), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tap_require(head != MAP_FAILED);
    gsp_wire_memory_init(head, room);
    head->mode = mode;
    const struct gsp_agent_memory_opts opts = {
        .mode = mode, .interval_bytes = MEAN, .python = python};
    tap_require(gsp_agent__mem_count_init(head, &opts));
    gsp_agent__mem_count_on(mode);
    return head;
}

static struct gsp_memory_head *new_counters(enum gsp_memory_mode mode)
{
    return counters_of(mode, NULL);
}

TAP_TEST(distances_have_the_right_mean)
{
    double sum = 0;
    const int count = 200000;
    for (int i = 0; i < count; i++) {
        const int64_t d = gsp_agent__distance(gsp_agent__random_next(&state), MEAN);
        tap_require(d >= 0);
        sum += (double)d;
    }
    /* The standard error is MEAN / sqrt(200000), or 0.22 %, so 1 % is 4.5 standard errors. The seed
     * is fixed, so the test is deterministic. */
    tap_check(sum / count > (double)MEAN * 0.99 && sum / count < (double)MEAN * 1.01);
}

TAP_TEST(sampled_bytes_are_unbiased)
{
    static const size_t sizes[] = {16, 100, 5000, MEAN, 3 * MEAN, 100 * MEAN};
    for (size_t k = 0; k < GSP_COUNT(sizes); k++) {
        const uint64_t total = sizes[k] < MEAN ? UINT64_C(200000000) : 3000 * (uint64_t)sizes[k];
        const uint64_t count = total / sizes[k];
        double bytes = 0;
        double blocks = 0;
        double var = 0;
        int64_t left = gsp_agent__distance(gsp_agent__random_next(&state), MEAN);
        for (uint64_t i = 0; i < count; i++) {
            left -= (int64_t)sizes[k];
            if (left < 0) {
                const struct gsp_agent__weight w = gsp_agent__weigh(address(i), sizes[k], MEAN);
                bytes += (double)w.bytes;
                blocks += (double)w.count;
                var += (double)w.var * 1048576;
                left = gsp_agent__distance(gsp_agent__random_next(&state), MEAN);
            }
        }
        const double truth = (double)count * (double)sizes[k];
        const double off = bytes - truth;
        /* Five standard errors (one false alarm in 1.7 million), plus the rounding error. */
        tap_check(off * off <= 25 * var + truth * truth * 1e-10);
        const double share = blocks / (double)count;
        tap_check(share > 0.9 && share < 1.1);
    }
}

TAP_TEST(exact_weights_are_sizes)
{
    const struct gsp_agent__weight w = gsp_agent__weigh(address(1), 12345, 0);
    tap_eq_int(w.bytes, 12345);
    tap_eq_int(w.count, 1);
    tap_eq_int(w.var, 0);
}

TAP_TEST(blocks_are_added_and_removed)
{
    enum { COUNT = 50000 };
    static bool is_live[COUNT];
    size_t live = 0;
    tap_require(gsp_agent__live_init());
    for (int i = 0; i < 400000; i++) {
        const uint64_t k = gsp_agent__random_next(&state) % COUNT;
        const struct gsp_agent__block block = {address(k), (size_t)k * 7, (uint32_t)k % 30000};
        struct gsp_agent__block found = {0};
        if (is_live[k]) {
            tap_require(gsp_agent__may_be_live(block.address));
            tap_require(gsp_agent__live_remove(block.address, &found));
            tap_require(found.size == block.size && found.site == block.site);
            live--;
        } else {
            tap_require(!gsp_agent__live_remove(block.address, &found));
            tap_require(gsp_agent__live_put(&block));
            live++;
        }
        is_live[k] = !is_live[k];
    }
    for (uint64_t k = 0; k < COUNT; k++) {
        struct gsp_agent__block found;
        tap_require(gsp_agent__live_remove(address(k), &found) == is_live[k]);
        live -= is_live[k] ? 1 : 0;
    }
    tap_eq_int(live, 0);
}

TAP_TEST(blocks_of_many_gigabytes)
{
    struct gsp_agent__block found;
    const struct gsp_agent__block block = {address(5), (size_t)1 << 40, 77};
    tap_require(gsp_agent__live_init());
    tap_check(gsp_agent__live_put(&block));
    tap_require(gsp_agent__live_remove(address(5), &found));
    tap_check(found.size == (size_t)1 << 40 && found.site == 77);
    tap_check(!gsp_agent__live_remove(NULL, &found));
}

TAP_TEST(a_full_table_of_blocks_is_reported)
{
    uint64_t i = 0;
    struct gsp_agent__block block = {address(0), 1, 1};
    tap_require(gsp_agent__live_init());
    while (i < 3000000 && gsp_agent__live_put(&block))
        block.address = address(++i);
    /* 20 MB with 12 bytes per block. */
    tap_check(i > 1300000 && i < 1700000);
    tap_check(gsp_agent__live_remove(address(7), &block) && gsp_agent__live_put(&block));
}

TAP_TEST(peaks_are_exact)
{
    enum { SITES = 5, STEPS = 20000, BLOCKS = 300 };
    struct gsp_memory_head *head = new_counters(GSP_MEMORY_EXACT);
    uint64_t held[SITES] = {0};
    uint64_t at_peak[SITES] = {0};
    uint64_t live = 0;
    uint64_t peak = 0;
    struct {
        size_t size;
        uint32_t site;
    } blocks[BLOCKS] = {{0, 0}};
    for (int step = 0; step < STEPS; step++) {
        const uint64_t r = gsp_agent__random_next(&state);
        const size_t k = r % BLOCKS;
        if (blocks[k].size != 0) {
            gsp_agent__mem_count_free(address(k));
            held[blocks[k].site] -= blocks[k].size;
            live -= blocks[k].size;
            blocks[k].size = 0;
            continue;
        }
        blocks[k].size = 1 + (r >> 32) % 10000;
        blocks[k].site = (uint32_t)(r >> 20) % SITES;
        /* Without Python and a caller, each allocator has one site. */
        gsp_agent__mem_count_alloc(address(k), blocks[k].size,
                                   (enum gsp_memory_allocator)blocks[k].site, NULL);
        held[blocks[k].site] += blocks[k].size;
        live += blocks[k].size;
        if (live > peak) {
            peak = live;
            memcpy(at_peak, held, sizeof(held));
        }
    }
    tap_eq_int(head->live_bytes, live);
    tap_eq_int(head->peak_bytes, peak);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < head->site_count; i++) {
        const struct gsp_memory_site *site = gsp_agent__site_at(i);
        const uint64_t now = site->alloc_bytes - site->free_bytes;
        const uint64_t then = site->peak_epoch == head->peak_epoch ? site->peak_bytes : now;
        sum += then;
        if (site->node != 0) {
            tap_eq_int(now, held[site->allocator]);
            tap_eq_int(then, at_peak[site->allocator]);
        }
    }
    tap_eq_int(sum, peak);
}

TAP_TEST(an_address_allocated_twice_was_freed)
{
    const struct gsp_memory_head *head = new_counters(GSP_MEMORY_EXACT);
    gsp_agent__mem_count_alloc(address(1), 100, GSP_MEMORY_MALLOC, NULL);
    gsp_agent__mem_count_alloc(address(1), 30, GSP_MEMORY_MALLOC, NULL);
    tap_eq_int(head->live_bytes, 30);
    tap_eq_int(head->lost[GSP_MEMORY_LOST_FREE], 1);
    gsp_agent__mem_count_free(address(1));
    gsp_agent__mem_count_free(address(1));
    tap_eq_int(head->live_bytes, 0);
}

/* A signal handler forks during a change, which its thread then continues in the child. */
TAP_TEST(a_change_continues_in_a_child)
{
    struct gsp_agent__block found = {0};
    const struct gsp_agent__block first = {address(1), 100, 7};
    new_counters(GSP_MEMORY_EXACT);
    tap_require(gsp_agent__live_put(&first));
    gsp_agent__mem_this_thread.busy = GSP_AGENT__INSIDE;
    gsp_agent__mem_lock();
    gsp_agent__mem_count_reset();
    tap_require(gsp_agent__live_remove(address(1), &found));
    tap_check(found.size == 100 && found.site == 7);
    for (uint64_t i = 0; i < 10000; i++) {
        const struct gsp_agent__block more = {address(i), 1, 1};
        tap_require(gsp_agent__live_put(&more));
    }
    gsp_agent__mem_unlock();
    gsp_agent__mem_this_thread.busy = 0;
    /* A restart uses an empty table. */
    tap_require(gsp_agent__live_init());
    tap_check(!gsp_agent__live_remove(address(1), &found));
    tap_check(gsp_agent__live_put(&first));
}

/* A thread with one frame, as in a free-threaded interpreter of 3.14. */
static struct {
    uintptr_t frame;
} thread_state;
static struct {
    uintptr_t back, code, instr;
    int32_t copy;
} frame_state;
static struct {
    uintptr_t type, name, file, table;
    int32_t first_line;
    const uintptr_t *copies; /* count, then the address of each copy */
    char start[8];
} code_state;
static struct {
    uintptr_t size;
    uint8_t data[8];
} lines_state;
static bool is_attached;

static void *fake_thread(void)
{
    return &thread_state;
}

static void *fake_attached(void)
{
    return is_attached ? &thread_state : NULL;
}

static int never(void)
{
    return 0;
}

static int fake_line(const uint8_t *table, size_t len, uint32_t first_line, uint32_t at_bytes)
{
    (void)table;
    (void)len;
    return (int)(first_line + at_bytes);
}

static struct gsp_memory_head *python_counters(void)
{
    static const char code_type = 0;
    const struct gsp_agent_python python = {
        .this_thread = fake_thread,
        .attached = fake_attached,
        .is_finalizing = never,
        .line_of = fake_line,
        .code_type = &code_type,
        .at = {.frames = GSP_AGENT_FRAMES_CURRENT,
               .minor = 14,
               .frame_code = sizeof(uintptr_t),
               .frame_instr = 2 * sizeof(uintptr_t),
               .frame_owner = GSP_AGENT_NO_OFFSET,
               .frame_tlbc = 3 * sizeof(uintptr_t),
               .code_name = sizeof(uintptr_t),
               .code_file = 2 * sizeof(uintptr_t),
               .code_table = 3 * sizeof(uintptr_t),
               .code_first_line = 4 * sizeof(uintptr_t),
               .code_tlbc = 5 * sizeof(uintptr_t),
               .code_start = 6 * sizeof(uintptr_t),
               .bytes_data = sizeof(uintptr_t)},
    };
    code_state.type = (uintptr_t)&code_type;
    code_state.table = (uintptr_t)&lines_state;
    code_state.first_line = 100;
    frame_state.code = (uintptr_t)&code_state;
    thread_state.frame = (uintptr_t)&frame_state;
    return counters_of(GSP_MEMORY_EXACT, &python);
}

/* Returns the line of the innermost frame of the site with this number of bytes. */
static uint32_t line_of_bytes(const struct gsp_memory_head *head, uint64_t bytes)
{
    const struct gsp_memory_node *nodes = (const void *)((const char *)head + head->nodes_off);
    const struct gsp_memory_frame *frames = (const void *)((const char *)head + head->frames_off);
    for (uint32_t i = 0; i < head->site_count; i++) {
        const struct gsp_memory_site *site = gsp_agent__site_at(i);
        if (site->alloc_bytes == bytes)
            return frames[nodes[site->node].frame].line;
    }
    return 0;
}

TAP_TEST(a_detached_thread_does_not_read_memory_that_may_be_freed)
{
    static const char copy[16];
    const uintptr_t copies[] = {1, (uintptr_t)copy};
    const struct gsp_memory_head *head = python_counters();
    frame_state.instr = (uintptr_t)copy + 6;
    /* The array was replaced, and its memory freed. */
    code_state.copies = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tap_require(code_state.copies != MAP_FAILED);
    gsp_agent__mem_count_alloc(address(1), 1000, GSP_MEMORY_MALLOC, NULL);
    tap_eq_int(line_of_bytes(head, 1000), 100);
    /* Once the thread is attached, the line is decoded; later it is found by its key. */
    code_state.copies = copies;
    is_attached = true;
    gsp_agent__mem_count_alloc(address(2), 200, GSP_MEMORY_MALLOC, NULL);
    tap_eq_int(line_of_bytes(head, 200), 106);
    is_attached = false;
    code_state.copies = NULL;
    gsp_agent__mem_count_alloc(address(3), 30, GSP_MEMORY_MALLOC, NULL);
    tap_eq_int(line_of_bytes(head, 230), 106);
}

TAP_TEST(full_tables_keep_the_innermost_frame)
{
    struct gsp_memory_head *head = new_counters(GSP_MEMORY_SAMPLED);
    bool is_full = false;
    uint32_t node = GSP_AGENT__SHORT;
    uint32_t frames[64];
    for (uint32_t i = 0; i < GSP_COUNT(frames); i++) {
        const struct gsp_agent__frame_key key = {.code = 0x1000 + i};
        const struct gsp_memory_frame frame = {.kind = GSP_MEMORY_PYTHON, .line = i};
        frames[i] = gsp_agent__frame_put(&key, &frame);
        tap_require(frames[i] != 0 && gsp_agent__frame_find(&key) == frames[i]);
    }
    uint32_t parent = 0;
    for (uint32_t i = 0; !is_full && i < 100000; i++) {
        const uint32_t child = gsp_agent__node_put(parent, frames[i % GSP_COUNT(frames)]);
        tap_require(child != 0);
        tap_require(gsp_agent__node_put(parent, frames[i % GSP_COUNT(frames)]) == child);
        parent = child;
        node = child;
        gsp_ignore(gsp_agent__site_put(node, 0, &is_full) != 0);
    }
    tap_check(is_full);
    const uint32_t brief = gsp_agent__node_short(node);
    const uint32_t site = gsp_agent__site_put(brief, 0, &is_full);
    tap_check(!is_full && site >= GSP_MEMORY_ALLOCATORS);
    tap_check(gsp_wire_memory_head_is_valid(
        head, gsp_wire_memory_bytes(&gsp_agent__mem_capacity[GSP_MEMORY_SAMPLED])));
}

TAP_TEST(strings_are_stored_once)
{
    struct gsp_memory_head *head = new_counters(GSP_MEMORY_SAMPLED);
    const char *strings = (const char *)head + head->strings_off;
    const uint32_t a = gsp_agent__text_put(gsp_sv_of("train.py"));
    const uint32_t b = gsp_agent__text_put(gsp_sv_of("model.py"));
    tap_check(a != 0 && b != 0 && a != b);
    tap_eq_int(gsp_agent__text_put(gsp_sv_of("train.py")), a);
    tap_check(
        gsp_sv_eq(gsp_wire_memory_text(strings, head->strings_used, b), gsp_sv_of("model.py")));
    tap_eq_int(gsp_agent__text_put(gsp_sv_of("")), 0);
    char text[32];
    uint32_t last = 1;
    for (int i = 0; i < 200000 && last != 0; i++) {
        snprintf(text, sizeof(text), "module_%d.py", i);
        last = gsp_agent__text_put(gsp_sv_of(text));
    }
    tap_eq_int(last, 0);
    tap_check(head->strings_used <= head->strings_bytes);
    tap_eq_int(gsp_agent__text_put(gsp_sv_of("train.py")), a);
}

TAP_MAIN()
