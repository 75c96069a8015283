/* SPDX-License-Identifier: Apache-2.0 */
#include "py/greenlet.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/time.h"
#include "py/object.h"
#include "py/object_internal.h"

/* References of 3.14 and later have tags in their low bits, and so do links of the collector. */
#define REF_MASK        (~7ULL)
#define LINK_MASK       (~3ULL)
#define BASES_MAX       16U
#define OBJECTS_MAX     (8U << 20)
/* Nodes of all lists that are read, repetitions included. */
#define NODES_MAX       (2UL * OBJECTS_MAX)
/* Nodes after which a list is first checked for a cycle without its head. */
#define CYCLE_CHECK     64U
#define GREENLETS_MAX   65536U
#define NAME_BYTES_MAX  256U
/* struct _gc_runtime_state: each generation is a head (two words) and two ints; the last one has
 * the objects of gc.freeze(). */
#define GENERATIONS     4U
#define GENERATION_SIZE 24U
#define GC_HEAD_SIZE    16U
/* In 3.8 the collector's state is in the runtime, after main_thread and 32 exit functions. */
#define AT_GC_3_8       272U
/* Words of the C++ object of a greenlet that are searched for its members. */
#define IMPL_WORDS      40U
#define PAGE_BYTES      4096U
/* The frame is preceded by the context, and that by five words that describe the C stack. */
#define FRAME_AT_MIN    10U
#define FRAME_AT_MAX    17U
#define MAIN_STOP       UINT64_MAX /* the end of the stack of a main greenlet */
/* Frames and shims of one stack. */
#define HEADS_MAX       (2UL * GSP_PY_AWAITS_MAX)
#define POSITION_WORDS  7U
/* Attempts to read a list or a greenlet that changes. */
#define TRIES_MAX       32U
/* Maximum distance from a stack to its thread's struct pthread, which is above it. */
#define STACK_MAX       (1ULL << 30)
/* Frames from this owner on belong to the interpreter, not to a function (3.12+). */
#define OWNER_SHIM      3U
#define HEADER_MAX      256U

struct search {
    struct gsp_py_target *target;
    struct gsp_py_codes *codes;
    struct gsp_mem *mem;
    const struct gsp_py_layout *lay;
    gsp_py_greenlet_fn *fn;
    gsp_py_enough_fn *is_enough; /* or NULL */
    void *arg;
    size_t nodes;           /* of the collector's lists, read so far */
    gsp_raddr type;         /* greenlet.greenlet */
    struct gsp_hmap types;  /* type → 1 if it is greenlet.greenlet or a subclass */
    struct gsp_hmap seen;   /* greenlets */
    struct gsp_buf objects; /* the same in the order of discovery: gsp_raddr each */
    size_t frame_at;        /* word index in the C++ object; 0 if unknown */
    size_t parent_at;       /* the same */
    struct gsp_buf label;   /* of the current greenlet */
    struct gsp_buf parent;  /* label of its parent */
    struct gsp_py_awaits chain;
    size_t head_count;
    gsp_raddr head_addrs[HEADS_MAX];
    unsigned char heads[HEADS_MAX][HEADER_MAX];
    struct gsp_mem_span spans[HEADS_MAX + 3];
    int rc;
};

/* A started greenlet: its frame, and the part of its C stack that was saved to the heap. */
struct position {
    gsp_raddr impl;
    gsp_raddr frame; /* a PyFrameObject; 0 while it runs */
    gsp_raddr stack; /* 0: not started, or done */
    gsp_raddr stop;
    gsp_raddr copy;
    uint64_t saved;
    gsp_raddr parent; /* 0 if unknown */
};

/* Returns whether the type is greenlet.greenlet or a subclass. */
static bool is_kind(struct search *search, gsp_raddr type)
{
    const uint32_t *known = gsp_hmap_get(&search->types, type, 0);
    if (known)
        return *known == 1;
    gsp_raddr base = type;
    for (size_t i = 0; base && base != search->type && i < BASES_MAX; i++)
        if (gsp_proc_mem_read_u64(search->mem, base + search->lay->type_base, &base) != GSP_OK)
            base = 0;
    if (!gsp_hmap_put(&search->types, type, 0, base == search->type))
        search->rc = GSP_E_NOMEM;
    return base == search->type;
}

