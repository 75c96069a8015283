/* SPDX-License-Identifier: Apache-2.0 */
#include "native/unwind.h"

#include <elf.h>
#include <string.h>

#include "native/native_internal.h"

#define CALL_BYTES_MAX  7U
/* Bridges (searches of the stack) per unwind. */
#define BRIDGES_MAX     32U
/* Words of the stack that a search reads, and saved frame pointers that it tries. */
#define SEARCH_MAX      8192U
#define POINTERS_MAX    16U
/* Bytes of code that are decoded to find how much stack a function uses. */
#define PROLOGUE_MAX    512U
/* Callers that must be found from a candidate frame, unless the stack ends before. */
#define SOUND_STEPS     12U
/* Maximum size of a buffer that a prologue allocates on the stack. */
#define BUFFER_MAX      (1ULL << 20)
/* Maximum size of a stack: a frame pointer further away is another value. */
#define STACK_BYTES_MAX (1ULL << 30)
/* The bits of an address without its pointer-authentication signature. */
#define AARCH64_ADDRESS ((1ULL << 48) - 1)

/* Offsets of the saved registers in a signal frame, relative to the stack pointer in the signal
 * return trampoline. x86-64: struct ucontext is there (arch/x86/include/uapi/asm/ucontext.h);
 * aarch64: 128 bytes of siginfo precede it (arch/arm64/kernel/signal.c). */
struct signal_layout {
    uint64_t pc;
    uint64_t sp;
    uint64_t fp;
    uint64_t lr; /* 0: none */
};

static const struct signal_layout SIGNAL_X86_64 = {.pc = 168, .sp = 160, .fp = 120};
static const struct signal_layout SIGNAL_AARCH64 = {.pc = 568, .sp = 560, .fp = 544, .lr = 552};

enum step {
    STEP_OK,
    STEP_END,
    STEP_NO_RULE,
    STEP_OUT,
    STEP_LOOP,
};

/* The frame that the unwinder has reached. */
struct frame {
    struct gsp_regs regs;
    bool is_exact; /* pc is the interrupted instruction, not a return address */
};

struct walk {
    struct gsp_native *native;
    const struct gsp_cfi_arch *arch;
    const unsigned char *stack;
    uint64_t low;
    size_t len;
};

static bool get_word(const struct walk *walk, uint64_t addr, uint64_t *out)
{
    uint64_t off = addr - walk->low;
    if (addr < walk->low || off > walk->len || walk->len - off < sizeof(*out))
        return false;
    memcpy(out, walk->stack + off, sizeof(*out));
    return true;
}

/* The cache entry of an address, filled at the first call. */
static struct gsp_native_rule *rule_of(struct gsp_native *native, uint64_t pc)
{
    struct gsp_native_rule *rule = &native->rules[gsp_mix64(pc) % GSP_NATIVE_RULES];
    if (rule->pc == pc && rule->generation == native->generation)
        return rule;
    *rule = (struct gsp_native_rule){
        .pc = pc, .generation = native->generation, .module = GSP_NATIVE_NO_MODULE};
    const struct gsp_native_text *text = gsp_native__text_find(native, pc);
    if (!text)
        return rule;
    rule->known = true;
    rule->module = text->module;
    if (text->module == GSP_NATIVE_NO_MODULE)
        return rule;
    struct gsp_native_file *file = gsp_native__module_file(native, text->module);
    if (file)
        rule->rule = gsp_native__file_rule(file, pc - native->modules[text->module].bias);
    return rule;
}

static struct gsp_native_rule *rule_of_frame(const struct walk *walk, const struct frame *frame)
{
    return rule_of(walk->native, frame->regs.pc - (frame->is_exact ? 0 : 1));
}

