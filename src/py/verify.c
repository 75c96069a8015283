/* SPDX-License-Identifier: Apache-2.0 */
#include "py/verify.h"

#include <string.h>

#include "base/time.h"

/* Maximum size of a frame before its local variables; walk.c checks it. */
#define HEADER_MAX     256U
/* Consecutive reads that verify an outermost frame. It exists as long as its thread or greenlet;
 * generators that are resumed or suspended can look like one for a few consecutive reads. */
#define ROOT_READS     8U
/* How often a probe reads both frames. */
#define PROBE_READS    3U
/* References of 3.14 and later have tags in their low bits. */
#define REF_MASK       (~7ULL)
/* Words at the end of the caller's value stack that are searched for the called function. */
#define HELD_WORDS     4U
/* An edge that neither the bytecode nor a probe verifies is accepted after this number of sightings
 * in different intervals, if they are at least 1/SHARE of the callee's sightings. Fewer are enough
 * if the caller's value stack holds the function. About three in a thousand sightings of a function
 * show the same wrong caller: the one after the right one. */
#define SIGHTING_NS    (50 * GSP_NS_PER_US)
#define HELD_SIGHTINGS 3U
#define HELD_SHARE     16U
#define BARE_SIGHTINGS 6U
#define BARE_SHARE     8U
#define SIGHTINGS_BITS 8U
/* Copies or probes that must show a call before the edge counts as verified. */
#define CONFIRMATIONS  3U
/* Maximum distance from a frame to that of its callee, bytes. */
#define REGION_MAX     1024U
/* Chunks of frames begin at a page. */
#define PAGE_BYTES     4096U
/* Bytes of the caller's bytecode that are read, and how many of them precede its instruction. */
#define SITE_BEFORE    4U
#define SITE_BYTES     16U

/* The caller of an outermost frame; differs from GSP_PY_NO_LOC, which means unknown. */
#define NO_CALLER      (GSP_PY_NO_LOC - 1)

/* The result of one system call that reads both frames of a call and the caller's bytecode. */
struct probe {
    gsp_raddr top[2];
    unsigned char callee[PROBE_READS][HEADER_MAX];
    unsigned char between[PROBE_READS][HEADER_MAX]; /* a shim, if C code made the call */
    unsigned char caller[PROBE_READS][HEADER_MAX];
    unsigned char site[SITE_BYTES];
    uint32_t version;  /* of the called function */
    gsp_raddr of_code; /* the code of that function */
    bool has_site;
};

/* The members of a frame that identify a call. */
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

/* Frames are contiguous: the frame of a direct call begins where its caller's frame ends, or at the
 * start of a chunk. Otherwise the two frames were copied at different times. */
static bool is_adjacent(const struct gsp_py_walker *walker, const struct gsp_py_frame *caller,
                        const struct gsp_py_frame *callee)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    const struct gsp_py_code *code = &walker->codes.codes[caller->code];
    gsp_raddr end =
        caller->addr + lay->iframe_localsplus + 8ULL * (code->locals_count + code->stack_words);
    /* The first frame of a thread skips one word. */
    uint64_t in_page = callee->addr % PAGE_BYTES;
    return callee->addr == end || in_page == lay->stack_chunk_data ||
           in_page == lay->stack_chunk_data + 8U;
}

/* The order of the reads. It is irregular, because regular reads could be in step with the program
 * and see the caller and the callee at different times each time. */
static const bool IS_CALLER[2 * PROBE_READS] = {false, true, true, false, true, false};

/* Writes the spans that read both frames. Returns their number. */
static size_t plan_reads(const struct gsp_py_layout *lay, const struct gsp_py_frame *caller,
                         const struct gsp_py_frame *callee, struct probe *probe,
                         struct gsp_mem_span *spans)
{
    const size_t len = members_of(lay).len;
    size_t callers = 0;
    size_t callees = 0;
    size_t count = 0;
    for (size_t i = 0; i < GSP_COUNT(IS_CALLER); i++) {
        if (!IS_CALLER[i]) {
            spans[count++] = (struct gsp_mem_span){callee->addr, len, probe->callee[callees++]};
            continue;
        }
        if (callee->caller != caller->addr)
            spans[count++] = (struct gsp_mem_span){callee->caller, len, probe->between[callers]};
        spans[count++] = (struct gsp_mem_span){caller->addr, len, probe->caller[callers++]};
    }
    return count;
}

