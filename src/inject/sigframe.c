/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/sigframe.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ucontext.h>

#include "inject/state.h"

#define ALIGN_DOWN(addr, to) ((addr) & ~((gsp_raddr)(to)-1))

#if defined(__x86_64__)

#include <cpuid.h>

/* The flags of the kernel's struct ucontext: extended registers follow; ss is valid. */
#define UC_FP_XSTATE         1U
#define UC_SIGCONTEXT_SS     2U
#define UC_STRICT_RESTORE_SS 4U
#define FP_MAGIC1            0x46505853U
#define FP_MAGIC2            0x46505845U
#define FP_SOFTWARE_AT       464U /* struct _fpx_sw_bytes, and in ptrace the enabled features */
#define FP_HEADER_AT         512U
#define FP_LEGACY_BYTES      512U
#define FP_HEADER_END        576U
#define FP_ALIGN             64U
#define CPUID_XSTATE         0xdU
/* Tile registers: a thread that has not used them has no room for them. */
#define DYNAMIC_FEATURES     (UINT64_C(1) << 18U)
#define SYSCALL_BYTES        2U
/* Errors with which the kernel marks an interrupted system call. */
#define RESTARTSYS           512
#define RESTARTNOINTR        513
#define RESTARTNOHAND        514
#define RESTART_BLOCK        516

/* The call returns to the code at store, which pops some words and returns to sigreturn. */
#define WORDS_MAX            16U
struct frame {
    uint64_t words[WORDS_MAX]; /* return addresses; the last one is sigreturn */
    ucontext_t context;
    uint64_t value;
};

/* The end of the last enabled feature in the standard layout, which the processor defines. */
static size_t state_bytes(uint64_t features)
{
    size_t end = FP_HEADER_END;
    for (unsigned i = 2; i < 63; i++) {
        unsigned size = 0;
        unsigned offset = 0;
        unsigned unused_c = 0;
        unsigned unused_d = 0;
        if (features & (UINT64_C(1) << i) &&
            __get_cpuid_count(CPUID_XSTATE, i, &size, &offset, &unused_c, &unused_d) &&
            (size_t)offset + size > end)
            end = (size_t)offset + size;
    }
    return end;
}

/* Writes the vector registers as the kernel saves them for a handler. Returns their size, or 0 if
 * they are unusable. */
static size_t put_vectors(const struct gsp_inject__registers *kept, unsigned char *to)
{
    uint64_t features;
    uint64_t used;
    const uint32_t end = FP_MAGIC2;
    if (kept->wide_kind == NT_PRFPREG && kept->wide_len >= FP_LEGACY_BYTES) {
        memcpy(to, kept->wide, FP_LEGACY_BYTES);
        memset(to + FP_SOFTWARE_AT, 0, FP_LEGACY_BYTES - FP_SOFTWARE_AT);
        return FP_LEGACY_BYTES;
    }
    if (kept->wide_len < FP_HEADER_END)
        return 0;
    memcpy(&features, kept->wide + FP_SOFTWARE_AT, sizeof(features));
    memcpy(&used, kept->wide + FP_HEADER_AT, sizeof(used));
    features &= ~(DYNAMIC_FEATURES & ~used);
    const size_t len = state_bytes(features);
    if (len > kept->wide_len)
        return 0;
    const struct {
        uint32_t magic;
        uint32_t extended_size;
        uint64_t features;
        uint32_t size;
        uint32_t padding[7];
    } software = {FP_MAGIC1, (uint32_t)(len + sizeof(end)), features, (uint32_t)len, {0}};
    memcpy(to, kept->wide, len);
    memcpy(to + FP_SOFTWARE_AT, &software, sizeof(software));
    memcpy(to + len, &end, sizeof(end));
    return len + sizeof(end);
}

/* Sets the system call in which the thread waits to be repeated, as after a handler. A relative
 * time limit would start from the beginning; the call fails with EINTR instead. */
