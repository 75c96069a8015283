/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of a core. The indices follow the kernel's struct user_regs_struct (x86-64) and struct
 * user_pt_regs (aarch64). */
#include <string.h>

#include "proc/core_internal.h"

#if defined(__aarch64__)
enum { FP = 29, LR = 30, SP = 31, PC = 32, REG_COUNT = 34 };
#else
enum { R15, R14, R13, R12, FP, BX, PC = 16, SP = 19, REG_COUNT = 27 };
#endif

bool gsp_proc_core_unwind_regs(const struct gsp_core *core, size_t i, struct gsp_core_unwind *out)
{
    uint64_t regs[REG_COUNT];
    if (i >= core->thread_count || core->threads[i].regs_len < sizeof(regs))
        return false;
    memcpy(regs, core->threads[i].regs, sizeof(regs));
#if defined(__aarch64__)
    *out = (struct gsp_core_unwind){.pc = regs[PC], .sp = regs[SP], .fp = regs[FP], .lr = regs[LR]};
#else
    *out = (struct gsp_core_unwind){
        .pc = regs[PC],
        .sp = regs[SP],
        .fp = regs[FP],
        .kept = {regs[BX], regs[R12], regs[R13], regs[R14], regs[R15]},
    };
#endif
    return true;
}
