/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/map.h"
#include "export/formats.h"
#include "export/marshal.h"

/* Own time that remains after subtracting the shares of all callers. Up to this amount it is a
 * rounding error. */
#define ROUNDING_NS 100

/* Totals of a function, or of a pair of caller and callee. */
struct sums {
    uint64_t primitive; /* samples that contain it */
    uint64_t calls;     /* its occurrences in the stacks of those samples */
    int64_t own;
    int64_t total;
};

struct function {
    struct gsp_frame frame; /* any of the function's frames */
    struct sums sums;
    uint32_t on_path;    /* its occurrences on the path to the current stack */
    uint32_t first_edge; /* 1 + index; 0 if it has no caller */
};

struct edge {
    struct sums sums;
    uint32_t caller; /* function */
    uint32_t on_path;
    uint32_t next; /* 1 + index of the next edge to the same callee */
};

/* A stack of the profile. Element 0 of the array is the root. */
struct stack {
    uint32_t first_child;
    uint32_t next_sibling;
    uint32_t function; /* 1 + index */
    uint32_t edge;     /* 1 + index; 0 for a root */
    uint64_t own_count;
    uint64_t total_count;
    int64_t own;
    int64_t total;
};

struct writer {
    const struct gsp_profile *profile;
    struct gsp_out *out;
    struct gsp_buf text;
    double seconds_per_unit;
    struct stack *stacks;
    size_t stack_count;
    struct function *functions;
    size_t function_count;
    struct edge *edges;
    size_t edge_count;
    size_t edge_cap;
    struct gsp_hmap by_key;  /* name and file, first line -> function */
    struct gsp_hmap by_pair; /* caller, callee -> edge */
};

/* Adds samples to their stacks, then each stack to its caller, whose id is always smaller. */
static void sum_stacks(struct writer *w)
{
    bool counts = gsp_model_profile_meta_get(w->profile)->unit == GSP_UNIT_COUNT;
    for (size_t i = 0; i < gsp_model_profile_total_count(w->profile); i++) {
        const struct gsp_total *total = gsp_model_profile_total_at(w->profile, i);
        struct stack *stack = &w->stacks[total->stack];
        uint64_t count = total->count;
        if (counts)
            count = total->weight > 0 ? (uint64_t)total->weight : 0;
        stack->own_count = gsp_sum_u64(stack->own_count, count);
        stack->own = gsp_sum_i64(stack->own, total->weight);
    }
    for (size_t i = w->stack_count; i > 0; i--) {
        struct stack *stack = &w->stacks[i];
        uint32_t caller = gsp_model_profile_stack_caller(w->profile, (uint32_t)i);
        struct stack *above = &w->stacks[caller < i ? caller : 0];
        stack->total_count = gsp_sum_u64(stack->total_count, stack->own_count);
        stack->total = gsp_sum_i64(stack->total, stack->own);
        above->total_count = gsp_sum_u64(above->total_count, stack->total_count);
        above->total = gsp_sum_i64(above->total, stack->total);
        stack->next_sibling = above->first_child;
        above->first_child = (uint32_t)i;
    }
}

/* Frames with the same name, file and first line are of the same function. */
static bool function_of(struct writer *w, uint32_t frame_id, uint32_t *out)
{
    const struct gsp_frame *frame = gsp_model_profile_frame_at(w->profile, frame_id);
    if (!frame)
        return false;
    uint64_t name_and_file = (uint64_t)frame->name << 32 | frame->file;
    const uint32_t *known = gsp_hmap_get(&w->by_key, name_and_file, frame->first_line);
    if (known) {
        *out = *known;
        return true;
    }
    *out = (uint32_t)w->function_count;
    if (!gsp_hmap_put(&w->by_key, name_and_file, frame->first_line, *out))
        return false;
    w->functions[w->function_count++].frame = *frame;
    return true;
}

