/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/time.h"
#include "native/native_internal.h"

#define EH_FRAME_BYTES_MAX (1U << 30)
#define NOTES_BYTES_MAX    (64U << 10)
#define PAGE               4096U

/* Where distributions put separate debug files. */
static const char DEBUG_ROOT[] = "/usr/lib/debug";

static void read_loads(struct gsp_native_file *file)
{
    size_t count;
    if (elf_getphdrnum(file->elf, &count) != 0 || count > INT_MAX)
        return;
    for (size_t i = 0; i < count && file->load_count < GSP_NATIVE_LOADS_MAX; i++) {
        GElf_Phdr ph;
        if (!gelf_getphdr(file->elf, (int)i, &ph) || ph.p_type != PT_LOAD)
            continue;
        file->loads[file->load_count++] = (struct gsp_native_load){
            ph.p_vaddr, ph.p_offset, ph.p_filesz, (ph.p_flags & PF_X) != 0};
    }
}

/* Finds the build-id in a buffer of notes. Returns its length, or 0. */
static size_t find_build_id(const unsigned char *notes, size_t len, unsigned char *out)
{
    size_t at = 0;
    while (len - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr head;
        memcpy(&head, notes + at, sizeof(head));
        at += sizeof(head);
        uint64_t name = ((uint64_t)head.n_namesz + 3) & ~3ULL;
        uint64_t desc = ((uint64_t)head.n_descsz + 3) & ~3ULL;
        if (name > len - at || desc > len - at - name)
            return 0;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp(notes + at, "GNU", 4) == 0 && head.n_descsz <= GSP_NATIVE_BUILD_ID_MAX) {
            memcpy(out, notes + at + name, head.n_descsz);
            return head.n_descsz;
        }
        at += (size_t)(name + desc);
    }
    return 0;
}

static size_t read_build_id(void *elf, unsigned char *out)
{
    size_t count;
    if (elf_getphdrnum(elf, &count) != 0 || count > INT_MAX)
        return 0;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr ph;
        if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_NOTE || ph.p_filesz == 0 ||
            ph.p_filesz > NOTES_BYTES_MAX)
            continue;
        Elf_Data *data =
            elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, (size_t)ph.p_filesz, ELF_T_BYTE);
        size_t len = data && data->d_buf ? find_build_id(data->d_buf, data->d_size, out) : 0;
        if (len)
            return len;
    }
    return 0;
}

static void open_elf(struct gsp_native_file *file)
{
    if (elf_version(EV_CURRENT) == EV_NONE)
        return;
    /* Not mapped: if a mapped file is truncated, access to it kills the reader. */
    file->elf = file->fd >= 0 ? elf_begin(file->fd, ELF_C_READ, NULL)
                              : elf_memory((char *)file->image, (size_t)file->len);
    GElf_Ehdr head;
    if (!file->elf || elf_kind(file->elf) != ELF_K_ELF || !gelf_getehdr(file->elf, &head) ||
        head.e_ident[EI_CLASS] != ELFCLASS64) {
        elf_end(file->elf);
        file->elf = NULL;
        return;
    }
    file->arch = gsp_native__arch(head.e_machine);
    read_loads(file);
    file->build_id_len = read_build_id(file->elf, file->build_id);
}

static bool push_file(struct gsp_native_store *store, struct gsp_native_file *file)
{
    if (!gsp_array_fit(&store->files, &store->cap, store->count + 1))
        return false;
    store->files[store->count++] = file;
    return true;
}

static struct gsp_native_file *add_file(struct gsp_native_store *store,
                                        const struct gsp_native_file *like, const char *path)
{
    struct gsp_native_file *file = malloc(sizeof(*file));
    if (!file)
        return NULL;
    *file = *like;
    file->debug_fd = -1;
    file->path = strdup(path);
    if (!file->path || !push_file(store, file)) {
        file->fd = -1; /* the caller keeps fd and image */
        file->image = NULL;
        gsp_native__file_free(file);
        return NULL;
    }
    open_elf(file);
    return file;
}

struct gsp_native_file *gsp_native__file_open(struct gsp_native_store *store, int fd,
                                              const char *path, pid_t pid)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        close(fd);
        return NULL;
    }
    struct gsp_native_file like = {
        .dev = st.st_dev,
        .inode = st.st_ino,
        .len = (uint64_t)st.st_size,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * GSP_NS_PER_S + st.st_mtim.tv_nsec,
        .pid = pid,
        .fd = fd,
    };
    for (size_t i = 0; i < store->count; i++) {
        struct gsp_native_file *file = store->files[i];
        if (file->fd >= 0 && file->dev == like.dev && file->inode == like.inode &&
            file->len == like.len && file->mtime_ns == like.mtime_ns) {
            close(fd);
            return file;
        }
    }
    struct gsp_native_file *file = add_file(store, &like, path);
    if (!file)
        close(fd);
    return file;
}

