/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "py/target_internal.h"

/* Bytes of struct pthread that are searched for the kernel's thread id, and its offsets in glibc:
 * x86_64 first, then aarch64. */
#define PTHREAD_BYTES 1024U
static const size_t GLIBC_TID_AT[] = {720, 208};

void gsp_py__thread_clear(struct gsp_py_thread *thread)
{
    gsp_proc_snap_free(&thread->snap);
    gsp_proc_taskfd_close(&thread->task);
    free(thread->locs);
    *thread = (struct gsp_py_thread){.task = GSP_TASKFD_CLOSED};
}

static pid_t tid_of_ns(const struct gsp_task *tasks, size_t count, int64_t ns_tid)
{
    for (size_t i = 0; i < count; i++)
        if (tasks[i].ns_tid == ns_tid)
            return tasks[i].tid;
    return 0;
}

/* Before 3.11 Python does not store the kernel's thread id, but the C library does. */
static pid_t tid_of_pthread(struct gsp_py_target *target, uint64_t pthread,
                            const struct gsp_task *tasks, size_t count)
{
    int32_t words[PTHREAD_BYTES / 4];
    if (pthread == 0 || gsp_proc_mem_read(target->mem, pthread, words, sizeof(words)) != GSP_OK)
        return 0;
    pid_t tid = 0;
    if (target->tid_at)
        return tid_of_ns(tasks, count, words[target->tid_at / 4]);
    for (size_t i = 0; i < GSP_COUNT(GLIBC_TID_AT) && !tid; i++) {
        tid = tid_of_ns(tasks, count, words[GLIBC_TID_AT[i] / 4]);
        target->tid_at = tid ? GLIBC_TID_AT[i] : 0;
    }
    for (size_t i = 4; i < GSP_COUNT(words) && !tid; i++) {
        tid = tid_of_ns(tasks, count, words[i]);
        target->tid_at = tid ? 4 * i : 0;
    }
    return tid;
}

static struct gsp_py_thread *find(struct gsp_py_target *target, gsp_raddr tstate,
                                  uint64_t python_id)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        if (thread->tstate == tstate && thread->python_id == python_id)
            return thread;
    }
    return NULL;
}

static int add(struct gsp_py_target *target, gsp_raddr tstate, uint64_t python_id, uint32_t interp)
{
    if (!gsp_array_fit(&target->threads, &target->thread_cap, target->thread_count + 1))
        return GSP_E_NOMEM;
    struct gsp_py_thread *thread = malloc(sizeof(*thread));
    if (!thread)
        return GSP_E_NOMEM;
    *thread = (struct gsp_py_thread){.tstate = tstate,
                                     .python_id = python_id,
                                     .interp = interp,
                                     .task = GSP_TASKFD_CLOSED,
                                     .found = true};
    gsp_proc_snap_init(&thread->snap, target->mem);
    target->threads[target->thread_count++] = thread;
    return GSP_OK;
}

/* Finds the kernel ids of new threads and opens their files in /proc. */
static void identify(struct gsp_py_target *target)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    struct gsp_task *listed = NULL;
    size_t count = 0;
    const struct gsp_task *tasks =
        target->core ? gsp_proc_core_threads(target->core, &count) : NULL;
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        if (thread->tid)
            continue;
        if (!tasks && gsp_proc_tasks(target->pid, &listed, &count, NULL) != GSP_OK) {
            target->listed_whole = false;
            return;
        }
        tasks = tasks ? tasks : listed;
        uint64_t native = 0;
        if (lay->tstate_native_thread_id != GSP_NO_OFFSET &&
            gsp_proc_mem_read_u64(target->mem, thread->tstate + lay->tstate_native_thread_id,
                                  &native) == GSP_OK)
            thread->tid = tid_of_ns(tasks, count, (int64_t)native);
        else
            thread->tid = tid_of_pthread(target, thread->python_id, tasks, count);
        thread->is_main = thread->tid == target->pid && thread->interp == 0;
        if (thread->tid && !target->core)
            gsp_ignore(gsp_proc_taskfd_open(&thread->task, target->pid, thread->tid));
        /* A thread that is being created gets its id later. */
        target->listed_whole &= thread->tid != 0;
    }
    free(listed);
}

/* Lists the threads of one interpreter. Reads up to *left entries, and subtracts what it read. */
static int list_interp(struct gsp_py_target *target, gsp_raddr interp, uint32_t index, size_t *left)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    gsp_raddr tstate;
    int rc = gsp_proc_mem_read_u64(target->mem, interp + lay->interp_tstate_head, &tstate);
    target->heads[index].tstate = rc == GSP_OK ? tstate : 0;
    for (; rc == GSP_OK && tstate && *left > 0; (*left)--) {
        uint64_t python_id = 0;
        gsp_raddr next = 0;
        uint64_t owner = 0;
        struct gsp_mem_span spans[] = {{tstate + lay->tstate_thread_id, 8, &python_id},
                                       {tstate + lay->tstate_next, 8, &next},
                                       {tstate + lay->tstate_interp, 8, &owner}};
        rc = gsp_proc_mem_gather(target->mem, spans, GSP_COUNT(spans), NULL);
        /* The thread is being created or freed: try again in the next pass. */
        if (rc != GSP_OK || owner != interp)
            break;
        struct gsp_py_thread *known = find(target, tstate, python_id);
        if (!known && python_id) {
            rc = add(target, tstate, python_id, index);
            known = rc == GSP_OK ? target->threads[target->thread_count - 1] : NULL;
        }
        if (known) {
            known->found = true;
            known->list.next = next;
        }
        target->listed_whole &= known != NULL;
        tstate = next;
    }
    target->listed_whole &= rc == GSP_OK && tstate == 0;
    return rc == GSP_E_FAULT ? GSP_OK : rc;
}

