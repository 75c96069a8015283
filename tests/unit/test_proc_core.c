/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "proc/core.h"
#include "tap.h"

#define DATA_ADDR  0x10000ULL
#define NEXT_ADDR  0x11000ULL
#define FILE_ADDR  0x20000ULL
#define FILE_PAGES 3U
#define PAGE       4096UL
#if defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#define SP_INDEX    31UL
#else
#define OWN_MACHINE EM_X86_64
#define SP_INDEX    19UL
#endif

/* Builds a core: notes first, then loads. */
struct maker {
    struct gsp_buf notes;
    Elf64_Phdr loads[8];
    const void *bytes[8];
    size_t load_count;
};

static void add_note(struct maker *maker, uint32_t type, const void *desc, size_t len)
{
    static const char zeros[4];
    Elf64_Nhdr head = {5, (Elf64_Word)len, type};
    gsp_buf_put(&maker->notes, &head, sizeof(head));
    gsp_buf_put(&maker->notes, "CORE\0\0\0", 8);
    gsp_buf_put(&maker->notes, desc, len);
    gsp_buf_put(&maker->notes, zeros, (4 - len % 4) % 4);
}

static void add_thread(struct maker *maker, int tid, int signal_no)
{
    unsigned char status[336] = {0};
    memcpy(status + 12, &signal_no, 2);
    memcpy(status + 32, &tid, 4);
    memset(status + 112, tid & 0xff, 27 * sizeof(uint64_t));
    add_note(maker, NT_PRSTATUS, status, sizeof(status));
}

static void add_load(struct maker *maker, uint64_t addr, uint64_t mem_len, const void *bytes,
                     uint64_t len)
{
    size_t i = maker->load_count++;
    maker->bytes[i] = bytes;
    maker->loads[i] = (Elf64_Phdr){.p_type = PT_LOAD,
                                   .p_flags = PF_R | PF_W,
                                   .p_vaddr = addr,
                                   .p_memsz = mem_len,
                                   .p_filesz = len};
}

static void add_file(struct maker *maker, const char *path)
{
    uint64_t words[] = {1, PAGE, FILE_ADDR, FILE_ADDR + FILE_PAGES * PAGE, 0};
    gsp_auto_buf note = {0};
    gsp_buf_put(&note, words, sizeof(words));
    gsp_buf_put(&note, path, strlen(path) + 1);
    add_note(maker, NT_FILE, note.p, note.len);
}

static struct gsp_buf make(struct maker *maker)
{
    struct gsp_buf out = {0};
    size_t count = maker->load_count + 1;
    Elf64_Ehdr ehdr = {.e_type = ET_CORE,
                       .e_machine = OWN_MACHINE,
                       .e_phoff = sizeof(ehdr),
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = (Elf64_Half)count};
    memcpy(ehdr.e_ident, ELFMAG, SELFMAG);
    ehdr.e_ident[EI_CLASS] = ELFCLASS64;
    ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
    uint64_t at = sizeof(ehdr) + count * sizeof(Elf64_Phdr);
    Elf64_Phdr note = {.p_type = PT_NOTE, .p_offset = at, .p_filesz = maker->notes.len};
    gsp_buf_put(&out, &ehdr, sizeof(ehdr));
    gsp_buf_put(&out, &note, sizeof(note));
    at += maker->notes.len;
    for (size_t i = 0; i < maker->load_count; i++) {
        maker->loads[i].p_offset = at;
        at += maker->loads[i].p_filesz;
        gsp_buf_put(&out, &maker->loads[i], sizeof(maker->loads[i]));
    }
    gsp_buf_put(&out, maker->notes.p, maker->notes.len);
    for (size_t i = 0; i < maker->load_count; i++)
        gsp_buf_put(&out, maker->bytes[i], (size_t)maker->loads[i].p_filesz);
    gsp_buf_free(&maker->notes);
    tap_require(!out.failed);
    return out;
}

