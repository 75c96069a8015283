/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>

#include "compare/compare.h"
#include "compare/compare_write.h"
#include "compare/rules.h"
#include "stats/random.h"
#include "tap.h"

#define STEPS       200
#define MODULES     2000
#define MODULE_RUNS 60

static double noise(uint64_t *random)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)(gsp_random_next(random) >> 11) / 9007199254740992.0;
    return sum - 6;
}

/* ------------------------------------------------------------------------ recordings made here */

struct made {
    struct gsp_report report;
    struct gsp_report_step steps[STEPS];
    struct gsp_report_chart charts[2];
    struct gsp_report_series lines[3];
    double t[STEPS];
    double v[3][STEPS];
    struct gsp_report_frame frames[3];
    struct gsp_report_node nodes[3];
    struct gsp_report_sample samples[STEPS * 4];
};

static struct made *make(const char *name)
{
    struct made *made = calloc(1, sizeof(*made));
    tap_require(made);
    made->report.name = gsp_sv_of(name);
    made->report.title = made->report.name;
    made->report.duration_s = (double)NAN;
    made->report.memory.peak_rss_bytes = (double)NAN;
    made->report.memory.growth_bytes_per_s = (double)NAN;
    return made;
}

/* Steps of about 100 ms with 3 ms of noise; the first two are slow. */
static void add_steps(struct made *made, size_t count, double factor, uint64_t seed)
{
    uint64_t random = seed;
    double at = 0;
    for (size_t i = 0; i < count; i++) {
        double duration = factor * (0.1 + 0.003 * noise(&random));
        duration = i < 2 && count > 10 ? 1.0 : duration;
        made->steps[i] = (struct gsp_report_step){
            .step = (int64_t)i, .rank = GSP_NULL_I64, .pid = 7, .t = at, .duration_s = duration};
        at += duration;
    }
    made->report.steps = made->steps;
    made->report.step_count = count;
    made->report.duration_s = at;
}

static void add_chart(struct made *made, const char *id, const char *unit, size_t lines)
{
    made->charts[0] = (struct gsp_report_chart){.id = gsp_sv_of(id),
                                                .title = gsp_sv_of(id),
                                                .unit = gsp_sv_of(unit),
                                                .help = "",
                                                .series = made->lines,
                                                .series_count = lines};
    for (size_t i = 0; i < STEPS; i++)
        made->t[i] = 0.1 * (double)i;
    for (size_t k = 0; k < lines; k++)
        made->lines[k] =
            (struct gsp_report_series){.name = gsp_sv_of(k == 0 ? "main (12)" : "child (34)"),
                                       .t = made->t,
                                       .v = made->v[k],
                                       .count = STEPS};
    made->report.charts = made->charts;
    made->report.chart_count = 1;
}

/* main calls load and compute; the first samples of each step are in load. */
static void add_stacks(struct made *made, int load_samples)
{
    const char *const names[] = {"main", "load", "compute"};
    struct gsp_report_stacks *stacks = &made->report.stacks;
    for (uint32_t i = 0; i < 3; i++) {
        made->frames[i] = (struct gsp_report_frame){
            .func = gsp_sv_of(names[i]), .file = gsp_sv_of("/one/train.py"), .line = i + 1};
        made->nodes[i] = (struct gsp_report_node){.parent = i == 0 ? -1 : 0, .frame = i};
    }
    size_t count = 0;
    for (size_t i = 0; i < made->report.step_count; i++) {
        for (int k = 0; k < 4; k++) {
            made->samples[count++] = (struct gsp_report_sample){
                .t = made->steps[i].t + made->steps[i].duration_s * (0.1 + 0.2 * k),
                /* The time of load varies a little between steps. */
                .weight = 0.01 + 0.001 * (double)((i * 7 + (size_t)k) % 5),
                .node = k < load_samples ? 1 : 2};
        }
    }
    *stacks = (struct gsp_report_stacks){.unit = "s",
                                         .frames = made->frames,
                                         .frame_count = 3,
                                         .nodes = made->nodes,
                                         .node_count = 3,
                                         .samples = made->samples,
                                         .sample_count = count,
                                         .has_times = true};
    for (size_t i = 0; i < count; i++)
        stacks->total += made->samples[i].weight;
}

