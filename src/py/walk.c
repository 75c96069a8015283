/* SPDX-License-Identifier: Apache-2.0 */
#include "py/walk.h"

#include <string.h>

#include "py/verify.h"

/* Maximum number of reads of a stack. */
#define TRIES_MAX  48U
/* Bytes of a frame before its local variables; usual are 80 to 120. */
#define HEADER_MAX 256U
/* References of 3.14 and later have tags in their low bits. */
#define REF_MASK   (~7ULL)
/* Maximum distance, in frames, from the thread's pointer to the innermost frame. */
#define TOP_STEPS  8U
/* Frames and shims of one stack. */
#define HOPS_MAX   (2UL * GSP_PY_DEPTH_MAX)
/* Frames from this owner on belong to the interpreter, not to a function (3.12+). */
#define OWNER_SHIM 3U

/* The members of a frame. */
struct raw {
    gsp_raddr addr;
    gsp_raddr back;
    gsp_raddr code;
    gsp_raddr func;
    uint64_t instr;
    gsp_raddr sp; /* 0: not saved (the frame is executing), or unknown */
    uint32_t tlbc_index;
    bool is_shim;         /* belongs to the interpreter, not to a function */
    bool is_init_cleanup; /* the shim between the call of a class and its __init__ */
    bool is_entry;        /* 3.11 has a flag; later versions have a shim below the frame */
    bool on_data_stack;   /* in the thread's own stack of frames, not in a generator */
    bool in_generator;
    bool unstarted; /* 3.11+: before or at its first instruction */
    bool executing; /* according to its own state */
};

static bool within(gsp_py_off off, size_t width, size_t len)
{
    return off == GSP_NO_OFFSET || (size_t)off + width <= len;
}

/* Returns whether all members of a frame are in the header that is read at once. */
static bool is_supported(const struct gsp_py_layout *lay)
{
    if (lay->frames == GSP_PY_FRAMES_OBJECTS) {
        size_t len = (size_t)lay->frame_f_lasti + 4;
        return lay->frame_f_lasti < HEADER_MAX && lay->frame_f_state < HEADER_MAX &&
               (size_t)lay->frame_f_back + 8 <= len && (size_t)lay->frame_f_code + 8 <= len;
    }
    size_t len = lay->iframe_localsplus;
    return len <= HEADER_MAX && (size_t)lay->iframe_previous + 8 <= len &&
           (size_t)lay->iframe_executable + 8 <= len && (size_t)lay->iframe_funcobj + 8 <= len &&
           (size_t)lay->iframe_instr_ptr + 8 <= len && lay->iframe_owner < len &&
           within(lay->iframe_tlbc_index, 4, len) && within(lay->iframe_stackpointer, 8, len) &&
           within(lay->iframe_stacktop, 4, len) && within(lay->iframe_is_entry, 1, len);
}

void gsp_py__walker_init(struct gsp_py_walker *walker, struct gsp_mem *mem,
                         const struct gsp_py_runtime *run)
{
    memset(walker, 0, sizeof(*walker));
    walker->mem = mem;
    walker->run = run;
    walker->is_supported = is_supported(&run->layout);
    gsp_py__codes_init(&walker->codes, mem, run);
}

bool gsp_py__walker_tidy(struct gsp_py_walker *walker)
{
    if (!gsp_py__codes_tidy(&walker->codes))
        return false;
    gsp_hmap_clear(&walker->edges);
    gsp_hmap_clear(&walker->sightings);
    gsp_hmap_clear(&walker->confirmed);
    memset(walker->known, 0, sizeof(walker->known));
    return true;
}

void gsp_py__walker_free(struct gsp_py_walker *walker)
{
    gsp_py__codes_free(&walker->codes);
    gsp_hmap_free(&walker->edges);
    gsp_hmap_free(&walker->sightings);
    gsp_hmap_free(&walker->confirmed);
}

/* is_supported() has checked that the offset is inside the header. */
static uint64_t word_at(const unsigned char *bytes, gsp_py_off off)
{
    uint64_t v;
    memcpy(&v, bytes + off, 8);
    return v;
}

