/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_modules.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/mem_count.h"
#include "agent/mem_tables.h"
#include "base/file.h"

#if defined(__x86_64__)
#define RELOC_SLOT R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#define RELOC_WORD R_X86_64_64
#else
#define RELOC_SLOT R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#define RELOC_WORD R_AARCH64_ABS64
#endif

#define MODULES_MAX 1024U
#define NAME_BYTES  56U
/* Rounds after which a module that looks half loaded is believed to be whole. */
#define TRIES_MAX   100U

static struct module {
    uintptr_t start;
    uintptr_t end;
    uintptr_t base;
    uint32_t frame;      /* in the tables of: */
    uint32_t generation; /* 0: not yet asked for */
    bool is_done;        /* its slots have been looked at */
    uint32_t tries;      /* rounds that found it half loaded */
    uint32_t round;      /* the last that saw it */
    uintptr_t hooked;    /* a slot that was changed; 0: none */
    char name[NAME_BYTES];
} modules[MODULES_MAX];

static size_t module_count; /* guarded by the engine's lock, as are the modules */
static uint32_t round_number;
static struct gsp_agent__hook *hooks;
static size_t hook_count;
static uintptr_t python_at;
static _Atomic uint32_t looking;
static unsigned long long seen_adds;
static unsigned long long seen_subs;

/* What one module's dynamic section tells. */
struct dynamic {
    uintptr_t base;
    uintptr_t start;
    uintptr_t end;
    uintptr_t relro_start;
    uintptr_t relro_end;
    const ElfW(Rela) * plt;
    size_t plt_count;
    const ElfW(Rela) * data;
    size_t data_count;
    const ElfW(Sym) * symbols;
    const char *strings;
    bool is_ours;
};

/* One round over all modules. */
struct round {
    bool unhook;
    bool is_whole;  /* no module was found half loaded */
    bool some_left; /* modules have gone since the last round */
    int mem_fd;
    uintptr_t hooked; /* a slot that was changed in this module */
};

/* -------------------------------------------------------------------------- reading modules */

