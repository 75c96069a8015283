/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/mem_count.h"
#include "agent/mem_hook.h"
#include "agent/mem_modules.h"
#include "agent/mem_notice.h"
#include "agent/mem_tables.h"
#include "agent/mem_walk.h"
#include "agent/ring_dir.h"
#include "base/file.h"
#include "base/time.h"
#include "ring/dir.h"
#include "ring/process.h"

#define INTERVAL_MIN 1024U
#define INTERVAL_MAX (UINT64_C(1) << 40)

/* The address of the counters never changes, because callers keep it. It maps a file or, in a
 * forked child, private memory. */
static struct gsp_memory_head *home;
static size_t home_bytes;
static bool has_counters;
static _Atomic uint32_t changing;  /* 1: a thread starts or stops counting */
static _Atomic uint32_t is_childs; /* the counters are private memory of a child, without a file */
static struct gsp_agent_memory_opts last_opts;
static struct gsp_agent_python last_python;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool can_fork; /* without fork handlers, a child would change its parent's counters */

static bool reserve(void)
{
    if (home)
        return true;
    const size_t bytes = gsp_wire_memory_bytes(&gsp_agent__mem_capacity[GSP_MEMORY_EXACT]);
    void *area = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return false;
    home = area;
    home_bytes = bytes;
    return true;
}

/* Fills everything except the start time, which must be read from /proc: this also runs in a fork
 * handler. */
static void fill_head(struct gsp_memory_head *head, const struct gsp_agent_memory_opts *opts)
{
    gsp_wire_memory_init(head, &gsp_agent__mem_capacity[opts->mode]);
    head->mode = opts->mode;
    head->pid = (int32_t)getpid();
    head->interval_bytes = opts->mode == GSP_MEMORY_EXACT ? 0 : opts->interval_bytes;
    head->began_ns = gsp_now_ns();
    head->began_real_ns = gsp_realtime_ns();
    atomic_store_explicit(&head->state, GSP_MEMORY_ON, memory_order_relaxed);
}

