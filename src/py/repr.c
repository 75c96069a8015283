/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "py/object.h"
#include "py/object_internal.h"
#include "py/repr_internal.h"

#define BYTES_DEFAULT 128U
#define ITEMS_DEFAULT 16U
#define DEPTH_DEFAULT 4U
#define NODES_MAX     4096U /* objects visited for one repr: bounds the time */
#define DIGITS_MAX    64U   /* of 30 bits: an int of up to 578 decimal places is shown in full */
#define BASES_MAX     16U
#define PRECISION_MAX 16 /* decimals that identify every double */

/* Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_*_SUBCLASS */
#define IS_HEAP_TYPE  (1ULL << 9U)
#define IS_LONG       (1ULL << 24U)
#define IS_LIST       (1ULL << 25U)
#define IS_TUPLE      (1ULL << 26U)
#define IS_BYTES      (1ULL << 27U)
#define IS_STR        (1ULL << 28U)
#define IS_DICT       (1ULL << 29U)
#define IS_TYPE       (1ULL << 31U)

static int write_object(struct gsp_py__repr *r, gsp_raddr addr);

static bool is_full(const struct gsp_py__repr *r)
{
    return r->out->len - r->start >= r->limits.bytes_max || r->nodes >= NODES_MAX;
}

static size_t room_of(const struct gsp_py__repr *r)
{
    size_t used = r->out->len - r->start;
    return used < r->limits.bytes_max ? r->limits.bytes_max - used : 0;
}

/* ---- Numbers ---- */

/* Converts digits of 30 bits to digits of base 1e9, the lowest first. out must be large enough. */
static size_t to_decimal(const uint32_t *digits, size_t count, uint32_t *out)
{
    size_t len = 0;
    for (size_t i = count; i-- > 0;) {
        uint64_t carry = digits[i] & ((1U << 30U) - 1U);
        for (size_t k = 0; k < len; k++) {
            uint64_t value = ((uint64_t)out[k] << 30U) + carry;
            out[k] = (uint32_t)(value % 1000000000U);
            carry = value / 1000000000U;
        }
        for (; carry != 0; carry /= 1000000000U)
            out[len++] = (uint32_t)(carry % 1000000000U);
    }
    return len;
}

static int write_int(struct gsp_py__repr *r, gsp_raddr addr)
{
    const struct gsp_py__view *v = &r->view;
    struct gsp_py__long head = {0};
    uint32_t digits[DIGITS_MAX];
    uint32_t decimal[DIGITS_MAX + 8];
    int rc = gsp_py__long_head(v, addr, &head);
    if (rc != 0)
        return rc;
    if (head.digit_count > DIGITS_MAX) {
        gsp_buf_printf(r->out, "<int of about %" PRIu64 " bits>", head.digit_count * 30U);
        return 0;
    }
    if (head.digit_count > 0) {
        rc = gsp_proc_mem_read(v->mem, addr + v->layout->long_digits, digits,
                               (size_t)head.digit_count * sizeof(digits[0]));
        if (rc != 0)
            return rc;
    }
    size_t len = to_decimal(digits, (size_t)head.digit_count, decimal);
    if (head.negative)
        gsp_buf_putc(r->out, '-');
    gsp_buf_printf(r->out, "%" PRIu32, len > 0 ? decimal[len - 1] : 0);
    for (size_t i = len > 0 ? len - 1 : 0; i-- > 0;)
        gsp_buf_printf(r->out, "%09" PRIu32, decimal[i]);
    return 0;
}

static int write_bool(struct gsp_py__repr *r, gsp_raddr addr)
{
    uint64_t value = 0;
    int rc = gsp_py__uint_read(r->view.mem, r->view.layout, addr, &value);
    if (rc == 0)
        gsp_buf_puts(r->out, value ? "True" : "False");
    return rc;
}

/* Returns whether the text parses to the same float or double. */
static bool reads_back(const char *text, double value, bool is_float)
{
    return is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
}

