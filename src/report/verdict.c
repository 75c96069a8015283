/* SPDX-License-Identifier: Apache-2.0 */
#include "report/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/time.h"
#include "model/format.h"
#include "model/tree.h"
#include "report/cards.h"
#include "report/document_internal.h"
#include "report/phrases.h"

/* Functions that the verdict names. */
#define NAMES_MAX     3U
/* Bytes of a reason that fits a line. */
#define REASON_MAX    60U
#define REASONS_MAX   4U
/* Less than this share is not worth a word. */
#define SHARE_MIN     0.01
/* A rank that is slower than the others by more than this is behind. */
#define BEHIND_MIN    0.03
/* A step that takes so many times the median is told. */
#define STRAGGLE_MIN  3.0
/* A program that fails with less work than this, imports left out, has done nothing yet; one
 * without stacks that fails within this time. */
#define WORKED_MIN_S  0.1
#define EARLY_S       3.0
/* Processes whose steps are compared with their data. */
#define STRETCHES_MAX 64U

static void add_line(const struct gsp_judge *judge, struct gsp_buf *text)
{
    struct gsp_digest *digest = judge->digest;
    if (text->len == 0 || digest->verdict_count >= GSP_VERDICT_LINES_MAX)
        return;
    struct gsp_sv *more =
        gsp_digest__more(digest, digest->verdict, digest->verdict_count, sizeof(*digest->verdict));
    if (!more)
        return;
    digest->verdict = more;
    more[digest->verdict_count++] = gsp_digest__keep_buf(digest, text);
}

/* CPU time of threads that never ran Python, in cores. */
static double native_share(const struct gsp_digest *digest)
{
    return digest->duration_s > 0 ? digest->native.cpu_s / digest->duration_s : 0;
}

/* What samples of Python do not show. */
static void tell_native_threads(const struct gsp_judge *judge)
{
    const struct gsp_digest_native *native = &judge->digest->native;
    size_t shown = 0;
    gsp_auto_buf text = {0};
    if (!(native_share(judge->digest) >= SHARE_MIN))
        return;
    gsp_buf_puts(&text, "Threads without Python used ");
    gsp_words_seconds(native->cpu_s, &text);
    gsp_buf_printf(&text, " of CPU, %.2f cores: ", native_share(judge->digest));
    for (size_t i = 0; i < native->top_count; i++) {
        const struct gsp_digest_named_cpu *at = &native->top[i];
        gsp_buf_puts(&text, i ? ", " : "");
        gsp_buf_putsv(&text, at->name.len ? at->name : gsp_sv_of("(no name)"));
        if (at->threads > 1)
            gsp_buf_printf(&text, " (%zu threads)", at->threads);
        gsp_buf_putc(&text, ' ');
        gsp_words_seconds(at->cpu_s, &text);
        shown += at->threads;
    }
    if (shown < native->threads)
        gsp_buf_printf(&text, ", %zu more", native->threads - shown);
    gsp_buf_puts(&text, "; gsprof record --native shows their stacks");
    add_line(judge, &text);
}

static void tell_time(const struct gsp_judge *judge)
{
    const struct gsp_shares *shares = &judge->shares;
    gsp_auto_buf text = {0};
    if (!(shares->total > 0))
        return;
    gsp_buf_puts(&text, shares->mains == 0   ? "All threads: "
                        : shares->mains == 1 ? "Main thread: "
                                             : "Main threads: ");
    gsp_words_share(shares->has_native ? shares->python : shares->python + shares->native,
                    shares->total, &text);
    gsp_buf_puts(&text, shares->has_native ? " Python, " : " Python and the C code it calls");
    if (shares->has_native) {
        gsp_words_share(shares->native, shares->total, &text);
        gsp_buf_puts(&text, " native code");
    }
    if (shares->knows_waiting) {
        gsp_buf_puts(&text, ", ");
        gsp_words_share(shares->waiting, shares->total, &text);
        gsp_buf_puts(&text, native_share(judge->digest) >= SHARE_MIN
                                ? " waiting (also for threads without Python)"
                                : " waiting");
    } else {
        gsp_buf_puts(&text, shares->is_running_only
                                ? " of the running time; waiting threads were not recorded"
                                : "; what of it was waiting is not known");
    }
    add_line(judge, &text);
}

