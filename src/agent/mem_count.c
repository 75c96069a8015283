/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_count.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/mem_events.h"
#include "agent/mem_modules.h"
#include "agent/mem_tables.h"
#include "agent/mem_walk.h"
#include "agent/mem_weight.h"
#include "base/time.h"

/* Attempts before a thread yields, and before it sleeps. Yielding does not let a thread of lower
 * priority run. */
#define SPINS       100
#define YIELDS      200
#define SLEEP_NS    50000L
/* Threads with their own root and their own last walk. */
#define ROOTS_MAX   256U
#define WALKS_MAX   48U
#define THREAD_NAME 17U /* the kernel's 16 bytes and a NUL */
/* Allocations between two reads of the clock. */
#define CLOCK_EVERY 64U
/* When counting is off but a hook could not be removed: bytes until the next check. */
#define OFF_BYTES   (INT64_C(1) << 20)

_Thread_local struct gsp_agent__mem_thread gsp_agent__mem_this_thread
    __attribute__((tls_model("initial-exec")));
_Atomic uint32_t gsp_agent__mem_mode;

static _Atomic uint32_t locked;
static _Atomic uint32_t seed;
static struct gsp_memory_head *head;
static uint64_t mean_bytes; /* 0: exact */
static uint32_t generation;
static uint32_t roots;
static uint32_t counted;
static struct gsp_agent__walk walks[WALKS_MAX];
static pthread_key_t end_key; /* its destructor runs when a thread ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_end_key;

static bool try_lock(void)
{
    /* Partner: the store in mem_unlock(). */
    return atomic_exchange_explicit(&locked, 1, memory_order_acquire) == 0;
}

void gsp_agent__mem_wait(int tries)
{
    const struct timespec pause = {0, SLEEP_NS};
    if (tries >= YIELDS)
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
    else if (tries >= SPINS)
        sched_yield();
}

void gsp_agent__mem_lock(void)
{
    for (int i = 0; !try_lock(); i += i < YIELDS)
        gsp_agent__mem_wait(i);
}

void gsp_agent__mem_unlock(void)
{
    /* Partner: the exchange in try_lock(). */
    atomic_store_explicit(&locked, 0, memory_order_release);
}