static int32_t int_at(const unsigned char *bytes, gsp_py_off off)
{
    int32_t v;
    memcpy(&v, bytes + off, 4);
    return v;
}

/* _PyInterpreterFrame, 3.11 and later. */
static int read_iframe(const struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr addr,
                       struct raw *raw)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    const unsigned char *bytes;
    int rc = gsp_proc_snap_view(snap, addr, lay->iframe_localsplus, &bytes);
    if (rc != GSP_OK)
        return rc;
    unsigned char owner = bytes[lay->iframe_owner];
    raw->addr = addr;
    raw->back = word_at(bytes, lay->iframe_previous);
    raw->code = word_at(bytes, lay->iframe_executable) & REF_MASK;
    raw->func = word_at(bytes, lay->iframe_funcobj) & REF_MASK;
    raw->instr = word_at(bytes, lay->iframe_instr_ptr);
    raw->is_init_cleanup = raw->code != 0 && raw->code == walker->codes.init_cleanup;
    raw->is_shim = owner >= OWNER_SHIM || raw->is_init_cleanup;
    raw->on_data_stack = owner == 0;
    raw->in_generator = owner == 1;
    raw->is_entry = lay->iframe_is_entry != GSP_NO_OFFSET && bytes[lay->iframe_is_entry] != 0;
    raw->tlbc_index = 0;
    if (lay->iframe_tlbc_index != GSP_NO_OFFSET)
        raw->tlbc_index = (uint32_t)int_at(bytes, lay->iframe_tlbc_index);
    raw->sp = 0;
    if (lay->iframe_stackpointer != GSP_NO_OFFSET) {
        raw->sp = word_at(bytes, lay->iframe_stackpointer);
    } else if (lay->iframe_stacktop != GSP_NO_OFFSET) {
        int32_t top = int_at(bytes, lay->iframe_stacktop);
        if (top >= 0 && top < (1 << 20))
            raw->sp = addr + lay->iframe_localsplus + 8ULL * (uint32_t)top;
    }
    /* A frame before its first instruction (one unit before it up to 3.12) has made no call yet,
     * regardless of stale frames and values above it. */
    uint64_t start = raw->code + lay->code_code_adaptive;
    bool unstarted = raw->instr == start || raw->instr + 2 == start;
    raw->unstarted = unstarted && !raw->is_shim;
    raw->executing = (raw->sp == 0 || unstarted) && !raw->is_shim;
    return GSP_OK;
}

/* PyFrameObject, up to 3.10. */
static int read_frame_object(const struct gsp_py_layout *lay, struct gsp_snap *snap, gsp_raddr addr,
                             struct raw *raw)
{
    const unsigned char *bytes;
    size_t len = (size_t)lay->frame_f_state + 1;
    if ((size_t)lay->frame_f_lasti + 4 > len)
        len = (size_t)lay->frame_f_lasti + 4;
    int rc = gsp_proc_snap_view(snap, addr, len, &bytes);
    if (rc != GSP_OK)
        return rc;
    signed char state = (signed char)bytes[lay->frame_f_state];
    *raw = (struct raw){.addr = addr,
                        .back = word_at(bytes, lay->frame_f_back),
                        .code = word_at(bytes, lay->frame_f_code),
                        .instr = (uint32_t)int_at(bytes, lay->frame_f_lasti)};
    /* 3.10: FRAME_EXECUTING is 0; before: f_executing is 1. Also set in callers. */
    raw->executing = GSP_PY_MINOR(lay->version) == 10 ? state == 0 : state == 1;
    return GSP_OK;
}

static int read_frame(const struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr addr,
                      struct raw *raw)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    if (addr & 7)
        return GSP_E_FORMAT;
    return lay->frames == GSP_PY_FRAMES_OBJECTS ? read_frame_object(lay, snap, addr, raw)
                                                : read_iframe(walker, snap, addr, raw);
}

