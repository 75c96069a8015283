/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "native/native_internal.h"

/* libdw reads the whole section into memory; that of torch is too large for many machines. */
#define DEBUG_BYTES_MAX (1ULL << 30)
#define UNITS_MAX       100000U

struct gsp_native_lines {
    Dwarf *dwarf;
};

static bool holds_strings(const char *name)
{
    static const char *const names[] = {".debug_str", ".debug_line_str", ".zdebug_str",
                                        ".zdebug_line_str"};
    for (size_t i = 0; i < GSP_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Returns whether the last string of each section has an end. libdw 0.188 relies on it for the
 * names of source files. */
static bool strings_end(Elf *elf)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr sh;
        const char *name = gelf_getshdr(scn, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;
        if (!name || sh.sh_type == SHT_NOBITS || !holds_strings(name))
            continue;
        const Elf_Data *data = elf_getdata(scn, NULL);
        const char *text = data ? data->d_buf : NULL;
        if (text && data->d_size > 0 && text[data->d_size - 1] != '\0')
            return false;
    }
    return true;
}

static Dwarf *open_dwarf(void *elf)
{
    Elf_Scn *scn = gsp_native__section(elf, ".debug_info");
    GElf_Shdr sh;
    if (!scn || !gelf_getshdr(scn, &sh) || sh.sh_size > DEBUG_BYTES_MAX)
        return NULL;
    /* This decompresses the sections. */
    Dwarf *dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
    if (dwarf && !strings_end(elf)) {
        dwarf_end(dwarf);
        return NULL;
    }
    return dwarf;
}

static struct gsp_native_lines *load(struct gsp_native_file *file)
{
    if (file->lines_tried)
        return file->lines;
    file->lines_tried = true;
    Dwarf *dwarf = file->elf ? open_dwarf(file->elf) : NULL;
    if (!dwarf)
        dwarf = open_dwarf(gsp_native__file_debug(file));
    if (!dwarf)
        return NULL;
    file->lines = calloc(1, sizeof(*file->lines));
    if (file->lines)
        file->lines->dwarf = dwarf;
    else
        dwarf_end(dwarf);
    return file->lines;
}

void gsp_native__lines_free(struct gsp_native_lines *lines)
{
    if (!lines)
        return;
    dwarf_end(lines->dwarf);
    free(lines);
}

/* Finds the unit of an address: with .debug_aranges, which clang does not write, or by a linear
 * search. */
static bool find_unit(Dwarf *dwarf, uint64_t vaddr, Dwarf_Die *unit)
{
    if (dwarf_addrdie(dwarf, vaddr, unit))
        return true;
    Dwarf_Off at = 0;
    Dwarf_Off next;
    size_t head;
    for (unsigned i = 0; i < UNITS_MAX; i++, at = next) {
        if (dwarf_nextcu(dwarf, at, &next, &head, NULL, NULL, NULL) != 0 || next <= at)
            return false;
        if (dwarf_offdie(dwarf, at + head, unit) && dwarf_haspc(unit, vaddr) > 0)
            return true;
    }
    return false;
}

static const char *name_of(struct gsp_native_store *store, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
        name = dwarf_formstring(&attr);
    if (!name)
        name = dwarf_diename(die);
    name = name ? gsp_native__intern_name(store, name) : NULL;
    return name ? name : "(inlined)";
}

/* The file and line of the call of an inlined function. */
static void call_site(Dwarf_Die *unit, Dwarf_Die *die, const char **file, unsigned *line)
{
    Dwarf_Attribute attr;
    Dwarf_Word value;
    *file = NULL;
    *line = 0;
    if (dwarf_attr(die, DW_AT_call_line, &attr) && dwarf_formudata(&attr, &value) == 0 &&
        value <= INT32_MAX)
        *line = (unsigned)value;
    Dwarf_Files *files;
    size_t count;
    if (dwarf_attr(die, DW_AT_call_file, &attr) && dwarf_formudata(&attr, &value) == 0 &&
        dwarf_getsrcfiles(unit, &files, &count) == 0 && value < count)
        *file = dwarf_filesrc(files, (size_t)value, NULL, NULL);
}

/* Adds the inlined calls around an address, innermost first. Each moves out->file and out->line to
 * the location of its call. */
static void add_inlined(struct gsp_native_store *store, Dwarf_Die *unit, uint64_t vaddr,
                        struct gsp_native_symbol *out)
{
    Dwarf_Die *scopes = NULL;
    Dwarf_Die *around = NULL;
    int count = dwarf_getscopes(unit, vaddr, &scopes);
    /* Use only the first scope and its parents: after an inlined scope, libdw lists the scopes of
     * its definition. */
    count = count > 0 ? dwarf_getscopes_die(&scopes[0], &around) : 0;
    for (int i = 0; i < count && out->inlined_count < GSP_NATIVE_INLINED_MAX; i++) {
        int tag = dwarf_tag(&around[i]);
        if (tag == DW_TAG_subprogram)
            break;
        if (tag != DW_TAG_inlined_subroutine)
            continue;
        out->inlined[out->inlined_count++] =
            (struct gsp_native_inline){name_of(store, &around[i]), out->file, out->line};
        const char *file;
        call_site(unit, &around[i], &file, &out->line);
        out->file = file ? gsp_native__intern(store, file) : NULL;
    }
    free(around);
    free(scopes);
}

void gsp_native__lines_find(struct gsp_native_store *store, struct gsp_native_file *file,
                            uint64_t vaddr, struct gsp_native_symbol *out)
{
    struct gsp_native_lines *lines = load(file);
    Dwarf_Die unit;
    if (!lines || !find_unit(lines->dwarf, vaddr, &unit))
        return;
    Dwarf_Line *line = dwarf_getsrc_die(&unit, vaddr);
    int number;
    if (line && dwarf_lineno(line, &number) == 0 && number > 0) {
        const char *source = dwarf_linesrc(line, NULL, NULL);
        out->line = (unsigned)number;
        out->file = source ? gsp_native__intern(store, source) : NULL;
    }
    add_inlined(store, &unit, vaddr, out);
}
