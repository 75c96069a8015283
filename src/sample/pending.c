/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/pending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "sample/intern.h"

/* Maximum number of waiting frames: more than a minute of deep stacks at 100 Hz. */
#define FRAMES_MAX (4U << 20)

struct waiting {
    struct gsp_sample sample;
    bool in_gc;
    bool has_stack;
    size_t count; /* of its frames */
};

/* The profile's frames of one ticket: inlined calls first, then the function. */
struct named {
    uint32_t *ids; /* NULL: not looked up yet */
    uint32_t count;
};

struct gsp_pending {
    struct gsp_profile *profile;
    gsp_pending_fn fn;
    void *user;
    struct gsp_native_namer *namer;
    struct named *named[2]; /* by ticket; plain and bridged */
    size_t named_cap;
    struct gsp_buf samples; /* struct waiting */
    size_t samples_at;      /* the samples before this one are already passed on */
    struct gsp_buf frames;  /* struct gsp_pending_frame, of the samples in order */
    size_t frames_at;
};

int gsp_sample__pending_new(struct gsp_profile *profile, gsp_pending_fn fn, void *user,
                            struct gsp_pending **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_pending *later = calloc(1, sizeof(*later));
    if (!later)
        return gsp_err_nomem(err);
    later->profile = profile;
    later->fn = fn;
    later->user = user;
    int rc = gsp_native_namer_new(&later->namer, err);
    if (rc != GSP_OK) {
        gsp_sample__pending_free(later);
        return rc;
    }
    *out = later;
    return GSP_OK;
}

void gsp_sample__pending_free(struct gsp_pending *later)
{
    if (!later)
        return;
    gsp_native_namer_free(later->namer);
    for (size_t k = 0; k < GSP_COUNT(later->named); k++) {
        for (size_t i = 0; i < later->named_cap; i++)
            free(later->named[k][i].ids);
        free(later->named[k]);
    }
    gsp_buf_free(&later->samples);
    gsp_buf_free(&later->frames);
    free(later);
}

uint32_t gsp_sample__pending_request(struct gsp_pending *later, struct gsp_native *native,
                                     uint64_t pc)
{
    return gsp_native_namer_request(later->namer, native, pc);
}

static bool reserve_named(struct gsp_pending *later, uint32_t ticket)
{
    if (ticket < later->named_cap)
        return true;
    size_t cap = (size_t)ticket + ticket / 2 + 256;
    for (size_t k = 0; k < GSP_COUNT(later->named); k++) {
        struct named *grown = realloc(later->named[k], cap * sizeof(*grown));
        if (!grown)
            return false;
        memset(grown + later->named_cap, 0, (cap - later->named_cap) * sizeof(*grown));
        later->named[k] = grown;
    }
    later->named_cap = cap;
    return true;
}

static int add_frame(struct gsp_pending *later, const char *name, const char *file,
                     struct gsp_frame frame, uint32_t *out)
{
    int rc = gsp_model_profile_string(later->profile, gsp_sv_of(name), &frame.name, NULL);
    if (rc == GSP_OK)
        rc = gsp_model_profile_string(later->profile, gsp_sv_of(file ? file : ""), &frame.file,
                                      NULL);
    return rc == GSP_OK ? gsp_model_profile_frame(later->profile, &frame, out, NULL) : rc;
}

static int add_named(struct gsp_pending *later, const struct gsp_native_symbol *symbol,
                     bool bridged, struct named *out)
{
    char fallback[64];
    const char *name = symbol->name;
    if (!name) {
        struct gsp_sv base = gsp_sv_basename(gsp_sv_of(symbol->module));
        snprintf(fallback, sizeof(fallback), base.len ? "(%.*s)" : "(no file)", (int)base.len,
                 base.p);
        name = fallback;
    }
    uint32_t *ids = calloc(symbol->inlined_count + 1, sizeof(*ids));
    if (!ids)
        return GSP_E_NOMEM;
    int rc = GSP_OK;
    for (size_t i = 0; rc == GSP_OK && i < symbol->inlined_count; i++) {
        const struct gsp_native_inline *in = &symbol->inlined[i];
        rc = add_frame(later, in->name, in->file ? in->file : symbol->module,
                       (struct gsp_frame){.line = in->line, .kind = GSP_FRAME_NATIVE}, &ids[i]);
    }
    if (rc == GSP_OK)
        rc = add_frame(later, name, symbol->file ? symbol->file : symbol->module,
                       (struct gsp_frame){.line = symbol->line,
                                          .kind = bridged ? GSP_FRAME_BRIDGED : GSP_FRAME_NATIVE},
                       &ids[symbol->inlined_count]);
    if (rc != GSP_OK) {
        free(ids);
        return rc;
    }
    *out = (struct named){ids, (uint32_t)symbol->inlined_count + 1};
    return GSP_OK;
}

