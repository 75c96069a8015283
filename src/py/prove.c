/* SPDX-License-Identifier: Apache-2.0 */
#include "py/prove.h"

#include <string.h>

#include "base/time.h"

/* Bytes of a frame before its local variables; walk.c has checked that it is no more. */
#define HEADER_MAX  256U
/* Reads running that must show the outermost frame to prove it.  It stays where it is as long as
 * its thread, or greenlet, does; what generators look like while they come and go may be there a
 * few times running. */
#define ROOT_READS  8U
/* Times that both frames are read in one look at a call. */
#define LOOKS       3U
/* References of 3.14 and later carry marks in their low bits. */
#define REF_MASK    (~7ULL)
/* Words from the end of the caller's value stack on in which the called function is looked for. */
#define HELD_WORDS  4U
/* A call of which neither the bytecode nor a look tells is believed once it was seen in so many
 * intervals of time, and not seldom: at one in so many sights of the callee.  Less will do where
 * the caller's value stack holds the function.  Of the sights of a function some three in a
 * thousand show the same wrong caller: the one that follows the right one. */
#define SIGHT_NS    (50 * GSP_NS_PER_US)
#define HELD_SIGHTS 3U
#define HELD_SHARE  16U
#define BARE_SIGHTS 6U
#define BARE_SHARE  8U
#define SIGHTS_BITS 8U
/* Looks that must have shown a call before it is believed without one. */
#define SHOWN_LOOKS 3U
/* Bytes from a frame to that of its callee, at most. */
#define REGION_MAX  1024U
/* Chunks of frames begin at a page. */
#define PAGE_BYTES  4096U
/* Bytes of the caller's instructions that are read, from this many before the one it stands at. */
#define SITE_BEFORE 4U
#define SITE_BYTES  16U

/* No location, and not the mark of a frame whose caller is unknown either. */
#define NO_CALLER   (GSP_PY_NO_LOC - 1)

/* One system call that looks at a call and at what the caller's bytecode says of it. */
struct looks {
    gsp_raddr top[2];
    unsigned char callee[LOOKS][HEADER_MAX];
    unsigned char between[LOOKS][HEADER_MAX]; /* a shim, where C code made the call */
    unsigned char caller[LOOKS][HEADER_MAX];
    unsigned char site[SITE_BYTES];
    uint32_t version;  /* of the function that was called */
    gsp_raddr of_code; /* the code of that function */
    bool has_site;
};

/* The members of a frame that tell who calls whom. */
struct members {
    size_t len;
    gsp_py_off back;
    gsp_py_off code;
    gsp_py_off instr;
    size_t instr_len;
};

static struct members members_of(const struct gsp_py_layout *lay)
{
    if (lay->frames == GSP_PY_FRAMES_OBJECTS)
        return (struct members){lay->frame_f_lasti + 4U, lay->frame_f_back, lay->frame_f_code,
                                lay->frame_f_lasti, 4};
    return (struct members){lay->iframe_localsplus, lay->iframe_previous, lay->iframe_executable,
                            lay->iframe_instr_ptr, 8};
}

static uint64_t word_at(const unsigned char *bytes, gsp_py_off off, size_t len)
{
    uint64_t v = 0;
    memcpy(&v, bytes + off, len);
    return v;
}

/* Frames lie one behind the other: where bytecode called, the callee begins where its caller ends,
 * or with a chunk.  What does not is a frame of another moment. */
static bool is_next(const struct gsp_py_walker *walker, const struct gsp_py_frame *caller,
                    const struct gsp_py_frame *callee)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    const struct gsp_py_code *code = &walker->codes.codes[caller->code];
    gsp_raddr end =
        caller->addr + lay->iframe_localsplus + 8ULL * (code->locals_count + code->stack_words);
    /* The very first frame of a thread leaves a word out. */
    uint64_t in_page = callee->addr % PAGE_BYTES;
    return callee->addr == end || in_page == lay->stack_chunk_data ||
           in_page == lay->stack_chunk_data + 8U;
}

/* In which order: an even beat could meet the program's own, and show the caller of one moment and
 * the callee of another each time. */
static const bool IS_CALLER[2 * LOOKS] = {false, true, true, false, true, false};

