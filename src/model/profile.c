/* SPDX-License-Identifier: Apache-2.0 */
#include "model/profile.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/map.h"

/* Bytes of one block of coded samples. */
#define BLOCK_BYTES      65536U
/* A coded sample at its longest: head, thread, stack, weight, time. */
#define SAMPLE_BYTES_MAX (1U + 5U + 10U + 10U + 10U)

/* The head byte of a coded sample: its flags, the fields that differ from the previous sample,
 * and the encoding of the time. */
#define HEAD_FLAGS       3U
#define HEAD_THREAD      4U
#define HEAD_STACK       8U
#define HEAD_WEIGHT      16U
#define HEAD_TIME_STEP   32U /* one step later */
#define HEAD_TIME_OTHER  64U /* neither at the same time nor one step later */

struct text {
    size_t offset; /* into profile->bytes */
    uint32_t len;
    uint32_t next; /* next string with the same hash and length, or GSP_NONE */
};

struct stack {
    uint32_t caller;
    uint32_t frame;
    uint32_t depth;
    uint32_t recent; /* the last stack looked up with this one as caller */
};

struct block {
    unsigned char *p;
    size_t len;
};

/* The previous sample of a thread. */
struct trail {
    int64_t time_ns;
    size_t total; /* row of the thread's newest stack */
    bool any;
};

struct gsp_profile {
    struct gsp_model_profile_meta meta;
    bool keep_samples;
    bool has_sums; /* gsp_model_profile_add_total() was called */

    char *bytes;
    size_t bytes_len, bytes_cap;
    struct text *texts; /* element 0 is unused, as in frames and stacks */
    size_t text_count, text_cap;
    struct gsp_frame *frames;
    size_t frame_count, frame_cap;
    struct stack *stacks;
    size_t stack_count, stack_cap;
    struct gsp_hmap text_map;  /* hash, length -> newest such string */
    struct gsp_hmap frame_map; /* all fields -> frame */
    struct gsp_hmap stack_map; /* caller, frame -> stack */

    struct gsp_process *processes;
    size_t process_count, process_cap;
    struct gsp_thread *threads;
    size_t thread_count, thread_cap;
    struct trail *trails; /* one per thread */
    size_t trail_cap;

    struct gsp_total *totals;
    size_t total_count, total_cap;
    struct gsp_hmap total_map; /* thread, stack -> row */
    uint64_t sample_count;

    struct block *blocks;
    size_t block_count, block_cap;
    struct gsp_sample last;
    int64_t step_ns;
};

static int err_too_many(struct gsp_err *err, const char *what)
{
    return gsp_err_set(err, GSP_E_LIMIT, 0, "too many %s for one profile", what);
}

static int err_unknown(struct gsp_err *err, const char *what, uint32_t id)
{
    return gsp_err_set(err, GSP_E_FORMAT, 0, "the profile has no %s %u", what, id);
}

int gsp_model_profile_new(bool keep_samples, struct gsp_profile **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_profile *profile = calloc(1, sizeof(*profile));
    if (!profile)
        return gsp_err_nomem(err);
    profile->keep_samples = keep_samples;
    if (!gsp_array_fit(&profile->texts, &profile->text_cap, 1) ||
        !gsp_array_fit(&profile->frames, &profile->frame_cap, 1) ||
        !gsp_array_fit(&profile->stacks, &profile->stack_cap, 1)) {
        gsp_model_profile_free(profile);
        return gsp_err_nomem(err);
    }
    profile->texts[0] = (struct text){0};
    profile->frames[0] = (struct gsp_frame){0};
    profile->stacks[0] = (struct stack){0};
    *out = profile;
    return GSP_OK;
}