static void add_data(struct maker *maker)
{
    static unsigned char data[2 * PAGE];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 3 + (i >> 8));
    add_load(maker, NEXT_ADDR, 2 * PAGE, data + PAGE, PAGE);
    add_load(maker, DATA_ADDR, PAGE, data, PAGE);
}

static unsigned char data_at(uint64_t addr)
{
    uint64_t i = addr - DATA_ADDR;
    return (unsigned char)(i * 3 + (i >> 8));
}

TAP_TEST(process_identity)
{
    struct maker maker = {0};
    unsigned char info[136] = {0};
    int32_t pids[] = {77, 5};
    memcpy(info + 24, pids, sizeof(pids));
    memcpy(info + 40, "python3", 8);
    memcpy(info + 56, "python3 x.py ", 14);
    add_thread(&maker, 78, 11);
    add_thread(&maker, 77, 0);
    add_note(&maker, NT_PRPSINFO, info, sizeof(info));
    add_data(&maker);
    gsp_auto_buf bytes = make(&maker);
    struct gsp_core *core;
    tap_require(gsp_proc__core_parse(bytes.p, bytes.len, &core, NULL) == GSP_OK);
    const struct gsp_proc_core_info *got = gsp_proc_core_info(core);
    tap_eq_int(got->pid, 77);
    tap_eq_int(got->ppid, 5);
    tap_eq_int(got->signal, 11);
    tap_eq_str(got->name, "python3");
    tap_eq_str(got->cmdline, "python3 x.py");
    tap_eq_int(got->missing_bytes, 0);
    size_t count;
    const struct gsp_task *tasks = gsp_proc_core_threads(core, &count);
    tap_eq_int(count, 2);
    tap_eq_int(tasks[0].tid, 78);
    size_t len = 0;
    const unsigned char *regs = gsp_proc__core_regs(core, 1, &len);
    tap_eq_int(len, 27 * 8);
    tap_check(regs && regs[0] == 77);
    tap_check(gsp_proc__core_regs(core, 2, &len) == NULL);
    gsp_proc_core_close(core);
}

TAP_TEST(memory_across_segments)
{
    struct maker maker = {0};
    add_thread(&maker, 1, 0);
    add_data(&maker);
    gsp_auto_buf bytes = make(&maker);
    struct gsp_core *core;
    struct gsp_mem *mem;
    tap_require(gsp_proc__core_parse(bytes.p, bytes.len, &core, NULL) == GSP_OK);
    tap_require(gsp_proc_core_mem(core, &mem, NULL) == GSP_OK);
    unsigned char got[2 * PAGE];
    tap_eq_int(gsp_proc_mem_read(mem, DATA_ADDR, got, sizeof(got)), GSP_OK);
    for (uint64_t i = 0; i < sizeof(got); i++)
        if (!tap_check(got[i] == data_at(DATA_ADDR + i)))
            break;
    tap_eq_int(gsp_proc_mem_read(mem, DATA_ADDR - 1, got, 2), GSP_E_FAULT);
    /* The core does not contain the second page of the second segment. */
    tap_eq_int(gsp_proc_mem_read(mem, NEXT_ADDR + PAGE - 1, got, 1), GSP_OK);
    tap_eq_int(gsp_proc_mem_read(mem, NEXT_ADDR + PAGE - 1, got, 2), GSP_E_FAULT);
    tap_eq_int(gsp_proc_mem_read(mem, UINT64_MAX - 3, got, 8), GSP_E_FAULT);
    tap_eq_int(gsp_proc_maps_count(gsp_proc_core_maps(core)), 2);
    gsp_proc_mem_free(mem);
    gsp_proc_core_close(core);
}

