/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "report/document.h"
#include "report/verdict.h"
#include "tap.h"
#include "wire/table.h"

/* An empty document. */
static struct gsp_report *made(enum gsp_report_kind kind)
{
    struct gsp_report *report = calloc(1, sizeof(*report));
    tap_require(report != NULL);
    report->kind = kind;
    report->duration_s = (double)NAN;
    report->stacks.total_cpu = (double)NAN;
    report->memory.peak_rss_bytes = (double)NAN;
    report->memory.growth_bytes_per_s = (double)NAN;
    return report;
}

static void *array(size_t count, size_t size)
{
    void *p = calloc(count, size);
    tap_require(p != NULL);
    return p;
}

/* The verdict as one text; frees the document. */
static const char *said(struct gsp_report *report)
{
    static char text[4096];
    gsp_auto_buf out = {0};
    tap_require(gsp_report__verdict_fill(report, NULL) == GSP_OK);
    tap_check(report->verdict_count <= GSP_VERDICT_LINES_MAX);
    gsp_report_verdict_put(report, &out, &out);
    snprintf(text, sizeof(text), "%s", gsp_buf_cstr(&out));
    gsp_report_free(report);
    return text;
}

static bool says(const char *text, const char *part)
{
    const bool ok = strstr(text, part) != NULL;
    if (!ok)
        printf("# %s\n", text);
    return ok;
}

/* Two functions of one main thread, samples of 0.1 s alternating, from t = 0 on. */
static void add_stacks(struct gsp_report *report, size_t count, bool second_waits)
{
    struct gsp_report_stacks *stacks = &report->stacks;
    stacks->unit = "s";
    stacks->has_times = true;
    stacks->threads = array(1, sizeof(*stacks->threads));
    stacks->threads[0] = (struct gsp_report_thread){.pid = 7, .tid = 7, .rank = GSP_NULL_I64};
    stacks->thread_count = 1;
    stacks->frames = array(2, sizeof(*stacks->frames));
    stacks->nodes = array(2, sizeof(*stacks->nodes));
    stacks->functions = array(2, sizeof(*stacks->functions));
    stacks->samples = array(count, sizeof(*stacks->samples));
    stacks->frame_count = stacks->node_count = stacks->function_count = 2;
    stacks->frames[0] =
        (struct gsp_report_frame){.func = gsp_sv_of("forward"), .file = gsp_sv_of("/a/model.py")};
    stacks->frames[1] = (struct gsp_report_frame){
        .func = gsp_sv_of("__next__"), .file = gsp_sv_of("/x/torch/utils/data/dataloader.py")};
    stacks->total_cpu = 0;
    for (uint32_t i = 0; i < 2; i++) {
        stacks->nodes[i] = (struct gsp_report_node){.parent = -1, .frame = i};
        stacks->functions[i] = (struct gsp_report_function){.func = stacks->frames[i].func,
                                                            .file = stacks->frames[i].file};
    }
    for (size_t i = 0; i < count; i++) {
        const int32_t node = (int32_t)(i % 2);
        stacks->samples[i] = (struct gsp_report_sample){
            .t = (double)i * 0.1, .weight = 0.1, .node = node, .on_cpu = !(node && second_waits)};
        stacks->total += 0.1;
        stacks->total_cpu += stacks->samples[i].on_cpu ? 0.1 : 0;
        stacks->functions[node].own += 0.1;
        stacks->functions[node].own_cpu += stacks->samples[i].on_cpu ? 0.1 : 0;
    }
    stacks->sample_count = count;
    stacks->seen = count;
}

static struct gsp_report_series *add_chart(struct gsp_report *report, const char *id, size_t count)
{
    report->charts = array(1, sizeof(*report->charts));
    report->chart_count = 1;
    report->charts[0] = (struct gsp_report_chart){.id = gsp_sv_of(id), .help = ""};
    report->charts[0].series = array(1, sizeof(*report->charts[0].series));
    report->charts[0].series_count = 1;
    struct gsp_report_series *series = report->charts[0].series;
    series->t = array(count, sizeof(double));
    series->v = array(count, sizeof(double));
    series->count = count;
    return series;
}

