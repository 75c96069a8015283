/* SPDX-License-Identifier: Apache-2.0 */
/* Malformed rings, rings that change during a read, and truncated rings. */
#include <setjmp.h>
#include <signal.h>

#include "base/time.h"
#include "ring/guard.h"
#include "ring_fixture.h"

#define TEXT_FILE "python.variables.ring"

/* Truncates the file after the last lane that was used. */
static void cut_hole(int fd)
{
    struct gsp_ring_head head;
    tap_require(pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head));
    const uint64_t bytes = head.lanes_off + atomic_load(&head.lane_count) * head.lane_bytes;
    tap_require(ftruncate(fd, (off_t)bytes) == 0);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

/* Calls every function of the reader. */
static void read_all(int folder, const char *name)
{
    struct gsp_ring_view *view = NULL;
    struct gsp_ring_range spans[16];
    struct gsp_ring_state state;
    struct gsp_ring_dict dict;
    uint64_t lost = 0;
    if (gsp_ring_open(folder, name, &view, NULL) != 0)
        return;
    gsp_ring_state(view, &state);
    const struct gsp_ring_info *info = gsp_ring_info(view);
    size_t count = gsp_ring_ranges(view, spans, 16, &lost);
    for (size_t i = 0; i < count; i++) {
        struct gsp_ring_range span = spans[i];
        tap_check(span.to - span.from <= info->row_capacity);
        gsp_ring_range_narrow(view, &span, 5, 50);
        tap_check(span.from >= spans[i].from && span.to <= spans[i].to);
        uint64_t chunk[64];
        for (uint32_t c = 0; c < info->column_count; c++) {
            size_t n = spans[i].to - spans[i].from < 64 ? spans[i].to - spans[i].from : 64;
            gsp_ring_copy(view, spans[i].lane, c, spans[i].to - n, n, chunk);
            gsp_auto_buf text = {0};
            bool null = false;
            for (size_t k = 0; k < n && info->columns[c].type == GSP_TEXT; k++)
                gsp_ring_text_read(view, spans[i].lane, chunk[k], &text, &null);
        }
    }
    if (gsp_ring_dict_read(view, &dict, NULL) == 0) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < dict.count; i++)
            for (size_t k = 0; k < dict.strings[i].len && k < 64; k++)
                bytes += (unsigned char)dict.strings[i].p[k];
        tap_check(bytes < SIZE_MAX);
        gsp_ring_dict_free(&dict);
    }
    gsp_ring_view_close(view);
}

/* Creates a ring with text, strings and more rows than its capacity, and closes it. */
static void make_text_ring(int folder)
{
    struct gsp_ring *ring = NULL;
    struct gsp_ring_spec spec = {.table = gsp_wire_table_at(GSP_TABLE_python_variables),
                                 .row_capacity = 50,
                                 .lane_max = 4,
                                 .string_max = 32,
                                 .string_bytes = 512,
                                 .text_bytes = 4096};
    tap_require(gsp_ring_create(folder, &spec, &ring, NULL) == 0);
    for (int i = 0; i < 80; i++) {
        char text[32];
        snprintf(text, sizeof(text), "value %d", i);
        struct gsp_row_python_variables row = {
            .ts_ns = i,
            .step = i,
            .name = gsp_ring_intern(ring, gsp_sv_of(text)),
            .value = gsp_sv_of(text),
        };
        tap_require(gsp_ring_append(ring, &row));
    }
    gsp_ring_close(ring);
}

TAP_TEST(changed_bytes_are_harmless)
{
    int folder = ring_folder();
    make_text_ring(folder);
    int fd = openat(folder, TEXT_FILE, O_RDWR);
    struct stat st;
    cut_hole(fd);
    tap_require(fstat(fd, &st) == 0);
    uint32_t random = 1;
    const uint64_t hot[] = {0, 600, 4096, 5200, 8192, 8192 + 4096};
    for (int i = 0; i < 6000; i++) {
        /* Mostly in the areas that hold offsets and sizes. */
        uint64_t at = hot[next_random(&random) % GSP_COUNT(hot)];
        at = i % 4 ? (at + next_random(&random) % 600) % (uint64_t)st.st_size
                   : next_random(&random) % (uint64_t)st.st_size;
        uint64_t old = 0;
        const uint64_t values[] = {0, 1, UINT64_MAX, INT64_MAX, next_random(&random), 1ULL << 40};
        uint64_t value = values[next_random(&random) % GSP_COUNT(values)];
        size_t width = (size_t)1 << next_random(&random) % 4;
        at = at / width * width;
        ssize_t n = pread(fd, &old, width, (off_t)at);
        tap_require(n > 0 && pwrite(fd, &value, (size_t)n, (off_t)at) == n);
        read_all(folder, TEXT_FILE);
        tap_require(pwrite(fd, &old, (size_t)n, (off_t)at) == n);
    }
    close(fd);
    ring_folder_remove(folder);
}

