/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_hook.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/mem_count.h"
#include "agent/mem_modules.h"
#include "agent/mem_notice.h"
#include "base/time.h"

/* pymalloc keeps blocks up to this size in arenas, and calls malloc for larger ones. */
#define PY_SMALL       512U
#define PY_SMALL_DEBUG (PY_SMALL - 64U) /* the debug allocator enlarges each block */
#define NOTICE_MIN     1024U            /* smallest value of notice_bytes */
#define DOMAINS        3U
#define HOOKS          12U
/* Exact mode: allocations between checks for new modules; how many after dlopen() always check. */
#define CHECK_EVERY    256U
#define CHECK_CLOSELY  4096

/* The domains of PyMem_GetAllocator(). */
static struct domain {
    struct gsp_agent_allocator was;
    size_t small;     /* up to this size, Python does not call another allocator */
    bool is_in_place; /* the hooks are installed */
    /* Tracked blocks are requested with more than `small` bytes, so that pymalloc allocates and
     * frees them through the raw domain. Then its own free needs no hook. */
    bool has_detour;
} domains[DOMAINS];

static const struct gsp_agent_python *python;
static struct gsp_agent_python python_copy;
static size_t notice_bytes = SIZE_MAX;
static _Atomic int check_closely;
static _Atomic(void (*)(void)) tick;
static int64_t tick_ns;
static _Atomic int64_t next_tick_ns;

/* State of a hook during the call of its allocator. */
struct stay {
    int64_t left;
    bool is_due;
    bool is_free; /* not below another hook */
};

/* ---------------------------------------------------------------------------- begin and end */

static void check_modules(void)
{
    static _Thread_local uint32_t counts __attribute__((tls_model("initial-exec")));
    const bool is_turn =
        counts++ % CHECK_EVERY == 0 || gsp_agent_memory_mode() == GSP_MEMORY_SAMPLED;
    const bool is_close = atomic_load_explicit(&check_closely, memory_order_relaxed) > 0;
    if (is_close)
        atomic_fetch_sub_explicit(&check_closely, 1, memory_order_relaxed);
    if (is_close || (is_turn && !gsp_agent__modules_is_forked()))
        gsp_agent__modules_scan();
}

/* Calls tick() if it is due. Only Python's main thread does so, while it holds the GIL: it is the
 * thread that finalizes the interpreter, so the interpreter cannot end meanwhile. */
static void run_tick(enum gsp_memory_allocator allocator)
{
    void (*call)(void) = atomic_load_explicit(&tick, memory_order_acquire);
    const struct gsp_memory_head *head = gsp_agent_memory_view();
    int64_t due_ns = atomic_load_explicit(&next_tick_ns, memory_order_relaxed);
    const bool holds_python = allocator == GSP_MEMORY_PY_MEM || allocator == GSP_MEMORY_PY_OBJECT;
    if (!call || !head || !holds_python)
        return;
    const int64_t now_ns = atomic_load_explicit(&head->last_ns, memory_order_relaxed);
    if (now_ns >= due_ns && gettid() == getpid() && !python->is_finalizing() &&
        atomic_compare_exchange_strong(&next_tick_ns, &due_ns, now_ns + tick_ns))
        call();
}

/* Counts in a thread that is not below another hook. Preserves the allocator's errno. */
static __attribute__((noinline)) void count(const struct stay *stay, void *block, size_t bytes,
                                            enum gsp_memory_allocator allocator, const void *caller)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    const int saved_errno = errno;
    me->busy = GSP_AGENT__INSIDE;
    if (stay->is_due && block) {
        gsp_agent__mem_count_alloc(block, bytes, allocator, caller);
        check_modules();
        run_tick(allocator);
    }
    if (block && bytes >= notice_bytes && me->paused == 0)
        gsp_agent__mem_notice();
    errno = saved_errno;
}