static struct gsp_compare *compare(const struct made *a, const struct made *b)
{
    struct gsp_compare *found = NULL;
    struct gsp_err err = {0};
    const struct gsp_compare_opts opts = {.warmup = -1};
    const int rc = gsp_compare__new(&a->report, &b->report, &opts, &found, &err);
    if (rc != GSP_OK)
        tap_eq_str(err.msg, "");
    tap_require(found);
    return found;
}

static const struct gsp_compare_row *metric(const struct gsp_compare *found, const char *name)
{
    for (size_t i = 0; i < found->metric_count; i++)
        if (gsp_sv_eq(found->metrics[i].name, gsp_sv_of(name)))
            return &found->metrics[i];
    tap_eq_str(name, "a metric that is there");
    exit(TAP_EXIT_FAILED);
}

static bool says(const struct gsp_compare *found, const char *word)
{
    return memmem(found->verdict.p, found->verdict.len, word, strlen(word)) != NULL;
}

/* ------------------------------------------------------------------------ metrics */

TAP_TEST(slower_steps)
{
    struct made *a = make("base");
    struct made *b = make("new");
    add_steps(a, STEPS, 1, 1);
    add_steps(b, STEPS - 50, 1.05, 2);
    struct gsp_compare *found = compare(a, b);
    const struct gsp_compare_row *time = metric(found, "step_time");
    tap_check(time->verdict == GSP_COMPARE_WORSE && time->p < 0.001 && time->effect > 0.5);
    tap_check(fabs(time->change - 0.05) < 0.02 && time->low < time->change);
    tap_check(time->low > 0.03 && time->high < 0.07 && time->high > time->change);
    /* Warm-up is detected and excluded. */
    tap_check(found->warmup[0] == 2 && time->count[0] == STEPS - 2);
    tap_check(says(found, "new is ") && says(found, "% slower per step than base (95 % interval"));
    const struct gsp_compare_row *rate = metric(found, "throughput");
    tap_check(rate->verdict == GSP_COMPARE_WORSE && rate->change < 0);
    tap_check(rate->low < rate->change && rate->change < rate->high && rate->high < 0);
    /* One value per side is not enough for a test. */
    tap_check(metric(found, "wall_time")->verdict == GSP_COMPARE_UNKNOWN);
    gsp_compare_free(found);
    found = compare(b, a);
    tap_check(metric(found, "step_time")->verdict == GSP_COMPARE_BETTER);
    tap_check(says(found, "faster per step"));
    gsp_compare_free(found);
    free(a);
    free(b);
}

TAP_TEST(equal_and_itself)
{
    struct made *a = make("base");
    struct made *b = make("new");
    add_steps(a, STEPS, 1, 1);
    add_steps(b, STEPS, 1, 3);
    struct gsp_compare *found = compare(a, b);
    tap_check(metric(found, "step_time")->verdict == GSP_COMPARE_SAME && !found->is_same);
    tap_check(says(found, "as fast per step"));
    gsp_compare_free(found);
    found = compare(a, a);
    tap_check(found->is_same && says(found, "no difference"));
    tap_check(metric(found, "wall_time")->verdict == GSP_COMPARE_SAME);
    tap_check(gsp_sv_eq(found->name[0], gsp_sv_of("A")));
    gsp_compare_free(found);
    free(a);
    free(b);
}

static void fill_line(struct made *made, double level, double spread, uint64_t seed)
{
    uint64_t random = seed;
    add_chart(made, "power", "W", 1);
    for (size_t i = 0; i < STEPS; i++)
        made->v[0][i] = level + spread * noise(&random);
}

/* The comparison as text for a terminal. */
static bool text_has(const struct gsp_compare *found, const char *word)
{
    const struct gsp_compare_write_opts how = {.width = 200};
    struct gsp_out out;
    FILE *file = tmpfile();
    tap_require(file != NULL);
    gsp_out_init(&out, fileno(file));
    tap_require(gsp_compare_write(found, GSP_COMPARE_TEXT, &how, &out, NULL) == GSP_OK);
    const bool has = memmem(out.buf.p, out.buf.len, word, strlen(word)) != NULL;
    tap_check(out.done == 0 && gsp_out_finish(&out, NULL) == GSP_OK);
    fclose(file);
    return has;
}