/* The cache entry that says whether pc is a return address. pc may be any word of the stack. */
static const struct gsp_native_site *site_of(const struct walk *walk, uint64_t pc)
{
    struct gsp_native *native = walk->native;
    struct gsp_native_site *site = &native->sites[gsp_mix64(pc) % GSP_NATIVE_SITES];
    if (site->pc == pc && site->generation == native->generation)
        return site;
    *site = (struct gsp_native_site){.pc = pc, .generation = native->generation};
    const struct gsp_native_text *text = gsp_native__text_find(native, pc - 1);
    if (!text || text->module == GSP_NATIVE_NO_MODULE)
        return site;
    const struct gsp_native_file *file = gsp_native__module_file(native, text->module);
    unsigned char bytes[CALL_BYTES_MAX];
    if (!file || !gsp_native__file_text(file, pc - native->modules[text->module].bias - 7, bytes,
                                        sizeof(bytes)))
        return site;
    site->is_return = gsp_native__after_call(walk->arch, bytes, sizeof(bytes));
    if (walk->arch->machine == EM_X86_64 && bytes[2] == 0xe8) {
        int32_t delta;
        memcpy(&delta, bytes + 3, sizeof(delta));
        site->target = pc + (uint64_t)(int64_t)delta;
    }
    return site;
}

static enum step find_cfa(const struct walk *walk, gsp_cfi_rule rule, const struct gsp_regs *regs,
                          uint64_t *cfa)
{
    enum gsp_cfi_kind kind = gsp_cfi_kind_of(rule);
    uint64_t offset = (uint64_t)(gsp_cfi_offset_of(rule) * GSP_CFI_WORD);
    if (kind == GSP_CFI_SP) {
        *cfa = regs->sp + offset;
        return STEP_OK;
    }
    if (kind == GSP_CFI_PLT) {
        *cfa = regs->sp + 8 + ((int64_t)(regs->pc & 15) >= gsp_cfi_offset_of(rule) ? 8 : 0);
        return STEP_OK;
    }
    /* A bridged function may have used the frame pointer for another value. */
    if (regs->fp < regs->sp || regs->fp - regs->sp > STACK_BYTES_MAX)
        return STEP_NO_RULE;
    *cfa = regs->fp + offset;
    if (kind == GSP_CFI_FP_DEREF && !get_word(walk, regs->fp + offset, cfa))
        return STEP_OUT;
    return STEP_OK;
}

static enum step step_signal(const struct walk *walk, struct frame *frame)
{
    const struct signal_layout *at =
        walk->arch->machine == EM_AARCH64 ? &SIGNAL_AARCH64 : &SIGNAL_X86_64;
    uint64_t sp = frame->regs.sp;
    struct gsp_regs regs = {0};
    if (!get_word(walk, sp + at->pc, &regs.pc) || !get_word(walk, sp + at->sp, &regs.sp) ||
        !get_word(walk, sp + at->fp, &regs.fp) ||
        (at->lr && !get_word(walk, sp + at->lr, &regs.lr)))
        return STEP_OUT;
    /* If the handler runs on an alternate stack, the interrupted stack was not copied. */
    if (regs.sp < walk->low || regs.sp - walk->low > walk->len)
        return STEP_OUT;
    *frame = (struct frame){regs, true};
    return STEP_OK;
}

static enum step find_ra(const struct walk *walk, gsp_cfi_rule rule, const struct frame *frame,
                         uint64_t cfa, uint64_t *ra)
{
    uint32_t how = gsp_cfi_ra_of(rule);
    if (how == GSP_CFI_RA_IN_LR) {
        /* Only valid before the function makes a call. */
        *ra = frame->regs.lr;
        return frame->is_exact ? STEP_OK : STEP_NO_RULE;
    }
    uint64_t words = how == GSP_CFI_RA_ABOVE ? gsp_cfi_fp_of(rule) - 1ULL : how - 1ULL;
    return get_word(walk, cfa - words * GSP_CFI_WORD, ra) ? STEP_OK : STEP_OUT;
}

static enum step find_fp(const struct walk *walk, gsp_cfi_rule rule, const struct gsp_regs *regs,
                         uint64_t cfa, uint64_t *fp)
{
    uint32_t how = gsp_cfi_fp_of(rule);
    if (how == GSP_CFI_FP_SAME)
        return STEP_OK;
    uint64_t at = how == GSP_CFI_FP_AT_FP ? *fp : cfa - (uint64_t)how * GSP_CFI_WORD;
    /* In an epilogue the rule still refers to the slot from which it was just popped. */
    if (at < regs->sp)
        return STEP_OK;
    return get_word(walk, at, fp) ? STEP_OK : STEP_OUT;
}

