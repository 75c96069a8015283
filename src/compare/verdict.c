/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "compare/compare_internal.h"
#include "model/format.h"

/* Maximum number of metrics named. */
#define NAMED_MAX        3U
/* From this ratio on, the first value counts as 0. */
#define FROM_NOTHING_MIN 100.0

bool gsp_compare__is_from_nothing(double share)
{
    return share > FROM_NOTHING_MIN;
}

void gsp_compare__put_change(double share, struct gsp_buf *out)
{
    const double pct = 100 * share;
    if (!isfinite(pct))
        gsp_buf_putc(out, '-');
    else if (gsp_compare__is_from_nothing(share))
        gsp_buf_puts(out, "from ~0");
    else if (fabs(pct) >= 99.95)
        gsp_buf_printf(out, "%+.0f %%", pct);
    else
        gsp_buf_printf(out, "%+.*f %%", fabs(pct) < 0.995 ? 2 : 1, pct);
}

void gsp_compare__put_p(double p, struct gsp_buf *out)
{
    if (isnan(p))
        gsp_buf_putc(out, '-');
    else if (p < 0.0001)
        gsp_buf_puts(out, "<0.0001");
    else
        gsp_buf_printf(out, "%.*f", p < 0.01 ? 4 : 2, p);
}

/* -------------------------------------------------------------------------------------- sentence
 */

static void put_size(double share, struct gsp_buf *out)
{
    /* A change without its sign. */
    gsp_auto_buf text = {0};
    gsp_compare__put_change(fabs(share), &text);
    if (text.len > 0)
        gsp_buf_put(out, text.p + (text.p[0] == '+'), text.len - (text.p[0] == '+'));
    out->failed = out->failed || text.failed;
}

/* "(95 % interval +2.9 % to +5.3 %)" */
static void put_bounds(const struct gsp_compare_row *row, struct gsp_buf *out)
{
    if (isnan(row->low))
        return;
    gsp_buf_puts(out, " (95 % interval ");
    gsp_compare__put_change(row->low, out);
    gsp_buf_puts(out, " to ");
    gsp_compare__put_change(row->high, out);
    gsp_buf_putc(out, ')');
}

static void put_both(const struct gsp_compare_row *row, struct gsp_buf *out)
{
    gsp_model_value_put(row->value[0], row->unit, out);
    gsp_buf_puts(out, " to ");
    gsp_model_value_put(row->value[1], row->unit, out);
}

/* "new is 4.1 % slower per step than base (95 % interval ...)" */
static void put_speed(const struct gsp_compare *compare, const struct gsp_compare_row *row,
                      const char *what, struct gsp_buf *out)
{
    gsp_buf_term(out, compare->name[1]);
    switch (row->verdict) {
    case GSP_COMPARE_BETTER:
    case GSP_COMPARE_WORSE:
    case GSP_COMPARE_CHANGED:
        gsp_buf_puts(out, " is ");
        put_size(row->change, out);
        gsp_buf_puts(out, row->change < 0 ? " faster" : " slower");
        gsp_buf_puts(out, what);
        gsp_buf_puts(out, " than ");
        gsp_buf_term(out, compare->name[0]);
        put_bounds(row, out);
        break;
    case GSP_COMPARE_SAME:
        gsp_buf_puts(out, " is as fast");
        gsp_buf_puts(out, what);
        gsp_buf_puts(out, " as ");
        gsp_buf_term(out, compare->name[0]);
        gsp_buf_puts(out, "; difference not significant: ");
        gsp_compare__put_change(row->change, out);
        put_bounds(row, out);
        break;
    case GSP_COMPARE_UNKNOWN:
        gsp_buf_puts(out, " took ");
        put_size(row->change, out);
        gsp_buf_puts(out, row->change < 0 ? " less time" : " more time");
        gsp_buf_puts(out, what);
        gsp_buf_puts(out, " than ");
        gsp_buf_term(out, compare->name[0]);
        gsp_buf_puts(out, " (");
        put_both(row, out);
        /* Correlated values count as few. */
        gsp_buf_puts(out, row->count[0] > 1 && row->count[1] > 1 ? "; too few independent values"
                                                                 : "; too few values");
        gsp_buf_puts(out, " to tell it from chance)");
        break;
    }
}