TAP_TEST(imports_and_the_collector_are_not_native)
{
    static const struct {
        enum gsp_frame_kind second;
        const char *text;
    } cases[] = {
        {GSP_FRAME_MARK, "Main thread: 100 % Python and the C code it calls"},
        {GSP_FRAME_NATIVE, "Main thread: 50.0 % Python, 50.0 % native code"},
    };
    for (size_t i = 0; i < GSP_COUNT(cases); i++) {
        struct gsp_report *report = made(GSP_REPORT_RUN);
        add_stacks(report, 100, false);
        report->stacks.frames[1].kind = cases[i].second;
        tap_check(says(said(report), cases[i].text));
    }
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, false);
    report->stacks.frames[0].kind = GSP_FRAME_MARK;
    report->stacks.frames[1].kind = GSP_FRAME_NATIVE;
    tap_check(says(said(report), "Main thread: 50.0 % Python, 50.0 % native code"));
}

TAP_TEST(threads_without_python_are_reported)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, true);
    report->duration_s = 10;
    const char *text = said(report);
    tap_check(says(text, "50.0 % waiting\n"));
    tap_check(!strstr(text, "Threads without Python"));
    report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, true);
    report->duration_s = 10;
    report->native = (struct gsp_report_native){
        .threads = 7,
        .cpu_s = 15,
        .top_count = 3,
        .top = {{gsp_sv_of("polars-0"), 1, 8},
                {gsp_sv_of("python"), 4, 5},
                {gsp_sv_of(""), 1, 1.5}},
    };
    text = said(report);
    tap_check(says(text, "50.0 % waiting (also for threads without Python)"));
    tap_check(says(text,
                   "Threads without Python used 15.0 s of CPU time (1.50 cores): polars-0 8.00 s, "
                   "python (4 threads) 5.00 s, (no name) 1.50 s, 1 more; "));
}

TAP_TEST(verdict_without_data)
{
    const char *text = said(made(GSP_REPORT_RUN));
    tap_check(says(
        text, "No data: stacks, memory, steps (none marked with gsprof.step()), modules, GPU\n"));
    tap_check(!strstr(text, "Nothing was lost") && !strstr(text, "Next: "));
    tap_check(!strstr(text, "Main thread"));
    tap_check(!strstr(text, "0 %"));
}

TAP_TEST(missing_parts_have_reasons)
{
    /* The machine was measured and PyTorch ran, so neither is missing. */
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, true);
    tap_check(says(said(report),
                   "No data: memory, steps (none marked with gsprof.step()), modules, GPU\n"));
    report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, true);
    add_chart(report, "machine_cpu", 1);
    report->stacks.frames[1].file = gsp_sv_of("/x/train.py");
    tap_check(says(said(report), "No data: memory, steps (none marked with gsprof.step()), "
                                 "modules (PyTorch not used), GPU (none found)\n"));
}

TAP_TEST(running_and_waiting)
{
    struct gsp_report *report = made(GSP_REPORT_PROFILE);
    add_stacks(report, 100, true);
    const char *text = said(report);
    tap_check(says(text, "Main thread: 50.0 % Python and the C code it calls, 50.0 % waiting"));
    tap_check(says(text, "Busiest: forward (model.py) 100 %\n"));
    tap_check(says(text, "Data loading: 50.0 % of the main thread's time"));
}

TAP_TEST(unrecorded_waiting_follows_from_the_wall_time)
{
    struct gsp_report *report = made(GSP_REPORT_PROFILE);
    add_stacks(report, 100, false);
    report->duration_s = 40;
    tap_check(says(said(report), "Main thread: 25.0 % Python and the C code it calls, 75.0 % "
                                 "waiting"));
    /* With two processes, the lifetime of each is unknown. */
    report = made(GSP_REPORT_PROFILE);
    add_stacks(report, 100, false);
    report->duration_s = 40;
    free(report->stacks.threads);
    report->stacks.threads = array(2, sizeof(*report->stacks.threads));
    report->stacks.threads[0] = (struct gsp_report_thread){.pid = 7, .tid = 7};
    report->stacks.threads[1] = (struct gsp_report_thread){.pid = 8, .tid = 8};
    report->stacks.thread_count = 2;
    tap_check(says(said(report), "idle threads were not recorded"));
    report = made(GSP_REPORT_PROFILE);
    add_stacks(report, 100, false);
    report->stacks.total_cpu = (double)NAN;
    tap_check(says(said(report), "waiting time unknown"));
}

