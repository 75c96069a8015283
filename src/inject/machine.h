/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h -- the registers of a thread that is held: kept, set for a call, put back.
 *
 * Threads: the one that holds the target's (ptrace is per thread).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/attr.h"
#include "inject/state.h"
#include "proc/mem.h"

#define GSP_MACHINE_ARGS 4U
/* Where calls return to: no code is ever there, so the thread stops with a fault. */
#define GSP_MACHINE_TRAP 0x10U
/* Of vector registers; what processors have today takes less than 12 KB. */
#define GSP_MACHINE_WIDE 16384U

struct gsp_inject__machine {
    struct user_regs_struct regs;
    uint64_t mask;   /* of blocked signals */
    int wide_kind;   /* NT_*; 0: none were kept */
    size_t wide_len; /* bytes in wide */
    int call_number; /* aarch64: the system call it is in */
    unsigned char wide[GSP_MACHINE_WIDE];
};

/* A call to be made.  The stack pointer is below everything that the thread has on its stack. */
struct gsp_inject__machine_call {
    gsp_raddr function;
    gsp_raddr sp; /* where the return address goes on machines that have it on the stack */
    uint64_t args[GSP_MACHINE_ARGS];
};

uint64_t gsp_inject__sp(const struct gsp_inject__machine *kept);
uint64_t gsp_inject__pc(const struct gsp_inject__machine *kept);
/* The highest aligned address for strings, so many bytes below what the thread uses. */
uint64_t gsp_inject__below(const struct gsp_inject__machine *kept, size_t bytes);

/* False when the thread is gone or its registers cannot be had. */
bool gsp_inject__keep(pid_t tid, struct gsp_inject__machine *out);
bool gsp_inject__put_back(pid_t tid, const struct gsp_inject__machine *kept);
/* Whether the thread is still in the system call that ends at pc with this stack. */
bool gsp_inject__is_in_call(const struct gsp_inject__machine *kept, uint64_t pc, uint64_t sp);
/* The system call that the stop came upon, as far as the registers still tell; number -1: none. */
void gsp_inject__call_of(const struct gsp_inject__machine *kept, struct gsp_inject_call_at *out);
/* Makes the system call that ended with EINTR begin again, as if the stop had not been. */
void gsp_inject__again(struct gsp_inject__machine *kept);
/* A sleep goes on for what is left of it; x86-64 does so by itself. */
void gsp_inject__resume_sleep(struct gsp_inject__machine *kept);

/* Sets the thread up to make the call when it runs. */
bool gsp_inject__prepare(pid_t tid, const struct gsp_inject__machine *kept,
                         const struct gsp_inject__machine_call *call);
/* Whether it has returned, and with what. */
bool gsp_inject__returned(pid_t tid, uint64_t *value);
/* Blocks all signals of the thread but those that faults make. */
bool gsp_inject__block_signals(pid_t tid);