static bool read_probe(struct gsp_py_walker *walker, struct gsp_mem *mem,
                       const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                       struct probe *probe)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    struct gsp_mem_span spans[3 * PROBE_READS + 2 + 3];
    size_t count = 0;
    spans[count++] = (struct gsp_mem_span){walker->top_at, 8, &probe->top[0]};
    count += plan_reads(lay, caller, callee, probe, spans + count);
    spans[count++] = (struct gsp_mem_span){walker->top_at, 8, &probe->top[1]};
    size_t before = count;
    if (callee->direct && callee->func && lay->function_version != GSP_NO_OFFSET) {
        spans[count++] =
            (struct gsp_mem_span){caller->instr - SITE_BEFORE, SITE_BYTES, probe->site};
        spans[count++] =
            (struct gsp_mem_span){callee->func + lay->function_version, 4, &probe->version};
        spans[count++] =
            (struct gsp_mem_span){callee->func + lay->function_code, 8, &probe->of_code};
    }
    size_t done = 0;
    int rc = gsp_proc_mem_gather(mem, spans, count, &done);
    probe->has_site = rc == GSP_OK && count > before;
    return done >= before;
}

/* Returns whether the caller's bytecode names the function: the inline cache of a specialized call
 * contains the function's version, which is unique. */
static bool site_names(const struct gsp_py_walker *walker, const struct probe *probe,
                       const struct gsp_py_frame *callee)
{
    if (!probe->has_site || probe->version == 0 ||
        probe->of_code != walker->codes.codes[callee->code].addr)
        return false;
    /* The instruction pointer of a caller is at the last unit of the cache in 3.11 and 3.12, later
     * at the call itself. The version follows a counter; for a property also a type version. */
    unsigned minor = GSP_PY_MINOR(walker->run->layout.version);
    const size_t at[2] = {minor == 11   ? 0
                          : minor == 12 ? 2
                                        : SITE_BEFORE + 4,
                          minor < 13 ? SITE_BEFORE + 4 : SITE_BEFORE + 8};
    for (size_t i = 0; i < 2; i++) {
        uint32_t version;
        memcpy(&version, probe->site + at[i], sizeof(version));
        if (version == probe->version)
            return true;
    }
    return false;
}

/* Bytes from the caller's frame to the end of its callee's, for a direct call; else 0. */
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

/* Returns whether a copy of both frames shows the call: the caller at its instruction, the function
 * in the caller's value stack, and the callee. */
static bool copy_shows_call(const struct gsp_py_walker *walker, const unsigned char *low,
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
    for (size_t i = 0; i < HELD_WORDS && word + 8 <= high; i++, word += 8)
        if ((word_at(word, 0, 8) & REF_MASK) == callee->func)
            return true;
    return false;
}

/* Returns whether two consecutive copies show the same call. A torn copy can show a function that
 * the caller calls elsewhere. For the next copy to show the same, the caller would have to return
 * to the instruction and leave it again within a tenth of a microsecond. */
static bool copies_agree(const struct gsp_py_walker *walker, struct gsp_snap *snap,
                         const struct gsp_py_frame *caller, const struct gsp_py_frame *callee)
{
    const unsigned char *first;
    size_t len = region_bytes(&walker->run->layout, caller, callee);
    if (len == 0 || gsp_proc_snap_view(snap, caller->addr, len, &first) != GSP_OK)
        return false;
    const unsigned char *second = gsp_proc_snap_twin(snap, caller->addr, len);
    return second && copy_shows_call(walker, first, caller, callee) &&
           copy_shows_call(walker, second, caller, callee);
}

/* Returns whether all reads of a probe show the callee called by the caller. The caller cannot
 * advance while it waits for the callee, so equal reads of both are consistent. *instr is the
 * caller's instruction. */