/* Only the holder of the lock writes; any thread may read. */
static inline void add(_Atomic uint64_t *to, uint64_t more)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static inline uint64_t get(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* --------------------------------------------------------------------------------- threads */

static void end_thread(void *walk)
{
    gsp_agent__mem_this_thread.walk = NULL;
    atomic_store_explicit(&((struct gsp_agent__walk *)walk)->owner, 0, memory_order_release);
}

static void make_end_key(void)
{
    has_end_key = pthread_key_create(&end_key, end_thread) == 0;
}

static struct gsp_agent__walk *free_walk(void)
{
    for (uint32_t i = 0; has_end_key && i < WALKS_MAX; i++) {
        uint32_t free_owner = 0;
        if (atomic_compare_exchange_strong(&walks[i].owner, &free_owner, 1))
            return &walks[i];
    }
    return NULL;
}

static void claim_walk(struct gsp_agent__mem_thread *me)
{
    me->walk = free_walk();
    if (me->walk) {
        /* If it fails, the thread never returns its walk. */
        gsp_ignore(pthread_setspecific(end_key, me->walk) != 0);
    }
}

/* Returns the name of this thread. Does not read a file, which would be a cancellation point while
 * the lock is held. */
static struct gsp_sv thread_name(char out[THREAD_NAME])
{
    memset(out, 0, THREAD_NAME);
    gsp_ignore(prctl(PR_GET_NAME, out) != 0); /* "" then */
    return gsp_sv_of(out);
}

/* Creates the outermost node of this thread's stacks. Threads beyond ROOTS_MAX share one. */
static void make_root(struct gsp_agent__mem_thread *me)
{
    const bool own = roots < ROOTS_MAX;
    const pid_t tid = own ? gettid() : 0;
    char text[THREAD_NAME];
    const struct gsp_agent__frame_key key = {.code = 2, .instr = (uint64_t)tid};
    const struct gsp_sv name = !own              ? gsp_sv_of("other threads")
                               : tid == getpid() ? gsp_sv_of("MainThread")
                                                 : thread_name(text);
    const struct gsp_memory_frame frame = {
        .name = gsp_agent__text_put(name),
        .line = (uint32_t)tid,
        .kind = GSP_MEMORY_THREAD,
    };
    roots += own ? 1 : 0;
    me->root = gsp_agent__node_put(0, gsp_agent__frame_put(&key, &frame));
    me->generation = generation;
    if (me->walk)
        me->walk->depth = 0;
}

/* ------------------------------------------------------------------------------ on and off */

bool gsp_agent__mem_count_init(struct gsp_memory_head *to, const struct gsp_agent_memory_opts *opts)
{
    pthread_once(&once, make_end_key);
    gsp_agent__mem_lock();
    head = to;
    mean_bytes = opts->mode == GSP_MEMORY_EXACT ? 0 : opts->interval_bytes;
    generation++;
    roots = 0;
    counted = 0;
    gsp_agent__walk_init(opts->python);
    const bool ok = gsp_agent__tables_init(to) && gsp_agent__live_init();
    gsp_agent__mem_unlock();
    return ok;
}

void gsp_agent__mem_count_on(enum gsp_memory_mode mode)
{
    gsp_agent__mem_lock();
    atomic_store(&gsp_agent__mem_mode, mode);
    gsp_agent__mem_unlock();
}

void gsp_agent__mem_count_reset(void)
{
    for (uint32_t i = 0; i < WALKS_MAX; i++)
        if (&walks[i] != gsp_agent__mem_this_thread.walk)
            atomic_store(&walks[i].owner, 0);
    gsp_agent__mem_this_thread.random = 0;
    if (atomic_load(&locked) != 0)
        gsp_agent__live_abandon(); /* a thread of the parent, perhaps this one, was changing it */
    gsp_agent__mem_unlock();
}

bool gsp_agent__mem_is_due(struct gsp_agent__mem_thread *me, size_t bytes)
{
    if (atomic_load_explicit(&gsp_agent__mem_mode, memory_order_relaxed) != GSP_MEMORY_SAMPLED) {
        me->left = OFF_BYTES;
        return false;
    }
    bool due = true;
    if (me->random == 0) {
        /* The first allocation of the thread: no distance was drawn yet. */
        me->random = ((uint64_t)atomic_fetch_add(&seed, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
                     (uint64_t)gsp_now_ns();
        me->random |= 1;
        me->left = gsp_agent__distance(gsp_agent__random_next(&me->random), mean_bytes) -
                   (bytes < INT64_MAX / 2 ? (int64_t)bytes : INT64_MAX / 2);
        due = me->left < 0;
    }
    if (due)
        me->left = gsp_agent__distance(gsp_agent__random_next(&me->random), mean_bytes);
    return due && me->paused == 0;
}

/* -------------------------------------------------------------------------------- counting */

/* Call before a site changes. If the process has reached a new peak since the site's last change,
 * the current live values are those at the peak. */
static inline void keep_peak(struct gsp_memory_site *site)
{
    const uint64_t epoch = get(&head->peak_epoch);
    if (get(&site->peak_epoch) != epoch) {
        atomic_store_explicit(&site->peak_bytes, get(&site->alloc_bytes) - get(&site->free_bytes),
                              memory_order_relaxed);
        atomic_store_explicit(&site->peak_count, get(&site->alloc_count) - get(&site->free_count),
                              memory_order_relaxed);
        atomic_store_explicit(&site->peak_epoch, epoch, memory_order_relaxed);
    }
}

static int64_t coarse_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * GSP_NS_PER_S + now.tv_nsec;
}

static void count_alloc(uint32_t number, const struct gsp_agent__weight *weight)
{
    struct gsp_memory_site *site = gsp_agent__site_at(number);
    struct gsp_memory_total *total = &head->total[site->allocator];
    keep_peak(site);
    add(&site->alloc_bytes, weight->bytes);
    add(&site->alloc_count, weight->count);
    add(&site->samples, 1);
    if (weight->var != 0)
        add(&site->alloc_var, weight->var);
    add(&total->alloc_bytes, weight->bytes);
    add(&total->alloc_count, weight->count);
    add(&head->live_bytes, weight->bytes);
    if (get(&head->live_bytes) > get(&head->peak_bytes)) {
        atomic_store_explicit(&head->peak_bytes, get(&head->live_bytes), memory_order_relaxed);
        atomic_store_explicit(&head->peak_ns, coarse_ns(), memory_order_relaxed);
        add(&head->peak_epoch, 1);
    }
    if (counted++ % CLOCK_EVERY == 0 || weight->var != 0)
        atomic_store_explicit(&head->last_ns, coarse_ns(), memory_order_relaxed);
}

static void count_free(uint32_t number, const struct gsp_agent__weight *weight)
{
    /* The block was removed from the table before a restart: its site number is no longer valid. */
    if (number >= atomic_load_explicit(&head->site_count, memory_order_relaxed))
        return;
    struct gsp_memory_site *site = gsp_agent__site_at(number);
    struct gsp_memory_total *total = &head->total[site->allocator];
    keep_peak(site);
    add(&site->free_bytes, weight->bytes);
    add(&site->free_count, weight->count);
    if (weight->var != 0)
        add(&site->free_var, weight->var);
    add(&total->free_bytes, weight->bytes);
    add(&total->free_count, weight->count);
    atomic_store_explicit(&head->live_bytes, get(&head->live_bytes) - weight->bytes,
                          memory_order_relaxed);
}

static void count_loss(enum gsp_memory_loss loss)
{
    if (loss < GSP_MEMORY_LOSSES)
        add(&head->lost[loss], 1);
}

static bool is_on(void)
{
    return atomic_load_explicit(&gsp_agent__mem_mode, memory_order_relaxed) != GSP_MEMORY_OFF;
}

/* Returns the site of this thread's stack. */
static uint32_t find_site(enum gsp_memory_allocator allocator, const void *caller)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    enum gsp_memory_loss loss = GSP_MEMORY_LOSSES;
    if (me->generation != generation)
        make_root(me);
    uint32_t node = gsp_agent__walk(me->root, mean_bytes == 0 ? me->walk : NULL, &loss);
    const uint32_t library = caller ? gsp_agent__module_frame(caller, generation) : 0;
    if (library != 0) {
        const uint32_t leaf = gsp_agent__node_put(node, library);
        loss = leaf != 0 ? loss : GSP_MEMORY_LOST_STACK;
        node = leaf != 0 ? leaf : node;
    }
    bool is_full = false;
    uint32_t site = gsp_agent__site_put(node, allocator, &is_full);
    if (is_full) {
        loss = GSP_MEMORY_LOST_STACK;
        site = gsp_agent__site_put(gsp_agent__node_short(node), allocator, &is_full);
    }
    count_loss(loss);
    return site;
}

static void count_freed(const struct gsp_agent__block *block)
{
    const struct gsp_agent__weight weight =
        gsp_agent__weigh(block->address, block->size, mean_bytes);
    count_free(block->site, &weight);
    if (gsp_unlikely(block->size >= gsp_agent__mem_events_from) && mean_bytes == 0)
        gsp_agent__mem_event(block->address, -(int64_t)block->size);
}

static void track(const struct gsp_agent__block *block)
{
    if (!gsp_agent__live_put(block))
        count_loss(GSP_MEMORY_LOST_LIVE);
}

void gsp_agent__mem_count_alloc(const void *block, size_t bytes,
                                enum gsp_memory_allocator allocator, const void *caller)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    if (!me->walk && atomic_load(&gsp_agent__mem_mode) == GSP_MEMORY_EXACT)
        claim_walk(me);
    gsp_agent__mem_lock();
    if (is_on()) {
        struct gsp_agent__block old;
        /* Freed without a hook, and allocated again. */
        if (gsp_agent__live_remove(block, &old)) {
            count_freed(&old);
            count_loss(GSP_MEMORY_LOST_FREE);
        }
        const struct gsp_agent__weight weight = gsp_agent__weigh(block, bytes, mean_bytes);
        const uint32_t site = find_site(allocator, caller);
        count_alloc(site, &weight);
        if (gsp_unlikely(bytes >= gsp_agent__mem_events_from) && mean_bytes == 0)
            gsp_agent__mem_event(block, (int64_t)bytes);
        const struct gsp_agent__block now = {.address = block, .size = bytes, .site = site};
        track(&now);
    }
    gsp_agent__mem_unlock();
}

