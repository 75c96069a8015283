/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/gate.h"
#include "agent/page.h"
#include "agent/ring_dir.h"
#include "agent/settings.h"
#include "base/file.h"
#include "base/sandbox.h"
#include "base/time.h"
#include "ring/append.h"
#include "ring/dir.h"

/* Default rows of a ring, and of torch_trace if space allows: a small model writes thousands of
 * rows per second. */
#define ROWS_DEFAULT     GSP_RING_ROWS_DEFAULT
#define TRACE_ROWS       100000U
#define TRACE_ROOM_BYTES (UINT64_C(1) << 30) /* free space that TRACE_ROWS requires */
#define ROWS_ENV         "GSPROF_RING_ROWS"
/* Starting the agent and creating a ring take milliseconds, unless the thread does not get a CPU.
 * The sum is less than the time that gate.c waits for a thread inside the gate. */
#define START_WAIT_NS    (500 * GSP_NS_PER_MS)
#define RING_WAIT_NS     (1000 * GSP_NS_PER_MS)
/* Interval between attempts to create a ring (no space, no descriptor left). */
#define RING_RETRY_NS    (100 * GSP_NS_PER_MS)
/* Attempts to get a ring while other threads start or stop the agent or create the ring. */
#define RING_ROUNDS      8
/* A ring that was being created when the agent stopped is found in the next round. */
#define STOP_ROUNDS      4
/* Ids of the program's tables follow those of tables.def. */
#define USER_MAX         64U
#define TABLES_MAX       (GSP_TABLE_COUNT + USER_MAX)

enum phase {
    OFF,
    STARTING,
    ON,
    STOPPING,
    FORKED,   /* in a child whose parent was on: the next call starts the agent */
    RESUMING, /* that call is running */
    QUIET,    /* no space for rings */
};

enum making {
    NOT_MADE,
    BEING_MADE,
    MADE_LATE, /* being created, but one thread has timed out: no other waits */
    CANNOT_BE, /* failed; retry at retry_ns */
};

/* Threads synchronize only through atomics, so that a fork at any time leaves no lock held. A
 * thread waits for a limited time while another starts the agent or creates a ring. Then it drops
 * its row and counts it. A signal handler that interrupts the working thread does not wait. */
static struct {
    _Atomic uint32_t phase;
    _Atomic uint32_t generation;
    _Atomic int64_t rank;
    _Atomic(struct gsp_ring *) ring[TABLES_MAX];
    _Atomic uint32_t making[TABLES_MAX];
    _Atomic uint32_t lost[TABLES_MAX];    /* rows that were put while no ring existed */
    _Atomic int64_t retry_ns[TABLES_MAX]; /* when to retry a ring that could not be created, or 0 */
    /* 1 + the generation in which a thread timed out while it waited for a start: no other thread
     * waits for that start. */
    _Atomic uint32_t late_generation;
    _Atomic(const struct gsp_table *) user[USER_MAX]; /* filled from the front, never emptied */
    /* Written by the thread that starts the agent, before phase ON. */
    struct gsp_ring *parents[TABLES_MAX];
    dev_t folder_dev;
    ino_t folder_ino;
    char folder[256];
} agent = {.rank = GSP_NULL_I64};

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Above 0 while this thread starts or stops the agent or creates a ring. */
static _Thread_local volatile sig_atomic_t my_work __attribute__((tls_model("initial-exec")));

static void begin_work(void)
{
    my_work = my_work + 1;
    atomic_signal_fence(memory_order_seq_cst);
}

/* Stores the outcome and wakes the threads that wait for it. */
static void end_work(_Atomic uint32_t *word, uint32_t outcome)
{
    atomic_store(word, outcome);
    atomic_signal_fence(memory_order_seq_cst);
    my_work = my_work - 1;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until the word has another value. Returns false at end_ns, or if this thread itself does
 * the work. Not a cancellation point, unlike nanosleep(): the thread may be inside its gate. */
static bool wait_while(_Atomic uint32_t *word, uint32_t value, int64_t end_ns)
{
    while (atomic_load(word) == value) {
        const int64_t left_ns = end_ns - gsp_now_ns();
        if (my_work > 0 || left_ns <= 0)
            return false;
        const struct timespec left = {left_ns / GSP_NS_PER_S, left_ns % GSP_NS_PER_S};
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &left, NULL, 0);
    }
    return true;
}

