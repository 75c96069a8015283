/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/control_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"

#define READ_TRIES  200
#define PAUSE_NS    500000L
#define LOCK_MAX_NS GSP_NS_PER_S

static int open_page(int folder_fd, int flags, struct gsp_err *err)
{
    struct stat st;
    const int fd = openat(folder_fd, GSP_CONTROL_FILE, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        const int code = errno == ENOENT                     ? GSP_E_NOFILE
                         : errno == EACCES || errno == EPERM ? GSP_E_PERM
                                                             : GSP_E_IO;
        gsp_err_fill(err, code, errno, "control page: %s", strerror(errno));
        return code;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        st.st_size < (off_t)sizeof(struct gsp_control)) {
        gsp_fd_close(&fd);
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a control page");
    }
    return fd;
}

static uint64_t serial_of(const struct gsp_control *page)
{
    return atomic_load_explicit(&page->serial, memory_order_relaxed);
}

/* Uses pread(), because access to a mapping of a truncated file raises SIGBUS. */
static int copy_page(int fd, struct gsp_control *out, struct gsp_err *err)
{
    const struct timespec pause = {0, PAUSE_NS};
    for (int tries = 0; tries < READ_TRIES; tries++) {
        uint64_t again = 0;
        if (pread(fd, out, sizeof(*out), 0) != (ssize_t)sizeof(*out) ||
            pread(fd, &again, sizeof(again), offsetof(struct gsp_control, serial)) !=
                (ssize_t)sizeof(again) ||
            !gsp_wire__control_is_valid(out, sizeof(*out)))
            return gsp_err_set(err, GSP_E_FORMAT, 0, "not a control page of this version");
        if ((again & 1) == 0 && serial_of(out) == again)
            return 0;
        nanosleep(&pause, NULL);
    }
    return gsp_err_set(err, GSP_E_TORN, 0, "the control page is being written");
}

int gsp_wire_control_read(int folder_fd, struct gsp_control *out, struct gsp_err *err)
{
    gsp_auto_fd fd = open_page(folder_fd, O_RDONLY, err);
    return fd < 0 ? fd : copy_page(fd, out, err);
}

static int lock(int fd, struct gsp_err *err)
{
    const struct timespec pause = {0, PAUSE_NS};
    const int64_t end_ns = gsp_now_ns() + LOCK_MAX_NS;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return gsp_err_set(err, GSP_E_IO, errno, "cannot lock the control page: %s",
                               strerror(errno));
        }
        if (gsp_now_ns() > end_ns) {
            return gsp_err_set(err, GSP_E_TIMEOUT, 0,
                               "another process has locked the control page");
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* Writes a member of the page to the file. */
static bool put(int fd, size_t off, const void *bytes, size_t len)
{
    /* In the order of the calls, as the agent that maps the page sees it. */
    atomic_thread_fence(memory_order_seq_cst);
    return pwrite(fd, bytes, len, (off_t)off) == (ssize_t)len;
}

static bool put_writing(int fd, uint32_t writing)
{
    return put(fd, offsetof(struct gsp_control, writing), &writing, sizeof(writing));
}

/* Sets a value in the copy, then in the file with the same steps as gsp_wire_control_set(). */
static bool put_change(int fd, struct gsp_control *copy, const struct gsp_control_change *change,
                       uint64_t *serial)
{
    const bool is_torn = (serial_of(copy) & 1) != 0; /* an earlier writer died */
    *serial = gsp_wire_control_set(copy, change->id, change->value);
    const uint64_t odd = *serial - 1;
    const size_t at = offsetof(struct gsp_control, value) + (size_t)change->id * GSP_CONTROL_VALUE;
    return put(fd, offsetof(struct gsp_control, serial), &odd, sizeof(odd)) &&
           (!is_torn ||
            put(fd, offsetof(struct gsp_control, value), copy->value, sizeof(copy->value))) &&
           put_writing(fd, (uint32_t)change->id + 1) &&
           put(fd, at, copy->value[change->id], GSP_CONTROL_VALUE) && put_writing(fd, 0) &&
           put(fd, offsetof(struct gsp_control, serial), serial, sizeof(*serial));
}

/* Reads and writes the file instead of mapping it: its owner may truncate it meanwhile. */
static int change_page(int fd, const struct gsp_control_change *changes, size_t count,
                       uint64_t *serial, struct gsp_err *err)
{
    struct gsp_control copy;
    if (pread(fd, &copy, sizeof(copy), 0) != (ssize_t)sizeof(copy) ||
        !gsp_wire__control_is_valid(&copy, sizeof(copy)))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a control page of this version");
    if (copy.count != GSP_SET_COUNT || strcmp(copy.agent, GSP_VERSION) != 0) {
        return gsp_err_set(err, GSP_E_VERSION, 0, "the agent is version %.31s, this is %s",
                           copy.agent, GSP_VERSION);
    }
    for (size_t i = 0; i < count; i++) {
        if (!put_change(fd, &copy, &changes[i], serial)) {
            return gsp_err_set(err, GSP_E_IO, errno, "cannot write the control page: %s",
                               strerror(errno));
        }
    }
    return 0;
}

int gsp_wire_control_write(int folder_fd, const struct gsp_control_change *changes, size_t count,
                           uint64_t *serial, struct gsp_err *err)
{
    *serial = 0;
    gsp_auto_fd fd = open_page(folder_fd, O_RDWR, err);
    int rc = fd < 0 ? fd : lock(fd, err);
    if (rc == 0) {
        rc = change_page(fd, changes, count, serial, err);
        flock(fd, LOCK_UN);
    }
    return rc;
}
