/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.c -- which lane a thread writes to.
 *
 * Each thread has a small page of its own with its lane of every ring; the page is reached by one
 * thread-local pointer and dies with the thread, which gives the lanes back.  The page is wiped
 * in a child after fork, so that a child cannot write to its parent's lanes.
 * Threads claim lanes by one exchange each and reserve their bytes side by side: none waits for
 * another, so a thread that starts loses no row however slow the others are.
 * Everything here but the thread's end may run in a signal handler: no malloc, no mutex.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ring/ring_internal.h"

/* A thread appends from signal handlers to its second lane. */
#define LEVELS     2U
/* Rows that a thread without a lane loses before it asks for one again: asking costs more. */
#define RETRY_ROWS 1024U

struct my_lanes {
    uint64_t serial; /* of the ring; anything else: the entry is another ring's */
    struct gsp_lane *lane[LEVELS];
    uint32_t skip; /* rows to lose before the next try */
    uint32_t pad;
};

struct thread_page {
    struct my_lanes of[GSP_RINGS_MAX];
};

/* In the static block, so that access calls no allocator. */
static _Thread_local struct thread_page *my_page __attribute__((tls_model("initial-exec")));
/* 1 while this thread claims a lane: a signal handler meanwhile gets none. */
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
    /* The next owner goes on from rows and slot: partner is the exchange in own(). */
    atomic_store_explicit(&lane->owner, 0, memory_order_release);
}

static void give_back(struct gsp_lane *lane)
{
    if (lane) {
        atomic_store_explicit(&lane->head->owner, 0, memory_order_relaxed);
        disown(lane);
    }
}

static void end_thread(void *arg)
{
    struct thread_page *page = arg;
    my_page = NULL;
    pthread_mutex_lock(&list_mutex);
    for (size_t i = 0; i < GSP_RINGS_MAX; i++) {
        const struct gsp_ring *ring = list[i];
        /* In a child the lanes are still the parent's. */
        if (ring && ring->serial == page->of[i].serial && ring->pid == getpid()) {
            for (unsigned level = 0; level < LEVELS; level++) {
                give_back(page->of[i].lane[level]);
            }
        }
    }
    pthread_mutex_unlock(&list_mutex);
    munmap(page, sizeof(*page));
}

/* Another thread of the parent may have held it; here there is none. */
static void renew_mutex(void)
{
    pthread_mutex_init(&list_mutex, NULL);
}

static void init_once(void)
{
    end_key_error = pthread_key_create(&end_key, end_thread);
    if (end_key_error == 0) {
        end_key_error = pthread_atfork(NULL, NULL, renew_mutex);
    }
}

static struct thread_page *page_of_thread(void)
{
    if (my_page) {
        return my_page;
    }
    struct thread_page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    /* Without the wipe a child could write to its parent's lanes; without the key the lanes would
     * never come back. */
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
    const int fd = open(ring->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_dev != ring->dev || st.st_ino != ring->ino)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Raises a counter to at least v.  What was stored before is there for who loads v or more. */
static void lift(_Atomic uint32_t *counter, uint32_t v)
{
    uint32_t now = atomic_load_explicit(counter, memory_order_relaxed);
    /* Partners: the loads in publish() and gsp_ring_abandon(); for readers the one in map_lanes()
     * of reader.c. */
    while (now < v && !atomic_compare_exchange_weak_explicit(counter, &now, v, memory_order_release,
                                                             memory_order_relaxed)) {
    }
}

/* Shows lanes up to this one to readers.  One before it may still be without its bytes; its head
 * gets them here, because a reader that finds none takes the rest of the file for cut. */
static bool publish(struct gsp_ring *ring, int fd, uint32_t index)
{
    const uint64_t head_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t i = atomic_load_explicit(&ring->lane_count, memory_order_acquire);
    for (; i < index; i++) {
        if (gsp_ring__reserve(fd, ring->lanes_off + i * ring->lane_bytes, head_bytes, NULL) != 0) {
            return false;
        }
    }
    lift(&ring->lane_count, index + 1);
    lift(&ring->head->lane_count, index + 1);
    return true;
}

/* Gives a lane of this thread its bytes. */
static bool map_lane(struct gsp_ring *ring, uint32_t index)
{
    const uint64_t off = ring->lanes_off + index * ring->lane_bytes;
    lift(&ring->lane_top, index + 1);
    gsp_auto_fd fd = gsp_ring__open_file(ring);
    if (fd < 0 || gsp_ring__reserve(fd, off, ring->lane_bytes, NULL) != 0 ||
        !publish(ring, fd, index)) {
        return false;
    }
    char *base = mmap(NULL, ring->lane_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)off);
    if (base == MAP_FAILED) {
        return false;
    }
    struct gsp_lane *lane = &ring->lanes[index];
    lane->table = ring->table;
    lane->capacity = ring->row_slots;
    if (ring->text_bytes) {
        lane->text = base + ring->text_off;
        lane->text_mask = ring->text_bytes - 1;
    }
    for (uint32_t i = 0; i < ring->table->column_count; i++) {
        lane->column[i] = base + ring->column_off[i];
    }
    lane->head = (void *)base;
    return true;
}

