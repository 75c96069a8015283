/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "proc/core_internal.h"

#define LOADS_MAX       (1U << 20)
#define NOTES_BYTES_MAX (256U << 20)
#if defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_X86_64
#endif

static int by_addr(const void *a, const void *b)
{
    const struct gsp_core__load *x = a;
    const struct gsp_core__load *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

static void add_load(struct gsp_core *core, const Elf64_Phdr *phdr)
{
    uint64_t meant_len = phdr->p_filesz < phdr->p_memsz ? phdr->p_filesz : phdr->p_memsz;
    if (phdr->p_memsz == 0 || phdr->p_vaddr > UINT64_MAX - phdr->p_memsz)
        return;
    core->loads[core->load_count++] = (struct gsp_core__load){.addr = phdr->p_vaddr,
                                                              .mem_len = phdr->p_memsz,
                                                              .meant_len = meant_len,
                                                              .offset = phdr->p_offset,
                                                              .flags = phdr->p_flags};
}

static void tidy_loads(struct gsp_core *core)
{
    size_t kept = 0;
    uint64_t floor = 0;
    if (core->load_count)
        qsort(core->loads, core->load_count, sizeof(*core->loads), by_addr);
    for (size_t i = 0; i < core->load_count; i++) {
        if (core->loads[i].addr < floor)
            continue;
        floor = core->loads[i].addr + core->loads[i].mem_len;
        core->loads[kept++] = core->loads[i];
    }
    core->load_count = kept;
}

static int fail_truncated(const char *part, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_FORMAT, 0, "the core file is truncated: its %s are incomplete",
                       part);
}

static int read_notes(struct gsp_core *core, const Elf64_Phdr *phdr, struct gsp_err *err)
{
    if (phdr->p_offset > core->len || phdr->p_filesz > core->len - phdr->p_offset)
        return fail_truncated("notes", err);
    if (phdr->p_filesz > NOTES_BYTES_MAX - core->notes_len)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "core: more than %u bytes of notes",
                           NOTES_BYTES_MAX);
    size_t len = (size_t)phdr->p_filesz;
    struct gsp_core__notes *notes = malloc(sizeof(*notes) + len);
    if (!notes)
        return gsp_err_nomem(err);
    notes->next = core->notes;
    core->notes = notes;
    core->notes_len += len;
    if (!gsp_proc__core_read(core, phdr->p_offset, notes->bytes, len))
        return fail_truncated("notes", err);
    return gsp_proc__core_parse_notes(core, notes->bytes, len, err);
}

static int read_phdrs(struct gsp_core *core, uint64_t at, uint64_t count, struct gsp_err *err)
{
    if (count > LOADS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "core: more than %u segments", LOADS_MAX);
    if (at > core->len || (core->len - at) / sizeof(Elf64_Phdr) < count)
        return fail_truncated("headers", err);
    core->loads = calloc((size_t)count + 1, sizeof(*core->loads));
    if (!core->loads)
        return gsp_err_nomem(err);
    gsp_auto_free Elf64_Phdr *phdrs = calloc((size_t)count + 1, sizeof(*phdrs));
    if (!phdrs)
        return gsp_err_nomem(err);
    if (!gsp_proc__core_read(core, at, phdrs, (size_t)count * sizeof(*phdrs)))
        return fail_truncated("headers", err);
    for (uint64_t i = 0; i < count; i++) {
        if (phdrs[i].p_type == PT_LOAD)
            add_load(core, &phdrs[i]);
        int rc = phdrs[i].p_type == PT_NOTE ? read_notes(core, &phdrs[i], err) : GSP_OK;
        if (rc != GSP_OK)
            return rc;
    }
    tidy_loads(core);
    gsp_proc__core_count_missing(core);
    return GSP_OK;
}

/* Names the format of a file that is not an ELF file. */
static const char *format_name(struct gsp_core *core)
{
    static const struct {
        const char *magic;
        size_t len;
        const char *name;
    } kinds[] = {
        {"\x28\xb5\x2f\xfd", 4, "compressed by zstd"},
        {"\xfd"
         "7zXZ",
         5, "compressed by xz"},
        {"\x04\x22\x4d\x18", 4, "compressed by lz4"},
        {"\x1f\x8b", 2, "compressed by gzip"},
    };
    for (size_t i = 0; i < GSP_COUNT(kinds); i++) {
        unsigned char head[8];
        if (gsp_proc__core_read(core, 0, head, kinds[i].len) &&
            memcmp(head, kinds[i].magic, kinds[i].len) == 0)
            return kinds[i].name;
    }
    return "not an ELF file";
}

