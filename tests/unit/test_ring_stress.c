/* SPDX-License-Identifier: Apache-2.0 */
/* Many writers, readers in this and another process, signals, and killed writers. */
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "base/time.h"
#include "ring_kills.h"

#ifdef GSP_RING_BYTEWISE
#define ROWS  UINT64_C(100000) /* the sanitizer is fifty times slower */
#define KILLS 5
#else
#define ROWS  UINT64_C(10000000)
#define KILLS 50
#endif
#define WRITERS  8U
#define CAPACITY 500U

/* The environment can request more rounds than a test has time for. */
static uint64_t count_from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* Shared with children. */
struct shared {
    atomic_bool stop;
    atomic_bool ready;
    struct ring_seen seen;
};

static struct shared *share(void)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tap_require(shared != MAP_FAILED);
    return shared;
}

struct writer {
    struct gsp_ring *ring;
    uint64_t id;
    uint64_t count;
    bool broken; /* publishes first, then writes */
};

static void append_broken(struct gsp_lane *lane, const struct gsp_row_python_torch_trace *row)
{
    atomic_store_explicit(&lane->head->rows, lane->rows + 1, memory_order_release);
    gsp_append_python_torch_trace(lane, row);
}

static void *write_rows(void *arg)
{
    const struct writer *writer = arg;
    for (uint64_t n = 0; n < writer->count; n++) {
        const struct gsp_row_python_torch_trace row = ring_row(writer->id, n);
        struct gsp_lane *lane = gsp_ring_lane(writer->ring);
        if (!lane)
            continue;
        if (writer->broken)
            append_broken(lane, &row);
        else
            gsp_append_python_torch_trace(lane, &row);
    }
    return NULL;
}

static void run_writers(struct gsp_ring *ring, uint64_t rows, bool broken)
{
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] =
            (struct writer){.ring = ring, .id = i + 1, .count = rows / WRITERS, .broken = broken};
        tap_require(pthread_create(&threads[i], NULL, write_rows, &writers[i]) == 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}

/* Starts a child that reads the ring until shared->stop is set. */
static pid_t start_reader(int folder, struct shared *shared)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct gsp_ring_view *view = ring_view(folder, RING_FILE);
        while (!atomic_load(&shared->stop)) {
            ring_check(view, &shared->seen);
            atomic_store(&shared->ready, true);
        }
        ring_check(view, &shared->seen);
        gsp_ring_view_close(view);
        _exit(0);
    }
    tap_require(pid > 0);
    while (!atomic_load(&shared->ready))
        sched_yield();
    return pid;
}

static void stop_reader(pid_t pid, struct shared *shared)
{
    int status = 1;
    atomic_store(&shared->stop, true);
    waitpid(pid, &status, 0);
    tap_eq_int(status, 0);
    printf("# %llu rows valid, %llu torn, %llu overwritten\n",
           (unsigned long long)shared->seen.good, (unsigned long long)shared->seen.torn,
           (unsigned long long)shared->seen.gone);
}

