/* SPDX-License-Identifier: Apache-2.0 */
#include "native/cfi.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "native/cfi_internal.h"

#define REMEMBERED_MAX 16U
/* A thousand times as many as torch has. */
#define ENTRIES_MAX    (1U << 26)
#define ROWS_MAX       (1U << 27)

/* Where a register of the caller is saved. */
enum how {
    HOW_SAME,
    HOW_AT_CFA,
    HOW_AT_FP, /* at the address in the frame pointer */
    HOW_UNDEFINED,
    HOW_ODD, /* not supported */
};

struct saved {
    enum how how;
    int64_t offset; /* from the CFA, bytes */
};

struct state {
    enum gsp_cfi_kind kind; /* GSP_CFI_SP means any register: see reg */
    uint64_t reg;
    int64_t offset; /* bytes; for GSP_CFI_PLT the threshold */
    struct saved fp;
    struct saved ra;
};

struct machine {
    const struct gsp_cfi_input *in;
    const struct gsp_cfi_cie *cie;
    struct state now;
    struct state initial;
    struct state remembered[REMEMBERED_MAX];
    unsigned depth;
    uint64_t pc;
};

/* One entry of the section. */
struct item {
    uint64_t start;
    uint64_t len;
    uint64_t at;
};

struct builder {
    struct gsp_cfi_table *table;
    size_t cap;
    int failed;
};

static bool pack_ra(const struct gsp_cfi_arch *arch, const struct state *state, uint32_t *out)
{
    int64_t offset = state->ra.offset;
    if (state->ra.how == HOW_SAME && arch->ra_in_register) {
        *out = GSP_CFI_RA_IN_LR;
        return true;
    }
    if (state->ra.how != HOW_AT_CFA || offset % GSP_CFI_WORD != 0)
        return false;
    if (arch->ra_in_register && state->fp.how == HOW_AT_CFA &&
        offset == state->fp.offset + GSP_CFI_WORD) {
        *out = GSP_CFI_RA_ABOVE;
        return true;
    }
    int64_t words = -offset / GSP_CFI_WORD;
    if (words < 1 || words > (int64_t)GSP_CFI_RA_AT_MAX)
        return false;
    *out = GSP_CFI_RA_AT((uint32_t)words);
    return true;
}

static bool pack_fp(const struct state *state, uint32_t *out)
{
    switch (state->fp.how) {
    case HOW_SAME:
    case HOW_UNDEFINED:
        *out = GSP_CFI_FP_SAME;
        return true;
    case HOW_AT_FP:
        *out = GSP_CFI_FP_AT_FP;
        return true;
    case HOW_AT_CFA: {
        int64_t words = -state->fp.offset / GSP_CFI_WORD;
        if (state->fp.offset % GSP_CFI_WORD != 0 || words < 1 || words >= GSP_CFI_FP_AT_FP)
            return false;
        *out = (uint32_t)words;
        return true;
    }
    case HOW_ODD:
        break;
    }
    return false;
}

static gsp_cfi_rule pack(const struct machine *m)
{
    const struct gsp_cfi_arch *arch = m->in->arch;
    const struct state *state = &m->now;
    const gsp_cfi_rule none = gsp_cfi_pack(GSP_CFI_NONE, 0, 0, 0);
    if (m->cie->is_signal)
        return gsp_cfi_pack(GSP_CFI_SIGNAL, 0, 0, 0);
    if (state->ra.how == HOW_UNDEFINED)
        return gsp_cfi_pack(GSP_CFI_END, 0, 0, 0);
    enum gsp_cfi_kind kind = state->kind;
    uint32_t fp;
    uint32_t ra;
    if (kind == GSP_CFI_NONE || !pack_fp(state, &fp) || !pack_ra(arch, state, &ra))
        return none;
    if (kind == GSP_CFI_PLT)
        return gsp_cfi_pack(kind, state->offset, fp, ra);
    if (kind == GSP_CFI_SP && state->reg == arch->fp)
        kind = GSP_CFI_FP;
    else if (kind == GSP_CFI_SP && state->reg != arch->sp)
        return none;
    int64_t words = state->offset / GSP_CFI_WORD;
    if (state->offset % GSP_CFI_WORD != 0 || words < -0x4000 || words > 0x3fff)
        return none;
    return gsp_cfi_pack(kind, words, fp, ra);
}

static void set_saved(struct machine *m, uint64_t reg, enum how how, int64_t offset)
{
    if (reg == m->in->arch->fp)
        m->now.fp = (struct saved){how, offset};
    if (reg == m->cie->ra)
        m->now.ra = (struct saved){how, offset};
}

static void restore_saved(struct machine *m, uint64_t reg)
{
    if (reg == m->in->arch->fp)
        m->now.fp = m->initial.fp;
    if (reg == m->cie->ra)
        m->now.ra = m->initial.ra;
}

