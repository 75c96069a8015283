/* SPDX-License-Identifier: Apache-2.0 */
#include "py/greenlet.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/time.h"
#include "py/object.h"

/* References of 3.14 and later carry marks in their low bits, and so do links of the
 * collector. */
#define REF_MASK        (~7ULL)
#define LINK_MASK       (~3ULL)
#define BASES_MAX       16U
#define OBJECTS_MAX     (8U << 20)
#define GREENLETS_MAX   65536U
#define NAME_BYTES_MAX  256U
/* struct _gc_runtime_state: generations of a head (two words) and two ints; the last is that of
 * what gc.freeze() put away. */
#define GENERATIONS     4U
#define GENERATION_SIZE 24U
#define GC_HEAD_SIZE    16U
/* The state of the collector of 3.8 is in the runtime, behind main_thread and the 32 functions
 * that are called at the end. */
#define AT_GC_3_8       272U
/* Words of the C++ object behind a greenlet in which its members are looked for. */
#define IMPL_WORDS      40U
#define PAGE_BYTES      4096U
/* Before the frame: the context, and before that five words of its piece of the C stack. */
#define FRAME_AT_MIN    10U
#define FRAME_AT_MAX    17U
#define MAIN_STOP       UINT64_MAX /* where the stack of a main greenlet ends */
/* Frames and shims of one stack. */
#define HEADS_MAX       (2UL * GSP_PY_AWAITS_MAX)
#define STAND_WORDS     7U
/* Reads of a list that broke off, or of a greenlet that moved on meanwhile. */
#define TRIES_MAX       32U
/* A thread's own structure lies above its stack, no farther than this. */
#define STACK_MAX       (1ULL << 30)
/* Frames from this owner on belong to the interpreter, not to a function (3.12+). */
#define OWNER_SHIM      3U
#define HEADER_MAX      256U

struct finding {
    struct gsp_py_target *target;
    struct gsp_py_codes *codes;
    struct gsp_mem *mem;
    const struct gsp_py_layout *lay;
    gsp_py_greenlet_fn *fn;
    void *arg;
    gsp_raddr type;         /* greenlet.greenlet */
    struct gsp_hmap types;  /* of objects → 1 if it is a kind of greenlet */
    struct gsp_hmap seen;   /* greenlets */
    struct gsp_buf objects; /* the same in the order they were found: gsp_raddr each */
    size_t frame_at;        /* word of the object behind a greenlet; 0 unknown */
    size_t parent_at;       /* the same */
    struct gsp_buf label;   /* of the greenlet that is given */
    struct gsp_buf parent;  /* label of its parent */
    struct gsp_py_awaits chain;
    size_t head_count;
    gsp_raddr places[HEADS_MAX];
    unsigned char heads[HEADS_MAX][HEADER_MAX];
    struct gsp_mem_span spans[HEADS_MAX + 3];
    int rc;
};

/* A greenlet that was begun: where it stands, and which part of its C stack was put away. */
struct stand {
    gsp_raddr impl;
    gsp_raddr frame; /* a PyFrameObject; 0 while it runs */
    gsp_raddr stack; /* 0: not begun, or done */
    gsp_raddr stop;
    gsp_raddr copy;
    uint64_t saved;
    gsp_raddr parent; /* 0: none, or unknown */
};

static bool is_fatal(int rc)
{
    return rc == GSP_E_NOPROC || rc == GSP_E_PERM || rc == GSP_E_NOMEM;
}

/* Is the type greenlet's own, or made from it? */
static bool is_kind(struct finding *find, gsp_raddr type)
{
    const uint32_t *known = gsp_hmap_get(&find->types, type, 0);
    if (known)
        return *known == 1;
    gsp_raddr base = type;
    for (size_t i = 0; base && base != find->type && i < BASES_MAX; i++) {
        if (gsp_mem_read_u64(find->mem, base + find->lay->type_base, &base) != GSP_OK)
            base = 0;
    }
    if (!gsp_hmap_put(&find->types, type, 0, base == find->type))
        find->rc = GSP_E_NOMEM;
    return base == find->type;
}