static bool is_greenlet(struct search *search, gsp_raddr object)
{
    gsp_raddr type = 0;
    return object && (object & 7) == 0 &&
           gsp_proc_mem_read_u64(search->mem, object + search->lay->object_type, &type) == GSP_OK &&
           is_kind(search, type);
}

static bool is_frame(const struct search *search, gsp_raddr object)
{
    gsp_auto_buf name = {0};
    gsp_raddr type = 0;
    return object && (object & 7) == 0 &&
           gsp_proc_mem_read_u64(search->mem, object + search->lay->object_type, &type) == GSP_OK &&
           gsp_py__type_name(search->mem, search->lay, type, &name) == GSP_OK &&
           gsp_sv_eq(gsp_buf_sv(&name), gsp_sv_of("frame"));
}

/* Reads the C++ object of a greenlet. Returns its address, or 0. Words past its end are arbitrary.
 */
static gsp_raddr read_impl(const struct search *search, gsp_raddr greenlet, uint64_t *words)
{
    gsp_raddr impl = 0;
    /* After the header: weak references, the dict, the C++ object. */
    if (gsp_proc_mem_read_u64(search->mem, greenlet + search->lay->object_size + 16U, &impl) !=
        GSP_OK)
        return 0;
    memset(words, 0, IMPL_WORDS * sizeof(*words));
    if (gsp_proc_mem_read(search->mem, impl, words, IMPL_WORDS * sizeof(*words)) == GSP_OK)
        return impl;
    /* The object may be at the end of its page. */
    size_t len = PAGE_BYTES - (size_t)(impl % PAGE_BYTES);
    bool is_last = len < IMPL_WORDS * sizeof(*words) &&
                   gsp_proc_mem_read(search->mem, impl, words, len) == GSP_OK;
    return is_last ? impl : 0;
}

/* Returns whether the words before the frame describe a C stack. */
static bool is_stack(const uint64_t *words, size_t frame_at)
{
    uint64_t start = words[frame_at - 6];
    uint64_t stop = words[frame_at - 5];
    return start > PAGE_BYTES && stop > start && words[frame_at - 3] <= stop - start;
}

static bool is_main(const struct search *search, gsp_raddr greenlet)
{
    uint64_t words[IMPL_WORDS];
    return read_impl(search, greenlet, words) && words[search->frame_at - 5] == MAIN_STOP;
}

/* The offsets of the members are not published and differ between versions of Python and greenlet.
 * But a suspended greenlet has a frame after the words that describe its stack, and a greenlet
 * other than its thread's main one has, adjacent: the main one, the callable, its parent. */
static void calibrate(struct search *search, gsp_raddr greenlet)
{
    uint64_t words[IMPL_WORDS];
    if (!read_impl(search, greenlet, words))
        return;
    for (size_t i = FRAME_AT_MIN; !search->frame_at && i <= FRAME_AT_MAX; i++)
        search->frame_at = is_stack(words, i) && is_frame(search, words[i]) ? i : 0;
    if (!search->frame_at || words[search->frame_at - 5] == MAIN_STOP)
        return;
    for (size_t i = search->frame_at + 1; !search->parent_at && i + 2 < IMPL_WORDS; i++)
        if (words[i] != greenlet && is_greenlet(search, words[i]) &&
            is_greenlet(search, words[i + 2]) && is_main(search, words[i]))
            search->parent_at = i + 2;
}

static bool read_position(struct search *search, gsp_raddr greenlet, struct position *out)
{
    uint64_t words[IMPL_WORDS];
    size_t at = search->frame_at;
    gsp_raddr impl = read_impl(search, greenlet, words);
    if (!impl)
        return false;
    *out = (struct position){.impl = impl,
                             .frame = words[at],
                             .stack = words[at - 6],
                             .stop = words[at - 5],
                             .copy = words[at - 4],
                             .saved = words[at - 3]};
    if (out->stop != MAIN_STOP && search->parent_at &&
        is_greenlet(search, words[search->parent_at]))
        out->parent = words[search->parent_at];
    return out->stack != 0 && (!out->frame || is_frame(search, out->frame));
}

/* The thread that owns the greenlet's stack: the stack is below the thread's struct pthread, or,
 * for the first thread, above all of them. */
