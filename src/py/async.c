/* SPDX-License-Identifier: Apache-2.0 */
#include "py/async.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/time.h"
#include "py/object.h"
#include "py/object_internal.h"

#define NAME_BYTES_MAX 256U
#define SET_SLOTS_MAX  (1U << 20)
#define SET_CHUNK      64U
/* Entries of all registries, repetitions included: a hostile target may link them in circles. */
#define ENTRIES_MAX    (4UL * GSP_PY_TASKS_MAX)
#define TASK_BYTES_MAX 512U
#define BASES_MAX      16U

/* The debug section of asyncio, 3.14 and later: words that hold sizes and offsets. */
#define DEBUG_WORDS    13U
enum {
    DEBUG_TASK_SIZE = 0,
    DEBUG_TASK_CORO = 5,
    DEBUG_TASK_NODE = 6,
    DEBUG_INTERP_SIZE = 7,
    DEBUG_INTERP_HEAD = 8,
    DEBUG_TSTATE_SIZE = 9,
    DEBUG_TSTATE_HEAD = 12,
};

struct search {
    struct gsp_py_target *target;
    struct gsp_mem *mem;
    const struct gsp_py_layout *lay;
    gsp_py_task_fn *fn;
    gsp_py_enough_fn *is_enough; /* or NULL */
    void *arg;
    struct gsp_hmap seen; /* tasks */
    uint64_t slots;       /* of the sets read so far */
    size_t entries;       /* of the registries read so far */
    uint64_t coro_at;     /* offset of task_coro in a task of the C module; 0 if unknown */
    gsp_raddr loop;       /* the event loop looked up last, and its thread */
    uint64_t loop_thread;
    struct gsp_py_awaits chain;
    int rc; /* the failure that ended the search */
};

/* Members of a task. */
struct raw {
    gsp_raddr coro;
    gsp_raddr name;
    gsp_raddr waiter;
    gsp_raddr loop;
};

const char *gsp_py_task_state_name(enum gsp_py_task_state state)
{
    static const char *const names[] = {"unknown", "new", "ready", "waiting", "running"};
    return (size_t)state < GSP_COUNT(names) ? names[state] : names[0];
}

/* Reads the name of an object's type. Returns false if it is not an object. */
static bool type_name(const struct search *search, gsp_raddr object, struct gsp_buf *out)
{
    gsp_raddr type = 0;
    gsp_buf_clear(out);
    return object && (object & 7) == 0 &&
           gsp_proc_mem_read_u64(search->mem, object + search->lay->object_type, &type) == GSP_OK &&
           gsp_py__type_name(search->mem, search->lay, type, out) == GSP_OK;
}

static bool has_type(const struct search *search, gsp_raddr object, const char *name)
{
    gsp_auto_buf found = {0};
    return type_name(search, object, &found) && gsp_sv_eq(gsp_buf_sv(&found), gsp_sv_of(name));
}

/* Returns whether the object is an instance of the C module's Task or of a subclass. */
static bool is_c_task(const struct search *search, gsp_raddr object)
{
    gsp_auto_buf name = {0};
    gsp_raddr type = 0;
    if (object == 0 || (object & 7) != 0 ||
        gsp_proc_mem_read_u64(search->mem, object + search->lay->object_type, &type) != GSP_OK)
        return false;
    for (size_t i = 0; type && i < BASES_MAX; i++) {
        gsp_buf_clear(&name);
        if (gsp_py__type_name(search->mem, search->lay, type, &name) != GSP_OK)
            return false;
        if (gsp_sv_eq(gsp_buf_sv(&name), gsp_sv_of("_asyncio.Task")))
            return true;
        if (gsp_proc_mem_read_u64(search->mem, type + search->lay->type_base, &type) != GSP_OK)
            return false;
    }
    return false;
}

static bool is_coro(const struct search *search, gsp_raddr object)
{
    return has_type(search, object, "coroutine") || has_type(search, object, "generator");
}

/* Up to 3.13 the offsets of a task's members are not published, but three adjacent members have
 * recognizable types: the coroutine, the name (a str, or an int until it is read), the context. */