static bool is_greenlet(struct finding *find, gsp_raddr object)
{
    gsp_raddr type = 0;
    return object && (object & 7) == 0 &&
           gsp_mem_read_u64(find->mem, object + find->lay->object_type, &type) == GSP_OK &&
           is_kind(find, type);
}

static bool is_frame(const struct finding *find, gsp_raddr object)
{
    gsp_auto_buf name = {0};
    gsp_raddr type = 0;
    return object && (object & 7) == 0 &&
           gsp_mem_read_u64(find->mem, object + find->lay->object_type, &type) == GSP_OK &&
           gsp_py_type_name(find->mem, find->lay, type, &name) == GSP_OK &&
           gsp_sv_eq(gsp_buf_sv(&name), gsp_sv_of("frame"));
}

/* The C++ object behind a greenlet, or 0; words behind its end may be anything. */
static gsp_raddr read_impl(const struct finding *find, gsp_raddr greenlet, uint64_t *words)
{
    gsp_raddr impl = 0;
    /* After the header: weak references, the dict, the C++ object. */
    if (gsp_mem_read_u64(find->mem, greenlet + find->lay->object_size + 16U, &impl) != GSP_OK)
        return 0;
    memset(words, 0, IMPL_WORDS * sizeof(*words));
    if (gsp_mem_read(find->mem, impl, words, IMPL_WORDS * sizeof(*words)) == GSP_OK)
        return impl;
    /* It may be the last of its page. */
    size_t len = PAGE_BYTES - (size_t)(impl % PAGE_BYTES);
    bool is_last =
        len < IMPL_WORDS * sizeof(*words) && gsp_mem_read(find->mem, impl, words, len) == GSP_OK;
    return is_last ? impl : 0;
}

/* Do the words before the frame tell of a piece of a stack, or of a main one's whole? */
static bool is_stack(const uint64_t *words, size_t frame_at)
{
    uint64_t start = words[frame_at - 6];
    uint64_t stop = words[frame_at - 5];
    return start > PAGE_BYTES && stop > start && words[frame_at - 3] <= stop - start;
}

static bool is_main(const struct finding *find, gsp_raddr greenlet)
{
    uint64_t words[IMPL_WORDS];
    return read_impl(find, greenlet, words) && words[find->frame_at - 5] == MAIN_STOP;
}

/* Nobody tells where the members are, and it differs between versions of Python and of
 * greenlet; but one that is switched out has a frame behind what tells of its stack, and one
 * that is not its thread's main one has in a row: the main one, what it is to run, its parent. */
static void calibrate(struct finding *find, gsp_raddr greenlet)
{
    uint64_t words[IMPL_WORDS];
    if (!read_impl(find, greenlet, words))
        return;
    for (size_t i = FRAME_AT_MIN; !find->frame_at && i <= FRAME_AT_MAX; i++)
        find->frame_at = is_stack(words, i) && is_frame(find, words[i]) ? i : 0;
    if (!find->frame_at || words[find->frame_at - 5] == MAIN_STOP)
        return;
    for (size_t i = find->frame_at + 1; !find->parent_at && i + 2 < IMPL_WORDS; i++) {
        if (words[i] != greenlet && is_greenlet(find, words[i]) &&
            is_greenlet(find, words[i + 2]) && is_main(find, words[i]))
            find->parent_at = i + 2;
    }
}

static bool read_stand(struct finding *find, gsp_raddr greenlet, struct stand *out)
{
    uint64_t words[IMPL_WORDS];
    size_t at = find->frame_at;
    gsp_raddr impl = read_impl(find, greenlet, words);
    if (!impl)
        return false;
    *out = (struct stand){.impl = impl,
                          .frame = words[at],
                          .stack = words[at - 6],
                          .stop = words[at - 5],
                          .copy = words[at - 4],
                          .saved = words[at - 3]};
    if (out->stop != MAIN_STOP && find->parent_at && is_greenlet(find, words[find->parent_at]))
        out->parent = words[find->parent_at];
    return out->stack != 0 && (!out->frame || is_frame(find, out->frame));
}

