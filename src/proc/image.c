/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/image.h"

#include <stdlib.h>
#include <string.h>

#include "proc/image_internal.h"

#define DYNAMIC_MAX 512U /* entries of PT_DYNAMIC; usual are about 40 */
#define CHAIN_MAX   4096U
#define NAME_MAX_   128U

static int read_header(struct gsp_image *image, Elf64_Ehdr *ehdr, struct gsp_err *err)
{
    int rc = gsp_proc_mem_read(image->mem, image->map->start, ehdr, sizeof(*ehdr));
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "%s: %s", image->map->path, gsp_err_text(rc));
    if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 || ehdr->e_ident[EI_CLASS] != ELFCLASS64 ||
        ehdr->e_phentsize != sizeof(Elf64_Phdr))
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s: not a 64-bit ELF image", image->map->path);
    return GSP_OK;
}

/* glibc relocates the values of PT_DYNAMIC in place; musl does not. */
static gsp_raddr absolute(const struct gsp_image *image, uint64_t value)
{
    return value < image->bias ? value + image->bias : value;
}

static int read_dynamic(struct gsp_image *image, const Elf64_Phdr *phdr)
{
    size_t count = phdr->p_memsz / sizeof(Elf64_Dyn);
    if (count > DYNAMIC_MAX)
        count = DYNAMIC_MAX;
    Elf64_Dyn *dyn = calloc(count ? count : 1, sizeof(*dyn));
    if (!dyn)
        return GSP_E_NOMEM;
    int rc = gsp_proc_mem_read(image->mem, image->bias + phdr->p_vaddr, dyn, count * sizeof(*dyn));
    for (size_t i = 0; rc == GSP_OK && i < count && dyn[i].d_tag != DT_NULL; i++) {
        uint64_t value = dyn[i].d_un.d_ptr;
        if (dyn[i].d_tag == DT_SYMTAB)
            image->symtab = absolute(image, value);
        else if (dyn[i].d_tag == DT_STRTAB)
            image->strtab = absolute(image, value);
        else if (dyn[i].d_tag == DT_STRSZ)
            image->strtab_len = value;
        else if (dyn[i].d_tag == DT_GNU_HASH)
            image->gnu_hash = absolute(image, value);
        else if (dyn[i].d_tag == DT_HASH)
            image->sysv_hash = absolute(image, value);
    }
    free(dyn);
    return rc;
}

static int read_headers(struct gsp_image *image, struct gsp_err *err)
{
    Elf64_Ehdr ehdr;
    int rc = read_header(image, &ehdr, err);
    if (rc != GSP_OK)
        return rc;
    Elf64_Phdr phdrs[64];
    size_t count = ehdr.e_phnum < GSP_COUNT(phdrs) ? ehdr.e_phnum : GSP_COUNT(phdrs);
    rc = gsp_proc_mem_read(image->mem, image->map->start + ehdr.e_phoff, phdrs,
                           count * sizeof(*phdrs));
    if (rc != GSP_OK)
        return gsp_err_set(err, rc, 0, "%s: program headers: %s", image->map->path,
                           gsp_err_text(rc));
    const Elf64_Phdr *dynamic = NULL;
    for (size_t i = 0; i < count; i++)
        if (phdrs[i].p_type == PT_LOAD && image->segment_count < GSP_IMAGE_SEGMENTS_MAX)
            image->segments[image->segment_count++] = phdrs[i];
        else if (phdrs[i].p_type == PT_DYNAMIC)
            dynamic = &phdrs[i];
    if (image->segment_count == 0)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "%s: no loaded segment", image->map->path);
    if (ehdr.e_type == ET_DYN)
        image->bias = image->map->start - (image->segments[0].p_vaddr & ~0xfffULL);
    if (dynamic)
        gsp_ignore(read_dynamic(image, dynamic)); /* the file remains as a source of symbols */
    return GSP_OK;
}

int gsp_proc_image_open(pid_t pid, struct gsp_mem *mem, const struct gsp_map *map,
                        struct gsp_image **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_image *image = calloc(1, sizeof(*image));
    if (!image)
        return gsp_err_nomem(err);
    image->pid = pid;
    image->mem = mem;
    image->map = map;
    image->file_fd = -1;
    int rc = read_headers(image, err);
    if (rc != GSP_OK) {
        gsp_proc_image_close(image);
        return rc;
    }
    *out = image;
    return GSP_OK;
}

