/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/resource.h>

#include "daemon_fixture.h"
#include "frames/session_format.h"
#include "frames/session_write.h"
#include "tap.h"

static struct gsp_frame_log *open_frames(const char *folder, uint64_t segment_bytes)
{
    struct gsp_err err = {0};
    struct gsp_frame_log *frames = NULL;
    struct gsp_frame_log_options options = {
        .folder = folder, .segment_bytes = segment_bytes, .keep_bytes = 1, .host = "here"};
    if (gsp_frames_log_open(&options, &frames, &err) != 0)
        printf("# %s\n", err.msg);
    tap_require(frames != NULL);
    gsp_frames_log_keep_from(frames, 1);
    return frames;
}

static void frames_of(struct gsp_frame_log *frames, struct made *made, int n)
{
    for (int i = 0; i < n; i++)
        tap_require(made_frame(frames, made, NULL) == 0);
}

static const struct gsp_metric_stats *metric(const struct gsp_frame_log_stats *stats,
                                             const char *name, const char *device)
{
    for (size_t i = 0; i < stats->count; i++)
        if (strcmp(stats->metrics[i].name, name) == 0 &&
            strcmp(stats->metrics[i].device, device) == 0)
            return &stats->metrics[i];
    printf("# no metric %s of '%s'\n", name, device);
    exit(TAP_EXIT_FAILED);
}

static struct gsp_frame_log_stats stats_of(struct gsp_frame_log *frames, uint64_t first,
                                           uint64_t last)
{
    struct gsp_frame_log_stats stats;
    struct gsp_err err = {0};
    int rc = gsp_frames__log_stats(frames, first, last, &stats, &err);
    if (rc)
        printf("# %s\n", err.msg);
    tap_require(rc == 0);
    return stats;
}

/* The copy of a range as text. */
static char *copy_of(struct gsp_frame_log *frames, uint64_t first, uint64_t last, uint64_t *copied)
{
    int fd = memfd_create("copy", MFD_CLOEXEC);
    tap_require(fd >= 0);
    tap_require(gsp_frames__log_copy(frames, first, last, fd, copied, NULL) == 0);
    tap_require(lseek(fd, 0, SEEK_SET) == 0);
    struct gsp_buf text = {0};
    gsp_buf_puts(&text, "{\"frames\":[");
    tap_require(gsp_fd_read_all(fd, 1U << 30, &text, NULL) == 0);
    gsp_buf_puts(&text, "]}");
    tap_require(gsp_buf_cstr(&text) != NULL);
    close(fd);
    tap_check(gsp_frames_session_labels_are_valid(gsp_buf_sv(&text)));
    return text.p;
}

TAP_TEST(frame_is_json)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    struct made made = {.gpus = 2, .processes = 1};
    tap_eq_int(gsp_frames_log_next_id(frames), 1);
    frames_of(frames, &made, 3);
    tap_eq_int(gsp_frames_log_next_id(frames), 4);
    struct gsp_buf out = {0};
    tap_eq_int(gsp_frames_log_latest(frames, &out), 3);
    const char *text = gsp_buf_cstr(&out);
    tap_require(text != NULL);
    printf("# %s\n", text);
    tap_check(gsp_frames_session_labels_are_valid(gsp_buf_sv(&out)));
    tap_check(strstr(text, "\"frame_id\":           3,") != NULL);
    tap_check(strstr(text, "\"gpu_id\":[\"here:0:STAND-IN \\\"X\\\"\",\"here:1:STAND-IN") != NULL);
    tap_check(strstr(text, "\"gpu_util\":[2.0,3.0],\"gpu_memory\":[25.0,25.0]") != NULL);
    tap_check(strstr(text, "\"dram_util\":[0.2],\"disk_util\":[52.0]") != NULL);
    tap_check(strstr(text, "\"dram_bandwidth\":[3.0,3.0],\"dram_bandwidth_rx\":[2.0,2.0]") != NULL);
    tap_check(strstr(text, "\"cores\":[0.74,0.74]") != NULL);
    tap_check(strstr(text, "\"processes\":[{\"pid\":1000,") != NULL);
    tap_check(strstr(text, "\"pressure\":{\"cpu\":{\"some_percent\":2.0") != NULL);
    tap_check(strstr(text, "pss_bytes") == NULL); /* not known */
    gsp_buf_free(&out);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