static bool calibrate(struct search *search, gsp_raddr task)
{
    uint64_t words[TASK_BYTES_MAX / 8];
    gsp_raddr type = 0;
    uint64_t size = 0;
    if (gsp_proc_mem_read_u64(search->mem, task + search->lay->object_type, &type) != GSP_OK ||
        gsp_proc_mem_read_u64(search->mem, type + search->lay->type_basicsize, &size) != GSP_OK)
        return false;
    size_t count = size < sizeof(words) ? (size_t)size / 8 : GSP_COUNT(words);
    if (gsp_proc_mem_read(search->mem, task, words, count * 8) != GSP_OK)
        return false;
    gsp_auto_buf name = {0};
    for (size_t i = search->lay->object_size / 8U + 1; i + 2 < count; i++) {
        if (!is_coro(search, words[i]) ||
            !(has_type(search, words[i + 1], "str") || has_type(search, words[i + 1], "int")))
            continue;
        if (type_name(search, words[i + 2], &name) && gsp_sv_ends(gsp_buf_sv(&name), "Context")) {
            search->coro_at = 8 * i;
            return true;
        }
    }
    return false;
}

static bool read_c_task(struct search *search, gsp_raddr task, struct raw *out)
{
    uint64_t words[3];
    if (!search->coro_at && !calibrate(search, task))
        return false;
    struct gsp_mem_span spans[] = {
        {task + search->coro_at - 8, sizeof(words), words},
        {task + search->lay->object_size, 8, &out->loop},
    };
    if (gsp_proc_mem_gather(search->mem, spans, GSP_COUNT(spans), NULL) != GSP_OK)
        return false;
    out->waiter = words[0];
    out->coro = words[1];
    out->name = words[2];
    return out->coro != 0;
}

/* A task class written in Python keeps its members in the instance dict. */
static bool read_py_task(struct search *search, gsp_raddr task, struct raw *out)
{
    return gsp_py__attr_find(search->mem, search->lay, task, "_coro", &out->coro) == GSP_OK &&
           gsp_py__attr_find(search->mem, search->lay, task, "_name", &out->name) == GSP_OK &&
           gsp_py__attr_find(search->mem, search->lay, task, "_fut_waiter", &out->waiter) ==
               GSP_OK &&
           gsp_py__attr_find(search->mem, search->lay, task, "_loop", &out->loop) == GSP_OK &&
           out->coro != 0;
}

static bool read_task(struct search *search, gsp_raddr task, struct raw *out)
{
    *out = (struct raw){0};
    return is_c_task(search, task) ? read_c_task(search, task, out)
                                   : read_py_task(search, task, out);
}

/* Since 3.12 a default name is stored as a number until it is read. */
static void put_name(const struct search *search, gsp_raddr name, struct gsp_buf *out)
{
    uint64_t number = 0;
    if (has_type(search, name, "int") &&
        gsp_py__uint_read(search->mem, search->lay, name, &number) == GSP_OK)
        gsp_buf_printf(out, "Task-%llu", (unsigned long long)number);
    else if (name &&
             gsp_py__str_read(search->mem, search->lay, name, NAME_BYTES_MAX, out) != GSP_OK)
        gsp_buf_clear(out);
}

/* The thread that runs an event loop; 0 if unknown. */
static uint64_t thread_of(struct search *search, gsp_raddr loop)
{
    gsp_raddr value = 0;
    if (loop == search->loop)
        return search->loop_thread;
    search->loop = loop;
    search->loop_thread = 0;
    if (loop && gsp_py__attr_find(search->mem, search->lay, loop, "_thread_id", &value) == GSP_OK &&
        has_type(search, value, "int") &&
        gsp_py__uint_read(search->mem, search->lay, value, &search->loop_thread) != GSP_OK)
        search->loop_thread = 0;
    return search->loop_thread;
}

static void put_waiter(struct search *search, gsp_raddr waiter, struct gsp_py_task *task,
                       struct gsp_buf *text)
{
    struct raw other = {0};
    if (is_c_task(search, waiter) && read_c_task(search, waiter, &other)) {
        put_name(search, other.name, text);
        task->waits_for_task = true;
    } else if (type_name(search, waiter, text)) {
        if (gsp_sv_eq(gsp_buf_sv(text), gsp_sv_of("NoneType")))
            gsp_buf_clear(text);
    }
    task->waits_for = gsp_buf_sv(text);
}

