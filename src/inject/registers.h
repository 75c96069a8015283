/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registers.h -- the registers of a stopped thread: saved, set for a call, restored.
 *
 * Threads: the thread that has stopped the target's thread (ptrace is per thread).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "inject/state.h"
#include "proc/mem.h"

#define GSP_INJECT_CALL_ARGS    4U
/* The return address of calls. No code is ever mapped there, so the thread stops with a fault. */
#define GSP_INJECT_TRAP_ADDRESS 0x10U
/* Size of the vector registers; current processors need less than 12 KB. */
#define GSP_INJECT_WIDE_BYTES   16384U

struct gsp_inject__registers {
    struct user_regs_struct regs;
    uint64_t mask;   /* of blocked signals */
    int wide_kind;   /* NT_*; 0: not saved */
    size_t wide_len; /* bytes in wide */
    int call_number; /* aarch64: the system call it is in */
    unsigned char wide[GSP_INJECT_WIDE_BYTES];
};

/* A call. The stack pointer is below everything that the thread has on its stack. */
struct gsp_inject__register_call {
    gsp_raddr function;
    gsp_raddr sp; /* the return address is here, on machines that pass it on the stack */
    uint64_t args[GSP_INJECT_CALL_ARGS];
};

uint64_t gsp_inject__registers_sp(const struct gsp_inject__registers *kept);
uint64_t gsp_inject__registers_pc(const struct gsp_inject__registers *kept);
/* The highest aligned address with this many bytes below the stack of the thread, for strings. */
uint64_t gsp_inject__registers_below(const struct gsp_inject__registers *kept, size_t bytes);

/* Save and restore the registers. Return false if the thread has exited or its registers are not
 * available. */
bool gsp_inject__registers_save(pid_t tid, struct gsp_inject__registers *out);
bool gsp_inject__registers_restore(pid_t tid, const struct gsp_inject__registers *kept);
/* Returns whether the thread is still in the system call that ends at pc with this stack. */
bool gsp_inject__registers_is_in_call(const struct gsp_inject__registers *kept, uint64_t pc,
                                      uint64_t sp);
/* The interrupted system call, as far as the registers show it; number -1: none. */
void gsp_inject__registers_get_call(const struct gsp_inject__registers *kept,
                                    struct gsp_inject_call_at *out);
/* Restarts the system call that ended with EINTR. */
void gsp_inject__registers_restart_call(struct gsp_inject__registers *kept);
/* Continues a sleep for the remaining time; x86-64 does this by itself. */
void gsp_inject__registers_resume_sleep(struct gsp_inject__registers *kept);

/* Sets the registers so that the thread makes the call when it runs. */
bool gsp_inject__registers_prepare(pid_t tid, const struct gsp_inject__registers *kept,
                                   const struct gsp_inject__register_call *call);
/* Returns whether the call has returned, and its value. */
bool gsp_inject__registers_returned(pid_t tid, uint64_t *value);
/* Blocks all signals of the thread except faults. */
bool gsp_inject__signals_block(pid_t tid);
