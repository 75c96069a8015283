/* SPDX-License-Identifier: Apache-2.0 */
#include "py/walk.h"

#include <string.h>

#include "base/time.h"

/* Reads of a stack before it is given up. */
#define TRIES_MAX   48U
/* Bytes of a frame before its local variables; some 80 to 120. */
#define HEADER_MAX  256U
/* Reads running that must show an edge at the same frames to prove it. */
#define PROOF_READS 3U
/* The same of the outermost frame.  It stays where it is as long as its thread, or greenlet, does;
 * what generators look like while they come and go may be there a few times running. */
#define ROOT_READS  8U
/* References of 3.14 and later carry marks in their low bits. */
#define REF_MASK    (~7ULL)
/* Frames the real top may be away from where the thread's pointer was. */
#define TOP_STEPS   8U
/* Frames and shims of one stack. */
#define HOPS_MAX    (2UL * GSP_PY_DEPTH_MAX)
/* Words above the caller's value stack in which the called function is looked for. */
#define PROOF_WORDS 4U
/* Frames from this owner on belong to the interpreter, not to a function (3.12+). */
#define OWNER_SHIM  3U

#define NO_CALLER   UINT32_MAX

/* A frame as it was read. */
struct raw {
    gsp_raddr addr;
    gsp_raddr back;
    gsp_raddr code;
    gsp_raddr func;
    uint64_t instr;
    gsp_raddr sp; /* 0: none saved, the frame is executing (or unknown) */
    uint32_t tlbc_index;
    bool is_shim;
    bool is_entry;      /* 3.11: its own mark; later a shim below it tells */
    bool on_data_stack; /* in the thread's own stack of frames, not in a generator */
    bool in_generator;
    bool executing; /* its own mark says it is the running one */
};

static bool within(gsp_py_off off, size_t width, size_t len)
{
    return off == GSP_NO_OFFSET || (size_t)off + width <= len;
}

/* Do all fields of a frame lie in the header that is viewed at once? */
static bool fits(const struct gsp_py_layout *lay)
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

void gsp_py_walker_init(struct gsp_py_walker *walker, struct gsp_mem *mem,
                        const struct gsp_py_runtime *run)
{
    memset(walker, 0, sizeof(*walker));
    walker->mem = mem;
    walker->run = run;
    walker->fits = fits(&run->layout);
    gsp_py_codes_init(&walker->codes, mem, run);
}

bool gsp_py_walker_tidy(struct gsp_py_walker *walker)
{
    if (!gsp_py_codes_tidy(&walker->codes))
        return false;
    gsp_hmap_clear(&walker->edges);
    memset(walker->known, 0, sizeof(walker->known));
    return true;
}

void gsp_py_walker_free(struct gsp_py_walker *walker)
{
    gsp_py_codes_free(&walker->codes);
    gsp_hmap_free(&walker->edges);
}

/* Offsets of a layout lie within the header that is viewed: fits() has checked. */
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
static int read_iframe(const struct gsp_py_layout *lay, struct gsp_snap *snap, gsp_raddr addr,
                       struct raw *raw)
{
    const unsigned char *bytes;
    int rc = gsp_snap_view(snap, addr, lay->iframe_localsplus, &bytes);
    if (rc != GSP_OK)
        return rc;
    unsigned char owner = bytes[lay->iframe_owner];
    raw->addr = addr;
    raw->back = word_at(bytes, lay->iframe_previous);
    raw->code = word_at(bytes, lay->iframe_executable) & REF_MASK;
    raw->func = word_at(bytes, lay->iframe_funcobj) & REF_MASK;
    raw->instr = word_at(bytes, lay->iframe_instr_ptr);
    raw->is_shim = owner >= OWNER_SHIM;
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
    /* A frame that stands before its first instruction (one unit ahead of it up to 3.12) has
     * called nobody yet, whatever older frames and values lie above it. */
    uint64_t start = raw->code + lay->code_code_adaptive;
    bool unstarted = raw->instr == start || raw->instr + 2 == start;
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
    int rc = gsp_snap_view(snap, addr, len, &bytes);
    if (rc != GSP_OK)
        return rc;
    signed char state = (signed char)bytes[lay->frame_f_state];
    *raw = (struct raw){.addr = addr,
                        .back = word_at(bytes, lay->frame_f_back),
                        .code = word_at(bytes, lay->frame_f_code),
                        .instr = (uint32_t)int_at(bytes, lay->frame_f_lasti)};
    /* 3.10: FRAME_EXECUTING is 0; before: f_executing is 1.  Callers execute too. */
    raw->executing = GSP_PY_MINOR(lay->version) == 10 ? state == 0 : state == 1;
    return GSP_OK;
}

