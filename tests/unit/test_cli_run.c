/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/run_status.h"
#include "record/announcements.h"
#include "record/run_dir.h"
#include "store/run_list.h"
#include "tap.h"

/* ------------------------------------------------------------------------------------- names */

static const char *name_of(char *const *argv)
{
    static char text[128];
    struct gsp_buf name = {0};
    setenv("TZ", "UTC", 1);
    gsp_record__run_dir_default_name(argv, 1769903999 * GSP_NS_PER_S, &name);
    snprintf(text, sizeof(text), "%s", gsp_buf_cstr(&name));
    gsp_buf_free(&name);
    return text;
}

#define ARGV(...) ((char *const[]){__VA_ARGS__, NULL})

TAP_TEST(a_run_is_named_after_its_program)
{
    static char python[] = "/usr/bin/python3.11";
    static char script[] = "/srv/my job/train.py";
    static char option[] = "-X";
    static char value[] = "dev";
    static char unbuffered[] = "-u";
    static char module[] = "-m";
    static char dotted[] = "torch.distributed.run";
    static char code[] = "-c";
    static char hidden[] = "./.\xc3\xa9 x";
    tap_eq_str(name_of(ARGV(python, script)), "train-20260131-235959");
    tap_eq_str(name_of(ARGV(python, unbuffered, option, value, script)), "train-20260131-235959");
    tap_eq_str(name_of(ARGV(python, module, dotted, script)),
               "torch.distributed.run-20260131-235959");
    tap_eq_str(name_of(ARGV(python, code, script)), "python3.11-20260131-235959");
    tap_eq_str(name_of(ARGV(python)), "python3.11-20260131-235959");
    tap_eq_str(name_of(ARGV(python, option)), "python3.11-20260131-235959");
    tap_eq_str(name_of(ARGV(hidden)), "____x-20260131-235959");
    static char empty[] = "";
    tap_eq_str(name_of(ARGV(empty)), "run");
}

TAP_TEST(pid_of_a_line)
{
    tap_eq_int(gsp_record__announcement_pid(gsp_sv_of("4242")), 4242);
    tap_eq_int(gsp_record__announcement_pid(gsp_sv_of("4242 load OSError: x")), 4242);
    tap_eq_int(gsp_record__announcement_pid(gsp_sv_of("")), 0);
    tap_eq_int(gsp_record__announcement_pid(gsp_sv_of("-1")), 0);
    tap_eq_int(gsp_record__announcement_pid(gsp_sv_of("99999999999999999999")), 0);
    tap_eq_int(gsp_record__announcement_pid(gsp_sv_of("12x")), 0);
}

struct calls {
    int64_t sum;
    size_t count;
    size_t well;
};

static int count_call(void *user, pid_t pid, bool is_well, struct gsp_err *err)
{
    struct calls *calls = user;
    (void)err;
    calls->sum += pid;
    calls->count++;
    calls->well += is_well;
    return GSP_OK;
}

static void append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    tap_check(file != NULL);
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

TAP_TEST(lines_are_read_once)
{
    char path[] = "/tmp/gsprof-announced.XXXXXX";
    const int fd = mkstemp(path);
    struct calls calls = {0};
    size_t bytes = 0;
    append(path, "12\n30 load OSError: x\n\nno pid\n4");
    tap_eq_int(gsp_record__announcements_next(fd, &bytes, count_call, &calls, NULL), GSP_OK);
    tap_eq_int(calls.sum, 42);
    tap_eq_int((int64_t)calls.well, 1);
    append(path, "2\n");
    tap_eq_int(gsp_record__announcements_next(fd, &bytes, count_call, &calls, NULL), GSP_OK);
    tap_eq_int(gsp_record__announcements_next(fd, &bytes, count_call, &calls, NULL), GSP_OK);
    tap_eq_int(calls.sum, 84);
    /* More than the read buffer, and a line longer than the buffer. */
    for (int i = 0; i < 2000; i++)
        append(path, "1000000\n");
    for (int i = 0; i < 1000; i++)
        append(path, "xxxxxxxxxx");
    append(path, "\n16\n");
    tap_eq_int(gsp_record__announcements_next(fd, &bytes, count_call, &calls, NULL), GSP_OK);
    tap_eq_int(calls.sum, 2000000100);
    tap_eq_int((int64_t)calls.count, 2004);
    unlink(path);
    tap_eq_int(gsp_record__announcements_next(fd, &bytes, count_call, &calls, NULL), GSP_OK);
}

/* ------------------------------------------------------------------------------------ status */

static const char *line_of(const struct gsp_run_status *status, int64_t now_ns)
{
    static char text[256];
    struct gsp_buf line = {0};
    gsp_cli__run_status_text(status, now_ns, &line);
    snprintf(text, sizeof(text), "%s", gsp_buf_cstr(&line));
    gsp_buf_free(&line);
    return text;
}