static uint64_t thread_of(struct search *search, const struct position *pos)
{
    gsp_raddr addr = pos->stop == MAIN_STOP ? pos->stack : pos->stop;
    uint64_t best = 0;
    uint64_t main_id = 0;
    bool above_all = true;
    for (size_t i = 0; i < gsp_py_target_thread_count(search->target); i++) {
        const struct gsp_py_thread *thread = gsp_py_target_thread(search->target, i);
        if (thread->is_main)
            main_id = thread->python_id;
        if (thread->python_id <= addr)
            continue;
        above_all = false;
        if (thread->python_id - addr < STACK_MAX && (!best || thread->python_id < best))
            best = thread->python_id;
    }
    return above_all ? main_id : best;
}

/* "worker (Greenlet at 0x7f…)", or "Greenlet at 0x7f…" if it has no name. */
static bool put_label(const struct search *search, gsp_raddr greenlet, bool is_main,
                      struct gsp_buf *out)
{
    gsp_auto_buf type_name = {0};
    gsp_raddr type = 0;
    gsp_raddr name = 0;
    gsp_buf_clear(out);
    if (gsp_proc_mem_read_u64(search->mem, greenlet + search->lay->object_type, &type) != GSP_OK ||
        gsp_py__type_name(search->mem, search->lay, type, &type_name) != GSP_OK)
        return false;
    if (gsp_py__attr_find(search->mem, search->lay, greenlet, "name", &name) != GSP_OK || !name ||
        gsp_py__str_read(search->mem, search->lay, name, NAME_BYTES_MAX, out) != GSP_OK)
        gsp_buf_clear(out);
    bool is_named = out->len > 0;
    gsp_buf_puts(out, is_named ? " (" : "");
    gsp_buf_puts(out, is_main ? "main " : "");
    gsp_buf_putsv(out, gsp_buf_sv(&type_name));
    gsp_buf_printf(out, " at 0x%llx%s", (unsigned long long)greenlet, is_named ? ")" : "");
    return true;
}

/* Translates a stack address of the running greenlet to the current address of these bytes. */
static gsp_raddr now_at(const struct position *pos, gsp_raddr addr)
{
    bool is_saved = pos->copy && addr >= pos->stack && addr - pos->stack < pos->saved;
    return is_saved ? pos->copy + (addr - pos->stack) : addr;
}

static uint64_t word_at(const unsigned char *bytes, gsp_py_off off)
{
    uint64_t v;
    memcpy(&v, bytes + off, sizeof(v));
    return v;
}

static int add_frame(struct search *search, const struct gsp_py_await *frame, uint64_t instr)
{
    struct gsp_py_await *out = &search->chain.frames[search->chain.depth];
    uint32_t code;
    int rc = gsp_py_codes_get(search->codes, frame->code, gsp_now_ns(), &code);
    if (frame->code == search->codes->init_cleanup)
        return GSP_OK;
    if (rc != GSP_OK)
        return rc;
    *out = *frame;
    out->loc = GSP_PY_NO_LOC;
    gsp_ignore(gsp_py__codes_loc(search->codes, code, instr, 0, &out->loc));
    search->chain.depth++;
    return GSP_OK;
}

/* Bytes of a frame that are read. */
static size_t head_len(const struct search *search)
{
    bool old = search->lay->frames == GSP_PY_FRAMES_OBJECTS;
    return old ? search->lay->frame_f_lasti + 4U : search->lay->iframe_localsplus;
}

static gsp_raddr caller_of(const struct search *search, const struct position *pos, size_t i)
{
    bool old = search->lay->frames == GSP_PY_FRAMES_OBJECTS;
    gsp_py_off at = old ? search->lay->frame_f_back : search->lay->iframe_previous;
    gsp_raddr caller = word_at(search->heads[i], at);
    return old || !caller ? caller : now_at(pos, caller);
}

/* Collects the addresses of the frames one by one. The result may be torn. */
static int find_heads(struct search *search, const struct position *pos)
{
    size_t len = head_len(search);
    gsp_raddr addr = pos->frame;
    int rc = GSP_OK;
    search->head_count = 0;
    if (search->lay->frames != GSP_PY_FRAMES_OBJECTS) { /* f_frame, after f_back */
        rc = gsp_proc_mem_read_u64(search->mem, addr + search->lay->object_size + 8U, &addr);
        addr = now_at(pos, addr);
    }
    while (rc == GSP_OK && addr && (addr & 7) == 0 && search->head_count < HEADS_MAX) {
        size_t i = search->head_count++;
        search->head_addrs[i] = addr;
        rc = gsp_proc_mem_read(search->mem, addr, search->heads[i], len);
        addr = rc == GSP_OK ? caller_of(search, pos, i) : 0;
    }
    return rc;
}