void gsp_agent__mem_count_free(const void *block)
{
    struct gsp_agent__block old;
    gsp_agent__mem_lock();
    if (is_on() && gsp_agent__live_remove(block, &old))
        count_freed(&old);
    gsp_agent__mem_unlock();
}

bool gsp_agent__mem_untrack(const void *block, struct gsp_agent__block *out)
{
    gsp_agent__mem_lock();
    const bool found = is_on() && gsp_agent__live_remove(block, out);
    gsp_agent__mem_unlock();
    return found;
}

void gsp_agent__mem_confirm_free(const struct gsp_agent__block *block)
{
    gsp_agent__mem_lock();
    if (is_on())
        count_freed(block);
    gsp_agent__mem_unlock();
}

void gsp_agent__mem_track_again(const struct gsp_agent__block *block)
{
    gsp_agent__mem_lock();
    if (is_on())
        track(block);
    gsp_agent__mem_unlock();
}

void gsp_agent__mem_confirm_partial_free(const struct gsp_agent__block *block, size_t bytes)
{
    gsp_agent__mem_lock();
    if (is_on() && mean_bytes != 0) {
        /* The weight of a sample depends on its whole size. */
        count_freed(block);
    } else if (is_on()) {
        const struct gsp_agent__weight weight = {bytes, 0, 0};
        const struct gsp_agent__block rest = {
            .address = (const char *)block->address + bytes,
            .size = block->size - bytes,
            .site = block->site,
        };
        count_free(block->site, &weight);
        if (gsp_unlikely(bytes >= gsp_agent__mem_events_from))
            gsp_agent__mem_event(block->address, -(int64_t)bytes);
        track(&rest);
    }
    gsp_agent__mem_unlock();
}

void gsp_agent__mem_count_nested(void)
{
    /* Without the lock, because this thread may hold it. */
    if (is_on())
        atomic_fetch_add_explicit(&head->lost[GSP_MEMORY_LOST_NESTED], 1, memory_order_relaxed);
}

uint32_t gsp_agent__mem_node(void)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    enum gsp_memory_loss loss = GSP_MEMORY_LOSSES;
    uint32_t node = 0;
    gsp_agent__mem_lock();
    if (is_on()) {
        if (me->generation != generation)
            make_root(me);
        node = gsp_agent__walk(me->root, NULL, &loss);
    }
    gsp_agent__mem_unlock();
    return node;
}