/* "sp + 8, plus 8 from the n-th byte of the entry on": the expression that linkers write for the
 * PLT. */
static bool is_plt(struct gsp_sv expr, int64_t *threshold)
{
    static const char BEGIN[] = "\x77\x08\x80\x00\x3f\x1a";
    static const char END[] = "\x2a\x33\x24\x22";
    const size_t begin = sizeof(BEGIN) - 1;
    if (expr.len != begin + 1 + sizeof(END) - 1 || memcmp(expr.p, BEGIN, begin) != 0 ||
        memcmp(expr.p + begin + 1, END, sizeof(END) - 1) != 0)
        return false;
    unsigned char lit = (unsigned char)expr.p[begin];
    if (lit < 0x30 || lit > 0x3f)
        return false;
    *threshold = lit - 0x30;
    return true;
}

/* breg<fp> offset, optionally followed by a final deref. */
static bool is_fp_based(const struct machine *m, struct gsp_sv expr, int64_t *offset, bool *deref)
{
    struct gsp_cursor cur = {(const unsigned char *)expr.p,
                             (const unsigned char *)expr.p + expr.len};
    if (expr.len < 2 || *cur.p++ != 0x70U + m->in->arch->fp || !gsp_native__sleb(&cur, offset))
        return false;
    *deref = cur.p < cur.end && *cur.p == 0x06;
    return cur.p + (*deref ? 1 : 0) == cur.end;
}

static void set_cfa_expression(struct machine *m, struct gsp_sv expr)
{
    int64_t offset = 0;
    bool deref = false;
    m->now.kind = GSP_CFI_NONE;
    if (!m->in->arch->ra_in_register && is_plt(expr, &offset))
        m->now.kind = GSP_CFI_PLT;
    else if (is_fp_based(m, expr, &offset, &deref) && deref)
        m->now.kind = GSP_CFI_FP_DEREF;
    m->now.offset = offset;
}

static void set_saved_expression(struct machine *m, uint64_t reg, struct gsp_sv expr)
{
    int64_t offset = 0;
    bool deref = false;
    bool at_fp = is_fp_based(m, expr, &offset, &deref) && !deref && offset == 0;
    set_saved(m, reg, at_fp ? HOW_AT_FP : HOW_ODD, 0);
}

static bool get_expression(struct gsp_cursor *cur, struct gsp_sv *out)
{
    uint64_t len;
    return gsp_cursor_varint(cur, &len) && len <= (uint64_t)(cur->end - cur->p) &&
           gsp_cursor_bytes(cur, (size_t)len, out);
}

/* A factor times the data alignment. Offsets of real frames are far below the limit. */
static int64_t scaled(const struct machine *m, int64_t factor)
{
    if (factor > INT32_MAX || factor < INT32_MIN)
        return 1; /* not a multiple of a word: becomes "no rule" */
    return factor * m->cie->data_align;
}

static int64_t plain(uint64_t offset)
{
    return offset > INT32_MAX ? 1 : (int64_t)offset;
}

/* Instructions that change the CFA. */
static bool run_cfa(struct machine *m, struct gsp_cursor *cur, unsigned op)
{
    uint64_t a;
    int64_t s;
    struct gsp_sv expr;
    switch (op) {
    case 0x0c: /* def_cfa */
        if (!gsp_cursor_varint(cur, &m->now.reg) || !gsp_cursor_varint(cur, &a))
            return false;
        m->now.offset = plain(a);
        break;
    case 0x0d: /* def_cfa_register */
        if (!gsp_cursor_varint(cur, &m->now.reg))
            return false;
        break;
    case 0x0e: /* def_cfa_offset */
        if (!gsp_cursor_varint(cur, &a))
            return false;
        m->now.offset = plain(a);
        break;
    case 0x0f: /* def_cfa_expression */
        if (!get_expression(cur, &expr))
            return false;
        set_cfa_expression(m, expr);
        return true;
    case 0x12: /* def_cfa_sf */
        if (!gsp_cursor_varint(cur, &m->now.reg) || !gsp_native__sleb(cur, &s))
            return false;
        m->now.offset = scaled(m, s);
        break;
    case 0x13: /* def_cfa_offset_sf */
        if (!gsp_native__sleb(cur, &s))
            return false;
        m->now.offset = scaled(m, s);
        break;
    default:
        return false;
    }
    m->now.kind = GSP_CFI_SP;
    return true;
}

