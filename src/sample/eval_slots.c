/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/eval_slots.h"

/* The weight of a stack: whether Python was at the same instruction before and after it, or not. */
#define WEIGHT_SAME  2U
#define WEIGHT_ONCE  1U
/* The slot of a call is known from this weight on. */
#define WEIGHT_KNOWN 4U
/* Weights are halved at this value, so that wrong entries fade. */
#define WEIGHT_MAX   32U

void gsp_sample__eval_slots_add(struct gsp_eval_slots *slots, uint32_t slot)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->items[i] == slot)
            return;
    if (slots->count < GSP_EVAL_SLOTS_MAX)
        slots->items[slots->count++] = slot;
}

static bool has(const struct gsp_eval_slots *slots, uint32_t slot)
{
    for (size_t i = 0; i < slots->count; i++)
        if (slots->items[i] == slot)
            return true;
    return false;
}

static struct gsp_eval_call_site *find_site(struct gsp_eval_slots_known *known, uint64_t pc)
{
    struct gsp_eval_call_site *site = &known->sites[(pc ^ pc >> 10) & (GSP_EVAL_CALL_SITES - 1)];
    if (site->pc != pc)
        *site = (struct gsp_eval_call_site){.pc = pc};
    return site;
}

static unsigned top_weight(const struct gsp_eval_call_site *site)
{
    unsigned top = 0;
    for (size_t i = 0; i < GSP_EVAL_SLOTS_PER_SITE; i++)
        top = site->weights[i] > top ? site->weights[i] : top;
    return top;
}

/* Returns the index of a slot, or of the entry with the lowest weight. */
static size_t find_entry(const struct gsp_eval_call_site *site, uint32_t slot)
{
    size_t least = 0;
    for (size_t i = 0; i < GSP_EVAL_SLOTS_PER_SITE; i++) {
        if (site->weights[i] > 0 && site->items[i] == slot)
            return i;
        if (site->weights[i] < site->weights[least])
            least = i;
    }
    return least;
}

static void learn(struct gsp_eval_call_site *site, const struct gsp_eval_slots *slots,
                  unsigned weight)
{
    for (size_t i = 0; i < slots->count; i++) {
        size_t entry = find_entry(site, slots->items[i]);
        bool is_new = site->weights[entry] == 0 || site->items[entry] != slots->items[i];
        site->items[entry] = slots->items[i];
        site->weights[entry] = (uint8_t)((is_new ? 0 : site->weights[entry]) + weight);
    }
    if (top_weight(site) < WEIGHT_MAX)
        return;
    for (size_t i = 0; i < GSP_EVAL_SLOTS_PER_SITE; i++)
        site->weights[i] /= 2;
}

bool gsp_sample__eval_slots_prove(struct gsp_eval_slots_known *known, uint64_t pc,
                                  const struct gsp_eval_slots *slots, bool same)
{
    if (slots->count == 0)
        return false;
    struct gsp_eval_call_site *site = find_site(known, pc);
    unsigned top = top_weight(site);
    bool is_known = top >= WEIGHT_KNOWN;
    /* Several slots may be right, and one that has always matched may have done so by accident.
     * All heavy slots must agree. */
    bool agree = true;
    for (size_t i = 0; i < GSP_EVAL_SLOTS_PER_SITE; i++)
        agree = agree && (site->weights[i] * 2U <= top || has(slots, site->items[i]));
    learn(site, slots, same ? WEIGHT_SAME : WEIGHT_ONCE);
    return is_known ? agree : same;
}