static inline struct stay begin(bool exact, size_t bytes)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    struct stay stay = {me->left, false, me->busy == 0};
    if (!stay.is_free)
        return stay;
    if (exact) {
        stay.is_due =
            me->paused == 0 &&
            atomic_load_explicit(&gsp_agent__mem_mode, memory_order_relaxed) == GSP_MEMORY_EXACT;
    } else if (me->left < 0) {
        stay.is_due = gsp_agent__mem_is_due(me, bytes);
    }
    stay.left = me->left;
    me->left = GSP_AGENT__FAR;
    me->busy = GSP_AGENT__BELOW;
    return stay;
}

static inline void end(const struct stay *stay, void *block, size_t bytes,
                       enum gsp_memory_allocator allocator, const void *caller)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    if (!stay->is_free) {
        if (me->busy == GSP_AGENT__INSIDE)
            gsp_agent__mem_count_nested();
        return;
    }
    if (stay->is_due || bytes >= notice_bytes)
        count(stay, block, bytes, allocator, caller);
    me->left = stay->left;
    me->busy = 0;
}

/* Stops tracking a block that may be freed or moved. Returns false if it is not tracked, or if the
 * engine is busy in this thread. */
static bool untrack(const void *block, struct gsp_agent__block *out)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    const uint32_t busy = me->busy;
    if (!block || busy == GSP_AGENT__INSIDE)
        return false;
    me->busy = GSP_AGENT__INSIDE;
    const bool found = gsp_agent__mem_untrack(block, out);
    me->busy = busy;
    return found;
}

/* After untrack() and the allocator: counts the free, or tracks the block again. */
static void finish_old(const struct gsp_agent__block *old, bool was_freed)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    const uint32_t busy = me->busy;
    me->busy = GSP_AGENT__INSIDE;
    if (was_freed)
        gsp_agent__mem_confirm_free(old);
    else
        gsp_agent__mem_track_again(old);
    me->busy = busy;
}

static __attribute__((noinline)) void count_freed(const void *block)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    const uint32_t busy = me->busy;
    if (!block)
        return;
    if (busy == GSP_AGENT__INSIDE) {
        gsp_agent__mem_count_nested();
        return;
    }
    me->busy = GSP_AGENT__INSIDE;
    gsp_agent__mem_count_free(block);
    me->busy = busy;
}

/* Subtracts bytes from the distance to the next sample. Returns whether it is not reached yet. */
static inline bool passes(size_t bytes)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    me->left = (int64_t)((uint64_t)me->left - bytes);
    return gsp_likely(me->left >= 0);
}

/* The same, for an allocation that may be large enough for a notice. */
static inline bool passes_any(size_t bytes)
{
    const bool near = passes(bytes);
    return near && gsp_likely(bytes < notice_bytes);
}

static size_t product(size_t a, size_t b)
{
    size_t out = 0;
    return __builtin_mul_overflow(a, b, &out) ? 0 : out;
}

/* ------------------------------------------------------------------------------------- Python */

static inline enum gsp_memory_allocator allocator_of(unsigned domain)
{
    return (enum gsp_memory_allocator)(GSP_MEMORY_PY_RAW + domain);
}

static inline size_t request_size(const struct stay *stay, unsigned domain, size_t bytes)
{
    const struct domain *my = &domains[domain];
    return my->has_detour && stay->is_due && bytes <= my->small ? my->small + 1 : bytes;
}

static __attribute__((noinline)) void *py_malloc_counted(bool exact, unsigned domain, void *ctx,
                                                         size_t bytes)
{
    const struct stay stay = begin(exact, bytes);
    void *block = domains[domain].was.malloc(ctx, request_size(&stay, domain, bytes));
    end(&stay, block, bytes, allocator_of(domain), NULL);
    return block;
}

static __attribute__((noinline)) void *py_calloc_counted(bool exact, unsigned domain, void *ctx,
                                                         size_t n, size_t each)
{
    const size_t bytes = product(n, each);
    const struct stay stay = begin(exact, bytes);
    const bool detour = request_size(&stay, domain, bytes) != bytes;
    void *block = detour ? domains[domain].was.calloc(ctx, 1, request_size(&stay, domain, bytes))
                         : domains[domain].was.calloc(ctx, n, each);
    end(&stay, block, bytes, allocator_of(domain), NULL);
    return block;
}