static int read_frame(const struct gsp_py_layout *lay, struct gsp_snap *snap, gsp_raddr addr,
                      struct raw *raw)
{
    if (addr & 7)
        return GSP_E_FORMAT;
    return lay->frames == GSP_PY_FRAMES_OBJECTS ? read_frame_object(lay, snap, addr, raw)
                                                : read_iframe(lay, snap, addr, raw);
}

static int read_top_pointer(const struct gsp_py_layout *lay, struct gsp_snap *snap,
                            gsp_raddr tstate, gsp_raddr *out)
{
    uint64_t word = 0;
    int rc;
    switch (lay->frames) {
    case GSP_PY_FRAMES_OBJECTS:
        return gsp_snap_read(snap, tstate + lay->tstate_frame, out, 8);
    case GSP_PY_FRAMES_CURRENT:
        return gsp_snap_read(snap, tstate + lay->tstate_current_frame, out, 8);
    case GSP_PY_FRAMES_CFRAME:
        rc = gsp_snap_read(snap, tstate + lay->tstate_cframe, &word, 8);
        if (rc != GSP_OK)
            return rc;
        return gsp_snap_read(snap, word + lay->cframe_current_frame, out, 8);
    }
    return GSP_E_FORMAT;
}

/* Where the frame that raw calls would begin: frames lie one behind the other. */
static gsp_raddr next_frame(const struct gsp_py_walker *walker, const struct raw *raw)
{
    const uint32_t *index = gsp_hmap_get(&walker->codes.by_addr, raw->code, 0);
    if (!index || !raw->on_data_stack)
        return 0;
    const struct gsp_py_code *code = &walker->codes.codes[*index];
    return raw->addr + walker->run->layout.iframe_localsplus +
           8ULL * (code->locals_count + code->stack_words);
}

/* The pointer was read before the frames.  If the frame it names is not executing, then
 * either it has called on (the executing one lies above) or it has returned (it lies below). */
static int settle_top(struct gsp_py_walker *walker, struct gsp_snap *snap, struct raw *top)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    if (top->executing || top->is_shim)
        return GSP_OK;
    struct raw up = *top;
    for (unsigned i = 0; i < TOP_STEPS; i++) {
        gsp_raddr addr = next_frame(walker, &up);
        gsp_raddr caller = up.addr;
        if (addr == 0 || read_iframe(lay, snap, addr, &up) != GSP_OK || up.back != caller ||
            up.is_shim)
            break;
        if (up.executing) {
            *top = up;
            return GSP_OK;
        }
    }
    struct raw down = *top;
    for (unsigned i = 0; i < TOP_STEPS && down.back; i++) {
        if (read_iframe(lay, snap, down.back, &down) != GSP_OK)
            break;
        if (down.executing) {
            *top = down;
            return GSP_OK;
        }
    }
    return GSP_OK; /* nobody claims to execute: the thread is in a C function */
}

/* A frame object that is not executing has returned: its caller is the top. */
static int settle_top_object(const struct gsp_py_layout *lay, struct gsp_snap *snap,
                             struct raw *top)
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

