/* SPDX-License-Identifier: Apache-2.0 */
#include "py/await.h"

#include <string.h>

#include "base/buf.h"
#include "py/object.h"
#include "py/object_internal.h"

/* References of 3.14 and later have tags in their low bits. */
#define REF_MASK        (~7ULL)
/* Offsets in a PyFrameObject of 3.8 to 3.10, relative to f_code. */
#define AT_VALUESTACK   32U
#define AT_STACKTOP     40U /* 3.8, 3.9: a pointer, NULL while the frame executes */
#define AT_STACKDEPTH   48U /* 3.10: an int */
#define STACK_WORDS_MAX (1U << 20)
/* Opcodes of the next instruction of a generator that is suspended in "yield from". */
#define YIELD_FROM      72U  /* 3.8 to 3.10 */
#define RESUME          151U /* 3.11, 3.12: its argument says after what */

/* The role of an object in an await chain. */
enum kind {
    KIND_OTHER,
    KIND_COROUTINE,
    KIND_GENERATOR, /* awaits nothing if it is suspended at a plain yield */
    KIND_WRAPPER,   /* represents the object in its first member */
};

static const struct {
    const char *name;
    enum kind kind;
} KINDS[] = {
    {"coroutine", KIND_COROUTINE},
    {"generator", KIND_GENERATOR},
    /* An awaited step of it is always suspended at an await: a yield would end the step. */
    {"async_generator", KIND_COROUTINE},
    {"async_generator_asend", KIND_WRAPPER},
    {"async_generator_athrow", KIND_WRAPPER},
    {"coroutine_wrapper", KIND_WRAPPER},
    {"anext_awaitable", KIND_WRAPPER},
};

/* The frame of a coroutine and its position. */
struct position {
    gsp_raddr frame;
    gsp_raddr code;
    uint64_t instr;
    uint32_t tlbc_index;
    gsp_raddr bottom; /* first word of the value stack; 0 if unknown */
    gsp_raddr top;    /* one past its last value; 0 if unknown */
    enum gsp_py_coro_state state;
    bool yields_from; /* according to its frame state */
};

static enum kind kind_of(const struct gsp_py_codes *codes, gsp_raddr object)
{
    gsp_auto_buf name = {0};
    gsp_raddr type = 0;
    const struct gsp_py_layout *lay = &codes->run->layout;
    if (object == 0 || (object & 7) != 0 ||
        gsp_proc_mem_read_u64(codes->mem, object + lay->object_type, &type) != GSP_OK ||
        gsp_py__type_name(codes->mem, lay, type, &name) != GSP_OK)
        return KIND_OTHER;
    for (size_t i = 0; i < GSP_COUNT(KINDS); i++)
        if (gsp_sv_eq(gsp_buf_sv(&name), gsp_sv_of(KINDS[i].name)))
            return KINDS[i].kind;
    return KIND_OTHER;
}

/* Decodes gi_frame_state, 3.11 and later. */
static enum gsp_py_coro_state state_of(const struct gsp_py_layout *lay, signed char mark)
{
    unsigned minor = GSP_PY_MINOR(lay->version);
    int first = minor >= 15 ? 0 : minor >= 13 ? -3 : -2; /* FRAME_CREATED */
    int executing = minor >= 15 ? 4 : 0;
    if (mark == first)
        return GSP_PY_CORO_NEW;
    if (mark == executing)
        return GSP_PY_CORO_RUNNING;
    return mark > first && mark < executing ? GSP_PY_CORO_SUSPENDED : GSP_PY_CORO_DONE;
}

static bool is_yield_from(const struct gsp_py_layout *lay, signed char mark)
{
    unsigned minor = GSP_PY_MINOR(lay->version);
    return minor >= 15 ? mark == 2 || mark == 3 : minor >= 13 && mark == -1;
}

