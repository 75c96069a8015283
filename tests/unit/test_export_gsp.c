/* SPDX-License-Identifier: Apache-2.0 */
#include "export/gsp_stream.h"
#include "profile_fixture.h"

#define HEADER_BYTES 32U

static struct gsp_profile *read_gsp(struct gsp_sv bytes)
{
    struct gsp_profile *p = NULL;
    struct gsp_err err = {0};
    int rc = fix_read(bytes, "gsp", &p, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    return p;
}

TAP_TEST(round_trip)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "gsp", NULL, &bytes);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    fix_check_same(p, q);
    tap_check(!gsp_model_profile_meta(q)->truncated);
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

TAP_TEST(round_trip_of_nanoseconds_and_odd_weights)
{
    struct gsp_profile *p = fix_small();
    uint64_t seed = 7;
    int64_t time_ns = 90000000;
    for (int i = 0; i < 50000; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        uint64_t r = seed >> 20;
        int64_t step_ns = (int64_t)(r % (i % 100 == 0 ? 1000000000 : 12000000));
        time_ns += step_ns;
        struct gsp_sample sample = {.time_ns = time_ns,
                                    .weight = r % 3 ? step_ns : (int64_t)(r % 100) - 50,
                                    .thread = (uint32_t)(r >> 8) % 3,
                                    .stack = (uint32_t)(r >> 12) % 7,
                                    .flags = (uint32_t)(r >> 16) % 4};
        tap_require(gsp_model_profile_add(p, &sample, NULL) == GSP_OK);
    }
    struct gsp_sample far = {.time_ns = INT64_MAX, .weight = INT64_MIN};
    tap_require(gsp_model_profile_add(p, &far, NULL) == GSP_OK);
    struct gsp_buf bytes = {0};
    fix_write(p, "gsp", NULL, &bytes);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    fix_check_same(p, q);
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

TAP_TEST(round_trip_of_totals)
{
    struct gsp_profile *p = fix_small();
    struct gsp_total sum = {.thread = 1, .stack = 2, .count = 1000000, .weight = -5};
    tap_require(gsp_model_profile_add_total(p, &sum, NULL) == GSP_OK);
    struct gsp_buf bytes = {0};
    fix_write(p, "gsp", NULL, &bytes);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    tap_require(gsp_model_profile_total_count(p) == gsp_model_profile_total_count(q));
    for (size_t i = 0; i < gsp_model_profile_total_count(p); i++)
        tap_check(memcmp(gsp_model_profile_total_at(p, i), gsp_model_profile_total_at(q, i),
                         sizeof(struct gsp_total)) == 0);
    tap_eq_int(gsp_model_profile_sample_count(q), 1000010);
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

TAP_TEST(round_trip_of_a_pid_in_a_namespace)
{
    struct gsp_profile *p = fix_small();
    struct gsp_process inside = *gsp_model_profile_process_at(p, 1);
    inside.ns_pid = 7;
    gsp_model_profile_set_process(p, 1, &inside);
    struct gsp_buf bytes = {0};
    fix_write(p, "gsp", NULL, &bytes);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    tap_eq_int(gsp_model_profile_process_at(q, 0)->ns_pid, 0);
    tap_eq_int(gsp_model_profile_process_at(q, 1)->ns_pid, 7);
    tap_eq_int(gsp_model_profile_process_at(q, 1)->pid, inside.pid);
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

TAP_TEST(golden)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    /* Versions of zstd may compress differently, so the golden file is only read. */
    fix_write(p, "gsp", NULL, &bytes);
    if (getenv("GSP_GOLDEN_WRITE"))
        fix_check_golden(&bytes, "gsp/small.gsp");
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    int rc =
        gsp_export_format_load(GSP_TEST_DATA "/../../golden/gsp/small.gsp", NULL, true, &q, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK);
    fix_check_same(p, q);
    gsp_model_profile_free(p);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
}

/* A recorder: a profile that keeps no samples, a stream into a file, a clock with jitter. */
struct recorder {
    struct gsp_profile *profile;
    struct gsp_stream *stream;
    FILE *file;
    uint64_t seed;
    uint32_t threads[8];
    uint32_t stacks[400];
};

static uint64_t roll(struct recorder *recorder)
{
    recorder->seed = recorder->seed * 6364136223846793005U + 1442695040888963407U;
    return recorder->seed >> 24;
}

/* Stacks of 20 frames with common roots, as in a real program. */
static void grow_stacks(struct recorder *recorder)
{
    struct gsp_profile *p = recorder->profile;
    char name[64];
    char file[64];
    uint32_t trunk[20] = {0};
    for (size_t i = 0; i < GSP_COUNT(recorder->stacks); i++) {
        for (size_t depth = i ? 12 + roll(recorder) % 8 : 0; depth < 20; depth++) {
            snprintf(name, sizeof(name), "function_%d", (int)(roll(recorder) % 300));
            snprintf(file, sizeof(file), "/srv/app/lib/package_%d/module.py",
                     (int)(roll(recorder) % 40));
            uint32_t frame = fix_frame(p, name, file, (uint32_t)(roll(recorder) % 500));
            trunk[depth] = fix_stack(p, depth ? trunk[depth - 1] : GSP_NONE, frame);
        }
        recorder->stacks[i] = trunk[19];
    }
}

static void start_recorder(struct recorder *recorder, int64_t period_ns)
{
    *recorder = (struct recorder){.seed = 1};
    tap_require(gsp_model_profile_new(false, &recorder->profile, NULL) == GSP_OK);
    recorder->file = tmpfile();
    tap_require(recorder->file != NULL);
    gsp_model_profile_meta(recorder->profile)->start_ns = 1700000000000000000;
    gsp_model_profile_meta(recorder->profile)->period_ns = period_ns;
    uint32_t process = fix_process(recorder->profile, 100, "python3");
    for (uint32_t i = 0; i < GSP_COUNT(recorder->threads); i++)
        recorder->threads[i] = fix_thread(recorder->profile, process, 100 + i, "worker");
    tap_require(gsp_export_stream_new(fileno(recorder->file), recorder->profile, &recorder->stream,
                                      NULL) == GSP_OK);
    grow_stacks(recorder);
}

/* One thread works and changes its stack in about every second tick. The others wait and are
 * sampled in every 10th tick. Flushes once a second. */
static uint64_t record(struct recorder *recorder, int64_t period_ns, int seconds)
{
    uint64_t count = 0;
    size_t at = 0;
    int64_t ticks_per_s = 1000000000 / period_ns;
    for (int64_t tick = 0; tick < seconds * ticks_per_s; tick++) {
        int64_t jitter_ns = (int64_t)(roll(recorder) % 30000 + roll(recorder) % 20000);
        struct gsp_sample sample = {.time_ns = tick * period_ns + jitter_ns,
                                    .weight = period_ns,
                                    .flags = GSP_SAMPLE_ON_CPU | GSP_SAMPLE_HAS_GIL};
        if (roll(recorder) % 2)
            at = roll(recorder) % 4 ? (at + roll(recorder) % 5) % GSP_COUNT(recorder->stacks)
                                    : roll(recorder) % GSP_COUNT(recorder->stacks);
        for (uint32_t i = 0; i < (tick % 10 ? 1 : GSP_COUNT(recorder->threads)); i++) {
            sample.thread = recorder->threads[i];
            sample.stack = recorder->stacks[i ? i : at];
            sample.flags = i ? 0 : sample.flags;
            sample.time_ns += i ? 1500 : 0;
            tap_require(gsp_export_stream_add(recorder->stream, &sample, NULL) == GSP_OK);
            count++;
        }
        gsp_model_profile_meta(recorder->profile)->ticks++;
        if (tick % ticks_per_s == ticks_per_s - 1)
            tap_require(gsp_export_stream_flush(recorder->stream, NULL) == GSP_OK);
    }
    return count;
}

static void read_file(struct recorder *recorder, struct gsp_buf *bytes)
{
    rewind(recorder->file);
    tap_require(gsp_fd_read_all(fileno(recorder->file), 1U << 30, bytes, NULL) == GSP_OK);
}

static void stop_recorder(struct recorder *recorder)
{
    gsp_model_profile_free(recorder->profile);
    fclose(recorder->file);
}

static void check_size(int64_t period_ns, int seconds, double limit)
{
    struct recorder recorder;
    start_recorder(&recorder, period_ns);
    uint64_t count = record(&recorder, period_ns, seconds);
    tap_require(gsp_export_stream_finish(recorder.stream, NULL) == GSP_OK);
    struct gsp_buf bytes = {0};
    read_file(&recorder, &bytes);
    double per_sample = (double)bytes.len / (double)count;
    printf("# %zu bytes for %" PRIu64 " samples: %.2f per sample\n", bytes.len, count, per_sample);
    tap_check(per_sample <= limit);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    tap_eq_int(gsp_model_profile_sample_count(q), count);
    tap_eq_int(gsp_model_profile_meta(q)->ticks, gsp_model_profile_meta(recorder.profile)->ticks);
    tap_check(!gsp_model_profile_meta(q)->truncated);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
    stop_recorder(&recorder);
}

TAP_TEST(a_minute_at_1_khz_takes_at_most_3_bytes_per_sample)
{
    check_size(1000000, 60, 3.0);
}

TAP_TEST(ten_minutes_at_100_hz_take_at_most_3_bytes_per_sample)
{
    check_size(10000000, 600, 3.0);
}

TAP_TEST(equal_samples_take_almost_no_space)
{
    struct recorder recorder;
    start_recorder(&recorder, 1000000);
    tap_require(gsp_export_stream_flush(recorder.stream, NULL) == GSP_OK);
    off_t before = lseek(fileno(recorder.file), 0, SEEK_CUR);
    for (int64_t tick = 0; tick < 100000; tick++) {
        struct gsp_sample sample = {.time_ns = tick * 1000000, .weight = 1000000, .stack = 3};
        tap_require(gsp_export_stream_add(recorder.stream, &sample, NULL) == GSP_OK);
    }
    tap_require(gsp_export_stream_flush(recorder.stream, NULL) == GSP_OK);
    off_t bytes = lseek(fileno(recorder.file), 0, SEEK_CUR) - before;
    printf("# %lld bytes for 100000 equal samples\n", (long long)bytes);
    tap_check(bytes < 5000);
    gsp_export_stream_free(recorder.stream);
    stop_recorder(&recorder);
}

TAP_TEST(flushed_samples_survive_a_kill)
{
    struct recorder recorder;
    start_recorder(&recorder, 1000000);
    uint64_t count = record(&recorder, 1000000, 5);
    struct gsp_sample unflushed = {.time_ns = 6000000000, .weight = 1};
    tap_require(gsp_export_stream_add(recorder.stream, &unflushed, NULL) == GSP_OK);
    gsp_export_stream_free(recorder.stream); /* as if killed: no end block */
    struct gsp_buf bytes = {0};
    read_file(&recorder, &bytes);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    tap_eq_int(gsp_model_profile_sample_count(q), count);
    tap_check(gsp_model_profile_meta(q)->truncated);
    gsp_model_profile_free(q);

    /* A truncated file is read up to the last complete block. */
    uint64_t last = 0;
    for (size_t len = HEADER_BYTES; len < bytes.len; len += 97) {
        q = read_gsp((struct gsp_sv){bytes.p, len});
        tap_check(gsp_model_profile_meta(q)->truncated);
        tap_check(gsp_model_profile_sample_count(q) >= last);
        last = gsp_model_profile_sample_count(q);
        gsp_model_profile_free(q);
    }
    tap_check(last > count / 2);
    gsp_buf_free(&bytes);
    stop_recorder(&recorder);
}

TAP_TEST(changed_names_reach_the_file)
{
    struct recorder recorder;
    start_recorder(&recorder, 1000000);
    record(&recorder, 1000000, 1);
    struct gsp_profile *p = recorder.profile;
    struct gsp_thread thread = *gsp_model_profile_thread_at(p, 2);
    thread.name = fix_string(p, "new name");
    gsp_model_profile_set_thread(p, 2, &thread);
    gsp_export_stream_thread_changed(recorder.stream, 2);
    struct gsp_process process = *gsp_model_profile_process_at(p, 0);
    process.name = fix_string(p, "python3.12");
    gsp_model_profile_set_process(p, 0, &process);
    gsp_export_stream_process_changed(recorder.stream, 0);
    gsp_model_profile_meta(p)->losses.torn = 17;
    tap_require(gsp_export_stream_finish(recorder.stream, NULL) == GSP_OK);
    struct gsp_buf bytes = {0};
    read_file(&recorder, &bytes);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    tap_check(fix_same_thread(p, 2, q, 2));
    tap_check(fix_same_thread(p, 3, q, 3));
    tap_check(fix_same_string(p, process.name, q, gsp_model_profile_process_at(q, 0)->name));
    tap_eq_int(gsp_model_profile_meta(q)->losses.torn, 17);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
    stop_recorder(&recorder);
}

TAP_TEST(times_are_rounded_down_to_microseconds_and_sums_stay_correct)
{
    struct recorder recorder;
    start_recorder(&recorder, 1000000);
    int64_t time_ns = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t step_ns = 1000000 + (int64_t)(roll(&recorder) % 20000);
        time_ns += step_ns;
        struct gsp_sample sample = {.time_ns = time_ns, .weight = step_ns, .stack = 1};
        tap_require(gsp_export_stream_add(recorder.stream, &sample, NULL) == GSP_OK);
    }
    tap_require(gsp_export_stream_finish(recorder.stream, NULL) == GSP_OK);
    struct gsp_buf bytes = {0};
    read_file(&recorder, &bytes);
    struct gsp_profile *q = read_gsp(gsp_buf_sv(&bytes));
    struct gsp_sample_iter iter;
    struct gsp_sample sample = {0};
    gsp_model_sample_iter_init(&iter, q);
    while (gsp_model_sample_iter_next(&iter, &sample))
        continue;
    tap_eq_int(sample.time_ns, time_ns / 1000 * 1000);
    int64_t off_ns = gsp_model_profile_total_at(q, 0)->weight - time_ns;
    tap_check(off_ns <= 1000 && off_ns >= -1000);
    gsp_model_profile_free(q);
    gsp_buf_free(&bytes);
    stop_recorder(&recorder);
}

TAP_TEST(a_full_disk_is_reported)
{
    struct gsp_profile *p = fix_small();
    struct gsp_stream *stream = NULL;
    struct gsp_err err = {0};
    FILE *full = fopen("/dev/full", "w");
    tap_require(full != NULL);
    tap_eq_int(gsp_export_stream_new(fileno(full), p, &stream, &err), GSP_E_IO);
    tap_check(stream == NULL);
    tap_check(err.msg[0] != '\0');
    fclose(full);
    gsp_model_profile_free(p);
}

static void check_rejected(struct gsp_sv bytes, const char *message)
{
    struct gsp_profile *q = NULL;
    struct gsp_err err = {0};
    tap_eq_int(fix_read(bytes, "gsp", &q, &err), GSP_E_FORMAT);
    tap_eq_str(err.msg, message);
}

TAP_TEST(damage_is_reported_with_its_offset)
{
    struct gsp_profile *p = fix_small();
    struct gsp_buf bytes = {0};
    fix_write(p, "gsp", NULL, &bytes);
    check_rejected((struct gsp_sv){"GIF89a", 6}, "not a .gsp file");
    check_rejected((struct gsp_sv){bytes.p, 31}, "not a .gsp file");
    bytes.p[13] ^= 1;
    check_rejected(gsp_buf_sv(&bytes), "invalid file header");
    bytes.p[13] ^= 1;
    bytes.p[8] = 9;
    check_rejected(gsp_buf_sv(&bytes), "unknown .gsp version 9");
    bytes.p[8] = 1;
    bytes.p[HEADER_BYTES + 20] ^= 1;
    check_rejected(gsp_buf_sv(&bytes), "wrong checksum in the block at byte 32");
    bytes.p[HEADER_BYTES + 20] ^= 1;
    gsp_buf_putc(&bytes, 'x');
    char message[80];
    snprintf(message, sizeof(message), "data after the end, at byte %zu", bytes.len - 1);
    check_rejected(gsp_buf_sv(&bytes), message);
    fix_mangle((struct gsp_sv){bytes.p, bytes.len - 1}, "gsp", 1);
    gsp_model_profile_free(p);
    gsp_buf_free(&bytes);
}

TAP_MAIN()
