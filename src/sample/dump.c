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
#include "sample/core_native.h"
#include "sample/mixed.h"

#define LOCALS_MAX    256U
#define TREE_MAX      16384U
#define VALUE_BYTES   128U
#define HOLD_LIMIT_NS (500 * GSP_NS_PER_MS)
#define ARENA_CHUNK   16384U
#define LACKING_MAX   64U
#define WALKS_MAX     32U
/* A thread that lost its CPU amid a call looks torn until it runs again; for all threads. */
#define WALK_WAIT_NS  (500 * GSP_NS_PER_MS)
#define WALK_PAUSE_NS (GSP_NS_PER_MS)

/* Everything a dump points to lives in chunks that are freed with it. */
struct chunk {
    struct chunk *next;
    size_t used;
    size_t cap;
    _Alignas(16) char bytes[];
};

struct dump {
    struct gsp_dump pub; /* first: what the user sees */
    struct chunk *chunks;
};

struct taking {
    struct dump *dump;
    struct gsp_py_target *target;
    const struct gsp_dump_opts *opts;
    struct gsp_dump_thread *threads; /* of the dump, while it is made */
    struct gsp_dump_task *tasks;
    size_t task_cap;
    struct gsp_mixed *mixed; /* NULL: Python frames only */
    struct gsp_core *core;   /* NULL: a live process */
    struct gsp_mem *core_mem;
    struct gsp_buf stack; /* of a thread of the core */
    const char *lacking[LACKING_MAX];
    unsigned flags;
    int64_t walks_end_ns; /* until when torn threads are waited for; 0: none was torn yet */
    bool failed;          /* an allocation did */
};