static bool edge_of(struct writer *w, uint32_t caller, uint32_t callee, uint32_t *out)
{
    const uint32_t *known = gsp_hmap_get(&w->by_pair, caller, callee);
    if (known) {
        *out = *known;
        return true;
    }
    if (!gsp_array_fit(&w->edges, &w->edge_cap, w->edge_count + 1))
        return false;
    *out = (uint32_t)w->edge_count;
    if (!gsp_hmap_put(&w->by_pair, caller, callee, *out))
        return false;
    w->edges[w->edge_count++] =
        (struct edge){.caller = caller, .next = w->functions[callee].first_edge};
    w->functions[callee].first_edge = *out + 1;
    return true;
}

static bool name_stacks(struct writer *w)
{
    for (uint32_t i = 1; i <= w->stack_count; i++) {
        struct stack *stack = &w->stacks[i];
        if (stack->total_count == 0)
            continue; /* interned, but never sampled */
        uint32_t caller = gsp_model_profile_stack_caller(w->profile, i);
        uint32_t function = 0;
        uint32_t edge = 0;
        if (!function_of(w, gsp_model_profile_stack_frame(w->profile, i), &function))
            return false;
        stack->function = function + 1;
        if (caller == GSP_NONE || caller >= i)
            continue;
        if (!edge_of(w, w->stacks[caller].function - 1, function, &edge))
            return false;
        stack->edge = edge + 1;
    }
    return true;
}

static void add(struct sums *sums, const struct stack *stack, bool outermost)
{
    sums->calls = gsp_sum_u64(sums->calls, stack->total_count);
    sums->own = gsp_sum_i64(sums->own, stack->own);
    if (outermost) {
        sums->primitive = gsp_sum_u64(sums->primitive, stack->total_count);
        sums->total = gsp_sum_i64(sums->total, stack->total);
    }
}

static void enter(struct writer *w, const struct stack *stack)
{
    struct function *function = &w->functions[stack->function - 1];
    add(&function->sums, stack, function->on_path++ == 0);
    if (stack->edge > 0 && w->edges) {
        struct edge *edge = &w->edges[stack->edge - 1];
        add(&edge->sums, stack, edge->on_path++ == 0);
    }
}

static void leave(struct writer *w, const struct stack *stack)
{
    w->functions[stack->function - 1].on_path--;
    if (stack->edge > 0 && w->edges)
        w->edges[stack->edge - 1].on_path--;
}

/* Returns the first sampled stack among i and its next siblings; 0 if none was sampled. */
static uint32_t sampled(const struct writer *w, uint32_t i)
{
    while (i != 0 && w->stacks[i].function == 0)
        i = w->stacks[i].next_sibling;
    return i;
}

/* Visits the tree of stacks depth first, which detects recursion on the way down. */
static void sum_functions(struct writer *w)
{
    uint32_t i = sampled(w, w->stacks[0].first_child);
    while (i != 0) {
        enter(w, &w->stacks[i]);
        uint32_t next = sampled(w, w->stacks[i].first_child);
        while (next == 0 && i != 0) {
            leave(w, &w->stacks[i]);
            next = sampled(w, w->stacks[i].next_sibling);
            i = gsp_model_profile_stack_caller(w->profile, i);
        }
        i = next;
    }
}

static void put_key(struct writer *w, const struct function *function)
{
    struct gsp_buf *buf = &w->out->buf;
    struct gsp_sv file = gsp_model_profile_string_at(w->profile, function->frame.file);
    struct gsp_sv name = gsp_model_profile_string_at(w->profile, function->frame.name);
    gsp_export__marshal_tuple(buf, 3);
    /* Python's profilers write "~" for a function without a file. */
    gsp_export__marshal_str(buf, &w->text, file.len > 0 ? file : gsp_sv_of("~"));
    gsp_export__marshal_int(buf, function->frame.first_line);
    gsp_export__marshal_str(buf, &w->text, name);
}

