/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/file.h"
#include "base/time.h"
#include "memlog/layout.h"
#include "memlog/leak.h"
#include "memlog/log.h"
#include "memlog/view.h"
#include "memlog/writer.h"
#include "memory_file.h"
#include "tap.h"

#define MIB       ((int64_t)1 << 20)
#define LEAK_LINE 7U
#define KEEP_LINE 3U
#define TICKS     40

/* A process with three sites: one leaks a MiB per tick, one fills a cache, one allocates and frees.
 */
struct scene {
    struct memory_file file;
    uint32_t leak;
    uint32_t cache;
    uint32_t churn;
};

static void scene_open(struct scene *scene)
{
    struct memory_file *file = &scene->file;
    memory_file_open(file, GSP_MEMORY_EXACT);
    const uint32_t thread = memory_node(file, 0, memory_frame(file, GSP_MEMORY_THREAD, NULL, 4242));
    const uint32_t root =
        memory_node(file, thread, memory_frame(file, GSP_MEMORY_PYTHON, "main", 20));
    const uint32_t step =
        memory_node(file, root, memory_frame(file, GSP_MEMORY_PYTHON, "step", LEAK_LINE));
    const uint32_t library =
        memory_node(file, step, memory_frame(file, GSP_MEMORY_NATIVE, "libnumpy.so", 0));
    const uint32_t keep =
        memory_node(file, root, memory_frame(file, GSP_MEMORY_PYTHON, "keep", KEEP_LINE));
    scene->leak = memory_new_site(file, library, GSP_MEMORY_MALLOC);
    scene->cache = memory_new_site(file, keep, GSP_MEMORY_PY_OBJECT);
    scene->churn = memory_new_site(file, root, GSP_MEMORY_PY_MEM);
}

static void scene_step(struct scene *scene, int tick)
{
    memory_change(&scene->file, scene->leak, MIB);
    if (tick < 5)
        memory_change(&scene->file, scene->cache, 8 * MIB);
    memory_change(&scene->file, scene->churn, 4 * MIB);
    memory_change(&scene->file, scene->churn, -4 * MIB);
}

static void no_totals(int64_t totals[GSP_MEMTOTALS])
{
    for (size_t i = 0; i < GSP_MEMTOTALS; i++)
        totals[i] = GSP_MEMLOG_UNKNOWN;
}

/* The interpreter shuts down and frees a little at a time. */
static void scene_leave(struct scene *scene)
{
    atomic_fetch_or(&scene->file.head->state, GSP_MEMORY_LEAVING);
    memory_change(&scene->file, scene->leak, -MIB);
}

/* Records the scene and stores the file in *out. The interpreter shuts down before the tick
 * leaving_tick. */