static void *arena_take(struct taking *take, size_t len)
{
    len = (len + 15) & ~(size_t)15;
    struct chunk *chunk = take->dump->chunks;
    if (!chunk || chunk->cap - chunk->used < len) {
        size_t cap = len > ARENA_CHUNK ? len : ARENA_CHUNK;
        chunk = malloc(sizeof(*chunk) + cap);
        if (!chunk) {
            take->failed = true;
            return NULL;
        }
        chunk->next = take->dump->chunks;
        chunk->used = 0;
        chunk->cap = cap;
        take->dump->chunks = chunk;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += len;
    memset(p, 0, len);
    return p;
}

static struct gsp_sv arena_text(struct taking *take, struct gsp_sv text)
{
    char *copy = arena_take(take, text.len + 1);
    if (!copy)
        return (struct gsp_sv){"", 0};
    if (text.len)
        memcpy(copy, text.p, text.len);
    return (struct gsp_sv){copy, text.len};
}

void gsp_dump_free(struct gsp_dump *dump)
{
    if (!dump)
        return;
    struct dump *self = (struct dump *)dump;
    while (self->chunks) {
        struct chunk *next = self->chunks->next;
        free(self->chunks);
        self->chunks = next;
    }
    free(self);
}

struct collecting {
    struct taking *take;
    struct gsp_dump_local items[LOCALS_MAX];
    size_t count;
};

static void take_local(void *user, const struct gsp_py_local *local)
{
    struct collecting *col = user;
    if (col->count == LOCALS_MAX)
        return;
    struct taking *take = col->take;
    const struct gsp_py_layout *layout = &gsp_py_target_runtime(take->target)->layout;
    size_t max = take->opts->value_bytes_max ? take->opts->value_bytes_max : VALUE_BYTES;
    struct gsp_py_repr_limits limits = {.bytes_max = max};
    gsp_auto_buf value = {0};
    if (gsp_py_repr(gsp_py_target_mem(take->target), layout, local->value, &limits, &value) !=
        GSP_OK) {
        gsp_buf_clear(&value);
        gsp_buf_printf(&value, "<unreadable at 0x%llx>", (unsigned long long)local->value);
    }
    col->items[col->count++] =
        (struct gsp_dump_local){.name = arena_text(take, local->name),
                                .value = arena_text(take, gsp_buf_sv(&value)),
                                .is_arg = local->is_arg};
}

static void take_locals(struct taking *take, gsp_raddr frame_addr, gsp_raddr code_addr,
                        struct gsp_dump_frame *frame)
{
    struct collecting *col = malloc(sizeof(*col));
    if (!col) {
        take->failed = true;
        return;
    }
    col->take = take;
    col->count = 0;
    /* What can be read of them is shown; a frame that has just ended has none. */
    gsp_ignore(gsp_py_locals(gsp_py_target_mem(take->target),
                             &gsp_py_target_runtime(take->target)->layout, frame_addr, code_addr,
                             take_local, col));
    struct gsp_dump_local *locals = arena_take(take, (col->count + 1) * sizeof(*locals));
    if (locals) {
        memcpy(locals, col->items, col->count * sizeof(*locals));
        frame->locals = locals;
        frame->local_count = col->count;
    }
    free(col);
}

/* walked: the target's chain is this thread's. */
/* The i-th Python frame of a thread. */
static void take_frame(struct taking *take, const struct gsp_py_thread *thread, size_t i,
                       bool walked, struct gsp_dump_frame *frame)
{
    struct gsp_py_codes *codes = gsp_py_target_codes(take->target);
    const struct gsp_py_loc *loc = gsp_py_codes_loc_at(codes, thread->locs[i]);
    const struct gsp_py_code *code = gsp_py_codes_at(codes, loc->code);
    frame->name = arena_text(take, (struct gsp_sv){code->name, code->name_len});
    frame->file = arena_text(take, (struct gsp_sv){code->file, code->file_len});
    frame->line = loc->line;
    frame->is_entry = walked ? gsp_py_target_frame_entry(take->target, i) : -1;
    frame->in_generator = walked && gsp_py_target_frame_in_generator(take->target, i);
    if (take->opts->locals && walked)
        take_locals(take, gsp_py_target_frame_addr(take->target, i), code->addr, frame);
}

static void take_frames(struct taking *take, const struct gsp_py_thread *thread, bool walked,
                        struct gsp_dump_thread *out)
{
    struct gsp_dump_frame *frames = arena_take(take, (thread->depth + 1) * sizeof(*frames));
    for (size_t i = 0; frames && i < thread->depth; i++)
        take_frame(take, thread, i, walked, &frames[i]);
    out->frames = frames;
    out->frame_count = frames ? thread->depth : 0;
}

static struct gsp_dump_frame native_frame(struct taking *take, const char *name, const char *file,
                                          unsigned line)
{
    return (struct gsp_dump_frame){.name = arena_text(take, gsp_sv_of(name)),
                                   .file = arena_text(take, gsp_sv_of(file)),
                                   .line = line,
                                   .is_entry = -1,
                                   .is_native = true};
}

/* A file whose frames cannot be named; said once. */
static void note_lack(struct taking *take, const char *path)
{
    size_t count = take->dump->pub.lacking_count;
    if (!path || count == LACKING_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(take->lacking[i], path) == 0)
            return;
    }
    take->lacking[count] = arena_text(take, gsp_sv_of(path)).p;
    take->dump->pub.lacking_count++;
}

/* The frames of one address: inlined calls first.  Returns how many. */
static size_t take_native(struct taking *take, const struct gsp_mixed_frame *from,
                          struct gsp_dump_frame *frames)
{
    struct gsp_native_symbol symbol;
    uint64_t pc = from->pc;
    size_t count = 0;
    char address[32];
    if (!gsp_mixed_symbol(take->mixed, pc, &symbol))
        symbol = (struct gsp_native_symbol){.module = ""};
    snprintf(address, sizeof(address), "0x%llx", (unsigned long long)pc);
    if (take->core && !symbol.name)
        note_lack(take, gsp_core_file_lacks(take->core, pc));
    for (size_t i = 0; i < symbol.inlined_count; i++) {
        const struct gsp_native_inline *in = &symbol.inlined[i];
        frames[count++] =
            native_frame(take, in->name, in->file ? in->file : symbol.module, in->line);
    }
    frames[count++] = native_frame(take, symbol.name ? symbol.name : address,
                                   symbol.file ? symbol.file : symbol.module, symbol.line);
    frames[count - 1].bridged = from->bridged;
    return count;
}