/* Puts the spans of the reads of both frames behind the others. */
static size_t plan_reads(const struct gsp_py_layout *lay, const struct gsp_py_frame *caller,
                         const struct gsp_py_frame *callee, struct looks *looks,
                         struct gsp_mem_span *spans)
{
    const size_t len = members_of(lay).len;
    size_t callers = 0;
    size_t callees = 0;
    size_t count = 0;
    for (size_t i = 0; i < GSP_COUNT(IS_CALLER); i++) {
        if (!IS_CALLER[i]) {
            spans[count++] = (struct gsp_mem_span){callee->addr, len, looks->callee[callees++]};
            continue;
        }
        if (callee->caller != caller->addr)
            spans[count++] = (struct gsp_mem_span){callee->caller, len, looks->between[callers]};
        spans[count++] = (struct gsp_mem_span){caller->addr, len, looks->caller[callers++]};
    }
    return count;
}

static bool look(struct gsp_py_walker *walker, struct gsp_mem *mem,
                 const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                 struct looks *looks)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    struct gsp_mem_span spans[3 * LOOKS + 2 + 3];
    size_t count = 0;
    spans[count++] = (struct gsp_mem_span){walker->top_at, 8, &looks->top[0]};
    count += plan_reads(lay, caller, callee, looks, spans + count);
    spans[count++] = (struct gsp_mem_span){walker->top_at, 8, &looks->top[1]};
    size_t before = count;
    if (callee->direct && callee->func && lay->function_version != GSP_NO_OFFSET) {
        spans[count++] =
            (struct gsp_mem_span){caller->instr - SITE_BEFORE, SITE_BYTES, looks->site};
        spans[count++] =
            (struct gsp_mem_span){callee->func + lay->function_version, 4, &looks->version};
        spans[count++] =
            (struct gsp_mem_span){callee->func + lay->function_code, 8, &looks->of_code};
    }
    size_t done = 0;
    int rc = gsp_mem_gather(mem, spans, count, &done);
    looks->has_site = rc == GSP_OK && count > before;
    return done >= before;
}

/* Does the caller's bytecode itself name the function?  Where a call is specialised, its cache has
 * the function's version, which no two functions have in common. */
static bool site_names(const struct gsp_py_walker *walker, const struct looks *looks,
                       const struct gsp_py_frame *callee)
{
    if (!looks->has_site || looks->version == 0 ||
        looks->of_code != walker->codes.codes[callee->code].addr)
        return false;
    /* A frame that has called stands at the last unit of its cache in 3.11 and 3.12, later at the
     * call itself.  The version is behind one counter; that of a property behind a type's too. */
    unsigned minor = GSP_PY_MINOR(walker->run->layout.version);
    const size_t at[2] = {minor == 11   ? 0
                          : minor == 12 ? 2
                                        : SITE_BEFORE + 4,
                          minor < 13 ? SITE_BEFORE + 4 : SITE_BEFORE + 8};
    for (size_t i = 0; i < 2; i++) {
        uint32_t version;
        memcpy(&version, looks->site + at[i], sizeof(version));
        if (version == looks->version)
            return true;
    }
    return false;
}

/* From the caller's frame to the end of its callee's, if its bytecode called; else 0. */
static size_t region_bytes(const struct gsp_py_layout *lay, const struct gsp_py_frame *caller,
                           const struct gsp_py_frame *callee)
{
    if (!callee->direct || callee->caller != caller->addr || !callee->func ||
        callee->addr < caller->addr + lay->iframe_localsplus ||
        callee->addr - caller->addr > REGION_MAX ||
        caller->sp < caller->addr + lay->iframe_localsplus || caller->sp >= callee->addr)
        return 0;
    return (size_t)(callee->addr - caller->addr) + lay->iframe_localsplus;
}

/* Does a copy of both frames show the call: the caller where it stands, the function in its value
 * stack, and the callee? */
static bool region_shows(const struct gsp_py_walker *walker, const unsigned char *low,
                         const struct gsp_py_frame *caller, const struct gsp_py_frame *callee)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    const unsigned char *high = low + (callee->addr - caller->addr);
    if (word_at(low, lay->iframe_instr_ptr, 8) != caller->instr ||
        (word_at(low, lay->iframe_executable, 8) & REF_MASK) !=
            walker->codes.codes[caller->code].addr ||
        (word_at(high, lay->iframe_executable, 8) & REF_MASK) !=
            walker->codes.codes[callee->code].addr ||
        word_at(high, lay->iframe_previous, 8) != caller->addr ||
        (word_at(high, lay->iframe_funcobj, 8) & REF_MASK) != callee->func)
        return false;
    const unsigned char *word = low + (caller->sp - caller->addr);
    for (size_t i = 0; i < HELD_WORDS && word + 8 <= high; i++, word += 8) {
        if ((word_at(word, 0, 8) & REF_MASK) == callee->func)
            return true;
    }
    return false;
}