void gsp_model_profile_free(struct gsp_profile *profile)
{
    if (!profile)
        return;
    for (size_t i = 0; i < profile->block_count; i++)
        free(profile->blocks[i].p);
    gsp_hmap_free(&profile->text_map);
    gsp_hmap_free(&profile->frame_map);
    gsp_hmap_free(&profile->stack_map);
    gsp_hmap_free(&profile->total_map);
    free(profile->bytes);
    free(profile->texts);
    free(profile->frames);
    free(profile->stacks);
    free(profile->processes);
    free(profile->threads);
    free(profile->trails);
    free(profile->totals);
    free(profile->blocks);
    free(profile);
}

struct gsp_model_profile_meta *gsp_model_profile_meta(struct gsp_profile *profile)
{
    return &profile->meta;
}

const struct gsp_model_profile_meta *gsp_model_profile_meta_get(const struct gsp_profile *profile)
{
    return &profile->meta;
}

/* Appends the text to the pool and links it before the string `next` of the same hash. */
static int add_text(struct gsp_profile *profile, struct gsp_sv text, uint32_t next,
                    struct gsp_err *err)
{
    if (profile->text_count >= GSP_PROFILE_IDS_MAX)
        return err_too_many(err, "strings");
    if (!gsp_array_fit(&profile->texts, &profile->text_cap, profile->text_count + 2))
        return gsp_err_nomem(err);
    if (!gsp_array_fit(&profile->bytes, &profile->bytes_cap, profile->bytes_len + text.len))
        return gsp_err_nomem(err);
    memcpy(profile->bytes + profile->bytes_len, text.p, text.len);
    profile->texts[profile->text_count + 1] = (struct text){
        .offset = profile->bytes_len,
        .len = (uint32_t)text.len,
        .next = next,
    };
    return GSP_OK;
}

int gsp_model_profile_string(struct gsp_profile *profile, struct gsp_sv text, uint32_t *out,
                             struct gsp_err *err)
{
    *out = GSP_NONE;
    if (text.len == 0)
        return GSP_OK;
    if (text.len > GSP_STRING_BYTES_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "a string of %zu bytes is too long", text.len);
    uint64_t hash = gsp_hash_bytes(text.p, text.len, 0);
    uint32_t *head = gsp_hmap_get(&profile->text_map, hash, text.len);
    for (uint32_t id = head ? *head : GSP_NONE; id != GSP_NONE; id = profile->texts[id].next) {
        if (memcmp(profile->bytes + profile->texts[id].offset, text.p, text.len) == 0) {
            *out = id;
            return GSP_OK;
        }
    }
    int rc = add_text(profile, text, head ? *head : GSP_NONE, err);
    if (rc)
        return rc;
    uint32_t id = (uint32_t)(profile->text_count + 1);
    if (!gsp_hmap_put(&profile->text_map, hash, text.len, id))
        return gsp_err_nomem(err);
    profile->text_count++;
    profile->bytes_len += text.len;
    *out = id;
    return GSP_OK;
}

int gsp_model_profile_frame(struct gsp_profile *profile, const struct gsp_frame *frame,
                            uint32_t *out, struct gsp_err *err)
{
    *out = GSP_NONE;
    if (frame->name > profile->text_count)
        return err_unknown(err, "string", frame->name);
    if (frame->file > profile->text_count)
        return err_unknown(err, "string", frame->file);
    /* Ids of strings have at most 27 bits, which leaves room for the kind above the name. */
    uint64_t a = (uint64_t)frame->kind << 60 | (uint64_t)frame->name << 32 | frame->file;
    uint64_t b = (uint64_t)frame->line << 32 | frame->first_line;
    const uint32_t *known = gsp_hmap_get(&profile->frame_map, a, b);
    if (known) {
        *out = *known;
        return GSP_OK;
    }
    if (profile->frame_count >= GSP_PROFILE_IDS_MAX)
        return err_too_many(err, "frames");
    if (!gsp_array_fit(&profile->frames, &profile->frame_cap, profile->frame_count + 2))
        return gsp_err_nomem(err);
    uint32_t id = (uint32_t)(profile->frame_count + 1);
    if (!gsp_hmap_put(&profile->frame_map, a, b, id))
        return gsp_err_nomem(err);
    profile->frames[id] = *frame;
    profile->frame_count++;
    *out = id;
    return GSP_OK;
}