/* The code object and location of a frame, into its place in walker->known. */
static int look_up(struct gsp_py_walker *walker, const struct raw *raw, int64_t now_ns,
                   struct gsp_py_known *known)
{
    uint32_t code;
    uint32_t loc;
    known->frame = 0;
    int rc = gsp_py_codes_get(&walker->codes, raw->code, now_ns, &code);
    if (rc != GSP_OK)
        return rc;
    rc = gsp_py_codes_loc(&walker->codes, code, raw->instr, raw->tlbc_index, &loc);
    if (rc != GSP_OK) {
        /* Perhaps another code object is at this address now. */
        walker->codes.codes[code].due_ns = now_ns;
        gsp_ignore(gsp_py_codes_check(&walker->codes, &code, 1, now_ns));
        return rc;
    }
    *known = (struct gsp_py_known){.frame = raw->addr,
                                   .code_addr = raw->code,
                                   .instr = raw->instr,
                                   .tlbc_index = raw->tlbc_index,
                                   .code = code,
                                   .loc = loc,
                                   .caller_loc = GSP_PY_NO_LOC};
    return GSP_OK;
}

static int add_frame(struct gsp_py_walker *walker, const struct raw *raw, int64_t now_ns)
{
    struct gsp_py_chain *chain = &walker->chain;
    struct gsp_py_frame *frame = &chain->frames[chain->depth];
    frame->known = (uint32_t)(raw->addr >> 4 ^ raw->addr >> 14) & (GSP_PY_KNOWN_MAX - 1);
    struct gsp_py_known *known = &walker->known[frame->known];
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
    frame->direct = raw->on_data_stack;
    frame->in_generator = raw->in_generator;
    frame->is_entry = raw->is_entry;
    chain->codes[chain->depth] = frame->code;
    chain->depth++;
    return GSP_OK;
}

/* Can a stack end with this frame?  A generator that is suspended has no caller either: with it
 * at the end a stack was read while the generator came or went. */
static bool may_be_last(const struct gsp_py_layout *lay, struct gsp_snap *snap,
                        const struct raw *raw)
{
    signed char state = 0;
    if (lay->frames == GSP_PY_FRAMES_OBJECTS)
        return raw->executing; /* callers are too */
    if (raw->is_shim || !raw->in_generator)
        return true;
    if (GSP_PY_MINOR(lay->version) >= 12)
        return false; /* C code that resumes one puts a shim below it */
    return gsp_snap_read(snap, raw->addr - lay->gen_iframe + lay->gen_frame_state, &state, 1) ==
               GSP_OK &&
           state == 0; /* FRAME_EXECUTING */
}

static int read_chain(struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr tstate,
                      int64_t now_ns)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    struct gsp_py_chain *chain = &walker->chain;
    chain->depth = 0;
    chain->cut = false;
    gsp_raddr addr;
    int rc = read_top_pointer(lay, snap, tstate, &addr);
    if (rc != GSP_OK || addr == 0)
        return rc;
    struct raw raw = {0};
    rc = read_frame(lay, snap, addr, &raw);
    if (rc == GSP_OK && !walker->still)
        rc = lay->frames == GSP_PY_FRAMES_OBJECTS ? settle_top_object(lay, snap, &raw)
                                                  : settle_top(walker, snap, &raw);
    for (size_t hops = 0; rc == GSP_OK; hops++) {
        if (!raw.is_shim) {
            rc = add_frame(walker, &raw, now_ns);
        } else if (chain->depth) {
            chain->frames[chain->depth - 1].direct = false;
            chain->frames[chain->depth - 1].is_entry = true;
        }
        if (rc == GSP_OK && raw.back == 0 && !may_be_last(lay, snap, &raw))
            rc = GSP_E_TORN;
        if (rc != GSP_OK || raw.back == 0)
            break;
        if (chain->depth == GSP_PY_DEPTH_MAX || hops > HOPS_MAX) {
            chain->cut = true;
            break;
        }
        rc = read_frame(lay, snap, raw.back, &raw);
    }
    return rc;
}