/* A thread that waits for a CPU is waited for, and one that moves too fast is asked again. */
static int take_live(struct taking *take, const struct gsp_mixed_who *who,
                     struct gsp_mixed_stack *out)
{
    const struct timespec pause = {.tv_nsec = WALK_PAUSE_NS};
    const int64_t end_ns = gsp_now_ns() + WALK_WAIT_NS;
    int rc = gsp_mixed_take(take->mixed, who, out, NULL);
    while ((rc == GSP_E_TIMEOUT || rc == GSP_E_TORN) && gsp_now_ns() < end_ns) {
        nanosleep(&pause, NULL);
        rc = gsp_mixed_take(take->mixed, who, out, NULL);
    }
    return rc;
}

static int take_stack(struct taking *take, const struct gsp_mixed_who *who,
                      struct gsp_mixed_stack *out)
{
    if (!take->core)
        return take_live(take, who, out);
    struct gsp_native_copy copy;
    int rc = gsp_core_copy(take->core, take->core_mem, who->tid, &take->stack, &copy);
    return rc == GSP_OK ? gsp_mixed_take_copy(take->mixed, who, &copy, out, NULL) : rc;
}

/* Native and Python frames of this moment; false if they could not be had.  Without a thread of
 * Python native ones alone. */
static bool take_mixed(struct taking *take, pid_t tid, struct gsp_py_thread *thread,
                       struct gsp_dump_thread *out)
{
    struct gsp_mixed_who who = {
        .tid = tid, .target = thread && thread->tstate ? take->target : NULL, .thread = thread};
    struct gsp_mixed_stack stack;
    if (!take->mixed || !tid || take_stack(take, &who, &stack) != GSP_OK)
        return false;
    size_t cap = stack.count * (GSP_NATIVE_INLINED_MAX + 1) + 1;
    struct gsp_dump_frame *frames = calloc(cap, sizeof(*frames));
    size_t count = 0;
    for (size_t i = 0; frames && i < stack.count; i++) {
        const struct gsp_mixed_frame *frame = &stack.frames[i];
        if (frame->is_python && thread)
            take_frame(take, thread, frame->python, true, &frames[count++]);
        else
            count += take_native(take, frame, &frames[count]);
    }
    struct gsp_dump_frame *kept = frames ? arena_take(take, (count + 1) * sizeof(*kept)) : NULL;
    if (kept)
        memcpy(kept, frames, count * sizeof(*kept));
    free(frames);
    out->frames = kept;
    out->frame_count = kept ? count : 0;
    return kept != NULL;
}

static void take_name(void *user, uint64_t python_id, struct gsp_sv name)
{
    struct taking *take = user;
    for (size_t i = 0; i < take->dump->pub.thread_count; i++) {
        if (take->threads[i].python_id == python_id && name.len)
            take->threads[i].name = arena_text(take, name);
    }
}

