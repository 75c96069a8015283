/* SPDX-License-Identifier: Apache-2.0 */
#include "report/cards.h"

#include <math.h>

#include "model/format.h"
#include "report/document_internal.h"

/* Idle shares of the GPU time from which the card has a tone. */
#define IDLE_WARN 0.3
#define IDLE_BAD  0.6
/* A larger share of lost samples is a warning. */
#define LOST_WARN 0.01

static void put_wall(struct gsp_report *report)
{
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    if (isnan(report->duration_s))
        return;
    gsp_model_seconds_put(report->duration_s, &value);
    gsp_report__card_add(report, (struct gsp_report_card){.id = "wall", .title = "Wall time"},
                         &value, &detail);
}

/* The mean of one process; of several, that of the busiest. The sum of the means would mislead if
 * processes lived at different times. */
static void put_cpu(struct gsp_report *report)
{
    const struct gsp_report_chart *chart = gsp_report_chart_find(report, "cpu");
    const struct gsp_report_series *most = NULL;
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    for (size_t i = 0; chart && i < chart->series_count; i++)
        if (!most || chart->series[i].stats.mean > most->stats.mean)
            most = &chart->series[i];
    if (!most)
        return;
    gsp_model_value_put(most->stats.mean, chart->unit, &value);
    gsp_buf_puts(&detail, chart->series_count > 1 ? "mean of the busiest process, highest "
                                                  : "mean, highest ");
    gsp_model_value_put(most->stats.max, chart->unit, &detail);
    gsp_report__card_add(report, (struct gsp_report_card){.id = "cpu", .title = "CPU"}, &value,
                         &detail);
}

static void put_waiting(const struct gsp_verdict_input *judge)
{
    const struct gsp_time_shares *shares = &judge->shares;
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    if (!shares->knows_waiting || !(shares->total > 0))
        return;
    gsp_model_share_put(shares->waiting, shares->total, &value);
    gsp_buf_puts(&detail,
                 shares->mains == 1 ? "of the main thread's time" : "of the threads' time");
    gsp_report__card_add(judge->report,
                         (struct gsp_report_card){.id = "waiting", .title = "Waiting"}, &value,
                         &detail);
}

static void put_steps(const struct gsp_verdict_input *judge)
{
    const struct gsp_step_stats *steps = &judge->steps;
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    if (steps->count == 0)
        return;
    gsp_model_seconds_put(steps->p50_s, &value);
    gsp_buf_puts(&detail, "median of ");
    gsp_model_count_put(steps->count, &detail);
    gsp_buf_puts(&detail, ", 95 % within ");
    gsp_model_seconds_put(steps->p95_s, &detail);
    gsp_report__card_add(judge->report,
                         (struct gsp_report_card){.id = "step", .title = "Step time"}, &value,
                         &detail);
}

static void put_gpu(const struct gsp_verdict_input *judge)
{
    const double idle = judge->shares.gpu_idle;
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    if (isnan(idle))
        return;
    gsp_model_share_put(idle, 1, &value);
    gsp_buf_puts(&detail, "of the time");
    gsp_report__card_add(judge->report,
                         (struct gsp_report_card){.id = "gpu_idle",
                                                  .title = "GPU idle",
                                                  .tone = idle > IDLE_BAD ? GSP_REPORT_TONE_BAD
                                                          : idle > IDLE_WARN
                                                              ? GSP_REPORT_TONE_WARN
                                                              : GSP_REPORT_TONE_GOOD},
                         &value, &detail);
}

static void put_memory(struct gsp_report *report)
{
    const struct gsp_report_memory *memory = &report->memory;
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    if (isnan(memory->peak_rss_bytes))
        return;
    gsp_model_bytes_put(memory->peak_rss_bytes, &value);
    if (memory->growth_bytes_per_s > 0) {
        gsp_buf_puts(&detail, "grows by ");
        gsp_model_bytes_put(memory->growth_bytes_per_s, &detail);
        gsp_buf_puts(&detail, "/s");
    } else {
        gsp_buf_puts(&detail,
                     isnan(memory->growth_bytes_per_s) ? "growth unknown" : "no lasting growth");
    }
    gsp_report__card_add(report,
                         (struct gsp_report_card){.id = "memory",
                                                  .title = "Peak memory",
                                                  .tone = memory->growth_bytes_per_s > 0
                                                              ? GSP_REPORT_TONE_WARN
                                                              : GSP_REPORT_TONE_PLAIN},
                         &value, &detail);
}

static void put_samples(struct gsp_report *report)
{
    gsp_auto_buf value = {0};
    gsp_auto_buf detail = {0};
    uint64_t lost = 0;
    if (!report->profile)
        return;
    for (size_t i = 0; i < report->loss_count; i++)
        lost = report->losses[i].count < UINT64_MAX - lost ? lost + report->losses[i].count
                                                           : UINT64_MAX;
    gsp_model_count_put(gsp_model_profile_samples(report->profile), &value);
    if (lost > 0) {
        gsp_model_count_put(lost, &detail);
        gsp_buf_puts(&detail, " lost");
    } else {
        gsp_buf_puts(&detail, report->has_losses ? "nothing lost" : "losses not recorded");
    }
    gsp_report__card_add(
        report,
        (struct gsp_report_card){.id = "samples",
                                 .title = "Samples",
                                 .tone = (double)lost > LOST_WARN * (double)report->stacks.seen
                                             ? GSP_REPORT_TONE_WARN
                                             : GSP_REPORT_TONE_PLAIN},
        &value, &detail);
}

void gsp_report__cards_fill(const struct gsp_verdict_input *judge)
{
    put_wall(judge->report);
    put_steps(judge);
    put_gpu(judge);
    put_cpu(judge->report);
    put_waiting(judge);
    put_memory(judge->report);
    put_samples(judge->report);
}

void gsp_report__cards_add_memory(struct gsp_report *report)
{
    put_memory(report);
    put_wall(report);
}
