/* SPDX-License-Identifier: Apache-2.0 */
/* The agent with threads, forks, signals and SIGKILL. */
#include <sched.h>
#include <sys/resource.h>

#include "agent_fixture.h"
#include "base/file.h"
#include "base/time.h"

#define THREADS 8U
/* Fewer threads, for tests in which each round waits for all of them. */
#define FEW     3U
#define BUSY_NS (2 * GSP_NS_PER_S)
#define LEAST   3
#define MANY    4200 /* more threads than gates */
#ifdef GSP_RING_BYTEWISE
#define ROWS   2000U /* the sanitizer is slow */
#define ROUNDS 5
#else
#define ROWS   20000U
#define ROUNDS 100
#endif

struct crowd {
    unsigned count;
    pthread_t threads[THREADS];
    atomic_bool stop;
    _Atomic uint64_t puts[THREADS]; /* successful ones */
    _Atomic uint64_t tries[THREADS];
};

struct member {
    struct crowd *crowd;
    unsigned index;
};

static struct member members[THREADS];

static void *put_forever(void *arg)
{
    const struct member *member = arg;
    struct crowd *crowd = member->crowd;
    for (uint64_t n = 0; !atomic_load_explicit(&crowd->stop, memory_order_relaxed); n++) {
        const struct gsp_row_python_torch_trace row = ring_row(member->index + 1, n);
        if (gsp_agent_put_torch(&row))
            atomic_fetch_add_explicit(&crowd->puts[member->index], 1, memory_order_relaxed);
        /* Also use other tables, so that rings are created while other threads put rows. */
        if (n % 64 == member->index) {
            const struct gsp_row_python_torch_step step = {.ts_ns = (int64_t)n};
            gsp_agent_put(GSP_TABLE_python_torch_step, &step);
            gsp_agent_intern(GSP_TABLE_python_span, gsp_sv_of("a name"));
        }
        atomic_fetch_add_explicit(&crowd->tries[member->index], 1, memory_order_relaxed);
    }
    return NULL;
}

static struct crowd *crowd_start(unsigned count)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    tap_require(crowd != NULL);
    crowd->count = count;
    for (unsigned i = 0; i < count; i++) {
        members[i] = (struct member){crowd, i};
        tap_require(pthread_create(&crowd->threads[i], NULL, put_forever, &members[i]) == 0);
    }
    return crowd;
}

/* Waits until every thread has made this number of further attempts. */
static void crowd_wait(struct crowd *crowd, uint64_t tries)
{
    for (unsigned i = 0; i < crowd->count; i++) {
        const uint64_t end = atomic_load(&crowd->tries[i]) + tries;
        while (atomic_load(&crowd->tries[i]) < end)
            sched_yield();
    }
}

static uint64_t crowd_end(struct crowd *crowd)
{
    uint64_t puts = 0;
    atomic_store(&crowd->stop, true);
    for (unsigned i = 0; i < crowd->count; i++) {
        pthread_join(crowd->threads[i], NULL);
        puts += atomic_load(&crowd->puts[i]);
    }
    free(crowd);
    return puts;
}

/* Whether time is left for another round. */
static bool has_time(int round, int64_t end_ns)
{
    return round < LEAST || (round < ROUNDS && gsp_now_ns() < end_ns);
}