static enum gsp_py_task_state state_of(const struct gsp_py_awaits *chain, bool waits)
{
    switch (chain->state) {
    case GSP_PY_CORO_NEW:
        return GSP_PY_TASK_NEW;
    case GSP_PY_CORO_RUNNING:
        return GSP_PY_TASK_RUNNING;
    case GSP_PY_CORO_SUSPENDED:
        return waits ? GSP_PY_TASK_WAITING : GSP_PY_TASK_READY;
    case GSP_PY_CORO_UNKNOWN:
    case GSP_PY_CORO_DONE:
        break;
    }
    return waits ? GSP_PY_TASK_WAITING : GSP_PY_TASK_UNKNOWN;
}

/* Reports a task if it is new and not done. Returns false to end the walk over the registry. */
static bool report_task(struct search *search, gsp_raddr addr)
{
    struct raw raw;
    if (addr == 0 || (addr & 7) != 0 || gsp_hmap_get(&search->seen, addr, 0))
        return true;
    if (search->seen.count >= GSP_PY_TASKS_MAX ||
        (search->is_enough && search->is_enough(search->arg)))
        return false;
    if (!gsp_hmap_put(&search->seen, addr, 0, 1)) {
        search->rc = GSP_E_NOMEM;
        return false;
    }
    if (!read_task(search, addr, &raw))
        return true;
    search->rc = gsp_py__awaits_read(gsp_py_target_codes(search->target), raw.coro, gsp_now_ns(),
                                     &search->chain);
    if (search->rc != GSP_OK)
        return false;
    if (search->chain.state == GSP_PY_CORO_DONE)
        return true;
    gsp_auto_buf name = {0};
    gsp_auto_buf waiter = {0};
    struct gsp_py_task task = {.addr = addr, .chain = &search->chain};
    put_name(search, raw.name, &name);
    put_waiter(search, raw.waiter, &task, &waiter);
    task.name = gsp_buf_sv(&name);
    task.python_id = thread_of(search, raw.loop);
    task.state = state_of(&search->chain, waiter.len > 0);
    search->fn(search->arg, &task);
    return true;
}

/* ---- Task registries ---- */

/* Dereferences a member of a weak set; 0 if its object has been freed. */
static gsp_raddr member_of(const struct search *search, gsp_raddr member, bool weak)
{
    if (!weak || member == 0)
        return member;
    gsp_raddr object = 0;
    bool is_ref = has_type(search, member, "weakref") ||
                  has_type(search, member, "weakref.ReferenceType") ||
                  has_type(search, member, "KeyedRef");
    if (!is_ref ||
        gsp_proc_mem_read_u64(search->mem, member + search->lay->object_size, &object) != GSP_OK)
        return 0;
    return object;
}

/* Reports every member of a set. The members of a weak set are references to tasks. */
static int set_each(struct search *search, gsp_raddr set, bool weak)
{
    uint64_t mask = 0;
    gsp_raddr table = 0;
    struct gsp_mem_span spans[] = {
        {set + search->lay->set_mask, 8, &mask},
        {set + search->lay->set_table, 8, &table},
    };
    int rc = gsp_proc_mem_gather(search->mem, spans, GSP_COUNT(spans), NULL);
    if (rc != GSP_OK)
        return rc;
    if (mask >= SET_SLOTS_MAX || (mask & (mask + 1)) != 0 || search->slots + mask >= SET_SLOTS_MAX)
        return GSP_E_FORMAT;
    search->slots += mask + 1;
    for (uint64_t i = 0; i <= mask; i += SET_CHUNK) {
        uint64_t entries[SET_CHUNK][2]; /* key and hash */
        size_t n = mask + 1 - i < SET_CHUNK ? (size_t)(mask + 1 - i) : SET_CHUNK;
        rc = gsp_proc_mem_read(search->mem, table + i * 16, entries, n * 16);
        if (rc != GSP_OK)
            return rc;
        for (size_t k = 0; k < n; k++) {
            if (entries[k][0] == 0)
                continue;
            if (search->entries++ >= ENTRIES_MAX ||
                !report_task(search, member_of(search, entries[k][0], weak)))
                return search->rc;
        }
    }
    return GSP_OK;
}