static int add_stack(struct gsp_profile *profile, uint32_t caller, uint32_t frame, uint32_t *out,
                     struct gsp_err *err)
{
    if (caller > profile->stack_count)
        return err_unknown(err, "stack", caller);
    if (frame == GSP_NONE || frame > profile->frame_count)
        return err_unknown(err, "frame", frame);
    uint32_t depth = profile->stacks[caller].depth + 1;
    if (depth > GSP_STACK_DEPTH_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "a stack is deeper than %u frames",
                           GSP_STACK_DEPTH_MAX);
    if (profile->stack_count >= GSP_PROFILE_IDS_MAX)
        return err_too_many(err, "stacks");
    if (!gsp_array_fit(&profile->stacks, &profile->stack_cap, profile->stack_count + 2))
        return gsp_err_nomem(err);
    uint32_t id = (uint32_t)(profile->stack_count + 1);
    if (!gsp_hmap_put(&profile->stack_map, caller, frame, id))
        return gsp_err_nomem(err);
    profile->stacks[id] = (struct stack){.caller = caller, .frame = frame, .depth = depth};
    profile->stack_count++;
    *out = id;
    return GSP_OK;
}

uint32_t gsp_model_profile_stack_find(struct gsp_profile *profile, uint32_t caller, uint32_t frame)
{
    if (caller > profile->stack_count)
        return GSP_NONE;
    /* Usually the callee is the same as the last time. */
    uint32_t recent = profile->stacks[caller].recent;
    if (recent != GSP_NONE && profile->stacks[recent].frame == frame)
        return recent;
    const uint32_t *known = gsp_hmap_get(&profile->stack_map, caller, frame);
    if (!known)
        return GSP_NONE;
    profile->stacks[caller].recent = *known;
    return *known;
}

int gsp_model_profile_stack(struct gsp_profile *profile, uint32_t caller, uint32_t frame,
                            uint32_t *out, struct gsp_err *err)
{
    *out = gsp_model_profile_stack_find(profile, caller, frame);
    if (*out != GSP_NONE)
        return GSP_OK;
    int rc = add_stack(profile, caller, frame, out, err);
    if (rc == GSP_OK)
        profile->stacks[caller].recent = *out;
    return rc;
}

/* The first string id of a process that does not exist, or GSP_NONE. */
static uint32_t bad_process_string(const struct gsp_profile *profile,
                                   const struct gsp_process *process)
{
    if (process->name > profile->text_count)
        return process->name;
    if (process->cmdline > profile->text_count)
        return process->cmdline;
    return process->version > profile->text_count ? process->version : GSP_NONE;
}

int gsp_model_profile_process(struct gsp_profile *profile, const struct gsp_process *process,
                              uint32_t *out, struct gsp_err *err)
{
    *out = GSP_NO_INDEX;
    uint32_t bad = bad_process_string(profile, process);
    if (bad != GSP_NONE)
        return err_unknown(err, "string", bad);
    if (profile->process_count >= GSP_PROFILE_THREADS_MAX)
        return err_too_many(err, "processes");
    if (!gsp_array_fit(&profile->processes, &profile->process_cap, profile->process_count + 1))
        return gsp_err_nomem(err);
    profile->processes[profile->process_count] = *process;
    *out = (uint32_t)profile->process_count++;
    return GSP_OK;
}

int gsp_model_profile_thread(struct gsp_profile *profile, const struct gsp_thread *thread,
                             uint32_t *out, struct gsp_err *err)
{
    *out = GSP_NO_INDEX;
    if (thread->process >= profile->process_count)
        return err_unknown(err, "process", thread->process);
    if (thread->name > profile->text_count)
        return err_unknown(err, "string", thread->name);
    if (profile->thread_count >= GSP_PROFILE_THREADS_MAX)
        return err_too_many(err, "threads");
    size_t need = profile->thread_count + 1;
    if (!gsp_array_fit(&profile->threads, &profile->thread_cap, need))
        return gsp_err_nomem(err);
    if (!gsp_array_fit(&profile->trails, &profile->trail_cap, need))
        return gsp_err_nomem(err);
    profile->threads[profile->thread_count] = *thread;
    profile->trails[profile->thread_count] = (struct trail){0};
    *out = (uint32_t)profile->thread_count++;
    return GSP_OK;
}

