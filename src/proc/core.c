/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "proc/core_internal.h"

#define LOADS_MAX     (1U << 20)
#define FILES_MAX     (1U << 20)
#define THREADS_MAX   (1U << 16)
/* In struct elf_prstatus and elf_prpsinfo of 64-bit machines. */
#define STATUS_SIGNAL 12U
#define STATUS_PID    32U
#define STATUS_REGS   112U
#define STATUS_TAIL   8U /* after the registers: pr_fpvalid */
#define INFO_PID      24U
#define INFO_PPID     28U
#define INFO_NAME     40U
#define INFO_ARGS     56U
#define INFO_BYTES    136U

struct note {
    uint32_t type;
    const unsigned char *desc;
    size_t len;
};

/* ---- Memory ---- */

static const struct gsp_core__load *load_at(const struct gsp_core *core, uint64_t addr)
{
    size_t lo = 0;
    size_t hi = core->load_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct gsp_core__load *load = &core->loads[mid];
        if (addr < load->addr)
            hi = mid;
        else if (addr - load->addr >= load->mem_len)
            lo = mid + 1;
        else
            return load;
    }
    return NULL;
}

static const struct gsp_core__area *file_at(const struct gsp_core *core, uint64_t addr)
{
    size_t lo = 0;
    size_t hi = core->file_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct gsp_core__area *area = &core->files[mid];
        if (addr < area->start)
            hi = mid;
        else if (addr >= area->end)
            lo = mid + 1;
        else
            return area;
    }
    return NULL;
}

uint64_t gsp_core__bytes_at(const struct gsp_core *core, uint64_t addr, const unsigned char **out)
{
    const struct gsp_core__load *load = load_at(core, addr);
    uint64_t off = load ? addr - load->addr : 0;
    if (!load || off >= load->file_len)
        return 0;
    *out = core->bytes + load->offset + off;
    return load->file_len - off;
}

/* The next load's address above addr: what lies there is newer than the file. */
static uint64_t next_load(const struct gsp_core *core, uint64_t addr)
{
    size_t lo = 0;
    size_t hi = core->load_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (core->loads[mid].addr > addr)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo < core->load_count ? core->loads[lo].addr : UINT64_MAX;
}

static int read_span(struct gsp_core *core, const struct gsp_mem_span *span)
{
    unsigned char *to = span->to;
    for (size_t done = 0; done < span->len;) {
        uint64_t addr = span->addr + done;
        size_t want = span->len - done;
        const unsigned char *bytes;
        uint64_t have = gsp_core__bytes_at(core, addr, &bytes);
        if (have) {
            size_t n = have < want ? (size_t)have : want;
            memcpy(to + done, bytes, n);
            done += n;
            continue;
        }
        const struct gsp_core__load *load = load_at(core, addr);
        const struct gsp_core__area *area = file_at(core, addr);
        if (!area || (load && addr - load->addr < load->meant_len))
            return GSP_E_FAULT;
        uint64_t end = next_load(core, addr);
        if (end > area->end)
            end = area->end;
        size_t n = end - addr < want ? (size_t)(end - addr) : want;
        if (!gsp_core__module_read(core, area->module, area->offset + (addr - area->start),
                                   to + done, n))
            return GSP_E_FAULT;
        done += n;
    }
    return GSP_OK;
}

static int core_gather(void *self, const struct gsp_mem_span *spans, size_t count, size_t *done)
{
    for (size_t i = 0; i < count; i++) {
        if (read_span(self, &spans[i]) != GSP_OK) {
            *done = i;
            return GSP_E_FAULT;
        }
    }
    *done = count;
    return GSP_OK;
}

static void core_release(void *self)
{
    (void)self; /* the core is its owner's to close */
}

static const struct gsp_mem_ops CORE_OPS = {core_gather, core_release};

int gsp_core_mem(struct gsp_core *core, struct gsp_mem **out, struct gsp_err *err)
{
    return gsp_mem_open_ops(&CORE_OPS, core, out, err);
}

/* ---- Notes ---- */

