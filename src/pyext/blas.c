/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks in one library's table of functions, and what they counted, for Python. */
#include "pyext/blas.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "pyext/pyapi.h"

#if defined(__x86_64__)
#define RELOC_SLOT R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#else
#define RELOC_SLOT R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#endif

/* What is needed of a library's dynamic section, as the linker laid it out. */
struct library {
    const char *path; /* looked for */
    uintptr_t base;
    uintptr_t end;
    const ElfW(Rela) * tables[2];
    size_t counts[2];
    const ElfW(Sym) * symbols;
    const char *strings;
};

static void read_dynamic(struct library *library, const ElfW(Dyn) * at)
{
    for (; at->d_tag != DT_NULL; at++) {
        const void *pointer = (const void *)at->d_un.d_ptr;
        if (at->d_tag == DT_JMPREL) {
            library->tables[0] = pointer;
        } else if (at->d_tag == DT_PLTRELSZ) {
            library->counts[0] = at->d_un.d_val / sizeof(ElfW(Rela));
        } else if (at->d_tag == DT_RELA) {
            library->tables[1] = pointer;
        } else if (at->d_tag == DT_RELASZ) {
            library->counts[1] = at->d_un.d_val / sizeof(ElfW(Rela));
        } else if (at->d_tag == DT_SYMTAB) {
            library->symbols = pointer;
        } else if (at->d_tag == DT_STRTAB) {
            library->strings = pointer;
        }
    }
}

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct library *library = arg;
    if (!info->dlpi_name || strcmp(info->dlpi_name, library->path) != 0) {
        return 0;
    }
    library->base = info->dlpi_addr;
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && start + part->p_memsz > library->end) {
            library->end = start + part->p_memsz;
        } else if (part->p_type == PT_DYNAMIC) {
            read_dynamic(library, (const ElfW(Dyn) *)start);
        }
    }
    return 1;
}

/* Which hook is for a symbol, by a name as scipy_cblas_dgemm64_ or cblas_dgemm; NULL: none. */
static const struct gsp_blas_hook *hook_for(const char *symbol)
{
    static const char PREFIX[] = "scipy_";
    if (strncmp(symbol, PREFIX, sizeof(PREFIX) - 1) == 0) {
        symbol += sizeof(PREFIX) - 1;
    }
    size_t count = 0;
    const struct gsp_blas_hook *hooks = gsp_pyext__blas_hooks(&count);
    for (size_t i = 0; i < count; i++) {
        const size_t len = strlen(hooks[i].name);
        if (strncmp(symbol, hooks[i].name, len) == 0 &&
            strcmp(symbol + len, hooks[i].is_wide ? "64_" : "") == 0) {
            return &hooks[i];
        }
    }
    return NULL;
}

/* Through the file of the process's memory: these pages are read-only, and nobody is to find them
 * otherwise.  One word, aligned, so who calls through it meets the old or the new. */
static bool write_slot(int mem_fd, uintptr_t slot, uintptr_t value)
{
    return pwrite(mem_fd, &value, sizeof(value), (off_t)slot) == (ssize_t)sizeof(value);
}

/* Puts the hook into a slot, or what it calls back into it; false: the slot is left as it is. */
static bool change_slot(const struct library *library, uintptr_t slot,
                        const struct gsp_blas_hook *hook, bool put, int mem_fd)
{
    const uintptr_t value = *(const uintptr_t *)slot;
    if (!put) {
        return value == hook->hook && write_slot(mem_fd, slot, *hook->real);
    }
    /* One that is not yet bound leads back into the library, and would undo the hook. */
    const bool is_lazy = value >= library->base && value < library->end;
    const bool is_other = *hook->real != 0 && *hook->real != value;
    if (value == hook->hook || is_lazy || is_other) {
        return false;
    }
    *hook->real = value;
    return write_slot(mem_fd, slot, hook->hook);
}

static long change_slots(const struct library *library, bool put, int mem_fd)
{
    long changed = 0;
    for (size_t t = 0; t < GSP_COUNT(library->tables); t++) {
        const ElfW(Rela) *rela = library->tables[t];
        for (size_t i = 0; rela && i < library->counts[t]; i++) {
            const uint64_t type = ELF64_R_TYPE(rela[i].r_info);
            const uint64_t symbol = ELF64_R_SYM(rela[i].r_info);
            if (symbol == 0 || (type != RELOC_SLOT && type != RELOC_DATA)) {
                continue;
            }
            const struct gsp_blas_hook *hook =
                hook_for(library->strings + library->symbols[symbol].st_name);
            if (hook && change_slot(library, library->base + rela[i].r_offset, hook, put, mem_fd)) {
                changed++;
            }
        }
    }
    return changed;
}

static PyObject *blas_hook(PyObject *module, PyObject *args)
{
    (void)module;
    struct library library = {0};
    int put = 0;
    if (!PyArg_ParseTuple(args, "si", &library.path, &put)) {
        return NULL;
    }
    long changed = 0;
    gsp_auto_fd mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (mem_fd >= 0 && dl_iterate_phdr(find_library, &library) && library.symbols &&
        library.strings) {
        changed = change_slots(&library, put != 0, mem_fd);
    }
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
     "blas_hook(path, put) -> how many calls of that library to BLAS are now counted, or no more"},
    {"blas_counts", blas_counts, METH_NOARGS,
     "blas_counts() -> (calls, gemm, gemv, syrk, dot), operations of this thread"},
    {NULL, NULL, 0, NULL},
};

int gsp_pyext__blas_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