/* A lane without an owner, with its bytes.  One that has none yet gets them; a full file system is
 * asked once, then only lanes that have theirs will do. */
static struct gsp_lane *take_lane(struct gsp_ring *ring, uint32_t tid)
{
    bool is_full = false;
    for (uint32_t i = 0; i < ring->lane_max; i++) {
        struct gsp_lane *lane = &ring->lanes[i];
        if (is_full && i >= atomic_load_explicit(&ring->lane_top, memory_order_relaxed)) {
            break;
        }
        if (!own(lane, tid)) {
            continue;
        }
        if (lane->head || (!is_full && map_lane(ring, i))) {
            return lane;
        }
        is_full = true;
        disown(lane);
    }
    atomic_fetch_or_explicit(&ring->head->status, GSP_RING_NO_SPACE, memory_order_relaxed);
    return NULL;
}

static struct gsp_lane *claim(struct gsp_ring *ring, struct my_lanes *mine)
{
    if (mine->serial != ring->serial) {
        *mine = (struct my_lanes){.serial = ring->serial};
    }
    unsigned level = 0;
    while (level < LEVELS && mine->lane[level] && mine->lane[level]->busy) {
        level++;
    }
    if (level == LEVELS) {
        return NULL;
    }
    if (mine->lane[level]) {
        return mine->lane[level];
    }
    if (mine->skip > 0) {
        mine->skip--;
        return NULL;
    }
    const uint32_t tid = (uint32_t)gettid();
    int cancel = 0;
    /* Opening a file is a cancellation point, and a thread that ends here would keep its lane. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    struct gsp_lane *lane = take_lane(ring, tid);
    pthread_setcancelstate(cancel, NULL);
    if (!lane) {
        mine->skip = RETRY_ROWS;
        return NULL;
    }
    atomic_store_explicit(&lane->head->owner, tid, memory_order_relaxed);
    mine->lane[level] = lane;
    return lane;
}

/* Not on the way of an append that has its lane. */
static __attribute__((noinline)) struct gsp_lane *claim_slowly(struct gsp_ring *ring)
{
    const int saved_errno = errno;
    struct gsp_lane *lane = NULL;
    if (getpid() != ring->pid) {
        return NULL;
    }
    if (!my_claiming) {
        my_claiming = 1;
        atomic_signal_fence(memory_order_seq_cst);
        struct thread_page *page = page_of_thread();
        lane = page ? claim(ring, &page->of[ring->number]) : NULL;
        atomic_signal_fence(memory_order_seq_cst);
        my_claiming = 0;
    }
    if (!lane) {
        atomic_fetch_add_explicit(&ring->head->rows_lost, 1, memory_order_relaxed);
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
        if (gsp_likely(mine->serial == ring->serial && lane && !lane->busy)) {
            return lane;
        }
    }
    return claim_slowly(ring);
}

int gsp_ring__enter(struct gsp_ring *ring, struct gsp_err *err)
{
    pthread_once(&once, init_once);
    if (end_key_error) {
        return gsp_err_set(err, GSP_E_LIMIT, end_key_error,
                           "this process has no thread-specific key left");
    }
    pthread_mutex_lock(&list_mutex);
    size_t i = 0;
    while (i < GSP_RINGS_MAX && list[i]) {
        i++;
    }
    if (i < GSP_RINGS_MAX) {
        ring->number = (uint32_t)i;
        ring->serial = ++last_serial;
        list[i] = ring;
    }
    pthread_mutex_unlock(&list_mutex);
    if (i == GSP_RINGS_MAX) {
        return gsp_err_set(err, GSP_E_LIMIT, 0, "this process writes %u rings already",
                           GSP_RINGS_MAX);
    }
    return 0;
}

void gsp_ring__leave(struct gsp_ring *ring)
{
    pthread_mutex_lock(&list_mutex);
    if (ring->serial != 0 && list[ring->number] == ring) {
        list[ring->number] = NULL;
    }
    pthread_mutex_unlock(&list_mutex);
}
