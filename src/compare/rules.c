/* SPDX-License-Identifier: Apache-2.0 */
#include "compare/rules.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compare/compare_internal.h"

/* Metrics that a recording may have. */
static const char *const KNOWN[] = {
    "step_time",       "throughput",     "wall_time",  "cpu_time",  "energy",          "peak_rss",
    "peak_gpu_memory", "rss_growth",     "cpu",        "rss",       "gpu_util",        "power",
    "machine_cpu",     "machine_memory", "gpu_memory", "gpu_power", "gpu_temperature", "disk",
    "network",         "torch_memory"};

static const struct {
    const char *name;
    double factor;
    char unit;
} UNITS[] = {
    {"ns", 1e-9, 's'},
    {"us", 1e-6, 's'},
    {"ms", 1e-3, 's'},
    {"s", 1, 's'},
    {"min", 60, 's'},
    {"m", 60, 's'},
    {"h", 3600, 's'},
    {"b", 1, 'b'},
    {"k", 1024, 'b'},
    {"kb", 1024, 'b'},
    {"kib", 1024, 'b'},
    {"mb", 1048576, 'b'},
    {"mib", 1048576, 'b'},
    {"gb", 1073741824, 'b'},
    {"gib", 1073741824, 'b'},
    {"g", 1073741824, 'b'},
    {"t", 1099511627776, 'b'},
    {"tb", 1099511627776, 'b'},
    {"tib", 1099511627776, 'b'},
    {"w", 1, 'W'},
    {"kw", 1000, 'W'},
    {"j", 1, 'J'},
    {"kj", 1000, 'J'},
    {"steps/s", 1, 'r'},
};

static struct gsp_sv trimmed(struct gsp_sv text)
{
    while (text.len > 0 && strchr(" \t", text.p[0])) {
        text.p++;
        text.len--;
    }
    while (text.len > 0 && strchr(" \t", text.p[text.len - 1]))
        text.len--;
    return text;
}

static int malformed(const char *text, const char *why, struct gsp_err *err)
{
    return gsp_err_set(err, GSP_E_USAGE, 0, "invalid rule '%.80s': %s", text, why);
}

static bool copy(struct gsp_sv text, char *out, size_t cap)
{
    if (text.len == 0 || text.len >= cap || memchr(text.p, 0, text.len))
        return false;
    memcpy(out, text.p, text.len);
    out[text.len] = '\0';
    return true;
}

/* Parses the number and its unit. */
static int parse_limit(const char *text, struct gsp_compare_rule *out, struct gsp_err *err)
{
    char *end = NULL;
    const char *start = out->limit_text;
    /* strtod() would accept inf, nan and hexadecimal numbers. */
    if (strspn(start, "+-.0123456789") == 0)
        return malformed(text, "no number after the operator", err);
    out->limit = strtod(start, &end);
    if (end == start || !isfinite(out->limit) || strpbrk(start, "xXpP"))
        return malformed(text, "no number after the operator", err);
    const bool is_signed = start[0] == '+' || start[0] == '-';
    const struct gsp_sv unit = trimmed(gsp_sv_of(end));
    if (gsp_sv_eq(unit, gsp_sv_of("%"))) {
        out->kind = GSP_RULE_CHANGE_PCT;
        out->limit /= 100;
        return GSP_OK;
    }
    out->kind = is_signed ? GSP_RULE_CHANGE : GSP_RULE_VALUE;
    for (size_t i = 0; i < GSP_COUNT(UNITS); i++) {
        if (unit.len == strlen(UNITS[i].name) &&
            strncasecmp(unit.p, UNITS[i].name, unit.len) == 0) {
            out->limit *= UNITS[i].factor;
            out->unit = UNITS[i].unit;
            return GSP_OK;
        }
    }
    return unit.len == 0
               ? GSP_OK
               : malformed(text, "the unit is not one of % ns us ms s min h B KB MB GB W J", err);
}

