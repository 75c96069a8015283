/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/mixed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/time.h"
#include "sample/eval_slots.h"
#include "sample/intern.h"

#define FRAMES_MAX     512U
#define MIXED_MAX      (FRAMES_MAX + GSP_STACK_DEPTH_MAX)
/* How often the maps are read again at most, if an address is in none of them. */
#define REFRESH_NS     (100 * GSP_NS_PER_MS)
/* Maximum number of events for one stack: the Python frames may have changed meanwhile. */
#define EVENT_TRIES    16U
/* After this many consecutive events with the same Python frames before and after, these frames
 * count as unchanged throughout. */
#define STEADY_TRIES   8U
/* The top of a frame, with the return address and the registers saved by the function. */
#define SAVED_BYTES    64U
/* The size of an instruction and, since 3.13, of the inline data that follows it. */
#define INSTR_BYTES    2U
#define INSTR_DATA_MAX 18U
/* 3.11: code that calls a builtin has already skipped the instruction CALL and the data of both. */
#define PRECALL_SKIP   12U
/* After this many events an eval loop that has never kept its position in a slot counts as one
 * that never does. */
#define UNSHOWN_MAX    16U

/* The position of Python: its innermost frame and instruction. */
struct python_at {
    gsp_raddr frame;
    uint64_t instr;
};

struct gsp_mixed {
    struct gsp_native *native;
    struct gsp_capture *capture;   /* NULL if stacks are copied elsewhere */
    struct gsp_native_ranges eval; /* of the interpreter's eval loop */
    const char *interp_path;       /* of the file that contains it; NULL if none does */
    bool can_show; /* eval loops of this interpreter keep their position in a slot: see shows() */
    unsigned unshown;                        /* events without it, before that */
    struct gsp_eval_slots_known known_slots; /* proven at the call sites */
    struct python_at steady_at;              /* the position of Python in the last events */
    unsigned steady;                         /* the number of consecutive events there */
    int64_t refreshed_ns;
    struct gsp_hmap by_pc; /* address → ticket */
    struct gsp_native_frame frames[FRAMES_MAX];
    size_t frame_count;
    struct gsp_mixed_frame out[MIXED_MAX];
    struct gsp_pending_frame later[MIXED_MAX];
};

static void find_eval(struct gsp_mixed *mixed)
{
    mixed->interp_path = NULL;
    if (!gsp_native_range(mixed->native, "_PyEval_EvalFrameDefault", &mixed->eval))
        mixed->eval.count = 0;
    else
        mixed->interp_path = gsp_native_path_of(mixed->native, mixed->eval.items[0].start);
}

int gsp_sample__mixed_open(pid_t pid, struct gsp_mem *mem, struct gsp_native_store *store,
                           struct gsp_mixed **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_mixed *mixed = calloc(1, sizeof(*mixed));
    if (!mixed)
        return gsp_err_nomem(err);
    int rc = gsp_native_open_in(store, pid, mem, &mixed->native, err);
    if (rc == GSP_OK)
        rc = gsp_sample__capture_open(pid, mem, &mixed->capture, err);
    if (rc != GSP_OK) {
        gsp_sample__mixed_close(mixed);
        return rc;
    }
    find_eval(mixed);
    *out = mixed;
    return GSP_OK;
}

int gsp_sample__mixed_open_maps(const struct gsp_maps *maps, struct gsp_mem *mem,
                                struct gsp_native_store *store, struct gsp_mixed **out,
                                struct gsp_err *err)
{
    *out = NULL;
    struct gsp_mixed *mixed = calloc(1, sizeof(*mixed));
    if (!mixed)
        return gsp_err_nomem(err);
    int rc = gsp_native_open_maps(store, maps, mem, &mixed->native, err);
    if (rc != GSP_OK) {
        gsp_sample__mixed_close(mixed);
        return rc;
    }
    find_eval(mixed);
    *out = mixed;
    return GSP_OK;
}