TAP_TEST(time_has_milliseconds_and_zone)
{
    setenv("TZ", "Asia/Kolkata", 1);
    tzset();
    char text[64];
    tap_eq_str(gsp_fmt_iso_time(1700000000123456789, text, sizeof(text)),
               "2023-11-15T03:43:20.123+05:30");
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    struct made made = {.tick = 1};
    frames_of(frames, &made, 1);
    struct gsp_buf out = {0};
    gsp_frames_log_latest(frames, &out);
    tap_check(strstr(gsp_buf_cstr(&out), "\"time\":\"2023-11-15T03:43:20.200+05:30\"") != NULL);
    gsp_buf_free(&out);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double percentile(const double *sorted, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t i = (size_t)at;
    return i + 1 < n ? sorted[i] + (sorted[i + 1] - sorted[i]) * (at - (double)i) : sorted[i];
}

static void compare(const double *values, size_t n, const char *what)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 20000);
    struct made made = {0};
    double *kept = calloc(n, sizeof(*kept));
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        made.cpu = values[i];
        frames_of(frames, &made, 1);
        /* The printed value. */
        double size = fabs(values[i]);
        double scale = size >= 1 ? 1e3 : size >= 1e-3 ? 1e6 : 1e12;
        kept[i] = size >= 1e15 ? values[i] : round(values[i] * scale) / scale;
        sum += kept[i];
    }
    struct gsp_frame_log_stats stats = stats_of(frames, 1, n);
    const struct gsp_metric_stats *m = metric(&stats, "system.cpu.util_percent", "");
    double mean = sum / (double)n;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (kept[i] - mean) * (kept[i] - mean);
    qsort(kept, n, sizeof(*kept), by_value);
    printf("# %s: %zu values, mean %g, std %g, p99 %g\n", what, n, m->mean, m->std, m->p99);
    tap_eq_int(m->count, n);
    tap_check(m->min == kept[0] && m->max == kept[n - 1]);
    tap_check(m->p50 == percentile(kept, n, 0.50));
    tap_check(m->p95 == percentile(kept, n, 0.95));
    tap_check(m->p99 == percentile(kept, n, 0.99));
    double size = fabs(kept[0]) > fabs(kept[n - 1]) ? fabs(kept[0]) : fabs(kept[n - 1]);
    tap_check(fabs(m->mean - mean) <= 1e-12 * size);
    tap_check(fabs(m->std - sqrt(squares / (double)n)) <= 1e-9 * size);
    free(kept);
    gsp_frames__log_stats_free(&stats);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

#define MANY 5000
TAP_TEST(statistics_are_exact)
{
    static double values[MANY];
    values[0] = 42.125;
    compare(values, 1, "one");
    values[1] = 17;
    compare(values, 2, "two");
    for (size_t i = 0; i < MANY; i++)
        values[i] = 7;
    compare(values, MANY, "equal");
    srandom(1);
    for (size_t i = 0; i < MANY; i++)
        values[i] = (double)random() / 1e7 + 0.5;
    compare(values, MANY, "spread");
    for (size_t i = 0; i < MANY; i++)
        values[i] =
            1e9 +
            (double)(random() % 3); /* many equal values, differences small compared to the mean */
    compare(values, MANY, "three");
    for (size_t i = 0; i < MANY; i++)
        values[i] = ((double)random() - 1e9) * pow(10, (double)(random() % 30) - 20);
    compare(values, MANY, "signs and sizes");
}

TAP_TEST(integrals_of_rates_and_amounts)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    gsp_frames_log_set_period(frames, MADE_PERIOD_NS);
    struct made made = {.gpus = 1};
    frames_of(frames, &made, 101);
    struct gsp_frame_log_stats stats = stats_of(frames, 1, 101);
    const struct gsp_metric_stats *m = metric(&stats, "gpu.metrics.power_watts", "gpu 0");
    tap_check(fabs(m->integral - 100 * 20) < 1e-6); /* 100 W for 20 s */
    tap_eq_str(m->integral_unit, "J");
    tap_check(fabs(m->integral_s - 20) < 1e-9);
    tap_eq_str(m->label, "here:0:STAND-IN \"X\"");
    m = metric(&stats, "system.disk.read_bytes_per_s", "nvme0n1");
    tap_check(fabs(m->integral - 2000 * 20) < 1e-6);
    tap_eq_str(m->integral_unit, "bytes");
    m = metric(&stats, "energy.metrics.joules", "package-0");
    tap_check(fabs(m->integral - 1010) < 1e-9); /* the sum of the amounts */
    tap_check(isnan(metric(&stats, "system.cpu.util_percent", "")->integral));
    tap_check(isnan(metric(&stats, "system.memory.used_bytes", "")->integral));
    tap_eq_int(stats.period_ns, MADE_PERIOD_NS);
    tap_eq_int(stats.gap_count, 0);
    gsp_frames__log_stats_free(&stats);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