static const char *machine_name(uint16_t machine)
{
    static const struct {
        uint16_t machine;
        const char *name;
    } names[] = {
        {EM_X86_64, "x86_64"},  {EM_AARCH64, "aarch64"}, {EM_386, "i386"},
        {EM_ARM, "32-bit ARM"}, {EM_PPC64, "ppc64"},     {EM_S390, "s390"},
        {EM_RISCV, "RISC-V"},
    };
    for (size_t i = 0; i < GSP_COUNT(names); i++)
        if (names[i].machine == machine)
            return names[i].name;
    return "another machine";
}

/* Checks that the file is a core of this kind of machine. */
static int check_kind(const Elf64_Ehdr *ehdr, struct gsp_err *err)
{
    bool swapped = ehdr->e_ident[EI_DATA] != ELFDATA2LSB;
    uint16_t type = swapped ? __builtin_bswap16(ehdr->e_type) : ehdr->e_type;
    uint16_t machine = swapped ? __builtin_bswap16(ehdr->e_machine) : ehdr->e_machine;
    if (type != ET_CORE)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a core file: another kind of ELF file");
    if (machine != OWN_MACHINE)
        return gsp_err_set(err, GSP_E_NOTSUP, 0,
                           "the core file is from %s; only cores from %s can be read here",
                           machine_name(machine), machine_name(OWN_MACHINE));
    if (swapped || ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_phentsize != sizeof(Elf64_Phdr))
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "the core file is not from a 64-bit process");
    return GSP_OK;
}

static int read_header(struct gsp_core *core, struct gsp_err *err)
{
    Elf64_Ehdr ehdr;
    unsigned char magic[SELFMAG];
    if (!gsp_proc__core_read(core, 0, magic, sizeof(magic)) || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a core file: %s", format_name(core));
    if (!gsp_proc__core_read(core, 0, &ehdr, sizeof(ehdr)))
        return fail_truncated("headers", err);
    int rc = check_kind(&ehdr, err);
    if (rc != GSP_OK)
        return rc;
    uint64_t count = ehdr.e_phnum;
    if (count == PN_XNUM) {
        /* The count does not fit in e_phnum: the first section header has it. */
        Elf64_Shdr shdr;
        if (!gsp_proc__core_read(core, ehdr.e_shoff, &shdr, sizeof(shdr)))
            return fail_truncated("headers", err);
        count = shdr.sh_info;
    }
    return read_phdrs(core, ehdr.e_phoff, count, err);
}

/* ---- The memory map ---- */

/* Writes a path in the form of /proc/PID/maps: newlines are escaped. */
static void put_path(struct gsp_buf *text, const char *path)
{
    for (; *path; path++)
        if (*path == '\n')
            gsp_buf_puts(text, "\\012");
        else
            gsp_buf_putc(text, *path);
}

static void put_area(struct gsp_core *core, const struct gsp_core__area *area, struct gsp_buf *text)
{
    uint64_t inode = 0;
    const char *path = "";
    if (area->module != GSP_CORE_NO_MODULE) {
        struct gsp_core__module *module = &core->modules[area->module];
        /* Only images need a real inode; other files get a placeholder. */
        inode = module->head && gsp_proc__core_module_is_same(core, module) ? module->inode : 1;
        path = module->path;
    } else if (core->vdso_addr && area->start == core->vdso_addr) {
        path = "[vdso]";
    }
    gsp_buf_printf(text, "%llx-%llx %c%c%cp %llx 00:00 %llu ", (unsigned long long)area->start,
                   (unsigned long long)area->end, area->flags & PF_R ? 'r' : '-',
                   area->flags & PF_W ? 'w' : '-', area->flags & PF_X ? 'x' : '-',
                   (unsigned long long)area->offset, (unsigned long long)inode);
    put_path(text, path);
    gsp_buf_putc(text, '\n');
}

/* The mapped files of the notes, and the parts of the loads that no file covers. */
static size_t join_areas(const struct gsp_core *core, struct gsp_core__area *out)
{
    size_t count = 0;
    for (size_t i = 0; i < core->file_count; i++) {
        const struct gsp_core__load *load = gsp_proc__core_load_at(core, core->files[i].start);
        out[count] = core->files[i];
        out[count++].flags = load ? load->flags : PF_R;
    }
    size_t k = 0;
    for (size_t i = 0; i < core->load_count; i++) {
        const struct gsp_core__load *load = &core->loads[i];
        uint64_t start = load->addr;
        uint64_t end = load->addr + load->mem_len;
        while (k < core->file_count && core->files[k].end <= start)
            k++;
        for (size_t f = k; f < core->file_count && core->files[f].start < end && start < end; f++) {
            if (core->files[f].start > start)
                out[count++] = (struct gsp_core__area){start, core->files[f].start, 0,
                                                       GSP_CORE_NO_MODULE, load->flags};
            start = core->files[f].end;
        }
        if (start < end)
            out[count++] = (struct gsp_core__area){start, end, 0, GSP_CORE_NO_MODULE, load->flags};
    }
    return gsp_proc__core_sort_areas(out, count);
}

static int make_maps(struct gsp_core *core, struct gsp_err *err)
{
    size_t cap = 2 * core->file_count + core->load_count + 1;
    gsp_auto_free struct gsp_core__area *areas = calloc(cap, sizeof(*areas));
    if (!areas)
        return gsp_err_nomem(err);
    size_t count = join_areas(core, areas);
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < count; i++)
        put_area(core, &areas[i], &text);
    if (text.failed)
        return gsp_err_nomem(err);
    return gsp_proc__maps_parse(gsp_buf_sv(&text), &core->maps, err);
}