void gsp_sample__mixed_close(struct gsp_mixed *mixed)
{
    if (!mixed)
        return;
    gsp_sample__capture_close(mixed->capture);
    gsp_native_close(mixed->native);
    gsp_hmap_free(&mixed->by_pc);
    free(mixed);
}

static bool in_eval(const struct gsp_mixed *mixed, uint64_t pc)
{
    for (size_t i = 0; i < mixed->eval.count; i++)
        if (pc >= mixed->eval.items[i].start && pc < mixed->eval.items[i].end)
            return true;
    return false;
}

struct merging {
    struct gsp_mixed *mixed;
    struct gsp_py_target *target;
    const struct gsp_python_stack *before; /* NULL: use the Python frames of the target */
    size_t depth;                          /* number of Python frames */
    size_t next;                           /* the next Python frame to output */
    size_t count;                          /* number of frames in the output */
    bool bridged;                          /* some of them are bridged */
    bool no_leaf;                          /* leave out the innermost frames of the interpreter */
};

static void put(struct merging *m, struct gsp_mixed_frame frame)
{
    if (m->count < MIXED_MAX)
        m->mixed->out[m->count++] = frame;
}

/* Returns whether C code entered an eval loop with the i-th Python frame. */
static bool is_entry(const struct merging *m, size_t i)
{
    /* Before 3.11 each Python frame has its own loop. */
    int entry = m->before ? m->before->entries[i] : gsp_py_target_frame_entry(m->target, i);
    return entry != 0 || i + 1 == m->depth;
}

/* Outputs the Python frames that one eval loop runs: up to the one it was entered with. */
static void put_python(struct merging *m)
{
    bool is_last = false;
    while (m->next < m->depth && !is_last) {
        is_last = is_entry(m, m->next);
        put(m, (struct gsp_mixed_frame){.is_python = true, .python = (uint32_t)m->next++});
    }
}

static bool is_interp(const struct gsp_mixed *mixed, uint32_t module)
{
    return mixed->interp_path &&
           strcmp(gsp_native_module_path(mixed->native, module), mixed->interp_path) == 0;
}

/* The number of eval loops on the native stack minus the number that Python has entered. */
static int count_surplus(const struct merging *m)
{
    int surplus = 0;
    for (size_t i = 0; i < m->mixed->frame_count; i++)
        surplus += in_eval(m->mixed, m->mixed->frames[i].pc);
    for (size_t i = 0; i < m->depth; i++)
        surplus -= is_entry(m, i);
    return surplus;
}

/* Merges native and Python frames. Loops are counted from the outermost: while a loop begins or
 * ends, its frame may be missing from Python's list, or be in the list before the loop has
 * begun. Returns whether they match. */
static bool merge(struct merging *m)
{
    struct gsp_mixed *mixed = m->mixed;
    int surplus = count_surplus(m);
    bool fits = m->depth == 0 || (surplus >= -1 && surplus <= 1);
    bool innermost = true; /* only interpreter frames so far */
    if (surplus < 0 && m->depth > 0) {
        innermost = false;
        put_python(m);
    }
    for (size_t i = 0; i < mixed->frame_count; i++) {
        const struct gsp_native_frame *frame = &mixed->frames[i];
        /* The mark goes to the code without unwind rules, which is the same in every stack, and
         * not to its caller, which other code may call too. */
        bool bridged = i + 1 < mixed->frame_count && frame[1].bridged;
        struct gsp_mixed_frame native = {.pc = frame->pc, .bridged = bridged};
        bool is_own = is_interp(mixed, frame->module);
        m->bridged = m->bridged || bridged;
        if (m->depth > 0 && in_eval(mixed, frame->pc)) {
            if (surplus-- > 0)
                continue; /* the loop is being entered or left */
            innermost = false;
            put_python(m);
            continue;
        }
        /* The frames that started the outermost Python frame are not shown. */
        bool is_start = m->depth > 0 && m->next == m->depth;
        bool is_glue = is_own && (!innermost || m->no_leaf);
        innermost = innermost && is_own;
        if (!is_glue && !is_start)
            put(m, native);
    }
    while (m->next < m->depth)
        put_python(m);
    return fits;
}

