/* SPDX-License-Identifier: Apache-2.0 */
#include "report/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/format.h"
#include "report/cards.h"
#include "report/document_internal.h"

/* Maximum number of functions named. */
#define NAMES_MAX     3U
/* Smaller shares are not mentioned. */
#define SHARE_MIN     0.01
/* A rank that is slower by more than this share is reported. */
#define BEHIND_MIN    0.03
/* A step that takes this many times the median is reported. */
#define STRAGGLE_MIN  3.0
/* A program that fails with less work than this (without imports) or, without stacks, within
 * EARLY_S, has failed during startup. */
#define WORKED_MIN_S  0.1
#define EARLY_S       3.0
/* Maximum number of processes whose steps are compared with their data loading. */
#define STRETCHES_MAX 64U

static void add_line(const struct gsp_verdict_input *judge, struct gsp_buf *text)
{
    gsp_report__verdict_add(judge->report, text);
}

/* CPU time of threads that never ran Python, in cores. */
static double native_share(const struct gsp_report *report)
{
    return report->duration_s > 0 ? report->native.cpu_s / report->duration_s : 0;
}

static void judge_native_threads(const struct gsp_verdict_input *judge)
{
    const struct gsp_report_native *native = &judge->report->native;
    size_t shown = 0;
    gsp_auto_buf text = {0};
    if (!(native_share(judge->report) >= SHARE_MIN))
        return;
    gsp_buf_puts(&text, "Threads without Python used ");
    gsp_model_seconds_put(native->cpu_s, &text);
    gsp_buf_printf(&text, " of CPU time (%.2f cores): ", native_share(judge->report));
    for (size_t i = 0; i < native->top_count; i++) {
        const struct gsp_report_named_cpu *at = &native->top[i];
        gsp_buf_puts(&text, i ? ", " : "");
        gsp_buf_putsv(&text, at->name.len ? at->name : gsp_sv_of("(no name)"));
        if (at->threads > 1)
            gsp_buf_printf(&text, " (%zu threads)", at->threads);
        gsp_buf_putc(&text, ' ');
        gsp_model_seconds_put(at->cpu_s, &text);
        shown += at->threads;
    }
    if (shown < native->threads)
        gsp_buf_printf(&text, ", %zu more", native->threads - shown);
    gsp_buf_puts(&text, "; gsprof record --native shows their stacks");
    add_line(judge, &text);
}

static void judge_time(const struct gsp_verdict_input *judge)
{
    const struct gsp_time_shares *shares = &judge->shares;
    gsp_auto_buf text = {0};
    if (!(shares->total > 0))
        return;
    gsp_buf_puts(&text, shares->mains == 0   ? "All threads: "
                        : shares->mains == 1 ? "Main thread: "
                                             : "Main threads: ");
    gsp_model_share_put(shares->has_native ? shares->python : shares->python + shares->native,
                        shares->total, &text);
    gsp_buf_puts(&text, shares->has_native ? " Python, " : " Python and the C code it calls");
    if (shares->has_native) {
        gsp_model_share_put(shares->native, shares->total, &text);
        gsp_buf_puts(&text, " native code");
    }
    if (shares->knows_waiting) {
        gsp_buf_puts(&text, ", ");
        gsp_model_share_put(shares->waiting, shares->total, &text);
        gsp_buf_puts(&text, native_share(judge->report) >= SHARE_MIN
                                ? " waiting (also for threads without Python)"
                                : " waiting");
    } else {
        gsp_buf_puts(&text, shares->is_running_only
                                ? " of the running time; idle threads were not recorded"
                                : "; waiting time unknown");
    }
    add_line(judge, &text);
}

/* CPU time if known; otherwise idle threads would come first. */
static double weight_of(const struct gsp_report_function *function)
{
    return isnan(function->own_cpu) ? function->own : function->own_cpu;
}

static void judge_functions(const struct gsp_verdict_input *judge)
{
    const struct gsp_report_stacks *stacks = &judge->report->stacks;
    const double all = isnan(stacks->total_cpu) ? stacks->total : stacks->total_cpu;
    const struct gsp_report_function *top[NAMES_MAX] = {NULL};
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < stacks->function_count; i++) {
        const struct gsp_report_function *at = &stacks->functions[i];
        for (size_t k = 0; k < NAMES_MAX; k++) {
            if (top[k] && weight_of(at) <= weight_of(top[k]))
                continue;
            const struct gsp_report_function *moved = top[k];
            top[k] = at;
            at = moved;
            if (!at)
                break;
        }
    }
    for (size_t k = 0; k < NAMES_MAX && top[k] && all > 0; k++) {
        if (weight_of(top[k]) < SHARE_MIN * all)
            break;
        gsp_buf_puts(&text, k ? ", " : isnan(stacks->total_cpu) ? "Most of it: " : "Busiest: ");
        gsp_model_function_put(top[k]->func, top[k]->file, &text);
        gsp_buf_putc(&text, ' ');
        gsp_model_share_put(weight_of(top[k]), all, &text);
    }
    add_line(judge, &text);
}

