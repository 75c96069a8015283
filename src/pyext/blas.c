/* SPDX-License-Identifier: Apache-2.0 */
/* Installs the hooks in a library's relocation slots, and returns their counts to Python. */
#include "pyext/blas.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/slots.h"
#include "pyext/pyapi.h"

struct library {
    const char *path; /* of the library to find */
    struct gsp_slots slots;
};

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct library *library = arg;
    const bool found = info->dlpi_name && strcmp(info->dlpi_name, library->path) == 0;
    return found && gsp_slots_read(info, &library->slots);
}

/* Returns the hook for a symbol such as scipy_cblas_dgemm64_ or cblas_dgemm; NULL: none. */
static const struct gsp_blas_hook *hook_for(const char *symbol)
{
    static const char PREFIX[] = "scipy_";
    if (strncmp(symbol, PREFIX, sizeof(PREFIX) - 1) == 0)
        symbol += sizeof(PREFIX) - 1;
    size_t count = 0;
    const struct gsp_blas_hook *hooks = gsp_pyext__blas_hooks(&count);
    for (size_t i = 0; i < count; i++) {
        const size_t len = strlen(hooks[i].name);
        if (strncmp(symbol, hooks[i].name, len) == 0 &&
            strcmp(symbol + len, hooks[i].is_wide ? "64_" : "") == 0)
            return &hooks[i];
    }
    return NULL;
}

/* Writes the hook, or the original, to a slot; returns false if the slot is unchanged. */
static bool change_slot(const struct gsp_slots *slots, uintptr_t slot,
                        const struct gsp_blas_hook *hook, bool put, int mem_fd)
{
    const uintptr_t value = *(const uintptr_t *)slot;
    if (!put)
        return value == hook->hook && gsp_slots_write(slots, slot, *hook->real, mem_fd);
    /* A lazy slot points into its own library; binding it would overwrite the hook. */
    const bool is_lazy = gsp_slots_hold(slots, value);
    const bool is_other = *hook->real != 0 && *hook->real != value;
    if (value == hook->hook || is_lazy || is_other)
        return false;
    *hook->real = value;
    return gsp_slots_write(slots, slot, hook->hook, mem_fd);
}

static long change_slots(const struct gsp_slots *slots, bool put, int mem_fd)
{
    long changed = 0;
    for (size_t t = 0; t < GSP_COUNT(slots->tables); t++) {
        const ElfW(Rela) *rela = slots->tables[t];
        for (size_t i = 0; i < slots->counts[t]; i++) {
            const uint64_t type = ELF64_R_TYPE(rela[i].r_info);
            if (ELF64_R_SYM(rela[i].r_info) == 0 ||
                (type != GSP_SLOT_CALL && type != GSP_SLOT_POINTER))
                continue;
            const struct gsp_blas_hook *hook = hook_for(gsp_slots_name(slots, &rela[i]));
            if (hook && change_slot(slots, slots->base + rela[i].r_offset, hook, put, mem_fd))
                changed++;
        }
    }
    return changed;
}

static PyObject *blas_hook(PyObject *module, PyObject *args)
{
    (void)module;
    struct library library = {0};
    int put = 0;
    if (!PyArg_ParseTuple(args, "si", &library.path, &put))
        return NULL;
    long changed = 0;
    gsp_auto_fd mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (mem_fd >= 0 && dl_iterate_phdr(find_library, &library))
        changed = change_slots(&library.slots, put != 0, mem_fd);
    return PyLong_FromLong(changed);
}

static PyObject *blas_counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const struct gsp_blas_counts *counts = gsp_pyext__blas_counts();
    return Py_BuildValue("(KKKKK)", (unsigned long long)counts->calls,
                         (unsigned long long)counts->flops[GSP_BLAS_GEMM],
                         (unsigned long long)counts->flops[GSP_BLAS_GEMV],
                         (unsigned long long)counts->flops[GSP_BLAS_SYRK],
                         (unsigned long long)counts->flops[GSP_BLAS_DOT]);
}

static PyMethodDef functions[] = {
    {"blas_hook", blas_hook, METH_VARARGS,
     "blas_hook(path, put) -> int\n\nInstalls or removes the hooks; returns the number of slots."},
    {"blas_counts", blas_counts, METH_NOARGS,
     "blas_counts() -> (calls, gemm, gemv, syrk, dot)\n\nOperations of this thread."},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__blas_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