static void refresh(struct gsp_mixed *mixed, int64_t now_ns)
{
    if (!gsp_native_is_stale(mixed->native) || now_ns - mixed->refreshed_ns < REFRESH_NS)
        return;
    mixed->refreshed_ns = now_ns;
    gsp_ignore(gsp_native_refresh(mixed->native, NULL)); /* the old maps are better than none */
    if (mixed->eval.count == 0)
        find_eval(mixed);
}

/* Adds the slots of the stack words between two addresses whose value lies in a range. is_loop:
 * the frame is that of the loop. */
static void find_words(const struct gsp_native_copy *copy, uint64_t from, uint64_t to,
                       struct gsp_native_range values, bool is_loop, struct gsp_eval_slots *out)
{
    uint64_t low = copy->regs.sp;
    for (uint64_t at = from > low ? from - low : 0; low + at + 8 <= to && at + 8 <= copy->stack_len;
         at += 8) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)copy->stack + at, sizeof(word));
        if (word >= values.start && word < values.end)
            gsp_sample__eval_slots_add(out, is_loop ? (uint32_t)(to - low - at)
                                                    : GSP_EVAL_SLOT_REGISTER);
    }
}

/* Finds where the innermost eval loop holds such a value: in its own frame, in a register, or
 * where the functions it called have saved their registers. Returns the index of the loop's
 * frame. */
static size_t find_slots(const struct gsp_mixed *mixed, const struct gsp_native_copy *copy,
                         struct gsp_native_range values, struct gsp_eval_slots *out)
{
    for (size_t i = 0; i < GSP_COUNT(copy->regs.kept); i++)
        if (copy->regs.kept[i] >= values.start && copy->regs.kept[i] < values.end)
            gsp_sample__eval_slots_add(out, GSP_EVAL_SLOT_REGISTER);
    if (copy->regs.fp >= values.start && copy->regs.fp < values.end)
        gsp_sample__eval_slots_add(out, GSP_EVAL_SLOT_REGISTER);
    for (size_t i = 0; i + 1 < mixed->frame_count; i++) {
        uint64_t end = mixed->frames[i + 1].sp;
        bool is_loop = in_eval(mixed, mixed->frames[i].pc);
        uint64_t from = is_loop || end - mixed->frames[i].sp < SAVED_BYTES ? mixed->frames[i].sp
                                                                           : end - SAVED_BYTES;
        find_words(copy, from, end, values, is_loop, out);
        if (is_loop)
            return i;
    }
    return mixed->frame_count;
}

/* Returns whether the copy shows that Python was in this innermost frame at its moment. While it
 * calls other functions, an eval loop keeps the address of its next instruction in its frame or
 * in a register: just behind the current instruction and, since 3.13, its inline data. Before
 * 3.11 it keeps its frame. same: Python was there before and after the moment. */
static bool shows(struct gsp_mixed *mixed, const struct gsp_capture_thread *subject,
                  const struct gsp_native_copy *copy, const struct python_at *at, bool same)
{
    const struct gsp_py_layout *layout = &gsp_py_target_runtime(subject->target)->layout;
    uint64_t data = GSP_PY_MINOR(layout->version) >= 13 ? INSTR_DATA_MAX : 0;
    struct gsp_native_range next = {at->instr + INSTR_BYTES, at->instr + INSTR_BYTES + data + 1};
    if (layout->frames == GSP_PY_FRAMES_OBJECTS)
        next = (struct gsp_native_range){at->frame, at->frame + 1};
    struct gsp_eval_slots slots = {0};
    size_t loop = at->frame ? find_slots(mixed, copy, next, &slots) : mixed->frame_count;
    if (at->frame && GSP_PY_MINOR(layout->version) == 11) {
        next = (struct gsp_native_range){next.start + PRECALL_SKIP, next.end + PRECALL_SKIP};
        loop = find_slots(mixed, copy, next, &slots);
    }
    if (loop == mixed->frame_count || slots.count == 0)
        return false;
    mixed->can_show = true;
    /* If the loop has called nothing, no native frame can belong to another loop. */
    return loop == 0 ||
           gsp_sample__eval_slots_prove(&mixed->known_slots, mixed->frames[loop].pc, &slots, same);
}

