/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cards.h -- the key figures at the top of a report.
 *
 * Threads: one owner.
 */
#pragma once

#include "report/document.h"
#include "report/step_stats.h"
#include "report/time_shares.h"

/* What the verdict and the cards are computed from. */
struct gsp_verdict_input {
    struct gsp_report *report;
    struct gsp_time_shares shares;
    struct gsp_step_stats steps;
};

/* Fills report->cards; sets report->no_memory if memory runs out. */
void gsp_report__cards_fill(const struct gsp_verdict_input *judge);
/* Adds the cards of resident memory and wall time. */
void gsp_report__cards_add_memory(struct gsp_report *report);
