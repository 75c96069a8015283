/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/time.h"
#include "proc/stop.h"
#include "proc/task.h"
#include "proc/title.h"
#include "py/async.h"
#include "py/greenlet.h"
#include "py/object.h"
#include "py/target.h"
#include "sample/arena.h"
#include "sample/core_native.h"
#include "sample/mixed.h"

#define LOCALS_MAX    256U
#define VALUE_BYTES   128U
#define HOLD_LIMIT_NS (500 * GSP_NS_PER_MS)
/* A dump keeps no more of what the target holds. */
#define ARENA_MAX     (48U << 20)
#define LACKING_MAX   64U
#define WALKS_MAX     32U
/* A thread that lost its CPU during a call looks torn until it runs again. The limit is for all
 * threads together. */
#define WALK_WAIT_NS  (500 * GSP_NS_PER_MS)
#define WALK_PAUSE_NS (GSP_NS_PER_MS)
/* For the local variables of all frames together, and for all tasks and greenlets. */
#define VALUES_MAX_NS (10 * GSP_NS_PER_S)
#define TASKS_MAX_NS  (10 * GSP_NS_PER_S)

struct dump {
    struct gsp_dump pub;    /* must be first: the public part */
    struct gsp_arena arena; /* everything that the public part points to */
};

struct builder {
    struct dump *dump;
    struct gsp_py_target *target;
    const struct gsp_dump_opts *opts;
    struct gsp_dump_thread *threads; /* of the dump; writable */
    struct gsp_dump_task *tasks;
    size_t task_cap;
    struct gsp_mixed *mixed; /* NULL: Python frames only */
    struct gsp_core *core;   /* NULL: a live process */
    struct gsp_mem *core_mem;
    struct gsp_buf stack; /* of one thread of the core */
    const char *lacking[LACKING_MAX];
    unsigned flags;
    int64_t walks_end_ns;  /* deadline for torn threads; 0: none was torn yet */
    int64_t locals_end_ns; /* deadline for local variables; 0: none was read yet */
    int64_t tasks_end_ns;  /* deadline for tasks and greenlets */
    bool failed;           /* an allocation failed */
};

static void *arena_alloc(struct builder *build, size_t len)
{
    void *p = gsp_sample__arena_alloc(&build->dump->arena, len);
    build->failed = build->failed || !p;
    return p;
}

/* Whether the dump has reached its limit: the rest is left out. */
static bool is_full(struct builder *build)
{
    if (build->dump->arena.bytes >= ARENA_MAX)
        build->dump->pub.is_cut = true;
    return build->dump->pub.is_cut;
}

/* Whether no more local variables are read. */
static bool has_enough_locals(struct builder *build)
{
    const int64_t now_ns = gsp_now_ns();
    if (!build->locals_end_ns)
        build->locals_end_ns = now_ns + VALUES_MAX_NS;
    if (now_ns >= build->locals_end_ns)
        build->dump->pub.lacks_locals = true;
    return build->dump->pub.lacks_locals || is_full(build);
}

static struct gsp_sv arena_text(struct builder *build, struct gsp_sv text)
{
    char *copy = is_full(build) ? NULL : arena_alloc(build, text.len + 1);
    if (!copy)
        return (struct gsp_sv){"", 0};
    if (text.len)
        memcpy(copy, text.p, text.len);
    return (struct gsp_sv){copy, text.len};
}

void gsp_sample_dump_free(struct gsp_dump *dump)
{
    if (!dump)
        return;
    struct dump *self = (struct dump *)dump;
    gsp_sample__arena_free(&self->arena);
    free(self);
}

struct local_list {
    struct builder *build;
    struct gsp_dump_local items[LOCALS_MAX];
    size_t count;
};