TAP_TEST(eight_threads)
{
    agent_setup();
    gsp_agent_start();
    struct crowd *crowd = crowd_start(THREADS);
    crowd_wait(crowd, ROWS);
    const uint64_t puts = crowd_end(crowd);
    const struct agent_rows seen = agent_read(getpid(), RING_FILE);
    tap_eq_int(seen.rows, puts);
    tap_eq_int(seen.torn, 0);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(stop_and_start_while_threads_put)
{
    agent_setup();
    setenv("GSPROF_RING_ROWS", "500", 1);
    struct crowd *crowd = crowd_start(FEW);
    const int64_t end_ns = gsp_now_ns() + BUSY_NS;
    for (int round = 0; has_time(round, end_ns); round++) {
        tap_eq_int(gsp_agent_start(), GSP_AGENT_OK);
        crowd_wait(crowd, 5);
        gsp_agent_stop();
        tap_check(!gsp_agent_is_on());
        tap_check(agent_read(getpid(), RING_FILE).status & GSP_RING_CLOSED);
    }
    crowd_end(crowd);
    tap_check(!gsp_ring_file_is_mapped("torch_trace", 0));
    agent_teardown();
}

/* In a child: writes rows to its own ring. Returns 0 on success. */
static int child_puts(uint32_t parents_generation)
{
    char value[GSP_CONTROL_VALUE];
    if (atomic_load(gsp_agent_generation()) == parents_generation)
        return 1;
    if (agent_put_rows(99, 100) != 100)
        return 2;
    const struct agent_rows seen = agent_read(getpid(), RING_FILE);
    if (seen.rows != 100 || seen.torn != 0 || seen.rank != 3)
        return 3;
    if (!gsp_agent_setting(GSP_SET_torch, value) || strcmp(value, "on") != 0)
        return 4;
    if (!gsp_agent_set(GSP_SET_torch, "off") || !gsp_agent_set(GSP_SET_spans, "off"))
        return 5;
    return 0;
}

TAP_TEST(fork_while_threads_put)
{
    agent_setup();
    setenv("GSPROF_RING_ROWS", "500", 1);
    gsp_agent_start();
    gsp_agent_set(GSP_SET_torch, "on");
    gsp_agent_set_rank(3);
    struct crowd *crowd = crowd_start(FEW);
    crowd_wait(crowd, 10);
    const int64_t end_ns = gsp_now_ns() + BUSY_NS;
    for (int round = 0; has_time(round, end_ns); round++) {
        const uint32_t generation = atomic_load(gsp_agent_generation());
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0)
            _exit(child_puts(generation));
        tap_require(pid > 0);
        waitpid(pid, &status, 0);
        tap_eq_int(status, 0);
    }
    const uint64_t puts = crowd_end(crowd);
    const struct agent_rows seen = agent_read(getpid(), RING_FILE);
    tap_eq_int(seen.rows, puts);
    tap_eq_int(seen.torn, 0);
    char value[GSP_CONTROL_VALUE];
    tap_check(gsp_agent_setting(GSP_SET_torch, value));
    tap_eq_str(value, "on");
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(a_child_of_a_child)
{
    agent_setup();
    gsp_agent_start();
    gsp_agent_set(GSP_SET_torch, "on");
    gsp_agent_set_rank(3);
    agent_put_rows(1, 10);
    const uint32_t generation = atomic_load(gsp_agent_generation());
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        /* This child puts no rows itself. */
        const pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(child_puts(generation));
        waitpid(grandchild, &status, 0);
        gsp_agent_stop();
        _exit(status == 0 && agent_folder(getpid()) < 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    tap_eq_int(status, 0);
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 10);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(fork_while_others_start_and_stop)
{
    agent_setup();
    setenv("GSPROF_RING_ROWS", "100", 1);
    struct crowd *crowd = crowd_start(FEW);
    const int64_t end_ns = gsp_now_ns() + BUSY_NS;
    for (int round = 0; has_time(round, end_ns); round++) {
        gsp_agent_start();
        crowd_wait(crowd, 1);
        const pid_t pid = fork();
        if (pid == 0) {
            gsp_agent_start();
            _exit(agent_put_rows(99, 10) == 10 ? 0 : 1);
        }
        gsp_agent_stop();
        int status = -1;
        waitpid(pid, &status, 0);
        tap_eq_int(status, 0);
    }
    crowd_end(crowd);
    agent_teardown();
}

TAP_TEST(rows_survive_kill_9)
{
    agent_setup();
    _Atomic uint64_t *acked =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tap_require(acked != MAP_FAILED);
    const pid_t pid = fork();
    if (pid == 0) {
        gsp_agent_start();
        for (uint64_t n = 0;; n++) {
            const struct gsp_row_python_torch_trace row = ring_row(1, n);
            if (gsp_agent_put_torch(&row))
                atomic_store(acked, n + 1);
        }
    }
    while (atomic_load(acked) < 1000)
        sched_yield();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    const struct agent_rows seen = agent_read(pid, RING_FILE);
    /* The last row may have been published but not acknowledged. */
    tap_check(seen.rows == atomic_load(acked) || seen.rows == atomic_load(acked) + 1);
    tap_eq_int(seen.torn, 0);
    agent_teardown();
}

static _Atomic uint64_t handled;

static void put_in_handler(int number)
{
    (void)number;
    const struct gsp_row_python_torch_trace row = ring_row(77, atomic_load(&handled));
    if (gsp_agent_put_torch(&row))
        atomic_fetch_add(&handled, 1);
}

TAP_TEST(a_signal_handler_puts_rows)
{
    agent_setup();
    gsp_agent_start();
    agent_put_rows(1, 1);
    const struct sigaction action = {.sa_handler = put_in_handler};
    const struct itimerspec often = {.it_interval = {0, 50000}, .it_value = {0, 50000}};
    timer_t timer;
    sigaction(SIGALRM, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    tap_require(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    tap_require(timer_settime(timer, 0, &often, NULL) == 0);
    uint64_t puts = 1;
    for (int round = 0; round < 1000 && (round < 20 || atomic_load(&handled) < 20); round++)
        puts += agent_put_rows(1, ROWS / 10);
    timer_delete(timer);
    const struct agent_rows seen = agent_read(getpid(), RING_FILE);
    tap_eq_int(seen.rows, puts + atomic_load(&handled));
    tap_eq_int(seen.torn, 0);
    gsp_agent_stop();
    agent_teardown();
}

/* Threads that use a table for the first time at the same moment. One of them creates its ring. */
struct first_use {
    pthread_barrier_t *barrier;
    uint64_t id;
    bool is_put;
    bool interned;
};

static void *use_table(void *arg)
{
    struct first_use *one = arg;
    const struct gsp_row_python_torch_trace row = ring_row(one->id, 0);
    pthread_barrier_wait(one->barrier);
    one->is_put = gsp_agent_put_torch(&row);
    one->interned = gsp_agent_intern(GSP_TABLE_python_span, gsp_sv_of("a name")) != GSP_NULL_STR;
    return NULL;
}

/* Returns the number of lost rows and of names without an id. */
static unsigned use_together(void)
{
    static struct first_use all[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    unsigned missing = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        all[i] = (struct first_use){.barrier = &barrier, .id = i + 1};
        if (pthread_create(&threads[i], NULL, use_table, &all[i]) != 0)
            abort(); /* not tap_require(), because this also runs in a child */
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        missing += !all[i].is_put + !all[i].interned;
    }
    pthread_barrier_destroy(&barrier);
    return missing;
}

TAP_TEST(no_first_row_of_a_thread_is_lost)
{
    agent_setup();
    const int64_t end_ns = gsp_now_ns() + BUSY_NS;
    for (int round = 0; has_time(round, end_ns); round++) {
        gsp_agent_start();
        tap_eq_int(use_together(), 0);
        const struct agent_rows seen = agent_read(getpid(), RING_FILE);
        tap_eq_int(seen.rows, THREADS);
        tap_eq_int(seen.lost, 0);
        gsp_agent_stop();
        tap_eq_int(nftw(agent_root, agent_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
        agent_setup();
    }
    agent_teardown();
}

TAP_TEST(no_first_row_of_a_thread_in_a_child_is_lost)
{
    agent_setup();
    gsp_agent_start();
    agent_put_rows(1, 1);
    const int64_t end_ns = gsp_now_ns() + BUSY_NS;
    for (int round = 0; has_time(round, end_ns); round++) {
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0) {
            const bool all = use_together() == 0;
            _exit(all && agent_read(getpid(), RING_FILE).rows == THREADS ? 0 : 1);
        }
        tap_require(pid > 0);
        waitpid(pid, &status, 0);
        tap_eq_int(status, 0);
    }
    gsp_agent_stop();
    agent_teardown();
}

/* Called once, by the next posix_fallocate() of this thread. */
static _Thread_local void (*before_reserving)(void);

/* Replaces the function of the C library, also for the ring code. */
int posix_fallocate(int fd, off_t off, off_t len)
{
    void (*first)(void) = before_reserving;
    before_reserving = NULL;
    if (first)
        first();
    return fallocate(fd, 0, off, len) == 0 ? 0 : errno;
}

static atomic_bool is_hanging;
static atomic_bool may_end;

static void hang(void)
{
    atomic_store(&is_hanging, true);
    while (!atomic_load(&may_end))
        sched_yield();
}

static void *make_slowly(void *arg)
{
    (void)arg;
    before_reserving = hang;
    agent_put_rows(99, 1);
    return NULL;
}

/* Starts a thread that hangs while it creates the ring of torch_trace. */
static pthread_t hanging_maker(void)
{
    pthread_t maker;
    tap_require(pthread_create(&maker, NULL, make_slowly, NULL) == 0);
    while (!atomic_load(&is_hanging))
        sched_yield();
    return maker;
}

TAP_TEST(only_one_thread_waits_for_a_ring_that_is_never_created)
{
    agent_setup();
    gsp_agent_start();
    pthread_t maker = hanging_maker();
    const int64_t begin_ns = gsp_now_ns();
    tap_eq_int(agent_put_rows(1, 1), 0);
    tap_check(gsp_now_ns() - begin_ns >= GSP_NS_PER_S / 2);
    /* If each put waited, the test would time out. */
    tap_eq_int(agent_put_rows(1, 100), 0);
    atomic_store(&may_end, true);
    pthread_join(maker, NULL);
    tap_eq_int(agent_put_rows(1, 5), 5);
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 6);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 101);
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(a_string_is_not_a_lost_row)
{
    agent_setup();
    gsp_agent_start();
    pthread_t maker = hanging_maker();
    tap_eq_int(gsp_agent_intern(GSP_TABLE_python_torch_trace, gsp_sv_of("a")), GSP_NULL_STR);
    tap_eq_int(gsp_agent_intern(GSP_TABLE_python_torch_trace, gsp_sv_of("b")), GSP_NULL_STR);
    tap_eq_int(agent_put_rows(1, 1), 0);
    atomic_store(&may_end, true);
    pthread_join(maker, NULL);
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 1);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 1);
    gsp_agent_stop();
    agent_teardown();
}

static void *start_slowly(void *arg)
{
    (void)arg;
    before_reserving = hang;
    gsp_agent_start();
    return NULL;
}

TAP_TEST(only_one_thread_waits_for_a_start_that_never_ends)
{
    agent_setup();
    pthread_t starter;
    tap_require(pthread_create(&starter, NULL, start_slowly, NULL) == 0);
    while (!atomic_load(&is_hanging))
        sched_yield();
    const int64_t begin_ns = gsp_now_ns();
    tap_eq_int(agent_put_rows(1, 1), 0);
    tap_check(gsp_now_ns() - begin_ns >= GSP_NS_PER_S / 2);
    /* If each put waited, the test would time out. */
    tap_eq_int(agent_put_rows(1, 100), 0);
    tap_eq_int(gsp_agent_intern(GSP_TABLE_python_torch_trace, gsp_sv_of("a")), GSP_NULL_STR);
    atomic_store(&may_end, true);
    pthread_join(starter, NULL);
    tap_eq_int(agent_put_rows(1, 5), 5);
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 5);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 101);
    gsp_agent_stop();
    agent_teardown();
}