/* Walks the sets of the module asyncio.tasks. */
static int module_sets(struct search *search, gsp_raddr interp)
{
    static const struct {
        const char *name;
        bool weak;
    } sets[] = {
        {"_all_tasks", true},       /* up to 3.11 */
        {"_scheduled_tasks", true}, /* 3.12 and later */
        {"_eager_tasks", false},
    };
    gsp_raddr modules = 0;
    gsp_raddr module = 0;
    int rc = gsp_proc_mem_read_u64(search->mem, interp + search->lay->interp_modules, &modules);
    if (rc == GSP_OK && modules)
        rc = gsp_py__dict_find(search->mem, search->lay, modules, "asyncio.tasks", &module);
    for (size_t i = 0; rc == GSP_OK && module && i < GSP_COUNT(sets); i++) {
        gsp_raddr set = 0;
        rc = gsp_py__attr_find(search->mem, search->lay, module, sets[i].name, &set);
        if (rc == GSP_OK && set && sets[i].weak)
            rc = gsp_py__attr_find(search->mem, search->lay, set, "data", &set);
        if (rc == GSP_OK && has_type(search, set, "set"))
            rc = set_each(search, set, sets[i].weak);
    }
    return rc;
}

/* Walks a circular list of nodes, each embedded in a task. */
static int list_each(struct search *search, gsp_raddr head, uint64_t node_at)
{
    gsp_raddr node = 0;
    int rc = gsp_proc_mem_read_u64(search->mem, head, &node);
    for (; rc == GSP_OK && node && node != head && search->entries < ENTRIES_MAX;
         search->entries++) {
        if (!report_task(search, node - node_at))
            return search->rc;
        rc = gsp_proc_mem_read_u64(search->mem, node, &node);
    }
    return rc;
}

static bool debug_plausible(const struct search *search, const uint64_t *words)
{
    const struct gsp_py_layout *lay = search->lay;
    return words[DEBUG_TASK_SIZE] <= TASK_BYTES_MAX &&
           words[DEBUG_TASK_CORO] >= lay->object_size + 8U &&
           words[DEBUG_TASK_CORO] + 16 <= words[DEBUG_TASK_SIZE] &&
           words[DEBUG_TASK_NODE] + 16 <= words[DEBUG_TASK_SIZE] &&
           words[DEBUG_TASK_CORO] % 8 == 0 && words[DEBUG_TASK_NODE] % 8 == 0 &&
           words[DEBUG_INTERP_SIZE] <= (64U << 20) &&
           words[DEBUG_INTERP_HEAD] < words[DEBUG_INTERP_SIZE] &&
           words[DEBUG_TSTATE_SIZE] <= (1U << 20) &&
           words[DEBUG_TSTATE_HEAD] < words[DEBUG_TSTATE_SIZE];
}

/* 3.14 and later: each thread has a list; each interpreter has one for the threads that ended. */
static int debug_lists(struct search *search, gsp_raddr section)
{
    uint64_t words[DEBUG_WORDS];
    int rc = gsp_proc_mem_read(search->mem, section, words, sizeof(words));
    if (rc != GSP_OK)
        return rc;
    if (!debug_plausible(search, words))
        return GSP_E_FORMAT;
    search->coro_at = words[DEBUG_TASK_CORO];
    gsp_raddr interp;
    for (size_t i = 0; (interp = gsp_py_target_interp(search->target, i)); i++) {
        rc = list_each(search, interp + words[DEBUG_INTERP_HEAD], words[DEBUG_TASK_NODE]);
        if (gsp_py__is_fatal(rc))
            return rc;
    }
    for (size_t i = 0; i < gsp_py_target_thread_count(search->target); i++) {
        gsp_raddr tstate = gsp_py_target_thread(search->target, i)->tstate;
        rc = list_each(search, tstate + words[DEBUG_TSTATE_HEAD], words[DEBUG_TASK_NODE]);
        if (gsp_py__is_fatal(rc))
            return rc;
    }
    return GSP_OK;
}

int gsp_py_tasks(struct gsp_py_target *target, gsp_py_task_fn *fn, gsp_py_enough_fn *is_enough,
                 void *arg)
{
    struct search *search = calloc(1, sizeof(*search));
    if (!search)
        return GSP_E_NOMEM;
    const struct gsp_py_runtime *run = gsp_py_target_runtime(target);
    search->target = target;
    search->mem = gsp_py_target_mem(target);
    search->lay = &run->layout;
    search->fn = fn;
    search->is_enough = is_enough;
    search->arg = arg;
    int rc = run->asyncio_debug ? debug_lists(search, run->asyncio_debug) : GSP_OK;
    gsp_raddr interp;
    for (size_t i = 0; !gsp_py__is_fatal(rc) && (interp = gsp_py_target_interp(target, i)); i++)
        rc = module_sets(search, interp);
    gsp_hmap_free(&search->seen);
    free(search);
    return gsp_py__is_fatal(rc) ? rc : GSP_OK;
}