TAP_TEST(small_significant_differences_are_same)
{
    struct made *a = make("base");
    struct made *b = make("new");
    fill_line(a, 100, 0.1, 1);
    fill_line(b, 99.8, 0.1, 2);
    struct gsp_compare *found = compare(a, b);
    const struct gsp_compare_row *row = metric(found, "power");
    tap_check(row->p < 0.001 && row->high < 0 && fabs(row->change + 0.002) < 0.001);
    tap_check(row->verdict == GSP_COMPARE_SAME && row->is_significant);
    /* A rule may have a smaller limit. */
    struct gsp_compare_rule rule;
    struct gsp_compare_rule_result result;
    tap_require(gsp_compare_rule_parse("power < -0.1%", &rule, NULL) == GSP_OK);
    tap_require(gsp_compare_rule_check(&rule, found, false, &result, NULL) == GSP_OK);
    tap_check(result.is_failed);
    gsp_compare_free(found);
    fill_line(b, 98, 0.1, 2);
    found = compare(a, b);
    tap_check(metric(found, "power")->verdict == GSP_COMPARE_BETTER);
    gsp_compare_free(found);
    free(a);
    free(b);
}

TAP_TEST(changes_from_zero_have_no_percentage)
{
    struct made *a = make("base");
    struct made *b = make("new");
    add_steps(a, STEPS, 1, 1);
    add_steps(b, STEPS, 1, 1);
    fill_line(a, 0.001, 0.0001, 1);
    fill_line(b, 620, 1, 2);
    struct gsp_compare *found = compare(a, b);
    tap_check(metric(found, "power")->change > 1e5);
    tap_check(text_has(found, "from ~0") && !text_has(found, "00000"));
    /* The document that the page shows. */
    tap_check(text_has(found, "too few values") && !text_has(found, "unknown"));
    gsp_compare_free(found);
    free(a);
    free(b);
}

TAP_TEST(different_rates_and_commands_are_noted)
{
    struct made *a = make("base");
    struct made *b = make("new");
    add_steps(a, STEPS, 1, 1);
    add_steps(b, STEPS, 1, 2);
    a->report.period_s = 0.01;
    b->report.period_s = 0.001;
    a->report.command = gsp_sv_of("python3 gpt.py");
    b->report.command = gsp_sv_of("python3 gpt.py 2");
    struct gsp_compare *found = compare(a, b);
    tap_check(text_has(found, "different sampling rates (100 Hz, 1000 Hz)"));
    tap_check(text_has(found, "different commands (python3 gpt.py; python3 gpt.py 2)"));
    gsp_compare_free(found);
    b->report.period_s = 0.01;
    b->report.command = a->report.command;
    found = compare(a, b);
    tap_check(!text_has(found, "different"));
    gsp_compare_free(found);
    free(a);
    free(b);
}

TAP_TEST(idle_threads_do_not_dominate)
{
    struct made *sides[2] = {make("base"), make("new")};
    static struct gsp_report_thread threads[] = {{.pid = 7, .tid = 7, .rank = GSP_NULL_I64},
                                                 {.pid = 8, .tid = 8, .rank = GSP_NULL_I64}};
    for (int i = 0; i < 2; i++) {
        struct gsp_report_stacks *stacks = &sides[i]->report.stacks;
        add_steps(sides[i], STEPS, 1, 1);
        add_stacks(sides[i], 2);
        stacks->threads = threads;
        stacks->thread_count = 2;
        /* A worker waits in load, longer in the second recording; the trainer waits a little in
         * compute. */
        for (size_t k = 0; k < stacks->sample_count; k++) {
            struct gsp_report_sample *sample = &sides[i]->samples[k];
            sample->thread = sample->node == 1;
            sample->weight = sample->node == 1 ? 1.0 + i : 0.01 + 0.005 * i;
        }
    }
    struct gsp_compare *found = compare(sides[0], sides[1]);
    const struct gsp_compare_function *first = &found->functions[found->order[0]];
    tap_check(gsp_sv_eq(first->row.name, gsp_sv_of("compute")));
    tap_check(fabs(first->row.value[0] - 0.02) < 1e-3 && fabs(first->row.value[1] - 0.03) < 1e-3);
    for (size_t i = 0; i < found->function_count; i++)
        if (gsp_sv_eq(found->functions[i].row.name, gsp_sv_of("load")))
            tap_check(!(found->functions[i].row.value[1] > 0));
    tap_check(text_has(found, "waiting time counts only in the main thread"));
    gsp_compare_free(found);
    free(sides[0]);
    free(sides[1]);
}