TAP_TEST(gaps_are_found_and_not_integrated)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    gsp_frames_log_set_period(frames, MADE_PERIOD_NS);
    struct made made = {.gpus = 1};
    frames_of(frames, &made, 11);
    made.step_ns = 60 * GSP_NS_PER_S; /* a minute without frames */
    frames_of(frames, &made, 10);
    made.wall_ns = -3600 * GSP_NS_PER_S; /* the wall clock is set back: no gap */
    frames_of(frames, &made, 10);
    struct gsp_frame_log_stats stats = stats_of(frames, 1, 31);
    tap_eq_int(stats.gap_count, 1);
    tap_eq_int(stats.gaps[0].after_id, 11);
    tap_eq_int(stats.gaps[0].after_count, 11);
    tap_eq_str(stats.gaps[0].cause, "late");
    tap_eq_int(stats.clock_steps, 1);
    tap_eq_int(gsp_frames__log_elapsed_ns(frames, 1, 31), made.step_ns + 30 * MADE_PERIOD_NS);
    tap_eq_int(gsp_frames__log_elapsed_ns(frames, 5, 5), 0);
    tap_eq_int(gsp_frames__log_elapsed_ns(frames, 1, 32), 0);
    tap_eq_int(gsp_frames__log_elapsed_ns(frames, 1, 0), 0);
    const struct gsp_metric_stats *m = metric(&stats, "gpu.metrics.power_watts", "gpu 0");
    tap_check(fabs(m->integral_s - 29 * 0.2) < 1e-9);
    tap_check(fabs(m->integral - 100 * 29 * 0.2) < 1e-6);
    gsp_frames__log_stats_free(&stats);
    gsp_frames_log_close(frames);

    frames = open_frames(folder, 0); /* another run of the daemon, ten seconds later */
    gsp_frames_log_set_period(frames, MADE_PERIOD_NS);
    made.step_ns += 10 * GSP_NS_PER_S;
    frames_of(frames, &made, 5);
    stats = stats_of(frames, 5, 36);
    tap_eq_int(stats.gap_count, 2);
    tap_eq_str(stats.gaps[1].cause, "restart");
    tap_eq_int(stats.gaps[1].after_count, 27);
    tap_eq_int(stats.frames, 32);
    gsp_frames__log_stats_free(&stats);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

TAP_TEST(copied_ranges_are_renumbered)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 10000); /* many segments */
    struct made made = {.gpus = 1};
    frames_of(frames, &made, 100);
    struct gsp_frame_log_status status;
    gsp_frames_log_status(frames, &status);
    tap_check(status.segments > 5);
    static const uint64_t RANGES[][2] = {{1, 100}, {1, 1},     {100, 100},
                                         {37, 64}, {50, 5000}, {101, 200}};
    for (size_t r = 0; r < GSP_COUNT(RANGES); r++) {
        uint64_t copied = 0;
        char *text = copy_of(frames, RANGES[r][0], RANGES[r][1], &copied);
        uint64_t last = RANGES[r][1] < 100 ? RANGES[r][1] : 100;
        uint64_t wanted = RANGES[r][0] <= last ? last - RANGES[r][0] + 1 : 0;
        tap_eq_int(copied, wanted);
        tap_eq_int(gsp_frames_log_count(frames, RANGES[r][0], RANGES[r][1]), wanted);
        uint64_t seen = 0;
        for (const char *p = text; (p = strstr(p, "\"frame_id\":")) != NULL; p++)
            tap_check(strtoull(p + 11, NULL, 10) == ++seen);
        tap_eq_int(seen, wanted);
        free(text);
        struct gsp_frame_log_stats stats = stats_of(frames, RANGES[r][0], RANGES[r][1]);
        tap_eq_int(stats.frames, wanted);
        gsp_frames__log_stats_free(&stats);
    }
    gsp_frames_log_close(frames);
    made_remove(folder);
}