static void add_local(void *user, const struct gsp_py_local *local)
{
    struct local_list *col = user;
    if (col->count == LOCALS_MAX || has_enough_locals(col->build))
        return;
    struct builder *build = col->build;
    const struct gsp_py_layout *layout = &gsp_py_target_runtime(build->target)->layout;
    size_t max = build->opts->value_bytes_max ? build->opts->value_bytes_max : VALUE_BYTES;
    struct gsp_py_repr_limits limits = {.bytes_max = max};
    gsp_auto_buf value = {0};
    if (gsp_py_repr(gsp_py_target_mem(build->target), layout, local->value, &limits, &value) !=
        GSP_OK) {
        gsp_buf_clear(&value);
        gsp_buf_printf(&value, "<unreadable at 0x%llx>", (unsigned long long)local->value);
    }
    col->items[col->count++] =
        (struct gsp_dump_local){.name = arena_text(build, local->name),
                                .value = arena_text(build, gsp_buf_sv(&value)),
                                .is_arg = local->is_arg};
}

static void add_locals(struct builder *build, gsp_raddr frame_addr, gsp_raddr code_addr,
                       struct gsp_dump_frame *frame)
{
    if (has_enough_locals(build))
        return;
    struct local_list *col = malloc(sizeof(*col));
    if (!col) {
        build->failed = true;
        return;
    }
    col->build = build;
    col->count = 0;
    /* Only readable values are shown; a frame that has just ended has none. */
    gsp_ignore(gsp_py_locals(gsp_py_target_mem(build->target),
                             &gsp_py_target_runtime(build->target)->layout, frame_addr, code_addr,
                             add_local, col));
    struct gsp_dump_local *locals = arena_alloc(build, (col->count + 1) * sizeof(*locals));
    if (locals) {
        memcpy(locals, col->items, col->count * sizeof(*locals));
        frame->locals = locals;
        frame->local_count = col->count;
    }
    free(col);
}

/* Fills the i-th Python frame of a thread. walked: the target's chain belongs to this thread. */
static void fill_frame(struct builder *build, const struct gsp_py_thread *thread, size_t i,
                       bool walked, struct gsp_dump_frame *frame)
{
    struct gsp_py_codes *codes = gsp_py_target_codes(build->target);
    const struct gsp_py_loc *loc = gsp_py_codes_loc_at(codes, thread->locs[i]);
    const struct gsp_py_code *code = gsp_py_codes_at(codes, loc->code);
    frame->name = arena_text(build, (struct gsp_sv){code->name, code->name_len});
    frame->file = arena_text(build, (struct gsp_sv){code->file, code->file_len});
    frame->line = loc->line;
    frame->is_entry = walked ? gsp_py_target_frame_entry(build->target, i) : -1;
    frame->in_generator = walked && gsp_py_target_frame_in_generator(build->target, i);
    if (build->opts->locals && walked)
        add_locals(build, gsp_py_target_frame_addr(build->target, i), code->addr, frame);
}

static void fill_frames(struct builder *build, const struct gsp_py_thread *thread, bool walked,
                        struct gsp_dump_thread *out)
{
    struct gsp_dump_frame *frames = arena_alloc(build, (thread->depth + 1) * sizeof(*frames));
    for (size_t i = 0; frames && i < thread->depth; i++)
        fill_frame(build, thread, i, walked, &frames[i]);
    out->frames = frames;
    out->frame_count = frames ? thread->depth : 0;
}

static struct gsp_dump_frame native_frame(struct builder *build, const char *name, const char *file,
                                          unsigned line)
{
    return (struct gsp_dump_frame){.name = arena_text(build, gsp_sv_of(name)),
                                   .file = arena_text(build, gsp_sv_of(file)),
                                   .line = line,
                                   .is_entry = -1,
                                   .is_native = true};
}

/* Adds a file whose frames cannot be named, once. */
static void add_lacking(struct builder *build, const char *path)
{
    size_t count = build->dump->pub.lacking_count;
    if (!path || count == LACKING_MAX)
        return;
    for (size_t i = 0; i < count; i++)
        if (strcmp(build->lacking[i], path) == 0)
            return;
    build->lacking[count] = arena_text(build, gsp_sv_of(path)).p;
    build->dump->pub.lacking_count++;
}

