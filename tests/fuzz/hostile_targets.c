/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_targets.c -- targets with changing, lying or cyclic memory, and hostile ELF and DWARF.
 *
 *   hostile_targets CORPUS ELF_FOLDER FIRST COUNT SECONDS PROGRESS
 *
 * Trial N depends only on N. Before each trial its number is written to the file PROGRESS, so that
 * a crash can be repeated. CORPUS is tests/fuzz/corpus: images of real processes that
 * record_memory.c wrote. ELF_FOLDER has files with symbols, unwind tables and debug information.
 * Prints one JSON object.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/time.h"
#include "fuzz_memory.h"
#include "native/native_internal.h"
#include "proc/image.h"
#include "py/async.h"
#include "py/greenlet.h"
#include "py/object.h"

#define FILE_MAX   (16U << 20)
#define FILES_MAX  128U
#define WORDS_MAX  24U
#define WRITERS    2U
#define ADDRESSES  24U
/* Of ten trials this many have hostile files, the others hostile memory. */
#define ELF_SHARE  3U
#define REPR_BYTES 200U

struct bytes {
    unsigned char *p;
    size_t len;
};

static struct bytes images[FILES_MAX];
static size_t image_count;
static struct bytes elfs[FILES_MAX];
static size_t elf_count;
static uint64_t random_state;