/* Instructions that define where a register is saved. */
static bool run_saved(struct machine *m, struct gsp_cursor *cur, unsigned op)
{
    uint64_t reg;
    uint64_t a;
    int64_t s;
    struct gsp_sv expr;
    if (!gsp_cursor_varint(cur, &reg))
        return false;
    switch (op) {
    case 0x05: /* offset_extended */
    case 0x2f: /* GNU_negative_offset_extended */
        if (!gsp_cursor_varint(cur, &a))
            return false;
        set_saved(m, reg, HOW_AT_CFA, scaled(m, op == 0x05 ? plain(a) : -plain(a)));
        return true;
    case 0x11: /* offset_extended_sf */
        if (!gsp_native__sleb(cur, &s))
            return false;
        set_saved(m, reg, HOW_AT_CFA, scaled(m, s));
        return true;
    case 0x06: /* restore_extended */
        restore_saved(m, reg);
        return true;
    case 0x07: /* undefined */
        set_saved(m, reg, HOW_UNDEFINED, 0);
        return true;
    case 0x08: /* same_value */
        set_saved(m, reg, HOW_SAME, 0);
        return true;
    case 0x09: /* register */
    case 0x14: /* val_offset, val_offset_sf: signed and unsigned LEBs have the same length */
    case 0x15:
        set_saved(m, reg, HOW_ODD, 0);
        return gsp_cursor_varint(cur, &a);
    case 0x10: /* expression */
        if (!get_expression(cur, &expr))
            return false;
        set_saved_expression(m, reg, expr);
        return true;
    case 0x16: /* val_expression */
        set_saved(m, reg, HOW_ODD, 0);
        return get_expression(cur, &expr);
    default:
        return false;
    }
}

static bool run_plain(struct machine *m, struct gsp_cursor *cur, unsigned op)
{
    uint64_t a;
    switch (op) {
    case 0x00: /* nop */
    case 0x2d: /* AARCH64_negate_ra_state: the unwinder always removes the signature */
        return true;
    case 0x0a: /* remember_state */
        if (m->depth == REMEMBERED_MAX)
            return false;
        m->remembered[m->depth++] = m->now;
        return true;
    case 0x0b: /* restore_state */
        if (m->depth == 0)
            return false;
        m->now = m->remembered[--m->depth];
        return true;
    case 0x2e: /* GNU_args_size */
        return gsp_cursor_varint(cur, &a);
    case 0x0c:
    case 0x0d:
    case 0x0e:
    case 0x0f:
    case 0x12:
    case 0x13:
        return run_cfa(m, cur, op);
    default:
        return run_saved(m, cur, op);
    }
}

/* Runs an instruction that advances the location. Sets *moved if it was one. */
static bool run_advance(struct machine *m, struct gsp_cursor *cur, unsigned op, bool *moved)
{
    uint64_t delta = 0;
    *moved = true;
    if ((op & 0xc0U) == 0x40)
        delta = op & 0x3fU;
    else if (op == 0x01)
        return gsp_native__pointer(m->in, cur, m->cie->encoding, &m->pc);
    else if (op >= 0x02 && op <= 0x04) {
        if (!gsp_native__fixed(cur, (size_t)1 << (op - 2), &delta))
            return false;
    } else
        *moved = false;
    m->pc += delta * m->cie->code_align;
    return true;
}

/* Runs an instruction that does not advance the location. */
static bool run_one(struct machine *m, struct gsp_cursor *cur, unsigned op)
{
    uint64_t a;
    unsigned low = op & 0x3fU;
    switch (op & 0xc0U) {
    case 0x80: /* offset */
        if (!gsp_cursor_varint(cur, &a))
            return false;
        set_saved(m, low, HOW_AT_CFA, scaled(m, plain(a)));
        return true;
    case 0xc0: /* restore */
        restore_saved(m, low);
        return true;
    default:
        return run_plain(m, cur, op);
    }
}

static void start(struct machine *m)
{
    m->now = (struct state){.kind = GSP_CFI_NONE};
    m->initial = m->now;
    struct gsp_cursor cur = m->cie->program;
    while (cur.p < cur.end) {
        unsigned op = *cur.p++;
        if (!run_one(m, &cur, op)) {
            m->now.kind = GSP_CFI_NONE;
            break;
        }
    }
    m->depth = 0;
    m->initial = m->now;
}

static void emit(struct builder *b, uint64_t pc, gsp_cfi_rule rule)
{
    struct gsp_cfi_table *table = b->table;
    uint64_t offset = pc - table->base;
    if (b->failed != GSP_OK || offset > UINT32_MAX)
        return;
    struct gsp_cfi_row *last = table->count ? &table->rows[table->count - 1] : NULL;
    if (last && (last->rule == rule || last->pc > offset))
        return;
    if (last && last->pc == offset) {
        last->rule = rule;
        return;
    }
    if (table->count == ROWS_MAX || !gsp_array_fit(&table->rows, &b->cap, table->count + 1)) {
        b->failed = table->count == ROWS_MAX ? GSP_E_LIMIT : GSP_E_NOMEM;
        return;
    }
    table->rows[table->count++] = (struct gsp_cfi_row){(uint32_t)offset, rule};
}

