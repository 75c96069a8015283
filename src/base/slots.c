/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slots.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"

static uintptr_t page_down(uintptr_t address)
{
    return address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/* The linker has already added the base to these pointers, except in the vDSO. */
static uintptr_t pointer_of(const struct gsp_slots *slots, ElfW(Addr) value)
{
    return value >= slots->base ? value : slots->base + value;
}

static void read_dynamic(struct gsp_slots *slots, const ElfW(Dyn) * at)
{
    size_t relative = 0;
    for (; at->d_tag != DT_NULL; at++) {
        const uintptr_t pointer = pointer_of(slots, at->d_un.d_ptr);
        switch (at->d_tag) {
        case DT_JMPREL:
            slots->tables[0] = (const ElfW(Rela) *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        case DT_PLTRELSZ:
            slots->counts[0] = at->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            slots->tables[1] = (const ElfW(Rela) *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        case DT_RELASZ:
            slots->counts[1] = at->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELACOUNT:
            relative = at->d_un.d_val;
            break;
        case DT_SYMTAB:
            slots->symbols = (const ElfW(Sym) *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        case DT_STRTAB:
            slots->strings = (const char *)pointer; // NOLINT(performance-no-int-to-ptr)
            break;
        default:
            break;
        }
    }
    /* Relative relocations come first and have no names. */
    if (slots->tables[1] && relative <= slots->counts[1]) {
        slots->tables[1] += relative;
        slots->counts[1] -= relative;
    }
}

bool gsp_slots_read(const struct dl_phdr_info *info, struct gsp_slots *out)
{
    const ElfW(Dyn) *section = NULL;
    memset(out, 0, sizeof(*out));
    out->base = info->dlpi_addr;
    out->start = UINTPTR_MAX;
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD) {
            out->start = start < out->start ? start : out->start;
            out->end = start + part->p_memsz > out->end ? start + part->p_memsz : out->end;
        } else if (part->p_type == PT_DYNAMIC) {
            section = (const ElfW(Dyn) *)start; // NOLINT(performance-no-int-to-ptr)
        } else if (part->p_type == PT_GNU_RELRO) {
            out->relro_start = page_down(start);
            out->relro_end = page_down(start + part->p_memsz);
        }
    }
    if (section)
        read_dynamic(out, section);
    for (size_t i = 0; i < GSP_COUNT(out->tables); i++)
        if (!out->tables[i])
            out->counts[i] = 0;
    return section && out->symbols && out->strings;
}

const char *gsp_slots_name(const struct gsp_slots *slots, const ElfW(Rela) * rela)
{
    return slots->strings + slots->symbols[ELF64_R_SYM(rela->r_info)].st_name;
}

bool gsp_slots_write(const struct gsp_slots *slots, uintptr_t slot, uintptr_t value, int mem_fd)
{
    _Atomic uintptr_t *at = (_Atomic uintptr_t *)slot; // NOLINT(performance-no-int-to-ptr)
    if (slot < slots->relro_start || slot >= slots->relro_end) {
        atomic_store(at, value);
        return true;
    }
    if (mem_fd >= 0 && pwrite(mem_fd, &value, sizeof(value), (off_t)slot) == (ssize_t)sizeof(value))
        return true;
    void *page = (void *)page_down(slot); // NOLINT(performance-no-int-to-ptr)
    const size_t bytes = slot + sizeof(value) - page_down(slot);
    if (mprotect(page, bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    atomic_store(at, value);
    gsp_ignore(mprotect(page, bytes, PROT_READ) != 0);
    return true;
}