TAP_TEST(functions_while_the_gpu_was_idle)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, false);
    /* A value covers the time before it: idle during the samples of the second function. */
    struct gsp_report_series *gpu = add_chart(report, "gpu_util", 101);
    for (size_t i = 0; i < gpu->count; i++) {
        gpu->t[i] = (double)i * 0.1 - 0.05;
        gpu->v[i] = i % 2 ? 95 : 0;
    }
    tap_check(fabs(gsp_report__gpu_idle(report) - 0.5) < 0.02);
    const char *text = said(report);
    tap_check(says(text, "GPU idle 50.0 % of the time; meanwhile Python was in __next__ "
                         "(dataloader.py) for 100 %"));
    report = made(GSP_REPORT_RUN);
    gpu = add_chart(report, "gpu_util", 10);
    for (size_t i = 0; i < gpu->count; i++)
        gpu->t[i] = (double)i;
    tap_check(says(said(report), "GPU idle 100 % of the time; no samples from that time"));
    report = made(GSP_REPORT_RUN);
    gpu = add_chart(report, "gpu_util", 10);
    for (size_t i = 0; i < gpu->count; i++)
        gpu->v[i] = (double)NAN;
    tap_check(isnan(gsp_report__gpu_idle(report)));
    tap_check(!strstr(said(report), "GPU idle"));
}

static void add_steps(struct gsp_report *report, size_t count, size_t ranks, double slow)
{
    report->steps = array(count * ranks, sizeof(*report->steps));
    report->step_count = count * ranks;
    for (size_t i = 0; i < count * ranks; i++) {
        const int64_t rank = (int64_t)(i % ranks);
        report->steps[i] = (struct gsp_report_step){.step = (int64_t)(i / ranks),
                                                    .rank = ranks > 1 ? rank : GSP_NULL_I64,
                                                    .duration_s = rank == 2 ? 0.1 * slow : 0.1};
    }
}

TAP_TEST(steps_and_ranks)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_steps(report, 50, 1, 1);
    report->steps[33].duration_s = 2;
    report->path = gsp_sv_of("runs/a");
    report->steps_traced = 13;
    const char *text = said(report);
    tap_check(says(text, "Traced 13 of 50 steps, because torch.adaptive limits the overhead"));
    tap_check(says(text, "50 steps: median 100 ms, 95 % within 100 ms; slowest 2.00 s "
                         "(step 33)"));
    tap_check(says(text, "Next: gsprof query runs/a 'FROM gsprof.slow_steps() LIMIT 10'"));
    report = made(GSP_REPORT_RUN);
    add_steps(report, 50, 4, 1.25);
    report->steps_traced = 200;
    text = said(report);
    tap_check(!strstr(text, "Traced "));
    tap_check(says(text, "Rank 2 is the slowest of 4: its steps take 25.0 % longer"));
    report = made(GSP_REPORT_RUN);
    add_steps(report, 50, 4, 1.001);
    tap_check(says(said(report), "Steps of the 4 ranks take equally long, within 0.10 %"));
}

TAP_TEST(the_rank_that_the_others_wait_for)
{
    /* A slow rank is judged by the steps, not by the duration of the program. */
    static const double durations_s[] = {10, 1000};
    for (size_t k = 0; k < GSP_COUNT(durations_s); k++) {
        struct gsp_report *report = made(GSP_REPORT_RUN);
        add_steps(report, 50, 4, 1.001);
        report->duration_s = durations_s[k];
        report->ranks = array(4, sizeof(*report->ranks));
        report->rank_count = 4;
        for (int64_t i = 0; i < 4; i++)
            report->ranks[i] =
                (struct gsp_report_rank){.rank = i, .collective_s = i == 3 ? 0.5 : 4};
        tap_check(says(said(report), "Other ranks wait for rank 3: it spent 500 ms in "
                                     "collectives, the others 4.00 s each"));
    }
}

