/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c -- the cost of appending a row, for the thread that appends it.
 *
 *   ring append KIND THREADS ROWS CLOCK   KIND: lane, agent, mutex or floor; CLOCK: 0 or 1 (reads
 *                                         both clocks for each row)
 *   ring scan ROUNDS ROWS                 a writer of 100,000 rows a second, alone and with a
 *                                         reader that copies its ring ten times a second
 *
 * Rows are those of python.torch_trace: 14 columns, 100 bytes. "floor" stores the same values in
 * private arrays and publishes nothing; "mutex" is one ring for all threads, protected by a mutex;
 * "agent" is gsp_agent_put_torch(), as called by hooks.
 * Prints JSON. Times are CPU time of the writing threads.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/time.h"
#include "ring/append.h"
#include "ring/reader.h"

#define THREADS_MAX 64
#define RING_FILE   "python.torch_trace.ring"
#define RATE_HZ     100000
#define SCAN_HZ     10

enum kind { LANE, AGENT, MUTEX, FLOOR };

struct job {
    pthread_t thread;
    enum kind kind;
    int clock;
    int64_t rows;
    int64_t cpu_ns;
};

static struct gsp_ring *ring;
static struct gsp_lane shared_lane;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static char folder[] = "/dev/shm/gsprof-bench-XXXXXX";
static int folder_fd;

static int64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * GSP_NS_PER_S + now.tv_nsec;
}

static void fill_row(struct gsp_row_python_torch_trace *row, int64_t n)
{
    row->ts_ns = n;
    row->mono_ns = n;
    row->step = n >> 6;
    row->seq = n & 63;
    row->module = (uint32_t)(n & 63) + 1;
    row->duration = (double)n;
}

/* A lane in private memory, for the kinds without a ring. */
static void make_lane(struct gsp_lane *lane)
{
    const struct gsp_table *table = gsp_wire_table_find("python", "torch_trace");
    memset(lane, 0, sizeof(*lane));
    lane->table = table;
    lane->capacity = GSP_RING_ROWS_DEFAULT + 1;
    lane->head = calloc(1, sizeof(*lane->head));
    for (uint32_t i = 0; i < table->column_count; i++)
        lane->column[i] = calloc(lane->capacity, 8);
}

/* Only the stores of an append. */
static void store_row(const struct gsp_lane *lane, uint32_t slot,
                      const struct gsp_row_python_torch_trace *row)
{
    gsp_lane_put_i64(lane, 0, slot, row->ts_ns);
    gsp_lane_put_i64(lane, 1, slot, row->mono_ns);
    gsp_lane_put_i64(lane, 2, slot, row->step);
    gsp_lane_put_i64(lane, 3, slot, row->seq);
    gsp_lane_put_str(lane, 4, slot, row->module);
    gsp_lane_put_str(lane, 5, slot, row->stage);
    gsp_lane_put_f64(lane, 6, slot, row->allocated);
    gsp_lane_put_f64(lane, 7, slot, row->max_allocated);
    gsp_lane_put_f64(lane, 8, slot, row->cached);
    gsp_lane_put_f64(lane, 9, slot, row->duration);
    gsp_lane_put_i64(lane, 10, slot, row->thread_id);
    gsp_lane_put_str(lane, 11, slot, row->device);
    gsp_lane_put_str(lane, 12, slot, row->class);
    gsp_lane_put_f64(lane, 13, slot, row->flops);
}

static void append_lanes(const struct job *job)
{
    struct gsp_row_python_torch_trace row = {.allocated = 1, .thread_id = 7};
    for (int64_t n = 0; n < job->rows; n++) {
        fill_row(&row, n);
        if (job->clock) {
            row.ts_ns = gsp_realtime_ns();
            row.mono_ns = gsp_now_ns();
        }
        struct gsp_lane *lane = gsp_ring_lane(ring);
        if (lane)
            gsp_append_python_torch_trace(lane, &row);
    }
}

static void append_agent(const struct job *job)
{
    struct gsp_row_python_torch_trace row = {.allocated = 1, .thread_id = 7};
    for (int64_t n = 0; n < job->rows; n++) {
        fill_row(&row, n);
        if (job->clock) {
            row.ts_ns = gsp_realtime_ns();
            row.mono_ns = gsp_now_ns();
        }
        gsp_agent_put_torch(&row);
    }
}

static void append_mutex(const struct job *job)
{
    struct gsp_row_python_torch_trace row = {.allocated = 1, .thread_id = 7};
    for (int64_t n = 0; n < job->rows; n++) {
        fill_row(&row, n);
        if (job->clock) {
            row.ts_ns = gsp_realtime_ns();
            row.mono_ns = gsp_now_ns();
        }
        pthread_mutex_lock(&mutex);
        gsp_append_python_torch_trace(&shared_lane, &row);
        pthread_mutex_unlock(&mutex);
    }
}

static void append_floor(const struct job *job)
{
    struct gsp_row_python_torch_trace row = {.allocated = 1, .thread_id = 7};
    struct gsp_lane lane;
    make_lane(&lane);
    uint32_t slot = 0;
    for (int64_t n = 0; n < job->rows; n++) {
        fill_row(&row, n);
        if (job->clock) {
            row.ts_ns = gsp_realtime_ns();
            row.mono_ns = gsp_now_ns();
        }
        store_row(&lane, slot, &row);
        slot = slot + 1 == lane.capacity ? 0 : slot + 1;
    }
}

static void run_kind(const struct job *job)
{
    if (job->kind == LANE)
        append_lanes(job);
    else if (job->kind == AGENT)
        append_agent(job);
    else if (job->kind == MUTEX)
        append_mutex(job);
    else
        append_floor(job);
}