/* ----------------------------------------------------------------------------- start and fork */

/* Runs in a child, in the thread that forked. The other threads no longer exist. */
static void forget(void)
{
    const uint32_t phase = atomic_load(&agent.phase);
    if (phase == OFF || phase == QUIET)
        return;
    for (size_t i = 0; i < TABLES_MAX; i++) {
        struct gsp_ring *ring = atomic_exchange(&agent.ring[i], NULL);
        agent.parents[i] = ring ? ring : agent.parents[i];
        atomic_store(&agent.making[i], NOT_MADE);
        atomic_store(&agent.lost[i], 0);
    }
    gsp_agent__gate_reset();
    gsp_agent__page_reset();
    gsp_agent__settings_reset();
    atomic_fetch_add(&agent.generation, 1);
    atomic_store(&agent.phase, phase == STOPPING ? OFF : FORKED);
}

static void init_once(void)
{
    /* If it fails, children lose their rows, but nothing else happens. */
    gsp_ignore(pthread_atfork(NULL, NULL, forget) != 0);
}

/* Unmaps the parent's rings in a child. If a signal handler forked during an append, this thread
 * still uses one of them, so they stay mapped. */
static void drop_parents(void)
{
    const bool safe = !gsp_agent__gate_is_nested();
    for (size_t i = 0; i < TABLES_MAX; i++) {
        if (safe)
            gsp_ring_abandon(agent.parents[i]);
        agent.parents[i] = NULL;
    }
}

bool gsp_agent_is_sandboxed(void)
{
    return gsp_sandbox_is_new();
}

/* Applies the environment variable, unless the setting was changed. For agents without Python. */
static void apply_environment(void)
{
    char value[GSP_CONTROL_VALUE];
    const char *text = secure_getenv(ROWS_ENV);
    const enum gsp_setting_id id = GSP_SET_ring_rows;
    if (text && gsp_wire_control_get(gsp_agent__page(), id, value) &&
        strcmp(value, gsp_wire_setting_row(id)->fallback) == 0 &&
        gsp_wire_setting_row_check(id, gsp_sv_of(text), value, NULL) == 0) {
        struct gsp_control *page = gsp_agent__page();
        gsp_ignore(!gsp_agent__page_set(agent.folder, id, value));
        /* Already applied: rings read the setting when they are created. */
        atomic_store(&page->applied, atomic_load(&page->serial));
    }
}

/* Stores the path of the ring directory. A descriptor would not do, because programs close those
 * that they did not open. */
static bool store_folder(int fd)
{
    char link[64];
    struct stat st;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, agent.folder, sizeof(agent.folder) - 1);
    agent.folder[n > 0 ? n : 0] = '\0';
    if (n <= 0 || (size_t)n == sizeof(agent.folder) - 1 || fstat(fd, &st) != 0)
        return false;
    agent.folder_dev = st.st_dev;
    agent.folder_ino = st.st_ino;
    return true;
}

int gsp_agent__ring_dir_open(void)
{
    struct stat st;
    if (gsp_sandbox_is_new())
        return -1;
    const int fd = open(agent.folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 &&
        (fstat(fd, &st) != 0 || st.st_dev != agent.folder_dev || st.st_ino != agent.folder_ino)) {
        close(fd);
        return -1;
    }
    return fd;
}

