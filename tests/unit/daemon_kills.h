/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_kills.h -- puts load on the daemon's state in a process that is killed at random times,
 * and compares what the process had acknowledged with the state afterwards.
 *
 * The process records in shared memory what it is about to do and what was acknowledged, so that a
 * kill between the two is recognized.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon_fixture.h"
#include "frames/session_format.h"

#define KILLS_SESSIONS 20000U
#define KILLS_THREADS  3
#define KILLS_OPEN     4U /* sessions that each thread keeps active */
#define KILLS_WHOLE    "whole"
#define KILLS_PAUSE_NS 300000L
#define KILLS_LIFE_MS  120U /* longest life of a process */
#define KILLS_LIFE_MIN 5U
#define KILLS_BACK_S   10LL /* the machine's clock advances this much between two processes */

enum kills_step { KILLS_NONE, KILLS_STARTING, KILLS_STARTED, KILLS_STOPPING, KILLS_STOPPED };

struct kills_session {
    _Atomic int step;
    uint64_t first;
    uint64_t last;
    uint64_t frames;
    bool checked;
    char file[300];
};

/* Shared between the process that is killed and the one that checks. */
struct kills {
    char state[96];
    char output[96];
    int round;
    _Atomic uint64_t frame; /* newest acknowledged one */
    _Atomic uint32_t next;  /* number of the next session */
    _Atomic bool ready;
    struct kills_session sessions[KILLS_SESSIONS];
};

struct kills_result {
    unsigned rounds;
    uint64_t frames;
    uint64_t started;
    uint64_t stopped;
    uint64_t restarts; /* gaps with this cause in the longest session */
    uint64_t wrong;    /* acknowledged facts that do not hold */
};

static struct kills *kills_shared;
static struct gsp_frame_log *kills_frames;
static struct gsp_sessions *kills_table;

static inline bool kills_open(void)
{
    struct gsp_err err = {0};
    struct gsp_frame_log_options frames = {
        .folder = kills_shared->state, .segment_bytes = 300000, .host = "here"};
    struct gsp_sessions_options options = {.state_folder = kills_shared->state,
                                           .output_folder = kills_shared->output,
                                           .host = "here",
                                           .keep_max = KILLS_SESSIONS};
    if (gsp_frames_log_open(&frames, &kills_frames, &err) == 0 &&
        gsp_daemon__sessions_open(&options, kills_frames, &kills_table, &err) == 0)
        return true;
    printf("# %s\n", err.msg);
    return false;
}

static inline void kills_close(void)
{
    gsp_daemon__sessions_close(kills_table);
    gsp_frames_log_close(kills_frames);
    kills_table = NULL;
    kills_frames = NULL;
}

/* Starts sessions and stops the oldest, forever. */
static inline void *kills_sessions(void *ctx)
{
    (void)ctx;
    uint32_t mine[KILLS_OPEN] = {0};
    for (size_t slot = 0;; slot = (slot + 1) % KILLS_OPEN) {
        char name[32];
        struct gsp_session got;
        struct kills_session *s = &kills_shared->sessions[mine[slot]];
        if (mine[slot]) {
            snprintf(name, sizeof(name), "s%u", mine[slot]);
            atomic_store(&s->step, KILLS_STOPPING);
            if (gsp_daemon__sessions_stop(kills_table, name, &got, NULL) == 0) {
                s->last = got.last_frame;
                s->frames = got.frame_count;
                memcpy(s->file, got.file, sizeof(s->file));
                atomic_store(&s->step, KILLS_STOPPED);
            }
        }
        uint32_t id = atomic_fetch_add(&kills_shared->next, 1);
        if (id >= KILLS_SESSIONS)
            return NULL;
        mine[slot] = id;
        s = &kills_shared->sessions[id];
        snprintf(name, sizeof(name), "s%u", id);
        struct gsp_session_start start = {.name = name, .labels = gsp_sv_of("{\"k\":1}")};
        atomic_store(&s->step, KILLS_STARTING);
        if (gsp_daemon__sessions_start(kills_table, &start, &got, NULL) == 0) {
            s->first = got.first_frame;
            atomic_store(&s->step, KILLS_STARTED);
        }
    }
}