static void drop_missing(struct gsp_py_target *target)
{
    size_t kept = 0;
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        if (thread->found) {
            target->threads[kept++] = thread;
            continue;
        }
        gsp_py__thread_clear(thread);
        free(thread);
    }
    target->thread_count = kept;
}

int gsp_py__threads_list(struct gsp_py_target *target, int64_t now_ns)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    target->listed_ns = now_ns;
    target->heads_ns = now_ns;
    for (size_t i = 0; i < target->thread_count; i++)
        target->threads[i]->found = false;
    gsp_raddr interp;
    int rc = gsp_proc_mem_read_u64(target->mem, target->run.addr + lay->runtime_interpreters_head,
                                   &interp);
    /* New interpreters are added at the front; the main one is the last. */
    gsp_raddr list[GSP_PY_INTERPS_MAX];
    size_t count = 0;
    while (rc == GSP_OK && interp && count < GSP_PY_INTERPS_MAX) {
        list[count++] = interp;
        rc = gsp_proc_mem_read_u64(target->mem, interp + lay->interp_next, &interp);
    }
    if (rc != GSP_OK && rc != GSP_E_FAULT)
        return rc;
    if (count == 0)
        return GSP_E_NOPROC;
    target->listed_whole = rc == GSP_OK && interp == 0;
    target->interp_count = count;
    rc = GSP_OK;
    size_t left = GSP_PY_THREADS_MAX; /* of all interpreters together */
    for (size_t i = 0; rc == GSP_OK && i < count; i++) {
        gsp_raddr addr = list[count - 1 - i];
        target->heads[i].interp = addr;
        target->heads[i].gil = 0;
        if (lay->interp_gil != UINT32_MAX &&
            gsp_proc_mem_read_u64(target->mem, addr + lay->interp_gil, &target->heads[i].gil) !=
                GSP_OK)
            target->heads[i].gil = 0;
        rc = list_interp(target, addr, (uint32_t)i, &left);
    }
    drop_missing(target);
    identify(target);
    return rc;
}

size_t gsp_py__lists_span_count(const struct gsp_py_target *target)
{
    return 1 + 3 * (target->interp_count + target->thread_count);
}

size_t gsp_py__lists_plan(struct gsp_py_target *target, struct gsp_mem_span *spans)
{
    const struct gsp_py_layout *lay = &target->run.layout;
    size_t n = 0;
    /* Initialize with values that count as changed, in case the read fails. */
    target->now_interp = 0;
    spans[n++] = (struct gsp_mem_span){target->run.addr + lay->runtime_interpreters_head, 8,
                                       &target->now_interp};
    for (size_t i = 0; i < target->interp_count; i++) {
        struct gsp_py__interp *head = &target->heads[i];
        head->now_next = UINT64_MAX;
        head->now_tstate = ~head->tstate;
        head->now_gil = lay->interp_gil != UINT32_MAX ? ~head->gil : head->gil;
        spans[n++] = (struct gsp_mem_span){head->interp + lay->interp_next, 8, &head->now_next};
        spans[n++] =
            (struct gsp_mem_span){head->interp + lay->interp_tstate_head, 8, &head->now_tstate};
        if (lay->interp_gil != UINT32_MAX)
            spans[n++] = (struct gsp_mem_span){head->interp + lay->interp_gil, 8, &head->now_gil};
    }
    for (size_t i = 0; i < target->thread_count; i++) {
        struct gsp_py_thread *thread = target->threads[i];
        thread->list.now_interp = 0; /* the last of the three to be read */
        spans[n++] =
            (struct gsp_mem_span){thread->tstate + lay->tstate_thread_id, 8, &thread->list.now_id};
        spans[n++] =
            (struct gsp_mem_span){thread->tstate + lay->tstate_next, 8, &thread->list.now_next};
        spans[n++] =
            (struct gsp_mem_span){thread->tstate + lay->tstate_interp, 8, &thread->list.now_interp};
    }
    return n;
}

bool gsp_py__lists_have_changed(struct gsp_py_target *target, int64_t now_ns)
{
    bool changed = !target->listed_whole ||
                   target->now_interp != target->heads[target->interp_count - 1].interp;
    for (size_t i = 0; i < target->interp_count; i++) {
        const struct gsp_py__interp *head = &target->heads[i];
        /* New interpreters are added at the front; the main one is the last. */
        gsp_raddr next = i ? target->heads[i - 1].interp : 0;
        changed |= head->now_next != next || head->now_tstate != head->tstate ||
                   head->now_gil != head->gil;
    }
    for (size_t i = 0; i < target->thread_count; i++) {
        const struct gsp_py_thread *thread = target->threads[i];
        changed |= thread->list.now_interp != target->heads[thread->interp].interp ||
                   thread->list.now_id != thread->python_id ||
                   thread->list.now_next != thread->list.next;
    }
    target->heads_ns = now_ns;
    target->listed_ns = now_ns;
    return changed;
}