static uint64_t next_random(void)
{
    /* splitmix64 */
    uint64_t z = random_state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static size_t pick(size_t count)
{
    return (size_t)(next_random() % count);
}

/* ----------------------------------------------------------------------------------------- memory
 */

struct writer {
    pthread_t thread;
    struct memory_image *image;
    uint64_t random;
    _Atomic bool *stop;
};

/* A word that a hostile target may write. */
static uint64_t hostile_word(const struct memory_image *image, uint64_t where, uint64_t random)
{
    const struct gsp_mem_region *region = &image->regions[random / 16 % image->count];
    switch (random % 8) {
    case 0:
        return where; /* a cycle of one */
    case 1:
        return UINT64_MAX;
    case 2:
        return (1ULL << (random >> 8 & 63)) - 1; /* a length that lies */
    case 3:
        return random >> 40;
    case 4:
        return 0;
    default: /* an object of another kind, or the middle of one */
        return region->addr + (random >> 32) % (region->len / 8 + 1) * 8 * (random % 8 != 5);
    }
}

static void scribble(struct memory_image *image, uint64_t random)
{
    const struct gsp_mem_region *region = &image->regions[random % image->count];
    if (region->len < 8)
        return;
    const size_t at = (size_t)(random >> 20) % (region->len / 8) * 8;
    const uint64_t word = hostile_word(image, region->addr + at, random * 0x9e3779b97f4a7c15ULL);
    memcpy((char *)(uintptr_t)region->bytes + at, &word, sizeof(word));
}

static void *write_words(void *arg)
{
    struct writer *writer = arg;
    while (!atomic_load(writer->stop)) {
        writer->random = writer->random * 6364136223846793005ULL + 1442695040888963407ULL;
        scribble(writer->image, writer->random >> 7);
    }
    return NULL;
}

static void on_task(void *arg, const struct gsp_py_task *task)
{
    *(size_t *)arg += task->chain->depth + task->name.len;
}

static void on_greenlet(void *arg, const struct gsp_py_greenlet *greenlet)
{
    *(size_t *)arg += greenlet->label.len;
}

static void on_local(void *arg, const struct gsp_py_local *local)
{
    *(size_t *)arg += local->name.len;
}

static void on_name(void *arg, uint64_t ident, struct gsp_sv name)
{
    *(size_t *)arg += name.len + (ident == 1);
}

static void read_objects(struct gsp_py_target *target)
{
    const struct gsp_py_layout *lay = &gsp_py_target_runtime(target)->layout;
    const struct gsp_py_repr_limits limits = {.bytes_max = REPR_BYTES};
    struct gsp_mem *mem = gsp_py_target_mem(target);
    size_t sum = 0;
    for (size_t i = 0; i < 8 && gsp_py_target_frame_addr(target, i); i++) {
        const gsp_raddr frame = gsp_py_target_frame_addr(target, i);
        gsp_auto_buf text = {0};
        gsp_ignore(gsp_py_repr(mem, lay, frame, &limits, &text));
        gsp_ignore(gsp_py_locals(mem, lay, frame, frame, on_local, &sum));
    }
    gsp_ignore(gsp_py_thread_names(mem, lay, gsp_py_target_interp(target, 0), on_name, &sum));
}

static void read_target(struct memory_image *image)
{
    size_t sum = 0;
    struct gsp_py_target *target = memory_target(image);
    if (!target)
        return;
    for (int64_t now_ns = 1; now_ns < 3000000000; now_ns += 1000000000)
        gsp_ignore(gsp_py_target_sample(target, GSP_PY_SAMPLE_IDLE, now_ns));
    gsp_ignore(gsp_py_tasks(target, on_task, NULL, &sum));
    gsp_ignore(gsp_py_greenlets(target, on_greenlet, NULL, &sum));
    read_objects(target);
    gsp_py_target_close(target);
}

static void try_memory(void)
{
    const struct bytes *from = &images[pick(image_count)];
    unsigned char *copy = malloc(from->len);
    struct memory_image image = {0};
    if (!copy)
        abort();
    memcpy(copy, from->p, from->len);
    const bool is_image = memory_parse(copy, from->len, &image);
    if (is_image) {
        const uint64_t how = next_random();
        image.head.flags |= how & 1 ? MEMORY_CHANGES : 0;
        image.random = (uint32_t)how;
        for (size_t i = pick(WORDS_MAX); i > 0; i--)
            scribble(&image, next_random());
        _Atomic bool stop = false;
        struct writer writers[WRITERS];
        /* In one of four trials, other threads write while gsprof reads. */
        const size_t count = how % 4 == 2 ? WRITERS : 0;
        for (size_t i = 0; i < count; i++) {
            writers[i] = (struct writer){.image = &image, .random = next_random(), .stop = &stop};
            if (pthread_create(&writers[i].thread, NULL, write_words, &writers[i]) != 0)
                abort();
        }
        read_target(&image);
        atomic_store(&stop, true);
        for (size_t i = 0; i < count; i++)
            pthread_join(writers[i].thread, NULL);
    }
    free(image.regions);
    free(copy);
}

/* ------------------------------------------------------------------------------------------- ELF
 */

/* Changes bytes, more often those of the headers and of the end, where the section table is. */
static void damage(unsigned char *bytes, size_t len)
{
    for (size_t i = 1 + pick(WORDS_MAX); i > 0; i--) {
        const size_t kind = pick(4);
        size_t at = pick(len);
        if (kind == 0)
            at = pick(len < 1024 ? len : 1024);
        else if (kind == 1 && len > 8192)
            at = len - 1 - pick(8192);
        const uint64_t word = hostile_word(
            &(struct memory_image){.regions = &(struct gsp_mem_region){0, len, bytes}, .count = 1},
            at, next_random());
        const size_t n = (size_t[]){1, 2, 4, 8}[pick(4)];
        memcpy(bytes + at, &word, n < len - at ? n : len - at);
    }
}

static void query_file(struct gsp_native_store *store, struct gsp_native_file *file)
{
    for (size_t i = 0; i < ADDRESSES && file->load_count; i++) {
        const uint64_t start = file->loads[pick(file->load_count)].vaddr;
        const uint64_t vaddr = start + next_random() % (file->loads[0].file_len + 4096);
        struct gsp_native_symbol symbol = {.module = ""};
        struct gsp_cfi_span span;
        (void)gsp_native__file_rule(file, vaddr);
        (void)gsp_native__file_span(file, vaddr, &span);
        gsp_native__describe(store, file, vaddr, 0, &symbol);
        if (symbol.inlined_count > GSP_NATIVE_INLINED_MAX)
            abort();
    }
}

static void query_image(int fd, const char *path, size_t len, const unsigned char *bytes)
{
    struct stat st;
    const uint64_t base = 0x400000;
    const struct gsp_mem_region region = {base, len, bytes};
    struct gsp_mem *mem = NULL;
    struct gsp_image *image = NULL;
    if (fstat(fd, &st) != 0 || gsp_proc__mem_open_regions(&region, 1, &mem, NULL) != GSP_OK)
        abort();
    const struct gsp_map map = {
        .start = base, .end = base + len, .inode = st.st_ino, .path = path, .readable = true};
    if (gsp_proc_image_open(0, mem, &map, &image, NULL) == GSP_OK) {
        struct gsp_range range;
        (void)gsp_proc_image_dynsym(image, "_PyRuntime");
        (void)gsp_proc_image_filesym(image, "_PyRuntime");
        (void)gsp_proc_image_section(image, ".PyRuntime", &range);
        gsp_proc_image_close(image);
    }
    gsp_proc_mem_free(mem);
}

static void try_elf(void)
{
    const struct bytes *from = &elfs[pick(elf_count)];
    char path[64];
    struct gsp_native_store *store = NULL;
    unsigned char *copy = malloc(from->len);
    int fd = memfd_create("hostile", MFD_CLOEXEC);
    if (!copy || fd < 0 || gsp_native_store_new(&store, NULL) != GSP_OK)
        abort();
    memcpy(copy, from->p, from->len);
    damage(copy, from->len);
    if (gsp_fd_write_all(fd, copy, from->len, NULL) != GSP_OK)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    query_image(fd, path, from->len, copy);
    struct gsp_native_file *file = gsp_native__file_open(store, fd, path, 0);
    if (file && file->elf)
        query_file(store, file);
    gsp_native_store_free(store);
    free(copy);
}

/* ------------------------------------------------------------------------------------------ main
 */

static void load(const char *folder, struct bytes *to, size_t *count)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        gsp_auto_buf path = {0};
        gsp_auto_buf text = {0};
        gsp_buf_printf(&path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || *count == FILES_MAX ||
            gsp_file_read(gsp_buf_cstr(&path), FILE_MAX, &text, NULL) != GSP_OK || text.len < 64)
            continue;
        to[(*count)++] = (struct bytes){(unsigned char *)text.p, text.len};
        text = (struct gsp_buf){0};
    }
    if (dir)
        closedir(dir);
}