struct gsp_native_file *gsp_native__file_of_image(struct gsp_native_store *store,
                                                  unsigned char *image, size_t len,
                                                  const char *path)
{
    struct gsp_native_file like = {.len = len, .fd = -1, .image = image};
    struct gsp_native_file *file = add_file(store, &like, path);
    if (!file)
        free(image);
    return file;
}

void gsp_native__file_free(struct gsp_native_file *file)
{
    if (!file)
        return;
    gsp_native__lines_free(file->lines);
    gsp_native__symbols_free(file->symbols);
    gsp_native__cfi_free(&file->table);
    gsp_native__index_free(file->index);
    elf_end(file->debug_elf);
    elf_end(file->elf);
    gsp_fd_close(&file->debug_fd);
    gsp_fd_close(&file->fd);
    free(file->image);
    free(file->path);
    free(file);
}

bool gsp_native__file_read(const struct gsp_native_file *file, uint64_t offset, void *to,
                           size_t len)
{
    if (offset > file->len || len > file->len - offset)
        return false;
    if (file->image) {
        memcpy(to, file->image + offset, len);
        return true;
    }
    return gsp_fd_read_at(file->fd, to, len, offset) == (ssize_t)len;
}

bool gsp_native__file_text(const struct gsp_native_file *file, uint64_t vaddr, void *to, size_t len)
{
    for (size_t i = 0; i < file->load_count; i++) {
        const struct gsp_native_load *load = &file->loads[i];
        uint64_t off = vaddr - load->vaddr;
        if (vaddr >= load->vaddr && off < load->file_len && len <= load->file_len - off)
            return gsp_native__file_read(file, load->offset + off, to, len);
    }
    return false;
}

void *gsp_native__section(void *elf, const char *name)
{
    size_t names;
    if (!elf || elf_getshdrstrndx(elf, &names) != 0)
        return NULL;
    for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr sh;
        if (!gelf_getshdr(scn, &sh) || sh.sh_type == SHT_NOBITS || sh.sh_size == 0)
            continue;
        const char *text = elf_strptr(elf, names, sh.sh_name);
        if (text && strcmp(text, name) == 0)
            return scn;
    }
    return NULL;
}

/* For files without section headers: PT_GNU_EH_FRAME has the address of .eh_frame, which is assumed
 * to extend to the end of its segment. */
static bool eh_frame_of_header(const struct gsp_native_file *file, uint64_t *addr, uint64_t *len)
{
    size_t count;
    if (elf_getphdrnum(file->elf, &count) != 0 || count > INT_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr ph;
        unsigned char head[8];
        if (!gelf_getphdr(file->elf, (int)i, &ph) || ph.p_type != PT_GNU_EH_FRAME)
            continue;
        /* Version 1, and the pointer encoding of linkers: four bytes, relative to its address. */
        if (!gsp_native__file_text(file, ph.p_vaddr, head, sizeof(head)) || head[0] != 1 ||
            head[1] != 0x1b)
            return false;
        int32_t delta;
        memcpy(&delta, head + 4, sizeof(delta));
        *addr = ph.p_vaddr + 4 + (uint64_t)(int64_t)delta;
        for (size_t k = 0; k < file->load_count; k++) {
            const struct gsp_native_load *load = &file->loads[k];
            if (*addr >= load->vaddr && *addr - load->vaddr < load->file_len) {
                *len = load->file_len - (*addr - load->vaddr);
                return true;
            }
        }
    }
    return false;
}

bool gsp_native__file_eh_frame(const struct gsp_native_file *file, struct gsp_cfi_input *in,
                               unsigned char **owned)
{
    *owned = NULL;
    if (!file->elf || !file->arch)
        return false;
    uint64_t addr = 0;
    uint64_t len = 0;
    bool by_section = false;
    uint64_t offset = 0;
    GElf_Shdr sh;
    Elf_Scn *scn = gsp_native__section(file->elf, ".eh_frame");
    if (scn && gelf_getshdr(scn, &sh)) {
        by_section = true;
        addr = sh.sh_addr;
        len = sh.sh_size;
        offset = sh.sh_offset;
    } else if (!eh_frame_of_header(file, &addr, &len)) {
        return false;
    }
    if (len == 0 || len > EH_FRAME_BYTES_MAX || len > file->len)
        return false;
    unsigned char *bytes = malloc((size_t)len);
    if (!bytes)
        return false;
    *owned = bytes;
    *in = (struct gsp_cfi_input){file->arch, bytes, (size_t)len, addr};
    return by_section ? gsp_native__file_read(file, offset, bytes, (size_t)len)
                      : gsp_native__file_text(file, addr, bytes, (size_t)len);
}