static enum gsp_agent_rc begin(void)
{
    pthread_once(&once, init_once);
    drop_parents();
    for (size_t i = 0; i < TABLES_MAX; i++) {
        atomic_store(&agent.making[i], NOT_MADE);
        atomic_store(&agent.lost[i], 0); /* left from before, if the table never had a ring */
        atomic_store(&agent.retry_ns[i], 0);
    }
    int new_fd = -1;
    const struct gsp_ring_dir_spec about = {.pid = (int32_t)getpid(),
                                            .rank = atomic_load(&agent.rank)};
    gsp_sandbox_note();
    const int rc =
        gsp_sandbox_is_new() ? GSP_E_NOWRITE : gsp_ring_dir_create(&about, &new_fd, NULL);
    gsp_auto_fd fd = new_fd;
    if (rc != 0 || !store_folder(fd)) {
        gsp_agent__page_make_private(true, GSP_CONTROL_QUIET);
        return rc == GSP_E_NOMEM ? GSP_AGENT_NO_MEMORY : GSP_AGENT_NO_SPACE;
    }
    const enum gsp_agent_rc made_page = gsp_agent__page_make(fd);
    if (made_page == GSP_AGENT_OK)
        apply_environment();
    return made_page;
}

static bool is_changing(uint32_t phase)
{
    return phase == STARTING || phase == RESUMING || phase == STOPPING;
}

/* Switches to the phase of the caller's work and stores the old phase in *was. Returns false if the
 * work is already done or the wait times out. */
static bool enter_phase(uint32_t work, uint32_t *was)
{
    const int64_t end_ns = gsp_now_ns() + START_WAIT_NS;
    do {
        *was = atomic_load(&agent.phase);
        const bool is_done = work == STARTING ? *was == ON : *was == OFF;
        if (is_done)
            return false;
        const uint32_t next = work == STARTING && *was == FORKED ? RESUMING : work;
        if (!is_changing(*was) && atomic_compare_exchange_strong(&agent.phase, was, next)) {
            begin_work();
            return true;
        }
    } while (wait_while(&agent.phase, *was, end_ns) && gsp_now_ns() < end_ns);
    return false;
}

enum gsp_agent_rc gsp_agent_start(void)
{
    const int saved_errno = errno;
    enum gsp_agent_rc rc = GSP_AGENT_OK;
    uint32_t was = 0;
    int cancel = 0;
    /* Opening files is a cancellation point. A thread that ended here would never leave STARTING.
     */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (enter_phase(STARTING, &was)) {
        rc = begin();
        atomic_fetch_add(&agent.generation, 1);
        end_work(&agent.phase, rc == GSP_AGENT_OK ? ON : QUIET);
        if (rc == GSP_AGENT_OK)
            gsp_agent__settings_write();
    }
    pthread_setcancelstate(cancel, NULL);
    errno = saved_errno;
    return rc;
}

/* Starts the agent at the first call in a child. */
static void start_in_child(void)
{
    if (gsp_unlikely(atomic_load_explicit(&agent.phase, memory_order_acquire) == FORKED))
        gsp_agent_start();
}

/* --------------------------------------------------------------------------------------- stop */

/* Unpublishes all rings. Returns whether there were any. */
static bool detach_rings(struct gsp_ring *detached[TABLES_MAX])
{
    bool any = false;
    for (size_t i = 0; i < TABLES_MAX; i++) {
        detached[i] = atomic_exchange(&agent.ring[i], NULL);
        any = any || detached[i] != NULL;
    }
    return any;
}

static void end(void)
{
    struct gsp_ring *detached[TABLES_MAX];
    atomic_fetch_add(&agent.generation, 1);
    bool more = detach_rings(detached);
    for (int round = 0; round < STOP_ROUNDS && (round == 0 || more); round++) {
        const bool empty = gsp_agent__gate_wait();
        for (size_t i = 0; i < TABLES_MAX && empty; i++)
            gsp_ring_close(detached[i]);
        more = detach_rings(detached);
    }
    gsp_agent_mark(GSP_CONTROL_EJECTED, ~GSP_CONTROL_EJECTED);
    gsp_agent__page_make_private(false, GSP_CONTROL_EJECTED);
}

void gsp_agent_stop(void)
{
    const int saved_errno = errno;
    uint32_t was = 0;
    int cancel = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (enter_phase(STOPPING, &was)) {
        if (was == ON) {
            end();
        } else if (was == FORKED) {
            drop_parents();
            gsp_agent__page_make_private(false, GSP_CONTROL_EJECTED);
        }
        end_work(&agent.phase, OFF);
    }
    pthread_setcancelstate(cancel, NULL);
    errno = saved_errno;
}