TAP_TEST(truncated_files_are_reported)
{
    int folder = ring_folder();
    make_text_ring(folder);
    int fd = openat(folder, TEXT_FILE, O_RDWR);
    struct stat st;
    cut_hole(fd);
    tap_require(fstat(fd, &st) == 0);
    struct gsp_err err = {0};
    for (off_t size = st.st_size; size >= 0; size -= 512) {
        struct gsp_ring_view *view = NULL;
        tap_require(ftruncate(fd, size) == 0);
        int rc = gsp_ring_open(folder, TEXT_FILE, &view, &err);
        if (rc == 0) {
            struct gsp_ring_state state;
            gsp_ring_state(view, &state);
            tap_eq_int(state.damaged, size < st.st_size);
            gsp_ring_view_close(view);
        } else {
            tap_eq_int(rc, GSP_E_FORMAT);
            tap_check(strstr(err.msg, "the file ends at byte") != NULL);
        }
    }
    close(fd);
    ring_folder_remove(folder);
}

TAP_TEST(the_message_names_the_error)
{
    int folder = ring_folder();
    make_text_ring(folder);
    int fd = openat(folder, TEXT_FILE, O_RDWR);
    struct gsp_err err = {0};
    struct gsp_ring_view *view = NULL;
    uint32_t version = 2;
    tap_require(pwrite(fd, &version, 4, offsetof(struct gsp_ring_head, version)) == 4);
    tap_eq_int(gsp_ring_open(folder, TEXT_FILE, &view, &err), GSP_E_VERSION);
    tap_eq_str(err.msg, TEXT_FILE ": a ring of version 2; supported is version 1");
    version = 0x04030201;
    tap_require(pwrite(fd, &version, 4, offsetof(struct gsp_ring_head, byte_order)) == 4);
    tap_eq_int(gsp_ring_open(folder, TEXT_FILE, &view, &err), GSP_E_FORMAT);
    tap_require(pwrite(fd, "PAR1", 4, 0) == 4);
    tap_eq_int(gsp_ring_open(folder, TEXT_FILE, &view, &err), GSP_E_FORMAT);
    tap_eq_str(err.msg, TEXT_FILE ": not a ring");
    tap_require(mkfifoat(folder, "python.pipe.ring", 0600) == 0);
    tap_eq_int(gsp_ring_open(folder, "python.pipe.ring", &view, &err), GSP_E_FORMAT);
    if (geteuid() == 0) {
        tap_require(fchown(fd, 12345, (gid_t)-1) == 0);
        tap_eq_int(gsp_ring_open(folder, TEXT_FILE, &view, &err), GSP_E_PERM);
        tap_eq_str(err.msg, TEXT_FILE " belongs to user 12345");
    }
    close(fd);
    ring_folder_remove(folder);
}

TAP_TEST(a_writer_of_random_bytes_is_harmless)
{
    int folder = ring_folder();
    make_text_ring(folder);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = openat(folder, TEXT_FILE, O_RDWR);
        struct stat st;
        fstat(fd, &st);
        volatile uint64_t *words =
            mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        uint32_t random = 7;
        for (;;) {
            /* Keep the front of the file valid, or no reader could open it. */
            size_t at = next_random(&random) % ((size_t)st.st_size / 8);
            at = at < offsetof(struct gsp_ring_head, lane_count) / 8
                     ? offsetof(struct gsp_ring_head, lane_count) / 8
                     : at;
            words[at] = (uint64_t)next_random(&random) << (next_random(&random) % 60);
        }
    }
    int64_t end_ns = gsp_now_ns() + GSP_NS_PER_S / 2;
    while (gsp_now_ns() < end_ns)
        read_all(folder, TEXT_FILE);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ring_folder_remove(folder);
}

