/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_memory.c -- writes what gsprof reads of a Python process as an input of the fuzz targets
 * py_target, py_async, py_greenlet and py_locate (fuzz_memory.h).
 *
 *   record_memory PID {target|async|greenlet|locate} FILE
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "fuzz_memory.h"
#include "py/async.h"
#include "py/greenlet.h"

/* Gaps up to this size are recorded too, so that there are fewer regions. */
#define GAP_MAX   64U
/* Longer reads search a file's data for a text: gsprof also works without. */
#define RANGE_MAX (16U << 10)
/* The heads of the collector's lists are this close to its state. */
#define HEADS_MAX 512U
#define NODES_MAX (1U << 20)
#define LINK_MASK (~3ULL)

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags);

struct range {
    uint64_t from;
    uint64_t to;
};

static struct range *ranges;
static size_t range_count;
static size_t range_cap;
static bool is_recording;

/* Words that replace those of the process. */
struct patch {
    uint64_t addr;
    uint64_t word;
};

static struct patch patches[1024];
static size_t patch_count;

static void apply(const struct patch *patch, uint64_t from, char *bytes, size_t len)
{
    if (patch->addr >= from && patch->addr - from + 8 <= len)
        memcpy(bytes + (patch->addr - from), &patch->word, sizeof(patch->word));
}

/* Replaces the function of the C library. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    for (unsigned long i = 0; is_recording && i < remote_count; i++) {
        if (!gsp_array_fit(&ranges, &range_cap, range_count + 1))
            abort();
        const uint64_t from = (uint64_t)(uintptr_t)remote[i].iov_base;
        if (remote[i].iov_len <= RANGE_MAX)
            ranges[range_count++] = (struct range){from, from + remote[i].iov_len};
    }
    ssize_t n = syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
    /* The reader uses one local span for each remote one. */
    for (unsigned long i = 0; i < remote_count && local_count == remote_count; i++)
        for (size_t k = 0; k < patch_count; k++)
            apply(&patches[k], (uint64_t)(uintptr_t)remote[i].iov_base, local[i].iov_base,
                  local[i].iov_len);
    return n;
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a;
    const struct range *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static void put_region(struct gsp_buf *out, pid_t pid, struct range range)
{
    const uint32_t len = (uint32_t)(range.to - range.from);
    char *copy = calloc(1, len ? len : 1);
    const struct iovec here = {copy, len};
    const struct iovec there = {(void *)(uintptr_t)range.from, len};
    if (copy && syscall(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0) == (long)len) {
        for (size_t k = 0; k < patch_count; k++)
            apply(&patches[k], range.from, copy, len);
        gsp_buf_put(out, &range.from, sizeof(range.from));
        gsp_buf_put(out, &len, sizeof(len));
        gsp_buf_put(out, copy, len);
    }
    free(copy);
}

static void put_regions(struct gsp_buf *out, pid_t pid)
{
    if (range_count == 0)
        return;
    qsort(ranges, range_count, sizeof(*ranges), by_start);
    struct range current = ranges[0];
    for (size_t i = 1; i < range_count; i++) {
        if (ranges[i].from <= current.to + GAP_MAX) {
            current.to = ranges[i].to > current.to ? ranges[i].to : current.to;
            continue;
        }
        put_region(out, pid, current);
        current = ranges[i];
    }
    put_region(out, pid, current);
}

static void on_task(void *arg, const struct gsp_py_task *task)
{
    (void)task;
    ++*(size_t *)arg;
}

static gsp_raddr greenlets[64];
static size_t greenlet_count;

static void on_greenlet(void *arg, const struct gsp_py_greenlet *greenlet)
{
    if (greenlet_count < GSP_COUNT(greenlets))
        greenlets[greenlet_count++] = greenlet->addr;
    ++*(size_t *)arg;
}

static bool is_greenlet_node(gsp_raddr node)
{
    for (size_t i = 0; i < greenlet_count; i++)
        if (greenlets[i] - 16 == node)
            return true;
    return false;
}

static void set_word(struct gsp_mem *mem, gsp_raddr addr, uint64_t word)
{
    uint64_t old = 0;
    gsp_ignore(gsp_proc_mem_read_u64(mem, addr, &old));
    if (patch_count < GSP_COUNT(patches))
        patches[patch_count++] = (struct patch){addr, word | (old & ~LINK_MASK)};
}