static void emit_entry(struct builder *b, struct machine *m, const struct gsp_cfi_fde *fde)
{
    start(m);
    m->pc = fde->start;
    uint64_t end = fde->start + fde->len;
    uint64_t row_pc = m->pc;
    struct gsp_cursor cur = fde->program;
    while (cur.p < cur.end) {
        unsigned op = *cur.p++;
        bool moved;
        uint64_t before = m->pc;
        if (!run_advance(m, &cur, op, &moved) || (!moved && !run_one(m, &cur, op))) {
            /* The rules so far are valid up to here. */
            emit(b, row_pc, gsp_cfi_pack(GSP_CFI_NONE, 0, 0, 0));
            emit(b, end, gsp_cfi_pack(GSP_CFI_NONE, 0, 0, 0));
            return;
        }
        if (!moved)
            continue;
        if (m->pc < before || m->pc >= end)
            break;
        if (m->pc > before)
            emit(b, row_pc, pack(m));
        row_pc = m->pc;
    }
    emit(b, row_pc, pack(m));
    emit(b, end, gsp_cfi_pack(GSP_CFI_NONE, 0, 0, 0));
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int gather(const struct gsp_cfi_input *in, struct item **items, size_t *count,
                  struct gsp_err *err)
{
    struct gsp_cfi_walk walk = {.in = in};
    struct gsp_cfi_fde fde;
    size_t cap = 0;
    while (gsp_native__fde_next(&walk, &fde)) {
        if (*count == ENTRIES_MAX)
            return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u unwind entries", ENTRIES_MAX);
        if (!gsp_array_fit(items, &cap, *count + 1))
            return gsp_err_nomem(err);
        (*items)[(*count)++] = (struct item){fde.start, fde.len, fde.at};
    }
    if (*count > 1)
        qsort(*items, *count, sizeof(**items), compare_items);
    return GSP_OK;
}

static void build_rows(const struct gsp_cfi_input *in, const struct item *items, size_t count,
                       struct builder *b)
{
    struct gsp_cfi_walk walk = {.in = in};
    struct machine m = {.in = in, .cie = &walk.cie};
    uint64_t floor = 0;
    for (size_t i = 0; i < count && b->failed == GSP_OK; i++) {
        struct gsp_cfi_fde fde;
        /* If two entries overlap, the first one is used. */
        if (items[i].start < floor || !gsp_native__fde_at(&walk, (size_t)items[i].at, &fde))
            continue;
        emit_entry(b, &m, &fde);
        floor = items[i].start + items[i].len;
    }
}

int gsp_native__cfi_build(const struct gsp_cfi_input *in, struct gsp_cfi_table *out,
                          struct gsp_err *err)
{
    *out = (struct gsp_cfi_table){0};
    struct item *items = NULL;
    size_t count = 0;
    int rc = gather(in, &items, &count, err);
    if (rc != GSP_OK || count == 0) {
        free(items);
        return rc;
    }
    struct builder b = {.table = out, .failed = GSP_OK};
    out->base = items[0].start;
    build_rows(in, items, count, &b);
    free(items);
    if (b.failed == GSP_OK)
        return GSP_OK;
    gsp_native__cfi_free(out);
    if (b.failed == GSP_E_LIMIT)
        return gsp_err_set(err, GSP_E_LIMIT, 0, "more than %u unwind rows", ROWS_MAX);
    return gsp_err_nomem(err);
}

void gsp_native__cfi_free(struct gsp_cfi_table *table)
{
    free(table->rows);
    *table = (struct gsp_cfi_table){0};
}

gsp_cfi_rule gsp_native__cfi_find(const struct gsp_cfi_table *table, uint64_t addr)
{
    const gsp_cfi_rule none = gsp_cfi_pack(GSP_CFI_NONE, 0, 0, 0);
    if (addr < table->base || addr - table->base > UINT32_MAX)
        return none;
    uint32_t offset = (uint32_t)(addr - table->base);
    size_t lo = 0;
    size_t hi = table->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (table->rows[mid].pc <= offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? table->rows[lo - 1].rule : none;
}

bool gsp_native__cfi_span(const struct gsp_cfi_input *in, uint64_t addr, struct gsp_cfi_span *out)
{
    struct gsp_cfi_walk walk = {.in = in};
    struct gsp_cfi_fde fde;
    while (gsp_native__fde_next(&walk, &fde)) {
        if (addr >= fde.start && addr - fde.start < fde.len) {
            *out = (struct gsp_cfi_span){fde.start, fde.len};
            return true;
        }
    }
    return false;
}