TAP_TEST(few_and_invalid_values)
{
    struct made *a = make("base");
    struct made *b = make("new");
    add_steps(a, 1, 1, 1);
    add_steps(b, 1, 2, 2);
    struct gsp_compare *found = compare(a, b);
    tap_check(metric(found, "step_time")->verdict == GSP_COMPARE_UNKNOWN);
    tap_check(isnan(metric(found, "step_time")->p) && says(found, "too few values"));
    gsp_compare_free(found);
    add_steps(a, 50, 1, 1);
    add_steps(b, 50, 1, 2);
    for (size_t i = 0; i < 50; i++) {
        b->steps[i].duration_s = i % 2 ? (double)NAN : (double)INFINITY;
        a->steps[i].duration_s = 0.1;
    }
    b->report.duration_s = a->report.duration_s;
    found = compare(a, b);
    tap_check(found->metric_count == 1 && found->steps[1] == 0);
    gsp_compare_free(found);
    for (size_t i = 0; i < 50; i++)
        b->steps[i].duration_s = 0.1;
    found = compare(a, b);
    tap_check(metric(found, "step_time")->verdict == GSP_COMPARE_SAME);
    gsp_compare_free(found);
    free(a);
    free(b);
}

TAP_TEST(steps_of_ranks_are_merged)
{
    struct made *a = make("base");
    add_steps(a, STEPS, 1, 1);
    for (size_t i = 0; i < STEPS; i++) {
        a->steps[i].step = (int64_t)i / 2;
        a->steps[i].rank = (int64_t)i % 2;
    }
    struct gsp_compare *found = compare(a, a);
    tap_check(found->steps[0] + found->warmup[0] == STEPS / 2);
    gsp_compare_free(found);
    free(a);
}

TAP_TEST(charts)
{
    struct made *a = make("base");
    struct made *b = make("new");
    uint64_t random = 6;
    add_chart(a, "rss", "bytes", 2);
    add_chart(b, "rss", "bytes", 2);
    for (size_t i = 0; i < STEPS; i++) {
        for (size_t k = 0; k < 2; k++) {
            a->v[k][i] = 1e9 + 1e6 * noise(&random);
            b->v[k][i] = (k == 0 ? 1e9 : 2e9) + 1e6 * noise(&random);
        }
    }
    a->v[0][3] = (double)NAN;
    /* The rise at startup is excluded. */
    for (size_t i = 0; i < 30; i++)
        b->v[1][i] = 2e9 * (double)i / 30;
    a->report.memory.peak_rss_bytes = 2e9;
    b->report.memory.peak_rss_bytes = 3e9;
    b->report.host = gsp_sv_of("two");
    a->report.host = gsp_sv_of("one");
    b->lines[1].name = gsp_sv_of("child (99)");
    struct gsp_compare *found = compare(a, b);
    /* The sum over processes, and each process by name. */
    tap_check(fabs(metric(found, "rss")->value[0] / 2e9 - 1) < 0.01);
    tap_check(fabs(metric(found, "rss")->value[1] / 3e9 - 1) < 0.01);
    tap_check(metric(found, "rss")->verdict == GSP_COMPARE_WORSE);
    tap_check(metric(found, "rss: child")->verdict == GSP_COMPARE_WORSE);
    tap_check(metric(found, "rss: main")->verdict == GSP_COMPARE_SAME);
    tap_check(found->note_count == 1 && gsp_sv_starts(found->notes[0], "different machines"));
    gsp_compare_free(found);
    b->charts[0].unit = gsp_sv_of("%");
    b->report.memory.peak_rss_bytes = (double)NAN;
    struct gsp_err err = {0};
    tap_check(gsp_compare__new(&a->report, &b->report, NULL, &found, &err) == GSP_E_FORMAT);
    tap_check(!found && strstr(err.msg, "nothing in common"));
    free(a);
    free(b);
}

/* ------------------------------------------------------------------------ modules, functions */

