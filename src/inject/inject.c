/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "inject/linker.h"
#include "inject/remote.h"
#include "inject/state.h"
#include "native/unwind.h"
#include "proc/image.h"
#include "proc/perm.h"
#include "proc/task.h"

#define LIMIT_NS      (10 * GSP_NS_PER_S)
/* A thread that waits for a CPU stops once it gets one, and loses nothing until then. If it
 * takes longer than this, it is in uninterruptible sleep. */
#define STOP_LIMIT_NS (2 * GSP_NS_PER_S)
#define CALL_LIMIT_NS (5 * GSP_NS_PER_S)
#define RETRY_NS      (300 * GSP_NS_PER_US)
/* After this many attempts on running threads, or this much time, code outside the eval loop is
 * accepted; and after this many rounds, a system call may fail with EINTR. */
#define EVAL_TRIES    24U
#define EVAL_NS       (250 * GSP_NS_PER_MS)
#define POLITE_ROUNDS 4U
/* A thread that runs may be in the kernel, in the middle of a transfer, until this time after it
 * was seen to wait there. Before that, it has to be seen in this many rounds. */
#define TRANSFER_NS   (50 * GSP_NS_PER_MS)
#define SEEN_ROUNDS   2U
#define ROOM_MIN      (96U << 10)
#define CANDIDATES    8U
#define LIBRARY_MAX   (64U << 20)
#define ERROR_CHARS   160U
#define EVAL_SYMBOL   "_PyEval_EvalFrameDefault"
#define STACK_BYTES   (256U << 10)
#define FRAMES_MAX    1024U

/* A thread in which the call may be possible. */
struct candidate {
    pid_t tid;
    enum gsp_inject_state state;
    struct gsp_inject_call_at at;
};

/* A request in progress. */
struct job {
    const struct gsp_inject_request *request;
    struct gsp_inject_result *result;
    struct gsp_mem *mem;
    struct gsp_maps *maps;
    struct gsp_inject__linker linker;
    struct gsp_native *native; /* NULL until it is needed, or if it cannot be opened */
    bool native_tried;
    struct gsp_native_ranges eval; /* the eval loop */
    bool eval_tried;
    uint64_t allocator_inode; /* of the last file for which is_allocator is known; 0: none */
    bool is_allocator;
    struct gsp_stop *stop;
    struct gsp_inject__remote *remote;
    unsigned rounds;
    unsigned running_tries;
    /* The last ones that wait where no call is possible: on the stack of a coroutine, or in a
     * signal handler. */
    struct candidate elsewhere[CANDIDATES];
    size_t elsewhere_count;
    /* The last threads that waited in a call which a stop would cut short. */
    struct transfer {
        pid_t tid; /* 0: none */
        int64_t seen_ns;
    } transfers[CANDIDATES];
    size_t transfer_count;
    int64_t start_ns;
    int64_t limit_ns;
};

/* -------------------------------------------------------------------------- choice of thread */

static enum gsp_inject_state read_state(pid_t pid, pid_t tid, struct gsp_inject_call_at *at)
{
    char path[64];
    char text[256];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
    gsp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
    return gsp_inject__state_parse((struct gsp_sv){text, len > 0 ? (size_t)len : 0}, at);
}

static void note_transfer(struct job *job, pid_t tid)
{
    struct transfer *found = NULL;
    for (size_t i = 0; i < GSP_COUNT(job->transfers) && !found; i++)
        if (job->transfers[i].tid == tid)
            found = &job->transfers[i];
    if (!found)
        found = &job->transfers[job->transfer_count++ % GSP_COUNT(job->transfers)];
    *found = (struct transfer){tid, gsp_now_ns()};
}

static bool may_transfer(const struct job *job, pid_t tid)
{
    for (size_t i = 0; i < GSP_COUNT(job->transfers); i++)
        if (job->transfers[i].tid == tid && gsp_now_ns() - job->transfers[i].seen_ns < TRANSFER_NS)
            return true;
    return job->rounds < SEEN_ROUNDS;
}