static void end_call(const struct gsp_inject__registers *kept, greg_t *regs)
{
    struct gsp_inject_call_at at;
    gsp_inject__registers_get_call(kept, &at);
    const long error = -(long)kept->regs.rax;
    if (at.number < 0)
        return;
    if (error == RESTARTSYS || error == RESTARTNOINTR || error == RESTARTNOHAND ||
        (error == RESTART_BLOCK &&
         (gsp_inject__call_waits_until(&at) || gsp_inject__call_can_repeat(&at)))) {
        regs[REG_RAX] = at.number;
        regs[REG_RIP] -= SYSCALL_BYTES;
    } else if (error == RESTART_BLOCK) {
        regs[REG_RAX] = -EINTR;
    }
}

static void put_context(const struct gsp_inject__registers *kept, ucontext_t *out)
{
    const struct user_regs_struct *from = &kept->regs;
    greg_t *regs = out->uc_mcontext.gregs;
    const uint64_t segments = (uint64_t)(uint16_t)from->cs | (uint64_t)(uint16_t)from->ss << 48U;
    const struct {
        int to;
        unsigned long long value;
    } words[] = {
        {REG_R8, from->r8},   {REG_R9, from->r9},      {REG_R10, from->r10},  {REG_R11, from->r11},
        {REG_R12, from->r12}, {REG_R13, from->r13},    {REG_R14, from->r14},  {REG_R15, from->r15},
        {REG_RDI, from->rdi}, {REG_RSI, from->rsi},    {REG_RBP, from->rbp},  {REG_RBX, from->rbx},
        {REG_RDX, from->rdx}, {REG_RAX, from->rax},    {REG_RCX, from->rcx},  {REG_RSP, from->rsp},
        {REG_RIP, from->rip}, {REG_EFL, from->eflags}, {REG_CSGSFS, segments}};
    for (size_t i = 0; i < GSP_COUNT(words); i++)
        regs[words[i].to] = (greg_t)words[i].value;
    end_call(kept, regs);
    out->uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    memcpy(&out->uc_sigmask, &kept->mask, sizeof(kept->mask));
    /* The alternate stack stays as it is: the kernel ignores one without a size. */
}

bool gsp_inject__sigframe_make(const struct gsp_inject__registers *kept,
                               const struct gsp_inject__landing *landing, gsp_raddr below,
                               struct gsp_inject__sigframe *out)
{
    struct frame frame = {0};
    const bool stores = landing->store && landing->pops + 2 <= WORDS_MAX;
    const size_t words = stores ? landing->pops + 2 : 1;
    const gsp_raddr vectors = ALIGN_DOWN(below - kept->wide_len - sizeof(uint32_t), FP_ALIGN);
    frame.words[WORDS_MAX - 1] = landing->sigreturn;
    if (stores)
        frame.words[WORDS_MAX - words] = landing->store;
    out->base = ALIGN_DOWN(vectors - sizeof(frame), 16);
    /* At function entry the stack is one word off its alignment. */
    if (words % 2 == 0)
        out->base -= sizeof(uint64_t);
    out->sp = out->base + (WORDS_MAX - words) * sizeof(uint64_t);
    out->end = out->base + offsetof(struct frame, context);
    out->value = stores ? out->base + offsetof(struct frame, value) : 0;
    const size_t vectors_at = (size_t)(vectors - out->base);
    if (vectors_at + kept->wide_len + sizeof(uint32_t) > sizeof(out->bytes))
        return false;
    memset(out->bytes, 0, vectors_at);
    const size_t len = put_vectors(kept, out->bytes + vectors_at);
    put_context(kept, &frame.context);
    union {
        gsp_raddr addr;
        fpregset_t to;
    } state = {vectors};
    frame.context.uc_mcontext.fpregs = state.to;
    memcpy(out->bytes, &frame, sizeof(frame));
    out->len = vectors_at + len;
    return len > 0;
}

#elif defined(__aarch64__)

#include <asm/ptrace.h>
#include <asm/sigcontext.h>

#define RECORD_ALIGN 16U

/* As the kernel lays it out. The stack pointer at rt_sigreturn is the address of the frame. */
struct frame {
    siginfo_t info;
    ucontext_t context;
};

