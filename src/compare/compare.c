/* SPDX-License-Identifier: Apache-2.0 */
#include "compare/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare_internal.h"

/* Rates that differ by less are considered equal. */
#define RATE_SLACK 0.01

const char *gsp_compare__verdict_name(enum gsp_compare_verdict verdict)
{
    static const char *const names[] = {"unknown", "same", "better", "worse", "changed"};
    return names[verdict];
}

const char *gsp_compare__verdict_text(enum gsp_compare_verdict verdict)
{
    return verdict == GSP_COMPARE_UNKNOWN ? "too few values" : gsp_compare__verdict_name(verdict);
}

struct gsp_sv gsp_compare__text_keep(struct gsp_compare *compare, struct gsp_buf *text)
{
    if (text->failed || !gsp_array_fit_next(&compare->texts, compare->text_count)) {
        compare->no_memory = true;
        gsp_buf_free(text);
        return gsp_sv_of("");
    }
    compare->texts[compare->text_count] = *text;
    *text = (struct gsp_buf){0};
    return gsp_buf_sv(&compare->texts[compare->text_count++]);
}

struct gsp_sv gsp_compare__text_printf(struct gsp_compare *compare, const char *fmt, ...)
{
    char text[512];
    struct gsp_buf kept = {0};
    va_list args;
    va_start(args, fmt);
    const int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len > 0)
        gsp_buf_put(&kept, text, strlen(text));
    return gsp_compare__text_keep(compare, &kept);
}

void gsp_compare__note_add(struct gsp_compare *compare, struct gsp_sv text)
{
    if (!gsp_compare__array_fit(compare, &compare->notes, compare->note_count))
        return;
    compare->notes[compare->note_count++] = text;
}

const struct gsp_compare_row *gsp_compare__metric_find(const struct gsp_compare *compare,
                                                       const char *name)
{
    for (size_t i = 0; i < compare->metric_count; i++)
        if (gsp_sv_eq(compare->metrics[i].name, gsp_sv_of(name)))
            return &compare->metrics[i];
    return NULL;
}

void gsp_compare_free(struct gsp_compare *compare)
{
    if (!compare)
        return;
    for (size_t i = 0; i < compare->text_count; i++)
        gsp_buf_free(&compare->texts[i]);
    free(compare->texts);
    free(compare->notes);
    free(compare->metrics);
    free(compare->modules);
    free(compare->functions);
    free(compare->order);
    free(compare->nodes);
    free(compare);
}

/* Chooses two different names. */
static void name_sides(struct gsp_compare *compare, const struct gsp_compare_opts *opts)
{
    static const char *const letters[2] = {"A", "B"};
    for (int i = 0; i < 2; i++)
        compare->name[i] =
            opts && opts->name[i] ? gsp_sv_of(opts->name[i]) : compare->side[i]->name;
    if (!gsp_sv_eq(compare->name[0], compare->name[1]) && compare->name[0].len > 0 &&
        compare->name[1].len > 0)
        return;
    for (int i = 0; i < 2; i++)
        compare->name[i] = gsp_sv_of(letters[i]);
}

static bool is_all_same(const struct gsp_compare *compare)
{
    bool same = compare->metric_count + compare->module_count + compare->function_count > 0;
    for (size_t i = 0; same && i < compare->metric_count; i++)
        same = !(compare->metrics[i].value[0] != compare->metrics[i].value[1]);
    for (size_t i = 0; same && i < compare->module_count; i++)
        same = !(compare->modules[i].value[0] != compare->modules[i].value[1]);
    for (size_t i = 0; same && i < compare->node_count; i++)
        same = !(compare->nodes[i].own[0] != compare->nodes[i].own[1]);
    return same;
}

/* Describes a recording, for the error message. */
static void put_kinds(const struct gsp_report *report, struct gsp_buf *out)
{
    static const char *const kinds[] = {"a run", "a session", "a profile", "a memory recording"};
    gsp_buf_puts(out, kinds[report->kind]);
    const char *sep = " with ";
    for (size_t i = 0; i < report->chart_count && i < 4; i++) {
        gsp_buf_puts(out, sep);
        gsp_buf_term(out, report->charts[i].id);
        sep = ", ";
    }
    if (report->stacks.node_count > 0)
        gsp_buf_printf(out, "%sstacks", sep);
    else if (sep[0] == ' ')
        gsp_buf_puts(out, " without values");
}

/* Whether the recordings have a metric, module or function in common. */
static bool has_common(const struct gsp_compare *compare)
{
    for (size_t i = 0; i < compare->function_count; i++)
        if (compare->functions[i].total[0] > 0 && compare->functions[i].total[1] > 0)
            return true;
    return compare->metric_count + compare->module_count > 0;
}

