/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/proc_slot.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "proc/pidfd.h"
#include "proc/task.h"
#include "proc/title.h"
#include "py/object.h"
#include "sample/native_slot.h"

/* Delay between attempts to attach: a new process becomes Python within milliseconds, an old one
 * perhaps by exec. */
#define TRY_FIRST_NS   GSP_NS_PER_MS
#define TRY_MAX_NS     (500 * GSP_NS_PER_MS)
/* A process that starts an interpreter may look like something else for this long. */
#define STARTUP_NS     (100 * GSP_NS_PER_MS)
/* Maximum number of attempts to read a thread name: each walks sys.modules, and threads unknown
 * to threading never get one. */
#define NAME_TRIES_MAX 4U
/* Maximum number of attempts to read a process title: workers set theirs soon after the start. */
#define TITLE_TRIES    8U

int gsp_sample__proc_slot_new(pid_t pid, bool is_root, struct gsp_proc_slot **out,
                              struct gsp_err *err)
{
    *out = NULL;
    /* The descriptor comes first, so that the facts belong to the same process. */
    int pidfd = gsp_proc_pidfd_open(pid);
    struct gsp_procinfo info;
    int rc = gsp_proc_info(pid, &info, err);
    struct gsp_proc_slot *slot = rc == GSP_OK ? calloc(1, sizeof(*slot)) : NULL;
    if (!slot) {
        gsp_fd_close(&pidfd);
        return rc != GSP_OK ? rc : gsp_err_nomem(err);
    }
    slot->pid = pid;
    slot->pidfd = pidfd;
    slot->ppid = info.ppid;
    slot->ns_pid = info.ns_pid != pid ? info.ns_pid : 0;
    slot->start_ticks = info.start_ticks;
    slot->is_root = is_root;
    slot->is_forked = info.is_forked;
    slot->process = GSP_NO_INDEX;
    *out = slot;
    return GSP_OK;
}

static void free_threads(struct gsp_proc_slot *slot)
{
    for (size_t i = 0; i < slot->thread_count; i++)
        gsp_sample__stack_path_free(&slot->threads[i].path);
    slot->thread_count = 0;
}

void gsp_sample__proc_slot_free(struct gsp_proc_slot *slot)
{
    if (!slot)
        return;
    free_threads(slot);
    free(slot->threads);
    gsp_proc_stop_free(slot->stop);
    gsp_sample__native_slot_close(slot);
    gsp_sample__mixed_close(slot->mixed);
    gsp_py_target_close(slot->target);
    gsp_fd_close(&slot->pidfd);
    free(slot);
}

/* The current start address of the program's stack; 0 if unknown. */
static uint64_t stack_start(const struct gsp_proc_slot *slot)
{
    struct gsp_procinfo info;
    return gsp_proc_info(slot->pid, &info, NULL) == GSP_OK ? info.stack_start : 0;
}

/* A process that has ended keeps its last known state. */
static void check_exec(struct gsp_proc_slot *slot)
{
    struct gsp_procinfo info;
    if (slot->is_forked && gsp_proc_info(slot->pid, &info, NULL) == GSP_OK &&
        info.start_ticks == slot->start_ticks)
        slot->is_forked = info.is_forked;
}

static void note_other(struct gsp_proc_slot *slot, int rc, int64_t now_ns)
{
    if (rc == GSP_E_NOPROC)
        return;
    if (rc == GSP_E_STARTING) {
        slot->other_since_ns = 0;
        return;
    }
    if (slot->other_since_ns == 0)
        slot->other_since_ns = now_ns;
    slot->other_seen_ns = now_ns;
}

int gsp_sample__proc_slot_attach(struct gsp_proc_slot *slot, struct gsp_py_target *parent,
                                 int64_t now_ns)
{
    struct gsp_err here = {0};
    int rc = gsp_py_target_open_child(slot->pid, parent, &slot->target, &here);
    /* What the process was while it lived says more than that it has ended. */
    if (rc != GSP_E_NOPROC || !slot->last_err.code)
        slot->last_err = here;
    if (rc == GSP_OK) {
        if (slot->state == GSP_PROC_SLOT_NATIVE) {
            /* It called exec: another program, with another name. */
            gsp_sample__native_slot_close(slot);
            free_threads(slot);
            slot->process = GSP_NO_INDEX;
            slot->is_back = false;
        }
        slot->state = GSP_PROC_SLOT_PYTHON;
        slot->was_python = true;
        slot->tries = 0;
        slot->bad_passes = 0;
        slot->stack_start = stack_start(slot);
        return GSP_OK;
    }
    check_exec(slot);
    note_other(slot, rc, now_ns);
    int64_t wait_ns = TRY_FIRST_NS << (slot->tries / 8 < 9 ? slot->tries / 8 : 9);
    slot->tries++;
    slot->next_try_ns = now_ns + (wait_ns < TRY_MAX_NS ? wait_ns : TRY_MAX_NS);
    return rc;
}

