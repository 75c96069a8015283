/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/native_slot.h"

#include <stdlib.h>

#include "base/time.h"
#include "proc/task.h"

/* How often the threads are listed. */
#define LIST_INTERVAL_NS (100 * GSP_NS_PER_MS)

int gsp_sample__native_slot_open(struct gsp_proc_slot *slot, struct gsp_native_store *store)
{
    int rc = gsp_proc_mem_open_pid(slot->pid, &slot->native_mem, &slot->last_err);
    if (rc == GSP_OK)
        rc = gsp_sample__mixed_open(slot->pid, slot->native_mem, store, &slot->mixed,
                                    &slot->last_err);
    if (rc != GSP_OK) {
        gsp_sample__native_slot_close(slot);
        return rc;
    }
    slot->state = GSP_PROC_SLOT_NATIVE;
    slot->native_listed_ns = 0;
    return GSP_OK;
}

static void free_thread(struct gsp_py_thread *thread)
{
    gsp_proc_taskfd_close(&thread->task);
    free(thread);
}

void gsp_sample__native_slot_close(struct gsp_proc_slot *slot)
{
    for (size_t i = 0; i < slot->native_count; i++)
        free_thread(slot->native_threads[i]);
    free(slot->native_threads);
    slot->native_threads = NULL;
    slot->native_count = 0;
    if (!slot->native_mem)
        return;
    gsp_sample__mixed_close(slot->mixed); /* it reads through native_mem */
    slot->mixed = NULL;
    gsp_proc_mem_free(slot->native_mem);
    slot->native_mem = NULL;
}

static struct gsp_py_thread *find_thread(const struct gsp_proc_slot *slot, pid_t tid)
{
    for (size_t i = 0; i < slot->native_count; i++)
        if (slot->native_threads[i]->tid == tid)
            return slot->native_threads[i];
    return NULL;
}

static struct gsp_py_thread *new_thread(const struct gsp_proc_slot *slot, pid_t tid)
{
    struct gsp_py_thread *thread = calloc(1, sizeof(*thread));
    if (!thread)
        return NULL;
    thread->tid = tid;
    thread->is_main = tid == slot->pid;
    gsp_ignore(gsp_proc_taskfd_open(&thread->task, slot->pid,
                                    tid)); /* a thread that has ended reads as 0 */
    return thread;
}

static int list_threads(struct gsp_proc_slot *slot)
{
    struct gsp_task *tasks;
    size_t count;
    int rc = gsp_proc_tasks(slot->pid, &tasks, &count, NULL);
    if (rc != GSP_OK)
        return rc;
    struct gsp_py_thread **threads = calloc(count, sizeof(*threads));
    size_t kept = 0;
    for (size_t i = 0; threads && i < count; i++) {
        struct gsp_py_thread *thread = find_thread(slot, tasks[i].tid);
        if (thread)
            thread->found = true;
        else
            thread = new_thread(slot, tasks[i].tid);
        if (thread)
            threads[kept++] = thread;
    }
    free(tasks);
    if (!threads)
        return GSP_E_NOMEM;
    for (size_t i = 0; i < slot->native_count; i++)
        if (!slot->native_threads[i]->found)
            free_thread(slot->native_threads[i]);
    free(slot->native_threads);
    slot->native_threads = threads;
    slot->native_count = kept;
    for (size_t i = 0; i < kept; i++)
        threads[i]->found = false;
    return GSP_OK;
}

int gsp_sample__native_slot_update(struct gsp_proc_slot *slot, int64_t now_ns)
{
    if (slot->native_listed_ns == 0 || now_ns - slot->native_listed_ns >= LIST_INTERVAL_NS) {
        slot->native_listed_ns = now_ns;
        int rc = list_threads(slot);
        if (rc != GSP_OK)
            return rc;
    }
    for (size_t i = 0; i < slot->native_count; i++) {
        struct gsp_py_thread *thread = slot->native_threads[i];
        thread->on_cpu = gsp_proc_taskfd_is_running(&thread->task);
    }
    return GSP_OK;
}

bool gsp_sample__native_slot_is_python_thread(const struct gsp_proc_slot *slot, pid_t tid)
{
    size_t count = slot->target ? gsp_py_target_thread_count(slot->target) : 0;
    for (size_t i = 0; i < count; i++) {
        pid_t known = gsp_py_target_thread(slot->target, i)->tid;
        if (known == tid || known == 0)
            return true;
    }
    return false;
}