static void *run_job(void *arg)
{
    struct job *job = arg;
    /* Fill the ring once, so that its pages exist. */
    struct job warm = *job;
    warm.rows = 2 * GSP_RING_ROWS_DEFAULT;
    run_kind(&warm);
    pthread_barrier_wait(&barrier);
    const int64_t begin_ns = thread_cpu_ns();
    run_kind(job);
    job->cpu_ns = thread_cpu_ns() - begin_ns;
    return NULL;
}

static enum kind kind_of(const char *name)
{
    static const char *const NAMES[] = {"lane", "agent", "mutex"};
    size_t i = 0;
    while (i < GSP_COUNT(NAMES) && strcmp(name, NAMES[i]) != 0)
        i++;
    return (enum kind)i;
}

/* Rings of the same size as for the other kinds, below XDG_RUNTIME_DIR. */
static void start_agent(void)
{
    setenv("GSPROF_RING_ROWS", "10000", 1);
    if (gsp_agent_start() != GSP_AGENT_OK)
        exit(73);
}

static int bench_append(const char *kind, int threads, int64_t rows, int clock)
{
    struct job jobs[THREADS_MAX];
    int64_t cpu_ns = 0;
    if (threads < 1 || threads > THREADS_MAX)
        return 64;
    make_lane(&shared_lane);
    if (kind_of(kind) == AGENT)
        start_agent();
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        jobs[i] = (struct job){.kind = kind_of(kind), .clock = clock, .rows = rows / threads};
        pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(jobs[i].thread, NULL);
        cpu_ns += jobs[i].cpu_ns;
    }
    gsp_agent_stop();
    printf("{\"ns\": %.3f}\n", (double)cpu_ns / (double)(rows / threads * threads));
    return 0;
}

/* Simulates the work of a training job between two rows. */
static uint64_t work(uint64_t turns, uint64_t seed)
{
    for (uint64_t i = 0; i < turns; i++)
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return seed;
}

static uint64_t calibrate(void)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        const int64_t begin_ns = thread_cpu_ns();
        volatile uint64_t sink = work(1000000, (uint64_t)i);
        (void)sink;
        const uint64_t ns = (uint64_t)(thread_cpu_ns() - begin_ns);
        best = ns < best ? ns : best;
    }
    return 1000000ULL * (GSP_NS_PER_S / RATE_HZ) / best;
}

/* Copies every row of the ring ten times a second while *on is 1, until it is negative. */
static void scan(_Atomic int *on)
{
    struct gsp_ring_view *view = NULL;
    struct gsp_ring_range spans[4];
    char *copy = malloc(8 * (GSP_RING_ROWS_DEFAULT + 1));
    if (!copy || gsp_ring_open(folder_fd, RING_FILE, &view, NULL) != 0)
        _exit(1);
    while (atomic_load(on) >= 0) {
        const struct timespec pause = {0, GSP_NS_PER_S / SCAN_HZ};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        const size_t count = atomic_load(on) > 0 ? gsp_ring_ranges(view, spans, 4, NULL) : 0;
        for (size_t i = 0; i < count; i++)
            for (uint32_t c = 0; c < gsp_ring_info(view)->column_count; c++)
                gsp_ring_copy(view, spans[i].lane, c, spans[i].from, spans[i].to - spans[i].from,
                              copy);
    }
    gsp_ring_view_close(view);
    _exit(0);
}

/* Returns the CPU time per row with its work, in nanoseconds. */
static double write_window(int64_t rows, uint64_t turns)
{
    struct gsp_row_python_torch_trace row = {.allocated = 1, .thread_id = 7};
    volatile uint64_t sink = 1;
    const int64_t begin_ns = thread_cpu_ns();
    for (int64_t n = 0; n < rows; n++) {
        sink = work(turns, sink);
        fill_row(&row, n);
        gsp_append_python_torch_trace(gsp_ring_lane(ring), &row);
    }
    return (double)(thread_cpu_ns() - begin_ns) / (double)rows;
}

static int bench_scan(int rounds, int64_t rows)
{
    _Atomic int *on =
        mmap(NULL, sizeof(*on), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const uint64_t turns = calibrate();
    write_window(rows, turns);
    const pid_t reader = fork();
    if (reader == 0)
        scan(on);
    printf("{\"alone\": [");
    double with[1000];
    for (int i = 0; i < rounds && i < 1000; i++) {
        atomic_store(on, 0);
        printf("%s%.3f", i ? ", " : "", write_window(rows, turns));
        atomic_store(on, 1);
        with[i] = write_window(rows, turns);
    }
    printf("], \"scanned\": [");
    for (int i = 0; i < rounds && i < 1000; i++)
        printf("%s%.3f", i ? ", " : "", with[i]);
    printf("]}\n");
    atomic_store(on, -1);
    int status = 1;
    waitpid(reader, &status, 0);
    return status == 0 ? 0 : 70;
}

int main(int argc, char **argv)
{
    struct gsp_err err = {0};
    const struct gsp_ring_spec spec = {.table = gsp_wire_table_find("python", "torch_trace"),
                                       .rank = GSP_NULL_I64};
    if (!mkdtemp(folder))
        return 73;
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (gsp_ring_create(folder_fd, &spec, &ring, &err) != 0) {
        fprintf(stderr, "ring: %s\n", err.msg);
        return 73;
    }
    int status = 64;
    if (argc == 6 && strcmp(argv[1], "append") == 0)
        status = bench_append(argv[2], atoi(argv[3]), atoll(argv[4]), atoi(argv[5]));
    else if (argc == 4 && strcmp(argv[1], "scan") == 0)
        status = bench_scan(atoi(argv[2]), atoll(argv[3]));
    gsp_ring_close(ring);
    unlinkat(folder_fd, RING_FILE, 0);
    rmdir(folder);
    return status;
}
