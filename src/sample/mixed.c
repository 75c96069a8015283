/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/mixed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/time.h"
#include "sample/intern.h"

#define FRAMES_MAX 512U
#define MIXED_MAX  (FRAMES_MAX + GSP_STACK_DEPTH_MAX)
/* Maps are read again at most this often, when an address is in none of them. */
#define REFRESH_NS (100 * GSP_NS_PER_MS)

struct gsp_mixed {
    struct gsp_native *native;
    struct gsp_capture *capture;   /* NULL when stacks come from elsewhere */
    struct gsp_native_ranges eval; /* of the interpreter's eval loop */
    const char *interp_path;       /* of the file that has it; NULL when there is none */
    int64_t refreshed_ns;
    struct gsp_hmap by_pc; /* (address, is bridged) → index in frame_ids */
    uint32_t *frame_ids;   /* of the profile, runs: count, then innermost first */
    size_t frame_id_count;
    size_t frame_id_cap;
    struct gsp_native_frame frames[FRAMES_MAX];
    struct gsp_mixed_frame out[MIXED_MAX];
};

static void find_eval(struct gsp_mixed *mixed)
{
    struct gsp_native_symbol symbol;
    mixed->interp_path = NULL;
    if (!gsp_native_range(mixed->native, "_PyEval_EvalFrameDefault", &mixed->eval))
        mixed->eval.count = 0;
    else if (gsp_native_symbol(mixed->native, mixed->eval.items[0].start, &symbol))
        mixed->interp_path = symbol.module;
}

int gsp_mixed_open(pid_t pid, struct gsp_mem *mem, struct gsp_native_store *store,
                   struct gsp_mixed **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_mixed *mixed = calloc(1, sizeof(*mixed));
    if (!mixed)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    int rc = gsp_native_open_in(store, pid, mem, &mixed->native, err);
    if (rc == GSP_OK)
        rc = gsp_capture_open(pid, mem, &mixed->capture, err);
    if (rc != GSP_OK) {
        gsp_mixed_close(mixed);
        return rc;
    }
    find_eval(mixed);
    *out = mixed;
    return GSP_OK;
}

int gsp_mixed_open_maps(const struct gsp_maps *maps, struct gsp_mem *mem,
                        struct gsp_native_store *store, struct gsp_mixed **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_mixed *mixed = calloc(1, sizeof(*mixed));
    if (!mixed)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    int rc = gsp_native_open_maps(store, maps, mem, &mixed->native, err);
    if (rc != GSP_OK) {
        gsp_mixed_close(mixed);
        return rc;
    }
    find_eval(mixed);
    *out = mixed;
    return GSP_OK;
}

void gsp_mixed_close(struct gsp_mixed *mixed)
{
    if (!mixed)
        return;
    gsp_capture_close(mixed->capture);
    gsp_native_close(mixed->native);
    gsp_hmap_free(&mixed->by_pc);
    free(mixed->frame_ids);
    free(mixed);
}

static bool in_eval(const struct gsp_mixed *mixed, uint64_t pc)
{
    for (size_t i = 0; i < mixed->eval.count; i++) {
        if (pc >= mixed->eval.items[i].start && pc < mixed->eval.items[i].end)
            return true;
    }
    return false;
}

struct merging {
    struct gsp_mixed *mixed;
    struct gsp_py_target *target;
    size_t depth; /* Python frames there are */
    size_t next;  /* the next one to place */
    size_t count; /* frames given out */
    bool bridged; /* some of them are */
};

static void put(struct merging *m, struct gsp_mixed_frame frame)
{
    if (m->count < MIXED_MAX)
        m->mixed->out[m->count++] = frame;
}

/* The Python frames that one eval loop runs: up to the one it was entered with. */
static void put_python(struct merging *m)
{
    while (m->next < m->depth) {
        size_t i = m->next++;
        put(m, (struct gsp_mixed_frame){.is_python = true, .python = (uint32_t)i});
        /* Before 3.11 each Python frame has a loop of its own. */
        if (gsp_py_target_frame_entry(m->target, i) != 0)
            return;
    }
}

static bool is_interp(const struct gsp_mixed *mixed, uint32_t module)
{
    return mixed->interp_path &&
           strcmp(gsp_native_module_path(mixed->native, module), mixed->interp_path) == 0;
}