static void put_function(struct writer *w, const struct function *function)
{
    struct gsp_buf *buf = &w->out->buf;
    put_key(w, function);
    gsp_export__marshal_tuple(buf, 5);
    gsp_export__marshal_int(buf, function->sums.primitive);
    gsp_export__marshal_int(buf, function->sums.calls);
    gsp_export__marshal_float(buf, (double)function->sums.own * w->seconds_per_unit);
    gsp_export__marshal_float(buf, (double)function->sums.total * w->seconds_per_unit);
    gsp_export__marshal_dict_begin(buf);
    for (uint32_t e = function->first_edge; e != 0; e = w->edges[e - 1].next) {
        const struct edge *edge = &w->edges[e - 1];
        put_key(w, &w->functions[edge->caller]);
        /* Callers have all calls first; functions have the primitive calls first. */
        gsp_export__marshal_tuple(buf, 4);
        gsp_export__marshal_int(buf, edge->sums.calls);
        gsp_export__marshal_int(buf, edge->sums.primitive);
        gsp_export__marshal_float(buf, (double)edge->sums.own * w->seconds_per_unit);
        gsp_export__marshal_float(buf, (double)edge->sums.total * w->seconds_per_unit);
    }
    gsp_export__marshal_dict_end(buf);
    gsp_out_spill(w->out);
}

static bool write_all(struct writer *w)
{
    w->stack_count = gsp_model_profile_stack_count(w->profile);
    w->stacks = calloc(w->stack_count + 1, sizeof(*w->stacks));
    w->functions = calloc(gsp_model_profile_frame_count(w->profile) + 1, sizeof(*w->functions));
    if (!w->stacks || !w->functions)
        return false;
    sum_stacks(w);
    if (!name_stacks(w))
        return false;
    sum_functions(w);
    gsp_export__marshal_dict_begin(&w->out->buf);
    for (size_t i = 0; i < w->function_count; i++)
        put_function(w, &w->functions[i]);
    gsp_export__marshal_dict_end(&w->out->buf);
    return !w->out->buf.failed && !w->text.failed;
}

static int write_pstats(const struct gsp_profile *profile,
                        const struct gsp_view_options *view GSP_UNUSED, struct gsp_out *out,
                        struct gsp_err *err)
{
    const struct gsp_model_profile_meta *meta = gsp_model_profile_meta_get(profile);
    struct writer w = {.profile = profile, .out = out, .seconds_per_unit = 1};
    if (meta->unit == GSP_UNIT_NS)
        w.seconds_per_unit = 1e-9;
    else if (meta->unit == GSP_UNIT_COUNT && meta->period_ns > 0)
        w.seconds_per_unit = (double)meta->period_ns * 1e-9;
    bool ok = write_all(&w);
    gsp_hmap_free(&w.by_key);
    gsp_hmap_free(&w.by_pair);
    gsp_buf_free(&w.text);
    free(w.stacks);
    free(w.functions);
    free(w.edges);
    if (!ok)
        return gsp_err_nomem(err);
    return GSP_OK;
}

struct reader {
    const struct gsp_marshal *doc;
    struct gsp_profile *profile;
    struct gsp_err *err;
    uint32_t *strings; /* 1 + string id, by value; 0: not yet interned */
    size_t budget;     /* number of callers that may still be read: references may multiply them */
    uint32_t thread;
    int64_t time_ns;
};

/* Converts seconds to nanoseconds. Negative values and NaN become 0. */
static int64_t ns_of(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return seconds < 9e9 ? (int64_t)llround(seconds * 1e9) : (int64_t)9e18;
}

static double number(const struct gsp_marshal *doc, uint32_t value)
{
    const struct gsp_marshal_value *v = gsp_export__marshal_at(doc, value);
    if (v && v->type == GSP_MARSHAL_INT)
        return (double)v->integer;
    return v && v->type == GSP_MARSHAL_FLOAT ? v->real : 0;
}

/* Interns a string only once, even if it is referred to repeatedly. */
static int string_of(struct reader *r, uint32_t value, uint32_t *out)
{
    int rc = GSP_OK;
    if (r->strings[value] == 0) {
        rc = gsp_model_profile_string(r->profile, gsp_export__marshal_at(r->doc, value)->text, out,
                                      r->err);
        r->strings[value] = rc == GSP_OK ? *out + 1 : 0;
    }
    *out = r->strings[value] - 1;
    return rc;
}