static uint64_t word_at(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static int32_t int_at(const unsigned char *p)
{
    int32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* Each array is the core's as soon as it is grown; both have room for cap afterwards. */
static bool grow_threads(struct gsp_core *core, size_t cap)
{
    struct gsp_task *tasks = realloc(core->tasks, cap * sizeof(*tasks));
    if (!tasks)
        return false;
    core->tasks = tasks;
    struct gsp_core__thread *threads = realloc(core->threads, cap * sizeof(*threads));
    if (!threads)
        return false;
    core->threads = threads;
    core->thread_cap = cap;
    return true;
}

static int take_status(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    if (note->len < STATUS_REGS + STATUS_TAIL)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "core: a thread's note of %zu bytes", note->len);
    if (core->thread_count == core->thread_cap) {
        size_t cap = core->thread_cap ? core->thread_cap * 2 : 16;
        if (cap > THREADS_MAX)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "core: more than %u threads", THREADS_MAX);
        if (!grow_threads(core, cap))
            return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    }
    uint16_t signal_no;
    memcpy(&signal_no, note->desc + STATUS_SIGNAL, sizeof(signal_no));
    if (core->thread_count == 0)
        core->info.signal = signal_no;
    pid_t tid = int_at(note->desc + STATUS_PID);
    core->tasks[core->thread_count] = (struct gsp_task){tid, tid};
    core->threads[core->thread_count++] =
        (struct gsp_core__thread){note->desc + STATUS_REGS, note->len - STATUS_REGS - STATUS_TAIL};
    return GSP_OK;
}

static int take_info(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    if (note->len < INFO_BYTES)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "core: a process note of %zu bytes", note->len);
    core->info.pid = int_at(note->desc + INFO_PID);
    core->info.ppid = int_at(note->desc + INFO_PPID);
    memcpy(core->name, note->desc + INFO_NAME, sizeof(core->name) - 1);
    memcpy(core->cmdline, note->desc + INFO_ARGS, sizeof(core->cmdline) - 1);
    /* The kernel ends each argument with a space. */
    size_t len = strlen(core->cmdline);
    if (len && core->cmdline[len - 1] == ' ')
        core->cmdline[len - 1] = '\0';
    return GSP_OK;
}

static int take_auxv(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    (void)err;
    for (size_t at = 0; at + 16 <= note->len; at += 16) {
        if (word_at(note->desc + at) == AT_PHDR)
            core->phdr_addr = word_at(note->desc + at + 8);
    }
    return GSP_OK;
}

/* The module of a path, which stays in the core's bytes; false when there is no memory. */
static bool module_of(struct gsp_core *core, const char *path, size_t len, uint32_t *out)
{
    uint64_t hash = gsp_hash_bytes(path, len, 0);
    const uint32_t *known = gsp_hmap_get(&core->by_path, hash, len);
    if (known && strcmp(core->modules[*known].path, path) == 0) {
        *out = *known;
        return true;
    }
    *out = (uint32_t)core->module_count;
    core->modules[core->module_count++] = (struct gsp_core__module){.path = path};
    return known || gsp_hmap_put(&core->by_path, hash, len, *out);
}