/* Returns whether the two kinds fitted. */
static bool merge(struct merging *m, size_t native_count)
{
    struct gsp_mixed *mixed = m->mixed;
    bool fits = true;
    bool innermost = true; /* only frames of the interpreter so far */
    for (size_t i = 0; i < native_count; i++) {
        const struct gsp_native_frame *frame = &mixed->frames[i];
        /* Who is marked is the code without rules, which is so in every stack, and not its caller,
         * which others may have called. */
        bool bridged = i + 1 < native_count && frame[1].bridged;
        struct gsp_mixed_frame native = {.pc = frame->pc, .bridged = bridged};
        m->bridged = m->bridged || bridged;
        if (in_eval(mixed, frame->pc)) {
            innermost = false;
            if (m->next < m->depth) {
                put_python(m);
                continue;
            }
            fits = fits && m->depth == 0; /* a loop too many; without Python it is a C stack */
            put(m, native);
            continue;
        }
        /* What started the outermost Python frame is of no interest. */
        bool is_start = m->depth > 0 && m->next == m->depth;
        bool is_glue = is_interp(mixed, frame->module) && !innermost;
        innermost = innermost && is_interp(mixed, frame->module);
        if (!is_glue && !is_start)
            put(m, native);
    }
    fits = fits && m->next == m->depth;
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

/* Unwinds a copy and puts the Python frames of that moment, which are walked, in their places. */
static enum gsp_native_end join(struct gsp_mixed *mixed, const struct gsp_mixed_who *who,
                                const struct gsp_native_copy *copy, struct gsp_mixed_stack *out)
{
    enum gsp_native_end end;
    size_t count = gsp_native_unwind(mixed->native, copy, mixed->frames, FRAMES_MAX, &end);
    struct merging merging = {
        .mixed = mixed, .target = who->target, .depth = who->thread ? who->thread->depth : 0};
    out->unmerged = !merge(&merging, count);
    out->count = merging.count;
    out->whole = end == GSP_NATIVE_REACHED_ENTRY;
    out->bridged = merging.bridged;
    return end;
}

/* One way to a stack; NOTSUP when another should be tried. */
static int take_by(struct gsp_mixed *mixed, enum gsp_capture_way way,
                   const struct gsp_mixed_who *who, struct gsp_mixed_stack *out,
                   struct gsp_err *err)
{
    enum gsp_native_end end;
    int64_t stopped_ns = 0;
    do {
        struct gsp_moment moment;
        int rc = gsp_capture_take(mixed->capture, way, who, &moment, err);
        if (rc != GSP_OK)
            return rc;
        stopped_ns = moment.stopped_ns > stopped_ns ? moment.stopped_ns : stopped_ns;
        end = join(mixed, who, &moment.copy, out);
    } while (end == GSP_NATIVE_OUT_OF_STACK && gsp_capture_grow(mixed->capture));
    out->way = way;
    out->stopped_ns = stopped_ns;
    if (way == GSP_CAPTURE_STOP)
        return GSP_OK;
    bool good = out->whole && !out->unmerged;
    if (way == GSP_CAPTURE_EVENT)
        gsp_capture_judge(mixed->capture, who->tid, good);
    return good ? GSP_OK : GSP_E_NOTSUP;
}

int gsp_mixed_take(struct gsp_mixed *mixed, const struct gsp_mixed_who *who,
                   struct gsp_mixed_stack *out, struct gsp_err *err)
{
    *out = (struct gsp_mixed_stack){.frames = mixed->out};
    int rc = GSP_E_NOTSUP;
    for (enum gsp_capture_way way = 0; rc == GSP_E_NOTSUP && way < GSP_CAPTURE_WAYS; way++)
        rc = take_by(mixed, way, who, out, err);
    if (rc == GSP_OK)
        refresh(mixed, gsp_now_ns());
    return rc;
}

void gsp_mixed_sweep(struct gsp_mixed *mixed)
{
    gsp_capture_sweep(mixed->capture);
}

int gsp_mixed_take_copy(struct gsp_mixed *mixed, const struct gsp_mixed_who *who,
                        const struct gsp_native_copy *copy, struct gsp_mixed_stack *out,
                        struct gsp_err *err)
{
    *out = (struct gsp_mixed_stack){.frames = mixed->out};
    int rc = GSP_OK;
    if (who->target)
        rc = gsp_py_target_walk(who->target, who->thread, GSP_PY_LOOK_STILL, gsp_now_ns());
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "Python frames of thread %d: %s", (int)who->tid,
                           gsp_err_text(rc));
    join(mixed, who, copy, out);
    return GSP_OK;
}

void gsp_mixed_choose(struct gsp_mixed *mixed, enum gsp_capture_choice choice)
{
    gsp_capture_choose(mixed->capture, choice);
}

bool gsp_mixed_symbol(struct gsp_mixed *mixed, uint64_t pc, struct gsp_native_symbol *out)
{
    return gsp_native_symbol(mixed->native, pc, out);
}

