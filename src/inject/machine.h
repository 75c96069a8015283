/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h -- the registers of a stopped thread: saved, set for a call, restored.
 *
 * Threads: the thread that has stopped the target's thread (ptrace is per thread).
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
/* The return address of calls. No code is ever mapped there, so the thread stops with a fault. */
#define GSP_MACHINE_TRAP 0x10U
/* Size of the vector registers; current processors need less than 12 KB. */
#define GSP_MACHINE_WIDE 16384U

struct gsp_inject__machine {
    struct user_regs_struct regs;
    uint64_t mask;   /* of blocked signals */
    int wide_kind;   /* NT_*; 0: not saved */
    size_t wide_len; /* bytes in wide */
    int call_number; /* aarch64: the system call it is in */
    unsigned char wide[GSP_MACHINE_WIDE];
};

/* A call. The stack pointer is below everything that the thread has on its stack. */
struct gsp_inject__machine_call {
    gsp_raddr function;
    gsp_raddr sp; /* the return address is here, on machines that pass it on the stack */
    uint64_t args[GSP_MACHINE_ARGS];
};

uint64_t gsp_inject__sp(const struct gsp_inject__machine *kept);
uint64_t gsp_inject__pc(const struct gsp_inject__machine *kept);
/* The highest aligned address with this many bytes below the stack of the thread, for strings. */
uint64_t gsp_inject__below(const struct gsp_inject__machine *kept, size_t bytes);

/* Save and restore the registers. Return false if the thread has exited or its registers are not
 * available. */
bool gsp_inject__keep(pid_t tid, struct gsp_inject__machine *out);
bool gsp_inject__put_back(pid_t tid, const struct gsp_inject__machine *kept);
/* Returns whether the thread is still in the system call that ends at pc with this stack. */
bool gsp_inject__is_in_call(const struct gsp_inject__machine *kept, uint64_t pc, uint64_t sp);
/* The interrupted system call, as far as the registers show it; number -1: none. */
void gsp_inject__call_of(const struct gsp_inject__machine *kept, struct gsp_inject_call_at *out);
/* Restarts the system call that ended with EINTR. */
void gsp_inject__again(struct gsp_inject__machine *kept);
/* Continues a sleep for the remaining time; x86-64 does this by itself. */
void gsp_inject__resume_sleep(struct gsp_inject__machine *kept);

/* Sets the registers so that the thread makes the call when it runs. */
bool gsp_inject__prepare(pid_t tid, const struct gsp_inject__machine *kept,
                         const struct gsp_inject__machine_call *call);
/* Returns whether the call has returned, and its value. */
bool gsp_inject__returned(pid_t tid, uint64_t *value);
/* Blocks all signals of the thread except faults. */
bool gsp_inject__block_signals(pid_t tid);