/* Does the caller's value stack still hold the function that the callee runs? */
static bool caller_holds(struct gsp_snap *snap, const struct gsp_py_frame *caller,
                         const struct gsp_py_frame *callee)
{
    if (!callee->direct || callee->caller != caller->addr || !callee->func || !caller->sp)
        return false;
    uint64_t words[PROOF_WORDS];
    /* A stack that ends within the callee's frame is that of another frame which lay here; and the
     * function that is found there is the callee's own word, no proof. */
    if (caller->sp >= callee->addr && caller->sp - callee->addr < HEADER_MAX)
        return false;
    if (caller->sp + sizeof(words) > callee->addr && caller->sp < callee->addr) {
        /* The stack of the caller ends where the callee begins. */
        size_t count = (callee->addr - caller->sp) / 8;
        if (count == 0 || gsp_snap_read(snap, caller->sp, words, count * 8) != GSP_OK)
            return false;
        for (size_t i = 0; i < count; i++) {
            if ((words[i] & REF_MASK) == callee->func)
                return true;
        }
        return false;
    }
    if (gsp_snap_read(snap, caller->sp, words, sizeof(words)) != GSP_OK)
        return false;
    for (size_t i = 0; i < PROOF_WORDS; i++) {
        if ((words[i] & REF_MASK) == callee->func)
            return true;
    }
    return false;
}

/* One system call that looks at a generator, its caller, and both again and again: the caller
 * cannot move while the generator has it for its caller, and that is over once it yields.  So what
 * is the same throughout was so at one moment, however short it lasted. */
struct looks {
    unsigned char callee[3][HEADER_MAX];
    unsigned char between[2][HEADER_MAX]; /* a shim, where C code resumed the generator */
    unsigned char caller[2][HEADER_MAX];
};

static bool look_often(const struct gsp_py_layout *lay, struct gsp_mem *mem,
                       const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                       struct looks *looks)
{
    const size_t len = lay->iframe_localsplus;
    struct gsp_mem_span spans[7];
    size_t count = 0;
    for (size_t i = 0; i < 3; i++) {
        spans[count++] = (struct gsp_mem_span){callee->addr, len, looks->callee[i]};
        if (i == 2)
            break;
        if (callee->caller != caller->addr)
            spans[count++] = (struct gsp_mem_span){callee->caller, len, looks->between[i]};
        spans[count++] = (struct gsp_mem_span){caller->addr, len, looks->caller[i]};
    }
    return gsp_mem_gather(mem, spans, count, NULL) == GSP_OK;
}

/* Whether the generator runs for the caller at the place where the chain has it.  Another place at
 * which it does so is learnt on the way. */
static bool generator_runs(struct gsp_py_walker *walker, struct gsp_snap *snap,
                           const struct gsp_py_frame *caller, const struct gsp_py_frame *callee)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    struct looks looks;
    if (!callee->in_generator || !look_often(lay, snap->mem, caller, callee, &looks))
        return false;
    for (size_t i = 0; i < 3; i++) {
        if (word_at(looks.callee[i], lay->iframe_previous) != callee->caller ||
            (word_at(looks.callee[i], lay->iframe_executable) & REF_MASK) !=
                walker->codes.codes[callee->code].addr)
            return false;
    }
    if (callee->caller != caller->addr &&
        (word_at(looks.between[0], lay->iframe_previous) != caller->addr ||
         word_at(looks.between[1], lay->iframe_previous) != caller->addr))
        return false;
    const uint64_t instr = word_at(looks.caller[0], lay->iframe_instr_ptr);
    const uint64_t code = word_at(looks.caller[0], lay->iframe_executable);
    if (instr != word_at(looks.caller[1], lay->iframe_instr_ptr) ||
        code != word_at(looks.caller[1], lay->iframe_executable) ||
        (code & REF_MASK) != walker->codes.codes[caller->code].addr)
        return false;
    uint32_t tlbc_index = 0;
    if (lay->iframe_tlbc_index != GSP_NO_OFFSET)
        tlbc_index = (uint32_t)int_at(looks.caller[0], lay->iframe_tlbc_index);
    uint32_t loc = GSP_PY_NO_LOC;
    if (gsp_py_codes_loc(&walker->codes, caller->code, instr, tlbc_index, &loc) != GSP_OK)
        return false;
    if (loc != caller->loc)
        gsp_ignore(gsp_hmap_put(&walker->edges, loc, callee->code, 1));
    return loc == caller->loc;
}

