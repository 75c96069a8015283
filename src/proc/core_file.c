/* SPDX-License-Identifier: Apache-2.0 */
/* The files that were mapped into the process. They contain the pages that the core omits. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/core_internal.h"

#define BUILD_ID_MAX 64U
#define NOTES_MAX    4096U
#define PHDRS_MAX    64U
#define PAGE_BYTES   4096U

struct build_id {
    size_t len; /* 0: none found */
    unsigned char bytes[BUILD_ID_MAX];
};

/* An ELF image to read: the core's memory at addr, or a file. */
struct image_source {
    struct gsp_core *core;
    uint64_t addr;
    int fd; /* -1: the core */
};

static bool read_at(const struct image_source *source, uint64_t off, void *to, size_t len)
{
    if (source->fd >= 0)
        return off <= INT64_MAX && pread(source->fd, to, len, (off_t)off) == (ssize_t)len;
    return gsp_proc__core_read_mem(source->core, source->addr + off, to, len) == len;
}

static size_t align4(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

static void find_in_notes(const unsigned char *notes, size_t len, struct build_id *out)
{
    for (size_t at = 0; len - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr head;
        memcpy(&head, notes + at, sizeof(head));
        at += sizeof(head);
        if (head.n_namesz > len - at || head.n_descsz > len)
            return;
        size_t desc = at + align4(head.n_namesz);
        if (desc > len || head.n_descsz > len - desc)
            return;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp(notes + at, "GNU", 4) == 0 && head.n_descsz <= BUILD_ID_MAX) {
            out->len = head.n_descsz;
            memcpy(out->bytes, notes + desc, out->len);
            return;
        }
        at = desc + align4(head.n_descsz);
        if (at > len)
            return;
    }
}

/* The notes are in the first page, where file and memory offsets are equal. */
static void read_build_id(const struct image_source *source, struct build_id *out)
{
    Elf64_Ehdr ehdr;
    out->len = 0;
    if (!read_at(source, 0, &ehdr, sizeof(ehdr)) || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 ||
        ehdr.e_phentsize != sizeof(Elf64_Phdr))
        return;
    for (size_t i = 0; i < ehdr.e_phnum && i < PHDRS_MAX && !out->len; i++) {
        Elf64_Phdr phdr;
        unsigned char notes[NOTES_MAX];
        if (!read_at(source, ehdr.e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr)))
            return;
        if (phdr.p_type == PT_NOTE && phdr.p_filesz <= sizeof(notes) &&
            read_at(source, phdr.p_offset, notes, (size_t)phdr.p_filesz))
            find_in_notes(notes, (size_t)phdr.p_filesz, out);
    }
}

/* Paths in a core are not trusted: only regular files are opened, and without blocking. */
static int open_regular(const char *path, uint64_t *inode)
{
    struct stat st;
    if (path[0] != '/' || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    *inode = (uint64_t)st.st_ino;
    return fd;
}

static void keep_open(struct gsp_core *core, uint32_t module, int fd)
{
    if (core->open_fd >= 0)
        close(core->open_fd);
    core->open_fd = fd;
    core->open_module = module;
}

bool gsp_proc__core_module_is_same(struct gsp_core *core, struct gsp_core__module *module)
{
    if (module->trust != GSP_CORE_UNCHECKED)
        return module->trust == GSP_CORE_SAME;
    module->trust = GSP_CORE_ABSENT;
    int fd = open_regular(module->path, &module->inode);
    if (fd < 0)
        return false;
    struct build_id then = {0};
    struct build_id now = {0};
    if (module->head)
        read_build_id(&(struct image_source){core, module->head, -1}, &then);
    if (then.len)
        read_build_id(&(struct image_source){.fd = fd}, &now);
    if (then.len == now.len && memcmp(then.bytes, now.bytes, then.len) == 0)
        module->trust = GSP_CORE_SAME;
    keep_open(core, (uint32_t)(module - core->modules), fd);
    return module->trust == GSP_CORE_SAME;
}

/* Bytes of the last page past the end of the file are zero, as in mapped memory. */
static bool read_pages(int fd, uint64_t off, unsigned char *to, size_t len)
{
    if (len == 0 || off > INT64_MAX - len)
        return false;
    ssize_t got = pread(fd, to, len, (off_t)off);
    if (got <= 0)
        return false;
    uint64_t end = off + (uint64_t)got;
    if (end < off + len && (off + len - 1) / PAGE_BYTES != (end - 1) / PAGE_BYTES)
        return false;
    memset(to + got, 0, len - (size_t)got);
    return true;
}

bool gsp_proc__core_module_read(struct gsp_core *core, uint32_t index, uint64_t off, void *to,
                                size_t len)
{
    struct gsp_core__module *module = &core->modules[index];
    if (!gsp_proc__core_module_is_same(core, module)) {
        if (!core->lacks)
            core->lacks = module->path;
        return false;
    }
    if (core->open_fd < 0 || core->open_module != index) {
        uint64_t inode = 0;
        keep_open(core, index, open_regular(module->path, &inode));
        if (core->open_fd < 0 || inode != module->inode)
            return false;
    }
    return read_pages(core->open_fd, off, to, len);
}

const char *gsp_proc_core_missing_file_at(struct gsp_core *core, uint64_t addr)
{
    const struct gsp_core__area *area = gsp_proc__core_file_at(core, addr);
    if (!area)
        return NULL;
    struct gsp_core__module *module = &core->modules[area->module];
    return gsp_proc__core_module_is_same(core, module) ? NULL : module->path;
}