/* Reads the frames again in one system call, between two reads of the greenlet's position. A
 * greenlet can resume and be suspended again while find_heads() follows its frames. */
static int read_heads(struct search *search, const struct position *pos)
{
    uint64_t before[POSITION_WORDS];
    uint64_t after[POSITION_WORDS];
    gsp_raddr first = search->head_count ? search->head_addrs[0] : 0;
    gsp_raddr own = pos->impl + (search->frame_at - 6) * sizeof(uint64_t);
    size_t n = 0;
    bool old = search->lay->frames == GSP_PY_FRAMES_OBJECTS;
    search->spans[n++] = (struct gsp_mem_span){own, sizeof(before), before};
    if (!old)
        search->spans[n++] =
            (struct gsp_mem_span){pos->frame + search->lay->object_size + 8U, 8, &first};
    for (size_t i = 0; i < search->head_count; i++)
        search->spans[n++] =
            (struct gsp_mem_span){search->head_addrs[i], head_len(search), search->heads[i]};
    search->spans[n++] = (struct gsp_mem_span){own, sizeof(after), after};
    int rc = gsp_proc_mem_gather(search->mem, search->spans, n, NULL);
    if (rc != GSP_OK)
        return rc;
    if (memcmp(before, after, sizeof(before)) != 0 || before[0] != pos->stack ||
        before[2] != pos->copy || before[3] != pos->saved || before[6] != pos->frame)
        return GSP_E_TORN;
    gsp_raddr expected = old || !first ? first : now_at(pos, first);
    for (size_t i = 0; i < search->head_count; i++) {
        if (search->head_addrs[i] != expected)
            return GSP_E_TORN;
        expected = caller_of(search, pos, i);
    }
    return expected && search->head_count < HEADS_MAX ? GSP_E_TORN : GSP_OK;
}

/* Adds the frame of one of the heads, unless it is internal to the interpreter. */
static int add_head(struct search *search, size_t i)
{
    const struct gsp_py_layout *lay = search->lay;
    const unsigned char *head = search->heads[i];
    struct gsp_py_await frame = {.frame = search->head_addrs[i]};
    if (lay->frames == GSP_PY_FRAMES_OBJECTS) {
        int32_t lasti;
        memcpy(&lasti, head + lay->frame_f_lasti, sizeof(lasti));
        frame.code = word_at(head, lay->frame_f_code);
        return add_frame(search, &frame, (uint32_t)lasti);
    }
    if (head[lay->iframe_owner] >= OWNER_SHIM)
        return GSP_OK;
    frame.code = word_at(head, lay->iframe_executable) & REF_MASK;
    return add_frame(search, &frame, word_at(head, lay->iframe_instr_ptr));
}

/* Fills the chain, outermost first. Fails with TORN if the greenlet resumed in the meantime. */
static int walk(struct search *search, const struct position *pos)
{
    search->chain.depth = 0;
    search->chain.state = GSP_PY_CORO_SUSPENDED;
    int rc = find_heads(search, pos);
    rc = rc == GSP_OK ? read_heads(search, pos) : rc;
    /* If there are too many frames, keep the innermost ones. */
    size_t count = search->head_count;
    for (size_t i = 0; rc == GSP_OK && i < count && search->chain.depth < GSP_PY_AWAITS_MAX; i++)
        rc = add_head(search, i);
    struct gsp_py_await *frames = search->chain.frames;
    for (size_t i = 0; i < search->chain.depth / 2; i++) {
        struct gsp_py_await last = frames[search->chain.depth - 1 - i];
        frames[search->chain.depth - 1 - i] = frames[i];
        frames[i] = last;
    }
    return rc;
}

static int read_frames(struct search *search, gsp_raddr greenlet, struct position *pos)
{
    int rc = GSP_E_TORN;
    for (unsigned try = 0; rc != GSP_OK && try < TRIES_MAX; try++) {
        if (!read_position(search, greenlet, pos))
            return GSP_E_FORMAT;
        search->chain.depth = 0;
        rc = pos->frame ? walk(search, pos) : GSP_OK;
        if (gsp_py__is_fatal(rc))
            return rc;
    }
    return rc;
}

