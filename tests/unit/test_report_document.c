/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/json.h"
#include "base/json_scan.h"
#include "profile_fixture.h"
#include "report/decimate.h"
#include "report/document.h"
#include "report/document_write.h"

static struct gsp_report *document_of(struct gsp_profile *profile,
                                      const struct gsp_report_open_opts *opts)
{
    struct gsp_report *report = NULL;
    struct gsp_err err = {0};
    const int rc = gsp_report__open_profile(profile, "some/where/p.gsp", opts, &report, &err);
    tap_eq_str(err.msg, "");
    tap_require(rc == GSP_OK && report);
    return report;
}

/* Whether the text is well-formed JSON. */
static void check_json(struct gsp_sv text)
{
    struct gsp_json_scan scan;
    struct gsp_err err = {0};
    tap_require(gsp_json_scan_open(&scan, gsp_json_scan_read_text, &text, &err) == GSP_OK);
    do {
        if (gsp_json_scan_next(&scan, &err) < 0) {
            tap_eq_str(err.msg, "");
            break;
        }
    } while (scan.kind != GSP_JSON_SCAN_END);
    gsp_json_scan_close(&scan);
}

static bool has(const struct gsp_buf *text, const char *part)
{
    return text->len && memmem(text->p, text->len, part, strlen(part)) != NULL;
}

static void check_forms(const struct gsp_report *report)
{
    static const enum gsp_report_format FORMATS[] = {GSP_REPORT_HTML, GSP_REPORT_JSON,
                                                     GSP_REPORT_MARKDOWN, GSP_REPORT_TEXT};
    for (size_t i = 0; i < GSP_COUNT(FORMATS); i++) {
        gsp_auto_buf text = {0};
        tap_require(gsp_report_write(report, FORMATS[i], NULL, &text, NULL) == GSP_OK);
        tap_check(text.len > 10);
        if (FORMATS[i] == GSP_REPORT_JSON)
            check_json(gsp_buf_sv(&text));
    }
}

TAP_TEST(stacks_of_a_profile)
{
    struct gsp_profile *profile = fix_small();
    const uint64_t count = gsp_model_profile_sample_count(profile);
    struct gsp_report *report = document_of(profile, NULL);
    const struct gsp_report_stacks *stacks = &report->stacks;
    double own = 0;
    double total = 0;
    tap_eq_int(report->kind, GSP_REPORT_PROFILE);
    tap_check(gsp_sv_eq(report->name, gsp_sv_of("p.gsp")));
    tap_eq_int(stacks->seen, count);
    tap_eq_int(stacks->sample_count, count);
    tap_eq_str(stacks->unit, "s");
    for (size_t i = 0; i < stacks->node_count; i++) {
        tap_check(stacks->nodes[i].parent < (int32_t)i);
        tap_check(stacks->nodes[i].frame < stacks->frame_count);
        own += stacks->nodes[i].own;
        total += stacks->nodes[i].parent < 0 ? stacks->nodes[i].total : 0;
    }
    tap_check(fabs(own - total) < 1e-9);
    tap_check(fabs(own + stacks->no_frame - stacks->total) < 1e-9);
    for (size_t i = 0; i < stacks->function_count; i++) {
        tap_check(stacks->functions[i].total <= stacks->total + 1e-9);
        tap_check(stacks->functions[i].own <= stacks->functions[i].total + 1e-9);
        tap_check(i == 0 || stacks->functions[i].own <= stacks->functions[i - 1].own);
    }
    for (size_t i = 1; i < stacks->sample_count; i++)
        tap_check(stacks->samples[i - 1].t <= stacks->samples[i].t);
    check_forms(report);
    gsp_report_free(report);
}

TAP_TEST(lines_of_a_function_are_merged_by_default)
{
    for (int lines = 0; lines < 2; lines++) {
        struct gsp_profile *p = NULL;
        tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
        const uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
        for (uint32_t line = 10; line < 15; line++) {
            struct gsp_frame frame = {.name = fix_string(p, "f"),
                                      .file = fix_string(p, "f.py"),
                                      .line = line,
                                      .first_line = 9};
            uint32_t id = GSP_NONE;
            tap_require(gsp_model_profile_frame(p, &frame, &id, NULL) == GSP_OK);
            fix_add(p, thread, fix_stack(p, GSP_NONE, id), line, GSP_SAMPLE_ON_CPU);
        }
        struct gsp_report *report = document_of(p, &(struct gsp_report_open_opts){.lines = lines});
        tap_eq_int(report->stacks.function_count, lines ? 5 : 1);
        tap_eq_int(report->stacks.node_count, lines ? 5 : 1);
        tap_eq_int(report->stacks.frames[0].line, lines ? 10 : 9);
        gsp_report_free(report);
    }
}

