/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/page.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sandbox.h"
#include "base/time.h"
#include "ring/process.h"

/* A writer holds the lock for microseconds, but may be stopped, or wait for a CPU on a busy
 * machine.
 */
#define LOCK_WAIT_NS GSP_NS_PER_S
#define PAUSE_NS     500000L

static _Atomic(struct gsp_control *) home;
static struct gsp_control no_memory; /* used if the page cannot be allocated */
static _Atomic uint32_t writing;     /* lock: 1 while a thread of this process changes the page */
/* The mapped file; guarded by writing. */
static dev_t file_dev;
static ino_t file_ino;
static bool has_file;
static int cancel_state; /* of the thread that is writing */

static size_t page_bytes(void)
{
    const size_t unit = (size_t)sysconf(_SC_PAGESIZE);
    return (sizeof(struct gsp_control) + unit - 1) / unit * unit;
}

struct gsp_control *gsp_agent__page(void)
{
    struct gsp_control *page = atomic_load_explicit(&home, memory_order_acquire);
    if (page)
        return page;
    struct gsp_control *fresh =
        mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return &no_memory;
    gsp_wire_control_init(fresh, GSP_VERSION);
    /* Partner: the load above. */
    if (!atomic_compare_exchange_strong_explicit(&home, &page, fresh, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        munmap(fresh, page_bytes());
        return page;
    }
    return fresh;
}

/* Sleeps briefly. Returns false at end_ns. Not a cancellation point, unlike nanosleep(). */
static bool pause_until(int64_t end_ns)
{
    const struct timespec pause = {0, PAUSE_NS};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
    return gsp_now_ns() < end_ns;
}

/* Disables cancellation, because opening files is a cancellation point, and a thread that ended
 * there would keep the lock. */
static bool lock(int64_t end_ns)
{
    int cancel = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    do {
        if (atomic_exchange_explicit(&writing, 1, memory_order_acquire) == 0) {
            cancel_state = cancel;
            return true;
        }
    } while (pause_until(end_ns));
    pthread_setcancelstate(cancel, NULL);
    return false;
}

static int64_t lock_end_ns(void)
{
    return gsp_now_ns() + LOCK_WAIT_NS;
}

static void unlock(void)
{
    const int cancel = cancel_state;
    /* Partner: the exchange in lock(). */
    atomic_store_explicit(&writing, 0, memory_order_release);
    pthread_setcancelstate(cancel, NULL);
}

/* Copies the values to a page that is not visible to others yet. */
static void copy_values(const struct gsp_control *from, struct gsp_control *to)
{
    for (unsigned i = 0; i < GSP_SET_COUNT; i++) {
        char value[GSP_CONTROL_VALUE];
        if (gsp_wire_control_get(from, (enum gsp_setting_id)i, value))
            gsp_wire_control_set(to, (enum gsp_setting_id)i, value);
    }
}

/* Fills the page that will replace the current one. Increases the serial, so that threads that poll
 * it see a change. */
static void fill_page(struct gsp_control *fresh, bool keep_values, uint32_t state)
{
    const struct gsp_control *old = gsp_agent__page();
    gsp_wire_control_init(fresh, GSP_VERSION);
    if (keep_values)
        copy_values(old, fresh);
    const uint64_t serial = atomic_load_explicit(&old->serial, memory_order_relaxed);
    atomic_store_explicit(&fresh->serial, (serial | 1) + 1, memory_order_relaxed);
    atomic_store_explicit(&fresh->applied, (serial | 1) + 1, memory_order_relaxed);
    atomic_store_explicit(&fresh->state, state, memory_order_relaxed);
}

void gsp_agent__page_make_private(bool keep_values, uint32_t state)
{
    struct gsp_control *page = gsp_agent__page();
    if (page == &no_memory || !lock(lock_end_ns()))
        return;
    struct gsp_control *fresh =
        mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh != MAP_FAILED) {
        fill_page(fresh, keep_values, state);
        if (mremap(fresh, page_bytes(), page_bytes(), MREMAP_MAYMOVE | MREMAP_FIXED, page) ==
            MAP_FAILED)
            munmap(fresh, page_bytes());
        else
            has_file = false;
    }
    unlock();
}

/* Whether another copy of this library in this process uses the page. A page that is not mapped was
 * left by the program before exec(). */