static void report_greenlet(struct search *search, gsp_raddr object)
{
    struct position pos = {0};
    int rc = read_frames(search, object, &pos);
    if (gsp_py__is_fatal(rc))
        search->rc = rc;
    bool is_main = pos.stop == MAIN_STOP;
    /* A running main greenlet is just its thread. */
    if (rc != GSP_OK || (pos.frame ? search->chain.depth == 0 : is_main) ||
        !put_label(search, object, is_main, &search->label))
        return;
    struct gsp_py_greenlet greenlet = {.addr = object,
                                       .label = gsp_buf_sv(&search->label),
                                       .parent = {"", 0},
                                       .python_id = thread_of(search, &pos),
                                       .is_running = pos.frame == 0,
                                       .chain = &search->chain};
    struct position parent;
    if (pos.parent && read_position(search, pos.parent, &parent) &&
        put_label(search, pos.parent, parent.stop == MAIN_STOP, &search->parent))
        greenlet.parent = gsp_buf_sv(&search->parent);
    search->fn(search->arg, &greenlet);
}

static void add_object(struct search *search, gsp_raddr object)
{
    if (gsp_hmap_get(&search->seen, object, 0) || search->seen.count >= GREENLETS_MAX)
        return;
    if (!gsp_hmap_put(&search->seen, object, 0, 1))
        search->rc = GSP_E_NOMEM;
    gsp_buf_put(&search->objects, &object, sizeof(object));
}

static bool has_enough(const struct search *search)
{
    return search->is_enough && search->is_enough(search->arg);
}

/* Walks one circular list of the collector. Each node is followed by an object. */
static int list_each(struct search *search, gsp_raddr head)
{
    gsp_raddr node = 0;
    gsp_raddr mark = 0; /* an earlier node: in a cycle, it comes again */
    size_t next_mark = CYCLE_CHECK;
    unsigned char bytes[HEADER_MAX];
    int rc = gsp_proc_mem_read_u64(search->mem, head, &node);
    for (size_t n = 0; rc == GSP_OK && node && node != head && node != mark && n < OBJECTS_MAX &&
                       search->nodes < NODES_MAX && !has_enough(search);
         n++, search->nodes++) {
        if (n == next_mark) {
            mark = node;
            next_mark *= 2;
        }
        rc = gsp_proc_mem_read(search->mem, node, bytes, GC_HEAD_SIZE + search->lay->object_size);
        if (rc != GSP_OK)
            break;
        if (is_kind(search, word_at(bytes + GC_HEAD_SIZE, search->lay->object_type)))
            add_object(search, node + GC_HEAD_SIZE);
        rc = search->rc;
        node = word_at(bytes, 0) & LINK_MASK;
    }
    /* A node that was removed from the list during the walk does not lead back to the head. */
    return rc == GSP_OK && node != head ? GSP_E_FAULT : rc;
}

/* Returns whether the node after this head points back at it. */
static bool is_list_head(const struct search *search, gsp_raddr head)
{
    uint64_t next = 0;
    uint64_t back = 0;
    return gsp_proc_mem_read_u64(search->mem, head, &next) == GSP_OK && next && (next & 3) == 0 &&
           gsp_proc_mem_read_u64(search->mem, next + 8, &back) == GSP_OK &&
           (back & LINK_MASK) == head;
}

/* Finds the heads of the collector's lists. Returns false if they are not at the expected offsets.
 */
static bool find_lists(const struct search *search, gsp_raddr interp, gsp_raddr *lists)
{
    /* Flags precede them, and up to 3.14 a pointer; the alignment of a head depends on the build.
     */
    static const uint8_t starts[] = {24, 20, 8};
    const struct gsp_py_layout *lay = search->lay;
    unsigned minor = GSP_PY_MINOR(lay->version);
    gsp_raddr state = minor == 8 ? gsp_py_target_runtime(search->target)->addr +
                                       lay->runtime_main_thread + AT_GC_3_8
                                 : interp + lay->interp_gc;
    for (size_t i = 0; i < GSP_COUNT(starts); i++) {
        size_t valid = 0;
        uint64_t at = starts[i];
        for (size_t k = 0; k < GENERATIONS; k++, at += GENERATION_SIZE) {
            /* Up to 3.13 a pointer precedes the last head. */
            if (k == GENERATIONS - 1 && minor <= 13)
                at = ((at + 7) & ~7ULL) + 8;
            lists[k] = state + at;
            valid += is_list_head(search, lists[k]);
        }
        /* A running collection uses the backward links for other purposes. */
        if (valid >= 2)
            return true;
    }
    return false;
}