/* Finds and reads the thread's pointer to its innermost frame. */
static int read_top_pointer(struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr tstate,
                            gsp_raddr *out)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    uint64_t cframe = 0;
    int rc;
    switch (lay->frames) {
    case GSP_PY_FRAMES_OBJECTS:
        walker->top_at = tstate + lay->tstate_frame;
        break;
    case GSP_PY_FRAMES_CURRENT:
        walker->top_at = tstate + lay->tstate_current_frame;
        break;
    case GSP_PY_FRAMES_CFRAME:
        rc = gsp_proc_snap_read(snap, tstate + lay->tstate_cframe, &cframe, 8);
        if (rc != GSP_OK)
            return rc;
        walker->top_at = cframe + lay->cframe_current_frame;
        break;
    }
    return gsp_proc_snap_read(snap, walker->top_at, out, 8);
}

/* The address where the frame of a callee of raw would begin: frames are contiguous. */
static gsp_raddr callee_addr(const struct gsp_py_walker *walker, const struct raw *raw)
{
    const uint32_t *index = gsp_hmap_get(&walker->codes.by_addr, raw->code, 0);
    if (!index || !raw->on_data_stack)
        return 0;
    const struct gsp_py_code *code = &walker->codes.codes[*index];
    return raw->addr + walker->run->layout.iframe_localsplus +
           8ULL * (code->locals_count + code->stack_words);
}

/* A frame object that is not executing has returned: its caller is the innermost frame. */
static int find_top_object(const struct gsp_py_layout *lay, struct gsp_snap *snap, struct raw *top)
{
    for (unsigned i = 0; i < TOP_STEPS && !top->executing; i++) {
        if (top->back == 0)
            return GSP_E_TORN;
        int rc = read_frame_object(lay, snap, top->back, top);
        if (rc != GSP_OK)
            return rc;
    }
    return GSP_OK;
}

/* Finds the code object and location of a frame and stores them in its cache entry. */
static int look_up(struct gsp_py_walker *walker, const struct raw *raw, int64_t now_ns,
                   struct gsp_py_frame_cache *known)
{
    uint32_t code;
    uint32_t loc;
    known->frame = 0;
    int rc = gsp_py_codes_get(&walker->codes, raw->code, now_ns, &code);
    if (rc != GSP_OK)
        return rc;
    rc = gsp_py__codes_loc(&walker->codes, code, raw->instr, raw->tlbc_index, &loc);
    if (rc != GSP_OK) {
        /* Another code object may be at this address now. */
        walker->codes.codes[code].due_ns = now_ns;
        gsp_ignore(gsp_py__codes_check(&walker->codes, &code, 1, now_ns));
        return rc;
    }
    *known = (struct gsp_py_frame_cache){.frame = raw->addr,
                                         .code_addr = raw->code,
                                         .instr = raw->instr,
                                         .tlbc_index = raw->tlbc_index,
                                         .code = code,
                                         .loc = loc,
                                         .caller_loc = GSP_PY_NO_LOC};
    return GSP_OK;
}

/* The pointer was read before the frames. If its frame is not executing, the frame has either made
 * a call (the executing frame is above it) or returned (the executing frame is below it). */
static int find_top(struct gsp_py_walker *walker, struct gsp_snap *snap, struct raw *top)
{
    if (top->executing || top->is_shim)
        return GSP_OK;
    struct raw up = *top;
    for (unsigned i = 0; i < TOP_STEPS; i++) {
        gsp_raddr addr = callee_addr(walker, &up);
        struct raw caller = up;
        if (addr == 0 || read_iframe(walker, snap, addr, &up) != GSP_OK || up.back != caller.addr ||
            up.is_shim)
            break;
        /* A frame that has not started is being created: its caller is still running. */
        if (up.executing && up.sp == 0) {
            *top = up;
            return GSP_OK;
        }
    }
    struct raw down = *top;
    for (unsigned i = 0; i < TOP_STEPS && down.back; i++) {
        if (read_iframe(walker, snap, down.back, &down) != GSP_OK)
            break;
        if (down.executing) {
            *top = down;
            return GSP_OK;
        }
    }
    return GSP_OK; /* no frame executes: the thread is in a C function */
}

