/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/perf.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/time.h"

/* The shortest period that the kernel allows for clock events (kernel/events/core.c). */
#define PERIOD_NS       10000U
#define RING_BYTES_MIN  32768U
/* The length of a record has 16 bits, and the registers need part of it. */
#define STACK_BYTES_MAX 65000U
/* How long to spin for a record: a thread on a CPU yields one within this time. */
#define SPIN_NS         (60 * GSP_NS_PER_US)

/* In ascending order, which is their order in the record. */
#if defined(__x86_64__)
static const unsigned REGS[] = {PERF_REG_X86_BX,  PERF_REG_X86_BP,  PERF_REG_X86_SP,
                                PERF_REG_X86_IP,  PERF_REG_X86_R12, PERF_REG_X86_R13,
                                PERF_REG_X86_R14, PERF_REG_X86_R15};
#elif defined(__aarch64__)
static const unsigned REGS[] = {PERF_REG_ARM64_X29, PERF_REG_ARM64_LR, PERF_REG_ARM64_SP,
                                PERF_REG_ARM64_PC};
#else
#error "unsupported machine"
#endif

struct gsp_perf {
    int fd;
    size_t ring_len; /* without the header page */
    size_t map_len;
    struct perf_event_mmap_page *page;
    unsigned char *record; /* a contiguous copy of the newest record */
};

static int open_event(pid_t tid, size_t stack_bytes, bool exclude_kernel)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = PERIOD_NS,
        .sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .sample_stack_user = (uint32_t)stack_bytes,
        .wakeup_events = 1,
        .disabled = 1,
        .exclude_hv = 1,
        .exclude_kernel = exclude_kernel,
    };
    for (size_t i = 0; i < GSP_COUNT(REGS); i++)
        attr.sample_regs_user |= 1ULL << REGS[i];
    return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int code_of(int sys)
{
    switch (sys) {
    case EACCES:
    case EPERM:
        return GSP_E_PERM;
    case ESRCH:
        return GSP_E_NOPROC;
    case EMFILE:
    case ENFILE:
        return GSP_E_LIMIT;
    case ENOMEM:
        return GSP_E_NOMEM;
    default:
        return GSP_E_NOTSUP;
    }
}

static int map_ring(struct gsp_perf *perf, size_t stack_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    perf->ring_len = RING_BYTES_MIN > page ? RING_BYTES_MIN : page;
    while (perf->ring_len < stack_bytes + stack_bytes / 2)
        perf->ring_len *= 2;
    perf->map_len = page + perf->ring_len;
    void *at = mmap(NULL, perf->map_len, PROT_READ | PROT_WRITE, MAP_SHARED, perf->fd, 0);
    if (at == MAP_FAILED)
        return errno == ENOMEM ? GSP_E_NOMEM : GSP_E_LIMIT; /* EPERM: locked-memory limit */
    perf->page = at;
    perf->record = malloc(UINT16_MAX + 1U);
    return perf->record ? GSP_OK : GSP_E_NOMEM;
}

int gsp_proc_perf_open(pid_t tid, size_t stack_bytes, struct gsp_perf **out, struct gsp_err *err)
{
    *out = NULL;
    if (stack_bytes > STACK_BYTES_MAX)
        stack_bytes = STACK_BYTES_MAX;
    struct gsp_perf *perf = calloc(1, sizeof(*perf));
    if (!perf)
        return gsp_err_nomem(err);
    perf->fd = open_event(tid, stack_bytes, false);
    /* Without the permission to sample kernel code, sample user code only. */
    if (perf->fd < 0 && (errno == EACCES || errno == EPERM))
        perf->fd = open_event(tid, stack_bytes, true);
    int sys = errno;
    int rc = perf->fd < 0 ? code_of(sys) : map_ring(perf, stack_bytes);
    if (rc == GSP_OK) {
        *out = perf;
        return GSP_OK;
    }
    gsp_proc_perf_close(perf);
    return gsp_err_set(err, rc, sys, "no perf event for thread %d: %s", (int)tid, strerror(sys));
}

void gsp_proc_perf_close(struct gsp_perf *perf)
{
    if (!perf)
        return;
    if (perf->page)
        munmap(perf->page, perf->map_len);
    gsp_fd_close(&perf->fd);
    free(perf->record);
    free(perf);
}

static bool get_u64(const unsigned char **at, const unsigned char *end, uint64_t *out)
{
    if ((size_t)(end - *at) < sizeof(*out))
        return false;
    memcpy(out, *at, sizeof(*out));
    *at += sizeof(*out);
    return true;
}

static void set_regs(const uint64_t *values, struct gsp_stop_regs *regs)
{
#if defined(__x86_64__)
    *regs = (struct gsp_stop_regs){.pc = values[3],
                                   .sp = values[2],
                                   .fp = values[1],
                                   .kept = {values[0], values[4], values[5], values[6], values[7]}};
#else
    *regs =
        (struct gsp_stop_regs){.pc = values[3], .sp = values[2], .fp = values[0], .lr = values[1]};
#endif
}