static bool probe_agrees(const struct gsp_py_walker *walker, const struct probe *probe,
                         const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                         uint64_t *instr)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    const struct members at = members_of(lay);
    for (size_t i = 0; i < PROBE_READS; i++)
        if (word_at(probe->callee[i], at.back, 8) != callee->caller ||
            (word_at(probe->callee[i], at.code, 8) & REF_MASK) !=
                walker->codes.codes[callee->code].addr)
            return false;
    for (size_t i = 0; i < PROBE_READS && callee->caller != caller->addr; i++)
        if (word_at(probe->between[i], at.back, 8) != caller->addr)
            return false;
    *instr = word_at(probe->caller[0], at.instr, at.instr_len);
    for (size_t i = 0; i < PROBE_READS; i++)
        if (word_at(probe->caller[i], at.instr, at.instr_len) != *instr ||
            (word_at(probe->caller[i], at.code, 8) & REF_MASK) !=
                walker->codes.codes[caller->code].addr)
            return false;
    /* The frame of a function that has returned is not overwritten, so the thread's pointer must
     * refer to the innermost frame before and after the reads. */
    bool is_top = callee == &walker->chain.frames[0];
    return !is_top || (probe->top[0] == callee->addr && probe->top[1] == callee->addr);
}

/* Records the callee of a location, and whether it has several. */
static void note_callee(struct gsp_py_walker *walker, uint32_t loc, uint32_t callee)
{
    struct gsp_py_loc *site = &walker->codes.locs[loc];
    site->is_many |= site->callee != GSP_PY_NO_LOC && site->callee != callee;
    site->callee = callee;
}

static bool add_edge(struct gsp_py_walker *walker, uint64_t caller_loc, uint64_t callee_code)
{
    return gsp_hmap_put(&walker->edges, caller_loc, callee_code, 1);
}

/* Counts a copy or probe that showed the call. A single one can be wrong by chance, so the edge is
 * remembered only after several. */
static void confirm(struct gsp_py_walker *walker, uint32_t loc, uint32_t callee)
{
    const uint32_t *known = gsp_hmap_get(&walker->confirmed, loc, callee);
    const uint32_t count = known ? *known + 1 : 1;
    note_callee(walker, loc, callee);
    if (gsp_hmap_put(&walker->confirmed, loc, callee, count) && count >= CONFIRMATIONS)
        gsp_ignore(add_edge(walker, loc, callee));
}

/* Probes one call. If the caller makes the call from another location by now, confirms that edge
 * and returns false. */
static bool probe_call(struct gsp_py_walker *walker, struct gsp_snap *snap,
                       const struct gsp_py_frame *caller, const struct gsp_py_frame *callee)
{
    const struct gsp_py_layout *lay = &walker->run->layout;
    struct probe probe;
    uint64_t instr;
    if (!read_probe(walker, snap->mem, caller, callee, &probe))
        return false;
    if (site_names(walker, &probe, callee)) {
        note_callee(walker, caller->loc, callee->code);
        return add_edge(walker, caller->loc, callee->code);
    }
    if (!probe_agrees(walker, &probe, caller, callee, &instr))
        return false;
    uint32_t loc = caller->loc;
    if (instr != caller->instr) {
        uint32_t tlbc_index = 0;
        if (lay->iframe_tlbc_index != GSP_NO_OFFSET)
            tlbc_index = (uint32_t)word_at(probe.caller[0], lay->iframe_tlbc_index, 4);
        if (gsp_py__codes_loc(&walker->codes, caller->code, instr, tlbc_index, &loc) != GSP_OK)
            return false;
    }
    confirm(walker, loc, callee->code);
    return loc == caller->loc;
}

/* Returns whether the value stack of a caller, which ended at sp at the call, still holds the
 * function of the callee. */