static void record_scene_until(int leaving_tick, int ticks, bool ends, struct gsp_buf *out)
{
    struct scene scene;
    struct gsp_memlog_table *table = NULL;
    struct gsp_memlog_writer *writer = NULL;
    int64_t totals[GSP_MEMTOTALS];
    uint32_t index = 0;
    char path[96];
    scene_open(&scene);
    snprintf(path, sizeof(path), "%s/out", scene.file.folder);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const struct gsp_memlog_writer_opts opts = {
        .fd = fd, .start_ns = 1000, .start_real_ns = 5000, .huge_setting = "madvise"};
    tap_eq_int(gsp_memlog_table_open(scene.file.folder_fd, &table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_table_copy(table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_writer_new(&opts, &writer, NULL), GSP_OK);
    const struct gsp_memlog_writer_process about = {4242, 1, gsp_sv_of("python3 train.py")};
    tap_eq_int(gsp_memlog_writer_add_process(writer, &about, table, &index, NULL), GSP_OK);
    no_totals(totals);
    for (int i = 0; i < ticks; i++) {
        if (i < leaving_tick)
            scene_step(&scene, i);
        else
            scene_leave(&scene);
        totals[GSP_MEMTOTAL_RSS] = 100 * MIB + i;
        totals[GSP_MEMTOTAL_STEP] = i;
        totals[GSP_MEMTOTAL_HUGE] = i < TICKS / 2 ? 2 * MIB : 4 * MIB;
        tap_eq_int(gsp_memlog_table_copy(table, NULL), GSP_OK);
        tap_eq_int(gsp_memlog_writer_tick(writer, index, 1000 + (i + 1) * GSP_NS_PER_S, table,
                                          totals, NULL),
                   GSP_OK);
        tap_eq_int(gsp_memlog_writer_flush(writer, NULL), GSP_OK);
    }
    if (ends) {
        gsp_memlog_writer_end_process(writer, index, 1000 + ticks * GSP_NS_PER_S);
        tap_eq_int(gsp_memlog_writer_end(writer, NULL), GSP_OK);
    }
    gsp_memlog_writer_free(writer);
    gsp_memlog_table_close(table);
    tap_eq_int(gsp_file_read(path, 1 << 20, out, NULL), GSP_OK);
    close(fd);
    unlink(path);
    memory_file_close(&scene.file);
}

static void record_scene(int ticks, bool ends, struct gsp_buf *out)
{
    record_scene_until(ticks, ticks, ends, out);
}

TAP_TEST(table_has_counts_and_the_peak)
{
    struct scene scene;
    struct gsp_memlog_table *table = NULL;
    scene_open(&scene);
    for (int i = 0; i < 3; i++)
        scene_step(&scene, i);
    memory_change(&scene.file, scene.cache, -8 * MIB);
    tap_eq_int(gsp_memlog_table_open(scene.file.folder_fd, &table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_table_copy(table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_table_site_count(table), 3);
    const struct gsp_memlog_count *leak = &gsp_memlog_table_site(table, scene.leak)->count;
    tap_eq_int(gsp_memlog_count_live(leak), 3 * MIB);
    tap_eq_int(leak->alloc_count, 3);
    const struct gsp_memlog_count *cache = &gsp_memlog_table_site(table, scene.cache)->count;
    tap_eq_int(gsp_memlog_count_live(cache), 16 * MIB);
    /* The peak was before the third block of 4 MiB was freed. */
    tap_eq_int(cache->peak_bytes, 24 * MIB);
    tap_eq_int(leak->peak_bytes, 3 * MIB);
    tap_eq_int(gsp_memlog_table_site(table, scene.churn)->count.peak_bytes, 4 * MIB);
    tap_eq_int(gsp_memlog_table_facts(table)->live_bytes, 19 * MIB);
    tap_check(!gsp_memlog_table_is_replaced(table, scene.file.folder_fd));
    unlinkat(scene.file.folder_fd, GSP_MEMORY_FILE, 0);
    tap_check(gsp_memlog_table_is_replaced(table, scene.file.folder_fd));
    gsp_memlog_table_close(table);
    struct gsp_err err = {0};
    tap_eq_int(gsp_memlog_table_open(scene.file.folder_fd, &table, &err), GSP_E_NOFILE);
    memory_file_close(&scene.file);
}

TAP_TEST(table_does_not_trust_the_file)
{
    struct scene scene;
    struct gsp_memlog_table *table = NULL;
    struct gsp_profile *profile = NULL;
    struct gsp_memlog_stacks stacks = GSP_MEMSTACKS_NONE;
    const struct gsp_process process = {.pid = 4242};
    uint32_t thread = 0;
    uint32_t stack = 0;
    scene_open(&scene);
    /* A node that is its own parent, a node without a frame, a site without a node, and more frees
     * than allocations. */
    const uint32_t self = memory_node(&scene.file, scene.file.head->node_count, 1);
    const uint32_t lost = memory_node(&scene.file, 1, 63);
    memory_new_site(&scene.file, 63, 99);
    memory_site(&scene.file, scene.churn)->free_bytes = UINT64_MAX;
    tap_eq_int(gsp_memlog_table_open(scene.file.folder_fd, &table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_table_copy(table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_count_live(&gsp_memlog_table_site(table, scene.churn)->count), 0);
    tap_eq_int(gsp_model_profile_new(false, &profile, NULL), GSP_OK);
    tap_eq_int(gsp_model_profile_process(profile, &process, &stacks.process, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_stacks_grow(&stacks, table, profile, NULL), GSP_OK);
    gsp_memlog_stacks_at(&stacks, self, &thread, &stack);
    tap_eq_int(stack, GSP_NONE);
    gsp_memlog_stacks_at(&stacks, lost, &thread, &stack);
    tap_eq_int(stack, GSP_NONE);
    gsp_memlog_stacks_at(&stacks, 12345, &thread, &stack);
    tap_eq_int(stack, GSP_NONE);
    gsp_memlog_stacks_free(&stacks);
    gsp_model_profile_free(profile);
    /* Truncation of the mapped file is an error, not a signal. */
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", scene.file.folder, GSP_MEMORY_FILE);
    tap_eq_int(truncate(path, 0), 0);
    tap_eq_int(gsp_memlog_table_copy(table, NULL), GSP_E_FORMAT);
    gsp_memlog_table_close(table);
    tap_eq_int(gsp_memlog_table_open(scene.file.folder_fd, &table, NULL), GSP_E_FORMAT);
    memory_file_close(&scene.file);
}

TAP_TEST(recording_round_trips)
{
    gsp_auto_buf bytes = {0};
    struct gsp_memlog *log = NULL;
    struct gsp_memlog_replay replay;
    record_scene(TICKS, true, &bytes);
    tap_eq_int(gsp_memlog__parse(gsp_buf_sv(&bytes), &log, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_tick_count(log), TICKS + 1);
    tap_eq_int(gsp_memlog_site_count(log), 3);
    tap_check(!gsp_memlog_meta(log)->truncated);
    tap_eq_int(gsp_memlog_meta(log)->start_ns, 5000);
    tap_eq_int(gsp_memlog_process(log, 0)->mode, GSP_MEMORY_EXACT);
    tap_eq_str(gsp_memlog_meta(log)->huge_setting, "madvise");
    tap_eq_int(gsp_memlog_replay_begin(&replay, log, NULL), GSP_OK);
    for (int i = 0; i < TICKS; i++) {
        const struct gsp_memlog_tick *tick = gsp_memlog_replay_next(&replay);
        tap_eq_int(tick->time_ns, (i + 1) * GSP_NS_PER_S);
        tap_eq_int(tick->total[GSP_MEMTOTAL_RSS], 100 * MIB + i);
        tap_eq_int(tick->total[GSP_MEMTOTAL_DEVICE], GSP_MEMLOG_UNKNOWN);
        tap_eq_int(tick->total[GSP_MEMTOTAL_HUGE], i < TICKS / 2 ? 2 * MIB : 4 * MIB);
        tap_eq_int(gsp_memlog_count_live(&replay.counts[0]), (i + 1) * MIB);
        tap_eq_int(tick->total[GSP_MEMTOTAL_MALLOC], (i + 1) * MIB);
    }
    tap_check(gsp_memlog_replay_next(&replay)->is_gone);
    tap_eq_int(gsp_memlog_count_live(&replay.counts[0]), 0);
    tap_check(gsp_memlog_replay_next(&replay) == NULL);
    gsp_memlog_replay_end(&replay);
    gsp_memlog_close(log);
}

/* Parses a file whose only record is this setting for huge pages. */
static int read_setting(const char *text, size_t len)
{
    unsigned char file[64] = {0};
    unsigned char *block = file + GSP_MEMLOG_HEADER_BYTES;
    unsigned char *records = block + GSP_MEMLOG_BLOCK_BYTES;
    struct gsp_memlog *log = NULL;
    const struct gsp_sv sv = {(const char *)records, len + 2};
    memcpy(file, gsp_memlog__magic, sizeof(gsp_memlog__magic));
    file[sizeof(gsp_memlog__magic)] = GSP_MEMLOG_VERSION;
    records[0] = GSP_MEMLOG_HUGE;
    records[1] = (unsigned char)len;
    memcpy(records + 2, text, len);
    gsp_memlog__put_number(block, sv.len, 4);
    gsp_memlog__put_number(block + 8, gsp_memlog__checksum(sv, 0), 8);
    const size_t size = GSP_MEMLOG_HEADER_BYTES + GSP_MEMLOG_BLOCK_BYTES + sv.len;
    const int rc = gsp_memlog__parse((struct gsp_sv){(const char *)file, size}, &log, NULL);
    gsp_memlog_close(log);
    return rc;
}

TAP_TEST(a_setting_is_a_word)
{
    tap_eq_int(read_setting("always", 6), GSP_OK);
    tap_eq_int(read_setting("", 0), GSP_OK);
    tap_eq_int(read_setting("abcdefghijklmno", 15), GSP_OK);
    tap_eq_int(read_setting("abcdefghijklmnop", 16), GSP_E_FORMAT);
    tap_eq_int(read_setting("al\033[1m", 6), GSP_E_FORMAT);
}

/* Every prefix of a file is a recording of the ticks in its complete blocks. */
TAP_TEST(a_truncated_file_is_read_up_to_its_end)
{
    gsp_auto_buf bytes = {0};
    size_t last = 0;
    record_scene(6, true, &bytes);
    for (size_t len = 0; len <= bytes.len; len++) {
        struct gsp_memlog *log = NULL;
        /* A copy, so that a sanitizer detects a read past the end. */
        char *copy = malloc(len + 1);
        memcpy(copy, bytes.p, len);
        const int rc = gsp_memlog__parse((struct gsp_sv){copy, len}, &log, NULL);
        tap_check(rc == (len < 16 ? GSP_E_FORMAT : GSP_OK));
        if (rc == GSP_OK) {
            const size_t ticks = gsp_memlog_tick_count(log);
            tap_check(ticks >= last);
            tap_check(gsp_memlog_meta(log)->truncated == (len < bytes.len));
            last = ticks;
        }
        gsp_memlog_close(log);
        free(copy);
    }
    tap_eq_int(last, 7);
}

TAP_TEST(a_flipped_bit_ends_the_file_there)
{
    gsp_auto_buf bytes = {0};
    record_scene(6, true, &bytes);
    for (size_t i = 16; i < bytes.len; i++) {
        struct gsp_memlog *log = NULL;
        bytes.p[i] = (char)(bytes.p[i] ^ (1 << i % 8));
        tap_eq_int(gsp_memlog__parse(gsp_buf_sv(&bytes), &log, NULL), GSP_OK);
        tap_check(gsp_memlog_meta(log)->truncated);
        tap_check(gsp_memlog_tick_count(log) < 7);
        gsp_memlog_close(log);
        bytes.p[i] = (char)(bytes.p[i] ^ (1 << i % 8));
    }
}

/* --------------------------------------------------------------------------------------- views */

static struct gsp_memlog_value ask(const struct gsp_memlog *log,
                                   const struct gsp_memlog_view_spec *question, const char *name,
                                   struct gsp_memlog_leaks *leaks)
{
    struct gsp_memlog_groups groups;
    struct gsp_memlog_values values;
    struct gsp_memlog_rows rows;
    struct gsp_memlog_value found = {0};
    tap_eq_int(gsp_memlog_groups_create(&groups, log, GSP_MEMBY_LINE, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_values_create(&values, log, question, &groups, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_rows_create(&rows, log, &values, &groups, NULL), GSP_OK);
    for (size_t i = 0; i < rows.count; i++) {
        gsp_auto_buf label = {0};
        gsp_memlog_group_name(&groups, log, rows.at[i].group, &label);
        if (strcmp(gsp_buf_cstr(&label), name) == 0)
            found = rows.at[i].value;
    }
    if (leaks) {
        *leaks = values.leaks;
        values.leaks = (struct gsp_memlog_leaks){0};
    }
    gsp_memlog_rows_free(&rows);
    gsp_memlog_values_free(&values);
    gsp_memlog_groups_free(&groups);
    return found;
}

TAP_TEST(views_have_the_right_values)
{
    gsp_auto_buf bytes = {0};
    struct gsp_memlog *log = NULL;
    record_scene(TICKS, true, &bytes);
    tap_eq_int(gsp_memlog__parse(gsp_buf_sv(&bytes), &log, NULL), GSP_OK);
    const struct gsp_memlog_view_spec peak = {.view = GSP_MEMVIEW_PEAK};
    tap_eq_int(ask(log, &peak, "step (train.py:7)", NULL).bytes, TICKS * MIB);
    tap_eq_int(ask(log, &peak, "keep (train.py:3)", NULL).bytes, 40 * MIB);
    tap_eq_int(ask(log, &peak, "main (train.py:20)", NULL).bytes, 4 * MIB);
    const struct gsp_memlog_view_spec at = {.view = GSP_MEMVIEW_AT, .to_ns = 10 * GSP_NS_PER_S};
    tap_eq_int(ask(log, &at, "step (train.py:7)", NULL).bytes, 10 * MIB);
    const struct gsp_memlog_view_spec diff = {
        .view = GSP_MEMVIEW_DIFF, .from_ns = 10 * GSP_NS_PER_S, .to_ns = 30 * GSP_NS_PER_S};
    tap_eq_int(ask(log, &diff, "step (train.py:7)", NULL).bytes, 20 * MIB);
    tap_eq_int(ask(log, &diff, "keep (train.py:3)", NULL).bytes, 0);
    const struct gsp_memlog_view_spec churn = {.view = GSP_MEMVIEW_TEMPORARY};
    tap_eq_int(ask(log, &churn, "main (train.py:20)", NULL).bytes, 4 * MIB * (TICKS - 1));
    tap_eq_int(ask(log, &churn, "main (train.py:20)", NULL).count, TICKS - 1);
    tap_eq_int(ask(log, &churn, "step (train.py:7)", NULL).bytes, 0);
    gsp_memlog_close(log);
}

TAP_TEST(the_leak_is_found_and_the_cache_is_not)
{
    gsp_auto_buf bytes = {0};
    struct gsp_memlog *log = NULL;
    struct gsp_memlog_leaks leaks;
    const struct gsp_memlog_view_spec question = {.view = GSP_MEMVIEW_LEAKS};
    record_scene(TICKS, true, &bytes);
    tap_eq_int(gsp_memlog__parse(gsp_buf_sv(&bytes), &log, NULL), GSP_OK);
    tap_check(ask(log, &question, "step (train.py:7)", &leaks).bytes > 25 * MIB);
    tap_eq_int(leaks.count, 1);
    tap_check(fabs(leaks.at[0].bytes_per_s / (double)MIB - 1) < 0.1);
    tap_check(fabs(leaks.at[0].bytes_per_step / (double)MIB - 1) < 0.1);
    tap_eq_int(leaks.at[0].live_bytes, (TICKS - 1) * MIB);
    gsp_memlog_leaks_free(&leaks);
    gsp_memlog_close(log);
}

/* --------------------------------------------------------------------------------------- leaks */

#define SERIES 64

static bool judged(double (*value)(double share, int i), double noise)
{
    double held[SERIES];
    double slope = 0;
    double z = 0;
    uint64_t seed = 7;
    for (int i = 0; i < SERIES; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        const double random = (double)(seed >> 40) / (double)(1 << 24) - 0.5;
        held[i] = (double)MIB * (value(i / (double)SERIES, i) + noise * random);
    }
    return gsp_memlog__leak_check(held, SERIES, 65536, &slope, &z);
}

static double linear(double share, int i)
{
    (void)i;
    return 50 * share;
}

static double late_linear(double share, int i)
{
    (void)i;
    return share < 0.4 ? 0 : 50 * (share - 0.4);
}

static double in_steps(double share, int i)
{
    (void)share;
    return i / 8 * 5; /* NOLINT(bugprone-integer-division) */
}

static double filled_cache(double share, int i)
{
    (void)i;
    return share < 0.3 ? 100 * share : 30;
}

static double slow_cache(double share, int i)
{
    (void)i;
    return 100 * (1 - exp(-3 * share));
}

static double one_leap(double share, int i)
{
    (void)i;
    return share < 0.8 ? 10 : 60;
}

static double saw(double share, int i)
{
    (void)share;
    return i % 20;
}

static double flat(double share, int i)
{
    (void)share;
    (void)i;
    return 100;
}

static double falling(double share, int i)
{
    (void)i;
    return 100 - 50 * share;
}

TAP_TEST(growth_is_a_leak)
{
    tap_check(judged(linear, 0));
    tap_check(judged(linear, 4));
    tap_check(judged(late_linear, 1));
    tap_check(judged(in_steps, 0));
}

TAP_TEST(caches_jumps_and_noise_are_not_leaks)
{
    tap_check(!judged(filled_cache, 0));
    tap_check(!judged(filled_cache, 3));
    tap_check(!judged(slow_cache, 0));
    tap_check(!judged(slow_cache, 2));
    tap_check(!judged(one_leap, 1));
    tap_check(!judged(saw, 0));
    tap_check(!judged(flat, 0));
    tap_check(!judged(flat, 20));
    tap_check(!judged(falling, 1));
}

TAP_TEST(a_short_series_is_not_a_leak)
{
    double held[GSP_MEMLOG_LEAK_WINDOWS_MIN - 1];
    double slope = 0;
    double z = 0;
    for (size_t i = 0; i < GSP_COUNT(held); i++)
        held[i] = (double)i * 1e6;
    tap_check(!gsp_memlog__leak_check(held, GSP_COUNT(held), 1, &slope, &z));
}

/* Even if the shutdown is slow, it is not part of the program's run. */
TAP_TEST(the_end_of_a_program_is_before_the_shutdown_of_its_interpreter)
{
    gsp_auto_buf bytes = {0};
    struct gsp_memlog *log = NULL;
    const int leaving_tick = TICKS / 2;
    record_scene_until(leaving_tick, TICKS, true, &bytes);
    tap_eq_int(gsp_memlog__parse(gsp_buf_sv(&bytes), &log, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_end_ns(log), leaving_tick * GSP_NS_PER_S);
    for (int i = 0; i < TICKS; i++)
        tap_check(gsp_memlog_tick(log, (size_t)i)->is_final == (i >= leaving_tick));
    gsp_memlog_close(log);
}

/* Ticks become less frequent, so that the file stays within its budget. */
TAP_TEST(the_budget_is_kept)
{
    struct scene scene;
    struct gsp_memlog_table *table = NULL;
    struct gsp_memlog_writer *writer = NULL;
    int64_t totals[GSP_MEMTOTALS];
    uint32_t index = 0;
    int64_t now_ns = 0;
    const int fd = memfd_create("out", MFD_CLOEXEC);
    const struct gsp_memlog_writer_opts opts = {.fd = fd, .budget_bytes = 16384};
    const struct gsp_memlog_writer_process about = {4242, 1, gsp_sv_of("python3 train.py")};
    scene_open(&scene);
    no_totals(totals);
    tap_eq_int(gsp_memlog_table_open(scene.file.folder_fd, &table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_table_copy(table, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_writer_new(&opts, &writer, NULL), GSP_OK);
    tap_eq_int(gsp_memlog_writer_add_process(writer, &about, table, &index, NULL), GSP_OK);
    int ticks = 0;
    while (now_ns < 100000 * GSP_NS_PER_S) {
        int64_t pause_ns = gsp_memlog_writer_pause_ns(writer, now_ns);
        pause_ns = pause_ns > GSP_NS_PER_S ? pause_ns : GSP_NS_PER_S;
        ticks++;
        now_ns += pause_ns;
        scene_step(&scene, 100);
        tap_eq_int(gsp_memlog_table_copy(table, NULL), GSP_OK);
        tap_eq_int(gsp_memlog_writer_tick(writer, index, now_ns, table, totals, NULL), GSP_OK);
        tap_eq_int(gsp_memlog_writer_flush(writer, NULL), GSP_OK);
    }
    tap_check(gsp_memlog_writer_bytes(writer) < 16384);
    tap_check(gsp_memlog_writer_bytes(writer) > 8192);
    tap_check(ticks > 100);
    gsp_memlog_writer_free(writer);
    gsp_memlog_table_close(table);
    close(fd);
    memory_file_close(&scene.file);
}

TAP_MAIN()