static void build_table(struct gsp_native_file *file, const struct gsp_cfi_input *in)
{
    int64_t start_ns = gsp_now_ns();
    struct gsp_err err = {0};
    if (gsp_native__cfi_build(in, &file->table, &err) != GSP_OK) {
        gsp_log_warn("native", "%s: %s", file->path, err.msg);
        return;
    }
    gsp_log_debug("native", "%s: %zu rows in %lld us", file->path, file->table.count,
                  (long long)((gsp_now_ns() - start_ns) / GSP_NS_PER_US));
}

const struct gsp_cfi_table *gsp_native__file_table(struct gsp_native_file *file)
{
    if (file->table_tried)
        return &file->table;
    file->table_tried = true;
    struct gsp_cfi_input in;
    unsigned char *bytes;
    if (gsp_native__file_eh_frame(file, &in, &bytes))
        build_table(file, &in);
    free(bytes);
    return &file->table;
}

bool gsp_native__file_bias(const struct gsp_native_file *file, uint64_t offset, uint64_t start,
                           uint64_t *bias)
{
    for (size_t i = 0; i < file->load_count; i++) {
        const struct gsp_native_load *load = &file->loads[i];
        uint64_t first = load->offset & ~(uint64_t)(PAGE - 1);
        if (load->exec && offset >= first && offset < load->offset + load->file_len) {
            *bias = start - (load->vaddr - load->offset + offset);
            return true;
        }
    }
    return false;
}

/* Opens path below the target's root, or our own root, if it has the build-id of the file. */
static bool try_debug(struct gsp_native_file *file, const char *path)
{
    char full[PATH_MAX];
    for (int own = file->pid == 0; own < 2; own++) {
        int len = own ? snprintf(full, sizeof(full), "%s", path)
                      : snprintf(full, sizeof(full), "/proc/%d/root%s", (int)file->pid, path);
        if (len < 0 || (size_t)len >= sizeof(full))
            continue;
        int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
            continue;
        unsigned char id[GSP_NATIVE_BUILD_ID_MAX];
        struct stat st;
        bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
        Elf *elf = regular ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
        if (elf && elf_kind(elf) == ELF_K_ELF && read_build_id(elf, id) == file->build_id_len &&
            memcmp(id, file->build_id, file->build_id_len) == 0) {
            file->debug_elf = elf;
            file->debug_fd = fd;
            return true;
        }
        elf_end(elf);
        close(fd);
    }
    return false;
}

static bool try_debug_link(struct gsp_native_file *file)
{
    Elf_Scn *scn = gsp_native__section(file->elf, ".gnu_debuglink");
    Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
    const char *slash = strrchr(file->path, '/');
    if (!data || !data->d_buf || !slash || !memchr(data->d_buf, 0, data->d_size) ||
        strchr(data->d_buf, '/'))
        return false;
    const char *name = data->d_buf;
    int folder = (int)(slash - file->path);
    char path[PATH_MAX];
    for (int i = 0; i < 3; i++) {
        int len = snprintf(path, sizeof(path), "%s%.*s/%s%s", i == 2 ? DEBUG_ROOT : "", folder,
                           file->path, i == 1 ? ".debug/" : "", name);
        if (len > 0 && (size_t)len < sizeof(path) && strcmp(path, file->path) != 0 &&
            try_debug(file, path))
            return true;
    }
    return false;
}

void *gsp_native__file_debug(struct gsp_native_file *file)
{
    /* Without a build-id a debug file cannot be matched. */
    if (file->debug_tried || !file->elf || file->build_id_len < 2)
        return file->debug_elf;
    file->debug_tried = true;
    char path[64 + 2 * GSP_NATIVE_BUILD_ID_MAX + 16];
    int len = snprintf(path, sizeof(path), "%s/.build-id/%02x/", DEBUG_ROOT, file->build_id[0]);
    for (size_t i = 1; i < file->build_id_len; i++)
        len += snprintf(path + len, sizeof(path) - (size_t)len, "%02x", file->build_id[i]);
    snprintf(path + len, sizeof(path) - (size_t)len, ".debug");
    if (!try_debug(file, path) && !try_debug_link(file))
        file->debug_elf = NULL;
    return file->debug_elf;
}