/* Fills the frames of one address, inlined calls first. Returns how many. */
static size_t fill_native(struct builder *build, const struct gsp_mixed_frame *from,
                          struct gsp_dump_frame *frames)
{
    struct gsp_native_symbol symbol;
    uint64_t pc = from->pc;
    size_t count = 0;
    char address[32];
    if (!gsp_sample__mixed_symbol(build->mixed, pc, &symbol))
        symbol = (struct gsp_native_symbol){.module = ""};
    snprintf(address, sizeof(address), "0x%llx", (unsigned long long)pc);
    if (build->core && !symbol.name)
        add_lacking(build, gsp_proc_core_missing_file_at(build->core, pc));
    for (size_t i = 0; i < symbol.inlined_count; i++) {
        const struct gsp_native_inline *in = &symbol.inlined[i];
        frames[count++] =
            native_frame(build, in->name, in->file ? in->file : symbol.module, in->line);
    }
    frames[count++] = native_frame(build, symbol.name ? symbol.name : address,
                                   symbol.file ? symbol.file : symbol.module, symbol.line);
    frames[count - 1].bridged = from->bridged;
    return count;
}

/* Retries while the thread waits for a CPU, or while its frames change too fast. */
static int capture_live(struct builder *build, const struct gsp_capture_thread *subject,
                        struct gsp_mixed_stack *out)
{
    const struct timespec pause = {.tv_nsec = WALK_PAUSE_NS};
    const int64_t end_ns = gsp_now_ns() + WALK_WAIT_NS;
    int rc = gsp_sample__mixed_capture(build->mixed, subject, out, NULL);
    while ((rc == GSP_E_TIMEOUT || rc == GSP_E_TORN) && gsp_now_ns() < end_ns) {
        nanosleep(&pause, NULL);
        rc = gsp_sample__mixed_capture(build->mixed, subject, out, NULL);
    }
    return rc;
}

static int capture_stack(struct builder *build, const struct gsp_capture_thread *subject,
                         struct gsp_mixed_stack *out)
{
    if (!build->core)
        return capture_live(build, subject, out);
    struct gsp_native_copy copy;
    int rc = gsp_sample__core_copy_thread(build->core, build->core_mem, subject->tid, &build->stack,
                                          &copy);
    return rc == GSP_OK ? gsp_sample__mixed_unwind_copy(build->mixed, subject, &copy, out, NULL)
                        : rc;
}

/* Fills the native and Python frames of one moment; only native frames without a Python thread.
 * Returns false if they are not available. */
static bool fill_mixed(struct builder *build, pid_t tid, struct gsp_py_thread *thread,
                       struct gsp_dump_thread *out)
{
    struct gsp_capture_thread subject = {
        .tid = tid, .target = thread && thread->tstate ? build->target : NULL, .thread = thread};
    struct gsp_mixed_stack stack;
    if (!build->mixed || !tid || capture_stack(build, &subject, &stack) != GSP_OK)
        return false;
    size_t cap = stack.count * (GSP_NATIVE_INLINED_MAX + 1) + 1;
    struct gsp_dump_frame *frames = calloc(cap, sizeof(*frames));
    size_t count = 0;
    for (size_t i = 0; frames && i < stack.count; i++) {
        const struct gsp_mixed_frame *frame = &stack.frames[i];
        if (frame->is_python && thread)
            fill_frame(build, thread, frame->python, true, &frames[count++]);
        else
            count += fill_native(build, frame, &frames[count]);
    }
    struct gsp_dump_frame *kept = frames ? arena_alloc(build, (count + 1) * sizeof(*kept)) : NULL;
    if (kept)
        memcpy(kept, frames, count * sizeof(*kept));
    free(frames);
    out->frames = kept;
    out->frame_count = kept ? count : 0;
    return kept != NULL;
}

static void set_name(void *user, uint64_t python_id, struct gsp_sv name)
{
    struct builder *build = user;
    for (size_t i = 0; i < build->dump->pub.thread_count; i++)
        if (build->threads[i].python_id == python_id && name.len)
            build->threads[i].name = arena_text(build, name);
}