static void *start_cancelled(void *arg)
{
    pthread_cancel(pthread_self());
    gsp_agent_start();
    atomic_store((atomic_bool *)arg, true);
    pthread_testcancel();
    return NULL;
}

TAP_TEST(start_is_not_a_cancellation_point)
{
    agent_setup();
    atomic_bool has_ended = false;
    void *result = NULL;
    pthread_t thread;
    tap_require(pthread_create(&thread, NULL, start_cancelled, &has_ended) == 0);
    pthread_join(thread, &result);
    tap_check(result == PTHREAD_CANCELED);
    tap_check(atomic_load(&has_ended));
    tap_eq_int(agent_put_rows(1, 1), 1);
    gsp_agent_stop();
    agent_teardown();
}

static void *let_end_later(void *arg)
{
    (void)arg;
    const struct timespec a_while = {0, 300 * GSP_NS_PER_MS};
    nanosleep(&a_while, NULL);
    atomic_store(&may_end, true);
    return NULL;
}

TAP_TEST(a_setting_waits_for_a_slow_start)
{
    agent_setup();
    pthread_t starter;
    pthread_t helper;
    tap_require(pthread_create(&starter, NULL, start_slowly, NULL) == 0);
    while (!atomic_load(&is_hanging))
        sched_yield();
    tap_require(pthread_create(&helper, NULL, let_end_later, NULL) == 0);
    tap_check(gsp_agent_set(GSP_SET_torch, "on"));
    pthread_join(helper, NULL);
    pthread_join(starter, NULL);
    char value[GSP_CONTROL_VALUE];
    tap_check(gsp_agent_setting(GSP_SET_torch, value));
    tap_eq_str(value, "on");
    gsp_agent_stop();
    agent_teardown();
}

