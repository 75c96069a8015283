/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/image_internal.h"

static int open_same(const char *path, uint64_t inode)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct stat st;
    /* A different inode means that the file was replaced: its symbols would be wrong. */
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_ino != inode || !S_ISREG(st.st_mode)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Tries the path below the target's root, then the kernel's link to the mapped file (needs
 * CAP_SYS_ADMIN, finds deleted files), then the executable's link. */
static int open_file(const struct gsp_image *image)
{
    if (image->pid == 0)
        return open_same(image->map->path, image->map->inode); /* the image is in a core file */
    char path[4200];
    snprintf(path, sizeof(path), "/proc/%d/root%s", (int)image->pid, image->map->path);
    int fd = open_same(path, image->map->inode);
    if (fd < 0) {
        snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)image->pid,
                 (unsigned long long)image->map->start, (unsigned long long)image->map->end);
        fd = open_same(path, image->map->inode);
    }
    if (fd < 0) {
        snprintf(path, sizeof(path), "/proc/%d/exe", (int)image->pid);
        fd = open_same(path, image->map->inode);
    }
    return fd;
}

static Elf *file_elf(struct gsp_image *image)
{
    if (image->file_tried)
        return image->elf;
    image->file_tried = true;
    if (elf_version(EV_CURRENT) == EV_NONE)
        return NULL;
    image->file_fd = open_file(image);
    if (image->file_fd < 0)
        return NULL;
    /* Not mapped: if a mapped file is truncated, access to it kills the reader. */
    image->elf = elf_begin(image->file_fd, ELF_C_READ, NULL);
    return image->elf;
}

void gsp_proc__image_file_close(struct gsp_image *image)
{
    if (image->elf)
        elf_end(image->elf);
    if (image->file_fd >= 0)
        close(image->file_fd);
    image->elf = NULL;
    image->file_fd = -1;
}

static gsp_raddr search_table(Elf *elf, Elf_Scn *scn, const GElf_Shdr *shdr, const char *name)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    if (!data || shdr->sh_entsize == 0)
        return 0;
    size_t count = shdr->sh_size / shdr->sh_entsize;
    for (size_t i = 0; i < count; i++) {
        GElf_Sym sym;
        if (!gelf_getsym(data, (int)i, &sym))
            return 0;
        if (sym.st_shndx == SHN_UNDEF)
            continue;
        const char *text = elf_strptr(elf, shdr->sh_link, sym.st_name);
        if (text && strcmp(text, name) == 0)
            return sym.st_value;
    }
    return 0;
}

gsp_raddr gsp_proc_image_filesym(struct gsp_image *image, const char *name)
{
    Elf *elf = file_elf(image);
    if (!elf)
        return 0;
    for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr shdr;
        if (!gelf_getshdr(scn, &shdr) || (shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM))
            continue;
        gsp_raddr value = search_table(elf, scn, &shdr, name);
        if (value)
            return image->bias + value;
    }
    return 0;
}

bool gsp_proc_image_section(struct gsp_image *image, const char *name, struct gsp_range *out)
{
    Elf *elf = file_elf(image);
    size_t names;
    if (!elf || elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr shdr;
        if (!gelf_getshdr(scn, &shdr))
            continue;
        const char *text = elf_strptr(elf, names, shdr.sh_name);
        if (text && strcmp(text, name) == 0) {
            *out = (struct gsp_range){image->bias + shdr.sh_addr, shdr.sh_size};
            return true;
        }
    }
    return false;
}