/* Waits a moment for a thread to run on. Returns false if it cannot, or if the time is up. */
static bool wait_for_progress(struct builder *build)
{
    const struct timespec pause = {.tv_nsec = WALK_PAUSE_NS};
    const int64_t now_ns = gsp_now_ns();
    if (build->core || (build->flags & GSP_PY_SAMPLE_STOPPED))
        return false;
    if (build->walks_end_ns == 0)
        build->walks_end_ns = now_ns + WALK_WAIT_NS;
    if (now_ns >= build->walks_end_ns)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

/* Walks the current frames of the thread. It runs meanwhile, and about one walk in a hundred is
 * torn. */
static bool walk_again(struct builder *build, struct gsp_py_thread *thread)
{
    int rc = GSP_E_TORN;
    do {
        for (unsigned i = 0; i < WALKS_MAX && rc == GSP_E_TORN; i++)
            rc = gsp_py_target_walk(build->target, thread, build->flags, gsp_now_ns());
    } while (rc == GSP_E_TORN && wait_for_progress(build));
    return rc == GSP_OK;
}

static void fill_thread(struct builder *build, struct gsp_py_thread *thread,
                        struct gsp_dump_thread *out)
{
    /* Details of frames, such as locals, need a second walk. If it fails, the stack of the first
     * one stays valid. */
    int before = thread->status;
    struct gsp_dump_thread mixed = {0};
    if (is_full(build)) {
        *out = (struct gsp_dump_thread){.os_id = (uint64_t)thread->tid, .torn = true};
        return;
    }
    bool has_mixed = fill_mixed(build, thread->tid, thread, &mixed);
    bool walked = has_mixed || walk_again(build, thread);
    if (!walked && before == GSP_OK)
        thread->status = GSP_OK;
    bool is_core = build->dump->pub.is_core;
    /* A truncated core: show at least the callers of the interpreter. */
    if (is_core && !walked)
        has_mixed = fill_mixed(build, thread->tid, NULL, &mixed);
    gsp_auto_buf comm = {0};
    if (thread->tid && !is_core)
        gsp_proc_task_comm(build->dump->pub.pid, thread->tid, &comm);
    if (is_core && thread->is_main)
        gsp_buf_puts(&comm, gsp_proc_core_info(build->core)->name);
    *out = (struct gsp_dump_thread){.os_id = (uint64_t)thread->tid,
                                    .python_id = thread->python_id,
                                    .name = arena_text(build, gsp_buf_sv(&comm)),
                                    .is_main = thread->is_main,
                                    .on_cpu = thread->on_cpu && !thread->shadowed && !is_core,
                                    .has_gil = thread->has_gil,
                                    .torn = thread->status != GSP_OK,
                                    .state = thread->state,
                                    .interpreter = thread->interp};
    if (has_mixed) {
        out->frames = mixed.frames;
        out->frame_count = mixed.frame_count;
        return;
    }
    fill_frames(build, thread, walked, out);
}

static int by_importance(const void *a, const void *b)
{
    const struct gsp_dump_thread *x = a;
    const struct gsp_dump_thread *y = b;
    if (x->is_main != y->is_main)
        return x->is_main ? -1 : 1;
    if (x->os_id != y->os_id)
        return x->os_id < y->os_id ? -1 : 1;
    return (x->python_id > y->python_id) - (x->python_id < y->python_id);
}

/* The frames of a chain of awaits, innermost first. */
static struct gsp_dump_frame *make_await_frames(struct builder *build,
                                                const struct gsp_py_awaits *chain)
{
    struct gsp_py_codes *codes = gsp_py_target_codes(build->target);
    struct gsp_dump_frame *frames = arena_alloc(build, (chain->depth + 1) * sizeof(*frames));
    for (size_t i = 0; frames && i < chain->depth; i++) {
        const struct gsp_py_await *from = &chain->frames[chain->depth - 1 - i];
        uint32_t index = 0;
        frames[i].is_entry = -1;
        if (gsp_py_codes_get(codes, from->code, gsp_now_ns(), &index) != GSP_OK)
            continue;
        const struct gsp_py_code *code = gsp_py_codes_at(codes, index);
        frames[i].name = arena_text(build, (struct gsp_sv){code->name, code->name_len});
        frames[i].file = arena_text(build, (struct gsp_sv){code->file, code->file_len});
        if (from->loc != GSP_PY_NO_LOC)
            frames[i].line = gsp_py_codes_loc_at(codes, from->loc)->line;
        if (build->opts->locals)
            add_locals(build, from->frame, from->code, &frames[i]);
    }
    return frames;
}

static void add_task(struct builder *build, const struct gsp_dump_task *task,
                     const struct gsp_py_awaits *chain)
{
    struct gsp_dump *dump = &build->dump->pub;
    if (is_full(build))
        return;
    if (dump->task_count == build->task_cap) {
        size_t cap = build->task_cap ? build->task_cap * 2 : 64;
        struct gsp_dump_task *grown = arena_alloc(build, cap * sizeof(*grown));
        if (!grown)
            return;
        if (dump->task_count)
            memcpy(grown, build->tasks, dump->task_count * sizeof(*grown));
        build->tasks = grown;
        build->task_cap = cap;
        dump->tasks = grown;
    }
    struct gsp_dump_task *out = &build->tasks[dump->task_count++];
    *out = *task;
    out->frames = make_await_frames(build, chain);
    out->frame_count = out->frames ? chain->depth : 0;
}

static void add_asyncio_task(void *user, const struct gsp_py_task *task)
{
    struct builder *build = user;
    struct gsp_dump_task row = {.name = arena_text(build, task->name),
                                .state = gsp_py_task_state_name(task->state),
                                .waits_for = arena_text(build, task->waits_for),
                                .waits_for_task = task->waits_for_task,
                                .python_id = task->python_id};
    add_task(build, &row, task->chain);
}

static void add_greenlet(void *user, const struct gsp_py_greenlet *greenlet)
{
    struct builder *build = user;
    struct gsp_dump_task row = {.is_greenlet = true,
                                .name = arena_text(build, greenlet->label),
                                .state = greenlet->is_running ? "running" : "suspended",
                                .parent = arena_text(build, greenlet->parent),
                                .python_id = greenlet->python_id};
    add_task(build, &row, greenlet->chain);
}

static int by_name(const void *a, const void *b)
{
    const struct gsp_dump_task *x = a;
    const struct gsp_dump_task *y = b;
    return strverscmp(x->name.p, y->name.p); /* "Task-9" before "Task-10" */
}

/* Whether no more tasks and greenlets are read. */
static bool has_enough_tasks(void *user)
{
    struct builder *build = user;
    if (gsp_now_ns() >= build->tasks_end_ns)
        build->dump->pub.lacks_tasks = true;
    return build->dump->pub.lacks_tasks || is_full(build);
}

static int read_tasks(struct builder *build, struct gsp_err *err)
{
    if (!build->opts->tasks)
        return GSP_OK;
    build->tasks_end_ns = gsp_now_ns() + TASKS_MAX_NS;
    int rc = gsp_py_tasks(build->target, add_asyncio_task, has_enough_tasks, build);
    if (rc == GSP_OK)
        rc = gsp_py_greenlets(build->target, add_greenlet, has_enough_tasks, build);
    if (rc != GSP_OK || build->failed)
        return gsp_err_set(err, rc ? rc : GSP_E_NOMEM, 0, "%s",
                           gsp_err_text(rc ? rc : GSP_E_NOMEM));
    if (build->dump->pub.task_count)
        qsort(build->tasks, build->dump->pub.task_count, sizeof(*build->tasks), by_name);
    return GSP_OK;
}

static int read_threads(struct builder *build, struct gsp_err *err)
{
    struct gsp_dump *dump = &build->dump->pub;
    int rc = gsp_py_target_sample(build->target, build->flags, gsp_now_ns());
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "process %d: %s", (int)dump->pid, gsp_err_text(rc));
    size_t count = gsp_py_target_thread_count(build->target);
    build->threads = arena_alloc(build, (count + 1) * sizeof(*build->threads));
    for (size_t i = 0; build->threads && i < count; i++)
        fill_thread(build, gsp_py_target_thread(build->target, i), &build->threads[i]);
    if (build->failed)
        return gsp_err_nomem(err);
    dump->threads = build->threads;
    dump->thread_count = count;
    return read_tasks(build, err);
}