static int add_frame(struct gsp_py_walker *walker, const struct raw *raw, int64_t now_ns)
{
    struct gsp_py_chain *chain = &walker->chain;
    struct gsp_py_frame *frame = &chain->frames[chain->depth];
    frame->known = (uint32_t)(raw->addr >> 4 ^ raw->addr >> 14) & (GSP_PY_KNOWN_MAX - 1);
    struct gsp_py_frame_cache *known = &walker->known[frame->known];
    if (gsp_unlikely(known->frame != raw->addr || known->instr != raw->instr ||
                     known->code_addr != raw->code || known->tlbc_index != raw->tlbc_index ||
                     !walker->codes.codes[known->code].is_live)) {
        int rc = look_up(walker, raw, now_ns, known);
        if (rc != GSP_OK)
            return rc;
    }
    frame->code = known->code;
    frame->loc = known->loc;
    frame->addr = raw->addr;
    frame->caller = raw->back;
    frame->func = raw->func;
    frame->sp = raw->sp;
    frame->instr = raw->instr;
    frame->direct = raw->on_data_stack && !raw->is_entry;
    frame->on_data_stack = raw->on_data_stack;
    frame->in_generator = raw->in_generator;
    frame->is_entry = raw->is_entry;
    frame->unstarted = raw->unstarted;
    chain->codes[chain->depth] = frame->code;
    chain->depth++;
    return GSP_OK;
}

/* Returns whether this frame can be the outermost one. A suspended generator also has no caller,
 * but a stack that ends with it was read while the generator was resumed or suspended. */
static bool may_be_last(const struct gsp_py_layout *lay, struct gsp_snap *snap,
                        const struct raw *raw)
{
    signed char state = 0;
    if (lay->frames == GSP_PY_FRAMES_OBJECTS)
        return raw->executing; /* as all callers */
    if (raw->is_shim || !raw->in_generator)
        return true;
    if (GSP_PY_MINOR(lay->version) >= 12)
        return false; /* C code that resumes a generator puts a shim below it */
    return gsp_proc_snap_read(snap, raw->addr - lay->gen_iframe + lay->gen_frame_state, &state,
                              1) == GSP_OK &&
           state == 0; /* FRAME_EXECUTING */
}

/* A frame whose bytecode made a call has saved its stack pointer before (3.11 and later), and a
 * frame object executes as long as its callee does. A frame for which this is not true was copied
 * at another time than its callee. */
static bool may_have_called(const struct gsp_py_layout *lay, const struct raw *raw)
{
    if (lay->frames == GSP_PY_FRAMES_OBJECTS)
        return raw->executing; /* as all callers */
    return raw->is_shim || !raw->executing;
}

/* Returns whether an overlong chain is a loop, which happens if frames are reused during the read.
 */
static bool is_loop(const struct gsp_py_chain *chain)
{
    for (size_t i = 0; i + 1 < chain->depth; i++)
        if (chain->frames[i].addr == chain->frames[chain->depth - 1].addr)
            return true;
    return chain->depth == 0; /* only shims */
}

/* Returns whether the frame added last is at a return or a yield: then it has no callee. */
static bool is_leaving(const struct gsp_py_walker *walker)
{
    const struct gsp_py_chain *chain = &walker->chain;
    return walker->codes.locs[chain->frames[chain->depth - 1].loc].is_leaving;
}

static void keep_last(struct gsp_py_chain *chain)
{
    chain->frames[0] = chain->frames[chain->depth - 1];
    chain->codes[0] = chain->codes[chain->depth - 1];
    chain->depth = 1;
}

/* Reads the innermost frame. */
static int read_top(struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr addr,
                    struct raw *raw)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    int rc = read_frame(walker, snap, addr, raw);
    if (rc != GSP_OK || walker->stopped)
        return rc;
    if (raw->code == 0 && raw->on_data_stack && raw->back) /* has ended */
        rc = read_frame(walker, snap, raw->back, raw);
    if (rc != GSP_OK)
        return rc;
    return lay->frames == GSP_PY_FRAMES_OBJECTS ? find_top_object(lay, snap, raw)
                                                : find_top(walker, snap, raw);
}