/* Waits a moment for a thread to move; false when it cannot, or the time is over. */
static bool wait_for_move(struct taking *take)
{
    const struct timespec pause = {.tv_nsec = WALK_PAUSE_NS};
    const int64_t now_ns = gsp_now_ns();
    if (take->core || (take->flags & GSP_PY_LOOK_STILL))
        return false;
    if (take->walks_end_ns == 0)
        take->walks_end_ns = now_ns + WALK_WAIT_NS;
    if (now_ns >= take->walks_end_ns)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

/* The thread's frames of now.  It runs meanwhile, and a walk in a hundred shows no moment of it. */
static bool walk_again(struct taking *take, struct gsp_py_thread *thread)
{
    int rc = GSP_E_TORN;
    do {
        for (unsigned i = 0; i < WALKS_MAX && rc == GSP_E_TORN; i++)
            rc = gsp_py_target_walk(take->target, thread, take->flags, gsp_now_ns());
    } while (rc == GSP_E_TORN && wait_for_move(take));
    return rc == GSP_OK;
}

static void take_thread(struct taking *take, struct gsp_py_thread *thread,
                        struct gsp_dump_thread *out)
{
    /* What the stack of the look does not say of its frames, such as locals, needs frames of now;
     * if this walk fails, the stack stays good without it. */
    int before = thread->status;
    struct gsp_dump_thread mixed = {0};
    bool has_mixed = take_mixed(take, thread->tid, thread, &mixed);
    bool walked = has_mixed || walk_again(take, thread);
    if (!walked && before == GSP_OK)
        thread->status = GSP_OK;
    bool is_core = take->dump->pub.is_core;
    if (is_core && !walked) /* as in a cut core: what called the interpreter is something */
        has_mixed = take_mixed(take, thread->tid, NULL, &mixed);
    gsp_auto_buf comm = {0};
    if (thread->tid && !is_core)
        gsp_task_comm(take->dump->pub.pid, thread->tid, &comm);
    if (is_core && thread->is_main)
        gsp_buf_puts(&comm, gsp_core_info(take->core)->name);
    *out = (struct gsp_dump_thread){.os_id = (uint64_t)thread->tid,
                                    .python_id = thread->python_id,
                                    .name = arena_text(take, gsp_buf_sv(&comm)),
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
    take_frames(take, thread, walked, out);
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

/* The frames of a chain of awaits, innermost first as everywhere. */
static struct gsp_dump_frame *take_awaits(struct taking *take, const struct gsp_py_awaits *chain)
{
    struct gsp_py_codes *codes = gsp_py_target_codes(take->target);
    struct gsp_dump_frame *frames = arena_take(take, (chain->depth + 1) * sizeof(*frames));
    for (size_t i = 0; frames && i < chain->depth; i++) {
        const struct gsp_py_await *from = &chain->frames[chain->depth - 1 - i];
        uint32_t index = 0;
        frames[i].is_entry = -1;
        if (gsp_py_codes_get(codes, from->code, gsp_now_ns(), &index) != GSP_OK)
            continue;
        const struct gsp_py_code *code = gsp_py_codes_at(codes, index);
        frames[i].name = arena_text(take, (struct gsp_sv){code->name, code->name_len});
        frames[i].file = arena_text(take, (struct gsp_sv){code->file, code->file_len});
        if (from->loc != GSP_PY_NO_LOC)
            frames[i].line = gsp_py_codes_loc_at(codes, from->loc)->line;
        if (take->opts->locals)
            take_locals(take, from->frame, from->code, &frames[i]);
    }
    return frames;
}

static void add_task(struct taking *take, const struct gsp_dump_task *task,
                     const struct gsp_py_awaits *chain)
{
    struct gsp_dump *dump = &take->dump->pub;
    if (dump->task_count == take->task_cap) {
        size_t cap = take->task_cap ? take->task_cap * 2 : 64;
        struct gsp_dump_task *grown = arena_take(take, cap * sizeof(*grown));
        if (!grown)
            return;
        if (dump->task_count)
            memcpy(grown, take->tasks, dump->task_count * sizeof(*grown));
        take->tasks = grown;
        take->task_cap = cap;
        dump->tasks = grown;
    }
    struct gsp_dump_task *out = &take->tasks[dump->task_count++];
    *out = *task;
    out->frames = take_awaits(take, chain);
    out->frame_count = out->frames ? chain->depth : 0;
}

static void take_task(void *user, const struct gsp_py_task *task)
{
    struct taking *take = user;
    struct gsp_dump_task row = {.name = arena_text(take, task->name),
                                .state = gsp_py_task_state_name(task->state),
                                .waits_for = arena_text(take, task->waits_for),
                                .waits_for_task = task->waits_for_task,
                                .python_id = task->python_id};
    add_task(take, &row, task->chain);
}

static void take_greenlet(void *user, const struct gsp_py_greenlet *greenlet)
{
    struct taking *take = user;
    struct gsp_dump_task row = {.is_greenlet = true,
                                .name = arena_text(take, greenlet->label),
                                .state = greenlet->is_running ? "running" : "suspended",
                                .parent = arena_text(take, greenlet->parent),
                                .python_id = greenlet->python_id};
    add_task(take, &row, greenlet->chain);
}

static int by_name(const void *a, const void *b)
{
    const struct gsp_dump_task *x = a;
    const struct gsp_dump_task *y = b;
    return strverscmp(x->name.p, y->name.p); /* "Task-9" before "Task-10" */
}

static int take_tasks(struct taking *take, struct gsp_err *err)
{
    if (!take->opts->tasks)
        return GSP_OK;
    int rc = gsp_py_tasks(take->target, take_task, take);
    if (rc == GSP_OK)
        rc = gsp_py_greenlets(take->target, take_greenlet, take);
    if (rc != GSP_OK || take->failed)
        return gsp_err_set(err, rc ? rc : GSP_E_NOMEM, 0, "%s",
                           gsp_err_text(rc ? rc : GSP_E_NOMEM));
    if (take->dump->pub.task_count)
        qsort(take->tasks, take->dump->pub.task_count, sizeof(*take->tasks), by_name);
    return GSP_OK;
}

static int take_threads(struct taking *take, struct gsp_err *err)
{
    struct gsp_dump *dump = &take->dump->pub;
    int rc = gsp_py_target_look(take->target, take->flags, gsp_now_ns());
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "process %d: %s", (int)dump->pid, gsp_err_text(rc));
    size_t count = gsp_py_target_thread_count(take->target);
    take->threads = arena_take(take, (count + 1) * sizeof(*take->threads));
    for (size_t i = 0; take->threads && i < count; i++)
        take_thread(take, gsp_py_target_thread(take->target, i), &take->threads[i]);
    if (take->failed)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    dump->threads = take->threads;
    dump->thread_count = count;
    return take_tasks(take, err);
}

/* Names are read last: with the threads running again. */
static void take_names(struct taking *take)
{
    struct gsp_dump *dump = &take->dump->pub;
    gsp_raddr interp;
    for (size_t i = 0; (interp = gsp_py_target_interp(take->target, i)); i++)
        gsp_ignore(gsp_py_thread_names(gsp_py_target_mem(take->target),
                                       &gsp_py_target_runtime(take->target)->layout, interp,
                                       take_name, take));
    qsort(take->threads, dump->thread_count, sizeof(*take->threads), by_importance);
}

static bool is_taken(const struct taking *take, pid_t tid)
{
    for (size_t i = 0; i < take->dump->pub.thread_count; i++) {
        if (take->threads[i].os_id == (uint64_t)tid)
            return true;
    }
    return false;
}

static void take_native_thread(struct taking *take, pid_t tid, struct gsp_dump_thread *out)
{
    const pid_t pid = take->dump->pub.pid;
    struct gsp_py_thread thread = {.tid = tid, .task = GSP_TASKFD_CLOSED};
    gsp_auto_buf comm = {0};
    *out = (struct gsp_dump_thread){.os_id = (uint64_t)tid, .is_main = tid == pid};
    if (take->core) {
        out->torn = !take_mixed(take, tid, NULL, out);
        return;
    }
    gsp_ignore(gsp_taskfd_open(&thread.task, pid, tid)); /* one that has ended has no stack */
    gsp_task_comm(pid, tid, &comm);
    out->name = arena_text(take, gsp_buf_sv(&comm));
    out->state = gsp_taskfd_state(&thread.task);
    out->on_cpu = gsp_taskfd_is_running(&thread.task);
    thread.on_cpu = out->on_cpu;
    out->torn = !take_mixed(take, tid, &thread, out);
    gsp_taskfd_close(&thread.task);
}

/* The threads that Python does not know: those of libraries, or all of them. */
static int take_native_threads(struct taking *take, const struct gsp_task *tasks, size_t count,
                               struct gsp_err *err)
{
    struct gsp_dump *dump = &take->dump->pub;
    struct gsp_dump_thread *threads =
        arena_take(take, (dump->thread_count + count + 1) * sizeof(*threads));
    if (threads && dump->thread_count)
        memcpy(threads, take->threads, dump->thread_count * sizeof(*threads));
    take->threads = threads;
    dump->threads = threads;
    for (size_t i = 0; threads && i < count; i++) {
        if (!is_taken(take, tasks[i].tid))
            take_native_thread(take, tasks[i].tid, &threads[dump->thread_count++]);
    }
    if (take->failed || !take->threads)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    if (dump->thread_count)
        qsort(take->threads, dump->thread_count, sizeof(*take->threads), by_importance);
    return GSP_OK;
}

static int take_live_threads(struct taking *take, struct gsp_err *err)
{
    struct gsp_task *tasks;
    size_t count;
    int rc = gsp_proc_tasks(take->dump->pub.pid, &tasks, &count, err);
    if (rc != GSP_OK)
        return rc;
    rc = take_native_threads(take, tasks, count, err);
    free(tasks);
    return rc;
}

static int take_all(struct taking *take, struct gsp_err *err)
{
    struct gsp_dump *dump = &take->dump->pub;
    struct gsp_procinfo info;
    int rc = gsp_proc_info(dump->pid, &info, err);
    if (rc != GSP_OK)
        return rc;
    dump->ppid = info.ppid;
    dump->ns_pid = info.ns_pid != dump->pid ? info.ns_pid : 0;
    gsp_auto_buf text = {0};
    gsp_proc_cmdline(dump->pid, &text);
    dump->cmdline = arena_text(take, gsp_buf_sv(&text)).p; /* NULs are spaces in it */
    gsp_auto_buf role = {0};
    gsp_proc_put_role(dump->pid, gsp_buf_sv(&text), &role);
    dump->role = arena_text(take, gsp_buf_sv(&role)).p;
    dump->name = arena_text(take, gsp_sv_of(info.comm)).p;
    gsp_buf_clear(&text);
    gsp_proc_exe(dump->pid, &text);
    dump->exe = arena_text(take, gsp_buf_sv(&text)).p;
    memcpy(dump->version, gsp_py_target_runtime(take->target)->version, sizeof(dump->version));
    take->flags = GSP_PY_LOOK_IDLE;
    struct gsp_stop *stop = NULL;
    struct gsp_native_store *store = NULL;
    if (take->opts->native) {
        rc = gsp_native_store_new(&store, err);
        if (rc == GSP_OK)
            rc = gsp_mixed_open(dump->pid, gsp_py_target_mem(take->target), store, &take->mixed,
                                err);
    } else if (take->opts->blocking) {
        gsp_py_target_states(take->target, gsp_now_ns());
        rc = gsp_stop_new(dump->pid, &stop, err);
        if (rc == GSP_OK)
            rc = gsp_stop_hold(stop, HOLD_LIMIT_NS, err);
        take->flags |= GSP_PY_LOOK_STILL | GSP_PY_LOOK_NO_STATE;
    }
    if (rc == GSP_OK)
        rc = take_threads(take, err);
    if (rc == GSP_OK && take->mixed)
        rc = take_live_threads(take, err);
    gsp_stop_free(stop);
    gsp_mixed_close(take->mixed);
    gsp_native_store_free(store);
    take->mixed = NULL;
    if (rc == GSP_OK)
        take_names(take);
    return rc;
}

static void describe_core(struct taking *take)
{
    const struct gsp_core_info *info = gsp_core_info(take->core);
    struct gsp_dump *dump = &take->dump->pub;
    size_t count;
    const struct gsp_task *tasks = gsp_core_threads(take->core, &count);
    dump->is_core = true;
    dump->pid = info->pid;
    dump->ppid = info->ppid;
    dump->signal = info->signal;
    dump->signal_tid = info->signal && count ? tasks[0].tid : 0;
    const char *words = info->cmdline[0] ? info->cmdline : info->name;
    dump->cmdline = arena_text(take, gsp_sv_of(words)).p;
    dump->role = "";
    dump->name = arena_text(take, gsp_sv_of(info->name)).p;
    dump->exe = arena_text(take, gsp_sv_of(info->exe)).p;
}

/* The threads that Python knows. */
static int take_core_python(struct taking *take, struct gsp_err *err)
{
    struct gsp_dump *dump = &take->dump->pub;
    int rc = take_threads(take, err);
    if (rc != GSP_OK)
        return rc;
    size_t unread = 0;
    for (size_t i = 0; i < dump->thread_count; i++)
        unread += take->threads[i].torn;
    if (unread == dump->thread_count && !take->mixed)
        return gsp_err_set(err, GSP_E_FAULT, 0, "no stack of its %zu threads can be read", unread);
    memcpy(dump->version, gsp_py_target_runtime(take->target)->version, sizeof(dump->version));
    take_names(take);
    return GSP_OK;
}

/* Why a core that is there could not be read, if the reason is that parts of it are not. */
static int explain(const struct gsp_core *core, const char *path, int rc, struct gsp_err *err)
{
    char what[sizeof(err->msg)] = "";
    if (err)
        memcpy(what, err->msg, sizeof(what));
    const struct gsp_core_info *info = gsp_core_info(core);
    const char *lacks = gsp_core_lacks(core);
    if (info->missing_bytes)
        return gsp_err_set(err, rc, 0,
                           "%.80s: %.80s: the file is cut, %llu bytes of memory are missing", path,
                           what, (unsigned long long)info->missing_bytes);
    if (info->is_filtered)
        return gsp_err_set(err, rc, 0,
                           "%.80s: %.60s: it was written without the memory of the process "
                           "(/proc/PID/coredump_filter)",
                           path, what);
    if (!info->has_files)
        return gsp_err_set(err, rc, 0,
                           "%.80s: %.60s: it does not tell which files were mapped (no NT_FILE)",
                           path, what);
    if (lacks)
        return gsp_err_set(err, rc, 0,
                           "%.80s: %.60s: it needs %.60s, which is not here or another build", path,
                           what, lacks);
    return gsp_err_set(err, rc, 0, "%.100s: %.120s", path, what);
}

/* Python's frames, or, with native ones, why there are none. */
static int try_python(struct taking *take, const char *path, struct gsp_err *err)
{
    struct gsp_err why = {0};
    const struct gsp_core_info *info = gsp_core_info(take->core);
    int rc = gsp_py_target_open_core(take->core, &take->target, &why);
    if (rc == GSP_OK)
        rc = take_core_python(take, &why);
    if (rc == GSP_OK)
        return rc;
    bool is_whole = !info->missing_bytes && !info->is_filtered && info->has_files;
    rc = explain(take->core, path, rc, &why);
    if (!take->opts->native || rc == GSP_E_NOMEM)
        return gsp_err_set(err, rc, why.sys, "%s", why.msg);
    if (rc != GSP_E_NOTPY || !is_whole)
        take->dump->pub.python_problem = arena_text(take, gsp_sv_of(why.msg)).p;
    return GSP_OK;
}

static int take_core(struct taking *take, const char *path, struct gsp_err *err)
{
    struct gsp_dump *dump = &take->dump->pub;
    struct gsp_native_store *store = NULL;
    int rc = GSP_OK;
    describe_core(take);
    take->flags = GSP_PY_LOOK_IDLE | GSP_PY_LOOK_STILL | GSP_PY_LOOK_NO_STATE;
    if (take->opts->native) {
        rc = gsp_core_mem(take->core, &take->core_mem, err);
        if (rc == GSP_OK)
            rc = gsp_native_store_new(&store, err);
        if (rc == GSP_OK)
            rc = gsp_mixed_open_maps(gsp_core_maps(take->core), take->core_mem, store, &take->mixed,
                                     err);
    }
    if (rc == GSP_OK)
        rc = try_python(take, path, err);
    size_t count;
    const struct gsp_task *tasks = gsp_core_threads(take->core, &count);
    if (rc == GSP_OK && take->mixed)
        rc = take_native_threads(take, tasks, count, err);
    const char **lacking = arena_take(take, sizeof(take->lacking));
    if (lacking)
        memcpy(lacking, take->lacking, sizeof(take->lacking));
    dump->lacking = lacking;
    dump->missing_bytes = gsp_core_info(take->core)->missing_bytes;
    gsp_py_target_close(take->target);
    gsp_mixed_close(take->mixed);
    gsp_native_store_free(store);
    gsp_mem_free(take->core_mem);
    gsp_buf_free(&take->stack);
    if (rc == GSP_OK && take->failed)
        rc = gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    return rc;
}

static int hand_over(struct taking *take, int rc, struct gsp_dump **out)
{
    if (rc == GSP_OK)
        *out = &take->dump->pub;
    else if (take->dump)
        gsp_dump_free(&take->dump->pub);
    return rc;
}

int gsp_dump_take(pid_t pid, const struct gsp_dump_opts *opts, struct gsp_dump **out,
                  struct gsp_err *err)
{
    *out = NULL;
    struct taking take = {.opts = opts};
    int rc = gsp_py_target_open(pid, &take.target, err);
    if (rc != GSP_OK)
        return rc;
    take.dump = calloc(1, sizeof(*take.dump));
    if (take.dump) {
        take.dump->pub.pid = gsp_py_target_pid(take.target);
        rc = take_all(&take, err);
    } else {
        rc = gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    }
    gsp_py_target_close(take.target);
    return hand_over(&take, rc, out);
}

int gsp_dump_take_core(const char *path, const struct gsp_dump_opts *opts, struct gsp_dump **out,
                       struct gsp_err *err)
{
    *out = NULL;
    struct taking take = {.opts = opts};
    int rc = gsp_core_open(path, &take.core, err);
    if (rc != GSP_OK)
        return rc;
    take.dump = calloc(1, sizeof(*take.dump));
    rc =
        take.dump ? take_core(&take, path, err) : gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    gsp_core_close(take.core);
    return hand_over(&take, rc, out);
}

struct pid_list {
    pid_t *items;
    size_t count;
    size_t cap;
    bool failed;
};

static void add_pid(void *user, pid_t pid)
{
    struct pid_list *list = user;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i] == pid)
            return;
    }
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        pid_t *grown = cap <= TREE_MAX ? realloc(list->items, cap * sizeof(*grown)) : NULL;
        if (!grown) {
            list->failed = true;
            return;
        }
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->count++] = pid;
}

int gsp_tree_pids(pid_t pid, pid_t **out, size_t *count, struct gsp_err *err)
{
    *out = NULL;
    *count = 0;
    struct pid_list list = {0};
    add_pid(&list, pid);
    /* The list grows while it is walked. */
    for (size_t i = 0; i < list.count && !list.failed; i++)
        gsp_proc_children(list.items[i], add_pid, &list);
    if (list.failed && list.count == 0)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    *out = list.items;
    *count = list.count;
    return GSP_OK;
}