static int read_position_new(struct gsp_mem *mem, const struct gsp_py_layout *lay, gsp_raddr coro,
                             struct position *out)
{
    signed char mark = 0;
    int32_t tlbc = 0;
    int32_t depth = -1;
    gsp_raddr frame = coro + lay->gen_iframe;
    struct gsp_mem_span spans[] = {
        {coro + lay->gen_frame_state, 1, &mark},
        {frame + lay->iframe_executable, 8, &out->code},
        {frame + lay->iframe_instr_ptr, 8, &out->instr},
    };
    int rc = gsp_proc_mem_gather(mem, spans, GSP_COUNT(spans), NULL);
    if (rc == GSP_OK && lay->iframe_tlbc_index != GSP_NO_OFFSET)
        rc = gsp_proc_mem_read(mem, frame + lay->iframe_tlbc_index, &tlbc, sizeof(tlbc));
    if (rc == GSP_OK && lay->iframe_stackpointer != GSP_NO_OFFSET)
        rc = gsp_proc_mem_read_u64(mem, frame + lay->iframe_stackpointer, &out->top);
    else if (rc == GSP_OK)
        rc = gsp_proc_mem_read(mem, frame + lay->iframe_stacktop, &depth, sizeof(depth));
    if (rc != GSP_OK)
        return rc;
    out->bottom = frame + lay->iframe_localsplus;
    if (depth > 0 && depth < (int32_t)STACK_WORDS_MAX)
        out->top = out->bottom + 8ULL * (uint32_t)depth;
    out->frame = frame;
    out->code &= REF_MASK;
    out->tlbc_index = (uint32_t)tlbc;
    out->state = state_of(lay, mark);
    out->yields_from = is_yield_from(lay, mark);
    return GSP_OK;
}

static int read_position_old(struct gsp_mem *mem, const struct gsp_py_layout *lay, gsp_raddr coro,
                             struct position *out)
{
    int32_t lasti = 0;
    signed char mark = 0;
    int rc = gsp_proc_mem_read_u64(mem, coro + lay->object_size, &out->frame);
    if (rc != GSP_OK)
        return rc;
    if (out->frame == 0) {
        out->state = GSP_PY_CORO_DONE;
        return GSP_OK;
    }
    struct gsp_mem_span spans[] = {
        {out->frame + lay->frame_f_code, 8, &out->code},
        {out->frame + lay->frame_f_code + AT_VALUESTACK, 8, &out->bottom},
        {out->frame + lay->frame_f_lasti, 4, &lasti},
        {out->frame + lay->frame_f_state, 1, &mark},
    };
    rc = gsp_proc_mem_gather(mem, spans, GSP_COUNT(spans), NULL);
    if (rc == GSP_OK && GSP_PY_MINOR(lay->version) == 10) {
        int32_t depth = 0;
        rc = gsp_proc_mem_read(mem, out->frame + lay->frame_f_code + AT_STACKDEPTH, &depth, 4);
        if (depth > 0 && depth < (int32_t)STACK_WORDS_MAX)
            out->top = out->bottom + 8ULL * (uint32_t)depth;
    } else if (rc == GSP_OK) {
        rc = gsp_proc_mem_read_u64(mem, out->frame + lay->frame_f_code + AT_STACKTOP, &out->top);
    }
    if (rc != GSP_OK)
        return rc;
    bool executing = GSP_PY_MINOR(lay->version) == 10 ? mark == 0 : mark == 1;
    out->instr = (uint32_t)lasti;
    out->state = executing   ? GSP_PY_CORO_RUNNING
                 : lasti < 0 ? GSP_PY_CORO_NEW
                             : GSP_PY_CORO_SUSPENDED;
    return GSP_OK;
}

/* The last value of the value stack, which is the object that a coroutine awaits; from 3.15 on an
 * unused index is above it. 0 if not available. */
static gsp_raddr top_value(const struct gsp_py_codes *codes, const struct position *pos,
                           uint32_t code)
{
    gsp_raddr value = 0;
    gsp_raddr below = GSP_PY_MINOR(codes->run->layout.version) >= 15 ? 16 : 8;
    uint64_t locals = gsp_py_codes_at(codes, code)->locals_count;
    gsp_raddr bottom = pos->bottom;
    if (codes->run->layout.frames != GSP_PY_FRAMES_OBJECTS)
        bottom += 8 * locals;
    if (pos->top < bottom + below || pos->top - bottom > 8ULL * STACK_WORDS_MAX ||
        (pos->top & 7) != 0 ||
        gsp_proc_mem_read_u64(codes->mem, pos->top - below, &value) != GSP_OK)
        return 0;
    return value & REF_MASK;
}