TAP_TEST(data_loading_from_spans)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    report->duration_s = 10;
    report->spans = array(2, sizeof(*report->spans));
    report->span_count = 2;
    report->spans[0] = (struct gsp_report_span){.duration_s = 2.5, .is_data = true};
    report->spans[1] = (struct gsp_report_span){.duration_s = 5};
    tap_check(says(said(report), "Data loading: 2.50 s in data spans, 25.0 % of the wall time"));
}

TAP_TEST(data_loading_within_steps)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    report->duration_s = 10;
    report->steps = array(3, sizeof(*report->steps));
    report->step_count = 3;
    /* The start of the first step is unknown. */
    for (int i = 0; i < 3; i++)
        report->steps[i] = (struct gsp_report_step){
            .step = i, .pid = 7, .t = 4 + i, .duration_s = i ? 1 : (double)NAN};
    report->spans = array(4, sizeof(*report->spans));
    report->span_count = 4;
    report->spans[0] = /* before the steps */
        (struct gsp_report_span){.pid = 7, .t = 1, .duration_s = 2, .is_data = true};
    report->spans[1] =
        (struct gsp_report_span){.pid = 7, .t = 5, .duration_s = 0.5, .is_data = true};
    report->spans[2] =
        (struct gsp_report_span){.pid = 7, .t = 6, .duration_s = 0.7, .is_data = true};
    report->spans[3] = /* of a worker */
        (struct gsp_report_span){.pid = 8, .t = 6, .duration_s = 0.8, .is_data = true};
    tap_check(says(said(report), "Data loading: 4.00 s in data spans, 60.0 % of the step time"));
}

TAP_TEST(paths_that_need_quotes_are_not_printed)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, false);
    report->path = gsp_sv_of("a b;rm -rf x");
    tap_check(says(said(report), "gsprof query RUN"));
}

TAP_TEST(memory)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    report->memory.peak_rss_bytes = 3e9;
    report->memory.growth_bytes_per_s = 2e6;
    report->path = gsp_sv_of("run");
    report->command = gsp_sv_of("python3 train.py --rate 3");
    const char *text = said(report);
    tap_check(says(text, "/s to the end"));
    tap_check(says(text, "Next: gsprof mem record -- python3 train.py --rate 3\n"));
    /* The process that grows may be a child. */
    report = made(GSP_REPORT_RUN);
    report->memory.growth_bytes_per_s = 2e6;
    report->path = gsp_sv_of("run");
    report->command = gsp_sv_of("gunicorn app");
    report->stacks.process_count = 2;
    tap_check(says(said(report), "Next: gsprof mem record -s -- gunicorn app\n"));
    report = made(GSP_REPORT_RUN);
    report->memory.peak_rss_bytes = 3e9;
    report->memory.growth_bytes_per_s = 0;
    tap_check(says(said(report), ", no lasting growth"));
    report = made(GSP_REPORT_RUN);
    report->memory.peak_rss_bytes = 3e9;
    tap_check(says(said(report), "too short to detect growth"));
}

TAP_TEST(the_slowest_module_is_one_without_parts)
{
    static const struct {
        const char *module;
        const char *class_name;
    } names[] = {
        {"Net", "Net"}, {"encoder", "Encoder"}, {"encoder.0", "Linear"}, {"head", "Linear"}};
    struct gsp_report *report = made(GSP_REPORT_RUN);
    report->modules = array(GSP_COUNT(names), sizeof(*report->modules));
    report->module_count = GSP_COUNT(names);
    for (size_t i = 0; i < GSP_COUNT(names); i++)
        report->modules[i] =
            (struct gsp_report_module){.module = gsp_sv_of(names[i].module),
                                       .class_name = gsp_sv_of(names[i].class_name),
                                       .stage = gsp_sv_of("forward"),
                                       .mean_s = 0.004,
                                       .total_s = (double)(10 - i),
                                       .share = i == 2 ? 0.21 : (double)NAN};
    tap_check(says(said(report), "Slowest module: encoder.0 (Linear, forward) 4.00 ms per call, "
                                 "21.0 % of the traced steps"));
}