static void judge_gpu(const struct gsp_verdict_input *judge)
{
    const struct gsp_time_shares *shares = &judge->shares;
    gsp_auto_buf text = {0};
    if (isnan(shares->gpu_idle))
        return;
    gsp_buf_puts(&text, "GPU idle ");
    gsp_model_share_put(shares->gpu_idle, 1, &text);
    gsp_buf_puts(&text, " of the time");
    if (shares->gpu_idle >= SHARE_MIN && shares->idle_top > 0) {
        gsp_buf_puts(&text, "; meanwhile Python was in ");
        gsp_model_function_put(shares->idle.func, shares->idle.file, &text);
        gsp_buf_puts(&text, " for ");
        gsp_model_share_put(shares->idle_top, shares->idle_total, &text);
    } else if (shares->gpu_idle >= SHARE_MIN) {
        gsp_buf_puts(&text, shares->gpu_seen > 0 ? "; never all GPUs at once"
                                                 : "; no samples from that time");
    }
    add_line(judge, &text);
}

static void judge_memory(const struct gsp_verdict_input *judge)
{
    const struct gsp_report_memory *memory = &judge->report->memory;
    gsp_auto_buf text = {0};
    if (isnan(memory->peak_rss_bytes))
        return;
    gsp_buf_puts(&text, "Memory peaked at ");
    gsp_model_bytes_put(memory->peak_rss_bytes, &text);
    if (isnan(memory->growth_bytes_per_s)) {
        gsp_buf_puts(&text, "; too short to detect growth");
    } else if (memory->growth_bytes_per_s > 0) {
        gsp_buf_puts(&text, " and grew by ");
        gsp_model_bytes_put(memory->growth_bytes_per_s, &text);
        gsp_buf_puts(&text, "/s to the end");
    } else {
        gsp_buf_puts(&text, ", no lasting growth");
    }
    add_line(judge, &text);
}

static void judge_steps(const struct gsp_verdict_input *judge)
{
    const struct gsp_step_stats *steps = &judge->steps;
    gsp_auto_buf text = {0};
    if (steps->count == 0)
        return;
    gsp_model_count_put(steps->count, &text);
    gsp_buf_puts(&text, steps->count == 1 ? " step of " : " steps: median ");
    gsp_model_seconds_put(steps->p50_s, &text);
    if (steps->count > 1) {
        gsp_buf_puts(&text, ", 95 % within ");
        gsp_model_seconds_put(steps->p95_s, &text);
    }
    if (steps->max_s > STRAGGLE_MIN * steps->p50_s) {
        gsp_buf_puts(&text, "; slowest ");
        gsp_model_seconds_put(steps->max_s, &text);
        if (steps->max_step != GSP_NULL_I64)
            gsp_buf_printf(&text, " (step %" PRId64 ")", steps->max_step);
    }
    add_line(judge, &text);
}

/* Reports that torch.adaptive traced fewer steps than requested. */
static void judge_traced(const struct gsp_verdict_input *judge)
{
    const struct gsp_report *report = judge->report;
    gsp_auto_buf text = {0};
    if (report->steps_traced == 0 || report->steps_traced >= report->step_count)
        return;
    gsp_buf_puts(&text, "Traced ");
    gsp_model_count_put(report->steps_traced, &text);
    gsp_buf_puts(&text, " of ");
    gsp_model_count_put(report->step_count, &text);
    gsp_buf_puts(&text, " steps, because torch.adaptive limits the overhead");
    add_line(judge, &text);
}

/* The mean time of all steps of a rank; the duration of the run without steps. */
static double steps_of_rank_s(const struct gsp_report *report)
{
    double sum_s = 0;
    for (size_t i = 0; i < report->step_count; i++)
        sum_s += report->steps[i].duration_s;
    return sum_s > 0 ? sum_s / (double)report->rank_count : report->duration_s;
}

/* Collectives end at the same time on all ranks. The slowest rank, for which the others wait,
 * spends the least time in them. */