/* A record: header, ABI, registers, size of the stack area, the area, bytes used of it. */
bool gsp_proc__perf_parse(const void *record, size_t len, struct gsp_perf_sample *out)
{
    struct perf_event_header header;
    if (len < sizeof(header))
        return false;
    memcpy(&header, record, sizeof(header));
    if (header.type != PERF_RECORD_SAMPLE || header.size > len || header.size < sizeof(header))
        return false;
    const unsigned char *at = (const unsigned char *)record + sizeof(header);
    const unsigned char *end = (const unsigned char *)record + header.size;
    uint64_t values[GSP_COUNT(REGS)] = {0};
    uint64_t abi;
    uint64_t area;
    uint64_t used;
    if (!get_u64(&at, end, &abi) || abi != PERF_SAMPLE_REGS_ABI_64)
        return false;
    for (size_t i = 0; i < GSP_COUNT(values); i++)
        if (!get_u64(&at, end, &values[i]))
            return false;
    if (!get_u64(&at, end, &area) || area == 0 || area > (size_t)(end - at))
        return false;
    *out = (struct gsp_perf_sample){.stack = at};
    at += area;
    if (!get_u64(&at, end, &used) || used > area)
        return false;
    out->stack_len = (size_t)used;
    set_regs(values, &out->regs);
    return true;
}

/* Copies the record at tail out of the buffer. Returns its length, or 0 if it is malformed. */
static size_t copy_record(const struct gsp_perf *perf, uint64_t tail, uint64_t head)
{
    size_t page = perf->map_len - perf->ring_len;
    const unsigned char *ring = (const unsigned char *)perf->page + page;
    struct perf_event_header header;
    size_t from = (size_t)(tail & (perf->ring_len - 1));
    /* Record lengths are multiples of eight bytes, so a header never wraps around. */
    memcpy(&header, ring + from, sizeof(header));
    size_t len = header.size;
    if (len < sizeof(header) || len > head - tail)
        return 0;
    size_t first = perf->ring_len - from < len ? perf->ring_len - from : len;
    memcpy(perf->record, ring + from, first);
    memcpy(perf->record + first, ring, len - first);
    return len;
}

/* Empties the buffer. Returns true if it contained a sample; *out is the last one. */
static bool drain(struct gsp_perf *perf, struct gsp_perf_sample *out)
{
    bool found = false;
    /* Partner: the kernel's release of data_head in perf_output_put_handle(). */
    uint64_t head = __atomic_load_n(&perf->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = perf->page->data_tail;
    while (tail < head) {
        size_t len = copy_record(perf, tail, head);
        if (len == 0) {
            tail = head;
            break;
        }
        found = gsp_proc__perf_parse(perf->record, len, out) || found;
        tail += len;
    }
    /* Partner: the kernel's read of data_tail in __perf_output_begin(). */
    __atomic_store_n(&perf->page->data_tail, tail, __ATOMIC_RELEASE);
    return found;
}

bool gsp_proc_perf_capture(struct gsp_perf *perf, int64_t limit_ns, struct gsp_perf_sample *out)
{
    drain(perf, out); /* a late sample of the previous call */
    if (ioctl(perf->fd, PERF_EVENT_IOC_REFRESH, 1) != 0)
        return false;
    int64_t start_ns = gsp_now_ns();
    int64_t now_ns = start_ns;
    while (!drain(perf, out)) {
        if (now_ns - start_ns >= limit_ns) {
            ioctl(perf->fd, PERF_EVENT_IOC_DISABLE, 0);
            return drain(perf, out);
        }
        /* The thread may be waiting for the CPU that this thread uses, so sleep. The kernel
         * disables an event shortly after its record becomes visible, which may have undone the
         * refresh, so enable it again. */
        if (now_ns - start_ns >= SPIN_NS) {
            poll(&(struct pollfd){.fd = perf->fd, .events = POLLIN}, 1, 1);
            ioctl(perf->fd, PERF_EVENT_IOC_ENABLE, 0);
        }
        now_ns = gsp_now_ns();
    }
    return true;
}

int gsp_proc_perf_selftest(struct gsp_err *err)
{
    struct gsp_perf *perf;
    int rc = gsp_proc_perf_open((pid_t)syscall(SYS_gettid), 1024, &perf, err);
    if (rc != GSP_OK)
        return rc;
    struct gsp_perf_sample moment;
    bool captured = gsp_proc_perf_capture(perf, SPIN_NS * 100, &moment);
    gsp_proc_perf_close(perf);
    if (!captured)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the kernel delivers no clock events");
    return GSP_OK;
}