static __attribute__((noinline)) void *py_realloc_counted(bool exact, unsigned domain, void *ctx,
                                                          void *old, size_t bytes)
{
    struct gsp_agent__block was;
    const struct stay stay = begin(exact, bytes);
    const bool tracked = untrack(old, &was);
    void *block = domains[domain].was.realloc(ctx, old, request_size(&stay, domain, bytes));
    if (tracked)
        finish_old(&was, block != NULL);
    end(&stay, block, bytes, allocator_of(domain), NULL);
    return block;
}

static inline void *py_malloc(bool exact, unsigned domain, void *ctx, size_t bytes)
{
    const struct domain *my = &domains[domain];
    if (!exact && gsp_likely(bytes <= my->small)) {
        if (passes(bytes))
            return my->was.malloc(ctx, bytes);
    } else if (!exact) {
        gsp_ignore(passes(bytes));
    }
    return py_malloc_counted(exact, domain, ctx, bytes);
}

static inline void *py_calloc(bool exact, unsigned domain, void *ctx, size_t n, size_t each)
{
    const struct domain *my = &domains[domain];
    const size_t bytes = product(n, each);
    if (!exact && passes(bytes) && bytes <= my->small)
        return my->was.calloc(ctx, n, each);
    return py_calloc_counted(exact, domain, ctx, n, each);
}

static inline void *py_realloc(bool exact, unsigned domain, void *ctx, void *old, size_t bytes)
{
    const struct domain *my = &domains[domain];
    if (!exact && passes(bytes) && bytes <= my->small && !gsp_agent__may_be_live(old))
        return my->was.realloc(ctx, old, bytes);
    return py_realloc_counted(exact, domain, ctx, old, bytes);
}

static inline void py_free(unsigned domain, void *ctx, void *block)
{
    if (gsp_agent__may_be_live(block))
        count_freed(block);
    domains[domain].was.free(ctx, block);
}

/* The context is that of the former allocator, because another thread may read the five words of an
 * allocator without a lock and get a mixture of old and new ones. */
#define PY_HOOKS(mode, exact, domain)                                                              \
    static void *mode##_malloc_##domain(void *ctx, size_t bytes)                                   \
    {                                                                                              \
        return py_malloc(exact, domain, ctx, bytes);                                               \
    }                                                                                              \
    static void *mode##_calloc_##domain(void *ctx, size_t n, size_t each)                          \
    {                                                                                              \
        return py_calloc(exact, domain, ctx, n, each);                                             \
    }                                                                                              \
    static void *mode##_realloc_##domain(void *ctx, void *old, size_t bytes)                       \
    {                                                                                              \
        return py_realloc(exact, domain, ctx, old, bytes);                                         \
    }                                                                                              \
    static void mode##_free_##domain(void *ctx, void *block)                                       \
    {                                                                                              \
        py_free(domain, ctx, block);                                                               \
    }

PY_HOOKS(sampled, false, 0)
PY_HOOKS(sampled, false, 1)
PY_HOOKS(sampled, false, 2)
PY_HOOKS(exact, true, 0)
PY_HOOKS(exact, true, 1)
PY_HOOKS(exact, true, 2)

/* The hottest path: pymalloc, whose limit is a constant. */
static inline void *plain_malloc(unsigned domain, void *ctx, size_t bytes)
{
    if (gsp_likely(bytes <= PY_SMALL) && passes(bytes))
        return domains[domain].was.malloc(ctx, bytes);
    return bytes <= PY_SMALL ? py_malloc_counted(false, domain, ctx, bytes)
                             : py_malloc(false, domain, ctx, bytes);
}

static void *plain_malloc_1(void *ctx, size_t bytes)
{
    return plain_malloc(1, ctx, bytes);
}