/* Names are read last, when the threads run again. */
static void read_names(struct builder *build)
{
    struct gsp_dump *dump = &build->dump->pub;
    gsp_raddr interp;
    for (size_t i = 0; (interp = gsp_py_target_interp(build->target, i)); i++)
        gsp_ignore(gsp_py_thread_names(gsp_py_target_mem(build->target),
                                       &gsp_py_target_runtime(build->target)->layout, interp,
                                       set_name, build));
    qsort(build->threads, dump->thread_count, sizeof(*build->threads), by_importance);
}

static bool has_thread(const struct builder *build, pid_t tid)
{
    for (size_t i = 0; i < build->dump->pub.thread_count; i++)
        if (build->threads[i].os_id == (uint64_t)tid)
            return true;
    return false;
}

static void fill_native_thread(struct builder *build, pid_t tid, struct gsp_dump_thread *out)
{
    const pid_t pid = build->dump->pub.pid;
    struct gsp_py_thread thread = {.tid = tid, .task = GSP_TASKFD_CLOSED};
    gsp_auto_buf comm = {0};
    *out = (struct gsp_dump_thread){.os_id = (uint64_t)tid, .is_main = tid == pid};
    if (is_full(build)) {
        out->torn = true;
        return;
    }
    if (build->core) {
        out->torn = !fill_mixed(build, tid, NULL, out);
        return;
    }
    gsp_ignore(
        gsp_proc_taskfd_open(&thread.task, pid, tid)); /* a thread that has exited has no stack */
    gsp_proc_task_comm(pid, tid, &comm);
    out->name = arena_text(build, gsp_buf_sv(&comm));
    out->state = gsp_proc_taskfd_state(&thread.task);
    out->on_cpu = gsp_proc_taskfd_is_running(&thread.task);
    thread.on_cpu = out->on_cpu;
    out->torn = !fill_mixed(build, tid, &thread, out);
    gsp_proc_taskfd_close(&thread.task);
}