/* By what they used of the CPU, where that is known: threads that wait would come first. */
static double weight_of(const struct gsp_digest_function *function)
{
    return isnan(function->own_cpu) ? function->own : function->own_cpu;
}

static void tell_functions(const struct gsp_judge *judge)
{
    const struct gsp_digest_stacks *stacks = &judge->digest->stacks;
    const double all = isnan(stacks->total_cpu) ? stacks->total : stacks->total_cpu;
    const struct gsp_digest_function *top[NAMES_MAX] = {NULL};
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < stacks->function_count; i++) {
        const struct gsp_digest_function *at = &stacks->functions[i];
        for (size_t k = 0; k < NAMES_MAX; k++) {
            if (top[k] && weight_of(at) <= weight_of(top[k]))
                continue;
            const struct gsp_digest_function *moved = top[k];
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
        gsp_words_function(top[k]->func, top[k]->file, &text);
        gsp_buf_putc(&text, ' ');
        gsp_words_share(weight_of(top[k]), all, &text);
    }
    add_line(judge, &text);
}

static void tell_gpu(const struct gsp_judge *judge)
{
    const struct gsp_shares *shares = &judge->shares;
    gsp_auto_buf text = {0};
    if (isnan(shares->gpu_idle))
        return;
    gsp_buf_puts(&text, "GPU idle ");
    gsp_words_share(shares->gpu_idle, 1, &text);
    gsp_buf_puts(&text, " of the time");
    if (shares->gpu_idle >= SHARE_MIN && shares->idle_top > 0) {
        gsp_buf_puts(&text, "; meanwhile Python was in ");
        gsp_words_function(shares->idle.func, shares->idle.file, &text);
        gsp_buf_puts(&text, " for ");
        gsp_words_share(shares->idle_top, shares->idle_total, &text);
    } else if (shares->gpu_idle >= SHARE_MIN) {
        gsp_buf_puts(&text, shares->gpu_seen > 0 ? "; never all GPUs at once"
                                                 : "; what Python did meanwhile is not known");
    }
    add_line(judge, &text);
}

static void tell_memory(const struct gsp_judge *judge)
{
    const struct gsp_digest_memory *memory = &judge->digest->memory;
    gsp_auto_buf text = {0};
    if (isnan(memory->peak_rss_bytes))
        return;
    gsp_buf_puts(&text, "Memory peaked at ");
    gsp_words_bytes(memory->peak_rss_bytes, &text);
    if (isnan(memory->growth_bytes_per_s)) {
        gsp_buf_puts(&text, "; too short to tell whether it grows");
    } else if (memory->growth_bytes_per_s > 0) {
        gsp_buf_puts(&text, " and grew by ");
        gsp_words_bytes(memory->growth_bytes_per_s, &text);
        gsp_buf_puts(&text, "/s to the end");
    } else {
        gsp_buf_puts(&text, ", no lasting growth");
    }
    add_line(judge, &text);
}

static void tell_steps(const struct gsp_judge *judge)
{
    const struct gsp_steps *steps = &judge->steps;
    gsp_auto_buf text = {0};
    if (steps->count == 0)
        return;
    gsp_model_count_put(steps->count, &text);
    gsp_buf_puts(&text, steps->count == 1 ? " step of " : " steps, half of them within ");
    gsp_words_seconds(steps->p50_s, &text);
    if (steps->count > 1) {
        gsp_buf_puts(&text, ", 95 % within ");
        gsp_words_seconds(steps->p95_s, &text);
    }
    if (steps->max_s > STRAGGLE_MIN * steps->p50_s) {
        gsp_buf_puts(&text, "; slowest ");
        gsp_words_seconds(steps->max_s, &text);
        if (steps->max_step != GSP_NULL_I64)
            gsp_buf_printf(&text, " (step %" PRId64 ")", steps->max_step);
    }
    add_line(judge, &text);
}

/* Fewer steps than the user asked for have rows of modules. */
static void tell_traced(const struct gsp_judge *judge)
{
    const struct gsp_digest *digest = judge->digest;
    gsp_auto_buf text = {0};
    if (digest->steps_traced == 0 || digest->steps_traced >= digest->step_count)
        return;
    gsp_buf_puts(&text, "Traced ");
    gsp_model_count_put(digest->steps_traced, &text);
    gsp_buf_puts(&text, " of ");
    gsp_model_count_put(digest->step_count, &text);
    gsp_buf_puts(&text, " steps, to keep the cost within torch.adaptive");
    add_line(judge, &text);
}