static void *plain_malloc_2(void *ctx, size_t bytes)
{
    return plain_malloc(2, ctx, bytes);
}

#define PY_ROW(mode, domain)                                                                       \
    {                                                                                              \
        NULL, mode##_malloc_##domain, mode##_calloc_##domain, mode##_realloc_##domain,             \
            mode##_free_##domain                                                                   \
    }

static const struct gsp_agent_allocator py_hooks[2][DOMAINS] = {
    {PY_ROW(sampled, 0), PY_ROW(sampled, 1), PY_ROW(sampled, 2)},
    {PY_ROW(exact, 0), PY_ROW(exact, 1), PY_ROW(exact, 2)},
};

static bool is_hook(const struct gsp_agent_allocator *allocator)
{
    if (allocator->malloc == plain_malloc_1 || allocator->malloc == plain_malloc_2)
        return true;
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < DOMAINS; j++)
            if (allocator->malloc == py_hooks[i][j].malloc)
                return true;
    }
    return false;
}

/* The size up to which the domain's allocator calls no other; 0 if Python uses malloc() for all. */
static size_t small_of(unsigned domain, const struct gsp_agent_allocator *raw)
{
    const struct gsp_agent_allocator *was = &domains[domain].was;
    const bool is_plain = was->ctx == NULL;
    if (domain == 0 || was->malloc == raw->malloc)
        return 0;
    return is_plain ? PY_SMALL : PY_SMALL_DEBUG;
}

/* The last block that the raw domain allocated and freed while a detour is tried. */
static struct {
    void *allocated;
    void *freed;
} trial;

static void *trial_malloc(void *ctx, size_t bytes)
{
    trial.allocated = domains[0].was.malloc(ctx, bytes);
    return trial.allocated;
}

static void trial_free(void *ctx, void *block)
{
    trial.freed = block;
    domains[0].was.free(ctx, block);
}

/* Whether the domain's allocator allocates and frees a block of more than `small` bytes through the
 * raw domain. pymalloc does; others may not. This thread holds the GIL, so only threads without the
 * GIL can run the trial hooks meanwhile, which pass their requests on. */
static bool try_detour(unsigned domain)
{
    struct gsp_agent_allocator watched = domains[0].was;
    const struct domain *my = &domains[domain];
    if (my->small != PY_SMALL)
        return false;
    watched.malloc = trial_malloc;
    watched.free = trial_free;
    python->set_allocator(0, &watched);
    trial.allocated = NULL;
    trial.freed = NULL;
    void *block = my->was.malloc(my->was.ctx, my->small + 1);
    const bool is_allocated = block && trial.allocated == block;
    my->was.free(my->was.ctx, block);
    const bool is_freed = block && trial.freed == block;
    python->set_allocator(0, &domains[0].was);
    return is_allocated && is_freed;
}

static void hook_python(bool exact)
{
    struct gsp_agent_allocator now[DOMAINS];
    for (unsigned i = 0; i < DOMAINS; i++) {
        python->get_allocator((int)i, &now[i]);
        /* A hook that could not be removed before keeps its allocator. */
        if (!is_hook(&now[i]) && !domains[i].is_in_place)
            domains[i].was = now[i];
    }
    for (unsigned i = 0; i < DOMAINS; i++) {
        domains[i].small = small_of(i, &domains[0].was);
        domains[i].has_detour = !exact && !domains[i].is_in_place && try_detour(i);
    }
    for (unsigned i = 0; i < DOMAINS; i++) {
        if (domains[i].is_in_place && !is_hook(&now[i]))
            continue; /* another library has wrapped it */
        struct gsp_agent_allocator mine = py_hooks[exact ? 1 : 0][i];
        mine.ctx = domains[i].was.ctx;
        if (domains[i].has_detour) {
            mine.malloc = i == 1 ? plain_malloc_1 : plain_malloc_2;
            mine.free = domains[i].was.free;
        }
        domains[i].is_in_place = true;
        python->set_allocator((int)i, &mine);
    }
}