TAP_TEST(a_row_is_counted_if_its_ring_is_created_after_the_stop)
{
    agent_setup();
    gsp_agent_start();
    pthread_t maker = hanging_maker();
    gsp_agent_stop();
    atomic_store(&may_end, true);
    pthread_join(maker, NULL);
    const struct agent_rows seen = agent_read(getpid(), RING_FILE);
    tap_eq_int(seen.rows, 0);
    tap_eq_int(seen.lost, 1);
    tap_check(seen.status & GSP_RING_CLOSED);
    agent_teardown();
}

/* Timeout of a wait for a ring. */
#define RING_WAIT_NS GSP_NS_PER_S

static int64_t put_ns;
static long put_waits;

static long waits_of_this_thread(void)
{
    struct rusage usage;
    tap_require(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
}

/* Puts a row in the thread that creates the ring, as a signal handler would. */
static void put_during_creation(void)
{
    const long waits = waits_of_this_thread();
    const int64_t begin_ns = gsp_now_ns();
    tap_eq_int(agent_put_rows(77, 1), 0);
    put_ns = gsp_now_ns() - begin_ns;
    put_waits = waits_of_this_thread() - waits;
}

TAP_TEST(a_handler_does_not_wait_for_its_own_thread)
{
    agent_setup();
    gsp_agent_start();
    before_reserving = put_during_creation;
    tap_eq_int(agent_put_rows(1, 1), 1);
    tap_check(before_reserving == NULL);
    /* On a busy machine the thread may have waited for a CPU, but it did not block. */
    tap_check(put_ns < RING_WAIT_NS || put_waits == 0);
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 1);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 1);
    gsp_agent_stop();
    agent_teardown();
}

