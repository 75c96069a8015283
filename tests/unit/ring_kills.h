/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_kills.h -- kills processes that write rings, at random times, and compares what they had
 * published with what a reader finds.
 *
 * A writer notes in shared memory how many rows and strings it has published. After its death each
 * lane has those rows, at most one more, and no torn row; the dictionary has those strings.
 */
#pragma once

#include <pthread.h>

#include "base/time.h"
#include "ring_fixture.h"

#define RING_KILLS_WRITERS 4U
#define RING_KILLS_STRINGS 500U
#define RING_KILLS_LIFE_US 2000U /* longest life of a writer after its first row */
#define RING_KILLS_EARLY   4U    /* one in this many is killed while it starts */

/* Shared between the process that is killed and the one that checks. */
struct ring_kills {
    _Atomic uint64_t rows[RING_KILLS_WRITERS]; /* published by each thread */
    _Atomic uint32_t strings;                  /* published */
    uint32_t ids[RING_KILLS_STRINGS];
    uint32_t writers;
    uint32_t capacity;
};

struct ring_kills_result {
    uint64_t kills;
    uint64_t early;   /* before a ring existed */
    uint64_t rows;    /* published */
    uint64_t strings; /* published */
    uint64_t wrong;
    uint64_t wrong_kill; /* number of the first wrong one */
    char what[128];
};

struct ring_kills_thread {
    struct gsp_ring *ring;
    struct ring_kills *shared;
    uint32_t id;
};

static inline void ring_kills_text(uint32_t n, char out[32])
{
    snprintf(out, 32, "string.%u", n);
}

static inline void *ring_kills_write(void *arg)
{
    const struct ring_kills_thread *thread = arg;
    struct ring_kills *shared = thread->shared;
    struct gsp_lane *lane = gsp_ring_lane(thread->ring);
    if (!lane)
        return NULL;
    for (uint64_t n = 0;; n++) {
        const struct gsp_row_python_torch_trace row = ring_row(thread->id + 1, n);
        gsp_append_python_torch_trace(lane, &row);
        /* Pairs with the load in ring_kills_lane(). */
        atomic_store_explicit(&shared->rows[thread->id], n + 1, memory_order_release);
        const uint32_t k = atomic_load(&shared->strings);
        if (thread->id == 0 && k < RING_KILLS_STRINGS) {
            char text[32];
            ring_kills_text(k, text);
            shared->ids[k] = gsp_ring_intern(thread->ring, gsp_sv_of(text));
            atomic_store(&shared->strings, k + 1);
        }
    }
}

/* Runs in the process that is killed. */
static inline void ring_kills_live(int folder, struct ring_kills *shared)
{
    static struct ring_kills_thread threads[RING_KILLS_WRITERS];
    struct gsp_ring *ring = ring_make(folder, shared->capacity);
    for (uint32_t i = 0; i < shared->writers; i++) {
        pthread_t thread;
        threads[i] = (struct ring_kills_thread){ring, shared, i};
        if (i + 1 == shared->writers)
            ring_kills_write(&threads[i]);
        else if (pthread_create(&thread, NULL, ring_kills_write, &threads[i]) != 0)
            break;
    }
    _exit(1);
}

static inline void ring_kills_wrong(struct ring_kills_result *result, const char *what, uint64_t n)
{
    if (result->wrong++)
        return;
    result->wrong_kill = result->kills;
    snprintf(result->what, sizeof(result->what), "%s %llu", what, (unsigned long long)n);
}

/* Checks the rows of a lane against what its thread published. Returns the thread. */
static inline uint32_t ring_kills_lane(const struct gsp_ring_view *view,
                                       const struct gsp_ring_range *span, struct ring_kills *shared,
                                       struct ring_kills_result *result)
{
    int64_t writer = 0;
    int64_t last = 0;
    gsp_ring_copy(view, span->lane, 1, span->to - 1, 1, &writer);
    gsp_ring_copy(view, span->lane, 0, span->to - 1, 1, &last);
    if (writer < 1 || writer > (int64_t)shared->writers) {
        ring_kills_wrong(result, "row of an unknown thread", (uint64_t)writer);
        return RING_KILLS_WRITERS;
    }
    const uint32_t id = (uint32_t)writer - 1;
    /* Pairs with the store in ring_kills_write(). */
    const uint64_t acked = atomic_load_explicit(&shared->rows[id], memory_order_acquire);
    const uint64_t kept = span->to < shared->capacity ? span->to : shared->capacity;
    if (span->to != acked && span->to != acked + 1)
        ring_kills_wrong(result, "published rows are missing; of", acked);
    if ((uint64_t)last != span->to - 1)
        ring_kills_wrong(result, "the last row has the wrong number", (uint64_t)last);
    /* The oldest row may be the one that was being replaced. */
    if (span->to - span->from + 1 < kept)
        ring_kills_wrong(result, "old rows are missing; readable", span->to - span->from);
    return id;
}