static void unhook_python(void)
{
    for (unsigned i = 0; i < DOMAINS; i++) {
        struct gsp_agent_allocator now;
        python->get_allocator((int)i, &now);
        if (domains[i].is_in_place && is_hook(&now)) {
            python->set_allocator((int)i, &domains[i].was);
            domains[i].is_in_place = false;
        }
    }
}

/* -------------------------------------------------------------------------- malloc's family */

/* The calls below use the GOT of this library, which is never hooked. */
#define CALLER __builtin_return_address(0)

static __attribute__((noinline)) void *malloc_counted(bool exact, size_t bytes, const void *caller)
{
    const struct stay stay = begin(exact, bytes);
    void *block = malloc(bytes);
    end(&stay, block, bytes, GSP_MEMORY_MALLOC, caller);
    return block;
}

static void *sampled_malloc(size_t bytes)
{
    if (passes_any(bytes))
        return malloc(bytes);
    return malloc_counted(false, bytes, CALLER);
}

static void *exact_malloc(size_t bytes)
{
    return malloc_counted(true, bytes, CALLER);
}

static void *calloc_counted(bool exact, size_t n, size_t each, const void *caller)
{
    const size_t bytes = product(n, each);
    const struct stay stay = begin(exact, bytes);
    void *block = calloc(n, each);
    end(&stay, block, bytes, GSP_MEMORY_MALLOC, caller);
    return block;
}

static void *sampled_calloc(size_t n, size_t each)
{
    if (passes_any(product(n, each)))
        return calloc(n, each);
    return calloc_counted(false, n, each, CALLER);
}

static void *exact_calloc(size_t n, size_t each)
{
    return calloc_counted(true, n, each, CALLER);
}

static void *realloc_counted(bool exact, void *old, size_t bytes, const void *caller)
{
    struct gsp_agent__block was;
    const struct stay stay = begin(exact, bytes);
    const bool tracked = untrack(old, &was);
    void *block = realloc(old, bytes);
    if (tracked) {
        /* NULL for 0 bytes means that the block was freed. */
        finish_old(&was, block != NULL || bytes == 0);
    }
    end(&stay, block, bytes, GSP_MEMORY_MALLOC, caller);
    return block;
}

static void *sampled_realloc(void *old, size_t bytes)
{
    if (passes_any(bytes) && !gsp_agent__may_be_live(old))
        return realloc(old, bytes);
    return realloc_counted(false, old, bytes, CALLER);
}

static void *exact_realloc(void *old, size_t bytes)
{
    return realloc_counted(true, old, bytes, CALLER);
}

static void *array_counted(bool exact, void *old, size_t n, size_t each, const void *caller)
{
    struct gsp_agent__block was;
    const size_t bytes = product(n, each);
    const struct stay stay = begin(exact, bytes);
    const bool tracked = untrack(old, &was);
    void *block = reallocarray(old, n, each);
    if (tracked)
        finish_old(&was, block != NULL || n == 0 || each == 0);
    end(&stay, block, bytes, GSP_MEMORY_MALLOC, caller);
    return block;
}

static void *sampled_reallocarray(void *old, size_t n, size_t each)
{
    gsp_ignore(passes(product(n, each)));
    return array_counted(false, old, n, each, CALLER);
}

static void *exact_reallocarray(void *old, size_t n, size_t each)
{
    return array_counted(true, old, n, each, CALLER);
}

static void hooked_free(void *block)
{
    if (gsp_unlikely(gsp_agent__may_be_live(block)))
        count_freed(block);
    free(block);
}

/* Aligned blocks are rare, so they have no fast path. */
static int posix_memalign_counted(bool exact, void **out, size_t align, size_t bytes,
                                  const void *caller)
{
    const struct stay stay = begin(exact, bytes);
    const int rc = posix_memalign(out, align, bytes);
    end(&stay, rc == 0 ? *out : NULL, bytes, GSP_MEMORY_MALLOC, caller);
    return rc;
}

