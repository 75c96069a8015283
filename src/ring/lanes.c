/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.c -- assigns lanes to threads.
 *
 * Each thread has a small page that lists its lane of every ring. A thread-local pointer refers to
 * the page. When the thread ends, it returns its lanes and unmaps the page. The kernel wipes the
 * page in a child after fork, so that a child cannot write to its parent's lanes.
 * Threads claim lanes with one atomic exchange and reserve their bytes concurrently. No thread
 * waits for another, so a new thread loses no rows however slow the others are. All functions on
 * the path of gsp_ring_lane() may run in a signal handler: no malloc, no mutex.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sandbox.h"
#include "base/thread.h"
#include "base/time.h"
#include "ring/ring_internal.h"

/* Lanes of a thread per ring. Signal handlers append to the second one. */
#define LEVELS         2U
/* A thread without a lane retries after this time. Retrying to open the file costs less. */
#define RETRY_FILE_NS  (5 * GSP_NS_PER_MS)
#define RETRY_SPACE_NS (50 * GSP_NS_PER_MS)
/* Limits for lanes that are mapped in advance. */
#define SPARES_MAX     16U
#define SPARES_BYTES   (UINT64_C(64) << 20)
#define POPULATE_TRIES 1000
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Result of claiming a lane. */
enum outcome {
    HAS_LANE,
    NO_SPACE, /* or no lane */
    NO_FILE,
};

struct my_lanes {
    uint64_t serial; /* of the ring; if it differs, the entry belongs to an earlier ring */
    struct gsp_lane *lane[LEVELS];
    int64_t retry_ns;     /* time of the next attempt; 0: at once */
    enum outcome outcome; /* of the last attempt */
};

struct thread_page {
    struct my_lanes of[GSP_RINGS_MAX];
};

/* In the static TLS block, so that access never allocates. */
static _Thread_local struct thread_page *my_page __attribute__((tls_model("initial-exec")));
/* 1 while this thread claims a lane. A signal handler gets none during that time. */
static _Thread_local volatile sig_atomic_t my_claiming __attribute__((tls_model("initial-exec")));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t end_key;
static int end_key_error;
/* Guarded by list_mutex. */
static struct gsp_ring *list[GSP_RINGS_MAX];
static uint64_t last_serial;

static void disown(struct gsp_lane *lane)
{
    /* The next owner continues from rows and slot. Partner: the exchange in own(). */
    atomic_store_explicit(&lane->owner, 0, memory_order_release);
}

static void return_lane(struct gsp_lane *lane)
{
    if (lane) {
        atomic_store_explicit(&lane->head->owner, 0, memory_order_relaxed);
        disown(lane);
    }
}

/* Blocks signals, because a handler that writes the first row of a table creates a ring, which
 * takes this lock as well. Not those of faults: the file of a lane may be truncated. */
static void lock_list(sigset_t *mask)
{
    sigset_t blocked;
    gsp_thread_async_signals(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, mask);
    pthread_mutex_lock(&list_mutex);
}