static bool is_candidate(const struct job *job, const struct candidate *one)
{
    if (one->state == GSP_INJECT_UNSAFE)
        return false;
    if (one->state == GSP_INJECT_RUNS)
        return job->request->force || !may_transfer(job, one->tid);
    const struct gsp_map *map = gsp_proc_maps_find(job->maps, one->at.pc);
    if (map && gsp_inject__map_is_linker(map))
        return false;
    if (one->state == GSP_INJECT_INTERRUPTS && !gsp_inject__call_can_repeat(&one->at) &&
        job->rounds < POLITE_ROUNDS)
        return false;
    if (one->state == GSP_INJECT_SHORTENS && !job->request->force)
        return false;
    for (size_t i = 0; i < GSP_COUNT(job->elsewhere); i++)
        if (job->elsewhere[i].tid == one->tid && job->elsewhere[i].at.sp == one->at.sp)
            return false;
    return true;
}

/* Inserts a candidate into the list, which is sorted by preference. */
static size_t insert(struct candidate *list, size_t count, const struct candidate *one)
{
    size_t at = count;
    while (at > 0 && list[at - 1].state > one->state)
        at--;
    if (at == CANDIDATES)
        return count;
    size_t kept = count < CANDIDATES ? count : CANDIDATES - 1;
    memmove(&list[at + 1], &list[at], (kept - at) * sizeof(*list));
    list[at] = *one;
    return kept + 1;
}

static int find_candidates(struct job *job, struct candidate *list, size_t *count,
                           struct gsp_err *err)
{
    pid_t pid = job->request->pid;
    struct gsp_task *tasks;
    size_t task_count;
    *count = 0;
    int rc = gsp_proc_tasks(pid, &tasks, &task_count, err);
    if (rc != GSP_OK)
        return rc;
    for (size_t i = 0; i < task_count; i++) {
        struct candidate one = {.tid = tasks[i].tid};
        one.state = read_state(pid, one.tid, &one.at);
        if (one.state == GSP_INJECT_SHORTENS)
            note_transfer(job, one.tid);
        if (is_candidate(job, &one) && gsp_inject__check_thread(pid, one.tid, job->request->force))
            *count = insert(list, *count, &one);
    }
    free(tasks);
    return GSP_OK;
}

static struct gsp_native *open_native(struct job *job)
{
    if (!job->native_tried &&
        gsp_native_open(job->request->pid, job->mem, &job->native, NULL) != GSP_OK)
        job->native = NULL;
    job->native_tried = true;
    return job->native;
}

/* Finds the eval loop. Takes milliseconds, so it is done only for running threads. */
static void find_eval(struct job *job)
{
    if (job->eval_tried)
        return;
    job->eval_tried = true;
    if (open_native(job) && !gsp_native_range(job->native, EVAL_SYMBOL, &job->eval))
        job->eval.count = 0;
}

/* Returns whether the file of a mapping exports malloc(), and so may hold its lock. */
static bool is_allocator(struct job *job, const struct gsp_map *map)
{
    struct gsp_image *image;
    if (job->allocator_inode == map->inode)
        return job->is_allocator;
    const struct gsp_map *first = map;
    for (const struct gsp_map *at = map; at && strcmp(at->path, map->path) == 0;
         at = gsp_proc_maps_find(job->maps, at->start - 1))
        first = at;
    job->allocator_inode = map->inode;
    job->is_allocator = true; /* unless it is known to be something else */
    if (gsp_proc_image_open(job->request->pid, job->mem, first, &image, NULL) == GSP_OK) {
        job->is_allocator = gsp_proc_image_dynsym(image, "malloc") != 0;
        gsp_proc_image_close(image);
    }
    return job->is_allocator;
}

static bool is_safe_pc(struct job *job, uint64_t pc)
{
    for (size_t i = 0; i < job->eval.count; i++)
        if (pc >= job->eval.items[i].start && pc < job->eval.items[i].end)
            return true;
    if (job->running_tries <= EVAL_TRIES && gsp_now_ns() - job->start_ns < EVAL_NS)
        return false;
    const struct gsp_map *map = gsp_proc_maps_find(job->maps, pc);
    return map && gsp_inject__map_is_lock_free(map) && !is_allocator(job, map);
}

/* Returns whether the unwinder finds all of the last calls, and none of them is a signal handler.
 */