/* Adds the threads that are not Python's: those of libraries, or all of them. */
static int add_native_threads(struct builder *build, const struct gsp_task *tasks, size_t count,
                              struct gsp_err *err)
{
    struct gsp_dump *dump = &build->dump->pub;
    struct gsp_dump_thread *threads =
        arena_alloc(build, (dump->thread_count + count + 1) * sizeof(*threads));
    if (threads && dump->thread_count)
        memcpy(threads, build->threads, dump->thread_count * sizeof(*threads));
    build->threads = threads;
    dump->threads = threads;
    for (size_t i = 0; threads && i < count; i++)
        if (!has_thread(build, tasks[i].tid))
            fill_native_thread(build, tasks[i].tid, &threads[dump->thread_count++]);
    if (build->failed || !build->threads)
        return gsp_err_nomem(err);
    if (dump->thread_count)
        qsort(build->threads, dump->thread_count, sizeof(*build->threads), by_importance);
    return GSP_OK;
}

static int add_live_native_threads(struct builder *build, struct gsp_err *err)
{
    struct gsp_task *tasks;
    size_t count;
    int rc = gsp_proc_tasks(build->dump->pub.pid, &tasks, &count, err);
    if (rc != GSP_OK)
        return rc;
    rc = add_native_threads(build, tasks, count, err);
    free(tasks);
    return rc;
}