/* Shortens the collector's list that contains a greenlet to its head and its greenlets. */
static void shorten_list(struct gsp_py_target *target, gsp_raddr first)
{
    const struct gsp_py_layout *lay = &gsp_py_target_runtime(target)->layout;
    struct gsp_mem *mem = gsp_py_target_mem(target);
    const gsp_raddr state =
        GSP_PY_MINOR(lay->version) == 8
            ? gsp_py_target_runtime(target)->addr + lay->runtime_main_thread + 272
            : gsp_py_target_interp(target, 0) + lay->interp_gc;
    gsp_raddr kept[GSP_COUNT(greenlets) + 1];
    size_t count = 0;
    gsp_raddr node = first;
    for (size_t i = 0; i < NODES_MAX && (i == 0 || node != first); i++) {
        const bool is_head = node >= state && node - state < HEADS_MAX;
        if (count < GSP_COUNT(kept) && (is_head || is_greenlet_node(node)))
            kept[count++] = node;
        if (gsp_proc_mem_read_u64(mem, node, &node) != GSP_OK)
            return;
        node &= LINK_MASK;
    }
    for (size_t i = 0; i < count; i++) {
        set_word(mem, kept[i], kept[(i + 1) % count]);
        set_word(mem, kept[(i + 1) % count] + 8, kept[i]);
    }
}

static size_t read_what(struct gsp_py_target *target, const char *what)
{
    size_t count = 0;
    if (strcmp(what, "async") == 0)
        gsp_ignore(gsp_py_tasks(target, on_task, NULL, &count));
    else if (strcmp(what, "greenlet") == 0)
        gsp_ignore(gsp_py_greenlets(target, on_greenlet, NULL, &count));
    else
        for (int i = 0; i < 3; i++)
            gsp_ignore(gsp_py_target_sample(target, GSP_PY_SAMPLE_IDLE, gsp_now_ns()));
    return count;
}

static void put_maps(struct gsp_buf *out, pid_t pid)
{
    char path[64];
    gsp_auto_buf text = {0};
    gsp_auto_buf short_text = {0};
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    gsp_ignore(gsp_file_read(path, 1U << 20, &text, NULL));
    struct gsp_sv rest = gsp_buf_sv(&text);
    struct gsp_sv line;
    /* Only the lines that matter: those of Python's own files. */
    while (gsp_sv_split(&rest, '\n', &line))
        if (line.len &&
            (memmem(line.p, line.len, "python", 6) || memmem(line.p, line.len, "_asyncio", 8)))
            gsp_buf_printf(&short_text, "%.*s\n", (int)line.len, line.p);
    const uint64_t zero = 0;
    const uint32_t len = (uint32_t)short_text.len;
    gsp_buf_put(out, &zero, sizeof(zero));
    gsp_buf_put(out, &len, sizeof(len));
    gsp_buf_putsv(out, gsp_buf_sv(&short_text));
}

int main(int argc, char **argv)
{
    struct gsp_py_target *known = NULL;
    struct gsp_py_target *target = NULL;
    struct gsp_err err = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: record_memory PID {target|async|greenlet|locate} FILE\n");
        return 64;
    }
    const pid_t pid = (pid_t)strtol(argv[1], NULL, 10);
    const bool locate = strcmp(argv[2], "locate") == 0;
    is_recording = locate;
    int rc = gsp_py_target_open(pid, &known, &err);
    is_recording = !locate;
    if (rc == GSP_OK)
        rc = gsp_py_target_open_child(pid, known, &target, &err);
    if (rc != GSP_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const struct gsp_py_runtime *run = gsp_py_target_runtime(target);
    size_t count = locate ? 0 : read_what(target, argv[2]);
    if (greenlet_count) {
        is_recording = false;
        const size_t found = greenlet_count;
        for (size_t i = 0; i < found; i++)
            shorten_list(target, greenlets[i] - 16);
        /* Once more, with short lists. */
        range_count = 0;
        is_recording = true;
        gsp_py_target_close(target);
        if (gsp_py_target_open_child(pid, known, &target, &err) != GSP_OK)
            return 1;
        run = gsp_py_target_runtime(target);
        count = read_what(target, argv[2]);
    }
    struct memory_head head = {.minor = (uint8_t)GSP_PY_MINOR(run->layout.version),
                               .runtime = run->addr,
                               .code_type = run->code_type,
                               .asyncio_debug = run->asyncio_debug};
    memcpy(head.magic, MEMORY_MAGIC, sizeof(head.magic));
    head.flags = run->layout.free_threaded ? MEMORY_FREE_THREADED : 0;
    unsigned char offsets[GSP_PY_DEBUG_OFFSETS_MAX];
    if (head.minor >= 13)
        gsp_ignore(
            gsp_proc_mem_read(gsp_py_target_mem(target), run->addr, offsets, sizeof(offsets)));
    is_recording = false;
    gsp_auto_buf out = {0};
    gsp_buf_put(&out, &head, sizeof(head));
    if (locate)
        put_maps(&out, pid);
    put_regions(&out, pid);
    printf("%s: %zu bytes, %zu found\n", argv[3], out.len, count);
    gsp_auto_fd fd = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd < 0 || gsp_fd_write_all(fd, out.p, out.len, &err) != GSP_OK;
}