void gsp_model_profile_set_thread(struct gsp_profile *profile, uint32_t i,
                                  const struct gsp_thread *thread)
{
    if (i < profile->thread_count && thread->process < profile->process_count &&
        thread->name <= profile->text_count)
        profile->threads[i] = *thread;
}

void gsp_model_profile_set_process(struct gsp_profile *profile, uint32_t i,
                                   const struct gsp_process *process)
{
    if (i < profile->process_count && bad_process_string(profile, process) == GSP_NONE)
        profile->processes[i] = *process;
}

static unsigned char *put_varint(unsigned char *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *p++ = (unsigned char)v;
    return p;
}

/* The bytes come from put_varint(), so the end is not checked. */
static uint64_t get_varint(const unsigned char **p)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        unsigned char byte = *(*p)++;
        v |= (uint64_t)(byte & 0x7fU) << shift;
        if (!(byte & 0x80U))
            return v;
    }
}

/* Differences and sums that wrap around instead of overflowing. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* The block for one more coded sample; NULL if memory runs out. */
static struct block *block_for_sample(struct gsp_profile *profile)
{
    if (profile->block_count) {
        struct block *block = &profile->blocks[profile->block_count - 1];
        if (block->len + SAMPLE_BYTES_MAX <= BLOCK_BYTES)
            return block;
    }
    if (!gsp_array_fit(&profile->blocks, &profile->block_cap, profile->block_count + 1))
        return NULL;
    unsigned char *bytes = malloc(BLOCK_BYTES);
    if (!bytes)
        return NULL;
    profile->blocks[profile->block_count] = (struct block){.p = bytes};
    return &profile->blocks[profile->block_count++];
}

/* Appends the sample to the block, as differences from the previous sample. */
static void code_sample(struct gsp_profile *profile, struct block *block,
                        const struct gsp_sample *sample)
{
    const struct gsp_sample *last = &profile->last;
    unsigned char *head = block->p + block->len;
    unsigned char *p = head + 1;
    unsigned bits = sample->flags & HEAD_FLAGS;

    if (sample->thread != last->thread) {
        bits |= HEAD_THREAD;
        p = put_varint(p, sample->thread);
    }
    if (sample->stack != last->stack) {
        bits |= HEAD_STACK;
        p = put_varint(p, gsp_zigzag((int64_t)sample->stack - (int64_t)last->stack));
    }
    if (sample->weight != last->weight) {
        bits |= HEAD_WEIGHT;
        p = put_varint(p, gsp_zigzag(minus(sample->weight, last->weight)));
    }
    int64_t step_ns = minus(sample->time_ns, last->time_ns);
    if (step_ns != 0) {
        if (step_ns == profile->step_ns) {
            bits |= HEAD_TIME_STEP;
        } else {
            bits |= HEAD_TIME_OTHER;
            p = put_varint(p, gsp_zigzag(minus(step_ns, profile->step_ns)));
            profile->step_ns = step_ns;
        }
    }
    *head = (unsigned char)bits;
    block->len = (size_t)(p - block->p);
    gsp_assert(block->len <= BLOCK_BYTES);
    profile->last = *sample;
}