static struct gsp_report_module *modules_of(int slow, uint64_t seed)
{
    static char names[MODULES][16];
    struct gsp_report_module *modules = calloc(MODULES, sizeof(*modules));
    double *values = calloc((size_t)MODULES * MODULE_RUNS, sizeof(*values));
    uint64_t random = seed;
    tap_require(modules && values);
    for (int i = 0; i < MODULES; i++) {
        snprintf(names[i], sizeof(names[i]), "layers.%d", i);
        modules[i] = (struct gsp_report_module){.module = gsp_sv_of(names[i]),
                                                .stage = gsp_sv_of("forward"),
                                                .calls = MODULE_RUNS,
                                                .values = values + (size_t)i * MODULE_RUNS,
                                                .value_count = MODULE_RUNS};
        for (int k = 0; k < MODULE_RUNS; k++)
            modules[i].values[k] = (i < slow ? 1.2e-3 : 1e-3) * (1 + 0.1 * noise(&random));
        modules[i].mean_s = (double)NAN;
    }
    return modules;
}

/* Ten of two thousand modules are slower: these are found, and almost no others. */
TAP_TEST(many_modules)
{
    struct made *a = make("base");
    struct made *b = make("new");
    a->report.modules = modules_of(0, 1);
    b->report.modules = modules_of(10, 2);
    a->report.module_count = MODULES;
    b->report.module_count = MODULES - 1;
    struct gsp_compare *found = compare(a, b);
    size_t different = 0;
    size_t slow = 0;
    tap_check(found->module_count == MODULES);
    for (size_t i = 0; i < found->module_count; i++) {
        const struct gsp_compare_row *row = &found->modules[i];
        different += row->verdict > GSP_COMPARE_SAME;
        slow += row->verdict == GSP_COMPARE_WORSE && row->change > 0.1;
        if (gsp_sv_eq(row->name, gsp_sv_of("layers.1999 forward")))
            tap_check(isnan(row->value[1]) && row->verdict == GSP_COMPARE_UNKNOWN);
    }
    tap_eq_int(slow, 10);
    tap_check(different <= 13);
    gsp_compare_free(found);
    free(a->report.modules[0].values);
    free(b->report.modules[0].values);
    free(a->report.modules);
    free(b->report.modules);
    free(a);
    free(b);
}

TAP_TEST(functions_per_step)
{
    struct made *a = make("base");
    struct made *b = make("new");
    add_steps(a, STEPS, 1, 1);
    add_steps(b, STEPS / 2, 1, 2);
    add_stacks(a, 1);
    add_stacks(b, 2);
    /* The same function in another folder. */
    b->frames[1].file = gsp_sv_of("/elsewhere/train.py");
    struct gsp_compare *found = compare(a, b);
    tap_check(found->per == GSP_PER_STEP && found->function_count == 3 && found->node_count == 3);
    const struct gsp_compare_function *load = &found->functions[1];
    tap_check(gsp_sv_eq(load->row.name, gsp_sv_of("load")));
    tap_check(fabs(load->row.value[0] - 0.012) < 0.001);
    tap_check(fabs(load->row.value[1] - 0.024) < 0.002);
    tap_check(load->row.verdict == GSP_COMPARE_WORSE && load->row.p < 0.01);
    tap_check(found->functions[2].row.verdict == GSP_COMPARE_BETTER);
    /* The total of main is the sum of both functions. */
    tap_check(fabs(found->functions[0].total[1] - found->functions[1].total[1] -
                   found->functions[2].total[1]) < 1e-9);
    gsp_compare_free(found);
    free(a);
    free(b);
}

/* Every format can be written, with any function names. */
TAP_TEST(formats)
{
    struct made *a = make("<base>|\x01");
    struct made *b = make("new\xff");
    add_steps(a, STEPS, 1, 1);
    add_steps(b, STEPS, 1.1, 2);
    add_stacks(a, 1);
    add_stacks(b, 2);
    a->frames[1].func = b->frames[1].func = gsp_sv_of("<lambda>\x1b[31m|\xfe");
    struct gsp_compare *found = compare(a, b);
    struct gsp_compare_rule rule;
    struct gsp_compare_rule_result result;
    tap_require(gsp_compare_rule_parse("step_time > 5%", &rule, NULL) == GSP_OK);
    tap_require(gsp_compare_rule_check(&rule, found, false, &result, NULL) == GSP_OK &&
                result.is_failed);
    const struct gsp_compare_write_opts how = {.results = &result, .result_count = 1, .width = 60};
    for (int format = GSP_COMPARE_TEXT; format <= GSP_COMPARE_SVG; format++) {
        struct gsp_out out;
        FILE *file = tmpfile();
        tap_require(file);
        gsp_out_init(&out, fileno(file));
        tap_check(gsp_compare_write(found, (enum gsp_compare_format)format, &how, &out, NULL) ==
                  GSP_OK);
        tap_check(out.done + out.buf.len > 100);
        tap_check(!out.buf.p || !memchr(out.buf.p, 0x1b, out.buf.len));
        tap_check(gsp_out_finish(&out, NULL) == GSP_OK);
        fclose(file);
    }
    gsp_compare_free(found);
    free(a);
    free(b);
}