/* Replaces *frame by its caller; unchanged on failure. */
static enum step step_out(const struct walk *walk, struct frame *frame, gsp_cfi_rule rule)
{
    enum gsp_cfi_kind kind = gsp_cfi_kind_of(rule);
    if (kind == GSP_CFI_END)
        return STEP_END;
    if (kind == GSP_CFI_SIGNAL)
        return step_signal(walk, frame);
    if (kind == GSP_CFI_NONE)
        return STEP_NO_RULE;
    struct frame next = {.regs = {.fp = frame->regs.fp}}; /* callee-saved registers are lost */
    uint64_t cfa;
    enum step step = find_cfa(walk, rule, &frame->regs, &cfa);
    if (step == STEP_OK)
        step = find_ra(walk, rule, frame, cfa, &next.regs.pc);
    if (step == STEP_OK)
        step = find_fp(walk, rule, &frame->regs, cfa, &next.regs.fp);
    if (step != STEP_OK)
        return step;
    if (walk->arch->machine == EM_AARCH64)
        next.regs.pc &= AARCH64_ADDRESS;
    /* Every frame uses stack, except a leaf on a machine with a return-address register. */
    bool may_be_empty = walk->arch->ra_in_register && frame->is_exact;
    if (cfa < frame->regs.sp || (cfa == frame->regs.sp && !may_be_empty))
        return STEP_LOOP;
    if (next.regs.pc == 0)
        return STEP_END;
    next.regs.sp = cfa;
    if (!rule_of(walk->native, next.regs.pc - 1)->known) {
        walk->native->is_stale = true;
        return STEP_NO_RULE;
    }
    *frame = next;
    return STEP_OK;
}

/* Returns whether a candidate frame leads to further callers. A stale return address of an earlier
 * call usually does not. *by_fp: the result depends on the frame pointer. */
static bool is_sound(const struct walk *walk, const struct frame *found, bool *by_fp)
{
    struct frame next = *found;
    *by_fp = false;
    bool was_stale = walk->native->is_stale;
    enum step step = STEP_OK;
    for (unsigned i = 0; i < SOUND_STEPS && step == STEP_OK; i++) {
        gsp_cfi_rule rule = rule_of_frame(walk, &next)->rule;
        enum gsp_cfi_kind kind = gsp_cfi_kind_of(rule);
        /* Other code without rules is bridged later. */
        if (kind == GSP_CFI_END || (kind == GSP_CFI_NONE && i > 0))
            break;
        *by_fp = *by_fp || kind == GSP_CFI_FP || kind == GSP_CFI_FP_DEREF;
        step = step_out(walk, &next, rule);
        bool in_file = rule_of_frame(walk, &next)->module != GSP_NATIVE_NO_MODULE;
        if (step == STEP_OK && in_file && !next.is_exact && !site_of(walk, next.regs.pc)->is_return)
            step = STEP_NO_RULE;
    }
    walk->native->is_stale = was_stale; /* the candidate may not be a frame */
    /* The end of the copy does not contradict the candidate. */
    return step == STEP_OK || step == STEP_OUT;
}

/* Returns whether a function without rules can have been called from there. A direct call of a
 * function with rules is a stale return address of an earlier call. */
static bool may_call(const struct walk *walk, const struct gsp_native_site *site)
{
    if (!site->is_return)
        return false;
    if (!site->target)
        return true;
    enum gsp_cfi_kind kind = gsp_cfi_kind_of(rule_of(walk->native, site->target)->rule);
    return kind == GSP_CFI_NONE || kind == GSP_CFI_PLT;
}

/* Chooses the frame pointer for a return address found at slot: the current one, or one that was
 * saved below the slot. */