static bool learn(struct gsp_py_walker *walker, uint64_t caller_loc, uint64_t callee_code)
{
    return gsp_hmap_put(&walker->edges, caller_loc, callee_code, 1);
}

/* Counts one more read running that shows this edge at this place; true once it is proven. */
static bool seen_again(struct gsp_py_seen *seen, uint32_t caller_loc,
                       const struct gsp_py_frame *callee, unsigned try)
{
    bool again = seen->frame == callee->addr && seen->callee_code == callee->code &&
                 seen->caller_loc == caller_loc && seen->last_try + 1 == try;
    seen->reads = again ? seen->reads + 1 : 1;
    seen->frame = callee->addr;
    seen->callee_code = callee->code;
    seen->caller_loc = caller_loc;
    seen->last_try = try;
    return seen->reads >= (caller_loc == NO_CALLER ? ROOT_READS : PROOF_READS);
}

/* True if every edge of the chain is proven, now or before. */
static bool prove(struct gsp_py_walker *walker, struct gsp_snap *snap, unsigned try)
{
    const struct gsp_py_chain *chain = &walker->chain;
    bool all = true;
    for (size_t i = 0; i < chain->depth; i++) {
        const struct gsp_py_frame *callee = &chain->frames[i];
        const struct gsp_py_frame *caller = i + 1 < chain->depth ? &chain->frames[i + 1] : NULL;
        if (!caller && chain->cut)
            break;
        uint32_t loc = caller ? caller->loc : NO_CALLER;
        struct gsp_py_known *known = &walker->known[callee->known];
        /* Another frame may have taken the place in this very walk. */
        bool mine = known->frame == callee->addr;
        if (gsp_likely(mine && known->caller_loc == loc))
            continue;
        if (gsp_hmap_get(&walker->edges, loc, callee->code)) {
            known->caller_loc = mine ? loc : known->caller_loc;
            continue;
        }
        /* Counted from the root, where the stack moves least. */
        struct gsp_py_seen *seen = &walker->seen[chain->depth - 1 - i];
        if ((caller && (caller_holds(snap, caller, callee) ||
                        generator_runs(walker, snap, caller, callee))) ||
            seen_again(seen, loc, callee, try)) {
            if (learn(walker, loc, callee->code))
                continue;
        }
        all = false;
    }
    return all;
}

int gsp_py_walk(struct gsp_py_walker *walker, struct gsp_snap *snap, gsp_raddr tstate,
                int64_t now_ns)
{
    struct gsp_py_chain *chain = &walker->chain;
    int rc = GSP_E_TORN;
    if (!walker->fits)
        return GSP_E_FORMAT;
    /* Tries are numbered on from walk to walk, so that what one saw is no proof for the next. */
    unsigned first = walker->last_try + 2;
    for (unsigned try = first; try < first + TRIES_MAX; try++) {
        walker->last_try = try;
        if (try > first) {
            gsp_snap_refresh(snap);
            walker->retries++;
        }
        rc = read_chain(walker, snap, tstate, now_ns);
        if (rc == GSP_E_NOPROC || rc == GSP_E_PERM || rc == GSP_E_NOMEM || rc == GSP_E_LIMIT)
            return rc;
        bool same = gsp_py_codes_check(&walker->codes, chain->codes, chain->depth, now_ns);
        if (rc != GSP_OK) {
            if (walker->still && try > first)
                return rc;
            continue;
        }
        if (!same)
            continue;
        if (walker->still || prove(walker, snap, try))
            return GSP_OK;
        rc = GSP_E_TORN;
    }
    return rc;
}