static int dump_process(struct builder *build, struct gsp_err *err)
{
    struct gsp_dump *dump = &build->dump->pub;
    struct gsp_procinfo info;
    int rc = gsp_proc_info(dump->pid, &info, err);
    if (rc != GSP_OK)
        return rc;
    dump->ppid = info.ppid;
    dump->ns_pid = info.ns_pid != dump->pid ? info.ns_pid : 0;
    gsp_auto_buf text = {0};
    gsp_proc_cmdline(dump->pid, &text);
    dump->cmdline = arena_text(build, gsp_buf_sv(&text)).p; /* NULs have become spaces */
    gsp_auto_buf role = {0};
    gsp_proc_put_role(dump->pid, gsp_buf_sv(&text), &role);
    dump->role = arena_text(build, gsp_buf_sv(&role)).p;
    dump->name = arena_text(build, gsp_sv_of(info.comm)).p;
    gsp_buf_clear(&text);
    gsp_proc_exe(dump->pid, &text);
    dump->exe = arena_text(build, gsp_buf_sv(&text)).p;
    memcpy(dump->version, gsp_py_target_runtime(build->target)->version, sizeof(dump->version));
    build->flags = GSP_PY_SAMPLE_IDLE;
    struct gsp_stop *stop = NULL;
    struct gsp_native_store *store = NULL;
    if (build->opts->native) {
        rc = gsp_native_store_new(&store, err);
        if (rc == GSP_OK)
            rc = gsp_sample__mixed_open(dump->pid, gsp_py_target_mem(build->target), store,
                                        &build->mixed, err);
    } else if (build->opts->blocking) {
        gsp_py_target_update_states(build->target, gsp_now_ns());
        rc = gsp_proc_stop_new(dump->pid, &stop, err);
        if (rc == GSP_OK)
            rc = gsp_proc_stop_hold(stop, HOLD_LIMIT_NS, err);
        build->flags |= GSP_PY_SAMPLE_STOPPED | GSP_PY_SAMPLE_KEEP_STATES;
    }
    if (rc == GSP_OK)
        rc = read_threads(build, err);
    if (rc == GSP_OK && build->mixed)
        rc = add_live_native_threads(build, err);
    gsp_proc_stop_free(stop);
    gsp_sample__mixed_close(build->mixed);
    gsp_native_store_free(store);
    build->mixed = NULL;
    if (rc == GSP_OK)
        read_names(build);
    return rc;
}

static void describe_core(struct builder *build)
{
    const struct gsp_proc_core_info *info = gsp_proc_core_info(build->core);
    struct gsp_dump *dump = &build->dump->pub;
    size_t count;
    const struct gsp_task *tasks = gsp_proc_core_threads(build->core, &count);
    dump->is_core = true;
    dump->pid = info->pid;
    dump->ppid = info->ppid;
    dump->signal = info->signal;
    dump->signal_tid = info->signal && count ? tasks[0].tid : 0;
    const char *command = info->cmdline[0] ? info->cmdline : info->name;
    dump->cmdline = arena_text(build, gsp_sv_of(command)).p;
    dump->role = "";
    dump->name = arena_text(build, gsp_sv_of(info->name)).p;
    dump->exe = arena_text(build, gsp_sv_of(info->exe)).p;
}

/* Reads the Python threads. */
static int read_core_python(struct builder *build, struct gsp_err *err)
{
    struct gsp_dump *dump = &build->dump->pub;
    int rc = read_threads(build, err);
    if (rc != GSP_OK)
        return rc;
    size_t unread = 0;
    for (size_t i = 0; i < dump->thread_count; i++)
        unread += build->threads[i].torn;
    if (unread == dump->thread_count && !build->mixed)
        return gsp_err_set(err, GSP_E_FAULT, 0, "no stack of its %zu threads can be read", unread);
    memcpy(dump->version, gsp_py_target_runtime(build->target)->version, sizeof(dump->version));
    read_names(build);
    return GSP_OK;
}

/* Adds the reason to the message if parts of the core are missing. */
static int explain_missing(const struct gsp_core *core, const char *path, int rc,
                           struct gsp_err *err)
{
    char what[sizeof(err->msg)] = "";
    if (err)
        memcpy(what, err->msg, sizeof(what));
    const struct gsp_proc_core_info *info = gsp_proc_core_info(core);
    const char *lacks = gsp_proc_core_missing_file(core);
    if (info->missing_bytes)
        return gsp_err_set(err, rc, 0,
                           "%.80s: %.80s: the file is truncated, %llu bytes of memory are missing",
                           path, what, (unsigned long long)info->missing_bytes);
    if (info->is_filtered)
        return gsp_err_set(err, rc, 0,
                           "%.80s: %.60s: the core file has no process memory "
                           "(/proc/PID/coredump_filter)",
                           path, what);
    if (!info->has_files)
        return gsp_err_set(
            err, rc, 0, "%.80s: %.60s: the core file does not list the mapped files (no NT_FILE)",
            path, what);
    if (lacks)
        return gsp_err_set(err, rc, 0, "%.80s: %.60s: %.60s is missing here or a different build",
                           path, what, lacks);
    return gsp_err_set(err, rc, 0, "%.100s: %.120s", path, what);
}