static int by_start(const void *a, const void *b)
{
    const struct gsp_core__area *x = a;
    const struct gsp_core__area *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Sorts areas and cuts off what overlaps; gives the new count. */
static size_t tidy_areas(struct gsp_core__area *areas, size_t count)
{
    size_t kept = 0;
    uint64_t floor = 0;
    if (count)
        qsort(areas, count, sizeof(*areas), by_start);
    for (size_t i = 0; i < count; i++) {
        if (areas[i].start < floor || areas[i].start >= areas[i].end)
            continue;
        floor = areas[i].end;
        areas[kept++] = areas[i];
    }
    return kept;
}

/* NT_FILE: count, page size, count times (start, end, page), then as many names. */
static int take_files(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    uint64_t count = note->len >= 16 ? word_at(note->desc) : 0;
    uint64_t unit = note->len >= 16 ? word_at(note->desc + 8) : 0;
    if (count > FILES_MAX || unit == 0 || unit > (1U << 30) || note->len - 16 < count * 24 ||
        core->files)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "core: the list of mapped files makes no sense");
    core->files = calloc((size_t)count + 1, sizeof(*core->files));
    core->modules = calloc((size_t)count + 1, sizeof(*core->modules));
    if (!core->files || !core->modules)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    const char *name = (const char *)note->desc + 16 + count * 24;
    const char *end = (const char *)note->desc + note->len;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *row = note->desc + 16 + i * 24;
        const char *stop = name < end ? memchr(name, 0, (size_t)(end - name)) : NULL;
        if (!stop)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "core: the names of mapped files are cut");
        struct gsp_core__area *area = &core->files[i];
        area->start = word_at(row);
        area->end = word_at(row + 8);
        area->offset = word_at(row + 16) * unit;
        if (!module_of(core, name, (size_t)(stop - name), &area->module))
            return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
        if (area->offset == 0 && !core->modules[area->module].head)
            core->modules[area->module].head = area->start;
        name = stop + 1;
    }
    core->file_count = tidy_areas(core->files, (size_t)count);
    return GSP_OK;
}

static const struct {
    uint32_t type;
    int (*take)(struct gsp_core *core, const struct note *note, struct gsp_err *err);
} NOTES[] = {
    {NT_PRSTATUS, take_status},
    {NT_PRPSINFO, take_info},
    {NT_AUXV, take_auxv},
    {NT_FILE, take_files},
};

static int take_notes(struct gsp_core *core, const unsigned char *p, size_t len,
                      struct gsp_err *err)
{
    for (size_t at = 0; len - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr head;
        memcpy(&head, p + at, sizeof(head));
        at += sizeof(head);
        uint64_t desc = at + (((uint64_t)head.n_namesz + 3) & ~3ULL);
        uint64_t next = desc + (((uint64_t)head.n_descsz + 3) & ~3ULL);
        if (desc > len || head.n_descsz > len - desc)
            return gsp_err_set(err, GSP_E_FORMAT, 0, "core: a note is longer than all of them");
        bool is_core = head.n_namesz == 5 && memcmp(p + at, "CORE", 5) == 0;
        struct note note = {head.n_type, p + desc, head.n_descsz};
        for (size_t i = 0; is_core && i < GSP_COUNT(NOTES); i++) {
            int rc = NOTES[i].type == note.type ? NOTES[i].take(core, &note, err) : GSP_OK;
            if (rc != GSP_OK)
                return rc;
        }
        if (next >= len)
            break;
        at = (size_t)next;
    }
    return GSP_OK;
}

/* ---- Headers ---- */

static int by_addr(const void *a, const void *b)
{
    const struct gsp_core__load *x = a;
    const struct gsp_core__load *y = b;
    return (x->addr > y->addr) - (x->addr < y->addr);
}

