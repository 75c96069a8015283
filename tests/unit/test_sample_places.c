/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/places.h"
#include "tap.h"

#define CALL  0x8efU
#define ATTR  0x1407U
#define RIGHT 272U
#define STALE 288U

static struct gsp_places_known known;

static struct gsp_places one(uint32_t place)
{
    return (struct gsp_places){1, {place}};
}

static bool prove(uint64_t pc, struct gsp_places places, bool same)
{
    return gsp_places_prove(&known, pc, &places, same);
}

TAP_TEST(a_place_that_is_not_known_yet_needs_the_same_before_and_after)
{
    tap_check(!prove(CALL, one(RIGHT), false));
    tap_check(prove(CALL, one(RIGHT), true));
}

TAP_TEST(a_known_place_proves_alone)
{
    tap_check(prove(CALL, one(RIGHT), true));
    tap_check(prove(CALL, one(RIGHT), true));
    tap_check(prove(CALL, one(RIGHT), false));
}

TAP_TEST(an_old_word_in_another_slot_proves_nothing)
{
    for (int i = 0; i < 100; i++)
        tap_check(prove(CALL, one(RIGHT), true));
    tap_check(!prove(CALL, one(STALE), false));
    tap_check(!prove(CALL, one(STALE), true));
    tap_check(prove(CALL, one(RIGHT), false));
}

TAP_TEST(each_call_has_a_place_of_its_own)
{
    for (int i = 0; i < 3; i++) {
        tap_check(prove(CALL, one(RIGHT), true));
        tap_check(prove(ATTR, one(STALE), true));
    }
    tap_check(!prove(CALL, one(STALE), true));
    tap_check(!prove(ATTR, one(RIGHT), true));
}

/* A slot that is not written for this call may agree for as long as the program does one thing. */
TAP_TEST(places_that_agreed_so_far_must_all_agree)
{
    const struct gsp_places both = {2, {RIGHT, STALE}};
    for (int i = 0; i < 1000; i++)
        prove(CALL, both, true);
    tap_check(!prove(CALL, one(STALE), false));
    /* Then it does another, and that is learnt soon. */
    int refused = 0;
    for (int i = 0; i < 1000; i++)
        refused += !prove(CALL, one(RIGHT), true);
    tap_check(refused > 0 && refused < 20);
    tap_check(!prove(CALL, one(STALE), true));
}

TAP_TEST(nothing_found_proves_nothing)
{
    tap_check(!prove(CALL, (struct gsp_places){0}, true));
}

TAP_TEST(a_set_has_each_place_once_and_an_end)
{
    struct gsp_places places = {0};
    gsp_places_add(&places, RIGHT);
    gsp_places_add(&places, RIGHT);
    tap_eq_int(places.count, 1);
    for (uint32_t i = 0; i < 100; i++)
        gsp_places_add(&places, 8 * i);
    tap_eq_int(places.count, GSP_PLACES_MAX);
}

TAP_MAIN()
