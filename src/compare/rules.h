/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h -- limits that a comparison must keep: "step_time > 5%".
 *
 * Reads:   NAME OP LIMIT.  NAME is a metric, module:PATTERN or function:PATTERN (patterns of the
 *          shell); OP is > >= < <=; LIMIT is a change in percent (5%), a change in the metric's
 *          unit when it has a sign (+10ms, -100MB), or a value of the second recording (2GB).
 * Used by: cli/cmd_compare.c.
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "compare/compare.h"

enum gsp_rule_kind { GSP_RULE_CHANGE_PCT, GSP_RULE_CHANGE, GSP_RULE_VALUE };
enum gsp_rule_subject { GSP_RULE_METRIC, GSP_RULE_MODULE, GSP_RULE_FUNCTION };

struct gsp_compare_rule {
    const char *text; /* as typed; borrowed */
    enum gsp_rule_subject subject;
    enum gsp_rule_kind kind;
    char name[200];
    char limit_text[40];
    double limit; /* a share, or a number in unit; of a text without a unit in that of the metric */
    char unit;    /* what the limit was typed in: 's', 'b' (bytes), 0: the metric's own */
    bool is_above; /* > or >= */
    bool or_equal;
};

/* What a rule came to. */
struct gsp_rule_result {
    const struct gsp_compare_rule *rule;
    const struct gsp_compare_row *row; /* the worst of those that the rule is about; NULL: none */
    double value;                      /* what was held against the limit */
    bool is_over;                      /* the limit was passed */
    bool is_told;                      /* the difference is significant, or need not be */
    bool is_failed;
};

/* Fails with USAGE. */
GSP_MUST_CHECK int gsp_rule_parse(const char *text, struct gsp_compare_rule *out,
                                  struct gsp_err *err);

/* Holds a rule against a comparison.  Fails with USAGE when there is no such name, or the limit's
 * unit is not the metric's; with FORMAT when only one of the two recordings has it. */
GSP_MUST_CHECK int gsp_rule_check(const struct gsp_compare_rule *rule,
                                  const struct gsp_compare *compare, bool any_change,
                                  struct gsp_rule_result *out, struct gsp_err *err);
