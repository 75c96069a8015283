/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval_slots.h -- where an eval loop keeps the address of its next Python instruction.
 *
 * For each call in the loop the compiler has chosen a slot: a stack slot of the loop's frame, or a
 * register. Other slots may still hold the value of an earlier instruction, perhaps of another
 * function. So an address found in the copy of a stack proves nothing unless it is in the slot of
 * this very call. This module learns the slot from the stacks themselves: a stale value matches
 * Python's position once in a hundred stacks, the right one nearly always.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of slots of one stack that hold the address. */
#define GSP_EVAL_SLOTS_MAX      8U
/* A stack slot is its distance from the end of the loop's frame. This value stands for a
 * register, which functions called by the loop may have saved. */
#define GSP_EVAL_SLOT_REGISTER  0U
/* Calls of the loop that are remembered, a power of two. Interpreters have a few hundred. */
#define GSP_EVAL_CALL_SITES     1024U
#define GSP_EVAL_SLOTS_PER_SITE 6U

/* A set of slots. */
struct gsp_eval_slots {
    size_t count;
    uint32_t items[GSP_EVAL_SLOTS_MAX];
};

/* One call in the loop. */
struct gsp_eval_call_site {
    uint64_t pc; /* 0: unused */
    uint32_t items[GSP_EVAL_SLOTS_PER_SITE];
    uint8_t weights[GSP_EVAL_SLOTS_PER_SITE]; /* 0: none */
};

struct gsp_eval_slots_known {
    struct gsp_eval_call_site sites[GSP_EVAL_CALL_SITES];
};

/* Adds a slot. Ignores duplicates, and slots beyond GSP_EVAL_SLOTS_MAX. */
void gsp_sample__eval_slots_add(struct gsp_eval_slots *slots, uint32_t slot);

/* The loop has made the call that returns to pc, and these slots hold the address of the
 * instruction at which Python was found. same: Python was there both before and after the copy.
 * Returns true if this proves that Python was there at the time of the copy. Learns from the
 * stack in either case. */
bool gsp_sample__eval_slots_prove(struct gsp_eval_slots_known *known, uint64_t pc,
                                  const struct gsp_eval_slots *slots, bool same);