/* Every core contains the modified pages, unless coredump_filter excludes them. */
static bool was_filtered(const struct gsp_core *core)
{
    struct gsp_core_unwind regs;
    const struct gsp_core__load *stack =
        gsp_proc_core_unwind_regs(core, 0, &regs) ? gsp_proc__core_load_at(core, regs.sp) : NULL;
    if (stack)
        return stack->meant_len == 0;
    for (size_t i = 0; i < core->load_count; i++)
        if (core->loads[i].flags & PF_W && core->loads[i].meant_len)
            return false;
    return true;
}

static int fill(struct gsp_core *core, struct gsp_err *err)
{
    core->open_fd = -1;
    core->info.name = core->name;
    core->info.cmdline = core->cmdline;
    core->info.exe = "";
    int rc = read_header(core, err);
    if (rc == GSP_OK && core->thread_count == 0)
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "the core file lists no threads");
    if (rc == GSP_OK)
        rc = make_maps(core, err);
    if (rc != GSP_OK)
        return rc;
    const struct gsp_core__area *area = gsp_proc__core_file_at(core, core->phdr_addr);
    if (area)
        core->info.exe = core->modules[area->module].path;
    core->info.has_files = core->files != NULL;
    core->info.is_filtered = was_filtered(core);
    if (core->info.pid == 0)
        core->info.pid = core->tasks[0].tid;
    return GSP_OK;
}

/* Takes ownership of fd, also on failure. */
static int open_any(int fd, const void *bytes, uint64_t len, struct gsp_core **out,
                    struct gsp_err *err)
{
    struct gsp_core *core = calloc(1, sizeof(*core));
    if (!core) {
        gsp_fd_close(&fd);
        return gsp_err_nomem(err);
    }
    core->fd = fd;
    core->bytes = bytes;
    core->len = len;
    int rc = fill(core, err);
    if (rc != GSP_OK) {
        gsp_proc_core_close(core);
        return rc;
    }
    *out = core;
    return GSP_OK;
}

int gsp_proc__core_parse(const void *bytes, size_t len, struct gsp_core **out, struct gsp_err *err)
{
    *out = NULL;
    return open_any(-1, bytes, len, out, err);
}

static int fail_open(const char *path, int sys, struct gsp_err *err)
{
    int code = sys == ENOENT || sys == ENOTDIR ? GSP_E_NOFILE : GSP_E_IO;
    return gsp_err_set(err, code, sys, "cannot read %s: %s", path, strerror(sys));
}

int gsp_proc_core_open(const char *path, struct gsp_core **out, struct gsp_err *err)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_open(path, errno, err);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        close(fd);
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s: not a core file: %s", path,
                           S_ISREG(st.st_mode) ? "empty" : "not a regular file");
    }
    struct gsp_err why = {0};
    int rc = open_any(fd, NULL, (uint64_t)st.st_size, out, &why);
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, why.sys, "%s: %s", path, why.msg);
    return GSP_OK;
}

void gsp_proc_core_close(struct gsp_core *core)
{
    if (!core)
        return;
    gsp_fd_close(&core->fd);
    gsp_fd_close(&core->open_fd);
    while (core->notes) {
        struct gsp_core__notes *next = core->notes->next;
        free(core->notes);
        core->notes = next;
    }
    gsp_proc_maps_free(core->maps);
    gsp_hmap_free(&core->by_path);
    free(core->loads);
    free(core->files);
    free(core->modules);
    free(core->tasks);
    free(core->threads);
    free(core);
}

const struct gsp_proc_core_info *gsp_proc_core_info(const struct gsp_core *core)
{
    return &core->info;
}

const struct gsp_maps *gsp_proc_core_maps(const struct gsp_core *core)
{
    return core->maps;
}

const struct gsp_task *gsp_proc_core_threads(const struct gsp_core *core, size_t *count)
{
    *count = core->thread_count;
    return core->tasks;
}

const void *gsp_proc__core_regs(const struct gsp_core *core, size_t i, size_t *len)
{
    if (i >= core->thread_count)
        return NULL;
    *len = core->threads[i].regs_len;
    return core->threads[i].regs;
}

const char *gsp_proc_core_missing_file(const struct gsp_core *core)
{
    return core->lacks;
}
