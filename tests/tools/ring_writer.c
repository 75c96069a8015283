/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_writer.c -- a simulated training job that writes python.torch_trace and python.torch_step
 * into the rings of its process: a target for tests that need rows but not Python.
 *
 *   ring_writer [--steps N] [--modules N] [--threads N] [--rate ROWS_PER_S] [--rank N]
 *               [--capacity ROWS]
 *
 * Each thread writes N steps immediately (default: 10), then the program prints {"pid": ...}. With
 * --rate every thread continues in real time with that many rows per second. On SIGTERM or at the
 * end of stdin, the program closes the rings and prints what it wrote.
 *
 * Content of step s (from 0) of each thread with M modules: rows with seq 0 to M-1 are
 * "layer.<seq>", stage forward, duration (seq + 1) ms; then M rows in reverse order, stage
 * backward, duration 2 * (module + 1) ms; then "optimizer", stage step, 0.5 ms. flops is
 * module * 1000, NULL for the optimizer; allocated is 100 + module MB; cached is NULL. The first N
 * steps are 10 ms apart and the last of them is now; the first thread writes torch_step.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "ring/append.h"
#include "ring/dir.h"
#include "ring/writer.h"

#define STEP_NS     (10 * GSP_NS_PER_MS)
#define ROW_NS      (10 * GSP_NS_PER_US)
#define MODULES_MAX 4096
#define THREADS_MAX 256

struct settings {
    int64_t steps;
    int64_t modules;
    int64_t threads;
    int64_t rate;
    int64_t rank;
    int64_t capacity;
};

struct names {
    uint32_t module[MODULES_MAX];
    uint32_t optimizer;
    uint32_t forward;
    uint32_t backward;
    uint32_t step;
    uint32_t device;
    uint32_t linear;
    uint32_t conv;
    uint32_t sgd;
};

static struct settings set = {
    .steps = 10, .modules = 4, .threads = 1, .rank = GSP_NULL_I64, .capacity = 0};
static struct gsp_ring *trace;
static struct gsp_ring *steps;
static struct names names;
static _Atomic int64_t rows_written;
static _Atomic int64_t steps_written;
static atomic_bool stopping;
static pthread_barrier_t barrier;
static int64_t begin_real_ns;
static int64_t begin_mono_ns;

/* State of a writer thread, which paces itself by rows. */
struct pace {
    struct gsp_lane *lane;
    int64_t next_ns; /* time of the next row; 0: no wait, with simulated times */
    int64_t thread_id;
};