static bool fit_frame_pointer(const struct walk *walk, uint64_t sp, uint64_t slot,
                              struct frame *found)
{
    uint64_t old = found->regs.fp;
    uint64_t high = walk->low + walk->len;
    bool by_fp;
    if (old + 8 == slot && get_word(walk, old, &found->regs.fp) && is_sound(walk, found, &by_fp))
        return true;
    found->regs.fp = old;
    bool is_good = is_sound(walk, found, &by_fp);
    if (is_good && old > slot && old < high)
        return true;
    if (!is_good && !by_fp)
        return false;
    size_t tried = 0;
    for (uint64_t at = sp; at < slot && tried < POINTERS_MAX; at += 8) {
        uint64_t word;
        if (!get_word(walk, at, &word) || word <= slot || word >= high || word % 8 != 0)
            continue;
        tried++;
        found->regs.fp = word;
        if (is_sound(walk, found, &by_fp))
            return true;
    }
    found->regs.fp = old;
    return is_good;
}

/* Finds the start of a function without rules, and how much stack it uses. */
static void find_start(const struct walk *walk, struct gsp_native_rule *rule)
{
    rule->has_start = true;
    if (rule->module == GSP_NATIVE_NO_MODULE)
        return;
    struct gsp_native_file *file = gsp_native__module_file(walk->native, rule->module);
    uint64_t bias = walk->native->modules[rule->module].bias;
    struct gsp_native_found found;
    unsigned char code[PROLOGUE_MAX];
    if (!file || !gsp_native__symbol_find(file, rule->pc - bias, &found))
        return;
    rule->start = found.start + bias;
    uint64_t len = rule->pc - rule->start;
    len = len < sizeof(code) ? len : sizeof(code);
    if (gsp_native__file_text(file, found.start, code, (size_t)len))
        rule->prologue = gsp_native__prologue_decode(walk->arch, code, (size_t)len);
}

/* The function without rules whose caller is searched. */
struct leaf {
    uint64_t sp;
    uint64_t fp;
    uint64_t start; /* 0: unknown */
    uint64_t slot;  /* address of the return address according to its prologue; 0: unknown */
};

/* The evidence for a return address, strongest first. */
enum proof {
    PROOF_PROLOGUE, /* it is in the slot that the prologue implies */
    PROOF_CALL,     /* the call before it calls the function */
    PROOF_NONE,     /* it is the first plausible one */
};

/* Returns whether the word at slot is the return address of the leaf. */
static bool is_caller(const struct walk *walk, const struct leaf *leaf, uint64_t slot,
                      enum proof proof, struct frame *found)
{
    uint64_t word;
    if (!get_word(walk, slot, &word))
        return false;
    if (walk->arch->machine == EM_AARCH64)
        word &= AARCH64_ADDRESS;
    if (word < walk->native->texts[0].start ||
        gsp_cfi_kind_of(rule_of(walk->native, word - 1)->rule) == GSP_CFI_NONE)
        return false;
    const struct gsp_native_site *site = site_of(walk, word);
    if (proof == PROOF_CALL ? !site->is_return || site->target != leaf->start
                            : !may_call(walk, site))
        return false;
    *found = (struct frame){.regs = {.pc = word, .sp = slot + 8, .fp = leaf->fp}};
    return fit_frame_pointer(walk, leaf->sp, slot, found);
}

static bool search(const struct walk *walk, const struct leaf *leaf, enum proof proof,
                   struct frame *found)
{
    if (proof == PROOF_PROLOGUE)
        return leaf->slot && is_caller(walk, leaf, leaf->slot, proof, found);
    if (proof == PROOF_CALL && !leaf->start)
        return false;
    uint64_t high = walk->low + walk->len;
    for (size_t i = 0; i < SEARCH_MAX && leaf->sp + 8 * i < high; i++)
        if (is_caller(walk, leaf, leaf->sp + 8 * i, proof, found))
            return true;
    return false;
}

static uint64_t return_slot(const struct gsp_prologue *prologue, const struct gsp_regs *regs)
{
    if (!prologue->is_known)
        return 0;
    uint64_t base = regs->sp;
    if (prologue->base == GSP_PROLOGUE_FP)
        base = regs->fp;
    else if (prologue->base != GSP_PROLOGUE_SP)
        base = regs->kept[prologue->base < 12 ? 0 : prologue->base - 11];
    return base ? base + prologue->bytes : 0;
}