static void take_load(struct gsp_core *core, const Elf64_Phdr *phdr)
{
    uint64_t want = phdr->p_filesz < phdr->p_memsz ? phdr->p_filesz : phdr->p_memsz;
    uint64_t room = phdr->p_offset < core->len ? core->len - phdr->p_offset : 0;
    uint64_t have = want < room ? want : room;
    if (phdr->p_memsz == 0 || phdr->p_vaddr > UINT64_MAX - phdr->p_memsz)
        return;
    core->info.missing_bytes += want - have;
    core->loads[core->load_count++] = (struct gsp_core__load){.addr = phdr->p_vaddr,
                                                              .mem_len = phdr->p_memsz,
                                                              .meant_len = want,
                                                              .file_len = have,
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

static int take_phdrs(struct gsp_core *core, uint64_t at, uint64_t count, struct gsp_err *err)
{
    if (count > LOADS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "core: more than %u segments", LOADS_MAX);
    if (at > core->len || (core->len - at) / sizeof(Elf64_Phdr) < count)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the core file is cut: its headers are not whole");
    core->loads = calloc((size_t)count + 1, sizeof(*core->loads));
    if (!core->loads)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Phdr phdr;
        memcpy(&phdr, core->bytes + at + i * sizeof(phdr), sizeof(phdr));
        if (phdr.p_type == PT_LOAD)
            take_load(core, &phdr);
        if (phdr.p_type != PT_NOTE)
            continue;
        if (phdr.p_offset > core->len || phdr.p_filesz > core->len - phdr.p_offset)
            return gsp_err_set(err, GSP_E_FORMAT, 0,
                               "the core file is cut: its notes are not whole");
        int rc = take_notes(core, core->bytes + phdr.p_offset, (size_t)phdr.p_filesz, err);
        if (rc != GSP_OK)
            return rc;
    }
    tidy_loads(core);
    return GSP_OK;
}

/* How the file begins that is no ELF. */
static const char *what_is_it(const unsigned char *p, size_t len)
{
    static const struct {
        const char *magic;
        size_t len;
        const char *name;
    } kinds[] = {
        {"\x28\xb5\x2f\xfd", 4, "compressed by zstd: unpack it first"},
        {"\xfd"
         "7zXZ",
         5, "compressed by xz: unpack it first"},
        {"\x04\x22\x4d\x18", 4, "compressed by lz4: unpack it first"},
        {"\x1f\x8b", 2, "compressed by gzip: unpack it first"},
    };
    for (size_t i = 0; i < GSP_COUNT(kinds); i++) {
        if (len >= kinds[i].len && memcmp(p, kinds[i].magic, kinds[i].len) == 0)
            return kinds[i].name;
    }
    return "no ELF file";
}

static int take_header(struct gsp_core *core, struct gsp_err *err)
{
    Elf64_Ehdr ehdr;
    if (core->len < SELFMAG || memcmp(core->bytes, ELFMAG, SELFMAG) != 0)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a core file: %s",
                           what_is_it(core->bytes, core->len));
    if (core->len < sizeof(ehdr))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the core file is cut: its headers are not whole");
    memcpy(&ehdr, core->bytes, sizeof(ehdr));
    if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not the core of a 64-bit little-endian machine");
    if (ehdr.e_type != ET_CORE || ehdr.e_phentsize != sizeof(Elf64_Phdr))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not a core file: another kind of ELF file");
    uint64_t count = ehdr.e_phnum;
    if (count == PN_XNUM) {
        /* More segments than the field can say: the first section header has the number. */
        Elf64_Shdr shdr;
        if (ehdr.e_shoff > core->len || core->len - ehdr.e_shoff < sizeof(shdr))
            return gsp_err_set(err, GSP_E_FORMAT, 0,
                               "the core file is cut: its headers are not whole");
        memcpy(&shdr, core->bytes + ehdr.e_shoff, sizeof(shdr));
        count = shdr.sh_info;
    }
    return take_phdrs(core, ehdr.e_phoff, count, err);
}

/* ---- The memory map ---- */

/* Paths in the form of /proc/PID/maps: no line ends in them. */
static void put_path(struct gsp_buf *text, const char *path)
{
    for (; *path; path++) {
        if (*path == '\n')
            gsp_buf_puts(text, "\\012");
        else
            gsp_buf_putc(text, *path);
    }
}

static void put_area(struct gsp_core *core, const struct gsp_core__area *area, struct gsp_buf *text)
{
    uint64_t inode = 0;
    const char *path = "";
    if (area->module != GSP_CORE_NO_MODULE) {
        struct gsp_core__module *module = &core->modules[area->module];
        /* Only of images is more wanted than their bytes. */
        inode = area->offset == 0 && gsp_core__module_here(core, module) ? module->inode : 1;
        path = module->path;
    }
    gsp_buf_printf(text, "%llx-%llx %c%c%cp %llx 00:00 %llu ", (unsigned long long)area->start,
                   (unsigned long long)area->end, area->flags & PF_R ? 'r' : '-',
                   area->flags & PF_W ? 'w' : '-', area->flags & PF_X ? 'x' : '-',
                   (unsigned long long)area->offset, (unsigned long long)inode);
    put_path(text, path);
    gsp_buf_putc(text, '\n');
}