static bool same_python(const struct gsp_py_thread *thread, const struct gsp_python_stack *before)
{
    return thread->depth == before->depth &&
           memcmp(thread->locs, before->locs, before->depth * sizeof(*before->locs)) == 0;
}

/* Returns whether only the frames run by the innermost eval loop differ. */
static bool same_callers(struct gsp_mixed *mixed, const struct gsp_capture_thread *subject,
                         const struct gsp_python_stack *before)
{
    struct merging now = {
        .mixed = mixed, .target = subject->target, .depth = subject->thread->depth};
    struct merging then = {.mixed = mixed, .before = before, .depth = before->depth};
    size_t i = 0;
    size_t k = 0;
    while (i < now.depth && !is_entry(&now, i))
        i++;
    while (k < then.depth && !is_entry(&then, k))
        k++;
    return then.depth > 0 && now.depth - i == then.depth - k &&
           (now.depth - i < 2 || memcmp(subject->thread->locs + i + 1, before->locs + k + 1,
                                        (now.depth - i - 1) * sizeof(*before->locs)) == 0);
}

/* Returns whether the innermost eval loop has called code outside the interpreter. */
static bool has_foreign_leaf(const struct gsp_mixed *mixed)
{
    for (size_t i = 0; i < mixed->frame_count; i++) {
        if (in_eval(mixed, mixed->frames[i].pc))
            return false;
        if (!is_interp(mixed, mixed->frames[i].module))
            return true;
    }
    return true;
}

/* Counts consecutive events of one stack with the same Python frames before and after. One such
 * event proves nothing: a loop may have come round. Many in a row mean that a long call into C
 * code is running, such as the loading of a library. */
static bool is_steady(struct gsp_mixed *mixed, const struct python_at *at, bool all_same)
{
    bool again = mixed->steady_at.frame == at->frame && mixed->steady_at.instr == at->instr;
    mixed->steady = all_same ? (again ? mixed->steady : 0) + 1 : 0;
    mixed->steady_at = *at;
    return mixed->steady >= STEADY_TRIES;
}

/* Decides which Python frames belong to the moment of an event: those before it, or those after
 * it. Returns false if neither can be proven. */
static bool choose_frames(struct gsp_mixed *mixed, const struct gsp_capture_thread *subject,
                          const struct gsp_native_copy *copy, struct merging *m)
{
    const struct gsp_python_stack *before = gsp_sample__capture_python_before(mixed->capture);
    struct gsp_py_thread *thread = subject->thread;
    const struct python_at now = {gsp_py_target_frame_addr(subject->target, 0),
                                  gsp_py_target_frame_instr(subject->target, 0)};
    const struct python_at was = {before->frame, before->instr};
    /* An interpreter that starts or exits has neither frames nor loops. */
    if (m->depth == 0 && count_surplus(m) == 0)
        return true;
    bool all_same = before->depth > 0 && same_python(thread, before);
    bool is_same = before->depth > 0 && now.frame == was.frame && now.instr == was.instr;
    /* The same instruction with other callers: ambiguous. */
    bool is_ambiguous = is_same && !all_same;
    is_same = is_same && all_same;
    if (!is_ambiguous && count_surplus(m) == 0 && shows(mixed, subject, copy, &now, is_same))
        return true;
    struct merging then = {.mixed = mixed, .before = before, .depth = before->depth};
    if (!is_ambiguous && !is_same && subject->locs_only && before->depth > 0 &&
        before->depth <= thread->locs_cap && count_surplus(&then) == 0 &&
        shows(mixed, subject, copy, &was, false)) {
        memcpy(thread->locs, before->locs, before->depth * sizeof(*before->locs));
        thread->depth = before->depth;
        *m = then;
        return true;
    }
    if (is_steady(mixed, &now, all_same && count_surplus(m) == 0))
        return true;
    bool is_foreign = has_foreign_leaf(mixed);
    /* The same frames before and after prove nothing, since a loop may have come round. They are
     * accepted if loops never keep their position in a slot. */
    if (all_same && !mixed->can_show && mixed->unshown++ >= UNSHOWN_MAX)
        return true;
    /* The loop runs only Python code, and was at a nearby position microseconds later: use the
     * later frames, without what the interpreter did just before. */
    m->no_leaf = true;
    return !is_foreign &&
           (all_same || (count_surplus(m) == 0 && same_callers(mixed, subject, before)));
}

