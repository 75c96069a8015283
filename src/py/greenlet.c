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
/* struct _gc_runtime_state, 3.9 to 3.13: three generations of a head (two words) and two ints. */
#define GENERATIONS     3U
#define AT_GENERATIONS  24U
#define GENERATION_SIZE 24U
#define GC_HEAD_SIZE    16U
/* Words of the C++ object behind a greenlet in which its frame is looked for. */
#define IMPL_WORDS      40U
/* Before the frame: the context, and before that where its piece of the C stack is kept. */
#define STACK_WORDS     6U
#define HOPS_MAX        (4UL * GSP_PY_AWAITS_MAX)
/* Frames from this owner on belong to the interpreter, not to a function (3.12+). */
#define OWNER_SHIM      3U
#define HEADER_MAX      256U

struct finding {
    struct gsp_py_codes *codes;
    struct gsp_mem *mem;
    const struct gsp_py_layout *lay;
    gsp_py_greenlet_fn *fn;
    void *arg;
    gsp_raddr type;        /* greenlet.greenlet */
    struct gsp_hmap types; /* of objects → 1 if it is a kind of greenlet */
    size_t frame_at;       /* word of the object behind a greenlet; 0 unknown */
    struct gsp_py_awaits chain;
    int rc;
};

/* A switched-out greenlet: where it stands, and which part of its C stack was put away. */
struct stand {
    gsp_raddr frame; /* a PyFrameObject */
    gsp_raddr stack;
    gsp_raddr copy;
    uint64_t saved;
};

static bool is_fatal(int rc)
{
    return rc == GSP_E_NOPROC || rc == GSP_E_PERM || rc == GSP_E_NOMEM;
}

/* Is the type greenlet's own, or made from it? */
static bool is_greenlet(struct finding *find, gsp_raddr type)
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

static bool is_frame(const struct finding *find, gsp_raddr object)
{
    gsp_auto_buf name = {0};
    gsp_raddr type = 0;
    return object && (object & 7) == 0 &&
           gsp_mem_read_u64(find->mem, object + find->lay->object_type, &type) == GSP_OK &&
           gsp_py_type_name(find->mem, find->lay, type, &name) == GSP_OK &&
           gsp_sv_eq(gsp_buf_sv(&name), gsp_sv_of("frame"));
}

static bool read_stand(struct finding *find, gsp_raddr greenlet, struct stand *out)
{
    uint64_t words[IMPL_WORDS];
    gsp_raddr impl = 0;
    /* After the header: weak references, the dict, the C++ object. */
    if (gsp_mem_read_u64(find->mem, greenlet + find->lay->object_size + 16U, &impl) != GSP_OK ||
        gsp_mem_read(find->mem, impl, words, sizeof(words)) != GSP_OK)
        return false;
    for (size_t i = STACK_WORDS; !find->frame_at && i < IMPL_WORDS; i++)
        find->frame_at = is_frame(find, words[i]) ? i : 0;
    size_t at = find->frame_at;
    if (at == 0 || !is_frame(find, words[at]))
        return false; /* not begun, done, or running */
    *out = (struct stand){words[at], words[at - 6], words[at - 4], words[at - 3]};
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
    if (rc != GSP_OK)
        return rc;
    *out = *frame;
    out->loc = GSP_PY_NO_LOC;
    gsp_ignore(gsp_py_codes_loc(find->codes, code, instr, 0, &out->loc));
    find->chain.depth++;
    return GSP_OK;
}

/* _PyInterpreterFrame, 3.11 and later; *addr becomes that of the caller. */
static int step_new(struct finding *find, const struct stand *stand, gsp_raddr *addr)
{
    const struct gsp_py_layout *lay = find->lay;
    unsigned char bytes[HEADER_MAX];
    gsp_raddr here = now_at(stand, *addr);
    int rc = gsp_mem_read(find->mem, here, bytes, lay->iframe_localsplus);
    if (rc != GSP_OK)
        return rc;
    *addr = word_at(bytes, lay->iframe_previous);
    if (bytes[lay->iframe_owner] >= OWNER_SHIM)
        return GSP_OK;
    struct gsp_py_await frame = {here, word_at(bytes, lay->iframe_executable) & REF_MASK, 0};
    return add_frame(find, &frame, word_at(bytes, lay->iframe_instr_ptr));
}

static int step_old(struct finding *find, gsp_raddr *addr)
{
    const struct gsp_py_layout *lay = find->lay;
    struct gsp_py_await frame = {.frame = *addr};
    int32_t lasti = 0;
    struct gsp_mem_span spans[] = {
        {*addr + lay->frame_f_code, 8, &frame.code},
        {*addr + lay->frame_f_lasti, 4, &lasti},
        {*addr + lay->frame_f_back, 8, addr},
    };
    int rc = gsp_mem_gather(find->mem, spans, GSP_COUNT(spans), NULL);
    return rc == GSP_OK ? add_frame(find, &frame, (uint32_t)lasti) : rc;
}

