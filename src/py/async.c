/* SPDX-License-Identifier: Apache-2.0 */
#include "py/async.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/time.h"
#include "py/object.h"

#define NAME_BYTES_MAX 256U
#define SET_SLOTS_MAX  (1U << 20)
#define SET_CHUNK      64U
#define TASK_BYTES_MAX 512U
#define BASES_MAX      16U

/* The debug section of asyncio, 3.14 and later: words of the sizes and offsets it tells. */
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

struct finding {
    struct gsp_py_target *target;
    struct gsp_mem *mem;
    const struct gsp_py_layout *lay;
    gsp_py_task_fn *fn;
    void *arg;
    struct gsp_hmap seen; /* tasks */
    uint64_t coro_at;     /* offset of task_coro in a task of the C module; 0 unknown */
    gsp_raddr loop;       /* whose thread was looked up last */
    uint64_t loop_thread;
    struct gsp_py_awaits chain;
    int rc; /* what ends the search */
};

/* A task as it was read. */
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

static bool is_fatal(int rc)
{
    return rc == GSP_E_NOPROC || rc == GSP_E_PERM || rc == GSP_E_NOMEM;
}

/* The name of an object's type; false if it is no object. */
static bool type_name(const struct finding *find, gsp_raddr object, struct gsp_buf *out)
{
    gsp_raddr type = 0;
    gsp_buf_clear(out);
    return object && (object & 7) == 0 &&
           gsp_mem_read_u64(find->mem, object + find->lay->object_type, &type) == GSP_OK &&
           gsp_py_type_name(find->mem, find->lay, type, out) == GSP_OK;
}

static bool has_type(const struct finding *find, gsp_raddr object, const char *name)
{
    gsp_auto_buf found = {0};
    return type_name(find, object, &found) && gsp_sv_eq(gsp_buf_sv(&found), gsp_sv_of(name));
}

/* Is it a task of the C module, or of a class made from it? */
static bool is_c_task(const struct finding *find, gsp_raddr object)
{
    gsp_auto_buf name = {0};
    gsp_raddr type = 0;
    if (object == 0 || (object & 7) != 0 ||
        gsp_mem_read_u64(find->mem, object + find->lay->object_type, &type) != GSP_OK)
        return false;
    for (size_t i = 0; type && i < BASES_MAX; i++) {
        gsp_buf_clear(&name);
        if (gsp_py_type_name(find->mem, find->lay, type, &name) != GSP_OK)
            return false;
        if (gsp_sv_eq(gsp_buf_sv(&name), gsp_sv_of("_asyncio.Task")))
            return true;
        if (gsp_mem_read_u64(find->mem, type + find->lay->type_base, &type) != GSP_OK)
            return false;
    }
    return false;
}

static bool is_coro(const struct finding *find, gsp_raddr object)
{
    return has_type(find, object, "coroutine") || has_type(find, object, "generator");
}

/* Up to 3.13 nobody tells where a task has its members, but they stand in a row that cannot be
 * mistaken: the coroutine, the name (a str, or an int that becomes one), the context. */
static bool calibrate(struct finding *find, gsp_raddr task)
{
    uint64_t words[TASK_BYTES_MAX / 8];
    gsp_raddr type = 0;
    uint64_t size = 0;
    if (gsp_mem_read_u64(find->mem, task + find->lay->object_type, &type) != GSP_OK ||
        gsp_mem_read_u64(find->mem, type + find->lay->type_basicsize, &size) != GSP_OK)
        return false;
    size_t count = size < sizeof(words) ? (size_t)size / 8 : GSP_COUNT(words);
    if (gsp_mem_read(find->mem, task, words, count * 8) != GSP_OK)
        return false;
    gsp_auto_buf name = {0};
    for (size_t i = find->lay->object_size / 8U + 1; i + 2 < count; i++) {
        if (!is_coro(find, words[i]) ||
            !(has_type(find, words[i + 1], "str") || has_type(find, words[i + 1], "int")))
            continue;
        if (type_name(find, words[i + 2], &name) && gsp_sv_ends(gsp_buf_sv(&name), "Context")) {
            find->coro_at = 8 * i;
            return true;
        }
    }
    return false;
}

static bool read_c_task(struct finding *find, gsp_raddr task, struct raw *out)
{
    uint64_t words[3];
    if (!find->coro_at && !calibrate(find, task))
        return false;
    struct gsp_mem_span spans[] = {
        {task + find->coro_at - 8, sizeof(words), words},
        {task + find->lay->object_size, 8, &out->loop},
    };
    if (gsp_mem_gather(find->mem, spans, GSP_COUNT(spans), NULL) != GSP_OK)
        return false;
    out->waiter = words[0];
    out->coro = words[1];
    out->name = words[2];
    return out->coro != 0;
}