/* Merges the unwound frames with the Python frames of that moment, which are already walked.
 * Returns false if the Python frames belong to another moment. */
static bool join(struct gsp_mixed *mixed, enum gsp_capture_method way,
                 const struct gsp_capture_thread *subject, const struct gsp_native_copy *copy,
                 struct gsp_mixed_stack *out)
{
    struct merging merging = {.mixed = mixed,
                              .target = subject->target,
                              .depth = subject->target ? subject->thread->depth : 0};
    bool good = way != GSP_CAPTURE_EVENT || !subject->target ||
                choose_frames(mixed, subject, copy, &merging);
    out->unmerged = !merge(&merging);
    out->count = merging.count;
    out->bridged = merging.bridged;
    out->way = way;
    return good;
}

/* Unwinds a copy, and extends it while that leads further. *again: the copy was too short, and
 * the caller must capture again. */
static void unwind(struct gsp_mixed *mixed, enum gsp_capture_method way,
                   struct gsp_capture_moment *moment, struct gsp_mixed_stack *out, bool *again)
{
    enum gsp_native_end end;
    *again = false;
    do {
        mixed->frame_count =
            gsp_native_unwind(mixed->native, &moment->copy, mixed->frames, FRAMES_MAX, &end);
    } while (end == GSP_NATIVE_OUT_OF_STACK &&
             gsp_sample__capture_extend(mixed->capture, way, moment, again) && !*again);
    out->whole = end == GSP_NATIVE_REACHED_ENTRY;
}

/* Captures with one method. Returns NOTSUP if another should be tried. */
static int capture_by(struct gsp_mixed *mixed, enum gsp_capture_method way,
                      const struct gsp_capture_thread *subject, struct gsp_mixed_stack *out,
                      struct gsp_err *err)
{
    int64_t stopped_ns = 0;
    unsigned tries = way == GSP_CAPTURE_EVENT ? EVENT_TRIES : 1;
    bool again = true;
    bool good = false;
    mixed->steady = 0;
    while (again || (!good && tries > 0)) {
        struct gsp_capture_moment moment;
        int rc = gsp_sample__capture_moment(mixed->capture, way, subject, &moment, err);
        if (rc != GSP_OK)
            return rc;
        stopped_ns = moment.stopped_ns > stopped_ns ? moment.stopped_ns : stopped_ns;
        unwind(mixed, way, &moment, out, &again);
        if (again)
            continue;
        good = join(mixed, way, subject, &moment.copy, out);
        tries--;
    }
    out->stopped_ns = stopped_ns;
    if (!good)
        return gsp_err_set(err, GSP_E_TORN, 0, "the Python frames of thread %d kept changing",
                           (int)subject->tid);
    if (way == GSP_CAPTURE_IDLE && (!out->whole || out->unmerged))
        return GSP_E_NOTSUP;
    return GSP_OK;
}