bool gsp_sample__proc_slot_is_python(const struct gsp_proc_slot *slot)
{
    return slot->was_python || (slot->is_forked && slot->is_from_python);
}

bool gsp_sample__proc_slot_is_other(const struct gsp_proc_slot *slot)
{
    return !gsp_sample__proc_slot_is_python(slot) && slot->other_since_ns > 0 &&
           slot->other_seen_ns - slot->other_since_ns >= STARTUP_NS;
}

bool gsp_sample__proc_slot_is_early(const struct gsp_proc_slot *slot)
{
    return gsp_sample__proc_slot_is_python(slot) || slot->last_err.code == GSP_E_STARTING;
}

void gsp_sample__proc_slot_detach(struct gsp_proc_slot *slot, int64_t now_ns)
{
    gsp_sample__native_slot_close(slot);
    gsp_sample__mixed_close(slot->mixed); /* it reads through the memory of the target */
    slot->mixed = NULL;
    gsp_py_target_close(slot->target);
    slot->target = NULL;
    free_threads(slot);
    /* After exec it is another program. */
    slot->is_back = slot->stack_start != 0 && slot->stack_start == stack_start(slot);
    if (!slot->is_back)
        slot->process = GSP_NO_INDEX;
    slot->state = GSP_PROC_SLOT_TRYING;
    /* Between fork and exec it only looked like its parent. */
    slot->was_python = slot->was_sampled;
    check_exec(slot);
    slot->other_since_ns = 0;
    slot->tries = 0;
    slot->next_try_ns = now_ns + TRY_FIRST_NS;
}

bool gsp_sample__proc_slot_is_alive(const struct gsp_proc_slot *slot)
{
    /* A pidfd is readable once the last thread has ended. */
    struct pollfd ended = {.fd = slot->pidfd, .events = POLLIN};
    if (slot->pidfd >= 0 && poll(&ended, 1, 0) >= 0)
        return ended.revents == 0;
    struct gsp_procinfo info;
    if (gsp_proc_info(slot->pid, &info, NULL) != GSP_OK || info.start_ticks != slot->start_ticks ||
        info.state == 'X')
        return false;
    if (info.state != 'Z')
        return true;
    /* The main thread may end before the others. */
    struct gsp_task *tasks;
    size_t count;
    if (gsp_proc_tasks(slot->pid, &tasks, &count, NULL) != GSP_OK)
        return false;
    free(tasks);
    return count > 1;
}