/* Finds the frames of a resolved ticket. */
static int find_named(struct gsp_pending *later, const struct gsp_pending_frame *frame,
                      const struct named **out)
{
    if (!reserve_named(later, frame->id))
        return GSP_E_NOMEM;
    struct named *named = &later->named[frame->bridged][frame->id];
    *out = named;
    return named->ids ? GSP_OK
                      : add_named(later, gsp_native_namer_get(later->namer, frame->id),
                                  frame->bridged, named);
}

static int make_stack(struct gsp_pending *later, const struct gsp_pending_frame *frames,
                      size_t count, uint32_t *out, struct gsp_err *err)
{
    uint32_t id = GSP_NONE;
    int rc = GSP_OK;
    for (size_t i = count; i > 0 && rc == GSP_OK; i--) {
        const struct gsp_pending_frame *frame = &frames[i - 1];
        const struct named *named;
        if (!frame->is_ticket) {
            rc = gsp_sample__stack_push(later->profile, &id, frame->id, err);
            continue;
        }
        rc = find_named(later, frame, &named);
        if (rc != GSP_OK)
            return gsp_err_set(err, rc, 0, "native frame: %s", gsp_err_text(rc));
        for (size_t k = named->count; k > 0 && rc == GSP_OK; k--)
            rc = gsp_sample__stack_push(later->profile, &id, named->ids[k - 1], err);
    }
    *out = id;
    /* A stack that is deeper than the profile allows, or one too many, is cut. */
    return rc == GSP_E_LIMIT && id != GSP_NONE ? GSP_OK : rc;
}

int gsp_sample__pending_add(struct gsp_pending *later, const struct gsp_sample *sample, bool in_gc,
                            const struct gsp_pending_frame *frames, size_t count,
                            struct gsp_err *err)
{
    struct waiting waiting = {*sample, in_gc, frames == NULL, frames ? count : 0};
    gsp_buf_put(&later->samples, &waiting, sizeof(waiting));
    gsp_buf_put(&later->frames, frames, waiting.count * sizeof(*frames));
    if (later->samples.failed || later->frames.failed)
        return gsp_err_nomem(err);
    bool is_full = later->frames.len / sizeof(*frames) - later->frames_at > FRAMES_MAX;
    return is_full ? gsp_sample__pending_flush(later, true, err) : GSP_OK;
}

/* Returns whether all names of these frames are known. With wait, waits for them. */
static bool are_known(struct gsp_pending *later, const struct gsp_pending_frame *frames,
                      size_t count, bool wait)
{
    for (size_t i = 0; i < count; i++) {
        if (!frames[i].is_ticket || gsp_native_namer_get(later->namer, frames[i].id))
            continue;
        if (!wait)
            return false;
        gsp_native_namer_wait(later->namer, frames[i].id);
    }
    return true;
}

int gsp_sample__pending_flush(struct gsp_pending *later, bool wait, struct gsp_err *err)
{
    const struct waiting *samples = (const struct waiting *)(const void *)later->samples.p;
    const struct gsp_pending_frame *frames =
        (const struct gsp_pending_frame *)(const void *)later->frames.p;
    size_t count = later->samples.len / sizeof(*samples);
    while (later->samples_at < count) {
        struct waiting waiting = samples[later->samples_at];
        const struct gsp_pending_frame *mine = frames + later->frames_at;
        if (!are_known(later, mine, waiting.count, wait))
            return GSP_OK;
        int rc = GSP_OK;
        if (!waiting.has_stack)
            rc = make_stack(later, mine, waiting.count, &waiting.sample.stack, err);
        later->samples_at++;
        later->frames_at += waiting.count;
        if (rc == GSP_OK)
            rc = later->fn(later->user, &waiting.sample, waiting.in_gc, err);
        if (rc != GSP_OK)
            return rc;
    }
    gsp_buf_clear(&later->samples);
    gsp_buf_clear(&later->frames);
    later->samples_at = 0;
    later->frames_at = 0;
    return GSP_OK;
}