static int push_id(struct gsp_mixed *mixed, uint32_t id)
{
    if (mixed->frame_id_count == mixed->frame_id_cap) {
        size_t cap = mixed->frame_id_cap ? mixed->frame_id_cap * 2 : 1024;
        uint32_t *grown = realloc(mixed->frame_ids, cap * sizeof(*grown));
        if (!grown)
            return GSP_E_NOMEM;
        mixed->frame_ids = grown;
        mixed->frame_id_cap = cap;
    }
    mixed->frame_ids[mixed->frame_id_count++] = id;
    return GSP_OK;
}

static int add_native(struct gsp_mixed *mixed, struct gsp_profile *profile, const char *name,
                      const char *file, struct gsp_frame frame)
{
    uint32_t id;
    int rc = gsp_profile_string(profile, gsp_sv_of(name), &frame.name, NULL);
    if (rc == GSP_OK)
        rc = gsp_profile_string(profile, gsp_sv_of(file ? file : ""), &frame.file, NULL);
    if (rc == GSP_OK)
        rc = gsp_profile_frame(profile, &frame, &id, NULL);
    return rc == GSP_OK ? push_id(mixed, id) : rc;
}

/* The frames of an address: those of inlined calls first, then the function's. */
static int resolve(struct gsp_mixed *mixed, struct gsp_profile *profile,
                   const struct gsp_mixed_frame *from, size_t *at)
{
    uint64_t pc = from->pc;
    const uint32_t *known = gsp_hmap_get(&mixed->by_pc, pc, from->bridged);
    if (known) {
        *at = *known;
        return GSP_OK;
    }
    struct gsp_native_symbol symbol;
    char fallback[64];
    const char *name = NULL;
    if (!gsp_native_symbol(mixed->native, pc, &symbol))
        symbol = (struct gsp_native_symbol){.module = ""};
    name = symbol.name;
    if (!name) {
        struct gsp_sv base = gsp_sv_basename(gsp_sv_of(symbol.module));
        snprintf(fallback, sizeof(fallback), base.len ? "(%.*s)" : "(no file)", (int)base.len,
                 base.p);
        name = fallback;
    }
    size_t start = mixed->frame_id_count;
    int rc = push_id(mixed, (uint32_t)symbol.inlined_count + 1);
    for (size_t i = 0; rc == GSP_OK && i < symbol.inlined_count; i++) {
        const struct gsp_native_inline *in = &symbol.inlined[i];
        rc = add_native(mixed, profile, in->name, in->file ? in->file : symbol.module,
                        (struct gsp_frame){.line = in->line, .kind = GSP_FRAME_NATIVE});
    }
    if (rc == GSP_OK)
        rc = add_native(
            mixed, profile, name, symbol.file ? symbol.file : symbol.module,
            (struct gsp_frame){.line = symbol.line,
                               .kind = from->bridged ? GSP_FRAME_BRIDGED : GSP_FRAME_NATIVE});
    if (rc == GSP_OK && !gsp_hmap_put(&mixed->by_pc, pc, from->bridged, (uint32_t)start))
        rc = GSP_E_NOMEM;
    *at = start;
    return rc;
}

int gsp_mixed_intern(struct gsp_mixed *mixed, const struct gsp_mixed_who *who,
                     const struct gsp_mixed_stack *stack, struct gsp_profile *profile,
                     uint32_t *out, struct gsp_err *err)
{
    uint32_t id = GSP_NONE;
    int rc = GSP_OK;
    for (size_t i = stack->count; i > 0 && rc == GSP_OK; i--) {
        const struct gsp_mixed_frame *frame = &stack->frames[i - 1];
        if (frame->is_python) {
            uint32_t frame_id;
            rc = gsp_frame_of_loc(gsp_py_target_codes(who->target),
                                  who->thread->locs[frame->python], profile, &frame_id, err);
            if (rc == GSP_OK)
                rc = gsp_profile_stack(profile, id, frame_id, &id, err);
            continue;
        }
        size_t at;
        rc = resolve(mixed, profile, frame, &at);
        if (rc != GSP_OK)
            return gsp_err_set(err, rc, 0, "native frame: %s", gsp_err_text(rc));
        for (size_t k = mixed->frame_ids[at]; k > 0 && rc == GSP_OK; k--)
            rc = gsp_profile_stack(profile, id, mixed->frame_ids[at + k], &id, err);
    }
    *out = id;
    /* Deeper than a profile allows: what fits is shown. */
    return rc == GSP_E_LIMIT && id != GSP_NONE ? GSP_OK : rc;
}