/* Uses the same notation as float.__repr__. */
void gsp_py__write_double(struct gsp_buf *out, double value, bool is_float)
{
    char text[40];
    if (isnan(value) || isinf(value)) {
        gsp_buf_puts(out, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    int precision = 0;
    do {
        (void)snprintf(text, sizeof(text), "%.*e", precision, value);
    } while (precision++ < PRECISION_MAX && !reads_back(text, value, is_float));
    char *e = strchr(text, 'e');
    long exponent = e ? strtol(e + 1, NULL, 10) : 0;
    if (exponent < -4 || exponent >= 16) {
        gsp_buf_puts(out, text);
        return;
    }
    size_t mantissa = e ? (size_t)(e - text) : strlen(text);
    size_t digits = mantissa - (text[0] == '-') - (memchr(text, '.', mantissa) != NULL);
    long decimals = (long)digits - 1 - exponent;
    gsp_buf_printf(out, "%.*f", (int)(decimals > 1 ? decimals : 1), value);
}

static int write_float(struct gsp_py__repr *r, gsp_raddr addr)
{
    double value = 0;
    int rc =
        gsp_proc_mem_read(r->view.mem, addr + r->view.layout->float_value, &value, sizeof(value));
    if (rc == 0)
        gsp_py__write_double(r->out, value, false);
    return rc;
}

static int write_complex(struct gsp_py__repr *r, gsp_raddr addr)
{
    double parts[2] = {0, 0};
    int rc =
        gsp_proc_mem_read(r->view.mem, addr + r->view.layout->object_size, parts, sizeof(parts));
    if (rc != 0)
        return rc;
    gsp_buf_putc(r->out, '(');
    gsp_py__write_double(r->out, parts[0], false);
    gsp_buf_putc(r->out, signbit(parts[1]) ? '-' : '+');
    gsp_py__write_double(r->out, fabs(parts[1]), false);
    gsp_buf_puts(r->out, "j)");
    return 0;
}

/* ---- Text ---- */

static void put_escaped(struct gsp_buf *out, unsigned char c)
{
    static const char pairs[] = "\nn\rr\tt\\\\''";
    for (size_t i = 0; pairs[i] != 0; i += 2) {
        if ((unsigned char)pairs[i] == c) {
            gsp_buf_putc(out, '\\');
            gsp_buf_putc(out, pairs[i + 1]);
            return;
        }
    }
    if (c < 0x20U || c == 0x7fU)
        gsp_buf_printf(out, "\\x%02x", c);
    else
        gsp_buf_putc(out, (char)c);
}

static int write_str(struct gsp_py__repr *r, gsp_raddr addr)
{
    gsp_auto_buf text = {0};
    size_t room = room_of(r);
    int rc = gsp_py__str_read(r->view.mem, r->view.layout, addr, room + 4, &text);
    if (rc != 0)
        return rc;
    gsp_buf_putc(r->out, '\'');
    for (size_t i = 0; i < text.len && r->out->len - r->start <= r->limits.bytes_max; i++)
        put_escaped(r->out, (unsigned char)text.p[i]);
    gsp_buf_putc(r->out, '\'');
    return 0;
}

static int write_bytes(struct gsp_py__repr *r, gsp_raddr addr)
{
    const struct gsp_py__view *v = &r->view;
    gsp_auto_buf data = {0};
    uint64_t len = 0;
    int rc = gsp_proc_mem_read_u64(v->mem, addr + v->layout->bytes_size, &len);
    if (rc != 0)
        return rc;
    size_t n = len < room_of(r) + 1 ? (size_t)len : room_of(r) + 1;
    char *room = gsp_buf_reserve(&data, n + 1);
    if (!room)
        return GSP_E_NOMEM;
    rc = gsp_proc_mem_read(v->mem, addr + v->layout->bytes_data, room, n);
    if (rc != 0)
        return rc;
    gsp_buf_puts(r->out, "b'");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)room[i];
        if (c >= 0x80U)
            gsp_buf_printf(r->out, "\\x%02x", c);
        else
            put_escaped(r->out, c);
    }
    gsp_buf_putc(r->out, '\'');
    return 0;
}

/* ---- Containers ---- */

/* Writes the separator before an item. Returns false if no more items are shown. */
static bool next_item(struct gsp_py__repr *r, size_t *shown)
{
    if (*shown > 0)
        gsp_buf_puts(r->out, ", ");
    if (*shown >= r->limits.items_max || is_full(r)) {
        gsp_buf_puts(r->out, "...");
        return false;
    }
    (*shown)++;
    return true;
}