/* Searches the stack for the return address of a frame without rules. Stale return addresses of
 * earlier calls look the same, so the strongest evidence is tried first. */
static enum step bridge(const struct walk *walk, struct frame *frame)
{
    struct leaf leaf = {.sp = (frame->regs.sp + 7) & ~7ULL, .fp = frame->regs.fp};
    struct gsp_native_rule *rule = rule_of_frame(walk, frame);
    if (frame->is_exact && gsp_cfi_kind_of(rule->rule) == GSP_CFI_NONE) {
        if (!rule->has_start)
            find_start(walk, rule);
        leaf.start = rule->start;
        leaf.slot = return_slot(&rule->prologue, &frame->regs);
    }
    /* BLAS kernels have buffers on the stack that are larger than the copy. A return address found
     * inside such a buffer is not that of the caller. */
    uint64_t high = walk->low + walk->len;
    if (leaf.slot && leaf.slot >= high && leaf.slot - high < BUFFER_MAX)
        return STEP_OUT;
    struct frame found;
    for (enum proof proof = PROOF_PROLOGUE; proof <= PROOF_NONE; proof++) {
        if (search(walk, &leaf, proof, &found)) {
            *frame = found;
            return STEP_OK;
        }
    }
    /* The return address may be past the end of the copy. */
    return walk->len > 0 && leaf.sp + 8ULL * SEARCH_MAX >= high ? STEP_OUT : STEP_NO_RULE;
}

/* For a leaf without rules on a machine with a return-address register: uses that register. */
static bool bridge_by_register(const struct walk *walk, struct frame *frame)
{
    if (!walk->arch->ra_in_register || !frame->is_exact)
        return false;
    struct frame found = {.regs = frame->regs};
    found.regs.pc = frame->regs.lr & AARCH64_ADDRESS;
    bool by_fp;
    if (!site_of(walk, found.regs.pc)->is_return || !is_sound(walk, &found, &by_fp))
        return false;
    *frame = found;
    return true;
}

static enum gsp_native_end end_of(enum step step)
{
    switch (step) {
    case STEP_END:
        return GSP_NATIVE_REACHED_ENTRY;
    case STEP_OUT:
        return GSP_NATIVE_OUT_OF_STACK;
    case STEP_LOOP:
        return GSP_NATIVE_LOOP;
    case STEP_OK:
    case STEP_NO_RULE:
        break;
    }
    return GSP_NATIVE_NO_RULE;
}

size_t gsp_native_unwind(struct gsp_native *native, const struct gsp_native_copy *copy,
                         struct gsp_native_frame *frames, size_t cap, enum gsp_native_end *end)
{
    const struct walk walk = {native, gsp_native__arch_own(), copy->stack, copy->regs.sp,
                              copy->stack ? copy->stack_len : 0};
    struct frame frame = {copy->regs, true};
    bool bridged = false;
    unsigned bridges = 0;
    size_t count = 0;
    *end = GSP_NATIVE_LIMIT;
    while (count < cap) {
        const struct gsp_native_rule *rule = rule_of_frame(&walk, &frame);
        if (!rule->known)
            native->is_stale = true;
        frames[count++] = (struct gsp_native_frame){rule->pc, frame.regs.sp, rule->module, bridged};
        bridged = false;
        gsp_cfi_rule rule_now = rule->rule;
        enum step step = step_out(&walk, &frame, rule_now);
        if (step == STEP_OK)
            continue;
        if (step == STEP_NO_RULE && native->text_count > 0 && bridges++ < BRIDGES_MAX) {
            step = bridge_by_register(&walk, &frame) ? STEP_OK : bridge(&walk, &frame);
            bridged = step == STEP_OK;
            if (bridged)
                continue;
        }
        /* After a bridge, a zero return address may be an unrelated zero. */
        if (step == STEP_END && bridges > 0 && gsp_cfi_kind_of(rule_now) != GSP_CFI_END)
            step = STEP_NO_RULE;
        *end = end_of(step);
        break;
    }
    return count;
}