static bool has_no_handler(struct job *job, const struct gsp_stop_regs *regs)
{
    static unsigned char stack[STACK_BYTES]; /* large; the injector has one thread */
    static struct gsp_native_frame frames[FRAMES_MAX];
    struct gsp_native_copy copy = {
        .regs = {.pc = regs->pc, .sp = regs->sp, .fp = regs->fp, .lr = regs->lr}, .stack = stack};
    enum gsp_native_end end;
    const gsp_raddr sigreturn = job->linker.landing.sigreturn;
    const struct gsp_map *map = gsp_proc_maps_find(job->maps, regs->sp);
    if (!map || !open_native(job))
        return false;
    memcpy(copy.regs.kept, regs->kept, sizeof(copy.regs.kept));
    copy.stack_len = map->end - regs->sp < sizeof(stack) ? map->end - regs->sp : sizeof(stack);
    if (gsp_proc_mem_read(job->mem, regs->sp, stack, copy.stack_len) != GSP_OK)
        return false;
    const size_t count = gsp_native_unwind(job->native, &copy, frames, FRAMES_MAX, &end);
    for (size_t i = 0; i < count; i++)
        if (frames[i].bridged || frames[i].pc == sigreturn || frames[i].pc + 1 == sigreturn)
            return false;
    return end == GSP_NATIVE_REACHED_ENTRY || end == GSP_NATIVE_OUT_OF_STACK;
}

/* Returns whether the thread may be in a signal handler, which may have interrupted the allocator.
 * The address to which a handler returns is on its stack, but a finished handler may have left it
 * there. */
static bool may_handle_signal(struct job *job, const struct gsp_stop_regs *regs)
{
    return gsp_inject__stack_holds(job->maps, job->mem, regs->sp, job->linker.landing.sigreturn) &&
           !has_no_handler(job, regs);
}

/* ---------------------------------------------------------------------------------- the calls */

static bool is_visible(pid_t pid, const char *path)
{
    char theirs[4200];
    struct stat ours_st;
    struct stat theirs_st;
    snprintf(theirs, sizeof(theirs), "/proc/%d/root%s", (int)pid, path);
    return stat(path, &ours_st) == 0 && stat(theirs, &theirs_st) == 0 &&
           ours_st.st_dev == theirs_st.st_dev && ours_st.st_ino == theirs_st.st_ino;
}

static int raw_call(struct job *job, const uint64_t args[GSP_INJECT_CALL_ARGS], int64_t *value,
                    struct gsp_err *err)
{
    struct gsp_inject__value out;
    if (!job->linker.raw_call)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the C library of the process has no syscall()");
    int rc =
        gsp_inject__remote_call(job->remote, job->linker.raw_call, args, CALL_LIMIT_NS, &out, err);
    *value = (int64_t)out.result;
    return rc;
}

/* Copies the library into a memfd of the target; *fd is the descriptor there. */
static int copy_library(struct job *job, int64_t *fd, struct gsp_err *err)
{
    gsp_auto_buf bytes = {0};
    gsp_raddr name;
    char path[64];
    const struct gsp_sv base = gsp_sv_basename(gsp_sv_of(job->request->library));
    int rc = gsp_file_read(job->request->library, LIBRARY_MAX, &bytes, err);
    if (rc == GSP_OK)
        rc = gsp_inject__remote_string(job->remote, base.p, &name, err);
    if (rc == GSP_OK)
        rc = raw_call(job, (uint64_t[]){SYS_memfd_create, name, MFD_CLOEXEC, 0}, fd, err);
    if (rc != GSP_OK)
        return rc;
    if (*fd < 0)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the process cannot create a memfd");
    snprintf(path, sizeof(path), "/proc/%d/fd/%lld", (int)job->request->pid, (long long)*fd);
    gsp_auto_fd file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return gsp_err_set(err, GSP_E_IO, errno, "%s: %s", path, strerror(errno));
    job->result->by_memfd = true;
    return gsp_fd_write_all(file, bytes.p, bytes.len, err);
}

/* Calls a function without arguments that returns an address; 0 if it cannot be called. */
static gsp_raddr call_for_address(struct job *job, gsp_raddr function)
{
    const uint64_t none[GSP_INJECT_CALL_ARGS] = {0};
    struct gsp_inject__value out;
    if (!function || job->remote->failed ||
        gsp_inject__remote_call(job->remote, function, none, CALL_LIMIT_NS, &out, NULL) != GSP_OK)
        return 0;
    return out.is_known ? out.value : 0;
}