static uintptr_t page_down(uintptr_t address)
{
    return address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/* The linker has added the base to these pointers already, but for the vDSO's. */
static uintptr_t pointer_of(const struct dynamic *dyn, ElfW(Addr) value)
{
    return value >= dyn->base ? value : dyn->base + value;
}

static void read_dynamic(struct dynamic *dyn, const ElfW(Dyn) * at)
{
    size_t relative = 0;
    for (; at->d_tag != DT_NULL; at++) {
        const uintptr_t pointer = pointer_of(dyn, at->d_un.d_ptr);
        switch (at->d_tag) {
        case DT_JMPREL:
            dyn->plt = (const ElfW(Rela) *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        case DT_PLTRELSZ:
            dyn->plt_count = at->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            dyn->data = (const ElfW(Rela) *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        case DT_RELASZ:
            dyn->data_count = at->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELACOUNT:
            relative = at->d_un.d_val;
            break;
        case DT_SYMTAB:
            dyn->symbols = (const ElfW(Sym) *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        case DT_STRTAB:
            dyn->strings = (const char *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        default:
            break;
        }
    }
    /* These come first, and have no names. */
    if (dyn->data && relative <= dyn->data_count) {
        dyn->data += relative;
        dyn->data_count -= relative;
    }
}

static bool read_module(const struct dl_phdr_info *info, struct dynamic *dyn)
{
    const ElfW(Dyn) *section = NULL;
    memset(dyn, 0, sizeof(*dyn));
    dyn->base = info->dlpi_addr;
    dyn->start = UINTPTR_MAX;
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD) {
            dyn->start = start < dyn->start ? start : dyn->start;
            dyn->end = start + part->p_memsz > dyn->end ? start + part->p_memsz : dyn->end;
        } else if (part->p_type == PT_DYNAMIC) {
            section = (const ElfW(Dyn) *)start; // NOLINT(performance-no-int-to-ptr)
        } else if (part->p_type == PT_GNU_RELRO) {
            dyn->relro_start = page_down(start);
            dyn->relro_end = page_down(start + part->p_memsz);
        }
    }
    if (section) {
        read_dynamic(dyn, section);
    }
    const uintptr_t ours = (uintptr_t)&module_count;
    dyn->is_ours = ours >= dyn->start && ours < dyn->end;
    return section && dyn->symbols && dyn->strings;
}

static const char *name_of(const struct dynamic *dyn, const ElfW(Rela) * rela)
{
    return dyn->strings + dyn->symbols[ELF64_R_SYM(rela->r_info)].st_name;
}

/* mmap64 is mmap: which of the names a library uses is a matter of its compilation. */
static bool is_named(const char *name, const char *wanted)
{
    const size_t len = strlen(wanted);
    return strncmp(name, wanted, len) == 0 && (name[len] == 0 || strcmp(name + len, "64") == 0);
}

/* ------------------------------------------------------------------------------------ slots */

/* Atomic for who calls through it: one word, aligned.  Read-only pages are written through the
 * file of the process's memory, so that nobody finds them writable, or read-only too soon. */
static void write_slot(const struct dynamic *dyn, uintptr_t slot, uintptr_t value, int mem_fd)
{
    _Atomic uintptr_t *at = (_Atomic uintptr_t *)slot; // NOLINT(performance-no-int-to-ptr)
    if (slot < dyn->relro_start || slot >= dyn->relro_end) {
        atomic_store(at, value);
        return;
    }
    if (mem_fd >= 0 &&
        pwrite(mem_fd, &value, sizeof(value), (off_t)slot) == (ssize_t)sizeof(value)) {
        return;
    }
    void *page = (void *)page_down(slot); // NOLINT(performance-no-int-to-ptr)
    const size_t bytes = slot + sizeof(value) - page_down(slot);
    if (mprotect(page, bytes, PROT_READ | PROT_WRITE) == 0) {
        atomic_store(at, value);
        gsp_ignore(mprotect(page, bytes, PROT_READ) != 0);
    }
}

static bool holds(uintptr_t address, const struct dynamic *dyn)
{
    return address >= dyn->start && address < dyn->end;
}

/* What a slot of this module is to hold instead; 0: what it holds. */
static uintptr_t instead_of(const struct dynamic *dyn, const ElfW(Rela) * rela, uintptr_t value,
                            bool unhook)
{
    const bool is_lazy = ELF64_R_TYPE(rela->r_info) == RELOC_SLOT && holds(value, dyn) && !unhook;
    const bool skip_mapping = dyn->is_ours || holds(python_at, dyn) || holds(hooks[0].real, dyn);
    for (size_t i = 0; i < hook_count; i++) {
        if (hooks[i].real == 0 || (hooks[i].is_mapping && skip_mapping)) {
            continue;
        }
        if (unhook && value == hooks[i].hook) {
            return hooks[i].real;
        }
        /* Not yet bound: it would be, to the same function, at its first call. */
        if (!unhook && (value == hooks[i].real || (is_lazy && !holds(hooks[i].real, dyn) &&
                                                   is_named(name_of(dyn, rela), hooks[i].name)))) {
            return hooks[i].hook;
        }
    }
    return 0;
}

static struct module *module_at(uintptr_t address);

/* A slot that the linker has not come to, since the module is being loaded: it has the address of a
 * stub as the file has it.  A program of fixed addresses has functions at small ones too. */
static bool is_untouched(const struct dynamic *dyn, uintptr_t value)
{
    return value != 0 && dyn->base != 0 && value < dyn->start && value < dyn->end - dyn->start &&
           !module_at(value);
}

static void change_slots(const struct dynamic *dyn, const ElfW(Rela) * rela, size_t count,
                         struct round *round)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t type = ELF64_R_TYPE(rela[i].r_info);
        if (ELF64_R_SYM(rela[i].r_info) == 0 ||
            (type != RELOC_SLOT && type != RELOC_DATA && type != RELOC_WORD)) {
            continue;
        }
        const uintptr_t slot = dyn->base + rela[i].r_offset;
        if (slot % sizeof(uintptr_t) != 0 || !holds(slot, dyn)) {
            continue;
        }
        const uintptr_t value = *(const uintptr_t *)slot; // NOLINT(performance-no-int-to-ptr)
        if (type == RELOC_SLOT && is_untouched(dyn, value)) {
            round->is_whole = false;
        }
        const uintptr_t other = instead_of(dyn, &rela[i], value, round->unhook);
        if (other != 0) {
            write_slot(dyn, slot, other, round->mem_fd);
            round->hooked = slot;
        }
    }
}

/* ---------------------------------------------------------------------------------- modules */

/* Which of ours calls what: the linker has bound this library's own slots, and never to the stubs
 * that a program of fixed addresses has for functions whose address it takes. */
static int find_real(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    struct dynamic dyn;
    if (!read_module(info, &dyn) || !dyn.is_ours) {
        return 0;
    }
    for (size_t i = 0; i < dyn.plt_count; i++) {
        const uintptr_t slot = dyn.base + dyn.plt[i].r_offset;
        for (size_t j = 0; j < hook_count; j++) {
            if (is_named(name_of(&dyn, &dyn.plt[i]), hooks[j].name)) {
                hooks[j].real = *(const uintptr_t *)slot; // NOLINT(performance-no-int-to-ptr)
            }
        }
    }
    return 1;
}

/* Modules that are left alone: this library, the linker, and an allocator of its own that was
 * loaded in front of the C library's: what it asks for is what it gives out. */
static bool is_left_alone(const struct dl_phdr_info *info, const struct dynamic *dyn)
{
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    return dyn->is_ours || strstr(name, "/ld-linux") || strstr(name, "linux-vdso") ||
           strstr(name, "/_gsprof") ||
           (holds(hooks[0].real, dyn) && !strstr(name, "/libc.so") && !strstr(name, "/libc-"));
}

static struct module *module_put(const struct dl_phdr_info *info, const struct dynamic *dyn)
{
    for (size_t i = 0; i < module_count; i++) {
        if (modules[i].base == dyn->base && modules[i].start == dyn->start &&
            modules[i].end == dyn->end) {
            return &modules[i];
        }
    }
    if (module_count == MODULES_MAX) {
        return NULL;
    }
    /* The program itself has no name here. */
    const char *name = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "program";
    const struct gsp_sv base = gsp_sv_basename(gsp_sv_of(name));
    gsp_agent__mem_lock();
    struct module *module = &modules[module_count];
    memset(module, 0, sizeof(*module));
    module->base = dyn->base;
    module->start = dyn->start;
    module->end = dyn->end;
    memcpy(module->name, base.p, base.len < NAME_BYTES ? base.len : NAME_BYTES - 1);
    module_count++;
    gsp_agent__mem_unlock();
    return module;
}

/* Whether it is still the module that was hooked, and not the same one loaded anew. */
static bool is_hooked(const struct module *module)
{
    if (module->hooked == 0) {
        return false;
    }
    const uintptr_t value = *(const uintptr_t *)module->hooked; // NOLINT(performance-no-int-to-ptr)
    for (size_t i = 0; i < hook_count; i++) {
        if (hooks[i].hook == value) {
            return true;
        }
    }
    return false;
}

/* Forgets modules that this round has not seen. */
static void drop_gone(void)
{
    size_t kept = 0;
    gsp_agent__mem_lock();
    for (size_t i = 0; i < module_count; i++) {
        if (modules[i].round == round_number) {
            modules[kept++] = modules[i];
        }
    }
    module_count = kept;
    gsp_agent__mem_unlock();
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct round *round = arg;
    struct dynamic dyn;
    if (!read_module(info, &dyn)) {
        return 0;
    }
    struct module *module = round->unhook ? NULL : module_put(info, &dyn);
    if (module) {
        module->round = round_number;
    }
    if (is_left_alone(info, &dyn) ||
        (module && module->is_done && (!round->some_left || is_hooked(module)))) {
        return 0;
    }
    struct round own = {.unhook = round->unhook, .is_whole = true, .mem_fd = round->mem_fd};
    change_slots(&dyn, dyn.plt, dyn.plt ? dyn.plt_count : 0, &own);
    change_slots(&dyn, dyn.data, dyn.data ? dyn.data_count : 0, &own);
    if (module) {
        module->is_done = own.is_whole || ++module->tries >= TRIES_MAX;
        module->hooked = own.hooked != 0 ? own.hooked : module->hooked;
        round->is_whole = round->is_whole && module->is_done;
    }
    return 0;
}

static int count_of(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    unsigned long long *counts = arg;
    counts[0] = info->dlpi_adds;
    counts[1] = info->dlpi_subs;
    return 1;
}

static void look(bool unhook)
{
    unsigned long long counts[2] = {0, 0};
    gsp_auto_fd mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    struct round round = {.unhook = unhook, .is_whole = true, .mem_fd = mem_fd};
    dl_iterate_phdr(count_of, counts);
    round.some_left = counts[1] != seen_subs;
    round_number++;
    dl_iterate_phdr(look_at, &round);
    if (round.some_left && !unhook) {
        drop_gone();
    }
    if (round.is_whole) {
        seen_adds = counts[0];
        seen_subs = counts[1];
    }
}

bool gsp_agent__modules_hook(struct gsp_agent__hook *all, size_t count, uintptr_t python)
{
    if (atomic_exchange(&looking, 1) != 0) {
        return false;
    }
    hooks = all;
    hook_count = count;
    python_at = python;
    for (size_t i = 0; i < module_count; i++) {
        modules[i].is_done = false;
    }
    dl_iterate_phdr(find_real, NULL);
    look(false);
    atomic_store(&looking, 0);
    return hooks[0].real != 0;
}

void gsp_agent__modules_unhook(void)
{
    while (atomic_exchange(&looking, 1) != 0) {
    }
    if (hooks) {
        look(true);
    }
    hook_count = 0;
    atomic_store(&looking, 0);
}

void gsp_agent__modules_look(void)
{
    unsigned long long counts[2] = {0, 0};
    if (atomic_exchange(&looking, 1) != 0) {
        return;
    }
    dl_iterate_phdr(count_of, counts);
    if (hook_count != 0 && (counts[0] != seen_adds || counts[1] != seen_subs)) {
        look(false);
    }
    atomic_store(&looking, 0);
}

void gsp_agent__modules_forget(void)
{
    atomic_store(&looking, 0);
}

static struct module *module_at(uintptr_t address)
{
    static size_t last; /* most calls come from one library */
    if (last < module_count && address >= modules[last].start && address < modules[last].end) {
        return &modules[last];
    }
    for (size_t i = 0; i < module_count; i++) {
        if (address >= modules[i].start && address < modules[i].end) {
            last = i;
            return &modules[i];
        }
    }
    return NULL;
}

uint32_t gsp_agent__module_frame(const void *code, uint32_t generation)
{
    struct module *module = module_at((uintptr_t)code);
    if (!module) {
        return 0;
    }
    if (module->generation != generation || module->frame == 0) {
        const uint32_t name = gsp_agent__text_put(gsp_sv_of(module->name));
        const struct gsp_agent__frame_key key = {.code = 3, .instr = module->base, .name = name};
        const struct gsp_memory_frame frame = {
            .name = name, .file = name, .kind = GSP_MEMORY_NATIVE};
        module->frame = gsp_agent__frame_put(&key, &frame);
        module->generation = generation;
    }
    return module->frame;
}