/* Adds a frame to the chain, unless it is internal to the interpreter. */
static int add_or_skip(struct gsp_py_walker *walker, const struct raw *raw, bool has_called,
                       int64_t now_ns)
{
    struct gsp_py_chain *chain = &walker->chain;
    if (raw->is_shim) {
        if (chain->depth) {
            chain->frames[chain->depth - 1].direct = false;
            chain->frames[chain->depth - 1].is_entry |= !raw->is_init_cleanup;
        }
        return GSP_OK;
    }
    int rc = add_frame(walker, raw, now_ns);
    if (rc == GSP_OK && has_called && !walker->stopped && is_leaving(walker))
        keep_last(chain);
    return rc;
}

/* Replaces raw by its caller. *has_called: the caller's bytecode made the call, without C code in
 * between. */
static int read_caller(struct gsp_py_walker *walker, struct gsp_snap *snap, struct raw *raw,
                       bool *has_called)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    *has_called = !raw->is_shim && !raw->is_entry;
    int rc = read_frame(walker, snap, raw->back, raw);
    if (rc != GSP_OK || !*has_called || walker->stopped || may_have_called(lay, raw))
        return rc;
    /* It was copied first and was the innermost frame at that time. */
    walker->chain.depth = 0;
    return lay->frames == GSP_PY_FRAMES_OBJECTS ? GSP_E_TORN : GSP_OK;
}

static int read_chain(struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr tstate,
                      int64_t now_ns)
{
    struct gsp_py_chain *chain = &walker->chain;
    chain->depth = 0;
    chain->cut = false;
    gsp_raddr addr;
    int rc = read_top_pointer(walker, snap, tstate, &addr);
    if (rc != GSP_OK || addr == 0)
        return rc;
    struct raw raw = {0};
    bool has_called = false;
    rc = read_top(walker, snap, addr, &raw);
    for (size_t hops = 0; rc == GSP_OK; hops++) {
        rc = add_or_skip(walker, &raw, has_called, now_ns);
        if (rc == GSP_OK && raw.back == 0 && !may_be_last(&walker->run->layout, snap, &raw))
            rc = GSP_E_TORN;
        if (rc != GSP_OK || raw.back == 0)
            break;
        if (chain->depth == GSP_PY_DEPTH_MAX || hops > HOPS_MAX) {
            chain->cut = true;
            return is_loop(chain) && !walker->stopped ? GSP_E_TORN : GSP_OK;
        }
        rc = read_caller(walker, snap, &raw, &has_called);
    }
    return rc;
}

int gsp_py__walk(struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr tstate,
                 int64_t now_ns)
{
    struct gsp_py_chain *chain = &walker->chain;
    int rc = GSP_E_TORN;
    if (!walker->is_supported)
        return GSP_E_FORMAT;
    /* Try numbers continue from walk to walk with a gap, so that reads of different walks are not
     * consecutive. */
    unsigned first = walker->last_try + 2;
    for (unsigned try = first; try < first + TRIES_MAX; try++) {
        walker->last_try = try;
        if (try > first) {
            gsp_proc_snap_refresh_twice(snap);
            walker->retries++;
        }
        rc = read_chain(walker, snap, tstate, now_ns);
        if (rc == GSP_E_NOPROC || rc == GSP_E_PERM || rc == GSP_E_NOMEM || rc == GSP_E_LIMIT)
            return rc;
        bool same = gsp_py__codes_check(&walker->codes, chain->codes, chain->depth, now_ns);
        if (rc != GSP_OK) {
            if (walker->stopped && try > first)
                return rc;
            continue;
        }
        if (!same)
            continue;
        if (walker->stopped || gsp_py__edges_verify(walker, snap, now_ns, try))
            return GSP_OK;
        rc = GSP_E_TORN;
    }
    return rc;
}