/* What a rank's steps took together; the whole run where there are none. */
static double steps_of_rank_s(const struct gsp_digest *digest)
{
    double sum_s = 0;
    for (size_t i = 0; i < digest->step_count; i++)
        sum_s += digest->steps[i].duration_s;
    return sum_s > 0 ? sum_s / (double)digest->rank_count : digest->duration_s;
}

/* Steps that end together hide who is late: the rank that the others wait for waits least. */
static bool put_awaited(const struct gsp_digest *digest, struct gsp_buf *out)
{
    const struct gsp_digest_rank *least = NULL;
    double others_s = 0;
    for (size_t i = 0; i < digest->rank_count; i++) {
        if (!least || digest->ranks[i].collective_s < least->collective_s)
            least = &digest->ranks[i];
        others_s += digest->ranks[i].collective_s;
    }
    if (digest->rank_count < 2 || !least)
        return false;
    others_s = (others_s - least->collective_s) / (double)(digest->rank_count - 1);
    const double behind_s = others_s - least->collective_s;
    if (!(behind_s > BEHIND_MIN * steps_of_rank_s(digest)))
        return false;
    gsp_buf_printf(out, "The others wait for rank %" PRId64 ": it spent ", least->rank);
    gsp_words_seconds(least->collective_s, out);
    gsp_buf_puts(out, " in collectives, they ");
    gsp_words_seconds(others_s, out);
    gsp_buf_puts(out, " each");
    return true;
}

static void tell_ranks(const struct gsp_judge *judge)
{
    const struct gsp_steps *steps = &judge->steps;
    const double behind =
        steps->rank_count > 1 ? steps->slow_p50_s / steps->rank_p50_s - 1 : (double)NAN;
    gsp_auto_buf text = {0};
    if (behind > BEHIND_MIN) {
        gsp_buf_printf(&text, "Rank %" PRId64 " is the slowest of %zu: its steps take ",
                       steps->slow_rank, steps->rank_count);
        gsp_words_share(behind, 1, &text);
        gsp_buf_puts(&text, " longer than the others'");
    } else if (!put_awaited(judge->digest, &text) && !isnan(behind)) {
        /* Not that none is slow: collectives that PyTorch starts from C++ are not seen. */
        gsp_buf_printf(&text, "Steps of the %zu ranks take equally long, within ",
                       steps->rank_count);
        gsp_words_share(behind > 0 ? behind : 0, 1, &text);
    }
    add_line(judge, &text);
}

/* A module that has others in it takes what they take: the heaviest that has none is told.  A whole
 * model goes by the name of its class, and what is in it by names of their own. */
static bool has_parts(const struct gsp_digest *digest, const struct gsp_digest_module *module)
{
    const size_t len = module->module.len;
    const bool is_whole = len == 0 || gsp_sv_eq(module->module, module->class_name);
    for (size_t i = 0; i < digest->module_count; i++) {
        const struct gsp_digest_module *other = &digest->modules[i];
        if (is_whole && !gsp_sv_eq(other->module, other->class_name))
            return true;
        if (len > 0 && other->module.len > len && other->module.p[len] == '.' &&
            memcmp(other->module.p, module->module.p, len) == 0)
            return true;
    }
    return false;
}

static void tell_module(const struct gsp_judge *judge)
{
    const struct gsp_digest *digest = judge->digest;
    gsp_auto_buf text = {0};
    for (size_t i = 0; i < digest->module_count; i++) {
        const struct gsp_digest_module *module = &digest->modules[i];
        if (has_parts(digest, module))
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
        gsp_words_seconds(module->mean_s, &text);
        gsp_buf_puts(&text, " a call");
        if (!isnan(module->share)) {
            gsp_buf_puts(&text, ", ");
            gsp_words_share(module->share, 1, &text);
            gsp_buf_puts(&text, " of the traced steps");
        }
        break;
    }
    add_line(judge, &text);
}

/* From the first step of a process to the end of its last. */
struct stretch {
    int64_t pid;
    double begin;
    double end;
};

struct stretches {
    struct stretch at[STRETCHES_MAX];
    size_t count;
    double steps_s; /* of all steps of these processes */
};

static struct stretch *find_stretch(struct stretches *all, int64_t pid)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].pid == pid)
            return &all->at[i];
    return NULL;
}