/* Do two copies, one right after the other, show the same call?  A copy that mixes two moments may
 * show a function that the caller calls elsewhere; for the next copy to show the same, the caller
 * would have to be back at its place and away again in a tenth of a microsecond. */
static bool held_twice(const struct gsp_py_walker *walker, struct gsp_snap *snap,
                       const struct gsp_py_frame *caller, const struct gsp_py_frame *callee)
{
    const unsigned char *first;
    size_t len = region_bytes(&walker->run->layout, caller, callee);
    if (len == 0 || gsp_snap_view(snap, caller->addr, len, &first) != GSP_OK)
        return false;
    const unsigned char *second = gsp_snap_twin(snap, caller->addr, len);
    return second && region_shows(walker, first, caller, callee) &&
           region_shows(walker, second, caller, callee);
}

/* Was the callee there for the caller throughout the look?  The caller cannot move meanwhile, so
 * what is the same at every read of both was so at one moment.  Gives where the caller stood. */
static bool stands(const struct gsp_py_walker *walker, const struct looks *looks,
                   const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                   uint64_t *instr)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    const struct members at = members_of(lay);
    for (size_t i = 0; i < LOOKS; i++) {
        if (word_at(looks->callee[i], at.back, 8) != callee->caller ||
            (word_at(looks->callee[i], at.code, 8) & REF_MASK) !=
                walker->codes.codes[callee->code].addr)
            return false;
    }
    for (size_t i = 0; i < LOOKS && callee->caller != caller->addr; i++) {
        if (word_at(looks->between[i], at.back, 8) != caller->addr)
            return false;
    }
    *instr = word_at(looks->caller[0], at.instr, at.instr_len);
    for (size_t i = 0; i < LOOKS; i++) {
        if (word_at(looks->caller[i], at.instr, at.instr_len) != *instr ||
            (word_at(looks->caller[i], at.code, 8) & REF_MASK) !=
                walker->codes.codes[caller->code].addr)
            return false;
    }
    /* The frame of a function that has returned stays as it was: the innermost one must be the
     * thread's at both ends. */
    bool is_top = callee == &walker->chain.frames[0];
    return !is_top || (looks->top[0] == callee->addr && looks->top[1] == callee->addr);
}

/* The callee of a place, as long as it has but one. */
static void note_callee(struct gsp_py_walker *walker, uint32_t loc, uint32_t callee)
{
    struct gsp_py_loc *site = &walker->codes.locs[loc];
    site->is_many |= site->callee != GSP_PY_NO_LOC && site->callee != callee;
    site->callee = callee;
}

static bool learn(struct gsp_py_walker *walker, uint64_t caller_loc, uint64_t callee_code)
{
    return gsp_hmap_put(&walker->edges, caller_loc, callee_code, 1);
}

/* A look has shown the call: once may be an accident, which must not be believed for ever. */
static void learn_shown(struct gsp_py_walker *walker, uint32_t loc, uint32_t callee)
{
    const uint32_t *known = gsp_hmap_get(&walker->shown, loc, callee);
    const uint32_t count = known ? *known + 1 : 1;
    note_callee(walker, loc, callee);
    if (gsp_hmap_put(&walker->shown, loc, callee, count) && count >= SHOWN_LOOKS)
        gsp_ignore(learn(walker, loc, callee));
}

/* Looks at a call alone.  Another place from which the caller makes it is learnt on the way. */
static bool call_shows(struct gsp_py_walker *walker, struct gsp_snap *snap,
                       const struct gsp_py_frame *caller, const struct gsp_py_frame *callee)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    struct looks looks;
    uint64_t instr;
    if (!look(walker, snap->mem, caller, callee, &looks))
        return false;
    if (site_names(walker, &looks, callee)) {
        note_callee(walker, caller->loc, callee->code);
        return learn(walker, caller->loc, callee->code);
    }
    if (!stands(walker, &looks, caller, callee, &instr))
        return false;
    uint32_t loc = caller->loc;
    if (instr != caller->instr) {
        uint32_t tlbc_index = 0;
        if (lay->iframe_tlbc_index != GSP_NO_OFFSET)
            tlbc_index = (uint32_t)word_at(looks.caller[0], lay->iframe_tlbc_index, 4);
        if (gsp_py_codes_loc(&walker->codes, caller->code, instr, tlbc_index, &loc) != GSP_OK)
            return false;
    }
    learn_shown(walker, loc, callee->code);
    return loc == caller->loc;
}

/* Does the value stack of a frame, which ended at sp when the frame called, still hold the function
 * that the frame at callee runs? */