/* Creates a temporary file of this size. Returns -1 if no space is left. */
static int make_file(int folder_fd, const char *tmp, size_t bytes)
{
    unlinkat(folder_fd, tmp, 0);
    const int fd = openat(folder_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* Reserve the bytes first: a full file system is an error here, not a SIGBUS later. */
    if (fd >= 0 &&
        (!gsp_ring_dir_has_space(fd, bytes) || posix_fallocate(fd, 0, (off_t)bytes) != 0)) {
        gsp_fd_close(&fd);
        unlinkat(folder_fd, tmp, 0);
        return -1;
    }
    return fd;
}

/* Maps a new file over the counters. keep: copies the current counters to it. */
static bool map_file(const struct gsp_agent_memory_opts *opts, bool keep)
{
    char tmp[64];
    const size_t bytes = gsp_wire_memory_bytes(&gsp_agent__mem_capacity[opts->mode]);
    gsp_auto_fd folder = gsp_agent__ring_dir_open();
    snprintf(tmp, sizeof(tmp), ".%s.%d.tmp", GSP_MEMORY_FILE, (int)getpid());
    gsp_auto_fd fd = folder >= 0 ? make_file(folder, tmp, bytes) : -1;
    if (fd < 0)
        return false;
    bool done = false;
    char state = 0;
    uint64_t start_time = 0;
    gsp_ignore(gsp_ring_process_start_time(getpid(), &start_time, &state)); /* 0 then */
    gsp_agent__mem_lock();
    if (!keep || pwrite(fd, home, bytes, 0) == (ssize_t)bytes) {
        done =
            mmap(home, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
    }
    if (done && !keep)
        fill_head(home, opts);
    if (done)
        home->start_time = start_time;
    gsp_agent__mem_unlock();
    if (!done || renameat(folder, tmp, folder, GSP_MEMORY_FILE) != 0) {
        unlinkat(folder, tmp, 0);
        return false;
    }
    return true;
}

/* State of the forking thread, from before_fork() to the handler after the fork. */
static _Thread_local struct {
    uint32_t busy; /* old value */
    bool is_on;
    bool has_modules;
} forking __attribute__((tls_model("initial-exec")));

/* Before fork: makes sure that no other thread is in the linker on behalf of the engine. The linker
 * does not reset its lock in a child, so the child would hang in its first dlopen().
 * Does not take the engine's lock, because a later fork handler may wait for a thread that
 * allocates (OpenBLAS ends its threads there). The child releases the lock, so until then this
 * thread must not take it: allocations of other fork handlers are not counted. */
static void before_fork(void)
{
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    if (me->busy == GSP_AGENT__INSIDE)
        return; /* a signal handler that interrupted the engine forks */
    forking.is_on = true;
    forking.busy = me->busy;
    me->busy = GSP_AGENT__INSIDE;
    forking.has_modules = gsp_agent__modules_hold();
}

static void end_fork(void)
{
    if (forking.is_on)
        gsp_agent__mem_this_thread.busy = forking.busy;
    memset(&forking, 0, sizeof(forking));
}

static void after_fork_in_parent(void)
{
    if (forking.has_modules)
        gsp_agent__modules_release();
    end_fork();
}

/* Runs in a child, in the thread that forked. Replaces the parent's counters by private zeroed
 * memory and continues counting there. */
static void forget(void)
{
    const uint32_t mode = atomic_load(&gsp_agent__mem_mode);
    atomic_store(&changing, 0);
    gsp_agent__modules_reset();
    gsp_agent__mem_count_reset();
    end_fork();
    if (!home || mode == GSP_MEMORY_OFF)
        return;
    atomic_store(&gsp_agent__mem_mode, GSP_MEMORY_OFF);
    void *own = mmap(home, home_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    /* If a signal handler that interrupted the engine forked, counting cannot restart. */
    if (own == MAP_FAILED || gsp_agent__mem_this_thread.busy == GSP_AGENT__INSIDE)
        return;
    fill_head(home, &last_opts);
    if (gsp_agent__mem_count_init(home, &last_opts)) {
        atomic_store(&is_childs, 1);
        gsp_agent__mem_count_on((enum gsp_memory_mode)mode);
    }
}

static void watch_forks(void)
{
    can_fork = pthread_atfork(before_fork, after_fork_in_parent, forget) == 0;
}

static enum gsp_agent_memory_rc start(const struct gsp_agent_memory_opts *opts)
{
    if (!can_fork || !reserve())
        return GSP_AGENT_MEMORY_NO_MEMORY;
    if (!map_file(opts, false))
        return GSP_AGENT_MEMORY_NO_SPACE;
    if (!gsp_agent__mem_count_init(home, opts))
        return GSP_AGENT_MEMORY_NO_MEMORY;
    has_counters = true;
    atomic_store(&is_childs, 0);
    gsp_agent__mem_count_on(opts->mode);
    if (!gsp_agent__hooks_install(opts)) {
        gsp_agent__mem_count_on(GSP_MEMORY_OFF);
        return GSP_AGENT_MEMORY_NO_MEMORY;
    }
    return GSP_AGENT_MEMORY_OK;
}

enum gsp_agent_memory_rc gsp_agent_memory_start(const struct gsp_agent_memory_opts *opts)
{
    const int saved_errno = errno;
    enum gsp_agent_memory_rc rc = GSP_AGENT_MEMORY_BUSY;
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    if (atomic_exchange(&changing, 1) != 0)
        return rc;
    me->paused++;
    if (atomic_load(&gsp_agent__mem_mode) == GSP_MEMORY_OFF) {
        pthread_once(&once, watch_forks);
        last_opts = *opts;
        if (last_opts.interval_bytes < INTERVAL_MIN || last_opts.interval_bytes > INTERVAL_MAX)
            last_opts.interval_bytes = INTERVAL_MIN;
        if (opts->python) {
            last_python = *opts->python;
            last_opts.python = &last_python;
        }
        rc = start(&last_opts);
    }
    me->paused--;
    atomic_store(&changing, 0);
    errno = saved_errno;
    return rc;
}

void gsp_agent_memory_stop(void)
{
    const int saved_errno = errno;
    if (atomic_exchange(&changing, 1) != 0)
        return;
    if (atomic_load(&gsp_agent__mem_mode) != GSP_MEMORY_OFF) {
        gsp_agent__mem_count_on(GSP_MEMORY_OFF);
        gsp_agent__hooks_remove();
        gsp_agent__mem_notice_end();
        atomic_store(&home->state, GSP_MEMORY_ENDED);
    }
    atomic_store(&changing, 0);
    errno = saved_errno;
}

void gsp_agent_memory_python_ends(void)
{
    const int saved_errno = errno;
    struct gsp_agent__mem_thread *me = &gsp_agent__mem_this_thread;
    if (me->busy != GSP_AGENT__INSIDE) {
        gsp_agent__hooks_end_python();
        gsp_agent__mem_lock();
        gsp_agent__walk_init(NULL);
        last_opts.python = NULL; /* for children */
        gsp_agent__mem_unlock();
    }
    gsp_agent__mem_notice_end();
    if (has_counters) {
        atomic_fetch_or(&home->state, GSP_MEMORY_LEAVING);
        /* Partner: the fence in memlog/table.c. A reader that sees a later free also sees this
         * state. */
        atomic_thread_fence(memory_order_release);
    }
    errno = saved_errno;
}

enum gsp_memory_mode gsp_agent_memory_mode(void)
{
    return (enum gsp_memory_mode)atomic_load_explicit(&gsp_agent__mem_mode, memory_order_relaxed);
}

bool gsp_agent_memory_child(void)
{
    const int saved_errno = errno;
    bool done = false;
    uint32_t own = 1;
    if (atomic_load(&gsp_agent__mem_mode) != GSP_MEMORY_OFF && gsp_agent_start() == GSP_AGENT_OK &&
        atomic_compare_exchange_strong(&is_childs, &own, 0)) {
        gsp_agent__mem_this_thread.paused++;
        done = map_file(&last_opts, true);
        gsp_agent__mem_this_thread.paused--;
    }
    errno = saved_errno;
    return done;
}

const struct gsp_memory_head *gsp_agent_memory_view(void)
{
    return has_counters ? home : NULL;
}

void gsp_agent_memory_device(uint64_t allocated_bytes, uint64_t reserved_bytes, uint64_t peak_bytes)
{
    if (atomic_load(&gsp_agent__mem_mode) == GSP_MEMORY_OFF)
        return;
    atomic_store(&home->device_allocated_bytes, allocated_bytes);
    atomic_store(&home->device_reserved_bytes, reserved_bytes);
    atomic_store(&home->device_peak_bytes, peak_bytes);
    atomic_store(&home->device_ns, gsp_now_ns());
}

void gsp_agent_memory_pause(bool pause)
{
    gsp_agent__mem_this_thread.paused += pause ? 1U : -1U;
}