static inline void *kills_tend(void *ctx)
{
    (void)ctx;
    for (;;) {
        gsp_daemon__sessions_maintain(kills_table, gsp_realtime_ns());
        nanosleep(&(struct timespec){0, 10 * KILLS_PAUSE_NS}, NULL);
    }
    return NULL;
}

/* Runs the process that is killed. */
static inline void kills_live(void)
{
    pthread_t thread;
    if (!kills_open())
        _exit(1);
    gsp_frames_log_set_period(kills_frames, GSP_NS_PER_S);
    int64_t base = gsp_now_ns();
    for (int i = 0; i < KILLS_THREADS; i++)
        if (pthread_create(&thread, NULL, i ? kills_sessions : kills_tend, NULL) != 0)
            _exit(1);
    atomic_store(&kills_shared->ready, true);
    struct made made = {.gpus = 1};
    for (;;) {
        /* Times of a separate machine: rounds are KILLS_BACK_S apart. */
        made.step_ns = gsp_now_ns() - base - (int64_t)made.tick * MADE_PERIOD_NS +
                       kills_shared->round * KILLS_BACK_S * GSP_NS_PER_S;
        if (made_frame(kills_frames, &made, NULL) == 0)
            atomic_store(&kills_shared->frame, gsp_frames_log_next_id(kills_frames) - 1);
        nanosleep(&(struct timespec){0, KILLS_PAUSE_NS}, NULL);
    }
}

static inline void kills_wrong(struct kills_result *result, const char *what, uint64_t which)
{
    result->wrong++;
    printf("# round %d: %s %" PRIu64 "\n", kills_shared->round, what, which);
}

/* Returns whether a session's file is valid JSON and has the acknowledged frames. */
static inline bool kills_file_good(const char *file, uint64_t frames)
{
    char path[512];
    struct gsp_buf text = {0};
    snprintf(path, sizeof(path), "%s/%s", kills_shared->output, file);
    bool good = gsp_file_read(path, 1U << 30, &text, NULL) == 0 &&
                gsp_frames_session_labels_are_valid(gsp_buf_sv(&text)) && gsp_buf_cstr(&text);
    uint64_t n = 0;
    for (const char *p = text.p; good && (p = strstr(p, "\"frame_id\":")) != NULL; p++)
        good = strtoull(p + strlen("\"frame_id\":"), NULL, 10) == ++n;
    gsp_buf_free(&text);
    return good && n == frames;
}

static inline void kills_check_session(struct kills_result *result, uint32_t id)
{
    struct kills_session *s = &kills_shared->sessions[id];
    struct gsp_session got;
    char name[32];
    snprintf(name, sizeof(name), "s%u", id);
    int step = atomic_load(&s->step);
    bool there = gsp_daemon__sessions_find(kills_table, name, &got, NULL) == 0;
    if (s->checked || step == KILLS_NONE || step == KILLS_STARTING)
        return; /* nothing was acknowledged */
    if (!there)
        kills_wrong(result, "missing session", id);
    else if (got.first_frame != s->first)
        kills_wrong(result, "wrong first frame of session", id);
    else if (step == KILLS_STARTED && !got.active)
        kills_wrong(result, "inactive session", id);
    if (step != KILLS_STOPPED || !there)
        return;
    s->checked = true;
    if (got.active || got.failed || got.last_frame != s->last || got.frame_count != s->frames ||
        got.frame_count != gsp_frames_log_count(kills_frames, s->first, s->last ? s->last : 0))
        kills_wrong(result, "changed since its stop: session", id);
    else if (!kills_file_good(s->file, s->frames))
        kills_wrong(result, "invalid file of session", id);
}