/* Reads the Python frames. With native frames, a failure is only noted. */
static int try_python(struct builder *build, const char *path, struct gsp_err *err)
{
    struct gsp_err why = {0};
    const struct gsp_proc_core_info *info = gsp_proc_core_info(build->core);
    int rc = gsp_py_target_open_core(build->core, &build->target, &why);
    if (rc == GSP_OK)
        rc = read_core_python(build, &why);
    if (rc == GSP_OK)
        return rc;
    bool is_whole = !info->missing_bytes && !info->is_filtered && info->has_files;
    rc = explain_missing(build->core, path, rc, &why);
    if (!build->opts->native || rc == GSP_E_NOMEM)
        return gsp_err_set(err, rc, why.sys, "%s", why.msg);
    if (rc != GSP_E_NOTPY || !is_whole)
        build->dump->pub.python_problem = arena_text(build, gsp_sv_of(why.msg)).p;
    return GSP_OK;
}

static int dump_core(struct builder *build, const char *path, struct gsp_err *err)
{
    struct gsp_dump *dump = &build->dump->pub;
    struct gsp_native_store *store = NULL;
    int rc = GSP_OK;
    describe_core(build);
    build->flags = GSP_PY_SAMPLE_IDLE | GSP_PY_SAMPLE_STOPPED | GSP_PY_SAMPLE_KEEP_STATES;
    if (build->opts->native) {
        rc = gsp_proc_core_mem(build->core, &build->core_mem, err);
        if (rc == GSP_OK)
            rc = gsp_native_store_new(&store, err);
        if (rc == GSP_OK)
            rc = gsp_sample__mixed_open_maps(gsp_proc_core_maps(build->core), build->core_mem,
                                             store, &build->mixed, err);
    }
    if (rc == GSP_OK)
        rc = try_python(build, path, err);
    size_t count;
    const struct gsp_task *tasks = gsp_proc_core_threads(build->core, &count);
    if (rc == GSP_OK && build->mixed)
        rc = add_native_threads(build, tasks, count, err);
    const char **lacking = arena_alloc(build, sizeof(build->lacking));
    if (lacking)
        memcpy(lacking, build->lacking, sizeof(build->lacking));
    dump->lacking = lacking;
    dump->missing_bytes = gsp_proc_core_info(build->core)->missing_bytes;
    gsp_py_target_close(build->target);
    gsp_sample__mixed_close(build->mixed);
    gsp_native_store_free(store);
    gsp_proc_mem_free(build->core_mem);
    gsp_buf_free(&build->stack);
    if (rc == GSP_OK && build->failed)
        rc = gsp_err_nomem(err);
    return rc;
}

static int finish(struct builder *build, int rc, struct gsp_dump **out)
{
    if (rc == GSP_OK)
        *out = &build->dump->pub;
    else if (build->dump)
        gsp_sample_dump_free(&build->dump->pub);
    return rc;
}

int gsp_sample_dump_new(pid_t pid, const struct gsp_dump_opts *opts, struct gsp_dump **out,
                        struct gsp_err *err)
{
    *out = NULL;
    struct builder build = {.opts = opts};
    int rc = gsp_py_target_open(pid, &build.target, err);
    if (rc != GSP_OK)
        return rc;
    build.dump = calloc(1, sizeof(*build.dump));
    if (build.dump) {
        build.dump->pub.pid = gsp_py_target_pid(build.target);
        rc = dump_process(&build, err);
    } else {
        rc = gsp_err_nomem(err);
    }
    gsp_py_target_close(build.target);
    return finish(&build, rc, out);
}

int gsp_sample_dump_new_core(const char *path, const struct gsp_dump_opts *opts,
                             struct gsp_dump **out, struct gsp_err *err)
{
    *out = NULL;
    struct builder build = {.opts = opts};
    int rc = gsp_proc_core_open(path, &build.core, err);
    if (rc != GSP_OK)
        return rc;
    build.dump = calloc(1, sizeof(*build.dump));
    rc = build.dump ? dump_core(&build, path, err) : gsp_err_nomem(err);
    gsp_proc_core_close(build.core);
    return finish(&build, rc, out);
}