static bool stack_holds(struct gsp_snap *snap, gsp_raddr sp, gsp_raddr callee, gsp_raddr func)
{
    /* A stack that ends inside the callee's frame belonged to an earlier frame at this address, and
     * the function found there would be the callee's own member. */
    if (!sp || !func || (sp >= callee && sp - callee < HEADER_MAX))
        return false;
    uint64_t words[HELD_WORDS];
    size_t count = HELD_WORDS;
    /* The caller's stack ends where the callee begins. */
    if (sp + sizeof(words) > callee && sp < callee)
        count = (callee - sp) / 8;
    if (count == 0 || gsp_proc_snap_read(snap, sp, words, count * 8) != GSP_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        if ((words[i] & REF_MASK) == func)
            return true;
    return false;
}

/* Verifies calls that are too short for a probe and not named by the bytecode: by several sightings
 * that are a sufficient share of the callee's sightings. */
static bool seen_often(struct gsp_py_walker *walker, struct gsp_snap *snap,
                       const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                       int64_t now_ns)
{
    /* A frame that has not started is indistinguishable from one that created a generator long ago.
     * And a generator often has the address of the previous one, but another caller. */
    const struct gsp_py_loc *site = &walker->codes.locs[caller->loc];
    if (callee->unstarted || callee->in_generator)
        return false;
    /* This location has exactly one callee, and it is another one. */
    if (callee->direct && site->callee != GSP_PY_NO_LOC && !site->is_many)
        return false;
    const uint32_t interval = (uint32_t)(now_ns / SIGHTING_NS) << SIGHTINGS_BITS;
    const uint32_t *known = gsp_hmap_get(&walker->sightings, caller->loc, callee->code);
    uint32_t count = known ? *known & ((1U << SIGHTINGS_BITS) - 1) : 0;
    /* Reads in quick succession are not independent. */
    if (known && (*known & ~((1U << SIGHTINGS_BITS) - 1)) == interval)
        return false;
    /* A frame object has its own execution state, and few addresses are reused by other functions.
     */
    bool is_object = walker->run->layout.frames == GSP_PY_FRAMES_OBJECTS;
    bool held = callee->direct && callee->caller == caller->addr &&
                stack_holds(snap, caller->sp, callee->addr, callee->func);
    if (callee->direct && !held && !is_object)
        return false;
    if (count < (1U << SIGHTINGS_BITS) - 1)
        count++;
    if (!gsp_hmap_put(&walker->sightings, caller->loc, callee->code, interval | count))
        return false;
    uint64_t all = walker->codes.codes[callee->code].sightings;
    if (held || is_object)
        return count >= HELD_SIGHTINGS && (uint64_t)count * HELD_SHARE >= all;
    return count >= BARE_SIGHTINGS && (uint64_t)count * BARE_SHARE >= all;
}

/* Counts a consecutive read that shows this outermost frame. Returns true once it is verified. */
static bool verify_root(struct gsp_py_root_reads *seen, const struct gsp_py_frame *root,
                        unsigned try)
{
    bool again = seen->frame == root->addr && seen->code == root->code && seen->last_try + 1 == try;
    seen->reads = again ? seen->reads + 1 : 1;
    seen->frame = root->addr;
    seen->code = root->code;
    seen->last_try = try;
    return seen->reads >= ROOT_READS;
}

static bool verify_call(struct gsp_py_walker *walker, struct gsp_snap *snap,
                        const struct gsp_py_frame *caller, const struct gsp_py_frame *callee,
                        int64_t now_ns)
{
    if (copies_agree(walker, snap, caller, callee)) {
        confirm(walker, caller->loc, callee->code);
        return true;
    }
    if (probe_call(walker, snap, caller, callee))
        return true;
    if (!seen_often(walker, snap, caller, callee, now_ns))
        return false;
    note_callee(walker, caller->loc, callee->code);
    return add_edge(walker, caller->loc, callee->code);
}

bool gsp_py__edges_verify(struct gsp_py_walker *walker, struct gsp_snap *snap, int64_t now_ns,
                          unsigned try)
{
    const struct gsp_py_chain *chain = &walker->chain;
    bool all = true;
    for (size_t i = 0; i < chain->depth; i++) {
        const struct gsp_py_frame *callee = &chain->frames[i];
        const struct gsp_py_frame *caller = i + 1 < chain->depth ? &chain->frames[i + 1] : NULL;
        walker->codes.codes[callee->code].sightings++;
        if (!caller && chain->cut)
            break;
        if (caller && callee->direct && callee->caller == caller->addr && caller->on_data_stack &&
            !is_adjacent(walker, caller, callee))
            return false;
        uint32_t loc = caller ? caller->loc : NO_CALLER;
        struct gsp_py_frame_cache *known = &walker->known[callee->known];
        /* Another frame of this walk may have replaced the cache entry. */
        bool mine = known->frame == callee->addr;
        if (gsp_likely(mine && known->caller_loc == loc))
            continue;
        if (gsp_hmap_get(&walker->edges, loc, callee->code)) {
            known->caller_loc = mine ? loc : known->caller_loc;
            continue;
        }
        all &= caller
                   ? verify_call(walker, snap, caller, callee, now_ns)
                   : verify_root(&walker->root, callee, try) && add_edge(walker, loc, callee->code);
    }
    return all;
}