/* Fills the chain, outermost first. */
static int walk(struct finding *find, const struct stand *stand)
{
    bool old = find->lay->frames == GSP_PY_FRAMES_OBJECTS;
    gsp_raddr addr = stand->frame;
    int rc = GSP_OK;
    find->chain.depth = 0;
    find->chain.state = GSP_PY_CORO_SUSPENDED;
    if (!old) /* f_frame, after f_back */
        rc = gsp_mem_read_u64(find->mem, addr + find->lay->object_size + 8U, &addr);
    for (size_t hops = 0; rc == GSP_OK && addr && (addr & 7) == 0 && hops < HOPS_MAX; hops++) {
        if (find->chain.depth == GSP_PY_AWAITS_MAX)
            break;
        rc = old ? step_old(find, &addr) : step_new(find, stand, &addr);
    }
    struct gsp_py_await *frames = find->chain.frames;
    for (size_t i = 0; i < find->chain.depth / 2; i++) {
        struct gsp_py_await last = frames[find->chain.depth - 1 - i];
        frames[find->chain.depth - 1 - i] = frames[i];
        frames[i] = last;
    }
    return rc;
}

static void give(struct finding *find, gsp_raddr object, gsp_raddr type)
{
    struct stand stand;
    gsp_auto_buf name = {0};
    if (!read_stand(find, object, &stand) ||
        gsp_py_type_name(find->mem, find->lay, type, &name) != GSP_OK)
        return;
    int rc = walk(find, &stand);
    if (is_fatal(rc))
        find->rc = rc;
    if (rc != GSP_OK || find->chain.depth == 0)
        return;
    struct gsp_py_greenlet greenlet = {object, gsp_buf_sv(&name), &find->chain};
    find->fn(find->arg, &greenlet);
}

/* One list of the collector: a ring of heads, an object behind each. */
static int list_each(struct finding *find, gsp_raddr head)
{
    gsp_raddr node = 0;
    int rc = gsp_mem_read_u64(find->mem, head, &node);
    for (size_t n = 0; rc == GSP_OK && node && node != head && n < OBJECTS_MAX; n++) {
        uint64_t next = 0;
        gsp_raddr type = 0;
        gsp_raddr object = node + GC_HEAD_SIZE;
        struct gsp_mem_span spans[] = {
            {node, 8, &next},
            {object + find->lay->object_type, 8, &type},
        };
        rc = gsp_mem_gather(find->mem, spans, GSP_COUNT(spans), NULL);
        if (rc == GSP_OK && is_greenlet(find, type))
            give(find, object, type);
        rc = rc == GSP_OK ? find->rc : rc;
        node = next & LINK_MASK;
    }
    return rc;
}

static int of_interp(struct finding *find, gsp_raddr interp)
{
    gsp_raddr modules = 0;
    gsp_raddr module = 0;
    int rc = gsp_mem_read_u64(find->mem, interp + find->lay->interp_modules, &modules);
    if (rc == GSP_OK && modules)
        rc = gsp_py_dict_find(find->mem, find->lay, modules, "greenlet._greenlet", &module);
    if (rc == GSP_OK && module)
        rc = gsp_py_attr_find(find->mem, find->lay, module, "greenlet", &find->type);
    if (rc != GSP_OK || !find->type)
        return rc;
    gsp_raddr generation = interp + find->lay->interp_gc + AT_GENERATIONS;
    for (size_t i = 0; i < GENERATIONS && !is_fatal(rc); i++)
        rc = list_each(find, generation + i * GENERATION_SIZE);
    return rc;
}

int gsp_py_greenlets(struct gsp_py_target *target, gsp_py_greenlet_fn *fn, void *arg)
{
    const struct gsp_py_layout *lay = &gsp_py_target_runtime(target)->layout;
    unsigned minor = GSP_PY_MINOR(lay->version);
    if (minor < 9 || minor > 13 || lay->free_threaded || lay->interp_gc == UINT32_MAX ||
        (lay->frames != GSP_PY_FRAMES_OBJECTS &&
         (lay->iframe_localsplus > HEADER_MAX || lay->iframe_owner >= lay->iframe_localsplus)))
        return GSP_OK;
    struct finding *find = calloc(1, sizeof(*find));
    if (!find)
        return GSP_E_NOMEM;
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
    free(find);
    return is_fatal(rc) ? rc : GSP_OK;
}