/* Names the metrics that differ, the largest change first. */
static void put_metrics(const struct gsp_compare *compare, struct gsp_buf *out)
{
    const struct gsp_compare_row *named[NAMED_MAX] = {NULL};
    size_t differing = 0;
    size_t known = 0;
    for (size_t i = 0; i < compare->metric_count; i++) {
        const struct gsp_compare_row *row = &compare->metrics[i];
        known += row->verdict != GSP_COMPARE_UNKNOWN;
        if (row->verdict <= GSP_COMPARE_SAME)
            continue;
        differing++;
        for (size_t k = 0; k < NAMED_MAX; k++) {
            if (!named[k] || fabs(row->change) > fabs(named[k]->change)) {
                const struct gsp_compare_row *moved = named[k];
                named[k] = row;
                row = moved;
            }
            if (!row)
                break;
        }
    }
    if (known == 0) {
        gsp_buf_puts(out, "too few values to tell a difference from chance");
        return;
    }
    gsp_buf_printf(out, "%zu of %zu metrics differ", differing, known);
    for (size_t k = 0; k < NAMED_MAX && named[k]; k++) {
        gsp_buf_puts(out, k == 0 ? ": " : ", ");
        gsp_buf_term(out, named[k]->name);
        gsp_buf_putc(out, ' ');
        gsp_compare__put_change(named[k]->change, out);
    }
    if (differing > NAMED_MAX)
        gsp_buf_puts(out, ", ...");
}

/* A comparison of stacks alone. */
static void put_functions(const struct gsp_compare *compare, struct gsp_buf *out)
{
    double sum[2] = {0, 0};
    for (size_t i = 0; i < compare->node_count; i++) {
        sum[0] += compare->nodes[i].own[0];
        sum[1] += compare->nodes[i].own[1];
    }
    const struct gsp_sv unit = gsp_sv_of(compare->unit);
    if (compare->per != GSP_PER_SHARE) {
        gsp_buf_term(out, compare->name[1]);
        gsp_buf_puts(out, " has ");
        gsp_model_value_put(sum[1], unit, out);
        gsp_buf_puts(out, " in stacks, ");
        gsp_buf_term(out, compare->name[0]);
        gsp_buf_putc(out, ' ');
        gsp_model_value_put(sum[0], unit, out);
        gsp_buf_puts(out, "; ");
    }
    const struct gsp_compare_function *most = &compare->functions[compare->order[0]];
    gsp_buf_puts(out, "the largest change is ");
    gsp_buf_term(out, most->row.name);
    gsp_buf_puts(out, " (");
    put_both(&most->row, out);
    gsp_buf_putc(out, ')');
}

void gsp_compare__verdict_fill(struct gsp_compare *compare)
{
    struct gsp_buf text = {0};
    const struct gsp_compare_row *step = gsp_compare__metric_find(compare, "step_time");
    const struct gsp_compare_row *wall = gsp_compare__metric_find(compare, "wall_time");
    const bool are_runs =
        compare->side[0]->kind == GSP_REPORT_RUN && compare->side[1]->kind == GSP_REPORT_RUN;
    if (compare->is_same) {
        gsp_buf_puts(&text, "no difference: ");
        gsp_buf_term(&text, compare->name[0]);
        gsp_buf_puts(&text, " and ");
        gsp_buf_term(&text, compare->name[1]);
        gsp_buf_puts(&text, " have equal values");
    } else if (step) {
        put_speed(compare, step, " per step", &text);
    } else if (wall && are_runs) {
        put_speed(compare, wall, "", &text);
    } else if (compare->function_count > 0 && compare->order) {
        put_functions(compare, &text);
    } else if (compare->metric_count > 0) {
        put_metrics(compare, &text);
    }
    compare->verdict = gsp_compare__text_keep(compare, &text);
}