/* A task written in Python keeps its members in its dict. */
static bool read_py_task(struct finding *find, gsp_raddr task, struct raw *out)
{
    return gsp_py_attr_find(find->mem, find->lay, task, "_coro", &out->coro) == GSP_OK &&
           gsp_py_attr_find(find->mem, find->lay, task, "_name", &out->name) == GSP_OK &&
           gsp_py_attr_find(find->mem, find->lay, task, "_fut_waiter", &out->waiter) == GSP_OK &&
           gsp_py_attr_find(find->mem, find->lay, task, "_loop", &out->loop) == GSP_OK &&
           out->coro != 0;
}

static bool read_task(struct finding *find, gsp_raddr task, struct raw *out)
{
    *out = (struct raw){0};
    return is_c_task(find, task) ? read_c_task(find, task, out) : read_py_task(find, task, out);
}

/* The name; since 3.12 one that was not given is a number until somebody asks for it. */
static void put_name(const struct finding *find, gsp_raddr name, struct gsp_buf *out)
{
    uint64_t number = 0;
    if (has_type(find, name, "int") &&
        gsp_py_uint_read(find->mem, find->lay, name, &number) == GSP_OK)
        gsp_buf_printf(out, "Task-%llu", (unsigned long long)number);
    else if (name && gsp_py_str_read(find->mem, find->lay, name, NAME_BYTES_MAX, out) != GSP_OK)
        gsp_buf_clear(out);
}

/* The thread that runs a loop. */
static uint64_t thread_of(struct finding *find, gsp_raddr loop)
{
    gsp_raddr value = 0;
    if (loop == find->loop)
        return find->loop_thread;
    find->loop = loop;
    find->loop_thread = 0;
    if (loop && gsp_py_attr_find(find->mem, find->lay, loop, "_thread_id", &value) == GSP_OK &&
        has_type(find, value, "int") &&
        gsp_py_uint_read(find->mem, find->lay, value, &find->loop_thread) != GSP_OK)
        find->loop_thread = 0;
    return find->loop_thread;
}