static inline void kills_check(struct kills_result *result)
{
    if (!kills_open()) {
        kills_wrong(result, "cannot open the state", 0);
        return;
    }
    uint64_t acknowledged = atomic_load(&kills_shared->frame);
    uint64_t last = gsp_frames_log_next_id(kills_frames) - 1;
    if (last < acknowledged || gsp_frames_log_count(kills_frames, 1, acknowledged) != acknowledged)
        kills_wrong(result, "missing frames up to", acknowledged);
    gsp_daemon__sessions_maintain(kills_table, gsp_realtime_ns());
    uint32_t next = atomic_load(&kills_shared->next);
    for (uint32_t i = 1; i < next && i < KILLS_SESSIONS; i++)
        kills_check_session(result, i);
    struct gsp_session whole;
    if (gsp_daemon__sessions_find(kills_table, KILLS_WHOLE, &whole, NULL) != 0 || !whole.active ||
        whole.frame_count != last)
        kills_wrong(result, "the longest session does not continue, frames", whole.frame_count);
    result->frames = last;
    kills_close();
}

/* Runs a process for a random time and kills it. Returns false if the process did not start. */
static inline bool kills_round(unsigned *seed)
{
    atomic_store(&kills_shared->ready, false);
    pid_t pid = fork();
    if (pid == 0)
        kills_live();
    if (pid < 0)
        return false;
    bool alive = true;
    while (alive && !atomic_load(&kills_shared->ready)) {
        nanosleep(&(struct timespec){0, GSP_NS_PER_MS}, NULL);
        alive = waitpid(pid, NULL, WNOHANG) == 0;
    }
    if (!alive)
        return false;
    long ms = (long)(KILLS_LIFE_MIN + (unsigned)rand_r(seed) % KILLS_LIFE_MS);
    nanosleep(&(struct timespec){0, ms * GSP_NS_PER_MS}, NULL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return true;
}

/* Checks the longest session: it has every frame, and a gap for each restart. */
static inline void kills_finish(struct kills_result *result)
{
    struct gsp_session whole;
    struct gsp_frame_log_stats stats;
    if (!kills_open())
        return;
    if (gsp_daemon__sessions_stop(kills_table, KILLS_WHOLE, &whole, NULL) != 0 ||
        !kills_file_good(whole.file, result->frames))
        kills_wrong(result, "invalid file of the longest session, frames", result->frames);
    if (gsp_frames__log_stats(kills_frames, 1, result->frames, &stats, NULL) == 0) {
        for (size_t i = 0; i < stats.gap_count; i++)
            result->restarts += strcmp(stats.gaps[i].cause, "restart") == 0;
        gsp_frames__log_stats_free(&stats);
    }
    kills_close();
}

/* Uses folder/state and folder/out, which it creates. */
static inline struct kills_result daemon_kills(const char *folder, unsigned rounds, unsigned seed)
{
    struct kills_result result = {0};
    uint64_t runs = 0; /* processes that wrote a frame */
    kills_shared = mmap(NULL, sizeof(*kills_shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (kills_shared == MAP_FAILED)
        exit(1);
    snprintf(kills_shared->state, sizeof(kills_shared->state), "%s/state", folder);
    snprintf(kills_shared->output, sizeof(kills_shared->output), "%s/out", folder);
    atomic_store(&kills_shared->next, 1);
    struct gsp_session got;
    struct gsp_session_start whole = {.name = KILLS_WHOLE};
    if (mkdir(kills_shared->output, 0700) != 0 || !kills_open() ||
        gsp_daemon__sessions_start(kills_table, &whole, &got, NULL) != 0)
        exit(1);
    kills_close();
    for (unsigned i = 0; i < rounds && !result.wrong; i++) {
        kills_shared->round = (int)i;
        uint64_t before = result.frames;
        if (!kills_round(&seed))
            kills_wrong(&result, "the process did not start, round", i);
        kills_check(&result);
        runs += result.frames > before;
        result.rounds++;
    }
    kills_finish(&result);
    if (result.restarts + 1 != runs)
        kills_wrong(&result, "wrong number of gaps for restarts", result.restarts);
    for (uint32_t i = 1; i < KILLS_SESSIONS; i++) {
        int step = atomic_load(&kills_shared->sessions[i].step);
        result.started += step >= KILLS_STARTED;
        result.stopped += step == KILLS_STOPPED;
    }
    munmap(kills_shared, sizeof(*kills_shared));
    return result;
}