static int sampled_posix_memalign(void **out, size_t align, size_t bytes)
{
    gsp_ignore(passes(bytes));
    return posix_memalign_counted(false, out, align, bytes, CALLER);
}

static int exact_posix_memalign(void **out, size_t align, size_t bytes)
{
    return posix_memalign_counted(true, out, align, bytes, CALLER);
}

static void *memalign_counted(bool exact, size_t align, size_t bytes, const void *caller)
{
    const struct stay stay = begin(exact, bytes);
    void *block = memalign(align, bytes);
    end(&stay, block, bytes, GSP_MEMORY_MALLOC, caller);
    return block;
}

static void *sampled_memalign(size_t align, size_t bytes)
{
    gsp_ignore(passes(bytes));
    return memalign_counted(false, align, bytes, CALLER);
}

static void *exact_memalign(size_t align, size_t bytes)
{
    return memalign_counted(true, align, bytes, CALLER);
}

static void *aligned_counted(bool exact, size_t align, size_t bytes, const void *caller)
{
    const struct stay stay = begin(exact, bytes);
    void *block = aligned_alloc(align, bytes);
    end(&stay, block, bytes, GSP_MEMORY_MALLOC, caller);
    return block;
}

static void *sampled_aligned_alloc(size_t align, size_t bytes)
{
    gsp_ignore(passes(bytes));
    return aligned_counted(false, align, bytes, CALLER);
}

static void *exact_aligned_alloc(size_t align, size_t bytes)
{
    return aligned_counted(true, align, bytes, CALLER);
}

/* ----------------------------------------------------------------------------------- mappings */

/* Whether a mapping is memory: anonymous and accessible. */
static bool is_memory(int prot, int flags)
{
    return (flags & MAP_ANONYMOUS) != 0 && prot != PROT_NONE;
}

static void *block_of(void *mapped)
{
    return mapped == MAP_FAILED ? NULL : mapped;
}

static void *sampled_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (!is_memory(prot, flags) || passes_any(bytes))
        return mmap(at, bytes, prot, flags, fd, offset);
    const struct stay stay = begin(false, bytes);
    void *block = mmap(at, bytes, prot, flags, fd, offset);
    end(&stay, block_of(block), bytes, GSP_MEMORY_MMAP, CALLER);
    return block;
}

static void *exact_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (!is_memory(prot, flags))
        return mmap(at, bytes, prot, flags, fd, offset);
    const struct stay stay = begin(true, bytes);
    void *block = mmap(at, bytes, prot, flags, fd, offset);
    end(&stay, block_of(block), bytes, GSP_MEMORY_MMAP, CALLER);
    return block;
}

/* After untrack(), when munmap() removed only the first part of a mapping. */
static void finish_part(const struct gsp_agent__block *old, size_t bytes)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    const uint32_t busy = me->busy;
    me->busy = GSP_AGENT__INSIDE;
    gsp_agent__mem_confirm_partial_free(old, bytes);
    me->busy = busy;
}

static int hooked_munmap(void *block, size_t bytes)
{
    struct gsp_agent__block was;
    const bool tracked = gsp_agent__may_be_live(block) && untrack(block, &was);
    const int rc = munmap(block, bytes);
    if (tracked && rc == 0 && bytes < was.size)
        finish_part(&was, bytes);
    else if (tracked)
        finish_old(&was, rc == 0);
    return rc;
}

static void *mremap_counted(bool exact, void *old, const size_t bytes[2], int flags, void *to)
{
    struct gsp_agent__block was;
    const struct stay stay = begin(exact, bytes[1]);
    const bool tracked = untrack(old, &was);
    void *block = mremap(old, bytes[0], bytes[1], flags, to);
    if (tracked)
        finish_old(&was, block != MAP_FAILED);
    /* A mapping that was not tracked may not be memory. */
    const struct stay counted = {stay.left, stay.is_due && tracked, stay.is_free};
    end(&counted, block_of(block), bytes[1], GSP_MEMORY_MMAP, NULL);
    return block;
}