/* Lines without the first line of their function, as in the rows of a run. */
static uint32_t line_of(struct gsp_profile *p, const char *func, uint32_t line)
{
    struct gsp_frame frame = {
        .name = fix_string(p, func), .file = fix_string(p, "f.py"), .line = line};
    uint32_t id = GSP_NONE;
    tap_require(gsp_model_profile_frame(p, &frame, &id, NULL) == GSP_OK);
    return id;
}

TAP_TEST(the_heaviest_line_stands_for_a_function)
{
    struct gsp_profile *p = NULL;
    gsp_auto_buf text = {0};
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    const uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    /* main calls work once from line 3 and twice from line 5; work spends most time in line 12. */
    const uint32_t early = fix_stack(p, GSP_NONE, line_of(p, "main", 3));
    const uint32_t late = fix_stack(p, GSP_NONE, line_of(p, "main", 5));
    fix_add(p, thread, fix_stack(p, early, line_of(p, "work", 11)), 1, GSP_SAMPLE_ON_CPU);
    fix_add(p, thread, fix_stack(p, late, line_of(p, "work", 12)), 2, GSP_SAMPLE_ON_CPU);
    fix_add(p, thread, fix_stack(p, late, line_of(p, "work", 12)), 3, GSP_SAMPLE_ON_CPU);
    struct gsp_report *report = document_of(p, NULL);
    const struct gsp_report_stacks *stacks = &report->stacks;
    tap_require(stacks->node_count == 2 && stacks->frame_count == 2);
    tap_eq_int(stacks->frames[0].line, 0);
    tap_eq_int(stacks->frames[0].hot_line, 5);
    tap_eq_int(stacks->frames[1].hot_line, 12);
    tap_eq_int(stacks->nodes[0].line, 5);
    tap_eq_int(stacks->nodes[1].line, 12);
    tap_require(stacks->process_count == 1);
    tap_check(gsp_sv_eq(stacks->processes[0].name, gsp_sv_of("python3")));
    tap_require(gsp_report_write(report, GSP_REPORT_JSON, NULL, &text, NULL) == GSP_OK);
    tap_check(has(&text, "\"hot_line\":12") && has(&text, "\"line\":[5,12]"));
    tap_check(has(&text, "\"processes\":[{\"pid\":100,\"name\":\"python3\"}]"));
    gsp_buf_clear(&text);
    tap_require(gsp_report_write(report, GSP_REPORT_MARKDOWN, NULL, &text, NULL) == GSP_OK);
    tap_check(has(&text, "| work | f.py:12 |") && has(&text, "| main | f.py:5 |"));
    gsp_report_free(report);
}

TAP_TEST(a_sample_ends_at_its_time)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    const uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    const uint32_t stack = fix_stack(p, GSP_NONE, fix_frame(p, "f", "f.py", 1));
    fix_add(p, thread, stack, 20000, GSP_SAMPLE_ON_CPU);
    struct gsp_report *report = document_of(p, NULL);
    tap_require(report->stacks.sample_count == 1);
    tap_check(fabs(report->stacks.samples[0].t - 0.02) < 1e-9);
    tap_check(fabs(report->stacks.samples[0].weight - 0.01) < 1e-9);
    gsp_report_free(report);
}

TAP_TEST(many_samples_are_merged_without_loss)
{
    struct gsp_profile *p = NULL;
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    const uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    uint32_t stacks[7];
    const uint32_t count = 3 * GSP_REPORT_SAMPLES_MAX;
    for (uint32_t i = 0; i < GSP_COUNT(stacks); i++)
        stacks[i] = fix_stack(p, GSP_NONE, fix_frame(p, "f", "f.py", 10 * i + 1));
    for (uint32_t i = 0; i < count; i++)
        fix_add(p, thread, stacks[i * 2654435761U % 7], (i + 1) * 10000LL,
                i % 3 ? GSP_SAMPLE_ON_CPU : 0);
    struct gsp_report *report = document_of(p, &(struct gsp_report_open_opts){.lines = true});
    tap_eq_int(report->stacks.seen, count);
    tap_check(report->stacks.sample_count <= GSP_REPORT_SAMPLES_MAX);
    tap_check(report->stacks.sample_count > GSP_REPORT_SAMPLES_MAX / 8);
    tap_check(fabs(report->stacks.total - count * 0.01) < 1e-3);
    /* A merged sample ends with the last of its samples. */
    size_t early = 0;
    for (size_t i = 0; i < report->stacks.sample_count; i++)
        early += report->stacks.samples[i].t - report->stacks.samples[i].weight < -1e-6;
    tap_eq_int(early, 0);
    tap_check(fabs(report->stacks.samples[report->stacks.sample_count - 1].t - count * 0.01) <
              1e-6);
    tap_check(fabs(report->stacks.total_cpu / report->stacks.total - 2.0 / 3) < 1e-3);
    gsp_report_free(report);
}