TAP_TEST(devices_come_and_go)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    struct made made = {0};
    frames_of(frames, &made, 10);
    made.processes = 2;
    frames_of(frames, &made, 10);
    made.processes = 1;
    frames_of(frames, &made, 10);
    made.processes = 3;
    frames_of(frames, &made, 10);
    struct gsp_frame_log_stats stats = stats_of(frames, 1, 40);
    tap_eq_int(metric(&stats, "process.metrics.rss_bytes", "pid 1000")->count, 30);
    tap_eq_int(metric(&stats, "process.metrics.rss_bytes", "pid 1001")->count, 20);
    tap_eq_int(metric(&stats, "process.metrics.rss_bytes", "pid 1002")->count, 10);
    tap_eq_int(metric(&stats, "system.cpu.util_percent", "cpu 1")->count, 40);
    gsp_frames__log_stats_free(&stats);
    made.processes = 0;
    frames_of(frames, &made, 1100);
    made.gpus = 1; /* a new segment, without metrics that have had no value for long */
    frames_of(frames, &made, 2);
    stats = stats_of(frames, 1141, 1142);
    for (size_t i = 0; i < stats.count; i++)
        tap_check(strncmp(stats.metrics[i].name, "process", 7) != 0);
    tap_eq_int(metric(&stats, "system.cpu.util_percent", "cpu 1")->count, 2);
    gsp_frames__log_stats_free(&stats);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

static void copy_file(int from, const char *name, int to, size_t len)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", from, name);
    struct gsp_buf bytes = {0};
    tap_require(gsp_file_read(path, 1U << 30, &bytes, NULL) == 0);
    int fd = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    tap_require(fd >= 0);
    tap_require(gsp_fd_write_all(fd, bytes.p, len < bytes.len ? len : bytes.len, NULL) == 0);
    close(fd);
    gsp_buf_free(&bytes);
}

/* Rows and text are complete up to the cut, the rest is removed, and new frames can be added. */
static void cut_and_open(int from, const char *num, size_t num_len, const char *text,
                         size_t text_len, uint64_t at_least)
{
    char folder[64];
    char path[128];
    made_folder(folder);
    snprintf(path, sizeof(path), "%s/frames", folder);
    tap_require(mkdir(path, 0700) == 0);
    int to = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_require(to >= 0);
    copy_file(from, num, to, num_len);
    copy_file(from, text, to, text_len);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    uint64_t next = gsp_frames_log_next_id(frames);
    tap_check(next >= at_least);
    uint64_t copied = 0;
    struct made made = {.tick = 5, .cpu_only = true};
    frames_of(frames, &made, 2);
    free(copy_of(frames, 1, 100, &copied));
    tap_eq_int(copied, next - 1 + 2);
    if ((num_len + text_len) % 16 == 0) { /* not at every length: slow under ASan */
        struct gsp_frame_log_stats stats = stats_of(frames, 1, 100);
        tap_eq_int(stats.frames, next - 1 + 2);
        gsp_frames__log_stats_free(&stats);
    }
    gsp_frames_log_close(frames);
    close(to);
    made_remove(folder);
}

static size_t size_of(int folder, const char *name)
{
    struct stat st;
    tap_require(fstatat(folder, name, &st, 0) == 0);
    return (size_t)st.st_size;
}

#define FIRST_NUM  "00000000000000000001.num"
#define FIRST_TEXT "00000000000000000001.text"
TAP_TEST(truncated_at_every_length)
{
    char folder[64];
    char path[128];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    struct made made = {.cpu_only = true};
    frames_of(frames, &made, 1);
    snprintf(path, sizeof(path), "%s/frames", folder);
    int from = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tap_require(from >= 0);
    size_t num_1 = size_of(from, FIRST_NUM);
    size_t text_1 = size_of(from, FIRST_TEXT);
    frames_of(frames, &made, 2);
    size_t num = size_of(from, FIRST_NUM);
    size_t text = size_of(from, FIRST_TEXT);
    size_t row = (num - num_1) / 2;
    size_t line = (text - text_1) / 2;
    for (size_t cut = 0; cut <= num; cut++)
        cut_and_open(from, FIRST_NUM, cut, FIRST_TEXT, text,
                     1 + (cut >= num_1) + (cut >= num_1 + row) + (cut >= num_1 + 2 * row));
    for (size_t cut = 0; cut <= text; cut++)
        cut_and_open(from, FIRST_NUM, num, FIRST_TEXT, cut,
                     1 + (cut >= text_1) + (cut >= text_1 + line + 8) + (cut >= text));
    gsp_frames_log_close(frames);
    close(from);
    made_remove(folder);
}