/* Reads the error message of the linker of the target. */
static int linker_error(struct job *job, struct gsp_err *err)
{
    char text[ERROR_CHARS] = "";
    gsp_raddr addr = call_for_address(job, job->linker.error);
    if (addr) {
        /* A string may end just before an unmapped page. */
        size_t len = sizeof(text) - 1;
        while (len > 8 && gsp_proc_mem_read(job->mem, addr, text, len) != GSP_OK)
            len /= 2;
        text[len] = '\0';
    }
    return gsp_err_set(err, GSP_E_FORMAT, 0, "the linker of the process rejected the library: %s",
                       text[0] ? text : "no reason given");
}

/* Returns the address of the function after its library was loaded; 0: it is not loaded. */
static gsp_raddr find_loaded(struct job *job)
{
    const struct gsp_inject__query query = {job->request->library, job->request->symbol};
    struct gsp_maps *maps;
    if (gsp_proc_maps_read(job->request->pid, &maps, NULL) != GSP_OK)
        return 0;
    gsp_raddr found = gsp_inject__linker_find_loaded(job->request->pid, job->mem, maps, &query);
    gsp_proc_maps_free(maps);
    return found;
}

static int load(struct job *job, gsp_raddr *function, struct gsp_err *err)
{
    char path[64];
    const char *name = job->request->library;
    int64_t fd = -1;
    gsp_raddr text;
    struct gsp_inject__value ignored;
    int rc = GSP_OK;
    if (!is_visible(job->request->pid, name)) {
        rc = copy_library(job, &fd, err);
        snprintf(path, sizeof(path), "/proc/self/fd/%lld", (long long)fd);
        name = path;
    }
    if (rc == GSP_OK)
        rc = gsp_inject__remote_string(job->remote, name, &text, err);
    if (rc == GSP_OK)
        rc = gsp_inject__remote_call(job->remote, job->linker.open,
                                     (uint64_t[]){text, (unsigned)job->linker.open_flags, 0, 0},
                                     CALL_LIMIT_NS, &ignored, err);
    if (rc == GSP_OK) {
        *function = find_loaded(job);
        if (*function == 0)
            rc = linker_error(job, err);
    }
    if (fd >= 0 && !job->remote->failed)
        gsp_ignore(raw_call(job, (uint64_t[]){SYS_close, (uint64_t)fd, 0, 0}, &(int64_t){0}, NULL));
    return rc;
}

/* Calls the function with the texts and the address of a word for its value. */
static int call_function(struct job *job, struct gsp_err *err)
{
    gsp_raddr function = job->linker.loaded;
    uint64_t args[GSP_INJECT_CALL_ARGS] = {0};
    struct gsp_inject__value ignored;
    int rc = GSP_OK;
    job->result->was_loaded = function != 0;
    if (!function)
        rc = load(job, &function, err);
    for (size_t i = 0; rc == GSP_OK && i < GSP_INJECT_ARGS_MAX; i++)
        rc = gsp_inject__remote_string(job->remote, job->request->args[i], &args[i], err);
    if (rc == GSP_OK)
        rc = gsp_inject__remote_word(job->remote, &args[GSP_INJECT_ARGS_MAX], err);
    if (rc == GSP_OK)
        rc = gsp_inject__remote_call(job->remote, function, args, CALL_LIMIT_NS, &ignored, err);
    if (rc == GSP_OK)
        rc = gsp_proc_mem_read(job->mem, args[GSP_INJECT_ARGS_MAX], &job->result->value,
                               sizeof(job->result->value));
    return rc;
}

/* Makes the calls and preserves errno of the thread, which they change. */
static int make_calls(struct job *job, struct gsp_err *err)
{
    int value;
    const gsp_raddr addr = call_for_address(job, job->linker.errno_at);
    const bool is_read = addr && gsp_proc_mem_read(job->mem, addr, &value, sizeof(value)) == GSP_OK;
    int rc = job->remote->failed
                 ? gsp_err_set(err, GSP_E_FAULT, 0, "a call in the process does not work")
                 : call_function(job, err);
    if (is_read)
        gsp_ignore(gsp_proc_mem_write_pid(job->request->pid, addr, &value, sizeof(value)));
    return rc;
}

