/* SPDX-License-Identifier: Apache-2.0 */
/* The notes of a core: threads, process identity, mapped files. */
#include <stdlib.h>
#include <string.h>

#include "proc/core_internal.h"

#define FILES_MAX     (1U << 20)
#define THREADS_MAX   (1U << 16)
/* Offsets in struct elf_prstatus and elf_prpsinfo of 64-bit machines. */
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

/* The core owns each array as soon as it has grown. On success both have capacity `cap`. */
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

static int parse_status(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    if (note->len < STATUS_REGS + STATUS_TAIL)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "core: a thread note has only %zu bytes",
                           note->len);
    if (core->thread_count == core->thread_cap) {
        size_t cap = core->thread_cap ? core->thread_cap * 2 : 16;
        if (cap > THREADS_MAX)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "core: more than %u threads", THREADS_MAX);
        if (!grow_threads(core, cap))
            return gsp_err_nomem(err);
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

static int parse_info(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    if (note->len < INFO_BYTES)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "core: the process note has only %zu bytes",
                           note->len);
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

static int parse_auxv(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    (void)err;
    for (size_t at = 0; at + 16 <= note->len; at += 16) {
        uint64_t value = word_at(note->desc + at + 8);
        if (word_at(note->desc + at) == AT_PHDR)
            core->phdr_addr = value;
        else if (word_at(note->desc + at) == AT_SYSINFO_EHDR)
            core->vdso_addr = value;
    }
    return GSP_OK;
}

/* Finds or adds the module of a path, which stays in the core's notes. Returns false if memory
 * runs out. */
static bool intern_module(struct gsp_core *core, const char *path, size_t len, uint32_t *out)
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

size_t gsp_proc__core_sort_areas(struct gsp_core__area *areas, size_t count)
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

/* NT_FILE: count, page size, count times (start, end, page), then count names. */
static int parse_files(struct gsp_core *core, const struct note *note, struct gsp_err *err)
{
    uint64_t count = note->len >= 16 ? word_at(note->desc) : 0;
    uint64_t unit = note->len >= 16 ? word_at(note->desc + 8) : 0;
    if (count > FILES_MAX || unit == 0 || unit > (1U << 30) || note->len - 16 < count * 24 ||
        core->files)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "core: the list of mapped files is malformed");
    core->files = calloc((size_t)count + 1, sizeof(*core->files));
    core->modules = calloc((size_t)count + 1, sizeof(*core->modules));
    if (!core->files || !core->modules)
        return gsp_err_nomem(err);
    const char *name = (const char *)note->desc + 16 + count * 24;
    const char *end = (const char *)note->desc + note->len;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *row = note->desc + 16 + i * 24;
        const char *stop = name < end ? memchr(name, 0, (size_t)(end - name)) : NULL;
        if (!stop)
            return gsp_err_set(err, GSP_E_FORMAT, 0,
                               "core: the names of mapped files are truncated");
        struct gsp_core__area *area = &core->files[i];
        area->start = word_at(row);
        area->end = word_at(row + 8);
        area->offset = word_at(row + 16) * unit;
        if (!intern_module(core, name, (size_t)(stop - name), &area->module))
            return gsp_err_nomem(err);
        if (area->offset == 0 && !core->modules[area->module].head)
            core->modules[area->module].head = area->start;
        name = stop + 1;
    }
    core->file_count = gsp_proc__core_sort_areas(core->files, (size_t)count);
    return GSP_OK;
}

static const struct {
    uint32_t type;
    int (*parse)(struct gsp_core *core, const struct note *note, struct gsp_err *err);
} NOTES[] = {
    {NT_PRSTATUS, parse_status},
    {NT_PRPSINFO, parse_info},
    {NT_AUXV, parse_auxv},
    {NT_FILE, parse_files},
};

int gsp_proc__core_parse_notes(struct gsp_core *core, const unsigned char *p, size_t len,
                               struct gsp_err *err)
{
    for (size_t at = 0; len - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr head;
        memcpy(&head, p + at, sizeof(head));
        at += sizeof(head);
        uint64_t desc = at + (((uint64_t)head.n_namesz + 3) & ~3ULL);
        uint64_t next = desc + (((uint64_t)head.n_descsz + 3) & ~3ULL);
        if (desc > len || head.n_descsz > len - desc)
            return gsp_err_set(err, GSP_E_FORMAT, 0,
                               "core: a note extends past the end of the notes");
        bool is_core = head.n_namesz == 5 && memcmp(p + at, "CORE", 5) == 0;
        struct note note = {head.n_type, p + desc, head.n_descsz};
        for (size_t i = 0; is_core && i < GSP_COUNT(NOTES); i++) {
            int rc = NOTES[i].type == note.type ? NOTES[i].parse(core, &note, err) : GSP_OK;
            if (rc != GSP_OK)
                return rc;
        }
        if (next >= len)
            break;
        at = (size_t)next;
    }
    return GSP_OK;
}