/* The thread on whose stack it lies: below the structure that pthread_self() gives, or for the
 * first thread above everything. */
static uint64_t thread_of(struct finding *find, const struct stand *stand)
{
    gsp_raddr addr = stand->stop == MAIN_STOP ? stand->stack : stand->stop;
    uint64_t best = 0;
    uint64_t main_id = 0;
    bool above_all = true;
    for (size_t i = 0; i < gsp_py_target_thread_count(find->target); i++) {
        const struct gsp_py_thread *thread = gsp_py_target_thread(find->target, i);
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

/* "worker (Greenlet at 0x7f…)", or without a name of its own "Greenlet at 0x7f…". */
static bool put_label(const struct finding *find, gsp_raddr greenlet, bool is_main,
                      struct gsp_buf *out)
{
    gsp_auto_buf type_name = {0};
    gsp_raddr type = 0;
    gsp_raddr name = 0;
    gsp_buf_clear(out);
    if (gsp_mem_read_u64(find->mem, greenlet + find->lay->object_type, &type) != GSP_OK ||
        gsp_py_type_name(find->mem, find->lay, type, &type_name) != GSP_OK)
        return false;
    if (gsp_py_attr_find(find->mem, find->lay, greenlet, "name", &name) != GSP_OK || !name ||
        gsp_py_str_read(find->mem, find->lay, name, NAME_BYTES_MAX, out) != GSP_OK)
        gsp_buf_clear(out);
    bool is_named = out->len > 0;
    gsp_buf_puts(out, is_named ? " (" : "");
    gsp_buf_puts(out, is_main ? "main " : "");
    gsp_buf_putsv(out, gsp_buf_sv(&type_name));
    gsp_buf_printf(out, " at 0x%llx%s", (unsigned long long)greenlet, is_named ? ")" : "");
    return true;
}

/* Where the bytes are that lie at addr when the greenlet runs. */
static gsp_raddr now_at(const struct stand *stand, gsp_raddr addr)
{
    bool put_away = stand->copy && addr >= stand->stack && addr - stand->stack < stand->saved;
    return put_away ? stand->copy + (addr - stand->stack) : addr;
}

static uint64_t word_at(const unsigned char *bytes, gsp_py_off off)
{
    uint64_t v;
    memcpy(&v, bytes + off, sizeof(v));
    return v;
}

static int add_frame(struct finding *find, const struct gsp_py_await *frame, uint64_t instr)
{
    struct gsp_py_await *out = &find->chain.frames[find->chain.depth];
    uint32_t code;
    int rc = gsp_py_codes_get(find->codes, frame->code, gsp_now_ns(), &code);
    if (frame->code == find->codes->init_cleanup)
        return GSP_OK;
    if (rc != GSP_OK)
        return rc;
    *out = *frame;
    out->loc = GSP_PY_NO_LOC;
    gsp_ignore(gsp_py_codes_loc(find->codes, code, instr, 0, &out->loc));
    find->chain.depth++;
    return GSP_OK;
}

/* Of a frame: where its bytes lie, and how many tell what is wanted. */
static size_t head_len(const struct finding *find)
{
    bool old = find->lay->frames == GSP_PY_FRAMES_OBJECTS;
    return old ? find->lay->frame_f_lasti + 4U : find->lay->iframe_localsplus;
}

static gsp_raddr caller_of(const struct finding *find, const struct stand *stand, size_t i)
{
    bool old = find->lay->frames == GSP_PY_FRAMES_OBJECTS;
    gsp_py_off at = old ? find->lay->frame_f_back : find->lay->iframe_previous;
    gsp_raddr caller = word_at(find->heads[i], at);
    return old || !caller ? caller : now_at(stand, caller);
}

/* Follows the frames one by one: where they are, but not yet that they belong together. */
static int find_heads(struct finding *find, const struct stand *stand)
{
    size_t len = head_len(find);
    gsp_raddr addr = stand->frame;
    int rc = GSP_OK;
    find->head_count = 0;
    if (find->lay->frames != GSP_PY_FRAMES_OBJECTS) { /* f_frame, after f_back */
        rc = gsp_mem_read_u64(find->mem, addr + find->lay->object_size + 8U, &addr);
        addr = now_at(stand, addr);
    }
    while (rc == GSP_OK && addr && (addr & 7) == 0 && find->head_count < HEADS_MAX) {
        size_t i = find->head_count++;
        find->places[i] = addr;
        rc = gsp_mem_read(find->mem, addr, find->heads[i], len);
        addr = rc == GSP_OK ? caller_of(find, stand, i) : 0;
    }
    return rc;
}

/* Reads the frames again, all at once and between two looks at where the greenlet stands.  A
 * greenlet can go on, do its work and be back before single reads have followed its frames. */
static int read_heads(struct finding *find, const struct stand *stand)
{
    uint64_t before[STAND_WORDS];
    uint64_t after[STAND_WORDS];
    gsp_raddr first = find->head_count ? find->places[0] : 0;
    gsp_raddr own = stand->impl + (find->frame_at - 6) * sizeof(uint64_t);
    size_t n = 0;
    bool old = find->lay->frames == GSP_PY_FRAMES_OBJECTS;
    find->spans[n++] = (struct gsp_mem_span){own, sizeof(before), before};
    if (!old)
        find->spans[n++] =
            (struct gsp_mem_span){stand->frame + find->lay->object_size + 8U, 8, &first};
    for (size_t i = 0; i < find->head_count; i++)
        find->spans[n++] = (struct gsp_mem_span){find->places[i], head_len(find), find->heads[i]};
    find->spans[n++] = (struct gsp_mem_span){own, sizeof(after), after};
    int rc = gsp_mem_gather(find->mem, find->spans, n, NULL);
    if (rc != GSP_OK)
        return rc;
    if (memcmp(before, after, sizeof(before)) != 0 || before[0] != stand->stack ||
        before[2] != stand->copy || before[3] != stand->saved || before[6] != stand->frame)
        return GSP_E_TORN;
    gsp_raddr expected = old || !first ? first : now_at(stand, first);
    for (size_t i = 0; i < find->head_count; i++) {
        if (find->places[i] != expected)
            return GSP_E_TORN;
        expected = caller_of(find, stand, i);
    }
    return expected && find->head_count < HEADS_MAX ? GSP_E_TORN : GSP_OK;
}

/* The frame at one of the heads, unless it is the interpreter's own. */
static int add_head(struct finding *find, size_t i)
{
    const struct gsp_py_layout *lay = find->lay;
    const unsigned char *head = find->heads[i];
    struct gsp_py_await frame = {.frame = find->places[i]};
    if (lay->frames == GSP_PY_FRAMES_OBJECTS) {
        int32_t lasti;
        memcpy(&lasti, head + lay->frame_f_lasti, sizeof(lasti));
        frame.code = word_at(head, lay->frame_f_code);
        return add_frame(find, &frame, (uint32_t)lasti);
    }
    if (head[lay->iframe_owner] >= OWNER_SHIM)
        return GSP_OK;
    frame.code = word_at(head, lay->iframe_executable) & REF_MASK;
    return add_frame(find, &frame, word_at(head, lay->iframe_instr_ptr));
}

/* Fills the chain, outermost first; TORN if the greenlet went on meanwhile. */
static int walk(struct finding *find, const struct stand *stand)
{
    find->chain.depth = 0;
    find->chain.state = GSP_PY_CORO_SUSPENDED;
    int rc = find_heads(find, stand);
    rc = rc == GSP_OK ? read_heads(find, stand) : rc;
    /* The innermost frames are those that matter if there are too many. */
    size_t count = find->head_count;
    for (size_t i = 0; rc == GSP_OK && i < count && find->chain.depth < GSP_PY_AWAITS_MAX; i++)
        rc = add_head(find, i);
    struct gsp_py_await *frames = find->chain.frames;
    for (size_t i = 0; i < find->chain.depth / 2; i++) {
        struct gsp_py_await last = frames[find->chain.depth - 1 - i];
        frames[find->chain.depth - 1 - i] = frames[i];
        frames[i] = last;
    }
    return rc;
}

static int read_frames(struct finding *find, gsp_raddr greenlet, struct stand *stand)
{
    int rc = GSP_E_TORN;
    for (unsigned try = 0; rc != GSP_OK && try < TRIES_MAX; try++) {
        if (!read_stand(find, greenlet, stand))
            return GSP_E_FORMAT;
        find->chain.depth = 0;
        rc = stand->frame ? walk(find, stand) : GSP_OK;
        if (is_fatal(rc))
            return rc;
    }
    return rc;
}

static void give(struct finding *find, gsp_raddr object)
{
    struct stand stand = {0};
    int rc = read_frames(find, object, &stand);
    if (is_fatal(rc))
        find->rc = rc;
    bool is_main = stand.stop == MAIN_STOP;
    /* A main one that runs is just its thread. */
    if (rc != GSP_OK || (stand.frame ? find->chain.depth == 0 : is_main) ||
        !put_label(find, object, is_main, &find->label))
        return;
    struct gsp_py_greenlet greenlet = {.addr = object,
                                       .label = gsp_buf_sv(&find->label),
                                       .parent = {"", 0},
                                       .python_id = thread_of(find, &stand),
                                       .is_running = stand.frame == 0,
                                       .chain = &find->chain};
    struct stand parent;
    if (stand.parent && read_stand(find, stand.parent, &parent) &&
        put_label(find, stand.parent, parent.stop == MAIN_STOP, &find->parent))
        greenlet.parent = gsp_buf_sv(&find->parent);
    find->fn(find->arg, &greenlet);
}

static void keep(struct finding *find, gsp_raddr object)
{
    if (gsp_hmap_get(&find->seen, object, 0) || find->seen.count >= GREENLETS_MAX)
        return;
    if (!gsp_hmap_put(&find->seen, object, 0, 1))
        find->rc = GSP_E_NOMEM;
    gsp_buf_put(&find->objects, &object, sizeof(object));
}

/* One list of the collector: a ring of heads, an object behind each. */
static int list_each(struct finding *find, gsp_raddr head)
{
    gsp_raddr node = 0;
    unsigned char bytes[HEADER_MAX];
    int rc = gsp_mem_read_u64(find->mem, head, &node);
    for (size_t n = 0; rc == GSP_OK && node && node != head && n < OBJECTS_MAX; n++) {
        rc = gsp_mem_read(find->mem, node, bytes, GC_HEAD_SIZE + find->lay->object_size);
        if (rc != GSP_OK)
            break;
        if (is_kind(find, word_at(bytes + GC_HEAD_SIZE, find->lay->object_type)))
            keep(find, node + GC_HEAD_SIZE);
        rc = find->rc;
        node = word_at(bytes, 0) & LINK_MASK;
    }
    /* What left the list while we stood there leads nowhere. */
    return rc == GSP_OK && node != head ? GSP_E_FAULT : rc;
}

/* Is there a ring at this address: does what follows the head point back at it? */
static bool is_ring(const struct finding *find, gsp_raddr head)
{
    uint64_t next = 0;
    uint64_t back = 0;
    return gsp_mem_read_u64(find->mem, head, &next) == GSP_OK && next && (next & 3) == 0 &&
           gsp_mem_read_u64(find->mem, next + 8, &back) == GSP_OK && (back & LINK_MASK) == head;
}

/* The heads of the collector's lists; false if they are not where they are thought to be. */
static bool find_lists(const struct finding *find, gsp_raddr interp, gsp_raddr *lists)
{
    /* Before them stand flags, and up to 3.14 a pointer; builds differ in how they align a head. */
    static const uint8_t starts[] = {24, 20, 8};
    const struct gsp_py_layout *lay = find->lay;
    unsigned minor = GSP_PY_MINOR(lay->version);
    gsp_raddr state = minor == 8 ? gsp_py_target_runtime(find->target)->addr +
                                       lay->runtime_main_thread + AT_GC_3_8
                                 : interp + lay->interp_gc;
    for (size_t i = 0; i < GSP_COUNT(starts); i++) {
        size_t rings = 0;
        uint64_t at = starts[i];
        for (size_t k = 0; k < GENERATIONS; k++, at += GENERATION_SIZE) {
            /* Up to 3.13 a pointer stands before the last. */
            if (k == GENERATIONS - 1 && minor <= 13)
                at = ((at + 7) & ~7ULL) + 8;
            lists[k] = state + at;
            rings += is_ring(find, lists[k]);
        }
        /* A collection that is under way uses the links back for something else. */
        if (rings >= 2)
            return true;
    }
    return false;
}

/* Gives what was found, and forgets it. */
static void give_all(struct finding *find)
{
    size_t count = find->objects.len / sizeof(gsp_raddr);
    gsp_raddr object;
    for (size_t i = 0; i < count && !find->parent_at; i++) {
        memcpy(&object, find->objects.p + i * sizeof(object), sizeof(object));
        calibrate(find, object);
    }
    for (size_t i = 0; i < count && find->frame_at && !find->rc; i++) {
        memcpy(&object, find->objects.p + i * sizeof(object), sizeof(object));
        give(find, object);
    }
    gsp_buf_clear(&find->objects);
}

static int of_interp(struct finding *find, gsp_raddr interp)
{
    gsp_raddr modules = 0;
    gsp_raddr module = 0;
    int rc = gsp_mem_read_u64(find->mem, interp + find->lay->interp_modules, &modules);
    find->type = 0;
    gsp_hmap_clear(&find->types);
    if (rc == GSP_OK && modules)
        rc = gsp_py_dict_find(find->mem, find->lay, modules, "greenlet._greenlet", &module);
    if (rc == GSP_OK && module)
        rc = gsp_py_attr_find(find->mem, find->lay, module, "greenlet", &find->type);
    if (rc != GSP_OK || !find->type)
        return rc;
    gsp_raddr lists[GENERATIONS];
    bool has_lists = find_lists(find, interp, lists);
    for (size_t i = 0; has_lists && i < GENERATIONS && !is_fatal(rc); i++) {
        rc = GSP_E_FAULT;
        for (unsigned try = 0; rc == GSP_E_FAULT && try < TRIES_MAX; try++)
            rc = list_each(find, lists[i]);
    }
    give_all(find);
    return is_fatal(rc) ? rc : find->rc;
}

/* Can this version's collector and frames be read? */
static bool fits(const struct gsp_py_layout *lay)
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

int gsp_py_greenlets(struct gsp_py_target *target, gsp_py_greenlet_fn *fn, void *arg)
{
    const struct gsp_py_layout *lay = &gsp_py_target_runtime(target)->layout;
    if (!fits(lay))
        return GSP_OK;
    struct finding *find = calloc(1, sizeof(*find));
    if (!find)
        return GSP_E_NOMEM;
    find->target = target;
    find->codes = gsp_py_target_codes(target);
    find->mem = gsp_py_target_mem(target);
    find->lay = lay;
    find->fn = fn;
    find->arg = arg;
    int rc = GSP_OK;
    gsp_raddr interp;
    for (size_t i = 0; !is_fatal(rc) && (interp = gsp_py_target_interp(target, i)); i++)
        rc = of_interp(find, interp);
    gsp_hmap_free(&find->types);
    gsp_hmap_free(&find->seen);
    gsp_buf_free(&find->objects);
    gsp_buf_free(&find->label);
    gsp_buf_free(&find->parent);
    free(find);
    return is_fatal(rc) ? rc : GSP_OK;
}