int main(int argc, char **argv)
{
    static const char *const PARTS[] = {"py_target", "py_async", "py_greenlet"};
    if (argc != 7) {
        fprintf(stderr, "usage: hostile_targets CORPUS ELF_FOLDER FIRST COUNT SECONDS PROGRESS\n");
        return 64;
    }
    for (size_t i = 0; i < GSP_COUNT(PARTS); i++) {
        char folder[4096];
        snprintf(folder, sizeof(folder), "%s/%s", argv[1], PARTS[i]);
        load(folder, images, &image_count);
    }
    load(argv[2], elfs, &elf_count);
    if (image_count == 0 || elf_count == 0) {
        fprintf(stderr, "no inputs\n");
        return 66;
    }
    const uint64_t first = strtoull(argv[3], NULL, 10);
    const uint64_t count = strtoull(argv[4], NULL, 10);
    const int64_t end_ns = gsp_now_ns() + (int64_t)(strtod(argv[5], NULL) * (double)GSP_NS_PER_S);
    gsp_auto_fd progress = open(argv[6], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    uint64_t memory = 0;
    uint64_t elf = 0;
    int64_t longest_ns = 0;
    uint64_t longest = 0;
    for (uint64_t i = 0; i < count && gsp_now_ns() < end_ns; i++) {
        const int64_t begin_ns = gsp_now_ns();
        char number[32];
        const int len = snprintf(number, sizeof(number), "%020llu", (unsigned long long)first + i);
        if (pwrite(progress, number, (size_t)len, 0) != len)
            return 74;
        random_state = first + i;
        if (next_random() % 10 < ELF_SHARE) {
            try_elf();
            elf++;
        } else {
            try_memory();
            memory++;
        }
        const int64_t taken_ns = gsp_now_ns() - begin_ns;
        if (taken_ns > longest_ns) {
            longest_ns = taken_ns;
            longest = first + i;
        }
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"memory\": %llu, \"elf\": %llu, \"longest_ms\": %lld, \"longest\": %llu, "
           "\"rss_mb\": %ld}\n",
           (unsigned long long)memory, (unsigned long long)elf, (long long)(longest_ns / 1000000),
           (unsigned long long)longest, usage.ru_maxrss / 1024);
    return 0;
}