static void wait_until(int64_t mono_ns)
{
    const struct timespec at = {mono_ns / GSP_NS_PER_S, mono_ns % GSP_NS_PER_S};
    /* A sleep until a time in the past also takes a while. */
    while (gsp_now_ns() < mono_ns &&
           clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

static void put_row(struct pace *pace, int64_t step, int64_t seq, int64_t module)
{
    const bool is_backward = seq >= set.modules;
    struct gsp_row_python_torch_trace row = {
        .ts_ns = begin_real_ns + step * STEP_NS + seq * ROW_NS,
        .mono_ns = begin_mono_ns + step * STEP_NS + seq * ROW_NS,
        .step = step,
        .seq = seq,
        .module = names.module[module],
        .stage = is_backward ? names.backward : names.forward,
        .allocated = 100.0 + (double)module,
        .max_allocated = 200.0,
        .cached = gsp_null_f64(),
        .duration = (is_backward ? 2e-3 : 1e-3) * (double)(module + 1),
        .thread_id = pace->thread_id,
        .device = names.device,
        .class = module % 2 ? names.conv : names.linear,
        .flops = 1000.0 * (double)module,
    };
    if (seq == 2 * set.modules) {
        row.module = names.optimizer;
        row.stage = names.step;
        row.class = names.sgd;
        row.duration = 0.5e-3;
        row.flops = gsp_null_f64();
    }
    if (pace->next_ns) {
        wait_until(pace->next_ns);
        pace->next_ns += GSP_NS_PER_S / set.rate;
        row.ts_ns = gsp_realtime_ns();
        row.mono_ns = gsp_now_ns();
    }
    gsp_append_python_torch_trace(pace->lane, &row);
    atomic_fetch_add(&rows_written, 1);
}

static void put_step(const struct pace *pace, int64_t step)
{
    const struct gsp_row_python_torch_step row = {
        .ts_ns = pace->next_ns ? gsp_realtime_ns() : begin_real_ns + step * STEP_NS,
        .mono_ns = pace->next_ns ? gsp_now_ns() : begin_mono_ns + step * STEP_NS,
        .step = step,
        .duration = 10e-3,
        .sampled = 1,
        .samples_per_sec = gsp_null_f64(),
        .overhead_ns = 1000,
    };
    if (gsp_ring_append(steps, &row))
        atomic_fetch_add(&steps_written, 1);
}

static void write_step(struct pace *pace, int64_t step, bool is_first)
{
    const int64_t last = 2 * set.modules;
    for (int64_t seq = 0; seq <= last && !atomic_load(&stopping); seq++) {
        const int64_t module = seq < set.modules ? seq : last - 1 - seq;
        put_row(pace, step, seq, seq == last ? 0 : module);
    }
    if (is_first)
        put_step(pace, step);
}

static void *run_thread(void *arg)
{
    const bool is_first = arg != NULL;
    struct pace pace = {.lane = gsp_ring_lane(trace), .thread_id = gettid()};
    if (!pace.lane) {
        fprintf(stderr, "ring_writer: no lane\n");
        exit(73);
    }
    for (int64_t step = 0; step < set.steps; step++)
        write_step(&pace, step, is_first);
    pthread_barrier_wait(&barrier);
    if (set.rate > 0) {
        pace.next_ns = gsp_now_ns();
        for (int64_t step = set.steps; !atomic_load(&stopping); step++)
            write_step(&pace, step, is_first);
    }
    return NULL;
}

static uint32_t intern(const char *text)
{
    return gsp_ring_intern(trace, gsp_sv_of(text));
}

static void make_names(void)
{
    for (int64_t i = 0; i < set.modules; i++) {
        char text[32];
        snprintf(text, sizeof(text), "layer.%lld", (long long)i);
        names.module[i] = intern(text);
    }
    names.optimizer = intern("optimizer");
    names.forward = intern("forward");
    names.backward = intern("backward");
    names.step = intern("step");
    names.device = intern("cuda:0");
    names.linear = intern("Linear");
    names.conv = intern("Conv2d");
    names.sgd = intern("SGD");
}

static int make_rings(struct gsp_err *err)
{
    int folder_fd = -1;
    const struct gsp_ring_dir_spec about = {.pid = getpid(), .rank = set.rank};
    int rc = gsp_ring_dir_create(&about, &folder_fd, err);
    struct gsp_ring_spec spec = {.table = gsp_wire_table_find("python", "torch_trace"),
                                 .row_capacity = (uint32_t)set.capacity,
                                 .rank = set.rank};
    if (rc == 0)
        rc = gsp_ring_create(folder_fd, &spec, &trace, err);
    spec.table = gsp_wire_table_find("python", "torch_step");
    if (rc == 0)
        rc = gsp_ring_create(folder_fd, &spec, &steps, err);
    if (folder_fd >= 0)
        close(folder_fd);
    return rc;
}

static bool parse(int argc, char **argv)
{
    const struct {
        const char *name;
        int64_t *to;
        int64_t max;
    } options[] = {
        {"--steps", &set.steps, INT32_MAX},       {"--modules", &set.modules, MODULES_MAX},
        {"--threads", &set.threads, THREADS_MAX}, {"--rate", &set.rate, GSP_NS_PER_S},
        {"--rank", &set.rank, INT32_MAX},         {"--capacity", &set.capacity, INT32_MAX},
    };
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0;
        while (k < GSP_COUNT(options) && strcmp(argv[i], options[k].name) != 0)
            k++;
        if (k == GSP_COUNT(options) || i + 1 == argc ||
            gsp_parse_i64(argv[i + 1], 0, options[k].max, options[k].to, NULL) != 0) {
            fprintf(stderr, "ring_writer: invalid option %s\n", argv[i]);
            return false;
        }
    }
    return set.modules > 0 && set.threads > 0;
}

static void print_event(const char *event)
{
    printf("{\"event\": \"%s\", \"pid\": %d, \"rows\": %lld, \"steps\": %lld, \"threads\": %lld, "
           "\"modules\": %lld, \"rows_per_step\": %lld}\n",
           event, (int)getpid(), (long long)atomic_load(&rows_written),
           (long long)atomic_load(&steps_written), (long long)set.threads, (long long)set.modules,
           2LL * set.modules + 1);
    fflush(stdout);
}

/* Waits for SIGTERM or the end of stdin. */
static void wait_for_end(const sigset_t *signals)
{
    struct pollfd fds[2] = {{signalfd(-1, signals, SFD_CLOEXEC), POLLIN, 0},
                            {STDIN_FILENO, POLLIN, 0}};
    char byte = 0;
    while (poll(fds, 2, -1) < 0 ||
           (fds[0].revents == 0 && fds[1].revents != 0 && read(STDIN_FILENO, &byte, 1) == 1)) {
    }
    close(fds[0].fd);
}

int main(int argc, char **argv)
{
    struct gsp_err err = {0};
    pthread_t threads[THREADS_MAX];
    sigset_t signals;
    if (!parse(argc, argv))
        return 64;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (make_rings(&err) != 0) {
        fprintf(stderr, "ring_writer: %s\n", err.msg);
        return gsp_err_exit_status(err.code);
    }
    make_names();
    begin_real_ns = gsp_realtime_ns() - set.steps * STEP_NS;
    begin_mono_ns = gsp_now_ns() - set.steps * STEP_NS;
    pthread_barrier_init(&barrier, NULL, (unsigned)set.threads + 1);
    for (int64_t i = 0; i < set.threads; i++)
        if (pthread_create(&threads[i], NULL, run_thread, i == 0 ? &set : NULL) != 0)
            return 70;
    pthread_barrier_wait(&barrier);
    print_event("ready");
    wait_for_end(&signals);
    atomic_store(&stopping, true);
    for (int64_t i = 0; i < set.threads; i++)
        pthread_join(threads[i], NULL);
    gsp_ring_close(trace);
    gsp_ring_close(steps);
    print_event("end");
    return 0;
}