/* Several recordings on each side: their variation counts, not the number of steps. */
TAP_TEST(several_recordings)
{
    static const double factors[] = {0.97, 1.03, 0.99, 1.04, 0.98};
    struct made *made[10];
    const struct gsp_report *a[5];
    const struct gsp_report *b[5];
    for (size_t i = 0; i < 10; i++) {
        made[i] = make(i < 5 ? "base" : "new");
        add_steps(made[i], STEPS, factors[i % 5] * (i == 9 ? 1.1 : 1), i + 1);
        add_stacks(made[i], i < 5 ? 1 : 2);
        *(i < 5 ? &a[i] : &b[i - 5]) = &made[i]->report;
    }
    const struct gsp_report *const *const sides[2] = {a, b};
    const struct gsp_compare_opts opts = {.warmup = -1};
    struct gsp_compare *found = NULL;
    tap_require(gsp_compare_many(sides, (size_t[]){5, 5}, &opts, &found, NULL) == GSP_OK);
    const struct gsp_compare_row *time = metric(found, "step_time");
    tap_check(time->count[0] == 5 && time->verdict == GSP_COMPARE_SAME && time->p > 0.2);
    tap_check(metric(found, "wall_time")->verdict == GSP_COMPARE_SAME);
    tap_check(found->functions[1].row.verdict == GSP_COMPARE_WORSE);
    gsp_compare_free(found);
    /* Two single recordings have enough steps for a significant difference. */
    tap_require(gsp_compare_many((const struct gsp_report *const *const[]){a, a + 1},
                                 (size_t[]){1, 1}, &opts, &found, NULL) == GSP_OK);
    tap_check(metric(found, "step_time")->verdict == GSP_COMPARE_WORSE);
    gsp_compare_free(found);
    tap_require(gsp_compare_many(sides, (size_t[]){2, 2}, &opts, &found, NULL) == GSP_OK);
    tap_check(metric(found, "step_time")->verdict == GSP_COMPARE_UNKNOWN);
    gsp_compare_free(found);
    for (size_t i = 0; i < 10; i++)
        free(made[i]);
}

/* ------------------------------------------------------------------------ rules */

