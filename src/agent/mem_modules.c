/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_modules.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/mem_count.h"
#include "agent/mem_tables.h"
#include "base/file.h"
#include "base/sandbox.h"
#include "base/slots.h"
#include "base/time.h"

#define MODULES_MAX 1024U
#define NAME_BYTES  56U
/* Scans after which a module that seems partly loaded is treated as complete. */
#define TRIES_MAX   100U
#define HOLD_NS     GSP_NS_PER_S

static struct module {
    uintptr_t start;
    uintptr_t end;
    uintptr_t base;
    uint32_t frame;      /* in the tables of `generation` */
    uint32_t generation; /* 0: no frame yet */
    bool is_done;        /* its slots have been scanned */
    uint32_t tries;      /* scans that found it partly loaded */
    uint32_t round;      /* the last scan that found it */
    uintptr_t hooked;    /* a slot that was changed; 0: none */
    char name[NAME_BYTES];
} modules[MODULES_MAX];

static size_t module_count; /* the engine's lock guards it and the modules */
static uint32_t round_number;
static struct gsp_agent__hook *hooks;
static size_t hook_count;
static uintptr_t python_at;
static _Atomic uint32_t looking;
static bool is_childs; /* this process was forked */
static unsigned long long seen_adds;
static unsigned long long seen_subs;

/* One scan of all modules. */
struct round {
    bool unhook;
    bool is_whole;  /* no module is partly loaded */
    bool some_left; /* modules were unloaded since the last scan */
    int mem_fd;
    uintptr_t hooked; /* a slot that was changed in this module */
};

static bool is_ours(const struct gsp_slots *dyn)
{
    return gsp_slots_hold(dyn, (uintptr_t)&module_count);
}

/* mmap64 is the same as mmap. A library uses either, depending on its compilation. */
static bool is_named(const char *name, const char *function)
{
    const size_t len = strlen(function);
    return strncmp(name, function, len) == 0 && (name[len] == 0 || strcmp(name + len, "64") == 0);
}

/* ------------------------------------------------------------------------------------ slots */

/* Returns the new value for a slot of this module; 0: no change. */
static uintptr_t replacement_of(const struct gsp_slots *dyn, const ElfW(Rela) * rela,
                                uintptr_t value, bool unhook)
{
    const bool is_lazy =
        ELF64_R_TYPE(rela->r_info) == GSP_SLOT_CALL && gsp_slots_hold(dyn, value) && !unhook;
    const bool skip_mapping =
        is_ours(dyn) || gsp_slots_hold(dyn, python_at) || gsp_slots_hold(dyn, hooks[0].real);
    for (size_t i = 0; i < hook_count; i++) {
        if (hooks[i].real == 0 || (hooks[i].is_mapping && skip_mapping))
            continue;
        if (unhook && value == hooks[i].hook)
            return hooks[i].real;
        /* Not bound yet: its first call would bind it to the same function. */
        if (!unhook &&
            (value == hooks[i].real || (is_lazy && !gsp_slots_hold(dyn, hooks[i].real) &&
                                        is_named(gsp_slots_name(dyn, rela), hooks[i].name))))
            return hooks[i].hook;
    }
    return 0;
}

static struct module *module_at(uintptr_t address);

/* Whether the linker has not relocated the slot yet, because the module is being loaded: it still
 * holds the offset of a stub in the file. A program that is not position-independent has functions
 * at low addresses too. */
static bool is_untouched(const struct gsp_slots *dyn, uintptr_t value)
{
    return value != 0 && dyn->base != 0 && value < dyn->start && value < dyn->end - dyn->start &&
           !module_at(value);
}

static void change_slots(const struct gsp_slots *dyn, const ElfW(Rela) * rela, size_t count,
                         struct round *round)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t type = ELF64_R_TYPE(rela[i].r_info);
        if (ELF64_R_SYM(rela[i].r_info) == 0 ||
            (type != GSP_SLOT_CALL && type != GSP_SLOT_POINTER && type != GSP_SLOT_WORD))
            continue;
        const uintptr_t slot = dyn->base + rela[i].r_offset;
        if (slot % sizeof(uintptr_t) != 0 || !gsp_slots_hold(dyn, slot))
            continue;
        const uintptr_t value = *(const uintptr_t *)slot; // NOLINT(performance-no-int-to-ptr)
        if (type == GSP_SLOT_CALL && is_untouched(dyn, value))
            round->is_whole = false;
        const uintptr_t other = replacement_of(dyn, &rela[i], value, round->unhook);
        if (other != 0 && gsp_slots_write(dyn, slot, other, round->mem_fd))
            round->hooked = slot;
    }
}

/* ---------------------------------------------------------------------------------- modules */

/* Finds the functions that this library calls. The linker has bound its slots to the functions
 * themselves, never to the stubs that a program that is not position-independent may have. */
static int find_real(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    struct gsp_slots dyn;
    if (!gsp_slots_read(info, &dyn) || !is_ours(&dyn))
        return 0;
    for (size_t i = 0; i < dyn.counts[0]; i++) {
        const uintptr_t slot = dyn.base + dyn.tables[0][i].r_offset;
        for (size_t j = 0; j < hook_count; j++)
            if (is_named(gsp_slots_name(&dyn, &dyn.tables[0][i]), hooks[j].name))
                hooks[j].real = *(const uintptr_t *)slot; // NOLINT(performance-no-int-to-ptr)
    }
    return 1;
}

/* Modules that are not hooked: this library, the linker, and an allocator that replaces the C
 * library's malloc, because its own requests are memory that it hands out. */