/* A core truncated in its headers is rejected with a message; any other is read up to its end. */
TAP_TEST(truncated_at_any_length)
{
    struct maker maker = {0};
    add_thread(&maker, 1, 6);
    add_data(&maker);
    gsp_auto_buf bytes = make(&maker);
    size_t headers = bytes.len - 2 * PAGE;
    for (size_t len = 0; len < bytes.len; len += len < headers ? 1 : 509) {
        struct gsp_core *core;
        struct gsp_err err = {0};
        int rc = gsp_proc__core_parse(bytes.p, len, &core, &err);
        if (len < headers) {
            if (!tap_check(rc == GSP_E_FORMAT && err.msg[0] && !core))
                break;
            continue;
        }
        tap_require(rc == GSP_OK);
        tap_eq_int(gsp_proc_core_info(core)->missing_bytes, bytes.len - len);
        gsp_proc_core_close(core);
    }
}

/* A core truncated while it is open behaves like one truncated before. */
TAP_TEST(truncated_while_open)
{
    struct maker maker = {0};
    add_thread(&maker, 1, 6);
    add_data(&maker);
    gsp_auto_buf bytes = make(&maker);
    char path[] = "/tmp/gsp_core_XXXXXX";
    int fd = mkstemp(path);
    tap_require(fd >= 0 && write(fd, bytes.p, bytes.len) == (ssize_t)bytes.len);
    struct gsp_core *core;
    struct gsp_mem *mem;
    tap_require(gsp_proc_core_open(path, &core, NULL) == GSP_OK);
    tap_require(gsp_proc_core_mem(core, &mem, NULL) == GSP_OK);
    unsigned char got[2 * PAGE];
    tap_eq_int(gsp_proc_mem_read(mem, DATA_ADDR, got, sizeof(got)), GSP_OK);
    tap_check(got[PAGE] == data_at(NEXT_ADDR));
    tap_eq_int(gsp_proc_core_info(core)->missing_bytes, 0);
    /* The segment at DATA_ADDR is the last in the file. */
    tap_require(ftruncate(fd, (off_t)(bytes.len - PAGE + 10)) == 0);
    tap_eq_int(gsp_proc_mem_read(mem, DATA_ADDR, got, 11), GSP_E_FAULT);
    tap_eq_int(gsp_proc_mem_read(mem, DATA_ADDR, got, 10), GSP_OK);
    tap_eq_int(gsp_proc_mem_read(mem, NEXT_ADDR, got, 11), GSP_OK);
    tap_eq_int(gsp_proc_core_info(core)->missing_bytes, PAGE - 10);
    tap_require(ftruncate(fd, 0) == 0);
    tap_eq_int(gsp_proc_mem_read(mem, NEXT_ADDR, got, 11), GSP_E_FAULT);
    tap_eq_int(gsp_proc_core_info(core)->missing_bytes, 2 * PAGE);
    gsp_proc_mem_free(mem);
    gsp_proc_core_close(core);
    close(fd);
    unlink(path);
}

TAP_TEST(other_machines_are_named)
{
    static const struct {
        size_t at;
        unsigned char byte;
        const char *word;
    } rows[] = {
        {offsetof(Elf64_Ehdr, e_machine), EM_386, "i386"},
        {offsetof(Elf64_Ehdr, e_machine), 250, "another machine"},
        {EI_CLASS, ELFCLASS32, "64-bit"},
    };
    for (size_t i = 0; i < GSP_COUNT(rows); i++) {
        struct maker maker = {0};
        add_thread(&maker, 1, 6);
        gsp_auto_buf bytes = make(&maker);
        bytes.p[rows[i].at] = (char)rows[i].byte;
        struct gsp_core *core;
        struct gsp_err err = {0};
        tap_eq_int(gsp_proc__core_parse(bytes.p, bytes.len, &core, &err), GSP_E_NOTSUP);
        tap_check(strstr(err.msg, rows[i].word) != NULL);
    }
}