/* Returns the stack in which caller calls the function with a key (file, line, name). */
static int stack_of_key(struct reader *r, uint32_t caller, uint32_t key, uint32_t *out)
{
    const struct gsp_marshal_value *v = gsp_export__marshal_at(r->doc, key);
    const struct gsp_marshal_value *part[3] = {0};
    for (uint32_t i = 0; v && v->type == GSP_MARSHAL_TUPLE && v->count == 3 && i < 3; i++)
        part[i] = gsp_export__marshal_at(r->doc, gsp_export__marshal_item(r->doc, key, i));
    if (!part[0] || !part[1] || !part[2] || part[0]->type != GSP_MARSHAL_STR ||
        part[1]->type != GSP_MARSHAL_INT || part[2]->type != GSP_MARSHAL_STR)
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "a function is not (file, line, name)");
    struct gsp_frame frame = {.kind = GSP_FRAME_PYTHON};
    bool has_file = part[0]->text.len > 0 && !gsp_sv_eq(part[0]->text, gsp_sv_of("~"));
    int64_t line = part[1]->integer;
    frame.line = line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
    frame.first_line = frame.line;
    if (!has_file)
        frame.kind = GSP_FRAME_NATIVE;
    int rc = string_of(r, gsp_export__marshal_item(r->doc, key, 2), &frame.name);
    if (rc == GSP_OK && has_file)
        rc = string_of(r, gsp_export__marshal_item(r->doc, key, 0), &frame.file);
    uint32_t id = GSP_NONE;
    if (rc == GSP_OK)
        rc = gsp_model_profile_frame(r->profile, &frame, &id, r->err);
    return rc == GSP_OK ? gsp_model_profile_stack(r->profile, caller, id, out, r->err) : rc;
}

static int add_sample(struct reader *r, uint32_t stack, int64_t weight_ns)
{
    r->time_ns = gsp_sum_i64(r->time_ns, weight_ns);
    const struct gsp_sample sample = {
        .time_ns = r->time_ns, .weight = weight_ns, .thread = r->thread, .stack = stack};
    return gsp_model_profile_add(r->profile, &sample, r->err);
}

/* Returns the own time that a function spent under one caller. cProfile records it. The older
 * profile module records only numbers of calls, which divide the function's own time. */
static int64_t own_under(const struct reader *r, uint32_t value, double own, double calls)
{
    const struct gsp_marshal_value *v = gsp_export__marshal_at(r->doc, value);
    if (v && v->type == GSP_MARSHAL_TUPLE && v->count == 4)
        return ns_of(number(r->doc, gsp_export__marshal_item(r->doc, value, 2)));
    if (v && v->type == GSP_MARSHAL_INT && calls > 0)
        return ns_of(own * (double)v->integer / calls);
    return 0;
}

/* Reads a function: a stack of two frames for every caller, and a stack of one for the rest. */
static int read_function(struct reader *r, uint32_t key, uint32_t value)
{
    const struct gsp_marshal_value *v = gsp_export__marshal_at(r->doc, value);
    uint32_t callers = gsp_export__marshal_item(r->doc, value, 4);
    const struct gsp_marshal_value *dict = gsp_export__marshal_at(r->doc, callers);
    if (!v || v->type != GSP_MARSHAL_TUPLE || v->count != 5 || !dict ||
        dict->type != GSP_MARSHAL_DICT)
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "a function does not have five values");
    if (dict->count > r->budget)
        return gsp_err_set(r->err, GSP_E_LIMIT, 0, "more callers than the size of the file allows");
    r->budget -= dict->count;
    double own = number(r->doc, gsp_export__marshal_item(r->doc, value, 2));
    int64_t left_ns = ns_of(own);
    double calls = 0;
    for (uint32_t i = 1; i < dict->count; i += 2) {
        const struct gsp_marshal_value *n =
            gsp_export__marshal_at(r->doc, gsp_export__marshal_item(r->doc, callers, i));
        if (n && n->type == GSP_MARSHAL_INT && n->integer > 0)
            calls += (double)n->integer;
    }
    int rc = GSP_OK;
    for (uint32_t i = 0; rc == GSP_OK && i + 1 < dict->count; i += 2) {
        uint32_t stack = GSP_NONE;
        int64_t own_ns = own_under(r, gsp_export__marshal_item(r->doc, callers, i + 1), own, calls);
        /* The sum over the callers may exceed the function's own time. */
        own_ns = own_ns < left_ns ? own_ns : left_ns;
        left_ns -= own_ns;
        rc = stack_of_key(r, GSP_NONE, gsp_export__marshal_item(r->doc, callers, i), &stack);
        if (rc == GSP_OK)
            rc = stack_of_key(r, stack, key, &stack);
        if (rc == GSP_OK)
            rc = add_sample(r, stack, own_ns);
    }
    if (rc == GSP_OK && (dict->count == 0 || left_ns > ROUNDING_NS)) {
        uint32_t stack = GSP_NONE;
        rc = stack_of_key(r, GSP_NONE, key, &stack);
        rc = rc == GSP_OK ? add_sample(r, stack, left_ns) : rc;
    }
    return rc;
}