/* The last argument exists only with some flags; otherwise it is arbitrary, and mremap() ignores
 * it. */
static void *sampled_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to)
{
    gsp_ignore(passes(bytes));
    return mremap_counted(false, old, (const size_t[]){old_bytes, bytes}, flags, to);
}

static void *exact_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to)
{
    return mremap_counted(true, old, (const size_t[]){old_bytes, bytes}, flags, to);
}

/* ------------------------------------------------------------------------------- new modules */

/* A tail call, because dlopen() searches relative to its caller. So the hook cannot do anything
 * afterwards; the allocations that follow check for new modules. */
static void *hooked_dlopen(const char *file, int mode)
{
    atomic_store_explicit(&check_closely, CHECK_CLOSELY, memory_order_relaxed);
    return dlopen(file, mode);
}

/* ------------------------------------------------------------------------ install and remove */

#define HOOK(name, function, mapping)                                                              \
    {                                                                                              \
        name, (uintptr_t)(function), mapping, 0                                                    \
    }

/* malloc must be the first: mem_modules.c uses hooks[0] to find the module that defines it. */
static struct gsp_agent__hook native_hooks[2][HOOKS] = {
    {
        HOOK("malloc", sampled_malloc, false),
        HOOK("free", hooked_free, false),
        HOOK("calloc", sampled_calloc, false),
        HOOK("realloc", sampled_realloc, false),
        HOOK("reallocarray", sampled_reallocarray, false),
        HOOK("posix_memalign", sampled_posix_memalign, false),
        HOOK("memalign", sampled_memalign, false),
        HOOK("aligned_alloc", sampled_aligned_alloc, false),
        HOOK("mmap", sampled_mmap, true),
        HOOK("munmap", hooked_munmap, true),
        HOOK("mremap", sampled_mremap, true),
        HOOK("dlopen", hooked_dlopen, false),
    },
    {
        HOOK("malloc", exact_malloc, false),
        HOOK("free", hooked_free, false),
        HOOK("calloc", exact_calloc, false),
        HOOK("realloc", exact_realloc, false),
        HOOK("reallocarray", exact_reallocarray, false),
        HOOK("posix_memalign", exact_posix_memalign, false),
        HOOK("memalign", exact_memalign, false),
        HOOK("aligned_alloc", exact_aligned_alloc, false),
        HOOK("mmap", exact_mmap, true),
        HOOK("munmap", hooked_munmap, true),
        HOOK("mremap", exact_mremap, true),
        HOOK("dlopen", hooked_dlopen, false),
    },
};

bool gsp_agent__hooks_install(const struct gsp_agent_memory_opts *opts)
{
    const bool exact = opts->mode == GSP_MEMORY_EXACT;
    struct gsp_agent__hook *hooks = native_hooks[exact ? 1 : 0];
    if (opts->python)
        python_copy = *opts->python;
    python = opts->python ? &python_copy : NULL;
    notice_bytes = opts->notice_bytes == 0           ? SIZE_MAX
                   : opts->notice_bytes < NOTICE_MIN ? NOTICE_MIN
                                                     : (size_t)opts->notice_bytes;
    tick_ns = opts->tick_ns;
    atomic_store(&next_tick_ns, gsp_now_ns() + opts->tick_ns);
    atomic_store(&tick, python ? opts->tick : NULL);
    const uintptr_t interpreter = python ? (uintptr_t)python->set_allocator : 0;
    if (!gsp_agent__modules_hook(hooks, HOOKS, interpreter))
        return false;
    if (python)
        hook_python(exact);
    return true;
}

void gsp_agent__hooks_end_python(void)
{
    /* Partner: the load in run_tick(). */
    atomic_store_explicit(&tick, NULL, memory_order_release);
}

void gsp_agent__hooks_remove(void)
{
    if (python)
        unhook_python();
    gsp_agent__modules_unhook();
    notice_bytes = SIZE_MAX;
}
