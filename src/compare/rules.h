/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h -- limits for a comparison: "step_time > 5%".
 *
 * Reads:   NAME OP LIMIT. NAME is a metric, module:PATTERN or function:PATTERN (shell patterns). OP
 *          is > >= < or <=. LIMIT is a change in percent (5%), with a sign a change in the unit of
 *          the metric (+10ms, -100MB), else a value of the second recording (2GB).
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "compare/compare.h"

enum gsp_rule_kind { GSP_RULE_CHANGE_PCT, GSP_RULE_CHANGE, GSP_RULE_VALUE };
enum gsp_rule_subject { GSP_RULE_METRIC, GSP_RULE_MODULE, GSP_RULE_FUNCTION };

struct gsp_compare_rule {
    const char *text; /* the rule as typed; borrowed */
    enum gsp_rule_subject subject;
    enum gsp_rule_kind kind;
    char name[200];
    char limit_text[40];
    double limit;  /* a fraction for percentages, else a number in `unit` */
    char unit;     /* unit of the limit: 's', 'b' (bytes), ...; 0: that of the metric */
    bool is_above; /* > or >= */
    bool or_equal;
};

/* The result of a rule. */
struct gsp_compare_rule_result {
    const struct gsp_compare_rule *rule;
    const struct gsp_compare_row *row; /* the worst matching row; NULL: none matches */
    double value;                      /* the value compared with the limit */
    bool is_over;                      /* the limit is exceeded */
    bool is_significant; /* the difference is significant, or significance is not required */
    bool is_failed;
};

/* Parses a rule; text must outlive it. Fails with USAGE. */
GSP_MUST_CHECK int gsp_compare_rule_parse(const char *text, struct gsp_compare_rule *out,
                                          struct gsp_err *err);

/* Applies a rule to a comparison. Fails with USAGE if the name does not exist or the unit of the
 * limit does not fit, and with FORMAT if only one recording has the metric. */
GSP_MUST_CHECK int gsp_compare_rule_check(const struct gsp_compare_rule *rule,
                                          const struct gsp_compare *compare, bool any_change,
                                          struct gsp_compare_rule_result *out, struct gsp_err *err);
