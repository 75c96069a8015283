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

#define GSP_INJECT_CALL_ARGS  4U
/* Size of the vector registers; current processors need less than 12 KB. */
#define GSP_INJECT_WIDE_BYTES 16384U

struct gsp_inject__registers {
    struct user_regs_struct regs;
    uint64_t mask;   /* of blocked signals */
    int wide_kind;   /* NT_*; 0: not saved */
    size_t wide_len; /* bytes in wide */
    int call_number; /* aarch64: the system call it is in */
    unsigned char wide[GSP_INJECT_WIDE_BYTES];
};

/* A call, which returns through a signal frame (sigframe.h). */
struct gsp_inject__register_call {
    gsp_raddr function;
    uint64_t args[GSP_INJECT_CALL_ARGS];
    gsp_raddr sp;        /* below everything that the thread has on its stack */
    gsp_raddr end;       /* the stack pointer at rt_sigreturn */
    gsp_raddr value;     /* x86-64: where the value is stored */
    gsp_raddr sigreturn; /* the code that makes the system call */
};

uint64_t gsp_inject__registers_sp(const struct gsp_inject__registers *kept);
uint64_t gsp_inject__registers_pc(const struct gsp_inject__registers *kept);
/* The highest aligned address with this many bytes below the stack of the thread, for strings. */
uint64_t gsp_inject__registers_below(const struct gsp_inject__registers *kept, size_t bytes);

/* Save and restore the registers. Return false if the thread has exited or its registers are not
 * available. */
bool gsp_inject__registers_save(pid_t tid, struct gsp_inject__registers *out);
bool gsp_inject__registers_restore(pid_t tid, const struct gsp_inject__registers *kept);
/* Sets only the general registers. */
bool gsp_inject__registers_put(pid_t tid, const struct gsp_inject__registers *kept);
/* Returns whether the thread is still in the system call that ends at pc with this stack. */
bool gsp_inject__registers_is_in_call(const struct gsp_inject__registers *kept, uint64_t pc,
                                      uint64_t sp);
/* The interrupted system call, as far as the registers show it; number -1: none. */
void gsp_inject__registers_get_call(const struct gsp_inject__registers *kept,
                                    struct gsp_inject_call_at *out);
/* The thread pointer; 0 if it cannot be read. */
uint64_t gsp_inject__registers_thread_pointer(pid_t tid, const struct gsp_inject__registers *kept);
/* Restarts the system call if it ended with EINTR, and returns whether it did. */
bool gsp_inject__registers_restart_call(struct gsp_inject__registers *kept,
                                        const struct gsp_inject_call_at *at);
/* Returns whether the thread was stopped in this system call, and would repeat it. */
bool gsp_inject__registers_waits_in(const struct gsp_inject__registers *kept, struct gsp_mem *mem,
                                    long number);
/* Continues a sleep for the remaining time; x86-64 does this by itself. */
void gsp_inject__registers_resume_sleep(struct gsp_inject__registers *kept);

/* Sets the registers so that the thread makes the call when it runs: all of them at once, so that
 * the call is either set up or not. */
bool gsp_inject__registers_prepare(pid_t tid, const struct gsp_inject__registers *kept,
                                   const struct gsp_inject__register_call *call);
/* Returns whether a thread that is stopped at a system call has returned from the call and is about
 * to execute rt_sigreturn. *value becomes what the register for results holds: the result of a
 * system call that has ended; after the return, on aarch64, the value of the function. */
bool gsp_inject__registers_returned(pid_t tid, const struct gsp_inject__register_call *call,
                                    uint64_t *value);
/* Makes that thread execute a harmless system call instead and then rt_sigreturn, so that it can be
 * stopped in between. */
bool gsp_inject__registers_postpone_return(pid_t tid, const struct gsp_inject__register_call *call);
/* Returns whether the thread is in a restartable sequence (rseq), which the kernel aborts before it
 * calls a handler. */
bool gsp_inject__registers_in_sequence(pid_t tid, const struct gsp_inject__registers *kept,
                                       struct gsp_mem *mem);
/* Returns whether the thread has a shadow stack, which only real calls may change. */
bool gsp_inject__registers_has_shadow_stack(pid_t tid);
/* Blocks all signals of the thread except those of faults: the kernel discards the handler of the
 * program if a blocked one happens. */
bool gsp_inject__signals_block(pid_t tid);
/* Also blocks this one. */
bool gsp_inject__signals_block_one(pid_t tid, int signal);
/* Returns whether a signal is pending that the program handles and that the mask does not block. */
bool gsp_inject__signals_wait(pid_t pid, pid_t tid, uint64_t mask);