static bool put_awaited(const struct gsp_report *report, struct gsp_buf *out)
{
    const struct gsp_report_rank *least = NULL;
    double others_s = 0;
    for (size_t i = 0; i < report->rank_count; i++) {
        if (!least || report->ranks[i].collective_s < least->collective_s)
            least = &report->ranks[i];
        others_s += report->ranks[i].collective_s;
    }
    if (report->rank_count < 2 || !least)
        return false;
    others_s = (others_s - least->collective_s) / (double)(report->rank_count - 1);
    const double behind_s = others_s - least->collective_s;
    if (!(behind_s > BEHIND_MIN * steps_of_rank_s(report)))
        return false;
    gsp_buf_printf(out, "Other ranks wait for rank %" PRId64 ": it spent ", least->rank);
    gsp_model_seconds_put(least->collective_s, out);
    gsp_buf_puts(out, " in collectives, the others ");
    gsp_model_seconds_put(others_s, out);
    gsp_buf_puts(out, " each");
    return true;
}

static void judge_ranks(const struct gsp_verdict_input *judge)
{
    const struct gsp_step_stats *steps = &judge->steps;
    const double behind =
        steps->rank_count > 1 ? steps->slow_p50_s / steps->rank_p50_s - 1 : (double)NAN;
    gsp_auto_buf text = {0};
    if (behind > BEHIND_MIN) {
        gsp_buf_printf(&text, "Rank %" PRId64 " is the slowest of %zu: its steps take ",
                       steps->slow_rank, steps->rank_count);
        gsp_model_share_put(behind, 1, &text);
        gsp_buf_puts(&text, " longer than the others'");
    } else if (!put_awaited(judge->report, &text) && !isnan(behind)) {
        /* A slow rank is still possible: collectives started from C++ are not recorded. */
        gsp_buf_printf(&text, "Steps of the %zu ranks take equally long, within ",
                       steps->rank_count);
        gsp_model_share_put(behind > 0 ? behind : 0, 1, &text);
    }
    add_line(judge, &text);
}

/* Whether a module contains others, whose time it includes. A whole model has the name of its
 * class; its parts have other names. */
static bool has_parts(const struct gsp_report *report, const struct gsp_report_module *module)
{
    const size_t len = module->module.len;
    const bool is_whole = len == 0 || gsp_sv_eq(module->module, module->class_name);
    for (size_t i = 0; i < report->module_count; i++) {
        const struct gsp_report_module *other = &report->modules[i];
        if (is_whole && !gsp_sv_eq(other->module, other->class_name))
            return true;
        if (len > 0 && other->module.len > len && other->module.p[len] == '.' &&
            memcmp(other->module.p, module->module.p, len) == 0)
            return true;
    }
    return false;
}

static void judge_module(const struct gsp_verdict_input *judge)
{
    const struct gsp_report *report = judge->report;
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < report->module_count; i++) {
        const struct gsp_report_module *module = &report->modules[i];
        if (has_parts(report, module))
            continue;
        gsp_buf_puts(&text, "Slowest module: ");
        gsp_buf_putsv(&text, module->module);
        gsp_buf_puts(&text, " (");
        if (module->class_name.len) {
            gsp_buf_putsv(&text, module->class_name);
            gsp_buf_puts(&text, ", ");
        }
        gsp_buf_putsv(&text, module->stage);
        gsp_buf_puts(&text, ") ");
        gsp_model_seconds_put(module->mean_s, &text);
        gsp_buf_puts(&text, " per call");
        if (!isnan(module->share)) {
            gsp_buf_puts(&text, ", ");
            gsp_model_share_put(module->share, 1, &text);
            gsp_buf_puts(&text, " of the traced steps");
        }
        break;
    }
    add_line(judge, &text);
}

/* The interval from the first step of a process to the end of its last. */
struct stretch {
    int64_t pid;
    double begin;
    double end;
};

struct stretches {
    struct stretch at[STRETCHES_MAX];
    size_t count;
    double steps_s; /* sum of all steps of these processes */
};

static struct stretch *find_stretch(struct stretches *all, int64_t pid)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].pid == pid)
            return &all->at[i];
    return NULL;
}

static void find_stretches(const struct gsp_report *report, struct stretches *out)
{
    out->count = 0;
    out->steps_s = 0;
    for (size_t i = 0; i < report->step_count; i++) {
        const struct gsp_report_step *step = &report->steps[i];
        const double end = step->t + step->duration_s;
        struct stretch *stretch = find_stretch(out, step->pid);
        if (isnan(end) || (!stretch && out->count == STRETCHES_MAX))
            continue;
        if (!stretch) {
            stretch = &out->at[out->count++];
            *stretch = (struct stretch){step->pid, step->t, end};
        }
        stretch->begin = fmin(stretch->begin, step->t);
        stretch->end = fmax(stretch->end, end);
        out->steps_s += step->duration_s;
    }
}