static int read_all(struct reader *r)
{
    const struct gsp_marshal_value *root =
        gsp_export__marshal_at(r->doc, gsp_export__marshal_root(r->doc));
    if (!root || root->type != GSP_MARSHAL_DICT)
        return gsp_err_set(r->err, GSP_E_FORMAT, 0, "not a table of functions");
    struct gsp_process process = {.pid = 0, .ppid = -1};
    struct gsp_thread thread = {.is_main = true};
    int rc = gsp_model_profile_process(r->profile, &process, &thread.process, r->err);
    if (rc == GSP_OK)
        rc = gsp_model_profile_thread(r->profile, &thread, &r->thread, r->err);
    for (uint32_t i = 0; rc == GSP_OK && i + 1 < root->count; i += 2) {
        uint32_t key = gsp_export__marshal_item(r->doc, gsp_export__marshal_root(r->doc), i);
        const struct gsp_marshal_value *k = gsp_export__marshal_at(r->doc, key);
        if (k && k->type == GSP_MARSHAL_STR)
            continue; /* a marker of another tool, such as hotshot */
        rc = read_function(
            r, key, gsp_export__marshal_item(r->doc, gsp_export__marshal_root(r->doc), i + 1));
    }
    struct gsp_model_profile_meta *meta = gsp_model_profile_meta(r->profile);
    meta->unit = GSP_UNIT_NS;
    meta->duration_ns = r->time_ns;
    return rc;
}

static int read_pstats(struct gsp_sv bytes, struct gsp_profile *profile, struct gsp_err *err)
{
    struct gsp_marshal *doc = NULL;
    int rc = gsp_export__marshal_read(bytes, &doc, err);
    if (rc < 0)
        return rc;
    struct reader r = {.doc = doc, .profile = profile, .err = err, .budget = bytes.len};
    r.strings = calloc(gsp_export__marshal_count(doc), sizeof(*r.strings));
    rc = r.strings ? read_all(&r) : gsp_err_nomem(err);
    free(r.strings);
    gsp_export__marshal_free(doc);
    return rc;
}

/* A dictionary that is empty or whose first key is a tuple of three, with or without the reference
 * flag. */
static bool sniff_pstats(struct gsp_sv head)
{
    if (head.len < 2 || (head.p[0] & 0x7f) != '{')
        return false;
    char next = (char)(head.p[1] & 0x7f);
    bool tuple = (next == ')' && head.len > 2 && head.p[2] == 3) ||
                 (next == '(' && head.len > 5 && memcmp(head.p + 2, "\3\0\0\0", 4) == 0);
    return tuple || (next == '0' && head.len == 2);
}

const struct gsp_format gsp_format_pstats = {
    .name = "pstats",
    .aliases = {"prof"},
    .extensions = {".prof", ".pstats"},
    .summary = "table of functions, for Python's pstats and related tools",
    .write = write_pstats,
    .read = read_pstats,
    .sniff = sniff_pstats,
};
