/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/eval_slots.h"
#include "tap.h"

#define CALL  0x8efU
#define ATTR  0x1407U
#define RIGHT 272U
#define STALE 288U

static struct gsp_eval_slots_known known;

static struct gsp_eval_slots one(uint32_t slot)
{
    return (struct gsp_eval_slots){1, {slot}};
}

static bool prove(uint64_t pc, struct gsp_eval_slots slots, bool same)
{
    return gsp_sample__eval_slots_prove(&known, pc, &slots, same);
}

TAP_TEST(an_unknown_slot_needs_the_same_position_before_and_after)
{
    tap_check(!prove(CALL, one(RIGHT), false));
    tap_check(prove(CALL, one(RIGHT), true));
}

TAP_TEST(a_known_slot_is_proof)
{
    tap_check(prove(CALL, one(RIGHT), true));
    tap_check(prove(CALL, one(RIGHT), true));
    tap_check(prove(CALL, one(RIGHT), false));
}

TAP_TEST(a_stale_value_in_another_slot_proves_nothing)
{
    for (int i = 0; i < 100; i++)
        tap_check(prove(CALL, one(RIGHT), true));
    tap_check(!prove(CALL, one(STALE), false));
    tap_check(!prove(CALL, one(STALE), true));
    tap_check(prove(CALL, one(RIGHT), false));
}

TAP_TEST(each_call_has_its_own_slot)
{
    for (int i = 0; i < 3; i++) {
        tap_check(prove(CALL, one(RIGHT), true));
        tap_check(prove(ATTR, one(STALE), true));
    }
    tap_check(!prove(CALL, one(STALE), true));
    tap_check(!prove(ATTR, one(RIGHT), true));
}

/* A slot that is not written for this call may match as long as the program does one thing. */
TAP_TEST(all_slots_that_have_matched_must_match)
{
    const struct gsp_eval_slots both = {2, {RIGHT, STALE}};
    for (int i = 0; i < 1000; i++)
        prove(CALL, both, true);
    tap_check(!prove(CALL, one(STALE), false));
    /* Then the program does another, and the wrong slot is soon dropped. */
    int refused = 0;
    for (int i = 0; i < 1000; i++)
        refused += !prove(CALL, one(RIGHT), true);
    tap_check(refused > 0 && refused < 20);
    tap_check(!prove(CALL, one(STALE), true));
}

TAP_TEST(an_empty_set_proves_nothing)
{
    tap_check(!prove(CALL, (struct gsp_eval_slots){0}, true));
}

TAP_TEST(a_set_has_no_duplicates_and_a_limit)
{
    struct gsp_eval_slots slots = {0};
    gsp_sample__eval_slots_add(&slots, RIGHT);
    gsp_sample__eval_slots_add(&slots, RIGHT);
    tap_eq_int(slots.count, 1);
    for (uint32_t i = 0; i < 100; i++)
        gsp_sample__eval_slots_add(&slots, 8 * i);
    tap_eq_int(slots.count, GSP_EVAL_SLOTS_MAX);
}

TAP_MAIN()