static void check_filtered(uint64_t sp, uint64_t stack_len, bool is_filtered)
{
    static unsigned char page[PAGE];
    struct maker maker = {0};
    unsigned char status[400] = {0};
    memcpy(status + 112 + SP_INDEX * 8, &sp, sizeof(sp));
    add_note(&maker, NT_PRSTATUS, status, sizeof(status));
    add_load(&maker, 0x70000, PAGE, page, stack_len);
    add_load(&maker, 0x80000, PAGE, page, stack_len);
    gsp_auto_buf bytes = make(&maker);
    struct gsp_core *core;
    tap_require(gsp_proc__core_parse(bytes.p, bytes.len, &core, NULL) == GSP_OK);
    tap_check(gsp_proc_core_info(core)->is_filtered == is_filtered);
    tap_check(!gsp_proc_core_info(core)->has_files);
    struct gsp_core_unwind regs;
    tap_check(gsp_proc_core_unwind_regs(core, 0, &regs) && regs.sp == sp);
    tap_check(!gsp_proc_core_unwind_regs(core, 1, &regs));
    gsp_proc_core_close(core);
}

TAP_TEST(memory_that_was_filtered_out)
{
    check_filtered(0x70100, PAGE, false);
    check_filtered(0x70100, 0, true);
    check_filtered(0x60000, PAGE, false); /* a stack that has overflowed */
    check_filtered(0x60000, 0, true);
}

TAP_TEST(other_files_are_named)
{
    static const struct {
        const char *bytes;
        const char *word;
    } rows[] = {
        {"\x28\xb5\x2f\xfd", "zstd"},
        {"\x1f\x8b", "gzip"},
        {"\x04\x22\x4d\x18", "lz4"},
        {"\xfd\x37zXZ", "xz"},
        {"\x7f"
         "ELF",
         "truncated"},
        {"plain text", "not an ELF"},
    };
    for (size_t i = 0; i < GSP_COUNT(rows); i++) {
        struct gsp_core *core;
        struct gsp_err err = {0};
        tap_eq_int(gsp_proc__core_parse(rows[i].bytes, strlen(rows[i].bytes), &core, &err),
                   GSP_E_FORMAT);
        tap_check(strstr(err.msg, rows[i].word) != NULL);
    }
}

TAP_TEST(no_such_file)
{
    struct gsp_core *core;
    struct gsp_err err = {0};
    tap_eq_int(gsp_proc_core_open("/nonexistent/core", &core, &err), GSP_E_NOFILE);
    tap_eq_int(gsp_proc_core_open("/dev/null", &core, &err), GSP_E_FORMAT);
    tap_eq_int(gsp_proc_core_open("/", &core, &err), GSP_E_FORMAT);
}

TAP_TEST(malformed_notes)
{
    static const uint64_t files[] = {UINT64_MAX / 24, PAGE, 1, 2, 3};
    static const uint64_t unnamed[] = {1, PAGE, FILE_ADDR, FILE_ADDR + PAGE, 0};
    struct maker makers[4] = {0};
    for (size_t i = 0; i < GSP_COUNT(makers); i++)
        add_thread(&makers[i], 1, 0);
    add_note(&makers[0], NT_FILE, files, sizeof(files));
    add_note(&makers[1], NT_FILE, unnamed, sizeof(unnamed));
    add_note(&makers[2], NT_PRPSINFO, files, sizeof(files));
    add_note(&makers[3], NT_PRSTATUS, files, sizeof(files));
    for (size_t i = 0; i < GSP_COUNT(makers); i++) {
        gsp_auto_buf bytes = make(&makers[i]);
        struct gsp_core *core;
        struct gsp_err err = {0};
        tap_eq_int(gsp_proc__core_parse(bytes.p, bytes.len, &core, &err), GSP_E_FORMAT);
        tap_check(err.msg[0]);
    }
}

struct image {
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdr;
    Elf64_Nhdr note;
    char name[4];
    unsigned char id[8];
    unsigned char rest[2 * PAGE];
};

/* A small ELF file, slightly longer than two pages, with this build-id. */
static void make_image(struct image *image, unsigned char id)
{
    *image = (struct image){.ehdr = {.e_type = ET_DYN,
                                     .e_phoff = offsetof(struct image, phdr),
                                     .e_phentsize = sizeof(Elf64_Phdr),
                                     .e_phnum = 1},
                            .phdr = {.p_type = PT_NOTE,
                                     .p_offset = offsetof(struct image, note),
                                     .p_filesz = sizeof(Elf64_Nhdr) + 12},
                            .note = {4, 8, NT_GNU_BUILD_ID},
                            .name = "GNU"};
    memcpy(image->ehdr.e_ident, ELFMAG, SELFMAG);
    memset(image->id, id, sizeof(image->id));
    memset(image->rest, 0x5a, sizeof(image->rest));
}

