/* SPDX-License-Identifier: Apache-2.0 */
#include "pyext/lines.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/attr.h"
#include "base/map.h"
#include "base/time.h"

/* Most lines counted of a code object. */
#define LINES_MAX (1U << 20)
/* Most frames counted of a thread. */
#define DEPTH_MAX (1U << 16)

struct entry {
    const void *frame;
    struct gsp_pyext_code_lines *lines;
    struct gsp_pyext_line *line; /* current line; NULL: none yet */
    int64_t since_ns;
};

struct stack {
    struct entry *entries;
    size_t depth;
    size_t cap;
    uint64_t generation;
};

static struct {
    _Atomic uint64_t generation; /* odd: on */
    pthread_mutex_t mutex;       /* protects map and codes without a GIL */
    struct gsp_hmap map;         /* address of a code object to its index */
    struct gsp_pyext_code_lines **codes;
    size_t count;
    size_t cap;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A pointer, so that the thread-local data stay small: the loader has little static TLS for
 * libraries loaded late, and other libraries need it. */
static _Thread_local struct stack *mine;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#ifdef GSP_FREE_THREADED
static void lock(void)
{
    pthread_mutex_lock(&all.mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&all.mutex);
}
#else
static void lock(void)
{
}

static void unlock(void)
{
}
#endif

static void free_stack(void *arg)
{
    struct stack *stack = arg;
    mine = NULL;
    free(stack->entries);
    free(stack);
}

static void make_key(void)
{
    gsp_ignore(pthread_key_create(&at_exit, free_stack));
}

static struct stack *make_stack(void)
{
    pthread_once(&once, make_key);
    struct stack *stack = calloc(1, sizeof(*stack));
    if (stack && pthread_setspecific(at_exit, stack) != 0) {
        free(stack);
        stack = NULL;
    }
    mine = stack;
    return stack;
}

/* Returns NULL while lines are not counted. */
static struct stack *stack_now(void)
{
    struct stack *stack = mine;
    const uint64_t generation = atomic_load_explicit(&all.generation, memory_order_relaxed);
    if (gsp_likely(stack && stack->generation == generation))
        return stack;
    if (generation % 2 == 0)
        return NULL;
    if (!stack)
        stack = make_stack();
    if (stack) {
        stack->depth = 0;
        stack->generation = generation;
    }
    return stack;
}

static void add_time(struct entry *entry, int64_t now_ns)
{
    if (!entry->line)
        return;
#ifdef GSP_FREE_THREADED
    __atomic_fetch_add(&entry->line->ns, now_ns - entry->since_ns, __ATOMIC_RELAXED);
#else
    entry->line->ns += now_ns - entry->since_ns;
#endif
}

static void begin_line(struct entry *entry, int number, int64_t now_ns)
{
    const int64_t index = (int64_t)number - entry->lines->first;
    entry->line = NULL;
    if (index < 0 || (uint64_t)index >= entry->lines->count)
        return;
    entry->line = &entry->lines->at[index];
    entry->since_ns = now_ns;
#ifdef GSP_FREE_THREADED
    __atomic_fetch_add(&entry->line->hits, 1, __ATOMIC_RELAXED);
#else
    entry->line->hits++;
#endif
}

static struct entry *push(struct stack *stack, const void *frame,
                          struct gsp_pyext_code_lines *lines)
{
    if (stack->depth == stack->cap &&
        (stack->cap == DEPTH_MAX || !gsp_array_fit(&stack->entries, &stack->cap, stack->cap + 1)))
        return NULL;
    struct entry *entry = &stack->entries[stack->depth++];
    *entry = (struct entry){.frame = frame, .lines = lines};
    return entry;
}

/* Ends the frames above this one; returns false if it is not on the stack. */
static bool unwind_to(struct stack *stack, const void *frame, int64_t now_ns)
{
    size_t depth = stack->depth;
    while (depth > 0 && stack->entries[depth - 1].frame != frame)
        depth--;
    if (depth == 0)
        return false;
    for (; stack->depth > depth; stack->depth--)
        add_time(&stack->entries[stack->depth - 1], now_ns);
    return true;
}

/* ------------------------------------------------------------------ public */

void gsp_pyext__lines_start(void)
{
    atomic_fetch_or(&all.generation, 1);
}

void gsp_pyext__lines_stop(void)
{
    struct stack *stack = stack_now();
    const int64_t now_ns = gsp_now_ns();
    for (; stack && stack->depth > 0; stack->depth--)
        add_time(&stack->entries[stack->depth - 1], now_ns);
    if (gsp_pyext__lines_is_on())
        atomic_fetch_add(&all.generation, 1);
}

bool gsp_pyext__lines_is_on(void)
{
    return atomic_load_explicit(&all.generation, memory_order_relaxed) % 2 == 1;
}

struct gsp_pyext_code_lines *gsp_pyext__lines_find(const void *code)
{
    lock();
    const uint32_t *index = gsp_hmap_get(&all.map, (uintptr_t)code, 0);
    struct gsp_pyext_code_lines *lines = index ? all.codes[*index] : NULL;
    unlock();
    return lines;
}

/* With the lock. */
static bool keep(struct gsp_pyext_code_lines *lines)
{
    if (!gsp_array_fit(&all.codes, &all.cap, all.count + 1) ||
        !gsp_hmap_put(&all.map, (uintptr_t)lines->code, 0, (uint32_t)all.count))
        return false;
    all.codes[all.count++] = lines;
    return true;
}

struct gsp_pyext_code_lines *gsp_pyext__lines_add(void *code, int first, size_t count)
{
    const size_t counted = count > LINES_MAX ? LINES_MAX : count;
    struct gsp_pyext_code_lines *lines = calloc(1, sizeof(*lines) + counted * sizeof(lines->at[0]));
    if (!lines)
        return NULL;
    lines->code = code;
    lines->first = first;
    lines->count = counted;
    lock();
    const bool ok = keep(lines);
    unlock();
    if (!ok) {
        free(lines);
        lines = NULL;
    }
    return lines;
}

void gsp_pyext__lines_call(const void *frame, struct gsp_pyext_code_lines *lines)
{
    struct stack *stack = stack_now();
    if (stack)
        gsp_ignore(!push(stack, frame, lines));
}

bool gsp_pyext__lines_line(const void *frame, int line)
{
    struct stack *stack = stack_now();
    if (gsp_unlikely(!stack))
        return true;
    if (gsp_unlikely(stack->depth == 0 || stack->entries[stack->depth - 1].frame != frame))
        return false;
    struct entry *entry = &stack->entries[stack->depth - 1];
    const int64_t now_ns = gsp_now_ns();
    add_time(entry, now_ns);
    begin_line(entry, line, now_ns);
    return true;
}

void gsp_pyext__lines_enter(const void *frame, struct gsp_pyext_code_lines *lines, int line)
{
    struct stack *stack = stack_now();
    if (stack && !unwind_to(stack, frame, gsp_now_ns()) && !push(stack, frame, lines))
        return;
    gsp_ignore(!gsp_pyext__lines_line(frame, line));
}

void gsp_pyext__lines_return(const void *frame)
{
    struct stack *stack = stack_now();
    if (!stack || stack->depth == 0)
        return;
    const int64_t now_ns = gsp_now_ns();
    if (unwind_to(stack, frame, now_ns)) {
        stack->depth--;
        add_time(&stack->entries[stack->depth], now_ns);
    }
}

void gsp_pyext__lines_each(bool (*fn)(void *user, const struct gsp_pyext_code_lines *lines),
                           void *user)
{
    for (size_t i = 0;; i++) {
        lock();
        const struct gsp_pyext_code_lines *lines = i < all.count ? all.codes[i] : NULL;
        unlock();
        if (!lines || !fn(user, lines))
            return;
    }
}