int gsp_sample__mixed_capture(struct gsp_mixed *mixed, const struct gsp_capture_thread *subject,
                              struct gsp_mixed_stack *out, struct gsp_err *err)
{
    *out = (struct gsp_mixed_stack){.frames = mixed->out};
    int rc = GSP_E_NOTSUP;
    for (enum gsp_capture_method way = 0; rc == GSP_E_NOTSUP && way < GSP_CAPTURE_METHODS; way++)
        rc = capture_by(mixed, way, subject, out, err);
    if (rc == GSP_OK)
        refresh(mixed, gsp_now_ns());
    return rc;
}

void gsp_sample__mixed_prepare(struct gsp_mixed *mixed)
{
    gsp_native_prepare(mixed->native);
}

void gsp_sample__mixed_sweep(struct gsp_mixed *mixed)
{
    gsp_sample__capture_sweep(mixed->capture);
}

int gsp_sample__mixed_unwind_copy(struct gsp_mixed *mixed, const struct gsp_capture_thread *subject,
                                  const struct gsp_native_copy *copy, struct gsp_mixed_stack *out,
                                  struct gsp_err *err)
{
    *out = (struct gsp_mixed_stack){.frames = mixed->out};
    int rc = GSP_OK;
    if (subject->target)
        rc = gsp_py_target_walk(subject->target, subject->thread, GSP_PY_SAMPLE_STOPPED,
                                gsp_now_ns());
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "Python frames of thread %d: %s", (int)subject->tid,
                           gsp_err_text(rc));
    enum gsp_native_end end;
    mixed->frame_count = gsp_native_unwind(mixed->native, copy, mixed->frames, FRAMES_MAX, &end);
    out->whole = end == GSP_NATIVE_REACHED_ENTRY;
    join(mixed, GSP_CAPTURE_STOP, subject, copy, out);
    return GSP_OK;
}

void gsp_sample__mixed_set_policy(struct gsp_mixed *mixed, enum gsp_capture_policy choice)
{
    gsp_sample__capture_set_policy(mixed->capture, choice);
}

bool gsp_sample__mixed_symbol(struct gsp_mixed *mixed, uint64_t pc, struct gsp_native_symbol *out)
{
    return gsp_native_symbol(mixed->native, pc, out);
}

/* The ticket of an address, requested once. */
static int ticket_of(struct gsp_mixed *mixed, struct gsp_pending *later, uint64_t pc, uint32_t *out)
{
    const uint32_t *known = gsp_hmap_get(&mixed->by_pc, pc, 0);
    *out = known ? *known : gsp_sample__pending_request(later, mixed->native, pc);
    if (known)
        return GSP_OK;
    return *out != GSP_NATIVE_NO_TICKET && gsp_hmap_put(&mixed->by_pc, pc, 0, *out) ? GSP_OK
                                                                                    : GSP_E_NOMEM;
}

int gsp_sample__mixed_add_sample(struct gsp_mixed *mixed, const struct gsp_capture_thread *subject,
                                 const struct gsp_mixed_stack *stack, struct gsp_mixed_sink *sink,
                                 struct gsp_err *err)
{
    int rc = GSP_OK;
    for (size_t i = 0; i < stack->count && rc == GSP_OK; i++) {
        const struct gsp_mixed_frame *frame = &stack->frames[i];
        struct gsp_pending_frame *to = &mixed->later[i];
        *to = (struct gsp_pending_frame){.is_ticket = !frame->is_python, .bridged = frame->bridged};
        if (frame->is_python)
            rc = gsp_sample__frame_intern(gsp_py_target_codes(subject->target),
                                          subject->thread->locs[frame->python], sink->profile,
                                          &to->id, err);
        else
            rc = ticket_of(mixed, sink->later, frame->pc, &to->id);
    }
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "native frame: %s", gsp_err_text(rc));
    return gsp_sample__pending_add(sink->later, sink->sample, sink->in_gc, mixed->later,
                                   stack->count, err);
}
