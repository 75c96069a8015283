/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/places.h"

/* What a stack weighs, by whether Python stood at the same instruction before and after it. */
#define WEIGHT_SAME  2U
#define WEIGHT_ONCE  1U
/* From this weight on the place of a call is known. */
#define WEIGHT_KNOWN 4U
/* Weights are halved here, so that what was learnt wrongly is forgotten. */
#define WEIGHT_MAX   32U

void gsp_places_add(struct gsp_places *places, uint32_t place)
{
    for (size_t i = 0; i < places->count; i++) {
        if (places->items[i] == place)
            return;
    }
    if (places->count < GSP_PLACES_MAX)
        places->items[places->count++] = place;
}

static bool has(const struct gsp_places *places, uint32_t place)
{
    for (size_t i = 0; i < places->count; i++) {
        if (places->items[i] == place)
            return true;
    }
    return false;
}

static struct gsp_places_site *find_site(struct gsp_places_known *known, uint64_t pc)
{
    struct gsp_places_site *site = &known->sites[(pc ^ pc >> 10) & (GSP_PLACES_SITES - 1)];
    if (site->pc != pc)
        *site = (struct gsp_places_site){.pc = pc};
    return site;
}

static unsigned top_weight(const struct gsp_places_site *site)
{
    unsigned top = 0;
    for (size_t i = 0; i < GSP_PLACES_PER_SITE; i++)
        top = site->weights[i] > top ? site->weights[i] : top;
    return top;
}

/* The slot of a place, or the one that has the least to lose. */
static size_t find_slot(const struct gsp_places_site *site, uint32_t place)
{
    size_t least = 0;
    for (size_t i = 0; i < GSP_PLACES_PER_SITE; i++) {
        if (site->weights[i] > 0 && site->items[i] == place)
            return i;
        if (site->weights[i] < site->weights[least])
            least = i;
    }
    return least;
}

static void learn(struct gsp_places_site *site, const struct gsp_places *places, unsigned weight)
{
    for (size_t i = 0; i < places->count; i++) {
        size_t slot = find_slot(site, places->items[i]);
        bool is_new = site->weights[slot] == 0 || site->items[slot] != places->items[i];
        site->items[slot] = places->items[i];
        site->weights[slot] = (uint8_t)((is_new ? 0 : site->weights[slot]) + weight);
    }
    if (top_weight(site) < WEIGHT_MAX)
        return;
    for (size_t i = 0; i < GSP_PLACES_PER_SITE; i++)
        site->weights[i] /= 2;
}

bool gsp_places_prove(struct gsp_places_known *known, uint64_t pc, const struct gsp_places *places,
                      bool same)
{
    if (places->count == 0)
        return false;
    struct gsp_places_site *site = find_site(known, pc);
    unsigned top = top_weight(site);
    bool is_known = top >= WEIGHT_KNOWN;
    /* Several places may be right, and one that was always right so far may be so by accident: all
     * of them have to agree. */
    bool agree = true;
    for (size_t i = 0; i < GSP_PLACES_PER_SITE; i++)
        agree = agree && (site->weights[i] * 2U <= top || has(places, site->items[i]));
    learn(site, places, same ? WEIGHT_SAME : WEIGHT_ONCE);
    return is_known ? agree : same;
}