/* Truncates the file at several sizes while readers have it mapped. */
TAP_TEST(a_mapped_file_that_is_truncated_reads_as_zeros)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 5000);
    for (uint64_t n = 0; n < 3000; n++) {
        const struct gsp_row_python_torch_trace row = ring_row(1, n);
        gsp_ring_append(ring, &row);
    }
    gsp_ring_intern(ring, gsp_sv_of("a string"));
    gsp_ring_close(ring);
    int fd = openat(folder, RING_FILE, O_RDWR);
    struct stat st;
    cut_hole(fd);
    tap_require(fstat(fd, &st) == 0);
    const int64_t sizes[] = {st.st_size - 4096, st.st_size - 200000, st.st_size - 400001, 8192, 0};
    struct gsp_ring_view *views[GSP_COUNT(sizes)];
    for (size_t i = 0; i < GSP_COUNT(sizes); i++) {
        views[i] = ring_view(folder, RING_FILE);
        struct gsp_ring_range span;
        tap_require(gsp_ring_ranges(views[i], &span, 1, NULL) == 1);
    }
    for (size_t i = 0; i < GSP_COUNT(sizes); i++) {
        struct gsp_ring_state state;
        struct ring_seen seen = {0};
        struct gsp_ring_dict dict;
        gsp_ring_state(views[i], &state);
        tap_require(ftruncate(fd, sizes[i]) == 0);
        ring_check_chunk(views[i], 0, 2900, 100, &seen);
        ring_check_chunk(views[i], 0, 0, 100, &seen);
        tap_eq_int(seen.torn, 0); /* missing rows count as gone */
        ring_check(views[i], &seen);
        tap_eq_int(seen.torn, 0);
        uint64_t value = 0;
        gsp_ring_copy(views[i], 0, 13, 4999, 1, &value); /* the end of the last column */
        gsp_ring_state(views[i], &state);
        tap_check(state.damaged);
        tap_eq_int(gsp_ring_dict_read(views[i], &dict, NULL), 0);
        gsp_ring_dict_free(&dict);
    }
    for (size_t i = 0; i < GSP_COUNT(sizes); i++)
        gsp_ring_view_close(views[i]);
    close(fd);
    ring_folder_remove(folder);
}

__attribute__((noreturn)) static void truncate_and_grow(int fd, off_t size)
{
    uint32_t random = 3;
    for (;;) {
        gsp_ignore(ftruncate(fd, (off_t)(next_random(&random) % (uint32_t)size)));
        gsp_ignore(ftruncate(fd, size));
    }
}

TAP_TEST(a_file_is_truncated_and_grown_during_reads)
{
    int folder = ring_folder();
    struct gsp_ring *ring = ring_make(folder, 5000);
    for (uint64_t n = 0; n < 3000; n++) {
        const struct gsp_row_python_torch_trace row = ring_row(1, n);
        gsp_ring_append(ring, &row);
    }
    gsp_ring_close(ring);
    int fd = openat(folder, RING_FILE, O_RDWR);
    struct stat st;
    tap_require(fstat(fd, &st) == 0);
    pid_t pid = fork();
    if (pid == 0)
        truncate_and_grow(fd, st.st_size);
    int64_t end_ns = gsp_now_ns() + GSP_NS_PER_S / 2;
    while (gsp_now_ns() < end_ns)
        read_all(folder, RING_FILE);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
    ring_folder_remove(folder);
}

static sigjmp_buf jump;
static volatile sig_atomic_t own_faults;

static void on_own_fault(int number)
{
    (void)number;
    own_faults++;
    siglongjmp(jump, 1);
}

/* Maps an empty file. A read raises SIGBUS. */
static volatile char *bad_page(int folder)
{
    int fd = openat(folder, "empty", O_RDWR | O_CREAT, 0600);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    tap_require(page != MAP_FAILED);
    close(fd);
    return page;
}

TAP_TEST(other_faults_go_to_the_previous_handler)
{
    int folder = ring_folder();
    signal(SIGBUS, on_own_fault);
    make_text_ring(folder);
    struct gsp_ring_view *view = ring_view(folder, TEXT_FILE);
    volatile char *page = bad_page(folder);
    if (sigsetjmp(jump, 1) == 0)
        tap_check(page[0] == 1); /* not reached */
    tap_eq_int(own_faults, 1);
    /* The guard still handles faults in the ring. */
    int fd = openat(folder, TEXT_FILE, O_RDWR);
    tap_require(ftruncate(fd, 0) == 0);
    struct gsp_ring_state state;
    gsp_ring_state(view, &state);
    tap_check(state.damaged);
    tap_eq_int(own_faults, 1);
    close(fd);
    gsp_ring_view_close(view);
    ring_folder_remove(folder);
}

TAP_TEST(without_a_previous_handler_other_faults_end_the_process)
{
    int folder = ring_folder();
    make_text_ring(folder);
    volatile char *page = bad_page(folder);
    for (int sent = 0; sent < 2; sent++) {
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGBUS, SIG_DFL); /* removes the handler of a sanitizer */
            struct gsp_ring_view *view = ring_view(folder, TEXT_FILE);
            if (sent)
                raise(SIGBUS);
            else
                tap_check(page[0] == 1);
            gsp_ring_view_close(view);
            _exit(0);
        }
        int status = 0;
        waitpid(pid, &status, 0);
        tap_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    }
    ring_folder_remove(folder);
}

TAP_MAIN()