static void unlock_list(const sigset_t *mask)
{
    pthread_mutex_unlock(&list_mutex);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

static void end_thread(void *arg)
{
    struct thread_page *page = arg;
    sigset_t mask;
    my_page = NULL;
    lock_list(&mask);
    for (size_t i = 0; i < GSP_RINGS_MAX; i++) {
        const struct gsp_ring *ring = list[i];
        /* In a child the lanes still belong to the parent. */
        if (ring && ring->serial == page->of[i].serial && ring->pid == getpid())
            for (unsigned level = 0; level < LEVELS; level++)
                return_lane(page->of[i].lane[level]);
    }
    unlock_list(&mask);
    munmap(page, sizeof(*page));
}

/* In a child: another thread of the parent may have held the mutex. */
static void renew_mutex(void)
{
    pthread_mutex_init(&list_mutex, NULL);
}

static void init_once(void)
{
    end_key_error = pthread_key_create(&end_key, end_thread);
    if (end_key_error == 0)
        end_key_error = pthread_atfork(NULL, NULL, renew_mutex);
}

static struct thread_page *page_of_thread(void)
{
    if (my_page)
        return my_page;
    struct thread_page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    /* Without the wipe, a child could write to its parent's lanes. Without the key, the thread
     * would never return its lanes. */
    if (madvise(page, sizeof(*page), MADV_WIPEONFORK) != 0 ||
        pthread_setspecific(end_key, page) != 0) {
        munmap(page, sizeof(*page));
        return NULL;
    }
    my_page = page;
    return page;
}

static bool own(struct gsp_lane *lane, uint32_t tid)
{
    uint32_t free_owner = 0;
    /* Partner of acquire: the store in disown(). */
    return atomic_load_explicit(&lane->owner, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong_explicit(&lane->owner, &free_owner, tid,
                                                   memory_order_acquire, memory_order_relaxed);
}

int gsp_ring__open_file(const struct gsp_ring *ring)
{
    struct stat st;
    if (gsp_sandbox_is_new())
        return -1;
    const int fd = open(ring->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_dev != ring->dev || st.st_ino != ring->ino)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Raises a counter to at least v. A thread that loads v or more sees all earlier stores. */
static void raise_to(_Atomic uint32_t *counter, uint32_t v)
{
    uint32_t now = atomic_load_explicit(counter, memory_order_relaxed);
    /* Partners: the loads in publish() and gsp_ring__unmap_lanes(); in readers, the load in
     * map_lanes() of reader.c. */
    while (now < v && !atomic_compare_exchange_weak_explicit(counter, &now, v, memory_order_release,
                                                             memory_order_relaxed)) {
    }
}

/* Reserves the bytes of a lane that is already mapped, without a descriptor: the kernel populates
 * the pages, and fails if no space is left. Then drops them from the page table, so that they do
 * not count as resident memory of this process before a row is written. */
static enum outcome reserve_spare(const struct gsp_ring *ring, uint32_t index, uint64_t bytes)
{
    char *at = ring->spares + index * ring->lane_bytes;
    int tries = 0;
    int sys = 0;
    do {
        sys = madvise(at, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    } while ((sys == EINTR || sys == EAGAIN) && ++tries < POPULATE_TRIES);
    if (sys == EINVAL)
        return NO_FILE; /* not supported before Linux 5.14 */
    const uint64_t head_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (sys != 0 && bytes > head_bytes) {
        /* Free the pages again. The head stays, because others may have published it. */
        gsp_ignore(madvise(at + head_bytes, bytes - head_bytes, MADV_REMOVE) != 0);
    }
    gsp_ignore(madvise(at, bytes, MADV_DONTNEED) != 0);
    return sys == 0 ? HAS_LANE : NO_SPACE;
}

static enum outcome reserve(const struct gsp_ring *ring, int fd, uint32_t index, uint64_t bytes)
{
    if (fd < 0)
        return index < ring->spare_count ? reserve_spare(ring, index, bytes) : NO_FILE;
    const uint64_t off = ring->lanes_off + index * ring->lane_bytes;
    return gsp_ring__reserve(fd, off, bytes, NULL) == 0 ? HAS_LANE : NO_SPACE;
}

/* Makes lanes up to this one visible to readers. An earlier lane may not have its bytes yet. Its
 * head is reserved here, because a reader treats a file without it as truncated. */
static enum outcome publish(struct gsp_ring *ring, int fd, uint32_t index)
{
    const uint64_t head_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t i = atomic_load_explicit(&ring->lane_count, memory_order_acquire);
    for (; i < index; i++) {
        const enum outcome outcome = reserve(ring, fd, i, head_bytes);
        if (outcome != HAS_LANE)
            return outcome;
    }
    raise_to(&ring->lane_count, index + 1);
    raise_to(&ring->head->lane_count, index + 1);
    return HAS_LANE;
}

/* Reserves and maps a lane that this thread owns. */
static enum outcome map_lane(struct gsp_ring *ring, uint32_t index)
{
    const uint64_t off = ring->lanes_off + index * ring->lane_bytes;
    raise_to(&ring->lane_top, index + 1);
    gsp_auto_fd fd = gsp_ring__open_file(ring);
    enum outcome outcome = reserve(ring, fd, index, ring->lane_bytes);
    if (outcome == HAS_LANE)
        outcome = publish(ring, fd, index);
    if (outcome != HAS_LANE)
        return outcome;
    char *base = index < ring->spare_count
                     ? ring->spares + index * ring->lane_bytes
                     : gsp_ring__map(ring, fd, off, ring->lane_bytes, PROT_READ | PROT_WRITE);
    if (base == MAP_FAILED)
        return NO_SPACE;
    struct gsp_lane *lane = &ring->lanes[index];
    lane->table = ring->table;
    lane->capacity = ring->row_slots;
    if (ring->text_bytes) {
        lane->text = base + ring->text_off;
        lane->text_mask = ring->text_bytes - 1;
    }
    for (uint32_t i = 0; i < ring->table->column_count; i++)
        lane->column[i] = base + ring->column_off[i];
    lane->head = (void *)base;
    return HAS_LANE;
}

void gsp_ring__map_spares(struct gsp_ring *ring, int fd)
{
    struct rlimit file;
    struct rlimit addresses;
    const uint64_t fit = SPARES_BYTES / ring->lane_bytes;
    uint64_t count = ring->lane_max < SPARES_MAX ? ring->lane_max : SPARES_MAX;
    count = fit < count ? fit : count;
    /* Do not map lanes in advance if the file size is limited (exceeding it raises SIGXFSZ), or if
     * the address space is (the program needs it). */
    if (count == 0 || getrlimit(RLIMIT_FSIZE, &file) != 0 || file.rlim_cur != RLIM_INFINITY ||
        getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur != RLIM_INFINITY)
        return;
    const uint64_t bytes = count * ring->lane_bytes;
    if (ftruncate(fd, (off_t)(ring->lanes_off + bytes)) != 0)
        return;
    /* PROT_NONE at first: with mlockall(), the kernel would populate writable pages at once. */
    char *base = gsp_ring__map(ring, fd, ring->lanes_off, bytes, PROT_NONE);
    if (base == MAP_FAILED)
        return;
    ring->spares = base;
    ring->spare_bytes = bytes;
    ring->spare_count = mprotect(base, bytes, PROT_READ | PROT_WRITE) == 0 ? (uint32_t)count : 0;
}

void gsp_ring__unmap_lanes(struct gsp_ring *ring)
{
    const uint32_t top = atomic_load_explicit(&ring->lane_top, memory_order_acquire);
    for (uint32_t i = ring->spare_count; i < top; i++)
        if (ring->lanes[i].head)
            gsp_ring__unmap(ring, ring->lanes[i].head, ring->lane_bytes);
    if (ring->spares)
        gsp_ring__unmap(ring, ring->spares, ring->spare_bytes);
}

/* Finds a lane without an owner. Maps it if necessary. If mapping fails, tries only lanes that are
 * already mapped. */
static enum outcome acquire_lane(struct gsp_ring *ring, uint32_t tid, struct gsp_lane **out)
{
    enum outcome failed = HAS_LANE;
    for (uint32_t i = 0; i < ring->lane_max; i++) {
        struct gsp_lane *lane = &ring->lanes[i];
        if (failed != HAS_LANE && i >= atomic_load_explicit(&ring->lane_top, memory_order_relaxed))
            break;
        if (!own(lane, tid))
            continue;
        if (!lane->head && failed == HAS_LANE)
            failed = map_lane(ring, i);
        if (lane->head) {
            *out = lane;
            return HAS_LANE;
        }
        disown(lane);
    }
    return failed == HAS_LANE ? NO_SPACE : failed;
}

/* Reads the clock without a system call. */
static int64_t coarse_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * GSP_NS_PER_S + now.tv_nsec;
}

static struct gsp_lane *claim(struct gsp_ring *ring, struct my_lanes *mine)
{
    if (mine->serial != ring->serial)
        *mine = (struct my_lanes){.serial = ring->serial};
    unsigned level = 0;
    while (level < LEVELS && mine->lane[level] && mine->lane[level]->busy)
        level++;
    if (level == LEVELS)
        return NULL;
    if (mine->lane[level])
        return mine->lane[level];
    if (mine->retry_ns != 0 && coarse_ns() < mine->retry_ns)
        return NULL;
    const uint32_t tid = (uint32_t)gettid();
    int cancel = 0;
    /* open() is a cancellation point, and a thread that ends here would never return its lane. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    struct gsp_lane *lane = NULL;
    mine->outcome = acquire_lane(ring, tid, &lane);
    pthread_setcancelstate(cancel, NULL);
    if (!lane) {
        const bool no_file = mine->outcome == NO_FILE;
        mine->retry_ns = coarse_ns() + (no_file ? RETRY_FILE_NS : RETRY_SPACE_NS);
        atomic_fetch_or_explicit(&ring->head->status,
                                 no_file ? GSP_RING_NO_FILE : GSP_RING_NO_SPACE,
                                 memory_order_relaxed);
        return NULL;
    }
    mine->retry_ns = 0;
    atomic_store_explicit(&lane->head->owner, tid, memory_order_relaxed);
    mine->lane[level] = lane;
    return lane;
}

/* Not inlined into the fast path of gsp_ring_lane(). */
static __attribute__((noinline)) struct gsp_lane *claim_slowly(struct gsp_ring *ring)
{
    const int saved_errno = errno;
    struct gsp_lane *lane = NULL;
    bool no_file = false;
    if (getpid() != ring->pid)
        return NULL;
    if (!my_claiming) {
        my_claiming = 1;
        atomic_signal_fence(memory_order_seq_cst);
        struct thread_page *page = page_of_thread();
        lane = page ? claim(ring, &page->of[ring->number]) : NULL;
        no_file = page && page->of[ring->number].outcome == NO_FILE;
        atomic_signal_fence(memory_order_seq_cst);
        my_claiming = 0;
    }
    if (!lane) {
        atomic_fetch_add_explicit(no_file ? &ring->head->rows_no_file : &ring->head->rows_lost, 1,
                                  memory_order_relaxed);
    }
    errno = saved_errno;
    return lane;
}

struct gsp_lane *gsp_ring_lane(struct gsp_ring *ring)
{
    const struct thread_page *page = my_page;
    if (gsp_likely(page != NULL)) {
        const struct my_lanes *mine = &page->of[ring->number];
        struct gsp_lane *lane = mine->lane[0];
        if (gsp_likely(mine->serial == ring->serial && lane && !lane->busy))
            return lane;
    }
    return claim_slowly(ring);
}

int gsp_ring__enter(struct gsp_ring *ring, struct gsp_err *err)
{
    pthread_once(&once, init_once);
    if (end_key_error) {
        return gsp_err_set(err, GSP_E_LIMIT, end_key_error,
                           "no thread-specific key is left in this process");
    }
    sigset_t mask;
    lock_list(&mask);
    size_t i = 0;
    while (i < GSP_RINGS_MAX && list[i])
        i++;
    if (i < GSP_RINGS_MAX) {
        ring->number = (uint32_t)i;
        ring->serial = ++last_serial;
        list[i] = ring;
    }
    unlock_list(&mask);
    if (i == GSP_RINGS_MAX) {
        return gsp_err_set(err, GSP_E_LIMIT, 0, "this process already writes %u rings",
                           GSP_RINGS_MAX);
    }
    return 0;
}

void gsp_ring__leave(struct gsp_ring *ring)
{
    sigset_t mask;
    lock_list(&mask);
    if (ring->serial != 0 && list[ring->number] == ring)
        list[ring->number] = NULL;
    unlock_list(&mask);
}