/* The row of a thread and stack, added if it does not exist; SIZE_MAX if memory runs out. */
static size_t total_row(struct gsp_profile *profile, uint32_t thread, uint32_t stack)
{
    const struct trail *trail = &profile->trails[thread];
    if (trail->any && profile->totals[trail->total].stack == stack)
        return trail->total;
    const uint32_t *known = gsp_hmap_get(&profile->total_map, thread, stack);
    if (known)
        return *known;
    if (profile->total_count >= UINT32_MAX)
        return SIZE_MAX;
    if (!gsp_array_fit(&profile->totals, &profile->total_cap, profile->total_count + 1))
        return SIZE_MAX;
    if (!gsp_hmap_put(&profile->total_map, thread, stack, (uint32_t)profile->total_count))
        return SIZE_MAX;
    profile->totals[profile->total_count] = (struct gsp_total){.thread = thread, .stack = stack};
    return profile->total_count++;
}

static int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t sum = 0;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static int check_ids(const struct gsp_profile *profile, uint32_t thread, uint32_t stack,
                     struct gsp_err *err)
{
    if (thread >= profile->thread_count)
        return err_unknown(err, "thread", thread);
    if (stack > profile->stack_count)
        return err_unknown(err, "stack", stack);
    return GSP_OK;
}

void gsp_model_profile_merge_lines(struct gsp_profile *profile, bool first)
{
    for (size_t id = 1; id <= profile->frame_count; id++) {
        struct gsp_frame *frame = &profile->frames[id];
        frame->line = first ? frame->first_line : 0;
    }
}

int gsp_model_profile_add(struct gsp_profile *profile, const struct gsp_sample *sample,
                          struct gsp_err *err)
{
    int rc = check_ids(profile, sample->thread, sample->stack, err);
    if (rc)
        return rc;
    struct block *block = NULL;
    if (profile->keep_samples) {
        block = block_for_sample(profile);
        if (!block)
            return gsp_err_nomem(err);
    }
    size_t row = total_row(profile, sample->thread, sample->stack);
    if (row == SIZE_MAX)
        return gsp_err_nomem(err);
    struct gsp_total *total = &profile->totals[row];
    total->count++;
    total->weight = add_saturated(total->weight, sample->weight);
    profile->sample_count++;

    struct trail *trail = &profile->trails[sample->thread];
    struct gsp_sample kept = *sample;
    if (trail->any && kept.time_ns < trail->time_ns)
        kept.time_ns = trail->time_ns;
    *trail = (struct trail){.time_ns = kept.time_ns, .total = row, .any = true};
    if (block)
        code_sample(profile, block, &kept);
    return GSP_OK;
}

int gsp_model_profile_add_total(struct gsp_profile *profile, const struct gsp_total *total,
                                struct gsp_err *err)
{
    int rc = check_ids(profile, total->thread, total->stack, err);
    if (rc)
        return rc;
    size_t row = total_row(profile, total->thread, total->stack);
    if (row == SIZE_MAX)
        return gsp_err_nomem(err);
    struct gsp_total *sum = &profile->totals[row];
    if (__builtin_add_overflow(sum->count, total->count, &sum->count))
        sum->count = UINT64_MAX;
    sum->weight = add_saturated(sum->weight, total->weight);
    if (__builtin_add_overflow(profile->sample_count, total->count, &profile->sample_count))
        profile->sample_count = UINT64_MAX;
    profile->has_sums = true;
    return GSP_OK;
}

size_t gsp_model_profile_string_count(const struct gsp_profile *profile)
{
    return profile->text_count;
}

size_t gsp_model_profile_string_bytes(const struct gsp_profile *profile)
{
    return profile->bytes_len;
}

size_t gsp_model_profile_frame_count(const struct gsp_profile *profile)
{
    return profile->frame_count;
}

size_t gsp_model_profile_stack_count(const struct gsp_profile *profile)
{
    return profile->stack_count;
}

size_t gsp_model_profile_process_count(const struct gsp_profile *profile)
{
    return profile->process_count;
}

size_t gsp_model_profile_thread_count(const struct gsp_profile *profile)
{
    return profile->thread_count;
}

uint64_t gsp_model_profile_sample_count(const struct gsp_profile *profile)
{
    return profile->sample_count;
}

bool gsp_model_profile_has_samples(const struct gsp_profile *profile)
{
    return profile->keep_samples && !profile->has_sums;
}