/* Reports the greenlets found so far and clears the list. */
static void report_all(struct search *search)
{
    size_t count = search->objects.len / sizeof(gsp_raddr);
    gsp_raddr object;
    for (size_t i = 0; i < count && !search->parent_at; i++) {
        memcpy(&object, search->objects.p + i * sizeof(object), sizeof(object));
        calibrate(search, object);
    }
    for (size_t i = 0; i < count && search->frame_at && !search->rc && !has_enough(search); i++) {
        memcpy(&object, search->objects.p + i * sizeof(object), sizeof(object));
        report_greenlet(search, object);
    }
    gsp_buf_clear(&search->objects);
}

static int search_interp(struct search *search, gsp_raddr interp)
{
    gsp_raddr modules = 0;
    gsp_raddr module = 0;
    int rc = gsp_proc_mem_read_u64(search->mem, interp + search->lay->interp_modules, &modules);
    search->type = 0;
    gsp_hmap_clear(&search->types);
    if (rc == GSP_OK && modules)
        rc = gsp_py__dict_find(search->mem, search->lay, modules, "greenlet._greenlet", &module);
    if (rc == GSP_OK && module)
        rc = gsp_py__attr_find(search->mem, search->lay, module, "greenlet", &search->type);
    if (rc != GSP_OK || !search->type)
        return rc;
    gsp_raddr lists[GENERATIONS];
    bool has_lists = find_lists(search, interp, lists);
    for (size_t i = 0; has_lists && i < GENERATIONS && !gsp_py__is_fatal(rc); i++) {
        rc = GSP_E_FAULT;
        for (unsigned try = 0; rc == GSP_E_FAULT && try < TRIES_MAX; try++)
            rc = list_each(search, lists[i]);
    }
    report_all(search);
    return gsp_py__is_fatal(rc) ? rc : search->rc;
}

/* Returns whether this version's collector and frames can be read. */
static bool is_supported(const struct gsp_py_layout *lay)
{
    if (lay->free_threaded || GC_HEAD_SIZE + lay->object_size > HEADER_MAX ||
        lay->object_type + 8U > lay->object_size)
        return false;
    if (GSP_PY_MINOR(lay->version) != 8 && lay->interp_gc == UINT32_MAX)
        return false;
    size_t len = lay->iframe_localsplus;
    if (lay->frames == GSP_PY_FRAMES_OBJECTS)
        return lay->frame_f_lasti + 4U <= HEADER_MAX && lay->frame_f_back < lay->frame_f_lasti &&
               lay->frame_f_code < lay->frame_f_lasti;
    return len <= HEADER_MAX && lay->iframe_owner < len && lay->iframe_previous + 8U <= len &&
           lay->iframe_executable + 8U <= len && lay->iframe_instr_ptr + 8U <= len;
}

int gsp_py_greenlets(struct gsp_py_target *target, gsp_py_greenlet_fn *fn,
                     gsp_py_enough_fn *is_enough, void *arg)
{
    const struct gsp_py_layout *lay = &gsp_py_target_runtime(target)->layout;
    if (!is_supported(lay))
        return GSP_OK;
    struct search *search = calloc(1, sizeof(*search));
    if (!search)
        return GSP_E_NOMEM;
    search->target = target;
    search->codes = gsp_py_target_codes(target);
    search->mem = gsp_py_target_mem(target);
    search->lay = lay;
    search->fn = fn;
    search->is_enough = is_enough;
    search->arg = arg;
    int rc = GSP_OK;
    gsp_raddr interp;
    for (size_t i = 0; !gsp_py__is_fatal(rc) && (interp = gsp_py_target_interp(target, i)); i++)
        rc = search_interp(search, interp);
    gsp_hmap_free(&search->types);
    gsp_hmap_free(&search->seen);
    gsp_buf_free(&search->objects);
    gsp_buf_free(&search->label);
    gsp_buf_free(&search->parent);
    free(search);
    return gsp_py__is_fatal(rc) ? rc : GSP_OK;
}
