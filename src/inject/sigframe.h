/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigframe.h -- the signal frame below a borrowed call.
 *
 * A borrowed call looks like a signal handler: it returns to rt_sigreturn, and the kernel restores
 * all registers and the blocked signals of the thread from the frame. So the thread continues its
 * program even if gsprof is killed at any moment after the call has been set up.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/linker.h"
#include "inject/registers.h"

#define GSP_INJECT_SIGFRAME_MAX (GSP_INJECT_WIDE_BYTES + 8192U)

struct gsp_inject__sigframe {
    gsp_raddr base; /* where the bytes belong */
    size_t len;
    gsp_raddr sp;    /* the stack pointer of the call */
    gsp_raddr end;   /* the stack pointer at rt_sigreturn */
    gsp_raddr value; /* x86-64: where the value of the call is stored; 0: it is not */
    unsigned char bytes[GSP_INJECT_SIGFRAME_MAX];
};

/* Makes the frame for a thread, right below an address on its stack. Returns false if the
 * registers do not fit into a frame. */
bool gsp_inject__sigframe_make(const struct gsp_inject__registers *kept,
                               const struct gsp_inject__landing *landing, gsp_raddr below,
                               struct gsp_inject__sigframe *out);
