/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cards.h -- the key figures at the top of a report.
 *
 * Threads: one owner.
 */
#pragma once

#include "report/document.h"
#include "report/shares.h"
#include "report/steps.h"

/* What the verdict and the cards are computed from. */
struct gsp_judge {
    struct gsp_digest *digest;
    struct gsp_shares shares;
    struct gsp_steps steps;
};

/* Fills digest->cards; sets digest->no_memory if memory runs out. */
void gsp_digest__cards(const struct gsp_judge *judge);
/* Adds the cards of resident memory and wall time. */
void gsp_digest__memory_cards(struct gsp_digest *digest);