TAP_TEST(sums_without_times_and_empty_profiles)
{
    struct gsp_profile *p = NULL;
    gsp_auto_buf text = {0};
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    const uint32_t thread = fix_thread(p, fix_process(p, 100, "python3"), 100, "MainThread");
    const uint32_t stack = fix_stack(p, GSP_NONE, fix_frame(p, "f", "f.py", 3));
    gsp_model_profile_meta(p)->unit = GSP_UNIT_COUNT;
    tap_require(gsp_model_profile_add_total(
                    p,
                    &(struct gsp_total){.thread = thread, .stack = stack, .count = 1, .weight = 7},
                    NULL) == GSP_OK);
    struct gsp_report *report = document_of(p, NULL);
    tap_check(!report->stacks.has_times);
    tap_eq_str(report->stacks.unit, "samples");
    tap_check(report->stacks.total == 7);
    tap_require(gsp_report_write(report, GSP_REPORT_JSON, NULL, &text, NULL) == GSP_OK);
    tap_check(!has(&text, "\"t\":"));
    check_json(gsp_buf_sv(&text));
    gsp_report_free(report);

    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    report = document_of(p, NULL);
    tap_eq_int(report->stacks.sample_count, 0);
    check_forms(report);
    gsp_buf_clear(&text);
    struct gsp_err err = {0};
    tap_eq_int(gsp_report_write(report, GSP_REPORT_CSV, NULL, &text, &err), GSP_E_EMPTY);
    tap_eq_str(err.msg, "it has no functions");
    gsp_report_free(report);
}

TAP_TEST(names_can_be_any_bytes)
{
    struct gsp_profile *p = NULL;
    gsp_auto_buf page = {0};
    gsp_auto_buf json = {0};
    tap_require(gsp_model_profile_new(true, &p, NULL) == GSP_OK);
    const uint32_t thread = fix_thread(p, fix_process(p, 100, "a\xff\x01"), 100, "\xc3(");
    const uint32_t stack =
        fix_stack(p, GSP_NONE, fix_frame(p, "</script><b>\xfe\"|`", "\n=cmd\x1b[31m", 3));
    fix_add(p, thread, stack, 1, GSP_SAMPLE_ON_CPU);
    struct gsp_report *report = document_of(p, NULL);
    check_forms(report);
    tap_require(gsp_report_write(report, GSP_REPORT_JSON, NULL, &json, NULL) == GSP_OK);
    tap_require(gsp_report_write(report, GSP_REPORT_HTML, NULL, &page, NULL) == GSP_OK);
    tap_check(!has(&page, "</script><b>"));
    for (size_t at = 0; at < json.len;) {
        const size_t len = gsp_utf8_len((struct gsp_sv){json.p + at, json.len - at});
        tap_require(len > 0);
        at += len;
    }
    gsp_report_free(report);
}

static size_t thin(const double *v, size_t count, size_t max, size_t *out)
{
    struct gsp_decimation thin = gsp_report__decimation_begin(v, sizeof(*v), count, max);
    size_t shown = 0;
    for (size_t i; gsp_report__decimation_next(&thin, &i);) {
        tap_check(shown == 0 || i > out[shown - 1]);
        out[shown++] = i;
    }
    return shown;
}

TAP_TEST(decimation_keeps_extremes_and_ends)
{
    enum { COUNT = 150000, MAX = 1000 };
    static double v[COUNT];
    static size_t shown[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        v[i] = sin((double)i / 300);
    v[77777] = 1e6;
    v[77778] = -1e6;
    v[5] = (double)NAN;
    const size_t count = thin(v, COUNT, MAX, shown);
    bool high = false;
    bool low = false;
    tap_check(count <= MAX && count > MAX / 2);
    for (size_t i = 0; i < count; i++) {
        high = high || shown[i] == 77777;
        low = low || shown[i] == 77778;
    }
    tap_check(high && low);
    tap_eq_int(shown[0], 0);
    tap_eq_int(shown[count - 1], COUNT - 1);
    /* Short series are selected completely; empty ones give nothing. */
    tap_eq_int(thin(v, MAX, MAX, shown), MAX);
    tap_eq_int(thin(v, 1, MAX, shown), 1);
    tap_eq_int(thin(v, 0, MAX, shown), 0);
    for (size_t i = 0; i < COUNT; i++)
        v[i] = (double)NAN;
    tap_check(thin(v, COUNT, MAX, shown) <= MAX);
}

TAP_TEST(missing_files_and_empty_folders)
{
    struct gsp_report *report = NULL;
    struct gsp_err err = {0};
    tap_eq_int(gsp_report_open_path("no-such-file.gsp", NULL, &report, &err), GSP_E_NOFILE);
    tap_check(!report);
    char folder[] = "/tmp/gsprof-report-XXXXXX";
    tap_require(mkdtemp(folder) != NULL);
    tap_eq_int(gsp_report_open_path(folder, NULL, &report, &err), GSP_E_NOFILE);
    tap_check(!report);
    rmdir(folder);
}

TAP_MAIN()