TAP_TEST(values_of_the_status_line)
{
    struct gsp_run_status status = {.fd = -1};
    tap_eq_str(line_of(&status, 61 * GSP_NS_PER_S), "gsprof 01:01");
    const struct gsp_row_process_metrics a = {
        .mono_ns = 1, .cpu_percent = 90, .rss_bytes = 1 << 20};
    const struct gsp_row_process_metrics b = {
        .mono_ns = 1, .cpu_percent = gsp_null_f64(), .rss_bytes = GSP_NULL_I64};
    gsp_cli__run_status_row(&status, GSP_TABLE_process_metrics, &a);
    gsp_cli__run_status_row(&status, GSP_TABLE_process_metrics, &a);
    gsp_cli__run_status_row(&status, GSP_TABLE_process_metrics, &b);
    tap_eq_str(line_of(&status, 3661 * GSP_NS_PER_S), "gsprof 1:01:01  CPU 180 %  RSS 2.00 MiB");
    /* The next tick starts from zero. */
    const struct gsp_row_process_metrics c = {
        .mono_ns = 2, .cpu_percent = 10, .rss_bytes = 3 << 20};
    const struct gsp_row_gpu_metrics gpu = {.mono_ns = 2, .util_percent = 40};
    const struct gsp_row_gpu_metrics busy = {.mono_ns = 2, .util_percent = 60};
    gsp_cli__run_status_row(&status, GSP_TABLE_process_metrics, &c);
    gsp_cli__run_status_row(&status, GSP_TABLE_gpu_metrics, &gpu);
    gsp_cli__run_status_row(&status, GSP_TABLE_gpu_metrics, &busy);
    tap_eq_str(line_of(&status, 0), "gsprof 00:00  CPU 10 %  RSS 3.00 MiB  GPU 50 %");
}

TAP_TEST(steps_are_per_process)
{
    struct gsp_run_status status = {.fd = -1};
    struct gsp_ring_drain_counts seen = {.samples = 12345, .step_rings = 2, .looked_ns = 1};
    gsp_cli__run_status_add_reading(&status, &seen);
    gsp_cli__run_status_add_reading(&status, &seen);
    tap_eq_int(status.reading_count, 1);
    tap_eq_str(line_of(&status, 0), "gsprof 00:00  12,345 samples");
    /* 40 per second from two processes; the oldest values are dropped. */
    for (int i = 1; i <= 20; i++) {
        seen.looked_ns += GSP_NS_PER_S / 2;
        seen.steps += 20;
        gsp_cli__run_status_add_reading(&status, &seen);
    }
    seen.lost = 7;
    seen.failing = true;
    seen.looked_ns += GSP_NS_PER_S / 2;
    seen.steps += 20;
    gsp_cli__run_status_add_reading(&status, &seen);
    tap_eq_str(line_of(&status, 0),
               "gsprof 00:00  20 steps/s  12,345 samples  7 rows lost  CANNOT WRITE");
}

/* ------------------------------------------------------------------------------ previous run */

static void write_run(const char *root, const char *name, const char *command, int64_t start_ns,
                      enum gsp_run_state state)
{
    char path[512];
    char argument[] = "train";
    const struct gsp_run_meta about = {.command = command,
                                       .argv = (char *[]){argument, NULL},
                                       .start_ns = start_ns,
                                       .state = state,
                                       .status = strcmp(name, "failed") == 0 ? 2 : 0,
                                       .signal = GSP_NULL_I64};
    snprintf(path, sizeof(path), "%s/%s", root, name);
    tap_require(mkdir(path, 0700) == 0);
    tap_require(gsp_store_run_write_meta(path, &about, false, NULL) == GSP_OK);
    tap_eq_int(gsp_store_run_write_meta(path, &about, false, NULL), GSP_E_EXISTS);
}

TAP_TEST(the_newest_run_of_the_same_command)
{
    char root[] = "/tmp/gsprof-test-XXXXXX";
    char own[512];
    char found[GSP_RUN_PATH_MAX];
    char expected[512];
    tap_require(mkdtemp(root) != NULL);
    snprintf(own, sizeof(own), "%s/now/", root);
    write_run(root, "now", "train", 9, GSP_RUN_COMPLETE);
    gsp_store_run_find_previous(own, "train", found);
    tap_eq_str(found, "");
    write_run(root, "a", "train", 3, GSP_RUN_COMPLETE);
    write_run(root, "b", "train", 5, GSP_RUN_COMPLETE);
    write_run(root, "c", "train", 7, GSP_RUN_RUNNING);
    write_run(root, "d", "other", 8, GSP_RUN_COMPLETE);
    write_run(root, "failed", "train", 8, GSP_RUN_COMPLETE);
    gsp_store_run_find_previous(own, "train", found);
    snprintf(expected, sizeof(expected), "%s/b", root);
    tap_eq_str(found, expected);
    static const char *const names[] = {"now", "a", "b", "c", "d", "failed"};
    for (size_t i = 0; i < GSP_COUNT(names); i++) {
        snprintf(own, sizeof(own), "%s/%s", root, names[i]);
        gsp_store_run_remove_files(own);
        rmdir(own);
    }
    tap_eq_int(rmdir(root), 0);
}

TAP_MAIN()