/* Copies the low half of every scalable register, and its status. */
static void put_sve_low(const unsigned char *wide, unsigned vq, struct fpsimd_context *out)
{
    for (unsigned i = 0; i < GSP_COUNT(out->vregs); i++)
        memcpy(&out->vregs[i], wide + SVE_PT_SVE_ZREG_OFFSET(vq, i), sizeof(out->vregs[i]));
    memcpy(&out->fpsr, wide + SVE_PT_SVE_FPSR_OFFSET(vq), sizeof(out->fpsr));
    memcpy(&out->fpcr, wide + SVE_PT_SVE_FPCR_OFFSET(vq), sizeof(out->fpcr));
}

static void put_fpsimd(const unsigned char *from, struct fpsimd_context *out)
{
    struct user_fpsimd_state state;
    memcpy(&state, from, sizeof(state));
    memcpy(out->vregs, state.vregs, sizeof(out->vregs));
    out->fpsr = state.fpsr;
    out->fpcr = state.fpcr;
}

/* Writes the vector registers as records of the frame. Returns false if they do not fit. */
static bool put_vectors(const struct gsp_inject__registers *kept, unsigned char *to, size_t cap)
{
    struct fpsimd_context plain = {.head = {FPSIMD_MAGIC, sizeof(plain)}};
    struct sve_context scalable = {.head = {SVE_MAGIC, 0}};
    struct user_sve_header header = {0};
    const bool has_sve = kept->wide_kind == NT_ARM_SVE;
    if (kept->wide_len < (has_sve ? SVE_PT_REGS_OFFSET : sizeof(struct user_fpsimd_state)))
        return false;
    if (has_sve)
        memcpy(&header, kept->wide, sizeof(header));
    if (!has_sve || (header.flags & SVE_PT_REGS_MASK) == SVE_PT_REGS_FPSIMD) {
        const size_t at = has_sve ? SVE_PT_FPSIMD_OFFSET : 0;
        if (kept->wide_len < at + sizeof(struct user_fpsimd_state))
            return false;
        put_fpsimd(kept->wide + at, &plain);
        memcpy(to, &plain, sizeof(plain)); /* the terminator behind it is zero */
        return true;
    }
    if (!sve_vl_valid(header.vl))
        return false;
    const unsigned vq = sve_vq_from_vl(header.vl);
    const size_t used = SVE_SIG_CONTEXT_SIZE(vq);
    const size_t len = (used + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
    if (kept->wide_len < SVE_PT_SVE_OFFSET + SVE_PT_SVE_SIZE(vq, header.flags) ||
        sizeof(plain) + len + sizeof(struct _aarch64_ctx) > cap)
        return false;
    put_sve_low(kept->wide, vq, &plain);
    scalable.head.size = (uint32_t)len;
    scalable.vl = header.vl;
    memcpy(to, &plain, sizeof(plain));
    memcpy(to + sizeof(plain), &scalable, sizeof(scalable));
    memcpy(to + sizeof(plain) + SVE_SIG_REGS_OFFSET, kept->wide + SVE_PT_REGS_OFFSET,
           used - SVE_SIG_REGS_OFFSET);
    return true;
}

bool gsp_inject__sigframe_make(const struct gsp_inject__registers *kept,
                               const struct gsp_inject__landing *landing, gsp_raddr below,
                               struct gsp_inject__sigframe *out)
{
    static struct frame frame; /* large; the injector has one thread */
    mcontext_t *context = &frame.context.uc_mcontext;
    (void)landing; /* in a register */
    memset(&frame, 0, sizeof(frame));
    memcpy(context->regs, kept->regs.regs, sizeof(context->regs));
    context->sp = kept->regs.sp;
    context->pc = kept->regs.pc;
    context->pstate = kept->regs.pstate;
    memcpy(&frame.context.uc_sigmask, &kept->mask, sizeof(kept->mask));
    if (!put_vectors(kept, context->__reserved, sizeof(context->__reserved)))
        return false;
    out->base = ALIGN_DOWN(below - sizeof(frame), 16);
    out->sp = out->base;
    out->end = out->base;
    out->value = 0;
    out->len = sizeof(frame);
    memcpy(out->bytes, &frame, sizeof(frame));
    return true;
}

#else
#error "unsupported processor architecture"
#endif