/* --------------------------------------------------------------------------------- the moment */

/* Fails with TORN if the thread does not use its own stack, or only a little of it is left, or if
 * it may be in a signal handler. Such a wait is not interrupted again. */
static int check_stack(struct job *job, const struct candidate *one,
                       const struct gsp_stop_regs *regs, struct gsp_err *err)
{
    const uint64_t tp = gsp_inject__registers_thread_pointer(one->tid, &job->remote->kept);
    const bool has_room = gsp_inject__stack_room(job->maps, job->mem, regs->sp, tp) >= ROOM_MIN;
    if (has_room && !may_handle_signal(job, regs))
        return GSP_OK;
    if (one->at.sp)
        job->elsewhere[job->elsewhere_count++ % GSP_COUNT(job->elsewhere)] = *one;
    return gsp_err_set(err, GSP_E_TORN, 0, "thread %d %s", (int)one->tid,
                       has_room ? "is in a signal handler" : "does not use its own stack");
}

/* Makes the calls in a stopped thread if it is at a safe place. Returns TORN if it is not. */
static int call_in_stopped(struct job *job, const struct candidate *one,
                           const struct gsp_stop_regs *regs, struct gsp_err *err)
{
    if (gsp_proc_stop_signal(job->stop) != 0)
        return gsp_err_set(err, GSP_E_TORN, 0, "thread %d has a pending signal", (int)one->tid);
    job->remote->tid = one->tid;
    int rc = gsp_inject__remote_open(job->remote, &one->at, err);
    if (rc == GSP_OK && !gsp_inject__linker_is_idle(&job->linker, job->mem))
        rc = gsp_err_set(err, GSP_E_TORN, 0, "libraries are being loaded");
    if (rc == GSP_OK && one->state == GSP_INJECT_RUNS &&
        !is_safe_pc(job, gsp_inject__registers_pc(&job->remote->kept)))
        rc = gsp_err_set(err, GSP_E_TORN, 0, "thread %d may hold a lock", (int)one->tid);
    if (rc == GSP_OK)
        rc = check_stack(job, one, regs, err);
    if (rc == GSP_OK)
        rc = make_calls(job, err);
    int closed = gsp_inject__remote_close(job->remote, rc == GSP_OK ? err : NULL);
    return rc == GSP_OK ? closed : rc;
}

/* A thread that is traced cannot be stopped now; another thread may be. Otherwise returns rc. */
static int check_tracer(pid_t tid, int rc, struct gsp_err *err)
{
    struct gsp_perm perm;
    gsp_proc_perm_read("", tid, &perm);
    if (perm.tracer <= 0)
        return rc;
    return gsp_err_set(err, GSP_E_TORN, 0, "thread %d is traced by process %d", (int)tid,
                       (int)perm.tracer);
}

