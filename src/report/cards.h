/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cards.h -- the numbers that stand first in a report.
 *
 * Used by: verdict.c.
 * Threads: one owner.
 */
#pragma once

#include "report/document.h"
#include "report/shares.h"
#include "report/steps.h"

/* What verdict and cards are made of. */
struct gsp_judge {
    struct gsp_digest *digest;
    struct gsp_shares shares;
    struct gsp_steps steps;
};

/* Fills digest->cards; digest->no_memory tells a failure. */
void gsp_digest__cards(const struct gsp_judge *judge);
/* Adds the cards of resident memory and wall time. */
void gsp_digest__memory_cards(struct gsp_digest *digest);