bool gsp_agent_is_on(void)
{
    const uint32_t phase = atomic_load_explicit(&agent.phase, memory_order_relaxed);
    return phase == ON || phase == FORKED || phase == RESUMING;
}

const char *gsp_agent_version(void)
{
    return GSP_VERSION;
}

/* ----------------------------------------------------------------------------------- settings */

const _Atomic uint64_t *gsp_agent_serial(void)
{
    start_in_child();
    return &gsp_agent__page()->serial;
}

bool gsp_agent_setting(enum gsp_setting_id id, char out[GSP_CONTROL_VALUE])
{
    start_in_child();
    return gsp_wire_control_get(gsp_agent__page(), id, out);
}

bool gsp_agent_set(enum gsp_setting_id id, const char *value)
{
    const int saved_errno = errno;
    char checked[GSP_CONTROL_VALUE];
    start_in_child();
    const bool done =
        gsp_wire_setting_row_check((size_t)id, gsp_sv_of(value), checked, NULL) == 0 &&
        gsp_agent__page_set(agent.folder, id, checked);
    if (done)
        gsp_agent__settings_write();
    errno = saved_errno;
    return done;
}

void gsp_agent_applied(uint64_t serial)
{
    start_in_child();
    /* Partner: the load in the process that changed the setting. */
    if (atomic_exchange_explicit(&gsp_agent__page()->applied, serial, memory_order_release) !=
        serial)
        gsp_agent__settings_write();
}