TAP_TEST(another_process_sees_no_torn_row)
{
    int folder = ring_folder();
    struct shared *shared = share();
    struct gsp_ring *ring = ring_make(folder, CAPACITY);
    pid_t reader = start_reader(folder, shared);
    const uint64_t rows = count_from_env("GSPROF_TEST_ROWS", ROWS);
    run_writers(ring, rows, false);
    stop_reader(reader, shared);
    tap_eq_int(shared->seen.torn, 0);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    /* A writer that starts after another has ended reuses its lane. */
    tap_check(state.lane_count > 0 && shared->seen.good >= (uint64_t)state.lane_count * CAPACITY);
    tap_eq_int(state.rows, rows / WRITERS * WRITERS);
    tap_eq_int(state.rows_lost, 0);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(a_broken_writer_is_detected)
{
    int folder = ring_folder();
    struct shared *shared = share();
    struct gsp_ring *ring = ring_make(folder, CAPACITY);
    pid_t reader = start_reader(folder, shared);
    const int64_t end_ns = gsp_now_ns() + 10 * GSP_NS_PER_S;
    while (shared->seen.torn == 0 && gsp_now_ns() < end_ns)
        run_writers(ring, ROWS / 10, true);
    stop_reader(reader, shared);
    tap_check(shared->seen.torn > 0);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

static void *read_rows(void *arg)
{
    struct shared *shared = arg;
    int folder = open(ring_folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    while (!atomic_load(&shared->stop))
        ring_check(view, &shared->seen);
    gsp_ring_view_close(view);
    close(folder);
    return NULL;
}

/* The thread sanitizer sees only threads of one process. */
TAP_TEST(a_thread_of_the_same_process_reads)
{
    int folder = ring_folder();
    struct shared *shared = share();
    struct gsp_ring *ring = ring_make(folder, CAPACITY);
    pthread_t reader;
    tap_require(pthread_create(&reader, NULL, read_rows, shared) == 0);
    for (int i = 0; i < 20; i++)
        run_writers(ring, ROWS / 200, false); /* threads start and end */
    atomic_store(&shared->stop, true);
    pthread_join(reader, NULL);
    tap_eq_int(shared->seen.torn, 0);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.rows, ROWS / 200 / WRITERS * WRITERS * 20);
    tap_check(state.lane_count <= WRITERS);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(published_rows_survive_a_killed_writer)
{
    struct ring_kills_result result =
        ring_kills(count_from_env("GSPROF_TEST_KILLS", KILLS), 12345, INT64_MAX);
    if (!tap_eq_int(result.wrong, 0))
        printf("# kill %llu: %s\n", (unsigned long long)result.wrong_kill, result.what);
    tap_check(result.rows > 0 && result.strings > 0);
}

/* Lanes of megabytes: the first is still being reserved when the last thread starts. */
#define STARTERS       32U
#define START_ROUNDS   10
#define START_ROWS     3U
#define START_CAPACITY 20000U

struct starter {
    struct gsp_ring *ring;
    pthread_barrier_t *barrier;
    uint64_t id;
    uint64_t appended;
};

static void *start_and_append(void *arg)
{
    struct starter *starter = arg;
    pthread_barrier_wait(starter->barrier);
    for (uint64_t n = 0; n < START_ROWS; n++) {
        const struct gsp_row_python_torch_trace row = ring_row(starter->id, n);
        starter->appended += gsp_ring_append(starter->ring, &row);
    }
    /* No thread returns its lane before all have claimed one. */
    pthread_barrier_wait(starter->barrier);
    return NULL;
}

/* Starts all threads at once, and checks that no row was lost. */
static void start_together(struct gsp_ring *ring)
{
    static struct starter starters[STARTERS];
    pthread_t threads[STARTERS];
    pthread_barrier_t barrier;
    tap_require(pthread_barrier_init(&barrier, NULL, STARTERS) == 0);
    for (unsigned i = 0; i < STARTERS; i++) {
        starters[i] = (struct starter){.ring = ring, .barrier = &barrier, .id = i + 1};
        tap_require(pthread_create(&threads[i], NULL, start_and_append, &starters[i]) == 0);
    }
    for (unsigned i = 0; i < STARTERS; i++) {
        pthread_join(threads[i], NULL);
        tap_eq_int(starters[i].appended, START_ROWS);
    }
    pthread_barrier_destroy(&barrier);
}

/* Starts two processes that keep the CPUs busy. */
static void load_start(pid_t loops[2])
{
    for (unsigned i = 0; i < 2; i++) {
        loops[i] = fork();
        tap_require(loops[i] >= 0);
        if (loops[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile uint64_t n = 0;; n++) {
            }
        }
    }
}

static void load_end(const pid_t loops[2])
{
    for (unsigned i = 0; i < 2; i++) {
        kill(loops[i], SIGKILL);
        waitpid(loops[i], NULL, 0);
    }
}

/* The next reservation of a thread with this flag waits until may_end is set. */
static _Thread_local bool my_reservation_hangs;
static atomic_bool is_hanging;
static atomic_bool may_end;

/* Replaces the function of the C library, also for the ring code. */
int posix_fallocate(int fd, off_t off, off_t len)
{
    if (my_reservation_hangs) {
        my_reservation_hangs = false;
        atomic_store(&is_hanging, true);
        while (!atomic_load(&may_end))
            sched_yield();
    }
    return fallocate(fd, 0, off, len) == 0 ? 0 : errno;
}

static void *append_one_slowly(void *arg)
{
    const struct gsp_row_python_torch_trace row = ring_row(99, 0);
    my_reservation_hangs = true;
    tap_check(gsp_ring_append(arg, &row));
    return NULL;
}

TAP_TEST(a_thread_that_waits_for_its_lane_delays_no_other)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, CAPACITY);
    pthread_t slow;
    tap_require(pthread_create(&slow, NULL, append_one_slowly, ring) == 0);
    while (!atomic_load(&is_hanging))
        sched_yield();
    start_together(ring);
    /* Readers see their rows while the slow thread still waits. */
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct ring_seen seen = {0};
    ring_check(view, &seen);
    tap_eq_int(seen.good, (uint64_t)STARTERS * START_ROWS);
    atomic_store(&may_end, true);
    pthread_join(slow, NULL);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_eq_int(state.rows, (uint64_t)STARTERS * START_ROWS + 1);
    tap_eq_int(state.rows_lost, 0);
    tap_eq_int(state.status, 0);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_TEST(threads_that_start_together_lose_no_rows)
{
    pid_t loops[2];
    load_start(loops);
    for (int round = 0; round < START_ROUNDS; round++) {
        int folder = ring_folder();
        struct gsp_ring *ring = ring_make(folder, START_CAPACITY);
        start_together(ring);
        struct gsp_ring_view *view = ring_view(folder, RING_FILE);
        struct gsp_ring_state state;
        struct ring_seen seen = {0};
        gsp_ring_state(view, &state);
        tap_eq_int(state.rows_lost, 0);
        tap_eq_int(state.rows, (uint64_t)STARTERS * START_ROWS);
        tap_eq_int(state.lane_count, STARTERS);
        tap_eq_int(state.status, 0);
        ring_check(view, &seen);
        tap_eq_int(seen.good, (uint64_t)STARTERS * START_ROWS);
        gsp_ring_view_close(view);
        gsp_ring_close(ring);
        ring_folder_remove(folder);
    }
    load_end(loops);
}

static struct gsp_ring *handler_ring;
static _Atomic uint64_t handler_count;
static atomic_bool sender_done;

static void on_signal(int number)
{
    (void)number;
    const struct gsp_row_python_torch_trace row = ring_row(9, atomic_fetch_add(&handler_count, 1));
    gsp_ring_append(handler_ring, &row);
}

/* SIGUSR2 may interrupt the handler of SIGUSR1, but no signal interrupts that of SIGUSR2. Unbounded
 * nesting would overflow the stack if signals arrive faster than handlers return. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGUSR2, &action, NULL);
}

static void *send_signals(void *arg)
{
    pthread_t main_thread;
    memcpy(&main_thread, arg, sizeof(main_thread));
    for (int i = 0; i < 20000; i++) {
        pthread_kill(main_thread, i % 2 ? SIGUSR1 : SIGUSR2);
        sched_yield();
    }
    atomic_store(&sender_done, true);
    return NULL;
}

TAP_TEST(signal_handlers_append_during_appends)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 10000);
    handler_ring = ring;
    catch_signals();
    pthread_t sender;
    pthread_t self = pthread_self();
    const struct gsp_row_python_torch_trace first = ring_row(1, 0);
    tap_check(gsp_ring_append(ring, &first)); /* claims a lane before the signals start */
    tap_require(pthread_create(&sender, NULL, send_signals, &self) == 0);
    uint64_t n = 1;
    while (!atomic_load(&sender_done)) {
        const struct gsp_row_python_torch_trace row = ring_row(1, n++);
        gsp_ring_append(ring, &row);
    }
    pthread_join(sender, NULL);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_state state;
    struct ring_seen seen = {0};
    gsp_ring_state(view, &state);
    const uint64_t handled = atomic_load(&handler_count);
    printf("# %llu rows, %llu from handlers, %u lanes, %llu lost\n", (unsigned long long)state.rows,
           (unsigned long long)handled, state.lane_count, (unsigned long long)state.rows_lost);
    tap_check(handled > 0 && state.rows_lost < handled);
    tap_eq_int(state.rows + state.rows_lost, n + handled);
    tap_check(state.lane_count <= 2);
    ring_check(view, &seen);
    tap_eq_int(seen.torn, 0);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

#define STRINGS 2000U

struct interner {
    struct gsp_ring *ring;
    uint32_t ids[STRINGS];
    uint32_t start;
};

static void string_of(uint32_t i, char out[32])
{
    snprintf(out, 32, "module.%u", i);
}

static void *intern_all(void *arg)
{
    struct interner *interner = arg;
    for (uint32_t k = 0; k < STRINGS; k++) {
        char text[32];
        uint32_t i = (k + interner->start) % STRINGS;
        string_of(i, text);
        interner->ids[i] = gsp_ring_intern(interner->ring, gsp_sv_of(text));
    }
    return NULL;
}

TAP_TEST(threads_intern_the_same_strings_concurrently)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 10);
    static struct interner interners[WRITERS];
    pthread_t threads[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        interners[i] = (struct interner){.ring = ring, .start = i % 2 ? 0 : STRINGS / 2};
        tap_require(pthread_create(&threads[i], NULL, intern_all, &interners[i]) == 0);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    struct gsp_ring_view *view = ring_view(folder, RING_FILE);
    struct gsp_ring_dict dict;
    tap_require(gsp_ring_dict_read(view, &dict, NULL) == 0);
    for (uint32_t i = 0; i < STRINGS; i++) {
        char text[32];
        string_of(i, text);
        for (unsigned t = 0; t < WRITERS; t++) {
            uint32_t id = interners[t].ids[i];
            tap_require(id > 0 && id < dict.count);
            tap_require(gsp_sv_eq(dict.strings[id], gsp_sv_of(text)));
            tap_require(id == interners[0].ids[i]);
        }
    }
    gsp_ring_dict_free(&dict);
    gsp_ring_view_close(view);
    gsp_ring_close(ring);
    ring_folder_remove(folder);
}

TAP_MAIN()
