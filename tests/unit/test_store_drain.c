/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/time.h"
#include "ring/dir.h"
#include "ring/writer.h"
#include "store/drain.h"
#include "store/run.h"
#include "store/segment.h"
#include "store/store.h"
#include "tap.h"
#include "wire/ring.h"

#define CAPACITY INT64_C(1000)

/* Rings and the folder of their segments. */
struct scene {
    char root[64];   /* XDG_RUNTIME_DIR */
    char folder[96]; /* for segments */
    int ring_dir_fd;
    struct gsp_ring_dir ring_dir;
    struct gsp_ring *ring;
    uint32_t module;
};

static void need_engine(void)
{
    struct gsp_store *store = NULL;
    struct gsp_err err = {0};
    const int rc = gsp_store_open(NULL, &store, &err);
    gsp_store_close(store);
    if (rc == GSP_E_NOTSUP)
        tap_skip(err.msg);
    tap_require(rc == GSP_OK);
}

static void scene_begin(struct scene *scene)
{
    need_engine();
    *scene = (struct scene){.ring_dir_fd = -1};
    snprintf(scene->root, sizeof(scene->root), "/tmp/gsprof-test-XXXXXX");
    tap_require(mkdtemp(scene->root) != NULL);
    setenv("XDG_RUNTIME_DIR", scene->root, 1);
    snprintf(scene->folder, sizeof(scene->folder), "%s/run", scene->root);
    tap_require(mkdir(scene->folder, 0700) == 0);
    struct gsp_err err = {0};
    const struct gsp_ring_dir_spec about = {.pid = getpid(), .rank = 2, .cmdline = "test"};
    const int rc = gsp_ring_dir_create(&about, &scene->ring_dir_fd, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    const struct gsp_ring_spec spec = {.table = gsp_wire_table_at(GSP_TABLE_python_torch_trace),
                                       .row_capacity = CAPACITY,
                                       .rank = 2,
                                       .host = "box"};
    tap_require(gsp_ring_create(scene->ring_dir_fd, &spec, &scene->ring, &err) == GSP_OK);
    scene->module = gsp_ring_intern(scene->ring, gsp_sv_of("block.0"));
    tap_require(gsp_ring_dir_find(getpid(), &scene->ring_dir, &err) == GSP_OK);
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char below[512];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
        if (unlink(below) < 0)
            remove_tree(below);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

static void scene_end(struct scene *scene)
{
    gsp_ring_close(scene->ring);
    close(scene->ring_dir_fd);
    remove_tree(scene->root);
    tap_check(access(scene->root, F_OK) != 0);
}

static void write_rows(struct scene *scene, int64_t from, int64_t count)
{
    for (int64_t i = from; i < from + count; i++) {
        const struct gsp_row_python_torch_trace row = {.ts_ns = 1700000000000000000 + i,
                                                       .mono_ns = i,
                                                       .step = i,
                                                       .module = scene->module,
                                                       .allocated = gsp_null_f64(),
                                                       .max_allocated = gsp_null_f64(),
                                                       .cached = gsp_null_f64(),
                                                       .duration = 0.5,
                                                       .flops = gsp_null_f64()};
        tap_require(gsp_ring_append(scene->ring, &row));
    }
}

static struct gsp_drain *drain_open(const struct scene *scene,
                                    const struct gsp_drain_options *options)
{
    struct gsp_drain *drain = NULL;
    struct gsp_err err = {0};
    const int rc = gsp_store_drain_open(scene->folder, options, &drain, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    tap_require(gsp_store_drain_add_ring_dir(drain, &scene->ring_dir, &err) == GSP_OK);
    return drain;
}

static void tick(struct gsp_drain *drain, bool flush)
{
    struct gsp_err err = {0};
    const int rc = gsp_store_drain_tick(drain, flush, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
}

static struct gsp_store *run_store(const struct scene *scene)
{
    struct gsp_store *store = NULL;
    struct gsp_err err = {0};
    tap_require(gsp_store_open(NULL, &store, &err) == GSP_OK);
    int rc = gsp_store_add_run(store, scene->folder, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    rc = gsp_store_lock(store, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return store;
}

/* Reads the numbers of the first row. */
static void query(struct gsp_store *store, const char *sql, int64_t *out, size_t count)
{
    struct gsp_rows *rows = NULL;
    struct gsp_batch_view view;
    struct gsp_err err = {0};
    const int rc = gsp_store_query(store, gsp_sv_of(sql), &rows, NULL, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    tap_require(gsp_rows_next(rows, &view, NULL) == 1 && rows->column_count == count);
    for (size_t c = 0; c < count; c++) {
        const int64_t *values = view.values[c].data;
        tap_require(rows->columns[c].kind == GSP_CELL_I64);
        out[c] = gsp_model_values_is_null(&view.values[c], 0) ? -1 : values[0];
    }
    gsp_rows_free(rows);
}

/* Checks the rows of files and rings together: their number, that all differ, first and last. */
static void check_rows(const struct scene *scene, int64_t count, int64_t first, int64_t last)
{
    int64_t seen[4];
    struct gsp_store *store = run_store(scene);
    tap_eq_str(gsp_store_warning(store, 0), NULL);
    query(store,
          "SELECT count(*), count(DISTINCT step), min(step), max(step) FROM python.torch_trace "
          "WHERE rank = 2 AND module = 'block.0'",
          seen, 4);
    tap_eq_int(seen[0], count);
    tap_eq_int(seen[1], count);
    tap_eq_int(seen[2], first);
    tap_eq_int(seen[3], last);
    gsp_store_close(store);
}

static int64_t lost(const struct scene *scene, const char *cause)
{
    char sql[256];
    int64_t seen = 0;
    struct gsp_store *store = run_store(scene);
    snprintf(sql, sizeof(sql),
             "SELECT coalesce(sum(count), 0)::BIGINT FROM gsprof.loss WHERE cause = '%s'", cause);
    query(store, sql, &seen, 1);
    gsp_store_close(store);
    return seen;
}

static size_t count_files(const struct scene *scene, const char *end)
{
    size_t count = 0;
    DIR *dir = opendir(scene->folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        count += gsp_sv_ends(gsp_sv_of(e->d_name), end) ? 1 : 0;
    if (dir)
        closedir(dir);
    return count;
}

TAP_TEST(each_row_is_read_once)
{
    struct scene scene;
    scene_begin(&scene);
    write_rows(&scene, 0, 300);
    struct gsp_drain *drain = drain_open(&scene, NULL);
    tick(drain, true);
    check_rows(&scene, 300, 0, 299); /* in a segment and still in the ring */
    write_rows(&scene, 300, 900);    /* the first 200 are overwritten */
    check_rows(&scene, 1200, 0, 1199);
    tick(drain, false);
    check_rows(&scene, 1200, 0, 1199); /* copied, not written */
    tick(drain, true);
    write_rows(&scene, 1200, 5);
    check_rows(&scene, 1205, 0, 1204);
    tap_eq_int(gsp_store_drain_stats(drain).rows, 1200);
    tap_eq_int(lost(&scene, "overwritten"), 0);
    gsp_store_drain_close(drain);
    scene_end(&scene);
}

TAP_TEST(rings_of_ended_processes_are_closed)
{
    struct scene *scene =
        mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tap_require(scene != MAP_FAILED);
    need_engine();
    const pid_t child = fork();
    if (child == 0) {
        scene_begin(scene);
        write_rows(scene, 0, 50);
        _exit(0);
    }
    int status = 1;
    tap_require(waitpid(child, &status, 0) == child && status == 0);
    setenv("XDG_RUNTIME_DIR", scene->root, 1);
    tap_require(gsp_ring_dir_find(child, &scene->ring_dir, NULL) == GSP_OK &&
                !scene->ring_dir.live);
    struct gsp_drain *drain = drain_open(scene, NULL);
    size_t rings = 0;
    tick(drain, false);
    tap_eq_int(gsp_store_drain_published(drain, GSP_TABLE_python_torch_trace, &rings), 50);
    tap_eq_int(rings, 1);
    /* The rows are too new to be due, but the process has ended. */
    for (int i = 0; i < 6; i++)
        tick(drain, false);
    tap_eq_int(gsp_store_drain_stats(drain).rows, 50);
    tap_eq_int(gsp_store_drain_published(drain, GSP_TABLE_python_torch_trace, &rings), 50);
    tap_eq_int(rings, 0);
    tap_require(gsp_store_drain_add_ring_dir(drain, &scene->ring_dir, NULL) == GSP_OK);
    tick(drain, true);
    tap_eq_int(gsp_store_drain_stats(drain).rows, 50);
    check_rows(scene, 50, 0, 49);
    gsp_store_drain_close(drain);
    remove_tree(scene->root);
    munmap(scene, sizeof(*scene));
}

TAP_TEST(overwritten_rows_are_counted)
{
    struct scene scene;
    scene_begin(&scene);
    write_rows(&scene, 0, 10);
    struct gsp_drain *drain = drain_open(&scene, NULL);
    tick(drain, true);
    write_rows(&scene, 10, 3 * CAPACITY);
    tick(drain, true);
    struct gsp_store_drain_stats stats = gsp_store_drain_stats(drain);
    /* The ring has at least its capacity, minus rows that are being appended. */
    tap_eq_int(stats.rows + stats.lost, 10 + 3 * CAPACITY);
    tap_check(stats.lost >= 2 * CAPACITY - 10 && stats.lost <= 2 * CAPACITY + 10);
    tap_eq_int(lost(&scene, "overwritten"), stats.lost);
    gsp_store_drain_close(drain);
    scene_end(&scene);
}

TAP_TEST(strings_of_a_full_dictionary_are_counted_once)
{
    struct scene scene;
    scene_begin(&scene);
    /* Set the count in the ring's header, like its writer. */
    gsp_auto_fd file = openat(scene.ring_dir_fd, "python.torch_trace.ring", O_RDWR | O_CLOEXEC);
    uint64_t strings = 7;
    const off_t at = offsetof(struct gsp_ring_head, strings_lost);
    tap_require(pwrite(file, &strings, sizeof(strings), at) == (ssize_t)sizeof(strings));
    struct gsp_drain *drain = drain_open(&scene, NULL);
    write_rows(&scene, 0, 10);
    tick(drain, true);
    tap_eq_int(lost(&scene, "dictionary full"), 7);
    strings = 9;
    tap_require(pwrite(file, &strings, sizeof(strings), at) == (ssize_t)sizeof(strings));
    tap_eq_int(lost(&scene, "dictionary full"), 9);
    gsp_store_drain_close(drain);
    /* Another drainer does not count them again. */
    drain = drain_open(&scene, NULL);
    write_rows(&scene, 10, 10);
    tick(drain, true);
    write_rows(&scene, 20, 10);
    tick(drain, true);
    gsp_store_drain_close(drain);
    tap_eq_int(lost(&scene, "dictionary full"), 9);
    /* The counts stay when the ring is removed. */
    tap_require(unlinkat(scene.ring_dir_fd, "python.torch_trace.ring", 0) == 0);
    tap_eq_int(lost(&scene, "dictionary full"), 9);
    struct gsp_store *store = run_store(&scene);
    tap_eq_str(gsp_store_warning(store, 0),
               "9 values of python.torch_trace are NULL because its dictionary is full");
    gsp_store_close(store);
    scene_end(&scene);
}

TAP_TEST(a_second_drainer_continues)
{
    struct scene scene;
    struct gsp_drain *second = NULL;
    scene_begin(&scene);
    write_rows(&scene, 0, 100);
    struct gsp_drain *drain = drain_open(&scene, NULL);
    tick(drain, true);
    tap_eq_int(gsp_store_drain_open(scene.folder, NULL, &second, NULL), GSP_E_EXISTS);
    gsp_store_drain_close(drain);
    write_rows(&scene, 100, 50);
    drain = drain_open(&scene, NULL);
    tick(drain, true);
    tap_eq_int(gsp_store_drain_stats(drain).rows, 50);
    check_rows(&scene, 150, 0, 149);
    gsp_store_drain_close(drain);
    scene_end(&scene);
}

TAP_TEST(small_segments_are_merged)
{
    struct scene scene;
    scene_begin(&scene);
    struct gsp_drain *drain = drain_open(&scene, &(struct gsp_drain_options){.merge_count = 4});
    for (int64_t i = 0; i < 10; i++) {
        write_rows(&scene, i * 50, 50);
        tick(drain, true);
    }
    check_rows(&scene, 500, 0, 499);
    struct gsp_err err = {0};
    tap_require(gsp_store_drain_merge_all(drain, &err) == GSP_OK);
    check_rows(&scene, 500, 0, 499);
    gsp_store_drain_close(drain);
    tap_eq_int(count_files(&scene, ".parquet"), 1);
    check_rows(&scene, 500, 0, 499);
    /* A second recording into the same folder. */
    drain = drain_open(&scene, NULL);
    write_rows(&scene, 500, 7);
    tick(drain, true);
    tap_require(gsp_store_drain_merge_all(drain, &err) == GSP_OK);
    check_rows(&scene, 507, 0, 506);
    gsp_store_drain_close(drain);
    check_rows(&scene, 507, 0, 506);
    scene_end(&scene);
}

TAP_TEST(the_oldest_segments_are_removed_at_the_limit)
{
    struct scene scene;
    scene_begin(&scene);
    struct gsp_drain *drain =
        drain_open(&scene, &(struct gsp_drain_options){.retain_bytes = 20000, .merge_count = 1000});
    for (int64_t i = 0; i < 12; i++) {
        write_rows(&scene, i * 100, 100);
        tick(drain, true);
    }
    struct gsp_store_drain_stats stats = gsp_store_drain_stats(drain);
    tap_check(stats.removed > 0 && stats.removed < 1200);
    check_rows(&scene, 1200 - (int64_t)stats.removed, (int64_t)stats.removed, 1199);
    tap_eq_int(lost(&scene, "retention"), stats.removed);
    gsp_store_drain_close(drain);
    scene_end(&scene);
}

/* A killed drainer leaves a segment that the manifest does not list, and an unfinished one. */
TAP_TEST(leftover_files_are_ignored_and_removed)
{
    struct scene scene;
    char from[160];
    char to[160];
    scene_begin(&scene);
    write_rows(&scene, 0, 100);
    struct gsp_drain *drain = drain_open(&scene, NULL);
    tick(drain, true);
    gsp_store_drain_close(drain);
    snprintf(from, sizeof(from), "%s/python.torch_trace.1.parquet", scene.folder);
    snprintf(to, sizeof(to), "%s/python.torch_trace.2.parquet", scene.folder);
    tap_require(link(from, to) == 0);
    snprintf(to, sizeof(to), "%s/.python.torch_trace.3.parquet.tmp", scene.folder);
    tap_require(link(from, to) == 0);
    check_rows(&scene, 100, 0, 99);
    drain = drain_open(&scene, NULL);
    tap_eq_int(count_files(&scene, ".parquet"), 1);
    tap_eq_int(count_files(&scene, ".tmp"), 0);
    gsp_store_drain_close(drain);
    scene_end(&scene);
}

TAP_TEST(damaged_segments_are_left_out)
{
    struct scene scene;
    char path[160];
    int64_t seen = 0;
    scene_begin(&scene);
    struct gsp_drain *drain = drain_open(&scene, NULL);
    for (int64_t i = 0; i < 3; i++) {
        write_rows(&scene, i * 100, 100);
        tick(drain, true);
    }
    gsp_store_drain_close(drain);
    snprintf(path, sizeof(path), "%s/python.torch_trace.2.parquet", scene.folder);
    tap_require(truncate(path, 200) == 0);
    struct gsp_store *store = run_store(&scene);
    query(store, "SELECT count(*) FROM python.torch_trace", &seen, 1);
    tap_eq_int(seen, 200);
    tap_require(gsp_store_warning(store, 0) != NULL);
    tap_check(strstr(gsp_store_warning(store, 0), "python.torch_trace.2.parquet") != NULL);
    gsp_store_close(store);
    scene_end(&scene);
}

/* Drains twice. The parent kills this process meanwhile. */
static void drain_in_child(const struct scene *scene)
{
    struct gsp_drain *drain = NULL;
    const struct gsp_drain_options options = {.merge_count = 3};
    if (gsp_store_drain_open(scene->folder, &options, &drain, NULL) != GSP_OK ||
        gsp_store_drain_add_ring_dir(drain, &scene->ring_dir, NULL) != GSP_OK)
        _exit(1);
    gsp_ignore(gsp_store_drain_tick(drain, true, NULL));
    gsp_ignore(gsp_store_drain_tick(drain, true, NULL));
    _exit(0);
}

/* After a kill, no row that the ring still has is lost, and no row appears twice. */
static void check_killed(long step_ms, long phase_ms)
{
    struct scene scene;
    scene_begin(&scene);
    int64_t written = 10;
    write_rows(&scene, 0, written);
    struct gsp_drain *first = drain_open(&scene, NULL);
    tick(first, true);
    gsp_store_drain_close(first);
    for (long round = 0; round < 13; round++) {
        write_rows(&scene, written, 40);
        written += 40;
        const pid_t child = fork();
        tap_require(child >= 0);
        if (child == 0)
            drain_in_child(&scene);
        /* Kill at different times of the drain. This does not wait for an event. */
        const struct timespec pause = {0, (round * step_ms + phase_ms) % 97 * 1000000L};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        tap_require(waitpid(child, NULL, 0) == child);
        check_rows(&scene, written, 0, written - 1);
    }
    scene_end(&scene);
}

/* Four tests, because each test has a time limit. */
TAP_TEST(killed_at_any_time)
{
    check_killed(7, 0);
}

TAP_TEST(killed_at_other_times)
{
    check_killed(11, 3);
}

TAP_TEST(killed_early)
{
    check_killed(1, 20);
}

TAP_TEST(killed_late)
{
    check_killed(3, 50);
}

/* A full disk loses no segment, and draining continues when there is space again. */
TAP_TEST(a_full_disk_loses_nothing)
{
    struct scene scene;
    char path[160];
    if (geteuid() != 0)
        tap_skip("needs root, for a small file system");
    scene_begin(&scene);
    if (mount("none", scene.folder, "tmpfs", 0, "size=256k") != 0) {
        scene_end(&scene);
        tap_skip("needs the right to mount a file system");
    }
    write_rows(&scene, 0, 100);
    struct gsp_drain *drain = drain_open(&scene, NULL);
    tick(drain, true);
    snprintf(path, sizeof(path), "%s/fill", scene.folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    tap_require(fd >= 0);
    static const char zeros[4096];
    while (write(fd, zeros, sizeof(zeros)) > 0)
        continue;
    write_rows(&scene, 100, 100);
    struct gsp_err err = {0};
    tap_check(gsp_store_drain_tick(drain, true, &err) < 0);
    tap_check(err.msg[0] != '\0');
    printf("# %s\n", err.msg);
    check_rows(&scene, 200, 0, 199);
    tap_require(ftruncate(fd, 0) == 0);
    close(fd);
    tick(drain, true);
    check_rows(&scene, 200, 0, 199);
    gsp_store_drain_close(drain);
    tap_check(umount(scene.folder) == 0);
    scene_end(&scene);
}

TAP_MAIN()
