/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.h -- where an eval loop keeps the address of its next Python instruction.
 *
 * The compiler has chosen a place for each call in the loop: a slot of the loop's frame, or a
 * register.  Other slots still have what was put there for an earlier instruction, perhaps of
 * another function.  An address that is found in the copy of a stack is therefore no proof by
 * itself: it has to be in the place of this very call.  Which one that is, is learnt here from the
 * stacks themselves: an old word is what Python stands at once in a hundred times, the right one
 * mostly.
 *
 * Used by: sample/mixed.c alone.
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Places of one stack that have the address, at most. */
#define GSP_PLACES_MAX      8U
/* A place is its distance from the end of the loop's frame, or this one: a register, which the
 * functions that the loop called may have saved. */
#define GSP_PLACE_REGISTER  0U
/* Calls of the loop that are remembered: a power of two.  Interpreters have some hundreds. */
#define GSP_PLACES_SITES    1024U
#define GSP_PLACES_PER_SITE 6U

/* A set of places. */
struct gsp_places {
    size_t count;
    uint32_t items[GSP_PLACES_MAX];
};

/* One call in the loop. */
struct gsp_places_site {
    uint64_t pc; /* 0: none yet */
    uint32_t items[GSP_PLACES_PER_SITE];
    uint8_t weights[GSP_PLACES_PER_SITE]; /* 0: none */
};

struct gsp_places_known {
    struct gsp_places_site sites[GSP_PLACES_SITES];
};

/* Adds a place; one that is there already, or too many, is left out. */
void gsp_places_add(struct gsp_places *places, uint32_t place);

/* The loop has made the call that returns to pc, and these places have the address of the
 * instruction where Python was found.  same: it was found there both before and after the copy.
 * True when that proves that it was there at the moment of the copy; learns from it either way. */
bool gsp_places_prove(struct gsp_places_known *known, uint64_t pc, const struct gsp_places *places,
                      bool same);