/* Appends the share of data loading in the steps, without startup and without processes that only
 * load data; if unknown, its share of the wall time. */
static void put_data_share(const struct gsp_report *report, double data_s, struct gsp_buf *out)
{
    struct stretches all;
    double within_s = 0;
    find_stretches(report, &all);
    for (size_t i = 0; i < report->span_count; i++) {
        const struct gsp_report_span *span = &report->spans[i];
        const struct stretch *stretch = span->is_data ? find_stretch(&all, span->pid) : NULL;
        if (stretch && span->t >= stretch->begin && span->t < stretch->end)
            within_s += span->duration_s;
    }
    if (within_s > 0) {
        gsp_model_share_put(fmin(within_s, all.steps_s), all.steps_s, out);
        gsp_buf_puts(out, " of the step time");
    } else {
        gsp_model_share_put(data_s, report->duration_s, out);
        gsp_buf_puts(out, " of the wall time");
    }
}

/* From spans of data, else from stacks in torch.utils.data. */
static void judge_loading(const struct gsp_verdict_input *judge)
{
    const struct gsp_report *report = judge->report;
    const struct gsp_time_shares *shares = &judge->shares;
    gsp_auto_buf text = {0};
    double data_s = 0;
    for (size_t i = 0; i < report->span_count; i++)
        data_s += report->spans[i].is_data ? report->spans[i].duration_s : 0;
    if (data_s > SHARE_MIN * report->duration_s) {
        gsp_buf_puts(&text, "Data loading: ");
        gsp_model_seconds_put(data_s, &text);
        gsp_buf_puts(&text, " in data spans, ");
        put_data_share(report, data_s, &text);
    } else if (shares->loading > SHARE_MIN * shares->total) {
        gsp_buf_puts(&text, "Data loading: ");
        gsp_model_share_put(shares->loading, shares->total, &text);
        gsp_buf_puts(&text,
                     shares->mains == 1 ? " of the main thread's time" : " of the threads' time");
    }
    add_line(judge, &text);
}

static void judge_losses(const struct gsp_verdict_input *judge)
{
    gsp_auto_buf text = {0};
    gsp_report__losses_put(judge->report, &text);
    /* Without stacks, nothing is known about other losses. */
    if (text.len == 0 && judge->report->has_losses && judge->report->stacks.seen > 0)
        gsp_buf_puts(&text, "Nothing was lost");
    add_line(judge, &text);
}

static bool has_torch(const struct gsp_report *report)
{
    static const char FOLDER[] = "/torch/";
    const struct gsp_report_stacks *stacks = &report->stacks;
    for (size_t i = 0; i < stacks->frame_count; i++) {
        const struct gsp_sv file = stacks->frames[i].file;
        if (file.len && memmem(file.p, file.len, FOLDER, sizeof(FOLDER) - 1))
            return true;
    }
    return false;
}

/* Lists the kinds of data that the run does not have, with the reason if known. */
static void judge_unknown(const struct gsp_verdict_input *judge)
{
    const struct gsp_report *report = judge->report;
    const bool has_stacks = report->stacks.seen > 0;
    const bool has_machine = gsp_report_chart_find(report, "machine_cpu") != NULL;
    const struct {
        bool is_there;
        const char *what;
        const char *why; /* NULL: not known */
    } parts[] = {
        {has_stacks, "stacks", NULL},
        {!isnan(report->memory.peak_rss_bytes), "memory", NULL},
        {report->step_count > 0, "steps", "none marked with gsprof.step()"},
        {report->module_count > 0, "modules",
         has_stacks && !has_torch(report) ? "PyTorch not used" : NULL},
        {!isnan(judge->shares.gpu_idle), "GPU", has_machine ? "none found" : NULL},
    };
    gsp_auto_buf text = {0};
    if (report->kind != GSP_REPORT_RUN)
        return;
    for (size_t i = 0; i < GSP_COUNT(parts); i++) {
        if (parts[i].is_there)
            continue;
        gsp_buf_puts(&text, text.len ? ", " : "No data: ");
        gsp_buf_puts(&text, parts[i].what);
        if (parts[i].why)
            gsp_buf_printf(&text, " (%s)", parts[i].why);
    }
    add_line(judge, &text);
}