/* A program that exited with this status during its imports. */
static struct gsp_report *importing(int64_t status)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 50, true);
    report->stacks.seen = 50;
    report->stacks.frames[0].func = gsp_sv_of("(import)");
    report->stacks.frames[1].file = gsp_sv_of("<frozen site>");
    report->exit_status = status;
    report->duration_s = 5;
    report->path = gsp_sv_of("run");
    return report;
}

TAP_TEST(failure_during_startup)
{
    static const char FAILED[] =
        "The program failed with status 2 during startup; see its output\n";
    tap_eq_str(said(importing(2)), FAILED);
    struct gsp_report *report = made(GSP_REPORT_RUN);
    report->exit_status = 2;
    report->duration_s = 0.4;
    tap_eq_str(said(report), FAILED);
    /* Other programs get a verdict: one that succeeded, did a step, worked, or ran on without
     * stacks. */
    tap_check(says(said(importing(0)), "Main thread: "));
    report = importing(2);
    add_steps(report, 2, 1, 1);
    tap_check(says(said(report), "Main thread: "));
    report = importing(2);
    report->stacks.frames[1].file = gsp_sv_of("train.py");
    tap_check(says(said(report), "Main thread: "));
    report = made(GSP_REPORT_RUN);
    report->exit_status = 2;
    report->duration_s = 5;
    tap_check(says(said(report), "No data: stacks"));
}

TAP_TEST(names_are_escaped_and_ten_lines_are_the_maximum)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, true);
    add_steps(report, 50, 4, 1.25);
    report->stacks.functions[0].func = gsp_sv_of("\x1b[31mred\n");
    report->memory.peak_rss_bytes = 3e9;
    report->path = gsp_sv_of("run");
    report->losses = array(5, sizeof(*report->losses));
    report->loss_count = 5;
    static const char *const kinds[] = {"rows", "files", "samples", "samples", "stacks"};
    for (size_t i = 0; i < 5; i++)
        report->losses[i] =
            (struct gsp_report_loss){gsp_sv_of(kinds[i]), gsp_sv_of("overwritten"), 1234567};
    const char *text = said(report);
    size_t lines = 0;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    tap_check(lines <= GSP_VERDICT_LINES_MAX);
    tap_check(!strchr(text, '\x1b'));
    tap_check(says(text, "Missing: 1,234,567 rows (overwritten), "));
    tap_check(says(text, "2,469,134 samples (overwritten) and 1 more\n"));
    tap_check(says(text, "Next: "));
}

TAP_TEST(losses_name_each_reason)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, true);
    const struct gsp_report_loss losses[] = {
        {gsp_sv_of("samples"), gsp_sv_of("torn"), 5},
        {gsp_sv_of("samples"), gsp_sv_of("late"), 70},
        {gsp_sv_of("processes"), gsp_sv_of("gone"), 2},
        {gsp_sv_of("samples"), gsp_sv_of("late"), 4},
    };
    report->losses = array(GSP_COUNT(losses), sizeof(*report->losses));
    report->loss_count = GSP_COUNT(losses);
    memcpy(report->losses, losses, sizeof(losses));
    tap_check(says(said(report), "Missing: 79 samples (74: late; 5: torn), 2 processes (gone)\n"));
}

TAP_TEST(one_loss_is_singular)
{
    struct gsp_report *report = made(GSP_REPORT_RUN);
    add_stacks(report, 100, true);
    const struct gsp_report_loss losses[] = {
        {gsp_sv_of("samples"), gsp_sv_of("late"), 1},
        {gsp_sv_of("processes"), gsp_sv_of("not Python"), 1},
        {gsp_sv_of("rows of python.span"), gsp_sv_of("overwritten"), 1},
    };
    report->losses = array(GSP_COUNT(losses), sizeof(*report->losses));
    report->loss_count = GSP_COUNT(losses);
    memcpy(report->losses, losses, sizeof(losses));
    tap_check(says(said(report), "Missing: 1 sample (late), 1 process (not Python), "
                                 "1 row of python.span (overwritten)\n"));
}

TAP_MAIN()