/* Before 3.13 the next instruction shows whether a generator is suspended in "yield from". */
static bool at_yield_from(const struct gsp_py_codes *codes, const struct position *pos)
{
    const struct gsp_py_layout *lay = &codes->run->layout;
    unsigned char unit[2] = {0};
    if (lay->frames != GSP_PY_FRAMES_OBJECTS)
        return GSP_PY_MINOR(lay->version) < 13 &&
               gsp_proc_mem_read(codes->mem, pos->instr + 2, unit, sizeof(unit)) == GSP_OK &&
               unit[0] == RESUME && (unit[1] & 3U) >= 2;
    gsp_raddr bytes = 0;
    uint64_t next = GSP_PY_MINOR(lay->version) == 10 ? 2 * pos->instr + 2 : pos->instr + 2;
    return next < STACK_WORDS_MAX &&
           gsp_proc_mem_read_u64(codes->mem, pos->code + lay->code_code_adaptive, &bytes) ==
               GSP_OK &&
           gsp_proc_mem_read(codes->mem, bytes + lay->bytes_data + next, unit, sizeof(unit)) ==
               GSP_OK &&
           unit[0] == YIELD_FROM;
}

/* Adds one coroutine to the chain. *next is the object that it awaits, or 0. */
static int add_coro(struct gsp_py_codes *codes, gsp_raddr coro, enum kind kind, int64_t now_ns,
                    struct gsp_py_awaits *out, gsp_raddr *next)
{
    const struct gsp_py_layout *lay = &codes->run->layout;
    struct position pos = {0};
    uint32_t code = 0;
    *next = 0;
    int rc = lay->frames == GSP_PY_FRAMES_OBJECTS ? read_position_old(codes->mem, lay, coro, &pos)
                                                  : read_position_new(codes->mem, lay, coro, &pos);
    if (rc != GSP_OK)
        return rc;
    if (out->depth == 0)
        out->state = pos.state;
    if (pos.state == GSP_PY_CORO_DONE)
        return GSP_OK;
    rc = gsp_py_codes_get(codes, pos.code, now_ns, &code);
    if (rc != GSP_OK)
        return rc;
    uint32_t loc = GSP_PY_NO_LOC;
    gsp_ignore(gsp_py__codes_loc(codes, code, pos.instr, pos.tlbc_index, &loc));
    out->frames[out->depth++] = (struct gsp_py_await){pos.frame, pos.code, loc};
    bool awaits = kind == KIND_COROUTINE || pos.yields_from || at_yield_from(codes, &pos);
    if (awaits && pos.state != GSP_PY_CORO_NEW)
        *next = top_value(codes, &pos, code);
    return GSP_OK;
}

int gsp_py__awaits_read(struct gsp_py_codes *codes, gsp_raddr coro, int64_t now_ns,
                        struct gsp_py_awaits *out)
{
    out->state = GSP_PY_CORO_UNKNOWN;
    out->end = 0;
    out->depth = 0;
    /* Each hop is either a frame or a wrapper around one. */
    for (size_t hops = 0; coro && hops < 2 * (size_t)GSP_PY_AWAITS_MAX; hops++) {
        enum kind kind = kind_of(codes, coro);
        gsp_raddr next = 0;
        int rc = GSP_OK;
        if (kind == KIND_OTHER || out->depth == GSP_PY_AWAITS_MAX) {
            out->end = coro;
            break;
        }
        if (kind == KIND_WRAPPER)
            rc = gsp_proc_mem_read_u64(codes->mem, coro + codes->run->layout.object_size, &next);
        else
            rc = add_coro(codes, coro, kind, now_ns, out, &next);
        if (gsp_py__is_fatal(rc))
            return rc;
        coro = rc == GSP_OK ? next : 0;
    }
    return GSP_OK;
}