static atomic_bool is_putting;

/* Returns the state letter of the main thread. */
static char main_state(void)
{
    char path[64];
    gsp_auto_buf text = {0};
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    tap_require(gsp_file_read(path, 4096, &text, NULL) == 0);
    const char *after_name = strrchr(gsp_buf_cstr(&text), ')');
    tap_require(after_name != NULL && after_name[1] == ' ');
    return after_name[2];
}

static void *let_end_once_it_waits(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_putting) || main_state() != 'S')
        sched_yield();
    atomic_store(&may_end, true);
    return NULL;
}

TAP_TEST(put_waits_for_a_slow_ring)
{
    agent_setup();
    gsp_agent_start();
    pthread_t helper;
    pthread_t maker = hanging_maker();
    tap_require(pthread_create(&helper, NULL, let_end_once_it_waits, NULL) == 0);
    atomic_store(&is_putting, true);
    tap_eq_int(agent_put_rows(1, 1), 1);
    pthread_join(helper, NULL);
    pthread_join(maker, NULL);
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, 2);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 0);
    gsp_agent_stop();
    agent_teardown();
}

static void *put_once(void *arg)
{
    (void)arg;
    agent_put_rows(1, 1);
    return NULL;
}

TAP_TEST(threads_return_their_gates_at_their_end)
{
    agent_setup();
    setenv("GSPROF_RING_ROWS", "100", 1);
    gsp_agent_start();
    for (int i = 0; i < MANY; i++) {
        pthread_t thread;
        tap_require(pthread_create(&thread, NULL, put_once, NULL) == 0);
        pthread_join(thread, NULL);
    }
    tap_eq_int(agent_read(getpid(), RING_FILE).rows, MANY);
    tap_eq_int(agent_read(getpid(), RING_FILE).lost, 0);
    gsp_agent_stop();
    agent_teardown();
}

#ifndef GSP_RING_BYTEWISE /* too many threads for the sanitizer */
static pthread_barrier_t all_have_put;

static void *put_and_stay(void *arg)
{
    (void)arg;
    agent_put_rows(1, 2);
    pthread_barrier_wait(&all_have_put);
    return NULL;
}

TAP_TEST(rows_of_threads_without_a_gate_are_counted)
{
    static pthread_t threads[MANY];
    pthread_attr_t small;
    agent_setup();
    setenv("GSPROF_RING_ROWS", "10", 1);
    gsp_agent_start();
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&all_have_put, NULL, MANY + 1);
    for (int i = 0; i < MANY; i++)
        if (pthread_create(&threads[i], &small, put_and_stay, NULL) != 0)
            tap_skip("cannot start enough threads");
    pthread_barrier_wait(&all_have_put);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    const struct agent_rows seen = agent_read(getpid(), RING_FILE);
    tap_eq_int(seen.rows + seen.lost, 2 * MANY);
    gsp_agent_stop();
    tap_check(!gsp_ring_file_is_mapped("torch_trace", 0));
    agent_teardown();
}
#endif

TAP_MAIN()