int gsp_compare_rule_parse(const char *text, struct gsp_compare_rule *out, struct gsp_err *err)
{
    *out = (struct gsp_compare_rule){.text = text};
    /* The last operator: function names may contain others, such as "<listcomp>". */
    size_t at = strlen(text);
    while (at > 0 && text[at - 1] != '<' && text[at - 1] != '>')
        at--;
    if (at-- == 0)
        return malformed(text, "no comparison operator, as in step_time > 5%", err);
    struct gsp_sv name = trimmed((struct gsp_sv){text, at});
    if (gsp_sv_starts(name, "module:")) {
        out->subject = GSP_RULE_MODULE;
        name = trimmed((struct gsp_sv){name.p + 7, name.len - 7});
    } else if (gsp_sv_starts(name, "function:")) {
        out->subject = GSP_RULE_FUNCTION;
        name = trimmed((struct gsp_sv){name.p + 9, name.len - 9});
    }
    if (!copy(name, out->name, sizeof(out->name)))
        return malformed(text, "no name before the operator", err);
    out->is_above = text[at] == '>';
    out->or_equal = text[at + 1] == '=';
    const char *rest = text + at + (out->or_equal ? 2 : 1);
    if (!copy(trimmed(gsp_sv_of(rest)), out->limit_text, sizeof(out->limit_text)))
        return malformed(text, "no number after the operator", err);
    return parse_limit(text, out, err);
}

/* ----------------------------------------------------------------------------------------- check
 */

static bool unit_fits(const struct gsp_compare_rule *rule, struct gsp_sv unit)
{
    switch (rule->unit) {
    case 0:
        return true;
    case 's':
        return gsp_sv_eq(unit, gsp_sv_of("s"));
    case 'b':
        return gsp_sv_starts(unit, "bytes");
    case 'r':
        return gsp_sv_eq(unit, gsp_sv_of("steps/s"));
    default:
        return unit.len == 1 && unit.p[0] == rule->unit;
    }
}

static double value_for(const struct gsp_compare_rule *rule, const struct gsp_compare_row *row)
{
    if (rule->kind == GSP_RULE_CHANGE_PCT) {
        /* A change from 0 exceeds any percentage. */
        if (isnan(row->change) && !isnan(row->value[1] - row->value[0]))
            return row->value[1] > 0 ? (double)INFINITY : -(double)INFINITY;
        return row->change;
    }
    return rule->kind == GSP_RULE_CHANGE ? row->value[1] - row->value[0] : row->value[1];
}

static bool is_over(const struct gsp_compare_rule *rule, double value)
{
    if (isnan(value))
        return false;
    if (rule->or_equal && fabs(value - rule->limit) <= 1e-12 * fabs(rule->limit))
        return true;
    return rule->is_above ? value > rule->limit : value < rule->limit;
}

/* Keeps the row if it is worse than the current one: failed before passed, then the farthest from
 * the limit. */
static void consider(const struct gsp_compare_row *row, bool any_change,
                     struct gsp_compare_rule_result *out)
{
    const struct gsp_compare_rule *rule = out->rule;
    struct gsp_compare_rule_result one = {.rule = rule, .row = row, .value = value_for(rule, row)};
    one.is_over = is_over(rule, one.value);
    /* A limit on the value concerns only the second recording, so significance does not matter. */
    one.is_significant = any_change || rule->kind == GSP_RULE_VALUE || row->is_significant;
    one.is_failed = one.is_over && one.is_significant;
    const bool is_farther = rule->is_above ? one.value > out->value : one.value < out->value;
    if (!out->row || (one.is_failed && !out->is_failed) ||
        (one.is_failed == out->is_failed && is_farther))
        *out = one;
}

static bool matches(const char *pattern, struct gsp_sv name, struct gsp_sv whole)
{
    char text[512];
    return (copy(name, text, sizeof(text)) && fnmatch(pattern, text, 0) == 0) ||
           (copy(whole, text, sizeof(text)) && fnmatch(pattern, text, 0) == 0);
}

/* "layers.0" of "layers.0 forward". */
static struct gsp_sv without_stage(struct gsp_sv name)
{
    size_t at = name.len;
    while (at > 0 && name.p[at - 1] != ' ')
        at--;
    return (struct gsp_sv){name.p, at > 0 ? at - 1 : name.len};
}

static void consider_many(const struct gsp_compare *compare, bool any_change,
                          struct gsp_compare_rule_result *out)
{
    const char *pattern = out->rule->name;
    if (out->rule->subject == GSP_RULE_MODULE) {
        for (size_t i = 0; i < compare->module_count; i++) {
            const struct gsp_compare_row *row = &compare->modules[i];
            if (matches(pattern, without_stage(row->name), row->name))
                consider(row, any_change, out);
        }
        return;
    }
    for (size_t i = 0; i < compare->function_count; i++) {
        const struct gsp_compare_function *function = &compare->functions[compare->order[i]];
        gsp_auto_buf whole = {0};
        gsp_buf_putsv(&whole, function->row.name);
        gsp_buf_puts(&whole, " (");
        gsp_buf_putsv(&whole, function->file);
        gsp_buf_putc(&whole, ')');
        if (matches(pattern, function->row.name, gsp_buf_sv(&whole)))
            consider(&function->row, any_change, out);
    }
}