/* Whether a shell needs no quotes for the text; a command may have spaces. */
static bool is_plain(struct gsp_sv text, bool is_command)
{
    static const char PLAIN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+@:=-";
    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] == '\0' || (!strchr(PLAIN, text.p[i]) && !(is_command && text.p[i] == ' ')))
            return false;
    return text.len > 0 && text.p[0] != '-';
}

/* Suggests one command for the most prominent finding. */
static void judge_next(const struct gsp_verdict_input *judge)
{
    const struct gsp_report *report = judge->report;
    gsp_auto_buf text = {0};
    const bool has_stacks = report->stacks.seen > 0;
    const bool of_steps = judge->steps.max_s > STRAGGLE_MIN * judge->steps.p50_s ||
                          (!has_stacks && report->step_count > 0);
    const bool grows = report->memory.growth_bytes_per_s > 0;
    if (report->kind != GSP_REPORT_RUN || report->path.len == 0 ||
        (!has_stacks && !of_steps && !grows))
        return;
    gsp_buf_puts(&text, "Next: gsprof ");
    if (grows) {
        gsp_buf_puts(&text,
                     report->stacks.process_count > 1 ? "mem record -s -- " : "mem record -- ");
        gsp_buf_putsv(&text,
                      is_plain(report->command, true) ? report->command : gsp_sv_of("PROGRAM"));
    } else {
        gsp_buf_puts(&text, "query ");
        gsp_buf_putsv(&text, is_plain(report->path, false) ? report->path : gsp_sv_of("RUN"));
        gsp_buf_puts(&text, of_steps ? " 'FROM gsprof.slow_steps() LIMIT 10'"
                                     : " 'FROM gsprof.hot_lines() LIMIT 10'");
    }
    const size_t before = report->verdict_count;
    add_line(judge, &text);
    judge->report->verdict_has_next = report->verdict_count > before;
}

/* Whether the program failed during startup. */
static bool failed_early(const struct gsp_verdict_input *judge)
{
    const struct gsp_report *report = judge->report;
    const bool did_start = report->stacks.seen > 0 ? !(judge->shares.worked < WORKED_MIN_S)
                                                   : !(report->duration_s < EARLY_S);
    return report->kind == GSP_REPORT_RUN && report->exit_status > 0 && !did_start &&
           report->step_count == 0 && report->span_count == 0;
}

static void judge_failure(const struct gsp_verdict_input *judge)
{
    gsp_auto_buf text = {0};
    gsp_buf_printf(&text,
                   "The program failed with status %" PRId64 " during startup; see its output",
                   judge->report->exit_status);
    add_line(judge, &text);
}

/* The verdict for a program that did not fail during startup. */
static void judge_all(const struct gsp_verdict_input *judge)
{
    struct gsp_report *report = judge->report;
    judge_time(judge);
    judge_native_threads(judge);
    judge_functions(judge);
    judge_gpu(judge);
    judge_steps(judge);
    judge_ranks(judge);
    judge_module(judge);
    judge_traced(judge);
    judge_loading(judge);
    judge_memory(judge);
    /* The last two lines are for losses and the next command. */
    if (report->verdict_count > GSP_VERDICT_LINES_MAX - 2)
        report->verdict_count = GSP_VERDICT_LINES_MAX - 2;
    if (report->verdict_count < GSP_VERDICT_LINES_MAX - 2)
        judge_unknown(judge);
    judge_losses(judge);
    judge_next(judge);
}

int gsp_report__verdict_fill(struct gsp_report *report, struct gsp_err *err)
{
    struct gsp_verdict_input judge = {.report = report};
    report->verdict_count = 0;
    report->verdict_has_next = false;
    report->card_count = 0;
    int rc = gsp_report__time_shares_compute(report, &judge.shares, err);
    if (rc == GSP_OK)
        rc = gsp_report__step_stats_compute(report, &judge.steps, err);
    if (rc < 0)
        return rc;
    report->failed_early = failed_early(&judge);
    if (report->failed_early)
        judge_failure(&judge);
    else
        judge_all(&judge);
    gsp_report__cards_fill(&judge);
    return report->no_memory ? gsp_err_nomem(err) : GSP_OK;
}

void gsp_report_verdict_put(const struct gsp_report *report, struct gsp_buf *findings,
                            struct gsp_buf *next)
{
    for (size_t i = 0; i < report->verdict_count; i++) {
        const bool is_next = report->verdict_has_next && i == report->verdict_count - 1;
        struct gsp_buf *out = is_next ? next : findings;
        gsp_buf_term(out, report->verdict[i]);
        gsp_buf_putc(out, '\n');
    }
}