static int write_items(struct gsp_py__repr *r, gsp_raddr items, uint64_t count)
{
    size_t shown = 0;
    for (uint64_t i = 0; i < count && next_item(r, &shown); i++) {
        uint64_t item = 0;
        int rc = gsp_proc_mem_read_u64(r->view.mem, items + i * sizeof(item), &item);
        rc = rc != 0 ? rc : write_object(r, item);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int write_list(struct gsp_py__repr *r, gsp_raddr addr)
{
    const struct gsp_py__view *v = &r->view;
    uint64_t count = 0;
    uint64_t items = 0;
    int rc = gsp_proc_mem_read_u64(v->mem, addr + v->layout->var_ob_size, &count);
    rc = rc != 0 ? rc : gsp_proc_mem_read_u64(v->mem, addr + v->layout->list_items, &items);
    if (rc != 0)
        return rc;
    gsp_buf_putc(r->out, '[');
    rc = write_items(r, items, count);
    gsp_buf_putc(r->out, ']');
    return rc;
}

static int write_tuple(struct gsp_py__repr *r, gsp_raddr addr)
{
    const struct gsp_py__view *v = &r->view;
    uint64_t count = 0;
    int rc = gsp_proc_mem_read_u64(v->mem, addr + v->layout->var_ob_size, &count);
    if (rc != 0)
        return rc;
    gsp_buf_putc(r->out, '(');
    rc = write_items(r, addr + v->layout->tuple_items, count);
    gsp_buf_puts(r->out, count == 1 ? ",)" : ")");
    return rc;
}

struct items {
    struct gsp_py__repr *r;
    size_t shown;
    int rc;
};

static bool write_pair(void *arg, gsp_raddr key, gsp_raddr value)
{
    struct items *items = arg;
    if (!next_item(items->r, &items->shown))
        return false;
    items->rc = write_object(items->r, key);
    if (items->rc == 0) {
        gsp_buf_puts(items->r->out, ": ");
        items->rc = write_object(items->r, value);
    }
    return items->rc == 0;
}

static int write_dict(struct gsp_py__repr *r, gsp_raddr addr)
{
    struct items items = {r, 0, 0};
    gsp_buf_putc(r->out, '{');
    int rc = gsp_py__dict_each(r->view.mem, r->view.layout, addr, write_pair, &items);
    gsp_buf_putc(r->out, '}');
    return rc != 0 ? rc : items.rc;
}

/* A slot is a key and its hash. A removed key has hash -1, which no key has. */
static int write_set_items(struct gsp_py__repr *r, gsp_raddr table, uint64_t slots, uint64_t used)
{
    size_t shown = 0;
    for (uint64_t i = 0; i < slots && used > 0; i++) {
        uint64_t slot[2] = {0, 0};
        int rc = gsp_proc_mem_read(r->view.mem, table + i * sizeof(slot), slot, sizeof(slot));
        if (rc != 0)
            return rc;
        if (slot[0] == 0 || slot[1] == UINT64_MAX) {
            /* Empty slots are cheap, but a hostile table can have 2^64 of them. */
            r->nodes += i % 64U == 63U;
            if (is_full(r))
                return 0;
            continue;
        }
        used--;
        if (!next_item(r, &shown))
            return 0;
        rc = write_object(r, slot[0]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int write_set(struct gsp_py__repr *r, gsp_raddr addr, bool frozen)
{
    const struct gsp_py_layout *l = r->view.layout;
    uint64_t used = 0;
    uint64_t mask = 0;
    uint64_t table = 0;
    struct gsp_mem_span spans[] = {
        {addr + l->set_used, sizeof(used), &used},
        {addr + l->set_mask, sizeof(mask), &mask},
        {addr + l->set_table, sizeof(table), &table},
    };
    int rc = gsp_proc_mem_gather(r->view.mem, spans, GSP_COUNT(spans), NULL);
    if (rc != 0)
        return rc;
    if (used == 0) {
        gsp_buf_puts(r->out, frozen ? "frozenset()" : "set()");
        return 0;
    }
    gsp_buf_puts(r->out, frozen ? "frozenset({" : "{");
    rc = write_set_items(r, table, mask == UINT64_MAX ? 0 : mask + 1, used);
    gsp_buf_puts(r->out, frozen ? "})" : "}");
    return rc;
}

/* ---- Any object ---- */

/* Writes an ellipsis for a container that contains itself or is nested too deeply. */
static int write_nested(struct gsp_py__repr *r, gsp_raddr addr, enum gsp_py__kind kind)
{
    static const char *const marks[] = {
        [GSP_PY__LIST] = "[...]",
        [GSP_PY__TUPLE] = "(...)",
        [GSP_PY__DICT] = "{...}",
        [GSP_PY__SET] = "{...}",
        [GSP_PY__FROZENSET] = "frozenset({...})",
    };
    bool inside = r->depth >= r->limits.depth_max || r->depth >= GSP_PY__DEPTH_MAX;
    for (unsigned i = 0; i < r->depth && !inside; i++)
        inside = r->open[i] == addr;
    if (inside) {
        gsp_buf_puts(r->out, marks[kind]);
        return 0;
    }
    r->open[r->depth++] = addr;
    int rc = kind == GSP_PY__LIST    ? write_list(r, addr)
             : kind == GSP_PY__TUPLE ? write_tuple(r, addr)
             : kind == GSP_PY__DICT  ? write_dict(r, addr)
                                     : write_set(r, addr, kind == GSP_PY__FROZENSET);
    r->depth--;
    return rc;
}

struct builtin {
    const char *name;
    uint64_t flag; /* set in every subclass; 0: recognized only by name */
    enum gsp_py__kind kind;
};

/* bool comes before int, because it is a subclass. */
static const struct builtin BUILTINS[] = {
    {"bool", 0, GSP_PY__BOOL},
    {"int", IS_LONG, GSP_PY__INT},
    {"str", IS_STR, GSP_PY__STR},
    {"bytes", IS_BYTES, GSP_PY__BYTES},
    {"list", IS_LIST, GSP_PY__LIST},
    {"tuple", IS_TUPLE, GSP_PY__TUPLE},
    {"dict", IS_DICT, GSP_PY__DICT},
    {"type", IS_TYPE, GSP_PY__TYPE},
    {"float", 0, GSP_PY__FLOAT},
    {"complex", 0, GSP_PY__COMPLEX},
    {"set", 0, GSP_PY__SET},
    {"frozenset", 0, GSP_PY__FROZENSET},
    {"NoneType", 0, GSP_PY__NONE},
    {"ellipsis", 0, GSP_PY__ELLIPSIS},
    {"NotImplementedType", 0, GSP_PY__NOT_IMPLEMENTED},
};

/* A class of the program can have any name, but it is never a static type, so only static types are
 * recognized by name. */
static const struct builtin *find_builtin(struct gsp_sv name, uint64_t flags, bool *exact)
{
    bool is_static = (flags & IS_HEAP_TYPE) == 0;
    for (size_t i = 0; i < GSP_COUNT(BUILTINS); i++) {
        const struct builtin *b = &BUILTINS[i];
        *exact = is_static && gsp_sv_eq(name, gsp_sv_of(b->name));
        if ((*exact && b->flag == 0) || (flags & b->flag) != 0)
            return b;
    }
    return NULL;
}

static int write_value(struct gsp_py__repr *r, gsp_raddr addr, enum gsp_py__kind kind)
{
    switch (kind) {
    case GSP_PY__BOOL:
        return write_bool(r, addr);
    case GSP_PY__INT:
        return write_int(r, addr);
    case GSP_PY__FLOAT:
        return write_float(r, addr);
    case GSP_PY__COMPLEX:
        return write_complex(r, addr);
    case GSP_PY__STR:
        return write_str(r, addr);
    case GSP_PY__BYTES:
        return write_bytes(r, addr);
    case GSP_PY__LIST:
    case GSP_PY__TUPLE:
    case GSP_PY__DICT:
    case GSP_PY__SET:
    case GSP_PY__FROZENSET:
        return write_nested(r, addr, kind);
    case GSP_PY__NONE:
        gsp_buf_puts(r->out, "None");
        return 0;
    case GSP_PY__ELLIPSIS:
        gsp_buf_puts(r->out, "Ellipsis");
        return 0;
    case GSP_PY__NOT_IMPLEMENTED:
        gsp_buf_puts(r->out, "NotImplemented");
        return 0;
    case GSP_PY__TYPE:
        gsp_buf_puts(r->out, "<class '");
        int rc = gsp_py__type_name(r->view.mem, r->view.layout, addr, r->out);
        gsp_buf_puts(r->out, "'>");
        return rc;
    }
    return GSP_E_FORMAT;
}

/* Writes an instance of a subclass: the name of its class, then its value. */
static int write_subclass(struct gsp_py__repr *r, gsp_raddr addr, struct gsp_sv name,
                          enum gsp_py__kind kind)
{
    gsp_buf_putsv(r->out, name);
    gsp_buf_putc(r->out, '(');
    int rc = write_value(r, addr, kind);
    gsp_buf_putc(r->out, ')');
    return rc;
}

/* Recognizes subclasses of types without a flag, such as float and set, by the names of the bases.
 */
static const struct builtin *find_by_base(struct gsp_py__repr *r, const struct gsp_py__type *type)
{
    const struct gsp_py_layout *l = r->view.layout;
    gsp_raddr base = type->base;
    bool exact = false;
    for (unsigned i = 0; i < BASES_MAX && base != 0; i++) {
        gsp_auto_buf name = {0};
        uint64_t flags = 0;
        if (gsp_py__type_name(r->view.mem, l, base, &name) != 0 ||
            gsp_proc_mem_read_u64(r->view.mem, base + l->type_flags, &flags) != 0)
            return NULL;
        const struct builtin *b = find_builtin(gsp_buf_sv(&name), flags, &exact);
        if (b || gsp_proc_mem_read_u64(r->view.mem, base + l->type_base, &base) != 0)
            return b;
    }
    return NULL;
}

static int write_typed(struct gsp_py__repr *r, gsp_raddr addr)
{
    struct gsp_py__type type;
    gsp_auto_buf name_buf = {0};
    bool exact = false;
    int rc = gsp_py__type_read(&r->view, addr, &type);
    rc = rc != 0 ? rc : gsp_py__type_name(r->view.mem, r->view.layout, type.addr, &name_buf);
    if (rc != 0)
        return rc;
    struct gsp_sv name = gsp_buf_sv(&name_buf);
    const struct builtin *b = find_builtin(name, type.flags, &exact);
    if (b && (exact || b->kind == GSP_PY__TYPE))
        return write_value(r, addr, b->kind);
    rc = gsp_py__write_array(r, addr, &type, name);
    if (rc <= 0)
        return rc;
    b = b ? b : find_by_base(r, &type);
    if (b)
        return write_subclass(r, addr, name, b->kind);
    gsp_buf_putc(r->out, '<');
    gsp_buf_putsv(r->out, name);
    gsp_buf_printf(r->out, " at 0x%" PRIx64 ">", addr);
    return 0;
}

static int write_object(struct gsp_py__repr *r, gsp_raddr addr)
{
    if (is_full(r)) {
        gsp_buf_puts(r->out, "...");
        return 0;
    }
    r->nodes++;
    if (addr == 0) {
        gsp_buf_puts(r->out, "<NULL>");
        return 0;
    }
    size_t before = r->out->len;
    int rc = write_typed(r, addr);
    if (rc == GSP_E_FAULT || rc == GSP_E_FORMAT) {
        r->out->len = before;
        gsp_buf_printf(r->out, "<unreadable at 0x%" PRIx64 ">", addr);
        return 0;
    }
    return rc;
}

/* Truncates the text to its limit, between characters. */
static void truncate_text(struct gsp_py__repr *r)
{
    size_t max = r->limits.bytes_max > 3 ? r->limits.bytes_max - 3 : 0;
    if (r->out->len - r->start <= r->limits.bytes_max)
        return;
    size_t len = r->start + max;
    while (len > r->start && ((unsigned char)r->out->p[len] & 0xc0U) == 0x80U)
        len--;
    r->out->len = len;
    gsp_buf_puts(r->out, "...");
}

int gsp_py_repr(struct gsp_mem *mem, const struct gsp_py_layout *layout, gsp_raddr addr,
                const struct gsp_py_repr_limits *limits, struct gsp_buf *out)
{
    struct gsp_py__repr r = {.view = {mem, layout}, .out = out, .start = out->len};
    if (limits)
        r.limits = *limits;
    r.limits.bytes_max = r.limits.bytes_max ? r.limits.bytes_max : BYTES_DEFAULT;
    r.limits.items_max = r.limits.items_max ? r.limits.items_max : ITEMS_DEFAULT;
    r.limits.depth_max = r.limits.depth_max ? r.limits.depth_max : DEPTH_DEFAULT;
    int rc = write_object(&r, addr);
    if (out->failed)
        return GSP_E_NOMEM;
    truncate_text(&r);
    return rc;
}