TAP_TEST(zeros_after_a_power_cut_are_removed)
{
    char folder[64];
    char path[192];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    struct made made = {0};
    frames_of(frames, &made, 10);
    gsp_frames_log_close(frames);
    snprintf(path, sizeof(path), "%s/frames/" FIRST_TEXT, folder);
    struct stat st;
    tap_require(stat(path, &st) == 0);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    tap_require(fd >= 0);
    char zeros[300] = {0};
    tap_check(pwrite(fd, zeros, sizeof(zeros), st.st_size - 500) == (ssize_t)sizeof(zeros));
    close(fd);
    frames = open_frames(folder, 0);
    tap_eq_int(gsp_frames_log_next_id(frames), 10); /* the tenth frame was zeros */
    gsp_frames_log_skip_to(frames, 11);
    frames_of(frames, &made, 1);
    tap_eq_int(gsp_frames_log_next_id(frames), 12);
    uint64_t copied = 0;
    free(copy_of(frames, 1, 100, &copied));
    tap_eq_int(copied, 10);
    struct gsp_frame_log_stats stats = stats_of(frames, 1, 100);
    tap_eq_int(stats.gap_count, 1);
    gsp_frames__log_stats_free(&stats);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

TAP_TEST(full_disk_loses_frames_and_counts_them)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 0);
    gsp_frames_log_set_period(frames, MADE_PERIOD_NS);
    struct made made = {0};
    frames_of(frames, &made, 5);
    /* Files may grow only by some bytes: one partial write, then none. */
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old;
    tap_require(getrlimit(RLIMIT_FSIZE, &old) == 0);
    struct gsp_frame_log_status status;
    gsp_frames_log_status(frames, &status);
    struct rlimit tight = {status.bytes / 2, old.rlim_max};
    tap_require(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    struct gsp_err err = {0};
    int failed = 0;
    for (int i = 0; i < 20; i++)
        failed += made_frame(frames, &made, &err) != 0;
    tap_check(failed > 0);
    printf("# %s\n", err.msg);
    gsp_frames_log_status(frames, &status);
    tap_eq_int(status.frames_lost, failed);
    tap_check(status.error[0] != '\0');
    tap_require(setrlimit(RLIMIT_FSIZE, &old) == 0);
    frames_of(frames, &made, 5);
    gsp_frames_log_status(frames, &status);
    tap_eq_str(status.error, "");
    uint64_t there = gsp_frames_log_next_id(frames) - 1;
    tap_eq_int(there, 30 - failed);
    uint64_t copied = 0;
    free(copy_of(frames, 1, 100, &copied));
    tap_eq_int(copied, there);
    struct gsp_frame_log_stats stats = stats_of(frames, 1, there);
    tap_eq_int(stats.lost, failed);
    tap_eq_int(stats.gap_count, 1);
    tap_eq_str(stats.gaps[0].cause, "lost");
    gsp_frames__log_stats_free(&stats);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

TAP_TEST(old_segments_are_removed_unless_needed)
{
    char folder[64];
    made_folder(folder);
    struct gsp_frame_log *frames = open_frames(folder, 20000);
    struct made made = {0};
    gsp_frames_log_keep_from(frames, 50);
    frames_of(frames, &made, 200);
    tap_check(gsp_frames_log_count(frames, 1, 49) < 49);
    tap_eq_int(gsp_frames_log_count(frames, 50, 200), 151);
    gsp_frames_log_keep_from(frames, 0);
    frames_of(frames, &made, 200);
    struct gsp_frame_log_status status;
    gsp_frames_log_status(frames, &status);
    tap_eq_int(status.segments, 1);
    gsp_frames_log_close(frames);
    frames = open_frames(folder, 20000);
    tap_eq_int(gsp_frames_log_next_id(frames), 401);
    gsp_frames_log_close(frames);
    made_remove(folder);
}

TAP_TEST(hostile_segments_are_rejected)
{
    char folder[64];
    char path[192];
    made_folder(folder);
    snprintf(path, sizeof(path), "%s/frames", folder);
    tap_require(mkdir(path, 0700) == 0);
    snprintf(path, sizeof(path), "%s/frames/" FIRST_NUM, folder);
    tap_require(symlink("/etc/passwd", path) == 0);
    struct gsp_frame_log *frames = NULL;
    struct gsp_err err = {0};
    struct gsp_frame_log_options options = {.folder = folder, .host = "here"};
    tap_check(gsp_frames_log_open(&options, &frames, &err) != 0); /* links are not followed */
    tap_check(frames == NULL);
    made_remove(folder);
}

TAP_MAIN()