static bool is_excluded(const struct dl_phdr_info *info, const struct gsp_slots *dyn)
{
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    return is_ours(dyn) || strstr(name, "/ld-linux") || strstr(name, "linux-vdso") ||
           strstr(name, "/_gsprof") ||
           (gsp_slots_hold(dyn, hooks[0].real) && !strstr(name, "/libc.so") &&
            !strstr(name, "/libc-"));
}

static struct module *module_put(const struct dl_phdr_info *info, const struct gsp_slots *dyn)
{
    for (size_t i = 0; i < module_count; i++)
        if (modules[i].base == dyn->base && modules[i].start == dyn->start &&
            modules[i].end == dyn->end)
            return &modules[i];
    if (module_count == MODULES_MAX)
        return NULL;
    /* The main program has no name here. */
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

/* Whether the module still has its hooks, that is, was not unloaded and loaded again. */
static bool is_hooked(const struct module *module)
{
    if (module->hooked == 0)
        return false;
    const uintptr_t value = *(const uintptr_t *)module->hooked; // NOLINT(performance-no-int-to-ptr)
    for (size_t i = 0; i < hook_count; i++)
        if (hooks[i].hook == value)
            return true;
    return false;
}

/* Removes modules that this scan has not found. */
static void drop_unloaded(void)
{
    size_t kept = 0;
    gsp_agent__mem_lock();
    for (size_t i = 0; i < module_count; i++)
        if (modules[i].round == round_number)
            modules[kept++] = modules[i];
    module_count = kept;
    gsp_agent__mem_unlock();
}

static int scan_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct round *round = arg;
    struct gsp_slots dyn;
    if (!gsp_slots_read(info, &dyn))
        return 0;
    struct module *module = round->unhook ? NULL : module_put(info, &dyn);
    if (module)
        module->round = round_number;
    if (is_excluded(info, &dyn) ||
        (module && module->is_done && (!round->some_left || is_hooked(module))))
        return 0;
    struct round own = {.unhook = round->unhook, .is_whole = true, .mem_fd = round->mem_fd};
    for (size_t i = 0; i < GSP_COUNT(dyn.tables); i++)
        change_slots(&dyn, dyn.tables[i], dyn.counts[i], &own);
    if (module) {
        module->is_done = own.is_whole || ++module->tries >= TRIES_MAX;
        module->hooked = own.hooked != 0 ? own.hooked : module->hooked;
        round->is_whole = round->is_whole && module->is_done;
    }
    return 0;
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    unsigned long long *counts = arg;
    counts[0] = info->dlpi_adds;
    counts[1] = info->dlpi_subs;
    return 1;
}

static void scan_all(bool unhook)
{
    unsigned long long counts[2] = {0, 0};
    gsp_auto_fd mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    struct round round = {.unhook = unhook, .is_whole = true, .mem_fd = mem_fd};
    dl_iterate_phdr(read_counts, counts);
    round.some_left = counts[1] != seen_subs;
    round_number++;
    dl_iterate_phdr(scan_module, &round);
    if (round.some_left && !unhook)
        drop_unloaded();
    if (round.is_whole) {
        seen_adds = counts[0];
        seen_subs = counts[1];
    }
}

/* Disables cancellation: opening files is a cancellation point, but malloc(), which calls this, is
 * not. */
static void scan(bool unhook)
{
    int cancel = 0;
    if (gsp_sandbox_is_new())
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    scan_all(unhook);
    pthread_setcancelstate(cancel, NULL);
}

bool gsp_agent__modules_hook(struct gsp_agent__hook *all, size_t count, uintptr_t python)
{
    if (atomic_exchange(&looking, 1) != 0)
        return false;
    hooks = all;
    hook_count = count;
    python_at = python;
    for (size_t i = 0; i < module_count; i++)
        modules[i].is_done = false;
    dl_iterate_phdr(find_real, NULL);
    scan(false);
    atomic_store(&looking, 0);
    return hooks[0].real != 0;
}

void gsp_agent__modules_unhook(void)
{
    for (int i = 0; atomic_exchange(&looking, 1) != 0; i += i < INT_MAX)
        gsp_agent__mem_wait(i);
    if (hooks)
        scan(true);
    hook_count = 0;
    atomic_store(&looking, 0);
}

void gsp_agent__modules_scan(void)
{
    unsigned long long counts[2] = {0, 0};
    if (atomic_exchange(&looking, 1) != 0)
        return;
    dl_iterate_phdr(read_counts, counts);
    if (hook_count != 0 && (counts[0] != seen_adds || counts[1] != seen_subs))
        scan(false);
    atomic_store(&looking, 0);
}

bool gsp_agent__modules_hold(void)
{
    const int64_t end_ns = gsp_now_ns() + HOLD_NS;
    for (int i = 0; atomic_exchange(&looking, 1) != 0; i += i < INT_MAX) {
        if (gsp_now_ns() >= end_ns)
            return false;
        gsp_agent__mem_wait(i);
    }
    return true;
}

void gsp_agent__modules_release(void)
{
    atomic_store(&looking, 0);
}

void gsp_agent__modules_reset(void)
{
    is_childs = true;
    atomic_store(&looking, 0);
}

bool gsp_agent__modules_is_forked(void)
{
    return is_childs;
}

static struct module *module_at(uintptr_t address)
{
    static size_t last; /* most calls come from one library */
    if (last < module_count && address >= modules[last].start && address < modules[last].end)
        return &modules[last];
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
    if (!module)
        return 0;
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