/* Blocks our signals until the target is restored. */
static int try_one(struct job *job, const struct candidate *one, struct gsp_err *err)
{
    sigset_t blocked;
    sigset_t before;
    struct gsp_stop_regs regs;
    gsp_thread_async_signals(&blocked);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    job->result->tries++;
    job->running_tries += one->state == GSP_INJECT_RUNS;
    int rc = gsp_proc_stop_hold_task(job->stop, one->tid, STOP_LIMIT_NS, &regs, err);
    if (rc == GSP_OK) {
        rc = call_in_stopped(job, one, &regs, err);
        gsp_proc_stop_release(job->stop);
        job->result->stopped_ns += gsp_now_ns() - gsp_proc_stop_running_ns(job->stop);
        job->result->tid = one->tid;
    } else if (rc == GSP_E_PERM) {
        rc = check_tracer(one->tid, rc, err);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* Returns whether a retry may succeed: the thread continued or exited, or its stack has no page
 * yet at the address to write. */
static bool is_transient(const struct job *job, int rc)
{
    return !job->remote->failed &&
           (rc == GSP_E_TORN || rc == GSP_E_TIMEOUT || rc == GSP_E_NOPROC || rc == GSP_E_FAULT);
}

/* Returns whether the process has exited. A zombie stays until its parent reaps it. */
static bool has_exited(pid_t pid)
{
    struct gsp_procinfo info;
    return gsp_proc_info(pid, &info, NULL) != GSP_OK || info.state == 'Z' || info.state == 'X';
}

static int time_out(const struct job *job, const struct gsp_err *last, struct gsp_err *err)
{
    const unsigned tries = job->result->tries;
    if (tries > 0 || job->transfer_count == 0 || job->request->force)
        return gsp_err_set(err, GSP_E_TIMEOUT, 0,
                           "no thread reached a safe place in %u attempts%s%s", tries,
                           last->msg[0] ? "; last: " : "", last->msg);
    gsp_err_fill(err, GSP_E_TIMEOUT, 0,
                 "thread %d sends or receives data, and a stop would cut that short",
                 (int)job->transfers[0].tid);
    gsp_err_set_reason(err, GSP_REASON_TRANSFER);
    return GSP_E_TIMEOUT;
}

static int try_threads(struct job *job, struct gsp_err *err)
{
    const struct gsp_inject_request *request = job->request;
    const int64_t deadline_ns = gsp_now_ns() + job->limit_ns;
    struct candidate list[CANDIDATES];
    struct gsp_err last = {0};
    for (; gsp_now_ns() < deadline_ns; job->rounds++) {
        size_t count;
        /* A thread that did not stop in time may stop later, and must be released then. */
        gsp_proc_stop_sweep(job->stop);
        int rc = find_candidates(job, list, &count, err);
        if (rc != GSP_OK)
            return rc;
        if (count == 0 && has_exited(request->pid))
            return gsp_err_set(err, GSP_E_NOPROC, 0, "process %d has exited", (int)request->pid);
        for (size_t i = 0; i < count; i++) {
            if (list[i].state == GSP_INJECT_RUNS)
                find_eval(job);
            rc = try_one(job, &list[i], &last);
            if (rc != GSP_OK && !is_transient(job, rc) && err)
                *err = last;
            if (rc == GSP_OK || !is_transient(job, rc))
                return rc;
        }
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
        if (job->rounds % CANDIDATES == CANDIDATES - 1) {
            struct gsp_maps *maps;
            if (gsp_proc_maps_read(request->pid, &maps, NULL) == GSP_OK) {
                gsp_proc_maps_free(job->maps);
                job->maps = maps;
            }
        }
    }
    return time_out(job, &last, err);
}

static int prepare_job(struct job *job, struct gsp_err *err)
{
    const struct gsp_inject_request *request = job->request;
    const struct gsp_inject__query query = {request->library, request->symbol};
    if (access(request->library, R_OK) != 0)
        return gsp_err_set(err, GSP_E_NOFILE, errno, "%s: %s", request->library, strerror(errno));
    job->remote = calloc(1, sizeof(*job->remote));
    if (!job->remote)
        return gsp_err_nomem(err);
    int rc = gsp_inject__check(request->pid, request->force, err);
    if (rc == GSP_OK)
        rc = gsp_proc_mem_open_pid(request->pid, &job->mem, err);
    if (rc == GSP_OK)
        rc = gsp_proc_maps_read(request->pid, &job->maps, err);
    if (rc == GSP_OK)
        rc = gsp_inject__linker_find(request->pid, job->mem, job->maps, &query, &job->linker, err);
    if (rc == GSP_OK)
        rc = gsp_proc_stop_new(request->pid, &job->stop, err);
    if (rc == GSP_OK) {
        job->remote->stop = job->stop;
        job->remote->mem = job->mem;
        job->remote->landing = job->linker.landing;
        job->remote->pid = request->pid;
    }
    return rc;
}

int gsp_inject__call(const struct gsp_inject_request *request, struct gsp_inject_result *out,
                     struct gsp_err *err)
{
    *out = (struct gsp_inject_result){0};
    struct job job = {.request = request,
                      .result = out,
                      .start_ns = gsp_now_ns(),
                      .limit_ns = request->limit_ns ? request->limit_ns : LIMIT_NS};
    int rc = prepare_job(&job, err);
    if (rc == GSP_OK) {
        gsp_proc_stop_request_short_slices();
        rc = try_threads(&job, err);
    }
    gsp_proc_stop_free(job.stop);
    gsp_native_close(job.native);
    gsp_proc_maps_free(job.maps);
    gsp_proc_mem_free(job.mem);
    free(job.remote);
    return rc;
}