struct gsp_sv gsp_model_profile_string_at(const struct gsp_profile *profile, uint32_t id)
{
    if (id == GSP_NONE || id > profile->text_count)
        return (struct gsp_sv){"", 0};
    const struct text *text = &profile->texts[id];
    return (struct gsp_sv){profile->bytes + text->offset, text->len};
}

const struct gsp_frame *gsp_model_profile_frame_at(const struct gsp_profile *profile, uint32_t id)
{
    return id != GSP_NONE && id <= profile->frame_count ? &profile->frames[id] : NULL;
}

const struct gsp_process *gsp_model_profile_process_at(const struct gsp_profile *profile,
                                                       uint32_t i)
{
    return i < profile->process_count ? &profile->processes[i] : NULL;
}

const struct gsp_thread *gsp_model_profile_thread_at(const struct gsp_profile *profile, uint32_t i)
{
    return i < profile->thread_count ? &profile->threads[i] : NULL;
}

uint32_t gsp_model_profile_stack_caller(const struct gsp_profile *profile, uint32_t stack)
{
    return stack <= profile->stack_count ? profile->stacks[stack].caller : GSP_NONE;
}

uint32_t gsp_model_profile_stack_frame(const struct gsp_profile *profile, uint32_t stack)
{
    return stack <= profile->stack_count ? profile->stacks[stack].frame : GSP_NONE;
}

uint32_t gsp_model_profile_stack_depth(const struct gsp_profile *profile, uint32_t stack)
{
    return stack <= profile->stack_count ? profile->stacks[stack].depth : 0;
}

size_t gsp_model_profile_stack_frames(const struct gsp_profile *profile, uint32_t stack,
                                      uint32_t *frames, size_t cap)
{
    size_t depth = gsp_model_profile_stack_depth(profile, stack);
    size_t count = depth < cap ? depth : cap;
    for (size_t i = depth; i > 0; i--) {
        const struct stack *node = &profile->stacks[stack];
        if (i <= count)
            frames[i - 1] = node->frame;
        stack = node->caller;
    }
    return count;
}

void gsp_model_sample_iter_init(struct gsp_sample_iter *iter, const struct gsp_profile *profile)
{
    *iter = (struct gsp_sample_iter){.profile = profile};
}

bool gsp_model_sample_iter_next(struct gsp_sample_iter *iter, struct gsp_sample *out)
{
    const struct gsp_profile *profile = iter->profile;
    while (iter->block < profile->block_count && iter->pos >= profile->blocks[iter->block].len) {
        iter->block++;
        iter->pos = 0;
    }
    if (iter->block >= profile->block_count)
        return false;

    const unsigned char *start = profile->blocks[iter->block].p;
    const unsigned char *p = start + iter->pos;
    struct gsp_sample *last = &iter->last;
    unsigned bits = *p++;
    last->flags = bits & HEAD_FLAGS;
    if (bits & HEAD_THREAD)
        last->thread = (uint32_t)get_varint(&p);
    if (bits & HEAD_STACK)
        last->stack = (uint32_t)((int64_t)last->stack + gsp_unzigzag(get_varint(&p)));
    if (bits & HEAD_WEIGHT)
        last->weight = plus(last->weight, gsp_unzigzag(get_varint(&p)));
    if (bits & HEAD_TIME_OTHER)
        iter->step_ns = plus(iter->step_ns, gsp_unzigzag(get_varint(&p)));
    if (bits & (HEAD_TIME_OTHER | HEAD_TIME_STEP))
        last->time_ns = plus(last->time_ns, iter->step_ns);
    iter->pos = (size_t)(p - start);
    *out = *last;
    return true;
}

size_t gsp_model_profile_total_count(const struct gsp_profile *profile)
{
    return profile->total_count;
}

const struct gsp_total *gsp_model_profile_total_at(const struct gsp_profile *profile, size_t i)
{
    return i < profile->total_count ? &profile->totals[i] : NULL;
}