TAP_TEST(rules_parse)
{
    static const struct {
        const char *text;
        const char *name;
        double limit;
        enum gsp_rule_kind kind;
        enum gsp_rule_subject subject;
    } good[] = {
        {"step_time > 5%", "step_time", 0.05, GSP_RULE_CHANGE_PCT, GSP_RULE_METRIC},
        {"step_time>5 %", "step_time", 0.05, GSP_RULE_CHANGE_PCT, GSP_RULE_METRIC},
        {"throughput < -2.5%", "throughput", -0.025, GSP_RULE_CHANGE_PCT, GSP_RULE_METRIC},
        {"step_time >= +10ms", "step_time", 0.01, GSP_RULE_CHANGE, GSP_RULE_METRIC},
        {"peak_rss > 2GB", "peak_rss", 2147483648.0, GSP_RULE_VALUE, GSP_RULE_METRIC},
        {"gpu_util < 80", "gpu_util", 80, GSP_RULE_VALUE, GSP_RULE_METRIC},
        {"module:layers.* > 10%", "layers.*", 0.1, GSP_RULE_CHANGE_PCT, GSP_RULE_MODULE},
        {"function:<listcomp> > 1us", "<listcomp>", 1e-6, GSP_RULE_VALUE, GSP_RULE_FUNCTION},
        {"disk: sda read > 1e3 KB", "disk: sda read", 1024000, GSP_RULE_VALUE, GSP_RULE_METRIC},
    };
    static const char *const bad[] = {"",
                                      "step_time",
                                      "> 5%",
                                      "step_time >",
                                      "step_time > fast",
                                      "step_time > 5 parsecs",
                                      "step_time > nan",
                                      "step_time > inf%",
                                      "step_time > 0x10",
                                      "module: > 5%",
                                      "step_time > 1e999%",
                                      "step_time = 5%",
                                      "a > 5% 6"};
    for (size_t i = 0; i < GSP_COUNT(good); i++) {
        struct gsp_compare_rule rule;
        struct gsp_err err = {0};
        const bool ok = gsp_compare_rule_parse(good[i].text, &rule, &err) == GSP_OK;
        tap_eq_str(ok ? good[i].text : err.msg, good[i].text);
        tap_check(strcmp(rule.name, good[i].name) == 0 && rule.kind == good[i].kind);
        tap_check(rule.subject == good[i].subject);
        tap_check(fabs(rule.limit - good[i].limit) <= 1e-9 * fabs(good[i].limit));
    }
    for (size_t i = 0; i < GSP_COUNT(bad); i++) {
        struct gsp_compare_rule rule;
        struct gsp_err err = {0};
        const bool refused = gsp_compare_rule_parse(bad[i], &rule, &err) == GSP_E_USAGE;
        tap_eq_str(refused ? "" : bad[i], "");
        tap_check(strstr(err.msg, "invalid rule"));
    }
}

static int check(const struct gsp_compare *found, const char *text, bool any_change,
                 struct gsp_compare_rule_result *out, struct gsp_err *err)
{
    static struct gsp_compare_rule rule;
    tap_require(gsp_compare_rule_parse(text, &rule, NULL) == GSP_OK);
    return gsp_compare_rule_check(&rule, found, any_change, out, err);
}

static bool fails(const struct gsp_compare *found, const char *text, bool any_change)
{
    struct gsp_compare_rule_result result;
    struct gsp_err err = {0};
    const int rc = check(found, text, any_change, &result, &err);
    tap_eq_str(rc == GSP_OK ? "" : err.msg, "");
    return result.is_failed;
}

TAP_TEST(rules_check)
{
    struct made *a = make("base");
    struct made *b = make("new");
    struct gsp_compare_rule_result result;
    struct gsp_err err = {0};
    add_steps(a, STEPS, 1, 1);
    add_steps(b, STEPS, 1.1, 2);
    add_stacks(a, 1);
    add_stacks(b, 2);
    struct gsp_compare *found = compare(a, b);
    tap_check(fails(found, "step_time > 5%", false) && !fails(found, "step_time > 20%", false));
    tap_check(fails(found, "throughput < -5%", false) && !fails(found, "throughput > 0%", false));
    tap_check(fails(found, "step_time > +5ms", false) && !fails(found, "step_time > +50ms", false));
    tap_check(fails(found, "step_time > 50ms", false) && !fails(found, "step_time > 1s", false));
    /* One value per side: no significance test is possible; a limit on the value does not need one.
     */
    tap_check(!fails(found, "wall_time > 5%", false) && fails(found, "wall_time > 5%", true));
    tap_check(fails(found, "wall_time > 1s", false));
    tap_check(fails(found, "function:load > 50%", false));
    tap_check(fails(found, "function:l* > 50%", false));
    tap_check(fails(found, "function:load (train.py) > 50%", false));
    tap_check(!fails(found, "function:compute > 0%", false));
    tap_check(check(found, "stp_time > 5%", false, &result, &err) == GSP_E_USAGE);
    tap_check(strstr(err.msg, "did you mean 'step_time'") && strstr(err.msg, "throughput"));
    tap_check(check(found, "step_time > 5MB", false, &result, &err) == GSP_E_USAGE);
    tap_check(check(found, "function:lood > 5%", false, &result, &err) == GSP_E_USAGE);
    tap_check(strstr(err.msg, "did you mean 'load'"));
    tap_check(check(found, "gpu_util < -5%", false, &result, &err) == GSP_E_FORMAT);
    tap_check(check(found, "module:x > 5%", false, &result, &err) == GSP_E_FORMAT);
    gsp_compare_free(found);
    free(a);
    free(b);
}

TAP_MAIN()