static inline void ring_kills_dict(const struct gsp_ring_view *view,
                                   const struct ring_kills *shared,
                                   struct ring_kills_result *result)
{
    struct gsp_ring_dict dict;
    if (gsp_ring_dict_read(view, &dict, NULL) != 0) {
        ring_kills_wrong(result, "the dictionary is unreadable", 0);
        return;
    }
    const uint32_t count = atomic_load(&shared->strings);
    for (uint32_t i = 0; i < count; i++) {
        char text[32];
        ring_kills_text(i, text);
        const uint32_t id = shared->ids[i];
        if (id == 0 || id >= dict.count || !gsp_sv_eq(dict.strings[id], gsp_sv_of(text)))
            ring_kills_wrong(result, "wrong or missing string", i);
    }
    result->strings += count;
    gsp_ring_dict_free(&dict);
}

/* Compares the ring of a dead process with what it published. */
static inline void ring_kills_check(int folder, struct ring_kills *shared,
                                    struct ring_kills_result *result)
{
    struct gsp_ring_view *view = NULL;
    struct gsp_ring_range spans[RING_KILLS_WRITERS + 1];
    bool has_lane[RING_KILLS_WRITERS + 1] = {false};
    uint64_t readable = 0;
    uint64_t published = 0;
    for (uint32_t i = 0; i < shared->writers; i++)
        published += atomic_load(&shared->rows[i]);
    if (gsp_ring_open(folder, RING_FILE, &view, NULL) != 0) {
        result->early++;
        if (published)
            ring_kills_wrong(result, "the ring is unreadable; rows", published);
        return;
    }
    const size_t count = gsp_ring_ranges(view, spans, GSP_COUNT(spans), NULL);
    for (size_t i = 0; i < count; i++) {
        has_lane[ring_kills_lane(view, &spans[i], shared, result)] = true;
        readable += spans[i].to - spans[i].from;
    }
    for (uint32_t i = 0; i < shared->writers; i++)
        if (atomic_load(&shared->rows[i]) && !has_lane[i])
            ring_kills_wrong(result, "no lane for thread", i);
    struct ring_seen seen = {0};
    ring_check(view, &seen);
    if (seen.torn || seen.good != readable)
        ring_kills_wrong(result, "torn rows:", seen.torn);
    ring_kills_dict(view, shared, result);
    result->rows += published;
    gsp_ring_view_close(view);
}

static inline uint32_t ring_kills_random(uint64_t *state, uint32_t below)
{
    *state = gsp_mix64(*state + 1);
    return (uint32_t)(*state >> 32) % below;
}

/* Runs a writer for a random time and kills it. */
static inline void ring_kills_round(uint64_t *random, struct ring_kills_result *result)
{
    static const uint32_t capacities[] = {2, 10, 100, 500};
    struct ring_kills *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tap_require(shared != MAP_FAILED);
    shared->writers = 1 + ring_kills_random(random, RING_KILLS_WRITERS);
    shared->capacity = capacities[ring_kills_random(random, GSP_COUNT(capacities))];
    const bool is_early = ring_kills_random(random, RING_KILLS_EARLY) == 0;
    const uint32_t life_us = ring_kills_random(random, RING_KILLS_LIFE_US);
    int folder = ring_folder();
    pid_t pid = fork();
    if (pid == 0)
        ring_kills_live(folder, shared);
    tap_require(pid > 0);
    while (!is_early && !atomic_load(&shared->rows[0]) && waitpid(pid, NULL, WNOHANG) == 0)
        sched_yield();
    usleep(life_us);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ring_kills_check(folder, shared, result);
    result->kills++;
    munmap(shared, sizeof(*shared));
    ring_folder_remove(folder);
}

/* Kills writers until there were that many, until the time is over, or until something is wrong. */
static inline struct ring_kills_result ring_kills(uint64_t count, uint64_t seed, int64_t end_ns)
{
    struct ring_kills_result result = {0};
    uint64_t random = seed;
    while (result.kills < count && gsp_now_ns() < end_ns && !result.wrong)
        ring_kills_round(&random, &result);
    return result;
}