/* --------------------------------------------------------------------------------- unknown names
 */

struct nearest {
    const char *name_typed;
    char name[200];
    size_t distance;
};

static void try_name(struct nearest *nearest, struct gsp_sv name)
{
    char text[200];
    if (!copy(name, text, sizeof(text)))
        return;
    const size_t distance = gsp_str_distance(nearest->name_typed, text);
    if (distance < nearest->distance) {
        nearest->distance = distance;
        memcpy(nearest->name, text, sizeof(text));
    }
}

static int no_metric(const struct gsp_compare_rule *rule, const struct gsp_compare *compare,
                     struct gsp_err *err)
{
    bool known = gsp_report_chart_find(compare->side[0], rule->name) ||
                 gsp_report_chart_find(compare->side[1], rule->name);
    struct nearest nearest = {.name_typed = rule->name, .distance = 1 + strlen(rule->name) / 3};
    for (size_t i = 0; i < GSP_COUNT(KNOWN); i++) {
        known = known || strcmp(KNOWN[i], rule->name) == 0;
        try_name(&nearest, gsp_sv_of(KNOWN[i]));
    }
    if (known)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not in both recordings: %.60s", rule->name);
    gsp_auto_buf list = {0};
    for (size_t i = 0; i < compare->metric_count; i++) {
        try_name(&nearest, compare->metrics[i].name);
        if (list.len < 110)
            gsp_buf_puts(&list, i > 0 ? ", " : "");
        if (list.len < 110)
            gsp_buf_term(&list, compare->metrics[i].name);
    }
    for (size_t i = 0; compare->metric_count == 0 && i < GSP_COUNT(KNOWN) && list.len < 110; i++)
        gsp_buf_printf(&list, "%s%s", i > 0 ? ", " : "", KNOWN[i]);
    const char *names = gsp_buf_cstr(&list);
    return gsp_err_set(err, GSP_E_USAGE, 0, "no metric '%.50s'%s%.40s%s (available: %.110s)",
                       rule->name, nearest.name[0] ? ", did you mean '" : "", nearest.name,
                       nearest.name[0] ? "'?" : "", names ? names : "");
}

static int nothing_matches(const struct gsp_compare_rule *rule, const struct gsp_compare *compare,
                           struct gsp_err *err)
{
    const bool modules = rule->subject == GSP_RULE_MODULE;
    if (modules ? compare->module_count == 0 : compare->function_count == 0)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "not in both recordings: %s",
                           modules ? "modules" : "stacks");
    struct nearest nearest = {.name_typed = rule->name, .distance = 1 + strlen(rule->name) / 3};
    for (size_t i = 0; modules && i < compare->module_count; i++)
        try_name(&nearest, without_stage(compare->modules[i].name));
    for (size_t i = 0; !modules && i < compare->function_count; i++)
        try_name(&nearest, compare->functions[i].row.name);
    return gsp_err_set(
        err, GSP_E_USAGE, 0, "no %s '%.80s'%s%.80s%s", modules ? "module" : "function", rule->name,
        nearest.name[0] ? ", did you mean '" : "", nearest.name, nearest.name[0] ? "'?" : "");
}

int gsp_compare_rule_check(const struct gsp_compare_rule *rule, const struct gsp_compare *compare,
                           bool any_change, struct gsp_compare_rule_result *out,
                           struct gsp_err *err)
{
    *out = (struct gsp_compare_rule_result){.rule = rule};
    if (rule->subject == GSP_RULE_METRIC) {
        const struct gsp_compare_row *row = gsp_compare__metric_find(compare, rule->name);
        if (!row)
            return no_metric(rule, compare, err);
        consider(row, any_change, out);
    } else {
        consider_many(compare, any_change, out);
        if (!out->row)
            return nothing_matches(rule, compare, err);
    }
    if (!unit_fits(rule, out->row->unit))
        return gsp_err_set(err, GSP_E_USAGE, 0, "'%.80s': the unit of %.40s is %.*s", rule->text,
                           rule->name, (int)out->row->unit.len, out->row->unit.p);
    return GSP_OK;
}