void gsp_proc_image_close(struct gsp_image *image)
{
    if (!image)
        return;
    gsp_proc__image_file_close(image);
    free(image);
}

/* Returns the address of symbol i if it has this name and is defined in this image, else 0. */
static gsp_raddr symbol_if_named(struct gsp_image *image, uint32_t i, const char *name, size_t len)
{
    Elf64_Sym sym;
    if (gsp_proc_mem_read(image->mem, image->symtab + (uint64_t)i * sizeof(sym), &sym,
                          sizeof(sym)) != GSP_OK)
        return 0;
    if (sym.st_shndx == SHN_UNDEF || sym.st_name >= image->strtab_len ||
        len + 1 > image->strtab_len - sym.st_name)
        return 0;
    char text[NAME_MAX_];
    if (gsp_proc_mem_read(image->mem, image->strtab + sym.st_name, text, len + 1) != GSP_OK ||
        memcmp(text, name, len + 1) != 0)
        return 0;
    return image->bias + sym.st_value;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

static gsp_raddr find_gnu(struct gsp_image *image, const char *name, size_t len)
{
    struct {
        uint32_t buckets;
        uint32_t first_symbol;
        uint32_t bloom_words;
        uint32_t bloom_shift;
    } head;
    if (gsp_proc_mem_read(image->mem, image->gnu_hash, &head, sizeof(head)) != GSP_OK ||
        head.buckets == 0)
        return 0;
    uint32_t hash = gnu_hash(name);
    gsp_raddr buckets = image->gnu_hash + sizeof(head) + 8ULL * head.bloom_words;
    gsp_raddr chains = buckets + 4ULL * head.buckets;
    uint32_t i;
    if (gsp_proc_mem_read(image->mem, buckets + 4ULL * (hash % head.buckets), &i, sizeof(i)) !=
        GSP_OK)
        return 0;
    for (uint32_t n = 0; i >= head.first_symbol && n < CHAIN_MAX; i++, n++) {
        uint32_t link;
        if (gsp_proc_mem_read(image->mem, chains + 4ULL * (i - head.first_symbol), &link,
                              sizeof(link)) != GSP_OK)
            return 0;
        if ((link | 1U) == (hash | 1U)) {
            gsp_raddr addr = symbol_if_named(image, i, name, len);
            if (addr)
                return addr;
        }
        if (link & 1U)
            break;
    }
    return 0;
}

static uint32_t sysv_hash(const char *name)
{
    uint32_t h = 0;
    for (; *name; name++) {
        h = (h << 4) + (unsigned char)*name;
        uint32_t top = h & 0xf0000000U;
        h ^= top >> 24;
        h &= ~top;
    }
    return h;
}

static gsp_raddr find_sysv(struct gsp_image *image, const char *name, size_t len)
{
    uint32_t head[2]; /* buckets, chains */
    if (gsp_proc_mem_read(image->mem, image->sysv_hash, head, sizeof(head)) != GSP_OK ||
        head[0] == 0)
        return 0;
    gsp_raddr buckets = image->sysv_hash + sizeof(head);
    gsp_raddr chains = buckets + 4ULL * head[0];
    uint32_t i;
    gsp_raddr at = buckets + 4ULL * (sysv_hash(name) % head[0]);
    for (uint32_t n = 0; n < CHAIN_MAX; n++) {
        if (gsp_proc_mem_read(image->mem, at, &i, sizeof(i)) != GSP_OK || i == 0 || i >= head[1])
            return 0;
        gsp_raddr addr = symbol_if_named(image, i, name, len);
        if (addr)
            return addr;
        at = chains + 4ULL * i;
    }
    return 0;
}

gsp_raddr gsp_proc_image_dynsym(struct gsp_image *image, const char *name)
{
    size_t len = strlen(name);
    if (!image->symtab || !image->strtab || len + 1 > NAME_MAX_)
        return 0;
    if (image->gnu_hash)
        return find_gnu(image, name, len);
    return image->sysv_hash ? find_sysv(image, name, len) : 0;
}

bool gsp_proc_image_segment(struct gsp_image *image, size_t i, struct gsp_range *out,
                            bool *writable)
{
    if (i >= image->segment_count)
        return false;
    const Elf64_Phdr *phdr = &image->segments[i];
    *out = (struct gsp_range){image->bias + phdr->p_vaddr, phdr->p_memsz};
    *writable = (phdr->p_flags & PF_W) != 0;
    return true;
}
