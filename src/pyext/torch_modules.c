/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "pyext/torch.h"

struct slot {
    _Atomic(const PyObject *) key; /* NULL: never used; GONE: removed */
    struct gsp_torch_module *module;
};

struct table {
    size_t mask;
    size_t used; /* slots with a key or GONE */
    struct slot slots[];
};

static _Atomic(struct table *) table_now;
static size_t count_now;
static atomic_flag changing = ATOMIC_FLAG_INIT;

#define FIRST_SLOTS 256U
/* Without the GIL, threads wait for a change of the table, which takes some hundred instructions. A
 * fork during a change leaves the flag set in the child for ever, so the wait is bounded. */
#define TRIES_MAX   1000000

static const char gone_mark;
#define GONE ((const PyObject *)(const void *)&gone_mark)

static void lock(void)
{
#ifdef GSP_FREE_THREADED
    for (int i = 0; i < TRIES_MAX && atomic_flag_test_and_set(&changing); i++) {
    }
#else
    (void)atomic_flag_test_and_set(&changing);
#endif
}

static void unlock(void)
{
    atomic_flag_clear(&changing);
}

/* Without the GIL, another thread may still read replaced memory: never freed. */
static void release(void *memory)
{
#ifdef GSP_FREE_THREADED
    (void)memory;
#else
    free(memory);
#endif
}

static size_t hash_of(const PyObject *module)
{
    return (size_t)gsp_mix64((uint64_t)(uintptr_t)module);
}

static struct slot *find_slot(struct table *table, const PyObject *module)
{
    for (size_t i = hash_of(module);; i++) {
        struct slot *slot = &table->slots[i & table->mask];
        /* Acquire, with the release in fill_slot(): the module is written before its key. */
        const PyObject *key = atomic_load_explicit(&slot->key, memory_order_acquire);
        if (key == module)
            return slot;
        if (!key)
            return NULL;
    }
}

struct gsp_torch_module *gsp_pyext__torch_module_find(const PyObject *module)
{
    /* Acquire, with the release in grow(). */
    struct table *table = atomic_load_explicit(&table_now, memory_order_acquire);
    struct slot *slot = table ? find_slot(table, module) : NULL;
    return slot ? slot->module : NULL;
}

size_t gsp_pyext__torch_module_count(void)
{
    return count_now;
}

static void fill_slot(struct table *table, const PyObject *key, struct gsp_torch_module *module)
{
    for (size_t i = hash_of(key);; i++) {
        struct slot *slot = &table->slots[i & table->mask];
        const PyObject *old = atomic_load_explicit(&slot->key, memory_order_relaxed);
        if (old && old != GONE)
            continue;
        table->used += old ? 0 : 1;
        slot->module = module;
        atomic_store_explicit(&slot->key, key, memory_order_release);
        return;
    }
}

/* Returns a table with a free slot. */
static struct table *grow(struct table *old)
{
    if (old && old->used < (old->mask + 1) / 2)
        return old;
    size_t size = FIRST_SLOTS;
    while (size < count_now * 4)
        size *= 2;
    struct table *table = calloc(1, sizeof(*table) + size * sizeof(table->slots[0]));
    if (!table)
        return NULL;
    table->mask = size - 1;
    for (size_t i = 0; old && i <= old->mask; i++) {
        const PyObject *key = atomic_load_explicit(&old->slots[i].key, memory_order_relaxed);
        if (key && key != GONE)
            fill_slot(table, key, old->slots[i].module);
    }
    atomic_store_explicit(&table_now, table, memory_order_release);
    release(old);
    return table;
}

static void free_module(struct gsp_torch_module *module)
{
    if (module) {
        Py_XDECREF(module->weak);
        free(module->path);
        free(module->class_name);
        free(module->model);
        free(module);
    }
}

/* The callback of a module's weak reference; self is its address as an int. */
static PyObject *remove_module(PyObject *address, PyObject *weak)
{
    (void)weak;
    const PyObject *key = PyLong_AsVoidPtr(address);
    lock();
    struct table *table = atomic_load_explicit(&table_now, memory_order_acquire);
    struct slot *slot = key && table ? find_slot(table, key) : NULL;
    struct gsp_torch_module *module = slot ? slot->module : NULL;
    if (slot) {
        atomic_store_explicit(&slot->key, GONE, memory_order_release);
        count_now--;
    }
    unlock();
    free_module(module);
    Py_RETURN_NONE;
}

static PyMethodDef remove_def = {"remove", remove_module, METH_O, NULL};

static PyObject *make_weak(PyObject *module)
{
    PyObject *address = PyLong_FromVoidPtr(module);
    PyObject *callback = address ? PyCFunction_NewEx(&remove_def, address, NULL) : NULL;
    PyObject *weak = callback ? PyWeakref_NewRef(module, callback) : NULL;
    Py_XDECREF(callback);
    Py_XDECREF(address);
    return weak;
}

static bool describe(struct gsp_torch_module *known, struct gsp_sv path, struct gsp_sv class_name,
                     struct gsp_sv device)
{
    char *path_copy = gsp_sv_dup(path);
    char *class_copy = gsp_sv_dup(class_name);
    if (!path_copy || !class_copy) {
        free(path_copy);
        free(class_copy);
        return false;
    }
    release(known->path);
    release(known->class_name);
    known->path = path_copy;
    known->class_name = class_copy;
    const size_t len = device.len < sizeof(known->device) ? device.len : 0;
    memcpy(known->device, device.p ? device.p : "", len);
    known->device[len] = '\0';
    /* The next call sets the ids and `selected`. */
    known->stamp = 0;
    known->filters = 0;
    return true;
}

static struct gsp_torch_module *add(PyObject *module, struct gsp_sv path, struct gsp_sv class_name,
                                    struct gsp_sv device)
{
    struct gsp_torch_module *known = calloc(1, sizeof(*known));
    if (!known || !describe(known, path, class_name, device)) {
        free_module(known);
        PyErr_NoMemory();
        return NULL;
    }
    known->last_step = -1;
    known->weak = make_weak(module);
    if (!known->weak) {
        free_module(known);
        return NULL;
    }
    lock();
    struct table *table = grow(atomic_load_explicit(&table_now, memory_order_relaxed));
    if (table) {
        fill_slot(table, module, known);
        count_now++;
    }
    unlock();
    if (!table) {
        free_module(known);
        PyErr_NoMemory();
        return NULL;
    }
    return known;
}

struct gsp_torch_module *gsp_pyext__torch_module_put(PyObject *module, struct gsp_sv path,
                                                     struct gsp_sv class_name, struct gsp_sv device)
{
    struct gsp_torch_module *known = gsp_pyext__torch_module_find(module);
    if (!known)
        return add(module, path, class_name, device);
    if (!describe(known, path, class_name, device)) {
        PyErr_NoMemory();
        return NULL;
    }
    return known;
}