static void write_image(const char *path, const struct image *image)
{
    FILE *file = fopen(path, "wb");
    tap_require(file != NULL);
    tap_require(fwrite(image, sizeof(*image), 1, file) == 1);
    tap_require(fclose(file) == 0);
}

/* Pages that the core omits are read from the mapped file, if it is the same build. */
static void check_file(unsigned char id_then, unsigned char id_now, bool with_head, bool same)
{
    char path[] = "/tmp/gsp_core_XXXXXX";
    int fd = mkstemp(path);
    tap_require(fd >= 0);
    close(fd);
    static struct image then;
    static struct image now;
    make_image(&then, id_then);
    make_image(&now, id_now);
    write_image(path, &now);
    struct maker maker = {0};
    add_thread(&maker, 1, 0);
    add_file(&maker, path);
    add_load(&maker, FILE_ADDR, FILE_PAGES * PAGE, &then, with_head ? PAGE : 0);
    gsp_auto_buf bytes = make(&maker);
    struct gsp_core *core;
    struct gsp_mem *mem;
    tap_require(gsp_proc__core_parse(bytes.p, bytes.len, &core, NULL) == GSP_OK);
    tap_require(gsp_proc_core_mem(core, &mem, NULL) == GSP_OK);
    unsigned char got[2 * PAGE] = {0};
    tap_eq_int(gsp_proc_mem_read(mem, FILE_ADDR + 100, got, sizeof(got)),
               same ? GSP_OK : GSP_E_FAULT);
    if (same) {
        tap_check(memcmp(got, (const char *)&now + 100, sizeof(got)) == 0);
        /* The rest of the last page is zero. */
        tap_eq_int(gsp_proc_mem_read(mem, FILE_ADDR + sizeof(now) - 1, got, 9), GSP_OK);
        tap_eq_int(got[0], 0x5a);
        tap_eq_int(got[8], 0);
        tap_check(gsp_proc_core_missing_file(core) == NULL);
    } else {
        tap_eq_str(gsp_proc_core_missing_file(core), path);
    }
    const struct gsp_map *map = gsp_proc_maps_find(gsp_proc_core_maps(core), FILE_ADDR);
    tap_check(map && strcmp(map->path, path) == 0 && map->inode != 0);
    gsp_proc_mem_free(mem);
    gsp_proc_core_close(core);
    unlink(path);
}

TAP_TEST(pages_of_the_mapped_file)
{
    check_file(7, 7, true, true);
}

TAP_TEST(another_build_is_not_read)
{
    check_file(7, 8, true, false);
}

TAP_TEST(without_a_build_id_the_path_decides)
{
    check_file(7, 8, false, true);
}

TAP_TEST(a_deleted_file)
{
    struct maker maker = {0};
    add_thread(&maker, 1, 0);
    add_file(&maker, "/nonexistent/lib\nx.so");
    add_data(&maker);
    gsp_auto_buf bytes = make(&maker);
    struct gsp_core *core;
    struct gsp_mem *mem;
    tap_require(gsp_proc__core_parse(bytes.p, bytes.len, &core, NULL) == GSP_OK);
    tap_require(gsp_proc_core_mem(core, &mem, NULL) == GSP_OK);
    char byte;
    tap_eq_int(gsp_proc_mem_read(mem, FILE_ADDR, &byte, 1), GSP_E_FAULT);
    tap_eq_str(gsp_proc_core_missing_file(core), "/nonexistent/lib\nx.so");
    tap_eq_int(gsp_proc_maps_count(gsp_proc_core_maps(core)), 3);
    gsp_proc_mem_free(mem);
    gsp_proc_core_close(core);
}

TAP_MAIN()