static bool holds(struct gsp_snap *snap, gsp_raddr sp, gsp_raddr callee, gsp_raddr func)
{
    /* A stack that ends within the callee's frame is that of another frame which lay here; and the
     * function that is found there is the callee's own word, no proof. */
    if (!sp || !func || (sp >= callee && sp - callee < HEADER_MAX))
        return false;
    uint64_t words[HELD_WORDS];
    size_t count = HELD_WORDS;
    /* The stack of the caller ends where the callee begins. */
    if (sp + sizeof(words) > callee && sp < callee)
        count = (callee - sp) / 8;
    if (count == 0 || gsp_snap_read(snap, sp, words, count * 8) != GSP_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        if ((words[i] & REF_MASK) == func)
            return true;
    }
    return false;
}

/* Calls too short for a look, of which the bytecode does not tell: a call that walks see again and
 * again, and not seldom among those of this callee, is one. */
static bool seen_often(struct gsp_py_walker *walker, struct gsp_snap *snap,
                       const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                       int64_t now_ns)
{
    /* A frame that has done nothing yet looks as one does that made a generator long ago.  And a
     * generator often lies where the one before it lay: its caller is another, and the same. */
    const struct gsp_py_loc *site = &walker->codes.locs[caller->loc];
    if (callee->unstarted || callee->in_generator)
        return false;
    /* The bytecode tells of another callee, and of no third one. */
    if (callee->direct && site->callee != GSP_PY_NO_LOC && !site->is_many)
        return false;
    const uint32_t mark = (uint32_t)(now_ns / SIGHT_NS) << SIGHTS_BITS;
    const uint32_t *known = gsp_hmap_get(&walker->sights, caller->loc, callee->code);
    uint32_t count = known ? *known & ((1U << SIGHTS_BITS) - 1) : 0;
    /* Reads that follow each other at once show the same again and again. */
    if (known && (*known & ~((1U << SIGHTS_BITS) - 1)) == mark)
        return false;
    /* Each frame object says whether it executes, and few places are used by several functions. */
    bool is_object = walker->run->layout.frames == GSP_PY_FRAMES_OBJECTS;
    bool held = callee->direct && callee->caller == caller->addr &&
                holds(snap, caller->sp, callee->addr, callee->func);
    if (callee->direct && !held && !is_object)
        return false;
    if (count < (1U << SIGHTS_BITS) - 1)
        count++;
    if (!gsp_hmap_put(&walker->sights, caller->loc, callee->code, mark | count))
        return false;
    uint64_t all = walker->codes.codes[callee->code].sights;
    if (held || is_object)
        return count >= HELD_SIGHTS && (uint64_t)count * HELD_SHARE >= all;
    return count >= BARE_SIGHTS && (uint64_t)count * BARE_SHARE >= all;
}

/* Counts one more read running that shows this outermost frame; true once it is proven. */
static bool root_again(struct gsp_py_seen *seen, const struct gsp_py_frame *root, unsigned try)
{
    bool again = seen->frame == root->addr && seen->code == root->code && seen->last_try + 1 == try;
    seen->reads = again ? seen->reads + 1 : 1;
    seen->frame = root->addr;
    seen->code = root->code;
    seen->last_try = try;
    return seen->reads >= ROOT_READS;
}

static bool is_call(struct gsp_py_walker *walker, struct gsp_snap *snap,
                    const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                    int64_t now_ns)
{
    if (held_twice(walker, snap, caller, callee)) {
        learn_shown(walker, caller->loc, callee->code);
        return true;
    }
    if (call_shows(walker, snap, caller, callee))
        return true;
    if (!seen_often(walker, snap, caller, callee, now_ns))
        return false;
    note_callee(walker, caller->loc, callee->code);
    return learn(walker, caller->loc, callee->code);
}

bool gsp_py__prove(struct gsp_py_walker *walker, struct gsp_snap *snap, int64_t now_ns,
                   unsigned try)
{
    const struct gsp_py_chain *chain = &walker->chain;
    bool all = true;
    for (size_t i = 0; i < chain->depth; i++) {
        const struct gsp_py_frame *callee = &chain->frames[i];
        const struct gsp_py_frame *caller = i + 1 < chain->depth ? &chain->frames[i + 1] : NULL;
        walker->codes.codes[callee->code].sights++;
        if (!caller && chain->cut)
            break;
        if (caller && callee->direct && callee->caller == caller->addr && caller->on_data_stack &&
            !is_next(walker, caller, callee))
            return false;
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
        all &= caller ? is_call(walker, snap, caller, callee, now_ns)
                      : root_again(&walker->root, callee, try) && learn(walker, loc, callee->code);
    }
    return all;
}