static void put_waiter(struct finding *find, gsp_raddr waiter, struct gsp_py_task *task,
                       struct gsp_buf *text)
{
    struct raw other = {0};
    if (is_c_task(find, waiter) && read_c_task(find, waiter, &other)) {
        put_name(find, other.name, text);
        task->waits_for_task = true;
    } else if (type_name(find, waiter, text)) {
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

/* Gives a task, if it is new and not done; false ends the walk over the register. */
static bool give(struct finding *find, gsp_raddr addr)
{
    struct raw raw;
    if (addr == 0 || (addr & 7) != 0 || gsp_hmap_get(&find->seen, addr, 0))
        return true;
    if (find->seen.count >= GSP_PY_TASKS_MAX)
        return false;
    if (!gsp_hmap_put(&find->seen, addr, 0, 1)) {
        find->rc = GSP_E_NOMEM;
        return false;
    }
    if (!read_task(find, addr, &raw))
        return true;
    find->rc =
        gsp_py_awaits_read(gsp_py_target_codes(find->target), raw.coro, gsp_now_ns(), &find->chain);
    if (find->rc != GSP_OK)
        return false;
    if (find->chain.state == GSP_PY_CORO_DONE)
        return true;
    gsp_auto_buf name = {0};
    gsp_auto_buf waiter = {0};
    struct gsp_py_task task = {.addr = addr, .chain = &find->chain};
    put_name(find, raw.name, &name);
    put_waiter(find, raw.waiter, &task, &waiter);
    task.name = gsp_buf_sv(&name);
    task.python_id = thread_of(find, raw.loop);
    task.state = state_of(&find->chain, waiter.len > 0);
    find->fn(find->arg, &task);
    return true;
}

/* ---- Registers of tasks ---- */

/* The object behind a member of a set; 0 if there is none (any more). */
static gsp_raddr member_of(const struct finding *find, gsp_raddr member, bool weak)
{
    if (!weak || member == 0)
        return member;
    gsp_raddr object = 0;
    bool is_ref = has_type(find, member, "weakref") ||
                  has_type(find, member, "weakref.ReferenceType") ||
                  has_type(find, member, "KeyedRef");
    if (!is_ref || gsp_mem_read_u64(find->mem, member + find->lay->object_size, &object) != GSP_OK)
        return 0;
    return object;
}

/* Every member of a set; those of a weak set are references to what is wanted. */
static int set_each(struct finding *find, gsp_raddr set, bool weak)
{
    uint64_t mask = 0;
    gsp_raddr table = 0;
    struct gsp_mem_span spans[] = {
        {set + find->lay->set_mask, 8, &mask},
        {set + find->lay->set_table, 8, &table},
    };
    int rc = gsp_mem_gather(find->mem, spans, GSP_COUNT(spans), NULL);
    if (rc != GSP_OK)
        return rc;
    if (mask >= SET_SLOTS_MAX || (mask & (mask + 1)) != 0)
        return GSP_E_FORMAT;
    for (uint64_t i = 0; i <= mask; i += SET_CHUNK) {
        uint64_t entries[SET_CHUNK][2]; /* key and hash */
        size_t n = mask + 1 - i < SET_CHUNK ? (size_t)(mask + 1 - i) : SET_CHUNK;
        rc = gsp_mem_read(find->mem, table + i * 16, entries, n * 16);
        if (rc != GSP_OK)
            return rc;
        for (size_t k = 0; k < n; k++) {
            if (!give(find, member_of(find, entries[k][0], weak)))
                return find->rc;
        }
    }
    return GSP_OK;
}

/* The sets that the module asyncio.tasks keeps. */
static int module_sets(struct finding *find, gsp_raddr interp)
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
    int rc = gsp_mem_read_u64(find->mem, interp + find->lay->interp_modules, &modules);
    if (rc == GSP_OK && modules)
        rc = gsp_py_dict_find(find->mem, find->lay, modules, "asyncio.tasks", &module);
    for (size_t i = 0; rc == GSP_OK && module && i < GSP_COUNT(sets); i++) {
        gsp_raddr set = 0;
        rc = gsp_py_attr_find(find->mem, find->lay, module, sets[i].name, &set);
        if (rc == GSP_OK && set && sets[i].weak)
            rc = gsp_py_attr_find(find->mem, find->lay, set, "data", &set);
        if (rc == GSP_OK && has_type(find, set, "set"))
            rc = set_each(find, set, sets[i].weak);
    }
    return rc;
}

/* A ring of nodes, each inside a task. */
static int list_each(struct finding *find, gsp_raddr head, uint64_t node_at)
{
    gsp_raddr node = 0;
    int rc = gsp_mem_read_u64(find->mem, head, &node);
    for (size_t n = 0; rc == GSP_OK && node && node != head && n < GSP_PY_TASKS_MAX; n++) {
        if (!give(find, node - node_at))
            return find->rc;
        rc = gsp_mem_read_u64(find->mem, node, &node);
    }
    return rc;
}

static bool debug_plausible(const struct finding *find, const uint64_t *words)
{
    const struct gsp_py_layout *lay = find->lay;
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

/* 3.14 and later: each thread has a list, an interpreter that of the threads which ended. */
static int debug_lists(struct finding *find, gsp_raddr section)
{
    uint64_t words[DEBUG_WORDS];
    int rc = gsp_mem_read(find->mem, section, words, sizeof(words));
    if (rc != GSP_OK)
        return rc;
    if (!debug_plausible(find, words))
        return GSP_E_FORMAT;
    find->coro_at = words[DEBUG_TASK_CORO];
    gsp_raddr interp;
    for (size_t i = 0; (interp = gsp_py_target_interp(find->target, i)); i++) {
        rc = list_each(find, interp + words[DEBUG_INTERP_HEAD], words[DEBUG_TASK_NODE]);
        if (is_fatal(rc))
            return rc;
    }
    for (size_t i = 0; i < gsp_py_target_thread_count(find->target); i++) {
        gsp_raddr tstate = gsp_py_target_thread(find->target, i)->tstate;
        rc = list_each(find, tstate + words[DEBUG_TSTATE_HEAD], words[DEBUG_TASK_NODE]);
        if (is_fatal(rc))
            return rc;
    }
    return GSP_OK;
}

int gsp_py_tasks(struct gsp_py_target *target, gsp_py_task_fn *fn, void *arg)
{
    struct finding *find = calloc(1, sizeof(*find));
    if (!find)
        return GSP_E_NOMEM;
    const struct gsp_py_runtime *run = gsp_py_target_runtime(target);
    find->target = target;
    find->mem = gsp_py_target_mem(target);
    find->lay = &run->layout;
    find->fn = fn;
    find->arg = arg;
    int rc = run->asyncio_debug ? debug_lists(find, run->asyncio_debug) : GSP_OK;
    gsp_raddr interp;
    for (size_t i = 0; !is_fatal(rc) && (interp = gsp_py_target_interp(target, i)); i++)
        rc = module_sets(find, interp);
    gsp_hmap_free(&find->seen);
    free(find);
    return is_fatal(rc) ? rc : GSP_OK;
}