/* Mapped files as the notes have them, and of the loads what is no file. */
static size_t join_areas(const struct gsp_core *core, struct gsp_core__area *out)
{
    size_t count = 0;
    for (size_t i = 0; i < core->file_count; i++) {
        const struct gsp_core__load *load = load_at(core, core->files[i].start);
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
    return tidy_areas(out, count);
}

static int make_maps(struct gsp_core *core, struct gsp_err *err)
{
    size_t cap = 2 * core->file_count + core->load_count + 1;
    gsp_auto_free struct gsp_core__area *areas = calloc(cap, sizeof(*areas));
    if (!areas)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    size_t count = join_areas(core, areas);
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < count; i++)
        put_area(core, &areas[i], &text);
    if (text.failed)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    return gsp_maps_parse(gsp_buf_sv(&text), &core->maps, err);
}

static int fill(struct gsp_core *core, struct gsp_err *err)
{
    core->open_fd = -1;
    core->info.name = core->name;
    core->info.cmdline = core->cmdline;
    core->info.exe = "";
    int rc = take_header(core, err);
    if (rc == GSP_OK && core->thread_count == 0)
        rc = gsp_err_set(err, GSP_E_FORMAT, 0, "the core file tells of no thread");
    if (rc == GSP_OK)
        rc = make_maps(core, err);
    if (rc != GSP_OK)
        return rc;
    const struct gsp_core__area *area = file_at(core, core->phdr_addr);
    if (area)
        core->info.exe = core->modules[area->module].path;
    if (core->info.pid == 0)
        core->info.pid = core->tasks[0].tid;
    return GSP_OK;
}

int gsp_core_parse(const void *bytes, size_t len, struct gsp_core **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_core *core = calloc(1, sizeof(*core));
    if (!core)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    core->bytes = bytes;
    core->len = len;
    int rc = fill(core, err);
    if (rc != GSP_OK) {
        gsp_core_close(core);
        return rc;
    }
    *out = core;
    return GSP_OK;
}

static int fail_open(const char *path, int sys, struct gsp_err *err)
{
    int code = sys == ENOENT || sys == ENOTDIR ? GSP_E_NOFILE : GSP_E_IO;
    return gsp_err_set(err, code, sys, "cannot read %s: %s", path, strerror(sys));
}

int gsp_core_open(const char *path, struct gsp_core **out, struct gsp_err *err)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_open(path, errno, err);
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        close(fd);
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s: not a core file: %s", path,
                           S_ISREG(st.st_mode) ? "empty" : "no regular file");
    }
    size_t len = (size_t)st.st_size;
    void *bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    int sys = errno;
    close(fd);
    if (bytes == MAP_FAILED)
        return fail_open(path, sys, err);
    struct gsp_err why = {0};
    int rc = gsp_core_parse(bytes, len, out, &why);
    if (rc != GSP_OK) {
        munmap(bytes, len);
        return gsp_err_set(err, rc, why.sys, "%s: %s", path, why.msg);
    }
    (*out)->mapping = bytes;
    return GSP_OK;
}

void gsp_core_close(struct gsp_core *core)
{
    if (!core)
        return;
    if (core->mapping)
        munmap(core->mapping, core->len);
    if (core->open_fd >= 0)
        close(core->open_fd);
    gsp_maps_free(core->maps);
    gsp_hmap_free(&core->by_path);
    free(core->loads);
    free(core->files);
    free(core->modules);
    free(core->tasks);
    free(core->threads);
    free(core);
}

const struct gsp_core_info *gsp_core_info(const struct gsp_core *core)
{
    return &core->info;
}

const struct gsp_maps *gsp_core_maps(const struct gsp_core *core)
{
    return core->maps;
}

const struct gsp_task *gsp_core_threads(const struct gsp_core *core, size_t *count)
{
    *count = core->thread_count;
    return core->tasks;
}

const void *gsp_core_regs(const struct gsp_core *core, size_t i, size_t *len)
{
    if (i >= core->thread_count)
        return NULL;
    *len = core->threads[i].regs_len;
    return core->threads[i].regs;
}

const char *gsp_core_lacks(const struct gsp_core *core)
{
    return core->lacks;
}