static int nothing_common(const struct gsp_compare *compare, struct gsp_err *err)
{
    gsp_auto_buf text = {0};
    gsp_buf_puts(&text, "nothing in common: the first is ");
    put_kinds(compare->side[0], &text);
    gsp_buf_puts(&text, ", the second ");
    put_kinds(compare->side[1], &text);
    const char *shown = gsp_buf_cstr(&text);
    return gsp_err_set(err, GSP_E_FORMAT, 0, "%.230s", shown ? shown : "nothing in common");
}

/* Adds notes on settings that make the recordings hard to compare. */
static void note_settings(struct gsp_compare *compare)
{
    const struct gsp_report *const *side = compare->side;
    const double rates[2] = {1 / side[0]->period_s, 1 / side[1]->period_s};
    if (isfinite(rates[0]) && isfinite(rates[1]) && fabs(rates[1] / rates[0] - 1) > RATE_SLACK)
        gsp_compare__note_add(
            compare, gsp_compare__text_printf(compare,
                                              "different sampling rates (%.4g Hz, %.4g Hz): the "
                                              "overhead of sampling differs",
                                              rates[0], rates[1]));
    if (side[0]->command.len > 0 && side[1]->command.len > 0 &&
        !gsp_sv_eq(side[0]->command, side[1]->command)) {
        struct gsp_buf text = {0};
        gsp_buf_puts(&text, "different commands (");
        gsp_buf_term(&text, side[0]->command);
        gsp_buf_puts(&text, "; ");
        gsp_buf_term(&text, side[1]->command);
        gsp_buf_putc(&text, ')');
        gsp_compare__note_add(compare, gsp_compare__text_keep(compare, &text));
    }
    for (int i = 0; i < 2; i++) {
        if (side[i]->exit_status > 0)
            gsp_compare__note_add(compare, gsp_compare__text_printf(
                                               compare,
                                               "the program of the %s recording failed with "
                                               "status %" PRId64,
                                               i == 0 ? "first" : "second", side[i]->exit_status));
    }
}

static void note_machines(struct gsp_compare *compare)
{
    const struct gsp_report *const *side = compare->side;
    if (side[0]->host.len > 0 && side[1]->host.len > 0 && !gsp_sv_eq(side[0]->host, side[1]->host))
        gsp_compare__note_add(
            compare, gsp_compare__text_printf(compare,
                                              "different machines (%.*s, %.*s): they may cause "
                                              "differences",
                                              (int)side[0]->host.len, side[0]->host.p,
                                              (int)side[1]->host.len, side[1]->host.p));
    for (int i = 0; i < 2; i++) {
        if (compare->warmup[i] > 0)
            gsp_compare__note_add(
                compare,
                gsp_compare__text_printf(compare, "%zu of %zu steps of %.*s excluded as warm-up",
                                         compare->warmup[i], compare->warmup[i] + compare->steps[i],
                                         (int)compare->name[i].len, compare->name[i].p));
    }
}

int gsp_compare__new(const struct gsp_report *a, const struct gsp_report *b,
                     const struct gsp_compare_opts *opts, struct gsp_compare **out,
                     struct gsp_err *err)
{
    *out = NULL;
    struct gsp_compare *compare = calloc(1, sizeof(*compare));
    if (!compare)
        return gsp_err_nomem(err);
    compare->side[0] = a;
    compare->side[1] = b;
    name_sides(compare, opts);
    struct gsp_step_series steps[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        gsp_compare__step_series_fill(compare, compare->side[i], opts ? opts->warmup : -1,
                                      &steps[i]);
        compare->warmup[i] = steps[i].warmup;
        compare->steps[i] = steps[i].count - steps[i].warmup;
    }
    gsp_compare__metrics_fill(compare, steps);
    gsp_compare__modules_fill(compare);
    gsp_compare__functions_fill(compare, opts ? opts->per : GSP_PER_AUTO, steps);
    for (int i = 0; i < 2; i++)
        gsp_compare__step_series_clear(&steps[i]);
    note_settings(compare);
    note_machines(compare);
    compare->is_same = is_all_same(compare);
    gsp_compare__verdict_fill(compare);
    int rc = GSP_OK;
    if (compare->no_memory)
        rc = gsp_err_nomem(err);
    else if (!has_common(compare))
        rc = nothing_common(compare, err);
    if (rc < 0) {
        gsp_compare_free(compare);
        return rc;
    }
    *out = compare;
    return GSP_OK;
}