/* Fills in the current name, command line and Python version. */
static int describe(const struct gsp_proc_slot *slot, struct gsp_profile *profile,
                    struct gsp_process *process, struct gsp_err *err)
{
    gsp_auto_buf cmdline = {0};
    gsp_auto_buf title = {0};
    gsp_proc_cmdline(slot->pid, &cmdline);
    gsp_proc_put_title(slot->pid, gsp_buf_sv(&cmdline), &title);
    const char *version = slot->target ? gsp_py_target_runtime(slot->target)->version : "";
    int rc = gsp_model_profile_string(profile, gsp_buf_sv(&title), &process->name, err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_string(profile, gsp_buf_sv(&cmdline), &process->cmdline, err);
    return rc == GSP_OK
               ? gsp_model_profile_string(profile, gsp_sv_of(version), &process->version, err)
               : rc;
}

static int add_process(struct gsp_proc_slot *slot, struct gsp_profile *profile, struct gsp_err *err)
{
    struct gsp_process process = {.pid = slot->pid, .ppid = slot->ppid, .ns_pid = slot->ns_pid};
    const int rc = describe(slot, profile, &process, err);
    return rc == GSP_OK ? gsp_model_profile_process(profile, &process, &slot->process, err) : rc;
}

void gsp_sample__proc_slot_name_process(struct gsp_proc_slot *slot, struct gsp_profile *profile,
                                        void (*changed)(void *user, uint32_t process), void *user)
{
    const struct gsp_process *known = gsp_model_profile_process_at(profile, slot->process);
    const bool is_python = slot->state != GSP_PROC_SLOT_NATIVE;
    if (!known || (is_python && slot->title_tries++ >= TITLE_TRIES) ||
        !gsp_sample__proc_slot_is_alive(slot))
        return;
    struct gsp_process now = *known;
    if (describe(slot, profile, &now, NULL) != GSP_OK)
        return;
    /* After exec, gsprof attaches to a Python process again, and it gets a new entry. */
    const bool is_other = now.cmdline != known->cmdline;
    if (is_python ? is_other || now.name == known->name : !is_other)
        return;
    gsp_model_profile_set_process(profile, slot->process, &now);
    changed(user, slot->process);
}

/* Finds the thread of a process that was detached and attached again. */
static bool find_thread(const struct gsp_profile *profile, const struct gsp_thread *like,
                        uint32_t *out)
{
    for (size_t i = gsp_model_profile_thread_count(profile); i-- > 0;) {
        const struct gsp_thread *known = gsp_model_profile_thread_at(profile, (uint32_t)i);
        if (known->process == like->process && known->os_id == like->os_id &&
            known->python_id == like->python_id) {
            *out = (uint32_t)i;
            return true;
        }
    }
    return false;
}

static int add_thread(struct gsp_proc_slot *slot, struct gsp_py_thread *thread,
                      struct gsp_profile *profile, struct gsp_err *err)
{
    if (!gsp_array_fit(&slot->threads, &slot->thread_cap, slot->thread_count + 1))
        return gsp_err_nomem(err);
    struct gsp_thread entry = {.process = slot->process,
                               .os_id = (uint64_t)thread->tid,
                               .python_id = thread->python_id,
                               .is_main = thread->is_main};
    gsp_auto_buf name = {0};
    if (thread->tid)
        gsp_proc_task_comm(slot->pid, thread->tid, &name);
    int rc = gsp_model_profile_string(profile, gsp_buf_sv(&name), &entry.name, err);
    struct gsp_proc_slot_thread note = {0};
    const bool is_known = slot->is_back && find_thread(profile, &entry, &note.index);
    if (rc == GSP_OK && !is_known)
        rc = gsp_model_profile_thread(profile, &entry, &note.index, err);
    if (rc != GSP_OK)
        return rc;
    slot->threads[slot->thread_count++] = note;
    thread->tag = (uint32_t)slot->thread_count;
    return GSP_OK;
}

struct gsp_proc_slot_thread *gsp_sample__proc_slot_get_thread(struct gsp_proc_slot *slot,
                                                              struct gsp_py_thread *thread,
                                                              struct gsp_profile *profile,
                                                              struct gsp_err *err)
{
    if (gsp_unlikely(thread->tag == 0)) {
        if (slot->process == GSP_NO_INDEX && add_process(slot, profile, err) != GSP_OK)
            return NULL;
        if (add_thread(slot, thread, profile, err) != GSP_OK)
            return NULL;
    }
    gsp_assert(thread->tag <= slot->thread_count);
    return &slot->threads[thread->tag - 1];
}

struct naming {
    struct gsp_proc_slot *slot;
    struct gsp_profile *profile;
    void (*changed)(void *user, uint32_t thread);
    void *user;
};

static void set_name(void *user, uint64_t python_id, struct gsp_sv name)
{
    struct naming *naming = user;
    for (size_t i = 0; i < naming->slot->thread_count; i++) {
        struct gsp_proc_slot_thread *note = &naming->slot->threads[i];
        const struct gsp_thread *known = gsp_model_profile_thread_at(naming->profile, note->index);
        if (note->named || !known || known->python_id != python_id || name.len == 0)
            continue;
        struct gsp_thread entry = *known;
        if (gsp_model_profile_string(naming->profile, name, &entry.name, NULL) != GSP_OK)
            return;
        gsp_model_profile_set_thread(naming->profile, note->index, &entry);
        note->named = true;
        naming->changed(naming->user, note->index);
    }
}

void gsp_sample__proc_slot_name_threads(struct gsp_proc_slot *slot, struct gsp_profile *profile,
                                        void (*changed)(void *user, uint32_t thread), void *user)
{
    bool any = false;
    for (size_t i = 0; i < slot->thread_count; i++) {
        struct gsp_proc_slot_thread *note = &slot->threads[i];
        if (!note->named && note->name_tries < NAME_TRIES_MAX) {
            note->name_tries++;
            any = true;
        }
    }
    if (!any || !slot->target)
        return;
    struct naming naming = {slot, profile, changed, user};
    struct gsp_mem *mem = gsp_py_target_mem(slot->target);
    const struct gsp_py_layout *layout = &gsp_py_target_runtime(slot->target)->layout;
    gsp_raddr interp;
    for (size_t i = 0; (interp = gsp_py_target_interp(slot->target, i)); i++)
        gsp_ignore(gsp_py_thread_names(mem, layout, interp, set_name, &naming));
}