static void find_stretches(const struct gsp_digest *digest, struct stretches *out)
{
    out->count = 0;
    out->steps_s = 0;
    for (size_t i = 0; i < digest->step_count; i++) {
        const struct gsp_digest_step *step = &digest->steps[i];
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

/* Of the time of the steps, where some are known: starting up is no part of training, and a process
 * that only loads data for another delays no step. */
static void put_data_share(const struct gsp_digest *digest, double data_s, struct gsp_buf *out)
{
    struct stretches all;
    double within_s = 0;
    find_stretches(digest, &all);
    for (size_t i = 0; i < digest->span_count; i++) {
        const struct gsp_digest_span *span = &digest->spans[i];
        const struct stretch *stretch = span->is_data ? find_stretch(&all, span->pid) : NULL;
        if (stretch && span->t >= stretch->begin && span->t < stretch->end)
            within_s += span->duration_s;
    }
    if (within_s > 0) {
        gsp_words_share(fmin(within_s, all.steps_s), all.steps_s, out);
        gsp_buf_puts(out, " of the time of the steps");
    } else {
        gsp_words_share(data_s, digest->duration_s, out);
        gsp_buf_puts(out, " of the wall time");
    }
}

/* By the program's own spans, else by what the stacks show of torch.utils.data. */
static void tell_loading(const struct gsp_judge *judge)
{
    const struct gsp_digest *digest = judge->digest;
    const struct gsp_shares *shares = &judge->shares;
    gsp_auto_buf text = {0};
    double data_s = 0;
    for (size_t i = 0; i < digest->span_count; i++)
        data_s += digest->spans[i].is_data ? digest->spans[i].duration_s : 0;
    if (data_s > SHARE_MIN * digest->duration_s) {
        gsp_buf_puts(&text, "Data loading: ");
        gsp_words_seconds(data_s, &text);
        gsp_buf_puts(&text, " in spans of data, ");
        put_data_share(digest, data_s, &text);
    } else if (shares->loading > SHARE_MIN * shares->total) {
        gsp_buf_puts(&text, "Data loading: ");
        gsp_words_share(shares->loading, shares->total, &text);
        gsp_buf_puts(&text,
                     shares->mains == 1 ? " of the main thread's time" : " of the threads' time");
    }
    add_line(judge, &text);
}

/* Of all losses of one kind, those for the reason of one of them. */
static uint64_t count_reason(const struct gsp_digest *digest, const struct gsp_digest_loss *loss)
{
    uint64_t count = 0;
    for (size_t i = 0; i < digest->loss_count; i++) {
        const struct gsp_digest_loss *other = &digest->losses[i];
        if (gsp_sv_eq(other->what, loss->what) && gsp_sv_eq(other->why, loss->why))
            count = gsp_sum_u64(count, other->count);
    }
    return count;
}

/* The most frequent reason for losses of a kind that is not among the told; NULL: none is left. */
static const struct gsp_digest_loss *next_reason(const struct gsp_digest *digest,
                                                 struct gsp_sv what,
                                                 const struct gsp_digest_loss *const *told,
                                                 size_t told_count)
{
    const struct gsp_digest_loss *found = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < digest->loss_count; i++) {
        const struct gsp_digest_loss *loss = &digest->losses[i];
        bool is_told = !gsp_sv_eq(loss->what, what) || !loss->why.len || loss->why.len > REASON_MAX;
        for (size_t k = 0; k < told_count && !is_told; k++)
            is_told = gsp_sv_eq(told[k]->why, loss->why);
        const uint64_t times = is_told ? 0 : count_reason(digest, loss);
        if (times > most) {
            most = times;
            found = loss;
        }
    }
    return found;
}

/* Why: one reason, or each with its number, the most frequent first. */
static void put_reasons(const struct gsp_digest *digest, struct gsp_sv what, uint64_t count,
                        struct gsp_buf *out)
{
    const struct gsp_digest_loss *told[REASONS_MAX];
    const struct gsp_digest_loss *loss = NULL;
    size_t n = 0;
    uint64_t rest = count;
    while (n < REASONS_MAX && (loss = next_reason(digest, what, told, n))) {
        const uint64_t times = count_reason(digest, loss);
        gsp_buf_puts(out, n ? "; " : " (");
        if (times < count) {
            gsp_model_count_put(times, out);
            gsp_buf_puts(out, ": ");
        }
        gsp_buf_putsv(out, loss->why);
        rest -= times < rest ? times : rest;
        told[n++] = loss;
    }
    if (n && rest) {
        gsp_buf_puts(out, "; ");
        gsp_model_count_put(rest, out);
        gsp_buf_puts(out, ": other reasons");
    }
    gsp_buf_puts(out, n ? ")" : "");
}

/* "samples", "rows of python.span": one of them is a sample, a row. */
static void put_nouns(struct gsp_sv what, uint64_t count, struct gsp_buf *out)
{
    static const char *const NOUNS[][2] = {{"samples", "sample"},
                                           {"processes", "process"},
                                           {"stacks", "stack"},
                                           {"rows", "row"},
                                           {"files", "file"}};
    for (size_t i = 0; count == 1 && i < GSP_COUNT(NOUNS); i++) {
        const size_t len = strlen(NOUNS[i][0]);
        if (!gsp_sv_starts(what, NOUNS[i][0]) || (what.len > len && what.p[len] != ' '))
            continue;
        gsp_buf_puts(out, NOUNS[i][1]);
        what = (struct gsp_sv){what.p + len, what.len - len};
        break;
    }
    gsp_buf_putsv(out, what);
}

/* All losses of one kind together. */
static void put_loss(const struct gsp_digest *digest, size_t first, struct gsp_buf *out)
{
    const struct gsp_sv what = digest->losses[first].what;
    uint64_t count = 0;
    for (size_t i = first; i < digest->loss_count; i++)
        if (gsp_sv_eq(digest->losses[i].what, what))
            count = gsp_sum_u64(count, digest->losses[i].count);
    gsp_model_count_put(count, out);
    gsp_buf_putc(out, ' ');
    put_nouns(what, count, out);
    put_reasons(digest, what, count, out);
}

static void tell_losses(const struct gsp_judge *judge)
{
    const struct gsp_digest *digest = judge->digest;
    gsp_auto_buf text = {0};
    size_t kinds = 0;
    for (size_t i = 0; i < digest->loss_count; i++) {
        bool is_told = false;
        for (size_t k = 0; k < i && !is_told; k++)
            is_told = gsp_sv_eq(digest->losses[k].what, digest->losses[i].what);
        if (is_told || ++kinds > NAMES_MAX)
            continue;
        gsp_buf_puts(&text, kinds > 1 ? ", " : "Missing: ");
        put_loss(digest, i, &text);
    }
    if (kinds > NAMES_MAX)
        gsp_buf_printf(&text, " and %zu more", kinds - NAMES_MAX);
    /* Without stacks it is not known what else there would have been. */
    if (kinds == 0 && digest->has_losses && digest->stacks.seen > 0)
        gsp_buf_puts(&text, "Nothing was lost");
    add_line(judge, &text);
}

static bool has_torch(const struct gsp_digest *digest)
{
    static const char FOLDER[] = "/torch/";
    const struct gsp_digest_stacks *stacks = &digest->stacks;
    for (size_t i = 0; i < stacks->frame_count; i++) {
        const struct gsp_sv file = stacks->frames[i].file;
        if (file.len && memmem(file.p, file.len, FOLDER, sizeof(FOLDER) - 1))
            return true;
    }
    return false;
}

/* What a run could have and this one has not, and why, where that is known. */
static void tell_unknown(const struct gsp_judge *judge)
{
    const struct gsp_digest *digest = judge->digest;
    const bool has_stacks = digest->stacks.seen > 0;
    const bool has_machine = gsp_digest_chart_find(digest, "machine_cpu") != NULL;
    const struct {
        bool is_there;
        const char *what;
        const char *why; /* NULL: not known */
    } parts[] = {
        {has_stacks, "stacks", NULL},
        {!isnan(digest->memory.peak_rss_bytes), "memory", NULL},
        {digest->step_count > 0, "steps", "gsprof.step() marks them"},
        {digest->module_count > 0, "modules",
         has_stacks && !has_torch(digest) ? "PyTorch not used" : NULL},
        {!isnan(judge->shares.gpu_idle), "GPU", has_machine ? "none found" : NULL},
    };
    gsp_auto_buf text = {0};
    if (digest->kind != GSP_DIGEST_RUN)
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

/* A shell reads it as it stands; a command has spaces too. */
static bool is_plain(struct gsp_sv text, bool is_command)
{
    static const char PLAIN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+@:=-";
    for (size_t i = 0; i < text.len; i++)
        if (text.p[i] == '\0' || (!strchr(PLAIN, text.p[i]) && !(is_command && text.p[i] == ' ')))
            return false;
    return text.len > 0 && text.p[0] != '-';
}

/* One command that leads on from what stands out most. */
static void tell_next(const struct gsp_judge *judge)
{
    const struct gsp_digest *digest = judge->digest;
    gsp_auto_buf text = {0};
    const bool has_stacks = digest->stacks.seen > 0;
    const bool of_steps = judge->steps.max_s > STRAGGLE_MIN * judge->steps.p50_s ||
                          (!has_stacks && digest->step_count > 0);
    const bool grows = digest->memory.growth_bytes_per_s > 0;
    if (digest->kind != GSP_DIGEST_RUN || digest->path.len == 0 ||
        (!has_stacks && !of_steps && !grows))
        return;
    gsp_buf_puts(&text, "Next: gsprof ");
    if (grows) {
        gsp_buf_puts(&text,
                     digest->stacks.process_count > 1 ? "mem record -s -- " : "mem record -- ");
        gsp_buf_putsv(&text,
                      is_plain(digest->command, true) ? digest->command : gsp_sv_of("PROGRAM"));
    } else {
        gsp_buf_puts(&text, "query ");
        gsp_buf_putsv(&text, is_plain(digest->path, false) ? digest->path : gsp_sv_of("RUN"));
        gsp_buf_puts(&text, of_steps ? " 'FROM gsprof.slow_steps() LIMIT 10'"
                                     : " 'FROM gsprof.hot_lines() LIMIT 10'");
    }
    add_line(judge, &text);
}

/* Whether the program failed before it did anything: while it started, as far as stacks tell. */
static bool failed_early(const struct gsp_judge *judge)
{
    const struct gsp_digest *digest = judge->digest;
    const bool did_start = digest->stacks.seen > 0 ? !(judge->shares.worked < WORKED_MIN_S)
                                                   : !(digest->duration_s < EARLY_S);
    return digest->kind == GSP_DIGEST_RUN && digest->exit_status > 0 && !did_start &&
           digest->step_count == 0 && digest->span_count == 0;
}

static void tell_failure(const struct gsp_judge *judge)
{
    gsp_auto_buf text = {0};
    gsp_buf_printf(&text,
                   "The program failed with status %" PRId64
                   ", too early for a verdict: what it printed says why",
                   judge->digest->exit_status);
    add_line(judge, &text);
}

/* What is said of a program that ran. */
static void tell_all(const struct gsp_judge *judge)
{
    struct gsp_digest *digest = judge->digest;
    tell_time(judge);
    tell_native_threads(judge);
    tell_functions(judge);
    tell_gpu(judge);
    tell_steps(judge);
    tell_ranks(judge);
    tell_module(judge);
    tell_traced(judge);
    tell_loading(judge);
    tell_memory(judge);
    /* The last two lines of ten are for what is missing and for what to do. */
    if (digest->verdict_count > GSP_VERDICT_LINES_MAX - 2)
        digest->verdict_count = GSP_VERDICT_LINES_MAX - 2;
    if (digest->verdict_count < GSP_VERDICT_LINES_MAX - 2)
        tell_unknown(judge);
    tell_losses(judge);
    tell_next(judge);
}

int gsp_digest_judge(struct gsp_digest *digest, struct gsp_err *err)
{
    struct gsp_judge judge = {.digest = digest};
    digest->verdict_count = 0;
    digest->card_count = 0;
    int rc = gsp_digest__shares(digest, &judge.shares, err);
    if (rc == GSP_OK)
        rc = gsp_digest__step_stats(digest, &judge.steps, err);
    if (rc < 0)
        return rc;
    digest->failed_early = failed_early(&judge);
    if (digest->failed_early)
        tell_failure(&judge);
    else
        tell_all(&judge);
    gsp_digest__cards(&judge);
    return digest->no_memory ? gsp_err_set(err, GSP_E_NOMEM, 0, "no memory for a report") : GSP_OK;
}

void gsp_digest_verdict_text(const struct gsp_digest *digest, struct gsp_buf *out)
{
    for (size_t i = 0; i < digest->verdict_count; i++) {
        gsp_buf_term(out, digest->verdict[i]);
        gsp_buf_putc(out, '\n');
    }
}