static bool is_used_by_other(int fd)
{
    char magic[sizeof(GSP_CONTROL_MAGIC) - 1];
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        (has_file && st.st_dev == file_dev && st.st_ino == file_ino) ||
        pread(fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
        memcmp(magic, GSP_CONTROL_MAGIC, sizeof(magic)) != 0)
        return false;
    uint32_t state = 0;
    return pread(fd, &state, sizeof(state), offsetof(struct gsp_control, state)) ==
               (ssize_t)sizeof(state) &&
           (state & GSP_CONTROL_LOADED) != 0 &&
           gsp_ring_file_is_mapped("/" GSP_CONTROL_FILE, st.st_ino);
}

/* Creates and maps a file with the content of the page. Returns NULL if no space is left. */
static struct gsp_control *make_file(int folder_fd, const char *tmp)
{
    struct stat st;
    unlinkat(folder_fd, tmp, 0);
    gsp_auto_fd fd =
        openat(folder_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* Reserve the bytes first: a full file system is an error here, not a SIGBUS later. */
    if (fd < 0 || posix_fallocate(fd, 0, (off_t)page_bytes()) != 0 || fstat(fd, &st) != 0)
        return NULL;
    struct gsp_control *page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    fill_page(page, true, GSP_CONTROL_LOADED);
    file_dev = st.st_dev;
    file_ino = st.st_ino;
    return page;
}

static enum gsp_agent_rc make_page(int folder_fd)
{
    struct gsp_control *to = gsp_agent__page();
    if (to == &no_memory)
        return GSP_AGENT_NO_MEMORY;
    gsp_auto_fd before =
        openat(folder_fd, GSP_CONTROL_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (before >= 0 && is_used_by_other(before))
        return GSP_AGENT_OTHER;
    char tmp[64];
    snprintf(tmp, sizeof(tmp), ".%s.%d.tmp", GSP_CONTROL_FILE, (int)getpid());
    struct gsp_control *page = make_file(folder_fd, tmp);
    if (page && renameat(folder_fd, tmp, folder_fd, GSP_CONTROL_FILE) == 0) {
        if (mremap(page, page_bytes(), page_bytes(), MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
            MAP_FAILED) {
            has_file = true;
            return GSP_AGENT_OK;
        }
        unlinkat(folder_fd, GSP_CONTROL_FILE, 0);
    }
    if (page)
        munmap(page, page_bytes());
    unlinkat(folder_fd, tmp, 0);
    return GSP_AGENT_NO_SPACE;
}

enum gsp_agent_rc gsp_agent__page_make(int folder_fd)
{
    if (!lock(lock_end_ns()))
        return GSP_AGENT_NO_SPACE;
    const enum gsp_agent_rc rc = make_page(folder_fd);
    unlock();
    if (rc != GSP_AGENT_OK)
        gsp_agent__page_make_private(true, GSP_CONTROL_QUIET);
    return rc;
}

/* Opens the file of the page and locks it against writers in other processes. Returns -1 if that
 * fails or the page has no file. */
static int lock_file(const char *folder, int64_t end_ns)
{
    char path[512];
    struct stat st;
    if (!has_file || gsp_sandbox_is_new() ||
        snprintf(path, sizeof(path), "%s/%s", folder, GSP_CONTROL_FILE) < 0)
        return -1;
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == file_dev && st.st_ino == file_ino) {
        do {
            if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                return fd;
        } while (pause_until(end_ns));
    }
    gsp_fd_close(&fd);
    return -1;
}

bool gsp_agent__page_set(const char *folder, enum gsp_setting_id id, const char *value)
{
    struct gsp_control *page = gsp_agent__page();
    const int64_t end_ns = lock_end_ns();
    if (page == &no_memory || !lock(end_ns))
        return false;
    const int fd = lock_file(folder, end_ns);
    const bool can = fd >= 0 || !has_file;
    if (can)
        gsp_wire_control_set(page, id, value);
    if (fd >= 0) {
        /* Closing does not release the lock if a child was forked meanwhile and has the descriptor.
         */
        flock(fd, LOCK_UN);
        gsp_fd_close(&fd);
    }
    unlock();
    return can;
}

void gsp_agent__page_reset(void)
{
    atomic_store_explicit(&writing, 0, memory_order_release);
}
