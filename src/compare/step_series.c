/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "compare/compare_internal.h"
#include "stats/basic.h"

void gsp_compare__step_series_clear(struct gsp_step_series *steps)
{
    free(steps->duration_s);
    free(steps->begin_s);
    *steps = (struct gsp_step_series){0};
}

static bool has_ranks(const struct gsp_report *report)
{
    for (size_t i = 1; i < report->step_count; i++)
        if (report->steps[i].rank != report->steps[0].rank)
            return true;
    return false;
}

/* Merges the steps of several ranks, which wait for each other, into one with their mean duration.
 */
static bool gather(const struct gsp_report *report, struct gsp_step_series *out, uint32_t *shares)
{
    struct gsp_hmap known = {0};
    const bool ranks = has_ranks(report);
    bool ok = true;
    for (size_t i = 0; ok && i < report->step_count; i++) {
        const struct gsp_report_step *step = &report->steps[i];
        if (!isfinite(step->duration_s))
            continue;
        const uint32_t *at = ranks ? gsp_hmap_get(&known, (uint64_t)step->step, 0) : NULL;
        const size_t index = at ? *at : out->count;
        if (!at) {
            out->begin_s[out->count++] = step->t;
            ok = !ranks || gsp_hmap_put(&known, (uint64_t)step->step, 0, (uint32_t)index);
        }
        out->duration_s[index] += step->duration_s;
        shares[index]++;
    }
    for (size_t i = 0; i < out->count; i++)
        out->duration_s[i] /= shares[i];
    gsp_hmap_free(&known);
    return ok;
}

void gsp_compare__step_series_fill(struct gsp_compare *compare, const struct gsp_report *report,
                                   int64_t warmup, struct gsp_step_series *out)
{
    *out = (struct gsp_step_series){.duration_s = calloc(report->step_count + 1, sizeof(double)),
                                    .begin_s = calloc(report->step_count + 1, sizeof(double))};
    uint32_t *shares = calloc(report->step_count + 1, sizeof(*shares));
    bool ok = out->duration_s && out->begin_s && shares && gather(report, out, shares);
    if (ok && warmup < 0)
        ok = gsp_stats_warmup(out->duration_s, out->count, &out->warmup);
    else if (ok)
        out->warmup = (uint64_t)warmup < out->count ? (size_t)warmup : out->count;
    if (!ok) {
        compare->no_memory = true;
        gsp_compare__step_series_clear(out);
    }
    free(shares);
}