void gsp_agent_mark(uint32_t set, uint32_t clear)
{
    start_in_child();
    struct gsp_control *page = gsp_agent__page();
    uint32_t now = atomic_load_explicit(&page->state, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&page->state, &now, (now & ~clear) | set,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* --------------------------------------------------------------------------------------- rows */

const struct gsp_table *gsp_agent_table_at(size_t id)
{
    if (id < GSP_TABLE_COUNT)
        return gsp_wire_table_at(id);
    /* Partner: the exchange in gsp_agent_table_add(). */
    return id < TABLES_MAX
               ? atomic_load_explicit(&agent.user[id - GSP_TABLE_COUNT], memory_order_acquire)
               : NULL;
}

enum gsp_table_id gsp_agent_table_add(const struct gsp_table *table)
{
    for (size_t i = 0; i < USER_MAX; i++) {
        const struct gsp_table *old = NULL;
        /* Partner: the load in gsp_agent_table_at(). */
        if (atomic_compare_exchange_strong_explicit(&agent.user[i], &old, table,
                                                    memory_order_release, memory_order_acquire) ||
            (strcmp(old->name, table->name) == 0 && strcmp(old->schema, table->schema) == 0))
            return (enum gsp_table_id)(GSP_TABLE_COUNT + i);
    }
    return (enum gsp_table_id)TABLES_MAX;
}

static uint32_t rows_of(enum gsp_table_id table, int folder_fd)
{
    struct statvfs fs;
    char value[GSP_CONTROL_VALUE];
    int64_t rows = 0;
    if (gsp_wire_control_get(gsp_agent__page(), GSP_SET_ring_rows, value) &&
        gsp_parse_i64(value, 1, GSP_RING_ROWS_LIMIT, &rows, NULL) == 0)
        return (uint32_t)rows;
    const bool has_room = table == GSP_TABLE_python_torch_trace && fstatvfs(folder_fd, &fs) == 0 &&
                          (uint64_t)fs.f_bavail * fs.f_frsize >= TRACE_ROOM_BYTES;
    return has_room ? TRACE_ROWS : ROWS_DEFAULT;
}

static struct gsp_ring *make_ring(enum gsp_table_id table)
{
    struct gsp_ring *ring = NULL;
    gsp_auto_fd fd = gsp_agent__ring_dir_open();
    struct gsp_ring_spec spec = {
        .table = gsp_agent_table_at(table),
        .row_capacity = fd >= 0 ? rows_of(table, fd) : 0,
        .rank = atomic_load(&agent.rank),
    };
    /* Keep earlier rows about the program after a restart of the agent, but not earlier settings. A
     * follower writes its ring of losses to the same directory. */
    spec.keeps_old =
        spec.table && (strcmp(spec.table->schema, "python") == 0 || table == GSP_TABLE_gsprof_loss);
    if (table == GSP_TABLE_gsprof_setting)
        gsp_agent__settings_spec(&spec);
    if (fd < 0 || gsp_ring_create(fd, &spec, &ring, NULL) != 0) {
        gsp_agent_mark(GSP_CONTROL_QUIET, 0);
        return NULL;
    }
    return ring;
}

/* Publishes a ring, unless the agent was stopped meanwhile. In that case counts the lost rows and
 * the caller's own_rows in it and closes it. */
static struct gsp_ring *publish(enum gsp_table_id table, struct gsp_ring *ring, uint32_t generation,
                                uint32_t own_rows)
{
    if (atomic_load(&agent.generation) != generation) {
        gsp_ring_rows_count_lost(ring, atomic_exchange(&agent.lost[table], 0) + own_rows);
        gsp_ring_close(ring);
        return NULL;
    }
    atomic_store(&agent.ring[table], ring);
    /* After the store of the ring. Partner: lose(). */
    gsp_ring_rows_count_lost(ring, atomic_exchange(&agent.lost[table], 0));
    /* The rank may have been set since the ring was created. */
    gsp_ring_set_rank(ring, atomic_load(&agent.rank));
    return ring;
}

/* Counts lost rows in the ring, or in agent.lost until the ring exists. */
static void lose(enum gsp_table_id table, uint32_t rows)
{
    atomic_fetch_add(&agent.lost[table], rows);
    struct gsp_ring *ring = atomic_load(&agent.ring[table]);
    if (ring)
        gsp_ring_rows_count_lost(ring, atomic_exchange(&agent.lost[table], 0));
}

/* Creates the ring, unless another thread has done so. If it returns NULL, it has counted own_rows
 * as lost. */
static struct gsp_ring *make_and_publish(enum gsp_table_id table, uint32_t generation,
                                         uint32_t own_rows)
{
    begin_work();
    struct gsp_ring *ring = atomic_load(&agent.ring[table]);
    const bool exists = ring != NULL;
    if (!exists)
        ring = make_ring(table);
    const uint32_t outcome = ring ? NOT_MADE : CANNOT_BE;
    if (!ring) {
        atomic_store(&agent.retry_ns[table], gsp_now_ns() + RING_RETRY_NS);
        lose(table, own_rows);
    } else if (!exists) {
        if (atomic_exchange(&agent.retry_ns[table], 0) != 0)
            gsp_agent_mark(0, GSP_CONTROL_QUIET);
        ring = publish(table, ring, generation, own_rows);
    }
    end_work(&agent.making[table], outcome);
    return ring;
}

/* Returns true if this thread has to create the ring. Otherwise *making is the state. */
static bool claim_making(enum gsp_table_id table, uint32_t *making)
{
    *making = NOT_MADE;
    if (atomic_compare_exchange_strong(&agent.making[table], making, BEING_MADE))
        return true;
    return *making == CANNOT_BE && gsp_now_ns() >= atomic_load(&agent.retry_ns[table]) &&
           atomic_compare_exchange_strong(&agent.making[table], making, BEING_MADE);
}

/* Waits until another thread has created the ring or failed. Returns false at the timeout. */
static bool wait_for_maker(enum gsp_table_id table, int64_t end_ns)
{
    if (wait_while(&agent.making[table], BEING_MADE, end_ns))
        return true;
    uint32_t making = BEING_MADE;
    if (gsp_now_ns() >= end_ns)
        atomic_compare_exchange_strong(&agent.making[table], &making, MADE_LATE);
    return false;
}

/* Waits until the current start has ended, and stores the new phase. Returns false at the timeout.
 */
static bool wait_for_start(uint32_t *phase, int64_t end_ns)
{
    const uint32_t generation = atomic_load(&agent.generation);
    if (atomic_load(&agent.late_generation) == generation + 1) {
        *phase = atomic_load(&agent.phase);
        return !is_changing(*phase);
    }
    if (!wait_while(&agent.phase, *phase, end_ns)) {
        if (gsp_now_ns() >= end_ns)
            atomic_store(&agent.late_generation, generation + 1);
        return false;
    }
    *phase = atomic_load(&agent.phase);
    return true;
}

/* Finds or creates the ring while other threads may start or stop the agent. If it returns NULL, it
 * has counted own_rows as lost, unless the agent is off. */
static struct gsp_ring *find_ring(enum gsp_table_id table, uint32_t own_rows)
{
    const int64_t end_ns = gsp_now_ns() + RING_WAIT_NS;
    for (int round = 0; round < RING_ROUNDS; round++) {
        start_in_child();
        uint32_t phase = atomic_load(&agent.phase);
        if ((phase == STARTING || phase == RESUMING) && !wait_for_start(&phase, end_ns))
            break;
        const uint32_t generation = atomic_load(&agent.generation);
        if (phase != ON)
            return NULL;
        uint32_t making = NOT_MADE;
        if (claim_making(table, &making))
            return make_and_publish(table, generation, own_rows);
        if (making != BEING_MADE || !wait_for_maker(table, end_ns))
            break;
        struct gsp_ring *ring = atomic_load(&agent.ring[table]);
        if (ring)
            return ring;
    }
    lose(table, own_rows);
    return NULL;
}

/* The slow path, for the first row or string of a table. The thread is inside its gate. */
static __attribute__((noinline)) struct gsp_ring *ring_slowly(enum gsp_table_id table,
                                                              uint32_t own_rows)
{
    if (!gsp_agent_table_at((size_t)table))
        return NULL;
    const int saved_errno = errno;
    int cancel = 0;
    /* Opening files is a cancellation point. A thread that ended here would never leave its gate.
     */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    struct gsp_ring *ring = find_ring(table, own_rows);
    pthread_setcancelstate(cancel, NULL);
    errno = saved_errno;
    return ring;
}

/* own_rows: rows of the caller to count as lost if no ring exists; 0 for a string. */
static inline struct gsp_ring *ring_of(enum gsp_table_id table, uint32_t own_rows)
{
    /* Partner: the store in publish(). */
    struct gsp_ring *ring = (unsigned)table < TABLES_MAX
                                ? atomic_load_explicit(&agent.ring[table], memory_order_acquire)
                                : NULL;
    return gsp_likely(ring != NULL) ? ring : ring_slowly(table, own_rows);
}

bool gsp_agent_put(enum gsp_table_id table, const void *row)
{
    const struct gsp_agent__gate_pass stay = gsp_agent__gate_enter();
    struct gsp_ring *ring = ring_of(table, 1);
    const bool done = ring && gsp_ring_append(ring, row);
    gsp_agent__gate_leave(stay);
    return done;
}

bool gsp_agent_put_torch(const struct gsp_row_python_torch_trace *row)
{
    const struct gsp_agent__gate_pass stay = gsp_agent__gate_enter();
    struct gsp_ring *ring = ring_of(GSP_TABLE_python_torch_trace, 1);
    struct gsp_lane *lane = gsp_likely(ring != NULL) ? gsp_ring_lane(ring) : NULL;
    if (gsp_likely(lane != NULL))
        gsp_append_python_torch_trace(lane, row);
    gsp_agent__gate_leave(stay);
    return lane != NULL;
}

uint32_t gsp_agent_intern(enum gsp_table_id table, struct gsp_sv text)
{
    const struct gsp_agent__gate_pass stay = gsp_agent__gate_enter();
    struct gsp_ring *ring = ring_of(table, 0);
    const uint32_t id = ring ? gsp_ring_intern(ring, text) : GSP_NULL_STR;
    gsp_agent__gate_leave(stay);
    return id;
}

const _Atomic uint32_t *gsp_agent_generation(void)
{
    return &agent.generation;
}

void gsp_agent_set_rank(int64_t rank)
{
    start_in_child();
    atomic_store(&agent.rank, rank);
    const struct gsp_agent__gate_pass stay = gsp_agent__gate_enter();
    for (size_t i = 0; i < TABLES_MAX; i++) {
        struct gsp_ring *ring = atomic_load(&agent.ring[i]);
        if (ring)
            gsp_ring_set_rank(ring, rank);
    }
    gsp_agent__gate_leave(stay);
}
